/* Emission of operators that select elements by run-time indices: emitted code checks each index,
 * then loads. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/tensor/index_rules.h"

/* ---- Gather ---- */

pl_status pl_emit_gather(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX], strides[PL_EMIT_RANK_MAX], shape[PL_EMIT_RANK_MAX];
    const int r = pl_emit_rank(c, 0), q = pl_emit_rank(c, 1), rank = c->out[0]->rank;
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), r);
    pl_emit_out_dims(c, 0, dims);
    pl_emit_strides(c, 0, strides);
    for (int d = 0; d < rank; d++)
        shape[d] = d < axis || d >= axis + q ? 1 : dims[d];
    const pl_ref index = pl_emit_reshape(c, pl_emit_in(c, 1), rank, shape);
    const int64_t n = pl_emit_dim(c, 0, axis);
    pl_ref at = pl_emit_add_part(c, -1, pl_emit_checked(c, index, n), strides[axis]);
    for (int d = 0; d < r; d++) {
        const int to = d < axis ? d : d - 1 + q;
        if (d == axis || pl_emit_dim(c, 0, d) == 1) continue;
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, to, dims[to]), strides[d]);
    }
    at = pl_emit_expand(c, at, rank, dims);
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}

pl_status pl_emit_gather_elements(pl_emit *c) {
    int64_t strides[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    if (rank == 0) return pl_emit_decline(c, "a scalar");
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    pl_emit_strides(c, 0, strides);
    const pl_ref index = pl_emit_checked(c, pl_emit_in(c, 1), pl_emit_dim(c, 0, axis));
    pl_ref at = pl_emit_add_part(c, -1, index, strides[axis]);
    for (int d = 0; d < rank; d++) {
        if (d == axis) continue;
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 1, d)), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}

/* GatherND-12: the last dim of the indices addresses an element in the dims after batch_dims. */
pl_status pl_emit_gather_nd(pl_emit *c) {
    int64_t strides[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX], from[PL_EMIT_RANK_MAX];
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, shape[PL_EMIT_RANK_MAX];
    const int r = pl_emit_rank(c, 0), q = pl_emit_rank(c, 1), rank = c->out[0]->rank;
    const int batch = (int)pl_attr_int(c->node, "batch_dims");
    const int width = (int)pl_emit_dim(c, 1, q - 1);
    pl_ref at = -1;
    pl_emit_strides(c, 0, strides);
    pl_emit_out_dims(c, 0, dims);
    pl_emit_in_dims(c, 1, from);
    from[q - 1] = 1;
    for (int d = 0; d < rank; d++)
        shape[d] = d < q - 1 ? dims[d] : 1;
    for (int k = 0; k < width; k++) {
        starts[q - 1] = k;
        const pl_ref column = pl_emit_slice(c, pl_emit_in(c, 1), starts, NULL, from);
        const pl_ref index = pl_emit_reshape(c, column, rank, shape);
        const int d = batch + k;
        at = pl_emit_add_part(c, at, pl_emit_checked(c, index, pl_emit_dim(c, 0, d)), strides[d]);
    }
    for (int d = 0; d < batch; d++)
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, d, dims[d]), strides[d]);
    for (int d = batch + width; d < r; d++) {
        const int to = q - 1 + d - batch - width;
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, to, dims[to]), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), pl_emit_expand(c, at, rank, dims)));
}

/* ---- OneHot ---- */

/* OneHot-11 counts negative indices from the end; others out of range set no element. */
pl_status pl_emit_one_hot(pl_emit *c) {
    char expr[200];
    int64_t dims[PL_EMIT_RANK_MAX], shape[PL_EMIT_RANK_MAX];
    const int64_t zero = 0, one = 1;
    const int rank = c->out[0]->rank;
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    pl_emit_out_dims(c, 0, dims);
    for (int d = 0; d < rank; d++)
        shape[d] = d == axis ? 1 : dims[d];
    pl_ref index = pl_emit_reshape(c, pl_emit_in(c, 0), rank, shape);
    if (pl_emit_is_float(c->in[0]->dtype))
        index = pl_emit_map1(c, PL_I64, "px_trunc_$S($0)", index);
    snprintf(expr, sizeof(expr), "(%s$0) == $1 ? $2 : $3",
             c->node->opset >= 11 ? "$0 < 0 ? $0 + $4 : " : "");
    const pl_ref values = pl_emit_in(c, 2);
    const pl_ref on = pl_emit_scalar(c, pl_emit_slice(c, values, &one, NULL, &one));
    const pl_ref off = pl_emit_scalar(c, pl_emit_slice(c, values, &zero, NULL, &one));
    const pl_ref args[] = { index, pl_emit_iota(c, rank, axis, dims[axis]), on, off,
                            pl_emit_constant(c, PL_I64, (double)dims[axis]) };
    return pl_emit_out(c, 0, pl_emit_map(c, c->out[0]->dtype, expr, 5, args));
}
