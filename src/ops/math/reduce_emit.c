/* Emission of reductions, ArgMax and CumSum. Sums of floats run in double, as in the kernels; sums
 * of integers wrap in 64 bits. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/math/reduce.h"
#include "ops/math/reduce_rules.h"

/* ---- Reduce… ---- */

/* Axes from the attribute or a constant input. *nothing: noop_with_empty_axes, nothing is reduced.
 * False when the axes are not constant. */
static bool axes_of(pl_emit *c, unsigned *axes, bool *nothing) {
    int64_t list[PL_EMIT_RANK_MAX];
    size_t n = 0;
    const int rank = pl_emit_rank(c, 0);
    *axes = 0;
    *nothing = false;
    if (c->node->def->in[1].name != NULL) {
        if (pl_emit_has(c, 1) && !pl_emit_ints(c, 1, list, &n)) return false;
        if (n == 0 && pl_attr_int(c->node, "noop_with_empty_axes") != 0) {
            *nothing = true;
            return true;
        }
    } else {
        const int64_t *given = pl_attr_ints(c->node, "axes", &n);
        if (n > PL_EMIT_RANK_MAX) return false;
        for (size_t i = 0; i < n; i++)
            list[i] = given[i];
    }
    for (size_t i = 0; i < n; i++)
        *axes |= 1u << pl_emit_axis(list[i], rank);
    if (n == 0) *axes = (1u << rank) - 1;
    return true;
}

/* How each element is transformed, how elements are folded, how the result is transformed. */
typedef struct formula {
    const char *before, *after;
    pl_fold fold;
    bool in_double; /* integers, too, for roots and logarithms */
    bool mean;
} formula;

static pl_status reduce(pl_emit *c, const formula *f, const formula *of_integers) {
    unsigned axes;
    bool nothing;
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_dtype dtype = c->in[0]->dtype;
    const bool selects = f->fold == PL_FOLD_MAX || f->fold == PL_FOLD_MIN;
    const bool integers = !pl_emit_is_float(dtype) && !f->in_double;
    if (!axes_of(c, &axes, &nothing)) return pl_emit_decline(c, "axes are not constant");
    if (nothing) axes = 0;
    if (integers && !selects) f = of_integers;
    pl_emit_out_dims(c, 0, dims);
    const pl_dtype in = selects ? pl_emit_compute(dtype) : integers ? PL_U64 : PL_F64;
    pl_ref x = pl_emit_in(c, 0);
    if (f->before != NULL) x = pl_emit_map1(c, in, f->before, x);
    if (axes != 0) x = pl_emit_reduce(c, f->fold, in, x, axes);
    if (f->mean) {
        char expr[100];
        const bool is_signed = integers && dtype != PL_U64;
        snprintf(expr, sizeof(expr), "%s$0 / %lld%s", is_signed ? "(int64_t)" : "",
                 (long long)pl_emit_count(c, axes), integers ? "" : ".0");
        x = pl_emit_map1(c, integers ? (dtype == PL_U64 ? PL_U64 : PL_I64) : PL_F64, expr, x);
    }
    if (f->after != NULL) x = pl_emit_map1(c, PL_F64, f->after, x);
    const bool truncates = !selects && !integers && !pl_emit_is_float(dtype);
    x = pl_emit_map1(c, c->out[0]->dtype, truncates ? "px_trunc_$S($0)" : "$0", x);
    return pl_emit_out(c, 0, pl_emit_reshape(c, x, c->out[0]->rank, dims));
}

#define REDUCE(name, ...)                                                                          \
    pl_status pl_emit_reduce_##name(pl_emit *c) {                                                  \
        static const formula f[2] = { __VA_ARGS__ };                                               \
        return reduce(c, &f[0], &f[1]);                                                            \
    }
#define SQUARE "(double)$0 * (double)$0"
REDUCE(sum, { .fold = PL_FOLD_SUM }, { .fold = PL_FOLD_SUM })
REDUCE(mean, { .fold = PL_FOLD_SUM, .mean = true }, { .fold = PL_FOLD_SUM, .mean = true })
REDUCE(prod, { .fold = PL_FOLD_PROD }, { .fold = PL_FOLD_PROD })
REDUCE(max, { .fold = PL_FOLD_MAX })
REDUCE(min, { .fold = PL_FOLD_MIN })
REDUCE(l1, { .before = "__builtin_fabs((double)$0)", .fold = PL_FOLD_SUM },
       { .before = "$0 < 0 ? 0u - (uint64_t)$0 : $0", .fold = PL_FOLD_SUM })
