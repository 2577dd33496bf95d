/* Emission of com.microsoft's fused pointwise operators: sums and biases are not rounded between.
 */
#include "ops/emit.h"
#include "ops/emit_rules.h"

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

pl_status pl_emit_bias_add(pl_emit *c) {
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "$0 + $2 + $1", pl_emit_in(c, 0),
                                    pl_emit_in(c, 1), pl_emit_in(c, 2)));
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
