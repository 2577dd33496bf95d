/* Operators that write updates into a copy of their data, at given indices.
 *
 * Updates are applied in order: of several for one element the last wins, and reductions do not
 * depend on threads. Reductions compute in float (double for F64, 64 bits for integers) and are
 * rounded once at the end. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/bound.h"
#include "ops/lib/indices.h"
#include "ops/lib/move.h"
#include "ops/tensor/scatter_rules.h"

extern const pl_op_def pl_ops_scatter[];

typedef enum reduction { REPLACE = 0, ADD, MULTIPLY, TAKE_MAX, TAKE_MIN } reduction;

/* Block i of the updates goes to the elements from data[offsets[i]] on. */
typedef struct plan {
    const int64_t *offsets;
    int64_t n, block;
} plan;

/* ---- the loops ---- */

#define EACH(EXPR)                                                                                 \
    for (int64_t i = 0; i < p->n; i++) {                                                           \
        for (int64_t k = 0; k < p->block; k++) {                                                   \
            a = y[p->offsets[i] + k];                                                              \
            b = u[i * p->block + k];                                                               \
            y[p->offsets[i] + k] = (EXPR);                                                         \
        }                                                                                          \
    }                                                                                              \
    break
/* NaN wins in max and min, as in NumPy. */
#define APPLY(fn, T, E, SUM, PRODUCT)                                                              \
    static void fn(reduction op, const plan *p, T *y, const T *u) {                                \
        E a, b;                                                                                    \
        switch (op) {                                                                              \
        case REPLACE: EACH(b);                                                                     \
        case ADD: EACH(SUM);                                                                       \
        case MULTIPLY: EACH(PRODUCT);                                                              \
        case TAKE_MAX: EACH(b > a || b != b ? b : a);                                              \
        case TAKE_MIN: EACH(b < a || b != b ? b : a);                                              \
        }                                                                                          \
        (void)a;                                                                                   \
    }
APPLY(apply_f32, pl_f32, float, a + b, a *b)
APPLY(apply_f64, pl_f64, double, a + b, a *b)
APPLY(apply_u64, pl_u64, uint64_t, a + b, a *b)
APPLY(apply_i64, pl_i64, int64_t, (int64_t)((uint64_t)a + (uint64_t)b),
      (int64_t)((uint64_t)a *(uint64_t)b))

static void replace(const plan *p, size_t size, char *y, const char *u) {
    const size_t bytes = (size_t)p->block * size;
    for (int64_t i = 0; i < p->n; i++)
        memcpy(y + (size_t)p->offsets[i] * size, u + (size_t)i * bytes, bytes);
}

/* Small floats and small integers are widened, reduced and rounded once. */
static pl_status reduce_wide(pl_eval *c, reduction op, const plan *p, pl_tensor *y,
                             const pl_tensor *u) {
    const bool real = pl_dtype_is_float(y->dtype);
    const size_t n = (size_t)y->n_elements, m = (size_t)u->n_elements;
    void *wide = pl_scratch(c, n, real ? sizeof(float) : sizeof(int64_t));
    void *wide_u = pl_scratch(c, m, real ? sizeof(float) : sizeof(int64_t));
    if (wide == NULL || wide_u == NULL) return pl_eval_memory(c);
    if (real) {
        pl_load_f32(y->dtype, y->data, wide, n);
        pl_load_f32(u->dtype, u->data, wide_u, m);
        apply_f32(op, p, wide, wide_u);
        pl_store_f32(y->dtype, wide, y->data, n);
    } else {
        pl_load_i64(y->dtype, y->data, wide, n);
        pl_load_i64(u->dtype, u->data, wide_u, m);
        apply_i64(op, p, wide, wide_u);
        pl_store_i64(y->dtype, wide, y->data, n);
    }
    return PL_OK;
}

