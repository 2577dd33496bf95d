/* Emission of pools: kernels for windows, reductions for whole planes. */
#include <stdio.h>

#include "base/alloc.h"
#include "ops/emit.h"
#include "ops/lib/pool_window.h"
#include "ops/nn/pool_rules.h"

/* ---- windows ---- */

typedef struct pooling {
    pl_window window;
    pl_pooling_shape shape;
    pl_pool_rule rule;
    pl_dtype dtype;
} pooling;

static pl_status run_max(pl_pool *pool, const pooling *q, const void *x, void *y, pl_i64 *at,
                         pl_err *err) {
    const bool columns = q->rule.column_major;
    switch ((int)q->dtype) {
    case PL_F64: return pl_max_pool_f64(pool, &q->shape, x, y, at, columns, err);
    case PL_I8: return pl_max_pool_i8(pool, &q->shape, x, y, at, columns, err);
    case PL_U8: return pl_max_pool_u8(pool, &q->shape, x, y, at, columns, err);
    default: return pl_max_pool_f32(pool, &q->shape, x, y, at, columns, err);
    }
}

static pl_status run_pool(const pl_emit_args *a, pl_err *err) {
    const pooling *q = a->params;
    const void *x = a->in[0];
    const bool pads = q->rule.count_include_pad;
    if (q->rule.kind == PL_POOL_LP || q->window.n > 3) {
        pl_pool_any(a->pool, &q->window, &q->rule, q->shape.planes, x, a->out, NULL);
        return PL_OK;
    }
    if (q->rule.kind == PL_POOL_AVERAGE) {
        return q->dtype == PL_F64 ? pl_average_pool_f64(a->pool, &q->shape, x, a->out, pads, err)
                                  : pl_average_pool_f32(a->pool, &q->shape, x, a->out, pads, err);
    }
    return run_max(a->pool, q, x, a->out, NULL, err);
}

/* Indices of the maxima. The maxima are computed a second time and discarded. */
static pl_status run_indices(const pl_emit_args *a, pl_err *err) {
    const pooling *q = a->params;
    size_t n = (size_t)q->shape.planes * pl_dtype_bytes(q->dtype);
    for (int d = 0; d < q->shape.n_spatial; d++)
        n *= (size_t)q->shape.out[d]; /* cannot overflow: the indices exist and are wider */
    void *y = pl_malloc(n);
    if (y == NULL) return pl_fail_memory(err, n);
    const pl_status st = run_max(a->pool, q, a->in[0], y, a->out, err);
    pl_free(y);
    return st;
}

static bool read_window(pl_emit *c, pl_window *w) {
    const int n = pl_emit_rank(c, 0) - 2;
    if (n < 1 || pl_window_read(c->node, n, w, NULL) != PL_OK || !w->has_kernel) return false;
    for (int d = 0; d < n; d++)
        if (pl_window_place(c->node, w, d, pl_emit_dim(c, 0, 2 + d), NULL) != PL_OK) return false;
    return true;
}

static pl_status pool(pl_emit *c, const pl_pool_rule *rule) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pooling q = { .rule = *rule, .dtype = pl_emit_compute(c->in[0]->dtype) };
    if (!read_window(c, &q.window)) return pl_emit_decline(c, "attributes");
    const bool any = rule->kind == PL_POOL_LP || q.window.n > 3;
    if (any && !pl_emit_is_float(q.dtype)) return pl_emit_decline(c, "integers in many dims");
    if (any) q.dtype = PL_F64; /* the general loop is in double only */
    pl_tensor *x = NULL;
    pl_emit_in_dims(c, 0, dims);
    static const char nowhere[16];
    if (pl_tensor_borrow(q.dtype, c->in[0]->rank, dims, nowhere, NULL, NULL, &x, NULL) != PL_OK) {
        return pl_emit_decline(c, "no memory");
    }
    if (q.window.n <= 3) q.shape = pl_pooling_shape_of(&q.window, x);
    q.shape.planes = dims[0] * dims[1];
    pl_tensor_unref(x);
    const int first = pl_emit_wants(c, 0) ? 0 : 1;
    pl_emit_out_dims(c, first, dims);
    const pl_ref from = pl_emit_convert(c, pl_emit_in(c, 0), q.dtype);
    const pl_emit_kernel kernel = { .what = "a pool",
                                    .run = run_pool,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = q.dtype,
                                    .rank = c->out[first]->rank,
                                    .dims = dims };
    if (pl_emit_wants(c, 1)) {
        if (any) return pl_emit_decline(c, "indices in many dims");
        pl_emit_kernel indices = kernel;
        indices.what = "the positions of a pool's maxima";
        indices.run = run_indices;
        indices.dtype = PL_I64;
        PL_TRY(pl_emit_out(c, 1, pl_emit_kernel_call(c, &indices, 1, &from)));
    }
    return first == 1 ? PL_OK : pl_emit_out(c, 0, pl_emit_kernel_call(c, &kernel, 1, &from));
}

pl_status pl_emit_max_pool(pl_emit *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_MAX,
                                .column_major = pl_attr_int(c->node, "storage_order") != 0 };
    return pool(c, &rule);
}
pl_status pl_emit_average_pool(pl_emit *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_AVERAGE,
                                .count_include_pad =
                                    pl_attr_int(c->node, "count_include_pad") != 0 };
    return pool(c, &rule);
}

/* LpPool-1 and GlobalLpPool-1 had a float p. */
static double p_of(const pl_node *node) {
    return node->def->until == 1 ? pl_attr_float(node, "p") : (double)pl_attr_int(node, "p");
}
pl_status pl_emit_lp_pool(pl_emit *c) {
    const pl_pool_rule rule = { .kind = PL_POOL_LP, .p = p_of(c->node) };
    return pool(c, &rule);
}

/* ---- whole planes ---- */

static pl_status planes(pl_emit *c, const char *before, pl_fold fold, const char *after) {
    const int rank = pl_emit_rank(c, 0);
    const pl_dtype dtype = c->in[0]->dtype;
    const pl_dtype in = fold == PL_FOLD_MAX ? pl_emit_compute(dtype) : PL_F64;
    if (rank < 3) return pl_emit_decline(c, "nothing to reduce");
    pl_ref x = pl_emit_in(c, 0);
    if (before != NULL) x = pl_emit_map1(c, in, before, x);
    x = pl_emit_reduce(c, fold, in, x, pl_emit_axes_from(2, rank));
    return pl_emit_out(c, 0, pl_emit_map1(c, dtype, after, x));
}

pl_status pl_emit_global_average_pool(pl_emit *c) {
    char expr[100];
    const int64_t n = pl_emit_elements(c->in[0]) / pl_emit_elements(c->out[0]);
    snprintf(expr, sizeof(expr), "$0 / %a", (double)n);
    return planes(c, NULL, PL_FOLD_SUM, expr);
}
pl_status pl_emit_global_max_pool(pl_emit *c) {
    return planes(c, NULL, PL_FOLD_MAX, "$0");
}
pl_status pl_emit_global_lp_pool(pl_emit *c) {
    char before[100], after[100];
    const double p = p_of(c->node);
    if (p == 1) return planes(c, "__builtin_fabs((double)$0)", PL_FOLD_SUM, "$0");
    if (p == 2) return planes(c, "(double)$0 * (double)$0", PL_FOLD_SUM, "__builtin_sqrt($0)");
    snprintf(before, sizeof(before), "__builtin_pow(__builtin_fabs((double)$0), %a)", p);
    snprintf(after, sizeof(after), "__builtin_pow($0, %a)", 1 / p);
    return planes(c, before, PL_FOLD_SUM, after);
}
