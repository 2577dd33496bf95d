/* Joining and cutting contiguous tensors: rows of bytes, or string by string. */
#include "ops/lib/join.h"

#include <string.h>

#include "base/size.h"

typedef struct join_layout {
    int rank, axis; /* of the result */
    int64_t dims[PL_RANK_MAX];
} join_layout;

static pl_status check_part(pl_eval *c, const pl_datum *d, const pl_tensor *first, int axis,
                            bool stack, const char *what) {
    char found[128], wanted[128];
    if (d->kind != PL_TYPE_TENSOR) return pl_eval_fail(c, "%s are not all tensors", what);
    const pl_tensor *t = d->tensor;
    if (!pl_tensor_is_contiguous(t)) {
        return pl_fail(c->err, PL_E_INTERNAL, "%s: a part is not contiguous", c->node->op);
    }
    bool fits = t->dtype == first->dtype && t->rank == first->rank;
    for (int i = 0; fits && i < t->rank; i++) {
        fits = t->dims[i] == first->dims[i] || (!stack && i == axis);
    }
    if (fits) return PL_OK;
    return pl_eval_fail(c, "%s differ: %s cannot be joined with %s", what,
                        pl_tensor_describe(t, found, sizeof(found)),
                        pl_tensor_describe(first, wanted, sizeof(wanted)));
}

static pl_status join_shape(pl_eval *c, pl_datum *const *parts, size_t n, int64_t axis, bool stack,
                            const char *what, join_layout *l) {
    if (n == 0 || parts[0]->kind != PL_TYPE_TENSOR) {
        return pl_eval_fail(c, "%s: there is no tensor to join", what);
    }
    const pl_tensor *first = parts[0]->tensor;
    l->rank = first->rank + (stack ? 1 : 0);
    if (l->rank > PL_RANK_MAX) {
        return pl_eval_fail(c, "rank %d exceeds the limit of %d", l->rank, PL_RANK_MAX);
    }
    if (axis < -l->rank || axis >= l->rank) {
        return pl_eval_fail(c, "axis is %lld, expected %d to %d", (long long)axis, -l->rank,
                            l->rank - 1);
    }
    l->axis = (int)(axis < 0 ? axis + l->rank : axis);
    int64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        PL_TRY(check_part(c, parts[i], first, l->axis, stack, what));
        if (!pl_i64_add(total, stack ? 1 : parts[i]->tensor->dims[l->axis], &total)) {
            return pl_eval_fail(c, "%s are too long in total", what);
        }
    }
    for (int i = 0, from = 0; i < l->rank; i++) {
        const bool joined = i == l->axis;
        l->dims[i] = joined ? total : first->dims[from];
        if (!joined || !stack) from++;
    }
    return PL_OK;
}

static pl_status join_strings(const pl_string *from, int64_t n, pl_tensor *to, int64_t at,
                              pl_err *err) {
    for (int64_t i = 0; i < n; i++) {
        PL_TRY(pl_tensor_set_string(to, at + i, from[i].data, from[i].n_bytes, err));
    }
    return PL_OK;
}

/* Copies row by row: each outer row consists of one run of every part. */
static pl_status join_copy(pl_eval *c, pl_datum *const *parts, size_t n, const join_layout *l,
                           pl_tensor *to) {
    int64_t n_outer = 1;
    for (int i = 0; i < l->axis; i++)
        n_outer *= l->dims[i];
    if (to->n_elements == 0 || n_outer == 0) return PL_OK;
    const int64_t row = to->n_elements / n_outer;
    const size_t size = pl_dtype_bytes(to->dtype);
    int64_t at = 0;
    for (size_t p = 0; p < n; p++) {
        const pl_tensor *t = parts[p]->tensor;
        const int64_t run = t->n_elements / n_outer;
        for (int64_t o = 0; o < n_outer && run > 0; o++) {
            const int64_t from = o * run, where = o * row + at;
            if (to->dtype == PL_STRING) {
                PL_TRY(join_strings((const pl_string *)t->data + from, run, to, where, c->err));
            } else {
                memcpy((char *)to->data + (size_t)where * size,
                       (const char *)t->data + (size_t)from * size, (size_t)run * size);
            }
        }
        at += run;
    }
    return PL_OK;
}

pl_status pl_join(pl_eval *c, pl_datum *const *parts, size_t n, int64_t axis, bool stack,
                  const char *what, pl_tensor **out) {
    join_layout l = { 0 };
    PL_TRY(join_shape(c, parts, n, axis, stack, what, &l));
    pl_tensor *to = NULL;
    PL_TRY(pl_tensor_new(parts[0]->tensor->dtype, l.rank, l.dims, &to, c->err));
    const pl_status st = join_copy(c, parts, n, &l, to);
    if (st != PL_OK) {
        pl_tensor_unref(to);
        return st;
    }
    *out = to;
    return PL_OK;
}

pl_status pl_cut_first(const pl_tensor *t, int64_t begin, int64_t end, bool squeeze,
                       pl_tensor **out, pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    const int skip = squeeze ? 1 : 0, rank = t->rank - skip;
    for (int i = 0; i < rank; i++) {
        dims[i] = t->dims[i + skip];
        strides[i] = t->strides[i + skip];
    }
    if (!squeeze) dims[0] = end - begin;
    const int64_t row = t->dims[0] == 0 ? 0 : t->n_elements / t->dims[0];
    return pl_tensor_view(t, rank, dims, strides, begin * row, out, err);
}

/* ---- types ---- */

static pl_status union_tensors(pl_infer *c, const pl_type *a, const pl_type *b,
                               const pl_type **out) {
    if (a->dtype != PL_UNDEFINED && b->dtype != PL_UNDEFINED && a->dtype != b->dtype) {
        return pl_infer_fail(c, "a value is %s in one branch and %s in another",
                             pl_dtype_name(a->dtype), pl_dtype_name(b->dtype));
    }
    const pl_dtype dtype = a->dtype == PL_UNDEFINED ? b->dtype : a->dtype;
    if (!a->has_rank || !b->has_rank || a->rank != b->rank) {
        *out = pl_type_tensor_unranked(c->arena, dtype);
    } else {
        pl_dim dims[PL_RANK_MAX];
        for (int i = 0; i < a->rank; i++) {
            dims[i] = pl_dim_equal(a->dims[i], b->dims[i]) ? a->dims[i] : PL_DIM_UNKNOWN;
        }
        *out = pl_type_tensor(c->arena, dtype, a->rank, dims);
    }
    return *out == NULL ? pl_fail_memory(c->err, sizeof(pl_type)) : PL_OK;
}

pl_status pl_infer_union(pl_infer *c, const pl_type *a, const pl_type *b, const pl_type **out) {
    *out = NULL;
    if (a == NULL || b == NULL || a->kind == PL_TYPE_NONE || b->kind == PL_TYPE_NONE) return PL_OK;
    if (a->kind != b->kind) {
        return pl_infer_fail(c, "a value changes between tensor, sequence and optional");
    }
    if (a->kind == PL_TYPE_TENSOR) return union_tensors(c, a, b, out);
    const pl_type *elem = NULL;
    PL_TRY(pl_infer_union(c, a->elem, b->elem, &elem));
    *out = pl_type_of(c->arena, a->kind, elem);
    return *out == NULL ? pl_fail_memory(c->err, sizeof(pl_type)) : PL_OK;
}
