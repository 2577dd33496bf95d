/* Emission of BatchNormalization. */
#include <stdio.h>

#include "ops/lib/emit_norm.h"
#include "ops/nn/batch_norm_rules.h"
#include "ops/nn/norm_int.h"

/* Statistics are along dim 1; without `spatial` (before opset 9) along all dims but the batch. */
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
    pl_emit_norm q = { .x = pl_emit_in(c, 0),
                       .axes = spatial ? pl_emit_axes_from(0, rank) & ~2u : 1u,
                       .epsilon = pl_attr_float(c->node, "epsilon") };
    q.n = pl_emit_count(c, q.axes);
    const pl_ref mean =
        pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, q.x, q.axes), q.n);
    const pl_ref square = pl_emit_map2(c, PL_F64, "($0 - $1) * ($0 - $1)", q.x, mean);
    const pl_ref var =
        pl_emit_divide(c, PL_F64, pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, square, q.axes), q.n);
    snprintf(expr, sizeof(expr), "$0 * %a + $1 * %a", momentum, 1 - momentum);
    const pl_ref old_mean = per_channel(c, 3, spatial), old_var = per_channel(c, 4, spatial);
    PL_TRY(pl_emit_statistic(c, 1, pl_emit_map2(c, PL_F64, expr, old_mean, mean)));
    PL_TRY(pl_emit_statistic(c, 2, pl_emit_map2(c, PL_F64, expr, old_var, var)));
    PL_TRY(pl_emit_statistic(c, 3, mean));
    PL_TRY(pl_emit_statistic(c, 4, var));
    snprintf(expr, sizeof(expr), "$0 / __builtin_sqrt($1 + %a)", q.epsilon);
    const pl_ref a = pl_emit_map2(c, PL_F64, expr, per_channel(c, 1, spatial), var);
    const pl_ref args[] = { q.x, pl_emit_map1(c, wide, "$0", mean), pl_emit_map1(c, wide, "$0", a),
                            per_channel(c, 2, spatial) };
    if (!pl_emit_wants(c, 0)) return PL_OK;
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, "($0 - $1) * $2 + $3", 4, args));
}

/* In inference: (x - mean) * a + bias, with a computed from the variance in double. */
pl_status pl_emit_batch_norm(pl_emit *c) {
    char expr[160];
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    if (pl_emit_rank(c, 0) < 2) return pl_emit_decline(c, "one dim");
    const bool spatial = pl_batch_norm_is_spatial(c->node);
    if (pl_batch_norm_is_training(c->node)) return batch_norm_train(c, spatial);
    for (int i = 1; i < c->n_out; i++)
        if (pl_emit_wants(c, i)) PL_TRY(pl_emit_statistic(c, i, pl_emit_in(c, i % 2 == 1 ? 3 : 4)));
    snprintf(expr, sizeof(expr), "$0 / __builtin_sqrt($1 + %a)", pl_attr_float(c->node, "epsilon"));
    const pl_ref a =
        pl_emit_map2(c, PL_F64, expr, per_channel(c, 1, spatial), per_channel(c, 4, spatial));
    const pl_ref args[] = { pl_emit_in(c, 0), per_channel(c, 3, spatial),
                            pl_emit_map1(c, wide, "$0", a), per_channel(c, 2, spatial) };
    if (!pl_emit_wants(c, 0)) return PL_OK;
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, "($0 - $1) * $2 + $3", 4, args));
}
