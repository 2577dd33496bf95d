/* Emission of operators that only change the shape, or repeat. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/tensor/shape_rules.h"

/* Reshape, Flatten, Squeeze, Unsqueeze: the shape is known from the shape rule. */
pl_status pl_emit_same_elements(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, pl_emit_in(c, 0), c->out[0]->rank, dims));
}

pl_status pl_emit_expand_rule(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_expand(c, pl_emit_in(c, 0), c->out[0]->rank, dims));
}

pl_status pl_emit_tile(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_ref at[PL_EMIT_RANK_MAX];
    bool stretches = true;
    pl_emit_out_dims(c, 0, dims);
    for (int d = 0; d < rank; d++)
        stretches = stretches && (pl_emit_dim(c, 0, d) == 1 || pl_emit_dim(c, 0, d) == dims[d]);
    if (stretches) {
        return pl_emit_out(c, 0, pl_emit_expand(c, pl_emit_in(c, 0), rank, dims));
    }
    for (int d = 0; d < rank; d++) {
        char expr[80];
        snprintf(expr, sizeof(expr), "$0 %% %lld", (long long)pl_emit_dim(c, 0, d));
        at[d] = pl_emit_iota(c, rank, d, dims[d]);
        if (dims[d] != pl_emit_dim(c, 0, d)) at[d] = pl_emit_map1(c, PL_I64, expr, at[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), pl_emit_place(c, at)));
}
