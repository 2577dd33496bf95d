/* Emission of com.microsoft's fused operators: sums and biases are not rounded in between. */
#include "ops/emit.h"
#include "ops/lib/emit_norm.h"
#include "ops/microsoft/ms_fused_rules.h"

static pl_status activated(pl_emit *c, pl_ref x, const char *expr) {
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, x));
}

/* x + bias, when there is one. */
static pl_ref biased(pl_emit *c) {
    const pl_ref x = pl_emit_in(c, 0);
    if (!pl_emit_has(c, 1)) return x;
    return pl_emit_map2(c, pl_emit_compute(c->in[0]->dtype), "$0 + $1", x, pl_emit_in(c, 1));
}

pl_status pl_emit_bias_gelu(pl_emit *c) {
    return activated(c, biased(c), "px_gelu_$S($0)");
}
pl_status pl_emit_fast_gelu(pl_emit *c) {
    return activated(c, biased(c), "px_gelu_tanh_$S($0)");
}

pl_status pl_emit_gemm_fast_gelu(pl_emit *c) {
    if (pl_emit_rank(c, 0) < 2 || pl_emit_rank(c, 1) < 2) return pl_emit_decline(c, "a vector");
    const pl_emit_gemm gemm = { pl_emit_wide(c, 0), pl_emit_wide(c, 1), 1 };
    pl_ref y = c->builder->gemm(c, &gemm);
    if (pl_emit_has(c, 2)) {
        y = pl_emit_map2(c, pl_emit_compute(c->in[0]->dtype), "$0 + $1", y, pl_emit_in(c, 2));
    }
    return activated(c, y, "px_gelu_tanh_$S($0)");
}

pl_status pl_emit_bias_add(pl_emit *c) {
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "$0 + $2 + $1", pl_emit_in(c, 0),
                                    pl_emit_in(c, 1), pl_emit_in(c, 2)));
}

/* The mask of a dropout outside training: ones, or words of ones. */
static pl_status mask_of_ones(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    if (pl_node_is_random(c->node)) return pl_emit_decline(c, "random");
    if (!pl_emit_wants(c, 1)) return PL_OK;
    const pl_dtype to = c->out[1]->dtype;
    pl_emit_out_dims(c, 1, dims);
    const pl_ref one = pl_emit_constant(c, to, to == PL_U32 ? UINT32_MAX : 1);
    return pl_emit_out(c, 1, pl_emit_expand(c, one, c->out[1]->rank, dims));
}

/* Dropout outside training: data + bias + residual. */
pl_status pl_emit_bias_dropout(pl_emit *c) {
    PL_TRY(mask_of_ones(c));
    if (!pl_emit_wants(c, 0)) return PL_OK;
    const pl_ref x = pl_emit_in(c, 0), bias = pl_emit_in(c, 1);
    const pl_dtype to = c->out[0]->dtype;
    if (!pl_emit_has(c, 2)) return pl_emit_out(c, 0, pl_emit_map2(c, to, "$0 + $1", x, bias));
    return pl_emit_out(c, 0, pl_emit_map3(c, to, "$0 + $1 + $2", x, bias, pl_emit_in(c, 2)));
}

pl_status pl_emit_bitmask_dropout(pl_emit *c) {
    PL_TRY(mask_of_ones(c));
    return pl_emit_wants(c, 0) ? pl_emit_identity(c) : PL_OK;
}

/* left * gelu(right) of the halves of the last dim. */
pl_status pl_emit_bias_split_gelu(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX], starts[PL_EMIT_RANK_MAX] = { 0 };
    const int last = pl_emit_rank(c, 0) - 1;
    pl_emit_out_dims(c, 0, dims);
    const pl_ref x = biased(c), left = pl_emit_slice(c, x, starts, NULL, dims);
    starts[last] = dims[last];
    const pl_ref right = pl_emit_slice(c, x, starts, NULL, dims);
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 * px_gelu_$S($1)", left, right));
}

pl_status pl_emit_bias_softmax(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    const unsigned axes = pl_emit_axes_from(pl_emit_axis(pl_attr_int(c->node, "axis"), rank), rank);
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref x = biased(c);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, axes);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_down_$S($0 - $1)", x, peak);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, axes);
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 / ($T)$1", e, sum));
}

/* ---- normalisations ---- */

/* com.microsoft SkipLayerNormalization: x + skip + bias, which is also output 3. */
static pl_status skip_norm(pl_emit *c, bool rms) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const int bias = rms ? 3 : 4, last = pl_emit_rank(c, 0) - 1;
    pl_ref sum = pl_emit_map2(c, wide, "$0 + $1", pl_emit_in(c, 0), pl_emit_in(c, 1));
    if (pl_emit_has(c, bias)) sum = pl_emit_map2(c, wide, "$0 + $1", sum, pl_emit_in(c, bias));
    PL_TRY(pl_emit_statistic(c, 3, sum));
    const pl_emit_row_norm r = { sum, last, rms, 2, rms ? -1 : 3, 1, 2 };
    return pl_emit_rows(c, &r);
}
pl_status pl_emit_skip_layer_norm(pl_emit *c) {
    return skip_norm(c, false);
}
pl_status pl_emit_skip_rms_norm(pl_emit *c) {
    return pl_emit_wants(c, 1) ? pl_emit_decline(c, "the mean is requested") : skip_norm(c, true);
}

/* com.microsoft GroupNorm: channels last, or second; activation 1 is Swish. SkipGroupNorm first
 * adds skip and bias; the sum is output 1. */
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
    pl_emit_norm q = { .x = pl_emit_reshape(c, x, 4, shape),
                       .wide = pl_emit_compute(c->in[0]->dtype),
                       .axes = last ? 1u << 1 | 1u << 3 : 1u << 2 | 1u << 3,
                       .n = n * (channels / g),
                       .epsilon = pl_attr_float(c->node, "epsilon") };
    const int64_t side[3] = { g, channels / g, 1 };
    const pl_ref scale = pl_emit_reshape(c, pl_emit_in(c, 1), last ? 2 : 3, side);
    const pl_ref bias = pl_emit_reshape(c, pl_emit_in(c, 2), last ? 2 : 3, side);
    pl_ref y = pl_emit_scaled(c, q.wide, pl_emit_normalised(c, &q), scale, bias);
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
    PL_TRY(pl_emit_statistic(c, 1, x));
    return ms_groups(c, x);
}
