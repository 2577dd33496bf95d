/* Emission of operators that pick elements by indices of data: each index is checked by the emitted
 * code, then loaded. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

/* sum + part * stride; sum < 0 begins. */
static pl_ref add_part(pl_emit *c, pl_ref sum, pl_ref part, int64_t stride) {
    char expr[80];
    snprintf(expr, sizeof(expr), sum < 0 ? "$0 * %lld" : "$1 + $0 * %lld", (long long)stride);
    return sum < 0 ? pl_emit_map1(c, PL_I64, expr, part) : pl_emit_map2(c, PL_I64, expr, part, sum);
}

static void strides_of(const pl_emit *c, int i, int64_t *strides) {
    int64_t n = 1;
    for (int d = pl_emit_rank(c, i) - 1; d >= 0; d--) {
        strides[d] = n;
        n *= pl_emit_dim(c, i, d);
    }
}

/* ---- Gather ---- */

pl_status pl_emit_gather(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX], strides[PL_EMIT_RANK_MAX], shape[PL_EMIT_RANK_MAX];
    const int r = pl_emit_rank(c, 0), q = pl_emit_rank(c, 1), rank = c->out[0]->rank;
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), r);
    pl_emit_out_dims(c, 0, dims);
    strides_of(c, 0, strides);
    for (int d = 0; d < rank; d++)
        shape[d] = d < axis || d >= axis + q ? 1 : dims[d];
    const pl_ref index = pl_emit_reshape(c, pl_emit_in(c, 1), rank, shape);
    const int64_t n = pl_emit_dim(c, 0, axis);
    pl_ref at = add_part(c, -1, pl_emit_checked(c, index, n), strides[axis]);
    for (int d = 0; d < r; d++) {
        const int to = d < axis ? d : d - 1 + q;
        if (d == axis || pl_emit_dim(c, 0, d) == 1) continue;
        at = add_part(c, at, pl_emit_iota(c, rank, to, dims[to]), strides[d]);
    }
    at = pl_emit_expand(c, at, rank, dims);
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}

pl_status pl_emit_gather_elements(pl_emit *c) {
    int64_t strides[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    if (rank == 0) return pl_emit_decline(c, "a scalar");
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    strides_of(c, 0, strides);
    const pl_ref index = pl_emit_checked(c, pl_emit_in(c, 1), pl_emit_dim(c, 0, axis));
    pl_ref at = add_part(c, -1, index, strides[axis]);
    for (int d = 0; d < rank; d++) {
        if (d == axis) continue;
        at = add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 1, d)), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}

/* ai.onnx.ml ArrayFeatureExtractor: columns of the last dim. */
pl_status pl_emit_array_features(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX], rows = 1;
    const int r = pl_emit_rank(c, 0);
    if (r < 1) return pl_emit_decline(c, "a scalar");
    const int64_t columns = pl_emit_dim(c, 0, r - 1), n = pl_emit_elements(c->in[1]);
    for (int d = 0; d + 1 < r; d++)
        rows *= pl_emit_dim(c, 0, d);
    const pl_ref index = pl_emit_along(c, pl_emit_in(c, 1), 2, 1);
    char expr[80];
    snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", (long long)columns - 1);
    pl_ref at = add_part(c, -1, pl_emit_map1(c, PL_I64, expr, index), 1);
    at = add_part(c, at, pl_emit_iota(c, 2, 0, rows), columns);
    const int64_t seen[2] = { rows, n };
    const pl_ref y = pl_emit_load(c, pl_emit_in(c, 0), pl_emit_expand(c, at, 2, seen));
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, y, c->out[0]->rank, dims));
}