static pl_status scatter(pl_eval *c, reduction op, const plan *p, const pl_tensor *x,
                         const pl_tensor *u, pl_tensor *y) {
    pl_tensor_copy_into(x, y->data);
    if (p->n == 0 || p->block == 0 || y->n_elements == 0) return pl_own_strings(c, y);
    if (op == REPLACE) {
        replace(p, pl_dtype_bytes(y->dtype), y->data, u->data);
        return pl_own_strings(c, y);
    }
    switch (y->dtype) {
    case PL_F32: apply_f32(op, p, y->data, u->data); return PL_OK;
    case PL_F64: apply_f64(op, p, y->data, u->data); return PL_OK;
    case PL_I64: apply_i64(op, p, y->data, u->data); return PL_OK;
    case PL_U64: apply_u64(op, p, y->data, u->data); return PL_OK;
    case PL_STRING:
    case PL_C64:
    case PL_C128: return pl_eval_no_type(c, y->dtype);
    default: return reduce_wide(c, op, p, y, u);
    }
}

static const char *const REDUCTIONS[] = { "none", "add", "mul", "max", "min" };

static bool reduction_of(const pl_node *node, reduction *out) {
    *out = REPLACE;
    if (!pl_attr_has(node, "reduction")) return true;
    for (int k = 0; k <= TAKE_MIN; k++) {
        *out = (reduction)k;
        if (pl_attr_string_is(node, "reduction", REDUCTIONS[k])) return true;
    }
    return false;
}

static pl_status check_reduction(const pl_infer *c) {
    reduction op;
    if (reduction_of(c->node, &op)) return PL_OK;
    return pl_infer_fail(c, "reduction is not none, add, mul, max or min");
}

/* ---- Scatter, ScatterElements ---- */

static pl_status elements_infer(pl_infer *c) {
    int axis = 0, rank = -1;
    PL_TRY(check_reduction(c));
    PL_TRY(pl_along_infer(c, &axis, &rank));
    const int u = pl_infer_rank(c, 2), q = pl_infer_rank(c, 1);
    if (u >= 0 && q >= 0 && u != q) {
        return pl_infer_fail(c, "the updates have rank %d, the indices %d", u, q);
    }
    for (int d = 0; u >= 0 && q >= 0 && d < q; d++) {
        const pl_dim mine = pl_infer_dim(c, 2, d), other = pl_infer_dim(c, 1, d);
        if (!pl_dim_known(mine) || !pl_dim_known(other) || mine.value == other.value) continue;
        return pl_infer_fail(c, "dim %d of the updates is %lld, of the indices %lld", d,
                             (long long)mine.value, (long long)other.value);
    }
    return pl_infer_set_like(c, 0, 0);
}

static pl_status elements_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *indices = pl_in(c, 1);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    int64_t *list = NULL;
    pl_along a;
    reduction op = REPLACE;
    (void)reduction_of(c->node, &op);
    PL_TRY(pl_indices_read(c, indices, x->dims[axis], &list));
    pl_along_init(&a, x, indices, axis);
    for (int64_t r = 0; r < a.n_rows; r++) {
        const int64_t base = pl_along_base(&a, r);
        int64_t *row = list + r * a.n;
        for (int64_t k = 0; k < a.n; k++)
            row[k] = base + row[k] * a.axis_stride + k * a.step;
    }
    const plan p = { list, indices->n_elements, 1 };
    return scatter(c, op, &p, x, pl_in(c, 2), pl_out(c, 0));
}

/* ---- ScatterND ---- */

/* updates: the dims of the indices without the last, then the dims of the data that a tuple does
 * not index. */
static pl_status nd_check_updates(const pl_infer *c, int r, int q, int width) {
    const int u = pl_infer_rank(c, 2);
    if (u < 0) return PL_OK;
    if (u != q - 1 + r - width) {
        return pl_infer_fail(c, "the updates have rank %d, expected %d", u, q - 1 + r - width);
    }
    for (int d = 0; d < u; d++) {
        const pl_dim mine = c->in[2]->dims[d];
        const pl_dim want = d < q - 1 ? c->in[1]->dims[d] : c->in[0]->dims[d - (q - 1) + width];
        if (!pl_dim_known(mine) || !pl_dim_known(want) || mine.value == want.value) continue;
        return pl_infer_fail(c, "dim %d of the updates is %lld, expected %lld", d,
                             (long long)mine.value, (long long)want.value);
    }
    return PL_OK;
}

