/* Emission of TensorScatter. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/tensor/scatter_rules.h"

/* TensorScatter-24: the update inside its window, else the cache. */
pl_status pl_emit_tensor_scatter(pl_emit *c) {
    char expr[200];
    int64_t strides[PL_EMIT_RANK_MAX] = { 0 };
    const int rank = pl_emit_rank(c, 0);
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    const bool circular = pl_attr_string_is(c->node, "mode", "circular");
    const long long room = pl_emit_dim(c, 0, axis), n = pl_emit_dim(c, 1, axis);
    pl_emit_strides(c, 1, strides);
    pl_ref start = pl_emit_has(c, 2) ? pl_emit_along(c, pl_emit_in(c, 2), rank, 0)
                                     : pl_emit_constant(c, PL_I64, 0);
    if (circular) {
        snprintf(expr, sizeof(expr), "px_within($0, 0, INT64_MAX, $F) %% %lld", room);
    } else {
        snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", room - n);
    }
    start = pl_emit_map1(c, PL_I64, expr, start);
    const pl_ref i = pl_emit_iota(c, rank, axis, room);
    snprintf(expr, sizeof(expr), circular ? "px_mod_i($0 - $1, %lld)" : "$0 - $1", room);
    const pl_ref rest = pl_emit_map2(c, PL_I64, expr, i, start);
    snprintf(expr, sizeof(expr), "$0 >= 0 && $0 < %lld", n);
    const pl_ref inside = pl_emit_map1(c, PL_BOOL, expr, rest);
    snprintf(expr, sizeof(expr), "px_edge($0, %lld)", n);
    pl_ref at = pl_emit_add_part(c, -1, pl_emit_map1(c, PL_I64, expr, rest), strides[axis]);
    for (int d = 0; d < rank; d++) {
        if (d == axis) continue;
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d)), strides[d]);
    }
    const pl_ref update = pl_emit_load(c, pl_emit_in(c, 1), at);
    return pl_emit_out(
        c, 0, pl_emit_map3(c, c->out[0]->dtype, "$0 ? $1 : $2", inside, update, pl_emit_in(c, 0)));
}
