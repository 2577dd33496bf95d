/* Emission of Softmax, LogSoftmax and Hardmax. Sums run in double, except those of Softmax over
 * short rows. */
#include "ops/emit.h"
#include "ops/nn/softmax_rules.h"

enum { SHORT_ROW = 8192 };

/* Before opset 13 the input is flattened to a matrix. */
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
    const pl_dtype sum_in = wide == PL_F32 && pl_emit_count(c, axes) <= SHORT_ROW ? PL_F32 : PL_F64;
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, axes);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_share_$S($0 - $1)", x, peak);
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
    const pl_ref rest = pl_emit_map1(c, PL_F64, "__builtin_log($0)", sum);
    return pl_emit_out(
        c, 0, pl_emit_map3(c, c->out[0]->dtype, "(double)$0 - (double)$1 - $2", x, peak, rest));
}

pl_status pl_emit_hardmax(pl_emit *c) {
    const unsigned axes = softmax_axes(c);
    if (axes == 0) return pl_emit_decline(c, "nothing to reduce");
    const pl_ref best = pl_emit_extreme_at(c, axes, false, false);
    return pl_emit_out(
        c, 0, pl_emit_map2(c, c->out[0]->dtype, "$0 == $1", pl_emit_position(c, axes), best));
}