static pl_status nd_infer(pl_infer *c) {
    const int r = pl_infer_rank(c, 0), q = pl_infer_rank(c, 1);
    PL_TRY(check_reduction(c));
    if (r == 0 || q == 0) return pl_infer_fail(c, "data and indices must have rank 1 or more");
    const pl_dim width = pl_infer_dim(c, 1, q - 1);
    if (r > 0 && pl_dim_known(width)) {
        if (width.value < 1 || width.value > r) {
            return pl_infer_fail(c, "the last dim of the indices is %lld, expected 1 to %d",
                                 (long long)width.value, r);
        }
        PL_TRY(nd_check_updates(c, r, q, (int)width.value));
    }
    return pl_infer_set_like(c, 0, 0);
}

static pl_status nd_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *indices = pl_in(c, 1);
    const int64_t width = indices->dims[indices->rank - 1];
    int64_t *offsets = NULL;
    reduction op = REPLACE;
    (void)reduction_of(c->node, &op);
    PL_TRY(pl_tuple_offsets(c, x, indices, 0, &offsets));
    const plan p = { offsets, indices->n_elements / width, x->strides[width - 1] };
    return scatter(c, op, &p, x, pl_in(c, 2), pl_out(c, 0));
}

/* ---- TensorScatter ---- */

static pl_status cache_check(const pl_infer *c, int axis, int rank) {
    for (int d = 0; d < rank; d++) {
        const pl_dim past = pl_infer_dim(c, 0, d), update = pl_infer_dim(c, 1, d);
        if (!pl_dim_known(past) || !pl_dim_known(update)) continue;
        if (d == axis ? update.value <= past.value : update.value == past.value) continue;
        return pl_infer_fail(c, "dim %d of the update is %lld, of the cache %lld", d,
                             (long long)update.value, (long long)past.value);
    }
    const pl_dim n = pl_infer_dim(c, 2, 0), batch = pl_infer_dim(c, 0, 0);
    if (pl_infer_rank(c, 2) >= 0 && pl_infer_rank(c, 2) != 1) {
        return pl_infer_fail(c, "write_indices has rank %d, expected 1", pl_infer_rank(c, 2));
    }
    if (pl_dim_known(n) && pl_dim_known(batch) && n.value != batch.value) {
        return pl_infer_fail(c, "%lld write_indices for a batch of %lld", (long long)n.value,
                             (long long)batch.value);
    }
    return PL_OK;
}

static pl_status cache_infer(pl_infer *c) {
    const int r = pl_infer_rank(c, 0), u = pl_infer_rank(c, 1);
    int axis = 0;
    if (!pl_attr_string_is(c->node, "mode", "linear") &&
        !pl_attr_string_is(c->node, "mode", "circular")) {
        return pl_infer_fail(c, "mode is neither linear nor circular");
    }
    if (r >= 0 && u >= 0 && r != u) {
        return pl_infer_fail(c, "the update has rank %d, the cache %d", u, r);
    }
    if (r >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), r, &axis));
    if (r >= 0 && axis == 0) return pl_infer_fail(c, "axis is 0, which is the batch");
    if (r >= 0 && u >= 0) PL_TRY(cache_check(c, axis, r));
    return pl_infer_set_like(c, 0, 0);
}

static pl_status cache_start(const pl_eval *c, int64_t b, int64_t room, int64_t n, bool circular,
                             int64_t *out) {
    const pl_tensor *starts = pl_in(c, 2);
    const int64_t at = starts == NULL ? 0 : pl_tensor_get_i64(starts, b);
    if (at < 0 || (!circular && at > room - n)) {
        return pl_eval_fail(c, "write index %lld of batch %lld: %lld elements do not fit in %lld",
                            (long long)at, (long long)b, (long long)n, (long long)room);
    }
    *out = circular ? at % room : at;
    return PL_OK;
}

