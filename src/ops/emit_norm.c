/* Emission of normalisations: statistics by sums over axes in double, then one map. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"
#include "ops/op_norm_int.h"

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

static pl_ref inverse_root(pl_emit *c, pl_ref variance, double epsilon) {
    char expr[120];
    snprintf(expr, sizeof(expr), "1 / __builtin_sqrt($0 + %a)", epsilon);
    return pl_emit_map1(c, PL_F64, expr, variance);
}

/* What is normalised, over which axes, and what came out. */
typedef struct norm {
    pl_ref x;
    pl_dtype wide; /* the type that y is computed in */
    unsigned axes;
    int64_t n; /* elements of a row */
    bool rms;
    double epsilon;
    pl_ref mean, inverse; /* set; mean not for rms */
} norm;

/* (x - mean) * inverse, statistics in double. */
static pl_ref normalised(pl_emit *c, norm *q) {
    pl_ref y = q->x, square;
    q->mean = -1;
    if (q->rms) {
        square = pl_emit_map1(c, PL_F64, "(double)$0 * (double)$0", q->x);
    } else {
        q->mean = divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, q->x, q->axes), q->n);
        square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", q->x, q->mean);
    }
    const pl_ref variance =
        divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, q->axes), q->n);
    q->inverse = inverse_root(c, variance, q->epsilon);
    const pl_ref narrow = pl_emit_map1(c, q->wide, "$0", q->inverse);
    if (!q->rms) {
        y = pl_emit_map2(c, q->wide, "$0 - $1", y, pl_emit_map1(c, q->wide, "$0", q->mean));
    }
    return pl_emit_map2(c, q->wide, "$0 * $1", y, narrow);
}

/* scale and bias may be left out (-2; a negative reference that failed stays one). */
enum { NONE = -2 };
static pl_ref scaled(pl_emit *c, pl_dtype wide, pl_ref y, pl_ref scale, pl_ref bias) {
    if (scale != NONE) y = pl_emit_map2(c, wide, "$0 * $1", y, scale);
    if (bias != NONE) y = pl_emit_map2(c, wide, "$0 + $1", y, bias);
    return y;
}

static pl_ref in_or_none(pl_emit *c, int i) {
    return pl_emit_has(c, i) ? pl_emit_in(c, i) : NONE;
}

static pl_status statistic(pl_emit *c, int i, pl_ref value) {
    int64_t dims[PL_EMIT_RANK_MAX];
    if (!pl_emit_wants(c, i)) return PL_OK;
    pl_emit_out_dims(c, i, dims);
    const pl_ref y = pl_emit_map1(c, c->out[i]->dtype, "$0", value);
    return pl_emit_out(c, i, pl_emit_reshape(c, y, c->out[i]->rank, dims));
}

/* ---- rows: LayerNormalization and its kin ---- */

/* In double where the statistics are asked for in double, as in op_norm.c. */
static pl_dtype row_type(const pl_emit *c) {
    const bool has = pl_attr_has(c->node, "stash_type");
    if (has && pl_attr_int(c->node, "stash_type") == PL_F64) return PL_F64;
    return pl_emit_compute(c->in[0]->dtype);
}

/* x: what is normalised over the last dims from `first` on, with the inputs and outputs named. */
typedef struct row_norm {
    pl_ref x;
    int first;
    bool rms;
    int scale, bias;           /* inputs; -1 = none */
    int mean_out, inverse_out; /* outputs; -1 = none */
} row_norm;

static pl_status rows(pl_emit *c, const row_norm *r) {
    const int rank = pl_emit_rank(c, 0);
    norm q = { .x = r->x,
               .wide = row_type(c),
               .axes = pl_emit_axes_from(r->first, rank),
               .rms = r->rms,
               .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = count(c, q.axes);
    const pl_ref y = normalised(c, &q);
    if (!r->rms && r->mean_out > 0) PL_TRY(statistic(c, r->mean_out, q.mean));
    if (r->inverse_out > 0) PL_TRY(statistic(c, r->inverse_out, q.inverse));
    const pl_ref scale = r->scale < 0 ? NONE : in_or_none(c, r->scale);
    const pl_ref bias = r->bias < 0 ? NONE : in_or_none(c, r->bias);
    return pl_emit_out(c, 0,
                       pl_emit_map1(c, c->out[0]->dtype, "$0", scaled(c, q.wide, y, scale, bias)));
}

static int first_axis(const pl_emit *c) {
    return pl_emit_axis(pl_attr_int(c->node, "axis"), pl_emit_rank(c, 0));
}

pl_status pl_emit_layer_norm(pl_emit *c) {
    const row_norm r = { pl_emit_in(c, 0), first_axis(c), false, 1, 2, 1, 2 };
    return rows(c, &r);
}
pl_status pl_emit_rms_norm(pl_emit *c) {
    const row_norm r = { pl_emit_in(c, 0), first_axis(c), true, 1, -1, -1, 1 };
    return rows(c, &r);
}

/* com.microsoft SkipLayerNormalization: x + skip + bias, which is output 3, too. */
static pl_status skip_norm(pl_emit *c, bool rms) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const int bias = rms ? 3 : 4, last = pl_emit_rank(c, 0) - 1;
    pl_ref sum = pl_emit_map2(c, wide, "$0 + $1", pl_emit_in(c, 0), pl_emit_in(c, 1));
    if (pl_emit_has(c, bias)) sum = pl_emit_map2(c, wide, "$0 + $1", sum, pl_emit_in(c, bias));
    PL_TRY(statistic(c, 3, sum));
    const row_norm r = { sum, last, rms, 2, rms ? -1 : 3, 1, 2 };
    return rows(c, &r);
}
pl_status pl_emit_skip_layer_norm(pl_emit *c) {
    return skip_norm(c, false);
}
pl_status pl_emit_skip_rms_norm(pl_emit *c) {
    return pl_emit_wants(c, 1) ? pl_emit_decline(c, "the mean is wanted") : skip_norm(c, true);
}