REDUCE(l2, { .before = SQUARE, .after = "__builtin_sqrt($0)", .in_double = true })
REDUCE(log_sum, { .after = "__builtin_log($0)", .in_double = true })
REDUCE(sum_square, { .before = SQUARE, .fold = PL_FOLD_SUM },
       { .before = "(uint64_t)$0 * (uint64_t)$0", .fold = PL_FOLD_SUM })

pl_status pl_emit_reduce_log_sum_exp(pl_emit *c) {
    unsigned axes;
    bool nothing;
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_dtype dtype = c->in[0]->dtype;
    if (!axes_of(c, &axes, &nothing)) return pl_emit_decline(c, "axes are not constant");
    if (nothing || axes == 0) return pl_emit_identity(c); /* log(exp(x)) */
    pl_emit_out_dims(c, 0, dims);
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_MAX, PL_F64, x, axes);
    const pl_ref shift = pl_emit_map1(c, PL_F64, "$0 - $0 == 0 ? $0 : 0", peak);
    const pl_ref e = pl_emit_map2(c, PL_F64, "__builtin_exp((double)$0 - $1)", x, shift);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, axes);
    pl_ref y = pl_emit_map2(c, PL_F64, "$0 + __builtin_log($1)", shift, sum);
    y = pl_emit_map1(c, dtype, pl_emit_is_float(dtype) ? "$0" : "px_trunc_$S($0)", y);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
}

/* ---- ArgMax, Hardmax ---- */

static pl_status arg(pl_emit *c, bool smallest) {
    int64_t dims[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    if (rank == 0) return pl_emit_decline(c, "nothing to reduce");
    const unsigned axes = 1u << pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    const bool last = pl_attr_int(c->node, "select_last_index") != 0;
    pl_emit_out_dims(c, 0, dims);
    const pl_ref at = pl_emit_extreme_at(c, axes, smallest, last);
    return pl_emit_out(c, 0, pl_emit_reshape(c, at, c->out[0]->rank, dims));
}
pl_status pl_emit_arg_max(pl_emit *c) {
    return arg(c, false);
}
pl_status pl_emit_arg_min(pl_emit *c) {
    return arg(c, true);
}

/* ---- CumSum, CumProd ---- */

typedef struct cumulate {
    pl_dtype dtype;
    int rank, axis;
    int64_t dims[PL_EMIT_RANK_MAX];
    bool product, exclusive, reverse;
} cumulate;

static pl_status run_cumulate(const pl_emit_args *args, pl_err *err) {
    const cumulate *q = args->params;
    pl_tensor *x = NULL, *y = NULL;
    pl_eval eval = { .pool = args->pool, .err = err };
    pl_status st = pl_tensor_borrow(q->dtype, q->rank, q->dims, args->in[0], NULL, NULL, &x, err);
    if (st == PL_OK) {
        st = pl_tensor_borrow(q->dtype, q->rank, q->dims, args->out, NULL, NULL, &y, err);
    }
    if (st == PL_OK) pl_cumulate(&eval, x, q->axis, q->product, q->exclusive, q->reverse, y);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return st;
}

static pl_status cumulate_rule(pl_emit *c, bool product) {
    int64_t axis[PL_EMIT_RANK_MAX];
    size_t n = 0;
    if (!pl_emit_ints(c, 1, axis, &n) || n != 1) {
        return pl_emit_decline(c, "the axis is not constant");
    }
    const int rank = pl_emit_rank(c, 0);
    cumulate q = { .dtype = c->in[0]->dtype,
                   .rank = rank,
                   .axis = pl_emit_axis(axis[0], rank),
                   .product = product,
                   .exclusive = pl_attr_int(c->node, "exclusive") != 0,
                   .reverse = pl_attr_int(c->node, "reverse") != 0 };
    if (q.axis < 0 || q.axis >= rank) return pl_emit_decline(c, "unsupported axis");
    pl_emit_in_dims(c, 0, q.dims);
    const pl_ref x = pl_emit_in(c, 0);
    const pl_emit_kernel kernel = { .what = "a running sum or product",
                                    .run = run_cumulate,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = q.dtype,
                                    .rank = rank,
                                    .dims = q.dims };
    return pl_emit_out(c, 0, pl_emit_kernel_call(c, &kernel, 1, &x));
}
pl_status pl_emit_cum_sum(pl_emit *c) {
    return cumulate_rule(c, false);
}
pl_status pl_emit_cum_prod(pl_emit *c) {
    return cumulate_rule(c, true);
}