static pl_status cache_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *u = pl_in(c, 1);
    pl_tensor *y = pl_out(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    const bool circular = pl_attr_string_is(c->node, "mode", "circular");
    const int64_t room = x->dims[axis], n = u->dims[axis];
    pl_tensor_copy_into(x, y->data);
    if (u->n_elements == 0) return pl_own_strings(c, y);
    const size_t bytes = (size_t)x->strides[axis] * pl_dtype_bytes(x->dtype);
    const int64_t n_rows = u->n_elements / n / x->strides[axis];
    const int64_t per_batch = n_rows / x->dims[0];
    for (int64_t r = 0; r < n_rows; r++) {
        int64_t at = 0;
        PL_TRY(cache_start(c, r / per_batch, room, n, circular, &at));
        const int64_t first = pl_i64_min(n, room - at); /* the rest wraps to 0 */
        const char *from = (const char *)u->data + (size_t)(r * n) * bytes;
        char *to = (char *)y->data + (size_t)(r * room) * bytes;
        memcpy(to + (size_t)at * bytes, from, (size_t)first * bytes);
        memcpy(to, from + (size_t)first * bytes, (size_t)(n - first) * bytes);
    }
    return pl_own_strings(c, y);
}

/* ---- error bounds ---- */

/* Runs the operator on other data and updates; x and u are consumed. */
static pl_status on_other(pl_bound *c, pl_tensor *x, pl_tensor *u, pl_tensor **out) {
    pl_tensor *const in[3] = { x, NULL, u };
    const pl_status st =
        x == NULL || u == NULL ? pl_fail_memory(c->err, 1) : pl_b_apply(c, in, PL_F64, 0, out);
    pl_tensor_unref(x);
    pl_tensor_unref(u);
    return st;
}

/* Input i with every element replaced by |x|*a + x*b + e*d + more. NULL when out of memory. */
static pl_tensor *altered(pl_bound *c, int i, double a, double b, double d, double more) {
    const pl_tensor *t = pl_b_in(c, i);
    const double *x = pl_b_x(c, i), *e = pl_b_e(c, i);
    pl_tensor *out = NULL;
    if (pl_tensor_new(PL_F64, t->rank, t->dims, &out, c->err) != PL_OK) return NULL;
    double *to = out->data;
    for (int64_t k = 0; k < t->n_elements; k++)
        to[k] = a * fabs(x[k]) + b * x[k] + (e == NULL ? 0 : d * e[k]) + more;
    return out;
}

/* Sums: one rounding per update of an element, each of the sum of absolute values. */
static pl_status add_bound(pl_bound *c) {
    pl_tensor *sum = NULL, *count = NULL, *inherited = NULL;
    pl_status st = PL_OK;
    double *e = NULL;
    PL_TRY_GOTO(done, st, on_other(c, altered(c, 0, 1, 0, 0, 0), altered(c, 2, 1, 0, 0, 0), &sum));
    PL_TRY_GOTO(done, st,
                on_other(c, altered(c, 0, 0, 0, 0, 0), altered(c, 2, 0, 0, 0, 1), &count));
    PL_TRY_GOTO(done, st,
                on_other(c, altered(c, 0, 0, 0, 1, 0), altered(c, 2, 0, 0, 1, 0), &inherited));
    PL_TRY_GOTO(done, st, pl_b_new(c, 0, &e));
    for (int64_t i = 0; i < sum->n_elements; i++) {
        const double n = ((const double *)count->data)[i];
        e[i] = c->u * fmin(n, pl_b_chain(n)) * ((const double *)sum->data)[i] +
               ((const double *)inherited->data)[i];
    }
done:
    pl_tensor_unref(sum);
    pl_tensor_unref(count);
    pl_tensor_unref(inherited);
    return st;
}