/* ---- channels ---- */

/* Rows are (sample, group), channels are dim 1; the scale has one number for each channel, or for
 * each group. */
static pl_status groups(pl_emit *c, int64_t n_groups) {
    int64_t dims[PL_EMIT_RANK_MAX], inner = 1;
    const int rank = pl_emit_rank(c, 0);
    const int64_t channels = pl_emit_dim(c, 0, 1);
    pl_emit_in_dims(c, 0, dims);
    for (int d = 2; d < rank; d++)
        inner *= dims[d];
    const int64_t seen[4] = { dims[0], n_groups, channels / n_groups, inner };
    norm q = { .x = pl_emit_reshape(c, pl_emit_in(c, 0), 4, seen),
               .wide = pl_emit_compute(c->in[0]->dtype),
               .axes = 1u << 2 | 1u << 3,
               .n = seen[2] * seen[3],
               .epsilon = pl_attr_float(c->node, "epsilon") };
    pl_ref side[2];
    for (int i = 0; i < 2; i++) {
        const bool per_group = pl_emit_elements(c->in[i + 1]) != channels;
        const int64_t shape[3] = { n_groups, per_group ? 1 : seen[2], 1 };
        side[i] = pl_emit_reshape(c, pl_emit_in(c, i + 1), 3, shape);
    }
    pl_ref y = scaled(c, q.wide, normalised(c, &q), side[0], side[1]);
    y = pl_emit_map1(c, c->out[0]->dtype, "$0", y);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, rank, dims));
}

/* A group for each channel: seen as it is, so that neighbours can join the loop. */
pl_status pl_emit_instance_norm(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    if (rank < 3) return groups(c, pl_emit_dim(c, 0, 1));
    norm q = { .x = pl_emit_in(c, 0),
               .wide = pl_emit_compute(c->in[0]->dtype),
               .axes = pl_emit_axes_from(2, rank),
               .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = count(c, q.axes);
    const pl_ref scale = pl_emit_along(c, pl_emit_in(c, 1), rank - 1, 0);
    const pl_ref bias = pl_emit_along(c, pl_emit_in(c, 2), rank - 1, 0);
    const pl_ref y = scaled(c, q.wide, normalised(c, &q), scale, bias);
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, "$0", y));
}
pl_status pl_emit_group_norm(pl_emit *c) {
    return groups(c, pl_attr_int(c->node, "num_groups"));
}

/* com.microsoft GroupNorm: channels last, or second; activation 1 is Swish. SkipGroupNorm adds
 * skip and bias before, and shows the sum as output 1. */