/* GatherND-12: the last dim of the indices names an element of dims batch_dims and on. */
pl_status pl_emit_gather_nd(pl_emit *c) {
    int64_t strides[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX], from[PL_EMIT_RANK_MAX];
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, shape[PL_EMIT_RANK_MAX];
    const int r = pl_emit_rank(c, 0), q = pl_emit_rank(c, 1), rank = c->out[0]->rank;
    const int batch = (int)pl_attr_int(c->node, "batch_dims");
    const int width = (int)pl_emit_dim(c, 1, q - 1);
    pl_ref at = -1;
    strides_of(c, 0, strides);
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
        at = add_part(c, at, pl_emit_checked(c, index, pl_emit_dim(c, 0, d)), strides[d]);
    }
    for (int d = 0; d < batch; d++)
        at = add_part(c, at, pl_emit_iota(c, rank, d, dims[d]), strides[d]);
    for (int d = batch + width; d < r; d++) {
        const int to = q - 1 + d - batch - width;
        at = add_part(c, at, pl_emit_iota(c, rank, to, dims[to]), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), pl_emit_expand(c, at, rank, dims)));
}

/* ---- OneHot ---- */

/* OneHot-11 counts negative indices from the end; others out of range give no hot place. */
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

/* ---- triangles, sequences, caches ---- */

pl_status pl_emit_trilu(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    if (rank < 2) return pl_emit_decline(c, "no matrix");
    const bool upper = pl_attr_int(c->node, "upper") != 0;
    const pl_ref row = pl_emit_iota(c, rank, rank - 2, pl_emit_dim(c, 0, rank - 2));
    const pl_ref column = pl_emit_iota(c, rank, rank - 1, pl_emit_dim(c, 0, rank - 1));
    const pl_ref k =
        pl_emit_has(c, 1) ? pl_emit_scalar(c, pl_emit_in(c, 1)) : pl_emit_constant(c, PL_I64, 0);
    const pl_ref args[] = { pl_emit_in(c, 0), row, column, k };
    return pl_emit_out(c, 0,
                       pl_emit_map(c, c->out[0]->dtype,
                                   upper ? "$2 - $1 >= $3 ? $0 : 0" : "$2 - $1 <= $3 ? $0 : 0", 4,
                                   args));
}

pl_status pl_emit_reverse_sequence(pl_emit *c) {
    char expr[80];
    int64_t strides[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    const int batch = (int)pl_attr_int(c->node, "batch_axis"), time = 1 - batch;
    if (rank < 2 || batch < 0 || batch > 1) return pl_emit_decline(c, "odd axes");
    if (pl_emit_elements(c->in[1]) != pl_emit_dim(c, 0, batch)) {
        return pl_emit_decline(c, "not one length for each of the batch");
    }
    strides_of(c, 0, strides);
    snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", (long long)pl_emit_dim(c, 0, time));
    pl_ref length = pl_emit_along(c, pl_emit_in(c, 1), rank, batch);
    length = pl_emit_map1(c, PL_I64, expr, length);
    const pl_ref t = pl_emit_iota(c, rank, time, pl_emit_dim(c, 0, time));
    const pl_ref from = pl_emit_map2(c, PL_I64, "$0 < $1 ? $1 - 1 - $0 : $0", t, length);
    pl_ref at = add_part(c, -1, from, strides[time]);
    for (int d = 0; d < rank; d++) {
        if (d == time) continue;
        at = add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d)), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}

/* TensorScatter-24: the update where its window lies, else the cache. */
pl_status pl_emit_tensor_scatter(pl_emit *c) {
    char expr[200];
    int64_t strides[PL_EMIT_RANK_MAX] = { 0 };
    const int rank = pl_emit_rank(c, 0);
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    const bool circular = pl_attr_string_is(c->node, "mode", "circular");
    const long long room = pl_emit_dim(c, 0, axis), n = pl_emit_dim(c, 1, axis);
    strides_of(c, 1, strides);
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
    pl_ref at = add_part(c, -1, pl_emit_map1(c, PL_I64, expr, rest), strides[axis]);
    for (int d = 0; d < rank; d++) {
        if (d == axis) continue;
        at = add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d)), strides[d]);
    }
    const pl_ref update = pl_emit_load(c, pl_emit_in(c, 1), at);
    return pl_emit_out(
        c, 0, pl_emit_map3(c, c->out[0]->dtype, "$0 ? $1 : $2", inside, update, pl_emit_in(c, 0)));
}