/* Products: (|x| + e)(|u| + e)… - |x||u|…, plus one rounding per update. */
static pl_status mul_bound(pl_bound *c) {
    pl_tensor *most = NULL;
    const double *y = pl_b_y(c, 0);
    double *e = NULL, n = (double)pl_b_in(c, 1)->n_elements;
    PL_TRY(on_other(c, altered(c, 0, 1 + c->u, 0, 1, 0), altered(c, 2, 1 + c->u, 0, 1, 0), &most));
    const pl_status st = pl_b_new(c, 0, &e);
    for (int64_t i = 0; st == PL_OK && i < most->n_elements; i++)
        e[i] =
            fmax(0, ((const double *)most->data)[i] - fabs(y[i])) + (n > 0 ? c->u : 0) * fabs(y[i]);
    pl_tensor_unref(most);
    return st;
}

/* Replace, max and min are monotonic: the result lies between those for x - e and x + e. */
static pl_status pick_bound(pl_bound *c) {
    pl_tensor *low = NULL, *high = NULL;
    const double *y = pl_b_y(c, 0);
    double *e = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st,
                on_other(c, altered(c, 0, 0, 1, -1, 0), altered(c, 2, 0, 1, -1, 0), &low));
    PL_TRY_GOTO(done, st, on_other(c, altered(c, 0, 0, 1, 1, 0), altered(c, 2, 0, 1, 1, 0), &high));
    PL_TRY_GOTO(done, st, pl_b_new(c, 0, &e));
    for (int64_t i = 0; i < low->n_elements; i++)
        e[i] = fmax(y[i] - ((const double *)low->data)[i], ((const double *)high->data)[i] - y[i]);
done:
    pl_tensor_unref(low);
    pl_tensor_unref(high);
    return st;
}

