/* Helpers of emission rules: shapes, views, numbers. */
#include "ops/emit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"

pl_dtype pl_emit_compute(pl_dtype dtype) {
    return dtype == PL_F16 || dtype == PL_BF16 ? PL_F32 : dtype;
}

bool pl_emit_is_float(pl_dtype d) {
    return d == PL_F32 || d == PL_F16 || d == PL_BF16 || d == PL_F64;
}

static void dims_of(const pl_type *type, int64_t *dims) {
    for (int d = 0; d < type->rank; d++)
        dims[d] = type->dims[d].value;
}
void pl_emit_in_dims(const pl_emit *c, int i, int64_t *dims) {
    dims_of(c->in[i], dims);
}
void pl_emit_out_dims(const pl_emit *c, int i, int64_t *dims) {
    dims_of(c->out[i], dims);
}

unsigned pl_emit_axes_from(int first, int rank) {
    unsigned axes = 0;
    for (int d = first; d < rank; d++)
        axes |= 1u << d;
    return axes;
}

int pl_emit_rank(const pl_emit *c, int i) {
    return c->in[i]->rank;
}

int64_t pl_emit_dim(const pl_emit *c, int i, int axis) {
    return c->in[i]->dims[axis].value;
}

int64_t pl_emit_elements(const pl_type *type) {
    int64_t n = 1;
    for (int d = 0; d < type->rank; d++)
        n *= type->dims[d].value;
    return n;
}

int pl_emit_axis(int64_t axis, int rank) {
    return (int)(axis < 0 ? axis + rank : axis);
}

bool pl_emit_ints(const pl_emit *c, int i, int64_t *out, size_t *n) {
    const pl_tensor *t = i < c->n_in ? c->in_tensor[i] : NULL;
    if (t == NULL || t->n_elements > PL_EMIT_RANK_MAX || !pl_dtype_is_integer(t->dtype)) {
        return false;
    }
    *n = (size_t)t->n_elements;
    pl_load_i64(t->dtype, t->data, out, *n);
    return true;
}

/* ---- building ---- */

pl_ref pl_emit_in(pl_emit *c, int i) {
    return pl_emit_has(c, i) ? c->builder->in(c, i) : -1;
}

pl_ref pl_emit_map(pl_emit *c, pl_dtype dtype, const char *expr, int n, const pl_ref *args) {
    for (int i = 0; i < n; i++)
        if (args[i] < 0) return -1;
    return n > PL_EMIT_ARGS_MAX ? -1 : c->builder->map(c, dtype, expr, n, args);
}
pl_ref pl_emit_map1(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a) {
    return pl_emit_map(c, dtype, expr, 1, &a);
}
pl_ref pl_emit_map2(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a, pl_ref b) {
    return pl_emit_map(c, dtype, expr, 2, (const pl_ref[]){ a, b });
}
pl_ref pl_emit_map3(pl_emit *c, pl_dtype dtype, const char *expr, pl_ref a, pl_ref b, pl_ref d) {
    return pl_emit_map(c, dtype, expr, 3, (const pl_ref[]){ a, b, d });
}

pl_ref pl_emit_numbers(pl_emit *c, pl_dtype dtype, const double *values, int64_t n) {
    pl_tensor *t = NULL;
    if (pl_tensor_new(dtype, 1, &n, &t, NULL) != PL_OK) return -1;
    pl_store_f64(dtype, values, t->data, (size_t)n);
    return c->builder->tensor(c, t);
}
pl_ref pl_emit_constant(pl_emit *c, pl_dtype dtype, double value) {
    char number[64];
    return pl_emit_map(c, dtype, pl_emit_number(value, number), 0, NULL);
}
pl_ref pl_emit_iota(pl_emit *c, int rank, int axis, int64_t n) {
    return rank > PL_EMIT_RANK_MAX ? -1 : c->builder->iota(c, rank, axis, n);
}
pl_ref pl_emit_load(pl_emit *c, pl_ref x, pl_ref at) {
    return x < 0 || at < 0 ? -1 : c->builder->load(c, x, at);
}
pl_ref pl_emit_checked(pl_emit *c, pl_ref indices, int64_t n) {
    char expr[80];
    snprintf(expr, sizeof(expr), "px_index($0, %lld, $F)", (long long)n);
    return pl_emit_map1(c, PL_I64, expr, indices);
}
pl_ref pl_emit_convert(pl_emit *c, pl_ref x, pl_dtype dtype) {
    return x < 0 ? -1 : c->builder->convert(c, x, dtype);
}
pl_ref pl_emit_kernel_call(pl_emit *c, const pl_emit_kernel *kernel, int n, const pl_ref *args) {
    for (int i = 0; i < n; i++)
        if (args[i] < 0) return -1;
    return n > PL_EMIT_ARGS_MAX || kernel->rank > PL_EMIT_RANK_MAX
               ? -1
               : c->builder->kernel(c, kernel, n, args);
}

