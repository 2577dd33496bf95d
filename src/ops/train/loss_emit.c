/* Emission of losses, computed in double as in their kernels. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/train/loss_rules.h"

/* ---- losses ---- */

/* -log_prob[class] * weight[class] for every target; 0 where the class is ignored. */
static pl_status losses(pl_emit *c, pl_ref log_prob) {
    char expr[200];
    int64_t dims[PL_EMIT_RANK_MAX], inner = 1;
    pl_emit_in_dims(c, 0, dims);
    for (int d = 2; d < pl_emit_rank(c, 0); d++)
        inner *= dims[d];
    const int64_t seen[2] = { dims[0], inner };
    const long long classes = dims[1];
    const pl_ref target = pl_emit_reshape(c, pl_emit_in(c, 1), 2, seen);
    const bool ignores = pl_attr_has(c->node, "ignore_index");
    snprintf(expr, sizeof(expr), "$0 == %lld ? -1 : px_within($0, 0, %lld, $F)",
             (long long)pl_attr_int(c->node, "ignore_index"), classes - 1);
    if (!ignores) snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", classes - 1);
    const pl_ref class = pl_emit_map1(c, PL_I64, expr, target);
    const pl_ref safe = pl_emit_map1(c, PL_I64, "$0 < 0 ? 0 : $0", class);
    snprintf(expr, sizeof(expr), "($0 * %lld + $1) * %lld + $2", classes, (long long)inner);
    const pl_ref at = pl_emit_map3(c, PL_I64, expr, pl_emit_iota(c, 2, 0, dims[0]), safe,
                                   pl_emit_iota(c, 2, 1, inner));
    const pl_ref p = pl_emit_load(c, log_prob, at);
    pl_ref weight = pl_emit_has(c, 2) ? pl_emit_load(c, pl_emit_in(c, 2), safe)
                                      : pl_emit_constant(c, PL_F64, 1);
    weight = pl_emit_map2(c, PL_F64, "$0 < 0 ? 0 : $1", class, weight);
    const pl_ref loss = pl_emit_map3(c, PL_F64, "$0 < 0 ? 0 : -(double)$1 * $2", class, p, weight);
    if (pl_attr_string_is(c->node, "reduction", "none")) {
        pl_emit_out_dims(c, 0, dims);
        const pl_ref y = pl_emit_map1(c, c->out[0]->dtype, "$0", loss);
        return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
    }
    pl_ref y = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, loss, 3);
    if (pl_attr_string_is(c->node, "reduction", "mean")) {
        y = pl_emit_map2(c, PL_F64, "$0 / $1", y,
                         pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, weight, 3));
    }
    return pl_emit_out(c, 0, pl_emit_scalar(c, pl_emit_map1(c, c->out[0]->dtype, "$0", y)));
}

pl_status pl_emit_nll_loss(pl_emit *c) {
    return losses(c, pl_emit_in(c, 0));
}

pl_status pl_emit_cross_entropy(pl_emit *c) {
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const pl_ref x = pl_emit_in(c, 0);
    const pl_ref peak = pl_emit_reduce(c, PL_FOLD_PEAK, wide, x, 2);
    const pl_ref e = pl_emit_map2(c, wide, "px_exp_down_$S($0 - $1)", x, peak);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, 2);
    const pl_ref rest = pl_emit_map1(c, PL_F64, "__builtin_log($0)", sum);
    const pl_ref log_prob = pl_emit_map3(c, wide, "(double)$0 - (double)$1 - $2", x, peak, rest);
    if (pl_emit_wants(c, 1)) {
        PL_TRY(pl_emit_out(c, 1, pl_emit_map1(c, c->out[1]->dtype, "$0", log_prob)));
    }
    return losses(c, log_prob);
}