static pl_status scatter_bound(pl_bound *c) {
    reduction op = REPLACE;
    (void)reduction_of(c->node, &op);
    if (pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    if (pl_b_largest(c, 1) > 0) return pl_b_fill(c, 0, HUGE_VAL);
    const bool is_float = pl_dtype_is_float(c->out_native[0]);
    if (!is_float && !pl_b_any_error(c)) return PL_OK; /* integers wrap identically everywhere */
    if (!is_float) return pl_b_move(c);
    if (op == ADD) return add_bound(c);
    if (op == MULTIPLY) return mul_bound(c);
    return pl_b_any_error(c) ? pick_bound(c) : PL_OK;
}

/* ---- rows ---- */

#define ROW                                                                                        \
    .out = PL_PORTS({ "output", PL_T_ANY, 0 }), PL_EMIT_BREAK("write positions depend on data"),   \
    .autocast = PL_AMP_WIDEST
#define IN(types)                                                                                  \
    .in = PL_PORTS({ "data", PL_T_ANY, PL_PORT_SAME }, { "indices", types, PL_PORT_INDEX },        \
                   { "updates", PL_T_ANY, PL_PORT_SAME })
#define IN_ND                                                                                      \
    .in = PL_PORTS({ "data", PL_T_ANY, PL_PORT_SAME }, { "indices", PL_T_I64, PL_PORT_TUPLE },     \
                   { "updates", PL_T_ANY, PL_PORT_SAME })
#define ELEMENTS                                                                                   \
    .infer = elements_infer, .eval = elements_eval, .grad = pl_grad_scatter_elements,              \
    IN(PL_T_INDEX), ROW
#define TUPLES                                                                                     \
    .name = "ScatterND", .infer = nd_infer, .eval = nd_eval, .grad = pl_grad_scatter_nd, IN_ND, ROW

/* clang-format off */
const pl_op_def pl_ops_scatter[] = {
    { .name = "Scatter", .since = 9, .until = 10, ELEMENTS, .bound = PL_BOUND_EXACT,
      .attrs = PL_ATTRS(PL_A_INT("axis", 0)),
      .samples = PL_SAMPLES({ "(float[3,3] x, float[1,2] u) => (y) <int64[1,2] i = {1,2}> { y = Scatter<axis=1>(x, i, u) }", NULL, 0 }) },
    { .name = "ScatterElements", .since = 11, .until = 15, ELEMENTS, .bound = PL_BOUND_EXACT,
      .attrs = PL_ATTRS(PL_A_INT("axis", 0)),
      .samples = PL_SAMPLES({ "(float[3,3] x, float[2,3] u) => (y) <int64[2,3] i = {1,0,2,0,-2,1}> { y = ScatterElements(x, i, u) }", NULL, 0 }) },
    { .name = "ScatterElements", .since = 16, ELEMENTS, .bound = scatter_bound,
      .attrs = PL_ATTRS(PL_A_INT("axis", 0), PL_A_STRING("reduction", "none")),
      .samples = PL_SAMPLES(
          { "(float[1,5] x, float[1,2] u) => (y) <int64[1,2] i = {1,-2}> { y = ScatterElements<axis=1>(x, i, u) }", NULL, 0 },
          { "(float[1,5] x, float[1,2] u) => (y) <int64[1,2] i = {1,1}> { y = ScatterElements<axis=1, reduction=\"add\">(x, i, u) }", NULL, 0 },
          { "(float[1,5] x, float[1,2] u) => (y) <int64[1,2] i = {1,1}> { y = ScatterElements<axis=1, reduction=\"max\">(x, i, u) }", NULL, 0 },
          { "(float[3,2] x, float[2,2] u) => (y) <int64[2,2] i = {1,0,1,-1}> { y = ScatterElements<reduction=\"mul\">(x, i, u) }", "u=0.5:2", 0 }) },
    { TUPLES, .since = 11, .until = 15, .bound = PL_BOUND_EXACT,
      .samples = PL_SAMPLES({ "(float[4,3] x, float[2,3] u) => (y) <int64[2,1] i = {3,0}> { y = ScatterND(x, i, u) }", NULL, 0 }) },
    { TUPLES, .since = 16, .bound = scatter_bound,
      .attrs = PL_ATTRS(PL_A_STRING("reduction", "none")),
      .samples = PL_SAMPLES(
          { "(float[4,3] x, float[2] u) => (y) <int64[2,2] i = {3,0,-3,1}> { y = ScatterND(x, i, u) }", NULL, 0 },
          { "(float[4,3] x, float[2,3] u) => (y) <int64[2,1] i = {1,1}> { y = ScatterND<reduction=\"mul\">(x, i, u) }", NULL, 0 },
          { "(float[4,3] x, float[2,3] u) => (y) <int64[2,1] i = {1,1}> { y = ScatterND<reduction=\"add\">(x, i, u) }", NULL, 0 },
          { "(float[4,3] x, float[2,3] u) => (y) <int64[2,1] i = {1,1}> { y = ScatterND<reduction=\"min\">(x, i, u) }", NULL, 0 }) },
    { .name = "TensorScatter", .since = 24, .infer = cache_infer, .eval = cache_eval,
      .in = PL_PORTS({ "past_cache", PL_T_ANY, PL_PORT_SAME }, { "update", PL_T_ANY, PL_PORT_SAME },
                     { "write_indices", PL_T_I64, PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "present_cache", PL_T_ANY, 0 }), .grad = pl_grad_tensor_scatter,
      .bound = PL_BOUND_EXACT, .emit = pl_emit_tensor_scatter, .autocast = PL_AMP_WIDEST,
      .attrs = PL_ATTRS(PL_A_INT("axis", -2), PL_A_STRING("mode", "linear")),
      .samples = PL_SAMPLES(
          { "(float[2,4,3] x, float[2,1,3] u) => (y) <int64[2] at = {1,3}> { y = TensorScatter(x, u, at) }", NULL, 0 },
          { "(float[2,4,3] x, float[2,2,3] u) => (y) <int64[2] at = {1,3}> { y = TensorScatter<mode=\"circular\">(x, u, at) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