pl_ref pl_emit_reduce(pl_emit *c, pl_fold fold, pl_dtype in, pl_ref x, unsigned axes) {
    return x < 0 ? -1 : c->builder->reduce(c, fold, in, x, axes);
}

pl_ref pl_emit_scalar(pl_emit *c, pl_ref x) {
    return pl_emit_reshape(c, x, 0, NULL);
}
pl_ref pl_emit_along(pl_emit *c, pl_ref x, int rank, int axis) {
    int64_t from[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX], n = 1;
    pl_dtype dtype;
    if (x < 0 || rank > PL_EMIT_RANK_MAX) return -1;
    const int base = c->builder->dims(c, x, from, &dtype);
    for (int d = 0; d < base; d++)
        n *= from[d];
    for (int d = 0; d < rank; d++)
        dims[d] = d == axis ? n : 1;
    return pl_emit_reshape(c, x, rank, dims);
}

static pl_emit_index index_zero(int rows, int cols) {
    pl_emit_index at;
    memset(&at, 0, sizeof(at));
    at.rows = rows;
    at.cols = cols;
    return at;
}

pl_ref pl_emit_transpose(pl_emit *c, pl_ref x, const int *perm) {
    int64_t from[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX];
    pl_dtype dtype;
    if (x < 0) return -1;
    const int rank = c->builder->dims(c, x, from, &dtype);
    pl_emit_index at = index_zero(rank, rank);
    for (int d = 0; d < rank; d++) {
        dims[d] = from[perm[d]];
        at.c[perm[d]][d] = 1;
    }
    return c->builder->view(c, x, rank, dims, &at);
}

/* Shape rules may leave a size check to the kernel. Without this check emitted code could read
 * beyond x. */
static bool same_count(pl_emit *c, pl_ref x, int rank, const int64_t *dims) {
    int64_t from[PL_EMIT_RANK_MAX], n = 1, all = 1;
    pl_dtype dtype;
    const int base = c->builder->dims(c, x, from, &dtype);
    for (int d = 0; d < base; d++)
        n *= from[d];
    for (int d = 0; d < rank; d++)
        if (!pl_i64_mul(all, dims[d], &all)) return false;
    return n == all;
}

pl_ref pl_emit_reshape(pl_emit *c, pl_ref x, int rank, const int64_t *dims) {
    if (x < 0 || rank > PL_EMIT_RANK_MAX || !same_count(c, x, rank, dims)) return -1;
    return c->builder->reshape(c, x, rank, dims);
}

pl_ref pl_emit_slice(pl_emit *c, pl_ref x, const int64_t *starts, const int64_t *steps,
                     const int64_t *dims) {
    int64_t from[PL_EMIT_RANK_MAX];
    pl_dtype dtype;
    if (x < 0) return -1;
    const int rank = c->builder->dims(c, x, from, &dtype);
    pl_emit_index at = index_zero(rank, rank);
    for (int d = 0; d < rank; d++) {
        at.c[d][d] = steps == NULL ? 1 : steps[d];
        at.k[d] = starts[d];
    }
    return c->builder->view(c, x, rank, dims, &at);
}

pl_ref pl_emit_expand(pl_emit *c, pl_ref x, int rank, const int64_t *dims) {
    int64_t from[PL_EMIT_RANK_MAX];
    pl_dtype dtype;
    if (x < 0) return -1;
    const int base = c->builder->dims(c, x, from, &dtype);
    if (base > rank || rank > PL_EMIT_RANK_MAX) return -1;
    pl_emit_index at = index_zero(base, rank);
    for (int d = 0; d < base; d++)
        at.c[d][rank - base + d] = from[d] == dims[rank - base + d] ? 1 : 0;
    return c->builder->view(c, x, rank, dims, &at);
}

pl_status pl_emit_out(pl_emit *c, int i, pl_ref x) {
    if (x < 0) return pl_emit_decline(c, c->reason != NULL ? c->reason : "too many dims or inputs");
    if (pl_emit_wants(c, i)) c->builder->out(c, i, x);
    return PL_OK;
}

pl_status pl_emit_decline(pl_emit *c, const char *reason) {
    c->reason = reason;
    return PL_E_UNSUPPORTED;
}

const char *pl_emit_number(double value, char *out) {
    if (isnan(value)) {
        snprintf(out, 64, "($T)__builtin_nan(\"\")");
    } else if (isinf(value)) {
        snprintf(out, 64, "($T)%s__builtin_inf()", value < 0 ? "-" : "");
    } else {
        snprintf(out, 64, "($T)%a", value);
    }
    return out;
}

/* ---- along axes ---- */

pl_ref pl_emit_wide(pl_emit *c, int i) {
    if (!pl_emit_has(c, i)) return -1;
    return pl_emit_convert(c, pl_emit_in(c, i), pl_emit_compute(c->in[i]->dtype));
}