static pl_status ms_groups(pl_emit *c, pl_ref x) {
    int64_t dims[PL_EMIT_RANK_MAX], shape[5], n = 1;
    const int rank = pl_emit_rank(c, 0);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    const int64_t g = pl_attr_int(c->node, "groups");
    pl_emit_in_dims(c, 0, dims);
    const int64_t channels = dims[last ? rank - 1 : 1];
    for (int d = last ? 1 : 2; d < (last ? rank - 1 : rank); d++)
        n *= dims[d];
    shape[0] = dims[0];
    shape[1] = last ? n : g;
    shape[2] = last ? g : channels / g;
    shape[3] = last ? channels / g : n;
    norm q = { .x = pl_emit_reshape(c, x, 4, shape),
               .wide = pl_emit_compute(c->in[0]->dtype),
               .axes = last ? 1u << 1 | 1u << 3 : 1u << 2 | 1u << 3,
               .n = n * (channels / g),
               .epsilon = pl_attr_float(c->node, "epsilon") };
    const int64_t side[3] = { g, channels / g, 1 };
    const pl_ref scale = pl_emit_reshape(c, pl_emit_in(c, 1), last ? 2 : 3, side);
    const pl_ref bias = pl_emit_reshape(c, pl_emit_in(c, 2), last ? 2 : 3, side);
    pl_ref y = scaled(c, q.wide, normalised(c, &q), scale, bias);
    if (pl_attr_int(c->node, "activation") != 0) y = pl_emit_map1(c, q.wide, "px_silu_$S($0)", y);
    y = pl_emit_map1(c, c->out[0]->dtype, "$0", y);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, rank, dims));
}
pl_status pl_emit_ms_group_norm(pl_emit *c) {
    return ms_groups(c, pl_emit_in(c, 0));
}
pl_status pl_emit_ms_skip_group_norm(pl_emit *c) {
    int64_t shape[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX];
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const int rank = pl_emit_rank(c, 0);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    if (!last) return pl_emit_decline(c, "channels are not last");
    pl_emit_in_dims(c, 0, dims);
    for (int d = 0; d < rank; d++)
        shape[d] = d == 0 || d == rank - 1 ? dims[d] : 1;
    pl_ref skip = pl_emit_in(c, 3);
    if (pl_emit_elements(c->in[3]) != pl_emit_elements(c->in[0])) {
        skip = pl_emit_reshape(c, skip, rank, shape); /* (N, C) or (N, 1, 1, C) */
    }
    pl_ref x = pl_emit_map2(c, wide, "$0 + $1", pl_emit_in(c, 0), skip);
    if (pl_emit_has(c, 4)) x = pl_emit_map2(c, wide, "$0 + $1", x, pl_emit_in(c, 4));
    PL_TRY(statistic(c, 1, x));
    return ms_groups(c, x);
}

/* ---- BatchNormalization ---- */

/* Statistics stand at dim 1; without `spatial` (until 8) at all dims but the batch. */
static pl_ref per_channel(pl_emit *c, int i, bool spatial) {
    int64_t dims[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    if (spatial) return pl_emit_along(c, pl_emit_in(c, i), rank - 1, 0);
    pl_emit_in_dims(c, 0, dims);
    return pl_emit_reshape(c, pl_emit_in(c, i), rank - 1, dims + 1);
}

static pl_status batch_norm_train(pl_emit *c, bool spatial) {
    char expr[200];
    const double momentum = pl_attr_float(c->node, "momentum");
    const int rank = pl_emit_rank(c, 0);
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    norm q = { .x = pl_emit_in(c, 0),
               .axes = spatial ? pl_emit_axes_from(0, rank) & ~2u : 1u,
               .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = count(c, q.axes);
    const pl_ref mean = divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, q.x, q.axes), q.n);
    const pl_ref square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", q.x, mean);
    const pl_ref var =
        divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, q.axes), q.n);
    snprintf(expr, sizeof(expr), "$0 * %a + $1 * %a", momentum, 1 - momentum);
    const pl_ref old_mean = per_channel(c, 3, spatial), old_var = per_channel(c, 4, spatial);
    PL_TRY(statistic(c, 1, pl_emit_map2(c, PL_F64, expr, old_mean, mean)));
    PL_TRY(statistic(c, 2, pl_emit_map2(c, PL_F64, expr, old_var, var)));
    PL_TRY(statistic(c, 3, mean));
    PL_TRY(statistic(c, 4, var));
    snprintf(expr, sizeof(expr), "$0 / __builtin_sqrt($1 + %a)", q.epsilon);
    const pl_ref a = pl_emit_map2(c, PL_F64, expr, per_channel(c, 1, spatial), var);
    const pl_ref args[] = { q.x, pl_emit_map1(c, wide, "$0", mean), pl_emit_map1(c, wide, "$0", a),
                            per_channel(c, 2, spatial) };
    if (!pl_emit_wants(c, 0)) return PL_OK;
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, "($0 - $1) * $2 + $3", 4, args));
}

/* Outside training: (x - mean) * a + bias, with a from the variance in double. */
pl_status pl_emit_batch_norm(pl_emit *c) {
    char expr[160];
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    if (pl_emit_rank(c, 0) < 2) return pl_emit_decline(c, "one dim");
    const bool spatial = pl_batch_norm_is_spatial(c->node);
    if (pl_batch_norm_is_training(c->node)) return batch_norm_train(c, spatial);
    for (int i = 1; i < c->n_out; i++)
        if (pl_emit_wants(c, i)) PL_TRY(statistic(c, i, pl_emit_in(c, i % 2 == 1 ? 3 : 4)));
    snprintf(expr, sizeof(expr), "$0 / __builtin_sqrt($1 + %a)", pl_attr_float(c->node, "epsilon"));
    const pl_ref a =
        pl_emit_map2(c, PL_F64, expr, per_channel(c, 1, spatial), per_channel(c, 4, spatial));
    const pl_ref args[] = { pl_emit_in(c, 0), per_channel(c, 3, spatial),
                            pl_emit_map1(c, wide, "$0", a), per_channel(c, 2, spatial) };
    if (!pl_emit_wants(c, 0)) return PL_OK;
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, "($0 - $1) * $2 + $3", 4, args));
}

