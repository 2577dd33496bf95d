/* Emission of normalisations: statistics as sums over axes in double, then one map. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/lib/emit_norm.h"
#include "ops/nn/norm_int.h"
#include "ops/nn/norm_rules.h"

/* ---- LayerNormalization, RMSNormalization ---- */

static int first_axis(const pl_emit *c) {
    return pl_emit_axis(pl_attr_int(c->node, "axis"), pl_emit_rank(c, 0));
}

pl_status pl_emit_layer_norm(pl_emit *c) {
    const pl_emit_row_norm r = { pl_emit_in(c, 0), first_axis(c), false, 1, 2, 1, 2 };
    return pl_emit_rows(c, &r);
}
pl_status pl_emit_rms_norm(pl_emit *c) {
    const pl_emit_row_norm r = { pl_emit_in(c, 0), first_axis(c), true, 1, -1, -1, 1 };
    return pl_emit_rows(c, &r);
}

/* ---- channels ---- */

/* Rows are (sample, group), channels are dim 1; the scale is per channel or per group. */
static pl_status groups(pl_emit *c, int64_t n_groups) {
    int64_t dims[PL_EMIT_RANK_MAX], inner = 1;
    const int rank = pl_emit_rank(c, 0);
    const int64_t channels = pl_emit_dim(c, 0, 1);
    pl_emit_in_dims(c, 0, dims);
    for (int d = 2; d < rank; d++)
        inner *= dims[d];
    const int64_t seen[4] = { dims[0], n_groups, channels / n_groups, inner };
    pl_emit_norm q = { .x = pl_emit_reshape(c, pl_emit_in(c, 0), 4, seen),
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
    pl_ref y = pl_emit_scaled(c, q.wide, pl_emit_normalised(c, &q), side[0], side[1]);
    y = pl_emit_map1(c, c->out[0]->dtype, "$0", y);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, rank, dims));
}

/* One group per channel. The shape stays as it is, so that neighbouring nodes can be fused. */
pl_status pl_emit_instance_norm(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    if (rank < 3) return groups(c, pl_emit_dim(c, 0, 1));
    pl_emit_norm q = { .x = pl_emit_in(c, 0),
                       .wide = pl_emit_compute(c->in[0]->dtype),
                       .axes = pl_emit_axes_from(2, rank),
                       .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = pl_emit_count(c, q.axes);
    const pl_ref scale = pl_emit_along(c, pl_emit_in(c, 1), rank - 1, 0);
    const pl_ref bias = pl_emit_along(c, pl_emit_in(c, 2), rank - 1, 0);
    const pl_ref y = pl_emit_scaled(c, q.wide, pl_emit_normalised(c, &q), scale, bias);
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, "$0", y));
}
pl_status pl_emit_group_norm(pl_emit *c) {
    return groups(c, pl_attr_int(c->node, "num_groups"));
}

/* ---- the others ---- */

/* A norm of 0 gives 0, as in the kernel. */
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
    const int64_t n = pl_emit_count(c, axes);
    const bool scale = c->node->opset >= 9 || pl_attr_int(c->node, "normalize_variance") != 0;
    const pl_ref x = pl_emit_in(c, 0);
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref mean =
        pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, x, axes), n);
    if (!scale) return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 - $1", x, mean));
    const pl_ref square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", x, mean);
    const pl_ref variance =
        pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, axes), n);
    const pl_ref deviation = pl_emit_map1(c, PL_F64, "__builtin_sqrt($0) + 1e-9", variance);
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "($0 - $1) / $2", x, mean, deviation));
}

/* Sum of squares over the channels around each one, skipping those outside. */
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