int64_t pl_emit_count(const pl_emit *c, unsigned axes) {
    int64_t n = 1;
    for (int d = 0; d < pl_emit_rank(c, 0); d++)
        if ((axes >> d & 1) != 0) n *= pl_emit_dim(c, 0, d);
    return n;
}

pl_ref pl_emit_position(pl_emit *c, unsigned axes) {
    const int rank = pl_emit_rank(c, 0);
    int64_t stride = 1;
    pl_ref sum = -1;
    for (int d = rank - 1; d >= 0; d--) {
        char expr[100];
        if ((axes >> d & 1) == 0) continue;
        snprintf(expr, sizeof(expr), "$0 * %lld", (long long)stride);
        const pl_ref i = pl_emit_map1(c, PL_I64, stride == 1 ? "$0" : expr,
                                      pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d)));
        sum = sum < 0 ? i : pl_emit_map2(c, PL_I64, "$0 + $1", sum, i);
        stride *= pl_emit_dim(c, 0, d);
    }
    return sum;
}

pl_ref pl_emit_extreme_at(pl_emit *c, unsigned axes, bool smallest, bool last) {
    char expr[160];
    const pl_dtype dtype = pl_emit_compute(c->in[0]->dtype);
    const pl_ref x = pl_emit_in(c, 0), at = pl_emit_position(c, axes);
    const pl_ref best = pl_emit_reduce(c, smallest ? PL_FOLD_MIN : PL_FOLD_MAX, dtype, x, axes);
    snprintf(expr, sizeof(expr), "$0 == $1 || ($0 != $0 && $1 != $1) ? $2 : %lld",
             last ? -1LL : (long long)pl_emit_count(c, axes));
    const pl_ref found = pl_emit_map3(c, PL_I64, expr, x, best, at);
    return pl_emit_reduce(c, last ? PL_FOLD_MAX : PL_FOLD_MIN, PL_I64, found, axes);
}

/* ---- places ---- */

pl_ref pl_emit_add_part(pl_emit *c, pl_ref sum, pl_ref part, int64_t stride) {
    char expr[80];
    snprintf(expr, sizeof(expr), sum < 0 ? "$0 * %lld" : "$1 + $0 * %lld", (long long)stride);
    return sum < 0 ? pl_emit_map1(c, PL_I64, expr, part) : pl_emit_map2(c, PL_I64, expr, part, sum);
}

void pl_emit_strides(const pl_emit *c, int i, int64_t *strides) {
    int64_t n = 1;
    for (int d = pl_emit_rank(c, i) - 1; d >= 0; d--) {
        strides[d] = n;
        n *= pl_emit_dim(c, i, d);
    }
}

pl_ref pl_emit_place(pl_emit *c, const pl_ref *at) {
    const int rank = pl_emit_rank(c, 0);
    int64_t stride = 1;
    pl_ref sum = -1;
    for (int d = rank - 1; d >= 0; d--) {
        char expr[80];
        snprintf(expr, sizeof(expr), "$0 * %lld", (long long)stride);
        const pl_ref part = pl_emit_map1(c, PL_I64, stride == 1 ? "$0" : expr, at[d]);
        sum = sum < 0 ? part : pl_emit_map2(c, PL_I64, "$0 + $1", sum, part);
        stride *= pl_emit_dim(c, 0, d);
    }
    return sum;
}

/* ---- element-wise ---- */

pl_status pl_emit_unary(pl_emit *c, const char *floats, const char *integers) {
    const pl_dtype dtype = c->in[0]->dtype;
    const char *expr = pl_emit_is_float(dtype) ? floats : integers;
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, pl_emit_in(c, 0)));
}

pl_ref pl_emit_second(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref y = pl_emit_in(c, 1);
    const int rank = pl_emit_rank(c, 0), n = pl_emit_rank(c, 1);
    if (y < 0 || c->node->opset >= 7 || !pl_attr_has(c->node, "axis") || n > rank) return y;
    const int first = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    if (first < 0 || first + n > rank) return -1;
    for (int d = first; d < rank; d++)
        dims[d - first] = d - first < n ? pl_emit_dim(c, 1, d - first) : 1;
    return pl_emit_reshape(c, y, rank - first, dims);
}

pl_status pl_emit_binary(pl_emit *c, const char *floats, const char *integers) {
    const char *expr = pl_emit_is_float(c->in[0]->dtype) ? floats : integers;
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(
        c, 0, pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), pl_emit_second(c)));
}

/* ---- rules that several rows share ---- */

pl_status pl_emit_types_only(pl_emit *c) {
    c->types_only = true;
    return PL_OK;
}

/* Constants are folded before emission, so here the shape depends on data. */
pl_status pl_emit_folds(pl_emit *c) {
    return pl_emit_decline(c, "its shape depends on data");
}

pl_status pl_emit_identity(pl_emit *c) {
    return pl_emit_out(c, 0, pl_emit_in(c, 0));
}
