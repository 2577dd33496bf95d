/* Gradients of operators that only move elements; most are operators of the same kind. */
#include "ops/lib/grad_move.h"
#include "ops/tensor/transform_rules.h"

/* ---- joining and cutting ---- */

/* How many elements input i has along the axis, as int64[1]. */
static pl_value *extent(pl_grad *c, pl_value *x, int axis) {
    const int64_t at = axis;
    if (c->st != PL_OK) return NULL;
    if (pl_dim_known(x->type->dims[axis])) return pl_g_ints(c, &x->type->dims[axis].value, 1);
    return pl_g2(c, "Gather", pl_g_shape(c, x), pl_g_ints(c, &at, 1));
}

pl_status pl_grad_concat(pl_grad *c) {
    const uint32_t n = c->node->n_in;
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t axis = pl_attr_int(c->node, "axis"), *sizes = NULL;
    pl_arena *arena = c->graph->model->arena;
    if (rank < 0) return c->st;
    if (axis < 0) axis += rank;
    pl_value **parts = pl_arena_array(arena, n, sizeof(*parts));
    sizes = pl_arena_array(arena, n, sizeof(*sizes));
    if (parts == NULL || sizes == NULL) return pl_fail_memory(c->err, n);
    bool known = true;
    for (uint32_t i = 0; i < n; i++) {
        if (pl_g_rank(c, c->node->in[i]) != rank) return c->st;
        const pl_dim dim = c->node->in[i]->type->dims[axis];
        known = known && pl_dim_known(dim);
        sizes[i] = dim.value;
        parts[i] = PL_G_WANTED;
    }
    const pl_attr attrs[2] = { PL_G_INT("axis", axis), PL_G_INTS("split", sizes, n) };
    if (pl_g_opset(c) < 13) {
        if (!known) return pl_g_fail(c, "needs opset 13 or known shapes");
        PL_TRY(pl_g_ops(c, "Split", "", &c->dy[0], 1, attrs, 2, parts, n));
    } else {
        pl_value **each = pl_arena_array(arena, n, sizeof(*each));
        if (each == NULL) return pl_fail_memory(c->err, n);
        for (uint32_t i = 0; !known && i < n; i++)
            each[i] = extent(c, c->node->in[i], (int)axis);
        pl_value *in[2] = { c->dy[0], known ? pl_g_ints(c, sizes, n) : pl_g_concat(c, each, n, 0) };
        if (c->st == PL_OK) PL_TRY(pl_g_ops(c, "Split", "", in, 2, attrs, 1, parts, n));
    }
    for (uint32_t i = 0; c->st == PL_OK && i < n; i++)
        if (c->wanted[i]) c->dx[i] = parts[i];
    return c->st;
}

pl_status pl_grad_split(pl_grad *c) {
    const uint32_t n = c->node->n_out;
    pl_value **parts = pl_arena_array(c->graph->model->arena, n, sizeof(*parts));
    if (parts == NULL) return pl_fail_memory(c->err, n);
    if (!c->wanted[0]) return c->st;
    for (uint32_t i = 0; i < n; i++) {
        if (c->dy[i] == NULL && c->node->out[i] == NULL)
            return pl_g_fail(c, "needs output %u, which has no name", i);
        parts[i] = c->dy[i] != NULL ? c->dy[i] : pl_g_zeros_like(c, c->node->out[i]);
    }
    c->dx[0] = pl_g_concat(c, parts, n, pl_attr_int(c->node, "axis"));
    return c->st;
}

/* ---- permutations ---- */

pl_status pl_grad_transpose(pl_grad *c) {
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t inverse[PL_RANK_MAX];
    size_t n = 0;
    const int64_t *perm = pl_attr_ints(c->node, "perm", &n);
    if (rank < 0) return c->st;
    for (int d = 0; d < rank; d++) {
        const int64_t from = perm == NULL ? rank - 1 - d : perm[d];
        inverse[from < 0 ? from + rank : from] = d;
    }
    c->dx[0] = pl_g_transpose(c, c->dy[0], inverse, (size_t)rank);
    return c->st;
}

pl_status pl_grad_trilu(pl_grad *c) {
    pl_value *in[2] = { c->dy[0], c->node->n_in > 1 ? c->node->in[1] : NULL };
    const pl_attr upper = pl_g_same_int(c, "upper");
    c->dx[0] = pl_g_op(c, "Trilu", in, in[1] == NULL ? 1 : 2, &upper, 1);
    return c->st;
}

pl_status pl_grad_reverse_sequence(pl_grad *c) {
    const pl_attr attrs[2] = { pl_g_same_int(c, "batch_axis"), pl_g_same_int(c, "time_axis") };
    pl_value *in[2] = { c->dy[0], c->node->in[1] };
    c->dx[0] = pl_g_op(c, "ReverseSequence", in, 2, attrs, 2);
    return c->st;
}

pl_status pl_grad_space_to_depth(pl_grad *c) {
    const pl_attr size = pl_g_same_int(c, "blocksize");
    c->dx[0] = pl_g_op(c, "DepthToSpace", &c->dy[0], 1, &size, 1); /* DCR, the default */
    return c->st;
}

/* CRD: x is [n, C, b, b, h, w], y is [n, C, h, b, w, b]. */
pl_status pl_grad_depth_to_space(pl_grad *c) {
    static const int64_t perm[6] = { 0, 1, 3, 5, 2, 4 };
    const pl_attr size = pl_g_same_int(c, "blocksize");
    pl_value *x = c->node->in[0];
    if (!pl_attr_string_is(c->node, "mode", "CRD")) {
        c->dx[0] = pl_g_op(c, "SpaceToDepth", &c->dy[0], 1, &size, 1);
        return c->st;
    }
    const int64_t dims[6] = { 0, 0, pl_g_dim(c, x, 2), size.i, pl_g_dim(c, x, 3), size.i };
    if (c->st != PL_OK) return c->st;
    pl_value *apart = pl_g_reshape(c, c->dy[0], dims, 6);
    c->dx[0] = pl_g_reshape_like(c, pl_g_transpose(c, apart, perm, 6), x);
    return c->st;
}

/* Back to the size of x: cropped elements get zero, padding is removed. Both directions halve the
 * difference the same way. */
pl_status pl_grad_center_crop_pad(pl_grad *c) {
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(c->node, "axes", &n);
    pl_value *shape = pl_g_shape(c, c->node->in[0]);
    if (n > 0) {
        int64_t at[PL_RANK_MAX];
        const int rank = pl_g_rank(c, c->node->in[0]);
        for (size_t i = 0; i < n && i < PL_RANK_MAX; i++)
            at[i] = axes[i] < 0 ? axes[i] + rank : axes[i];
        shape = pl_g2(c, "Gather", shape, pl_g_ints(c, at, n));
    }
    pl_value *in[2] = { c->dy[0], shape };
    const pl_attr attr = PL_G_INTS("axes", axes, n);
    c->dx[0] = pl_g_op(c, "CenterCropPad", in, 2, &attr, n > 0 ? 1 : 0);
    return c->st;
}