/* ---- the others ---- */

/* A norm of 0 leaves 0, as in the kernel. */
pl_status pl_emit_lp_norm(pl_emit *c) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const bool one = pl_attr_int(c->node, "p") == 1;
    if (pl_emit_rank(c, 0) == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref part =
        pl_emit_map1(c, PL_F64, one ? "__builtin_fabs((double)$0)" : "(double)$0 * (double)$0", x);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, part, 1u << first_axis(c));
    const pl_ref length =
        pl_emit_map1(c, wide, one ? "$0 == 0 ? 1 : $0" : "$0 == 0 ? 1 : __builtin_sqrt($0)", sum);
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 / $1", x, length));
}

pl_status pl_emit_mvn(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    const unsigned axes = pl_mvn_axes(c->node, rank);
    const int64_t n = count(c, axes);
    const bool scale = c->node->opset >= 9 || pl_attr_int(c->node, "normalize_variance") != 0;
    const pl_ref x = pl_emit_in(c, 0);
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref mean = divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, x, axes), n);
    if (!scale) return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 - $1", x, mean));
    const pl_ref square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", x, mean);
    const pl_ref variance =
        divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, axes), n);
    const pl_ref deviation = pl_emit_map1(c, PL_F64, "__builtin_sqrt($0) + 1e-9", variance);
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "($0 - $1) / $2", x, mean, deviation));
}

/* The channels of a window around each: loads, where they are inside. */
static pl_ref window_sum(pl_emit *c, int64_t size) {
    int64_t dims[PL_EMIT_RANK_MAX], inner = 1;
    char expr[200];
    pl_ref sum = -1;
    const int rank = pl_emit_rank(c, 0);
    pl_emit_in_dims(c, 0, dims);
    for (int d = 2; d < rank; d++)
        inner *= dims[d];
    const int64_t seen[3] = { dims[0], dims[1], inner };
    const pl_ref x = pl_emit_reshape(c, pl_emit_in(c, 0), 3, seen);
    const pl_ref n = pl_emit_iota(c, 3, 0, seen[0]), ch = pl_emit_iota(c, 3, 1, seen[1]);
    const pl_ref i = pl_emit_iota(c, 3, 2, inner);
    for (int64_t t = -((size - 1) / 2); t <= size / 2; t++) {
        if (t <= -seen[1] || t >= seen[1]) continue;
        snprintf(expr, sizeof(expr), "$0 + %lld < 0 || $0 + %lld >= %lld ? -1 : $0 + %lld",
                 (long long)t, (long long)t, (long long)seen[1], (long long)t);
        const pl_ref from = pl_emit_map1(c, PL_I64, expr, ch);
        snprintf(expr, sizeof(expr), "($0 * %lld + ($1 < 0 ? 0 : $1)) * %lld + $2",
                 (long long)seen[1], (long long)inner);
        const pl_ref v = pl_emit_load(c, x, pl_emit_map3(c, PL_I64, expr, n, from, i));
        const pl_ref part =
            pl_emit_map2(c, PL_F64, "$1 < 0 ? 0 : (double)$0 * (double)$0", v, from);
        sum = sum < 0 ? part : pl_emit_map2(c, PL_F64, "$0 + $1", sum, part);
    }
    return pl_emit_reshape(c, sum, rank, dims);
}

pl_status pl_emit_lrn(pl_emit *c) {
    enum { WIDE = 32 };
    char expr[300];
    const int64_t size = pl_attr_int(c->node, "size");
    const double beta = pl_attr_float(c->node, "beta");
    if (size > WIDE) return pl_emit_decline(c, "a wide window");
    snprintf(expr, sizeof(expr), "%a + %a * $0", pl_attr_float(c->node, "bias"),
             pl_attr_float(c->node, "alpha") / (double)size);
    const pl_ref t = pl_emit_map1(c, PL_F64, expr, window_sum(c, size));
    snprintf(expr, sizeof(expr), "$0 / __builtin_pow($1, %a)", beta);
    return pl_emit_out(
        c, 0,
        pl_emit_map2(c, c->out[0]->dtype,
                     beta == 0.75 ? "$0 / __builtin_sqrt($1 * __builtin_sqrt($1))" : expr,
                     pl_emit_in(c, 0), t));
}
