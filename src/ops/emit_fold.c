/* Emission of reductions, Softmax and normalisations, built from sums and maxima over axes. Sums of
 * floats run in double, as in the kernels, except those of Softmax over short rows. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

enum { SHORT_ROW = 8192 };

static bool is_float(pl_dtype d) {
    return d == PL_F32 || d == PL_F16 || d == PL_BF16 || d == PL_F64;
}

static int64_t count(const pl_emit *c, unsigned axes) {
    int64_t n = 1;
    for (int d = 0; d < pl_emit_rank(c, 0); d++)
        if ((axes >> d & 1) != 0) n *= pl_emit_dim(c, 0, d);
    return n;
}

/* "$0 / count", in double. */
static pl_ref divide(pl_emit *c, pl_dtype dtype, pl_ref sum, int64_t n) {
    char expr[100];
    snprintf(expr, sizeof(expr), "$0 / %a", (double)n);
    return pl_emit_map1(c, dtype, expr, sum);
}

/* ---- Reduce… ---- */

/* Axes by attribute, or by a constant input; 0 and true: nothing is reduced. */
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

/* before: of each element; fold; after: of the sum ("%" stands for the count). */
static pl_status reduce(pl_emit *c, const char *before, pl_fold fold, const char *after,
                        bool mean) {
    unsigned axes;
    bool nothing;
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_dtype dtype = c->in[0]->dtype;
    const bool selects = fold == PL_FOLD_MAX || fold == PL_FOLD_MIN;
    if (!is_float(dtype) && !(selects && dtype != PL_BOOL)) {
        return pl_emit_decline(c, "a sum of integers");
    }
    if (!axes_of(c, &axes, &nothing)) return pl_emit_decline(c, "axes are not constant");
    if (nothing || pl_emit_rank(c, 0) == 0) return pl_emit_decline(c, "nothing to reduce");
    for (int d = 0; d < c->out[0]->rank; d++)
        dims[d] = c->out[0]->dims[d].value;
    pl_ref x = pl_emit_in(c, 0);
    if (before != NULL) x = pl_emit_map1(c, pl_emit_compute(dtype), before, x);
    x = pl_emit_reduce(c, fold, selects ? pl_emit_compute(dtype) : PL_F64, x, axes);
    if (mean) x = divide(c, PL_F64, x, count(c, axes));
    if (after != NULL) x = pl_emit_map1(c, PL_F64, after, x);
    x = pl_emit_map1(c, c->out[0]->dtype, "$0", x);
    return pl_emit_out(c, 0, pl_emit_reshape(c, x, c->out[0]->rank, dims));
}

pl_status pl_emit_reduce_sum(pl_emit *c) {
    return reduce(c, NULL, PL_FOLD_SUM, NULL, false);
}
pl_status pl_emit_reduce_mean(pl_emit *c) {
    return reduce(c, NULL, PL_FOLD_SUM, NULL, true);
}
pl_status pl_emit_reduce_max(pl_emit *c) {
    return reduce(c, NULL, PL_FOLD_MAX, NULL, false);
}
pl_status pl_emit_reduce_min(pl_emit *c) {
    return reduce(c, NULL, PL_FOLD_MIN, NULL, false);
}
pl_status pl_emit_reduce_l1(pl_emit *c) {
    return reduce(c, "px_abs_$S($0)", PL_FOLD_SUM, NULL, false);
}

/* ---- Softmax ---- */

/* Before opset 13 the input is seen as a matrix. */
static unsigned softmax_axes(const pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    if (c->node->opset >= 13) return 1u << axis;
    unsigned axes = 0;
    for (int d = axis; d < rank; d++)
        axes |= 1u << d;
    return axes;
}

pl_status pl_emit_softmax(pl_emit *c) {
    const unsigned axes = softmax_axes(c);
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const pl_dtype sum_in = wide == PL_F32 && count(c, axes) <= SHORT_ROW ? PL_F32 : PL_F64;
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, axes);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_down_$S($0 - $1)", x, peak);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, sum_in, e, axes);
    const pl_ref inverse = pl_emit_map1(c, wide, "1 / $0", sum);
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 * $1", e, inverse));
}

pl_status pl_emit_log_softmax(pl_emit *c) {
    const unsigned axes = softmax_axes(c);
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, axes);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_down_$S($0 - $1)", x, peak);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, axes);
    const pl_ref shift = pl_emit_map2(c, PL_F64, "$0 + __builtin_log($1)", peak, sum);
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "(double)$0 - $1", x, shift));
}

/* ---- normalisations ---- */

static pl_ref inverse_root(pl_emit *c, pl_ref variance, double epsilon) {
    char expr[120];
    snprintf(expr, sizeof(expr), "1 / __builtin_sqrt($0 + %a)", epsilon);
    return pl_emit_map1(c, PL_F64, expr, variance);
}

/* (x - mean) * inverse * scale + bias over the axes, statistics in double. */
static pl_status normalise(pl_emit *c, unsigned axes, bool centred, pl_ref scale, pl_ref bias,
                           bool has_scale, bool has_bias) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const int64_t n = count(c, axes);
    const pl_ref x = pl_emit_in(c, 0);
    pl_ref y = x;
    pl_ref mean = -1, square;
    if (centred) {
        mean = divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, x, axes), n);
        square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", x, mean);
    } else {
        square = pl_emit_map1(c, PL_F64, "(double)$0 * (double)$0", x);
    }
    const pl_ref variance =
        divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, axes), n);
    const pl_ref inverse = inverse_root(c, variance, pl_attr_float(c->node, "epsilon"));
    const pl_ref narrow = pl_emit_map1(c, wide, "$0", inverse);
    if (centred) y = pl_emit_map2(c, wide, "$0 - $1", y, pl_emit_map1(c, wide, "$0", mean));
    y = pl_emit_map2(c, wide, "$0 * $1", y, narrow);
    if (has_scale) y = pl_emit_map2(c, wide, "$0 * $1", y, scale);
    if (has_bias) y = pl_emit_map2(c, wide, "$0 + $1", y, bias);
    if (centred && pl_emit_wants(c, 1)) {
        PL_TRY(pl_emit_out(c, 1, pl_emit_map1(c, c->out[1]->dtype, "$0", mean)));
    }
    const int at = centred ? 2 : 1;
    if (pl_emit_wants(c, at)) {
        PL_TRY(pl_emit_out(c, at, pl_emit_map1(c, c->out[at]->dtype, "$0", inverse)));
    }
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, "$0", y));
}

static unsigned axes_from(const pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    unsigned axes = 0;
    for (int d = pl_emit_axis(pl_attr_int(c->node, "axis"), rank); d < rank; d++)
        axes |= 1u << d;
    return axes;
}

static bool stash_is_double(const pl_emit *c) {
    return pl_attr_has(c->node, "stash_type") && pl_attr_int(c->node, "stash_type") != PL_F32;
}

pl_status pl_emit_layer_norm(pl_emit *c) {
    if (stash_is_double(c)) return pl_emit_decline(c, "stash_type");
    const bool has_bias = pl_emit_has(c, 2);
    return normalise(c, axes_from(c), true, pl_emit_in(c, 1), has_bias ? pl_emit_in(c, 2) : -1,
                     true, has_bias);
}
pl_status pl_emit_rms_norm(pl_emit *c) {
    if (stash_is_double(c)) return pl_emit_decline(c, "stash_type");
    return normalise(c, axes_from(c), false, pl_emit_in(c, 1), -1, true, false);
}

/* One number for each channel, seen as (C, 1, 1 …). */
static pl_ref per_channel(pl_emit *c, int i) {
    int64_t dims[PL_EMIT_RANK_MAX] = { 0 };
    const int rank = pl_emit_rank(c, 0) - 1;
    for (int d = 0; d < rank; d++)
        dims[d] = d == 0 ? pl_emit_elements(c->in[i]) : 1;
    return pl_emit_reshape(c, pl_emit_in(c, i), rank < 1 ? 1 : rank, dims);
}

pl_status pl_emit_instance_norm(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    unsigned axes = 0;
    if (rank < 3) return pl_emit_decline(c, "nothing to reduce");
    for (int d = 2; d < rank; d++)
        axes |= 1u << d;
    return normalise(c, axes, true, per_channel(c, 1), per_channel(c, 2), true, true);
}

/* Outside training: (x - mean) * a + bias, with a from the variance in double. */
pl_status pl_emit_batch_norm(pl_emit *c) {
    char expr[160];
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    if (c->node->opset < 9 || pl_emit_rank(c, 0) < 2) return pl_emit_decline(c, "an old form");
    for (int i = 1; i < c->n_out; i++)
        if (pl_emit_wants(c, i)) return pl_emit_decline(c, "training");
    if (pl_attr_has(c->node, "training_mode") && pl_attr_int(c->node, "training_mode") != 0) {
        return pl_emit_decline(c, "training");
    }
    snprintf(expr, sizeof(expr), "$0 / __builtin_sqrt($1 + %a)", pl_attr_float(c->node, "epsilon"));
    const pl_ref a = pl_emit_map2(c, PL_F64, expr, per_channel(c, 1), per_channel(c, 4));
    const pl_ref args[] = { pl_emit_in(c, 0), per_channel(c, 3), pl_emit_map1(c, wide, "$0", a),
                            per_channel(c, 2) };
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, "($0 - $1) * $2 + $3", 4, args));
}

/* ---- global pooling ---- */

static pl_status global_pool(pl_emit *c, bool mean) {
    const int rank = pl_emit_rank(c, 0);
    const pl_dtype dtype = c->in[0]->dtype;
    unsigned axes = 0;
    if (rank < 3) return pl_emit_decline(c, "nothing to reduce");
    for (int d = 2; d < rank; d++)
        axes |= 1u << d;
    pl_ref x = pl_emit_reduce(c, mean ? PL_FOLD_SUM : PL_FOLD_MAX,
                              mean ? PL_F64 : pl_emit_compute(dtype), pl_emit_in(c, 0), axes);
    if (mean) x = divide(c, PL_F64, x, count(c, axes));
    return pl_emit_out(c, 0, pl_emit_map1(c, dtype, "$0", x));
}
pl_status pl_emit_global_average_pool(pl_emit *c) {
    return global_pool(c, true);
}
pl_status pl_emit_global_max_pool(pl_emit *c) {
    return global_pool(c, false);
}
