/* Gradients of the scatters. Adding needs ScatterElements-16 or ScatterND-16. */
#include <string.h>

#include "ops/lib/grad_move.h"
#include "ops/tensor/scatter_rules.h"

static void need_opset(pl_grad *c, int opset) {
    if (c->st == PL_OK && pl_g_opset(c) < opset)
        (void)pl_g_fail(c, "needs opset %d, the model has %d", opset, pl_g_opset(c));
}

static pl_value *ones_like(pl_grad *c, pl_value *like) {
    return pl_g_expand_like(c, pl_g_number(c, like, 1), like);
}

typedef struct scatter { /* ScatterElements or ScatterND, and what reads the same positions */
    const char *put, *get;
    pl_attr axis;
    size_t n_axis; /* 1: has an axis */
} scatter;

static pl_value *put(pl_grad *c, const scatter *s, pl_value *x, pl_value *u, const char *how) {
    pl_value *in[3] = { x, c->node->in[1], u };
    pl_attr attrs[2] = { s->axis, s->axis };
    attrs[s->n_axis] = PL_G_STRING("reduction", how);
    return pl_g_op(c, s->put, in, 3, attrs, s->n_axis + (strcmp(how, "none") == 0 ? 0 : 1));
}

/* GatherElements before opset 11: one-hot rows along the axis select the elements. */
static pl_value *get_by_product(pl_grad *c, int64_t axis, pl_value *x) {
    pl_value *indices = c->node->in[1];
    const int rank = pl_g_rank(c, x);
    int64_t starts[PL_RANK_MAX] = { 0 }, ends[PL_RANK_MAX] = { 0 };
    int64_t axes[PL_RANK_MAX] = { 0 }, perm[PL_RANK_MAX] = { 0 };
    const int64_t last = -1;
    int to = 0;
    if (rank < 0) return NULL;
    if (axis < 0) axis += rank;
    for (int d = 0; d < rank; d++) {
        axes[d] = d;
        ends[d] = d == axis ? pl_g_dim(c, x, d) : pl_g_dim(c, indices, d);
        if (d != axis) perm[to++] = d;
    }
    perm[to] = axis;
    pl_value *same = pl_g_slice(c, x, starts, ends, axes, (size_t)rank);
    pl_value *turned = pl_g_transpose(c, same, perm, (size_t)rank);
    pl_value *hot = pl_g_one_hot(c, indices, ends[axis], x->type->dtype);
    pl_value *picked = pl_g_mul(c, pl_g_unsqueeze(c, turned, &axis, 1), hot);
    return pl_g_reduce(c, "ReduceSum", picked, &last, 1, false);
}

static pl_value *get(pl_grad *c, const scatter *s, pl_value *x) {
    pl_value *in[2] = { x, c->node->in[1] };
    if (c->st == PL_OK && pl_g_opset(c) < 11) return get_by_product(c, s->axis.i, x);
    return pl_g_op(c, s->get, in, 2, &s->axis, s->n_axis);
}

/* y = x u u …: the gradient of x is multiplied by the product of its updates, that of u by the rest
 * of the product. */
static pl_status scatter_mul(pl_grad *c, const scatter *s) {
    pl_value *x = c->node->in[0], *u = c->node->in[2], *y = c->node->out[0];
    if (c->wanted[0]) c->dx[0] = pl_g_mul(c, c->dy[0], put(c, s, ones_like(c, x), u, "mul"));
    if (c->wanted[2]) c->dx[2] = pl_g_div(c, get(c, s, pl_g_mul(c, c->dy[0], y)), u);
    return c->st;
}

/* max, min: elements equal to the result share the gradient evenly, as in PyTorch. */
static pl_status scatter_pick(pl_grad *c, const scatter *s) {
    pl_value *x = c->node->in[0], *u = c->node->in[2], *y = c->node->out[0];
    need_opset(c, 16);
    pl_value *of_x = pl_g_cast_like(c, pl_g2(c, "Equal", x, y), x);
    pl_value *of_u = pl_g_cast_like(c, pl_g2(c, "Equal", u, get(c, s, y)), u);
    pl_value *share = pl_g_div(c, c->dy[0], put(c, s, of_x, of_u, "add"));
    /* If no element equals the result (all are NaN), there is nothing to share. */
    if (c->wanted[0]) c->dx[0] = pl_g_mul(c, share, of_x);
    if (c->wanted[2]) c->dx[2] = pl_g_mul(c, get(c, s, share), of_u);
    return c->st;
}

static pl_status scatter_grad(pl_grad *c, const scatter *s) {
    pl_value *u = c->node->in[2];
    if (pl_attr_string_is(c->node, "reduction", "mul")) return scatter_mul(c, s);
    if (pl_attr_string_is(c->node, "reduction", "max") ||
        pl_attr_string_is(c->node, "reduction", "min"))
        return scatter_pick(c, s);
    const bool add = pl_attr_string_is(c->node, "reduction", "add");
    if (c->wanted[0])
        c->dx[0] = add ? c->dy[0] : put(c, s, c->dy[0], pl_g_zeros_like(c, u), "none");
    if (c->wanted[2]) c->dx[2] = get(c, s, c->dy[0]);
    return c->st;
}

pl_status pl_grad_scatter_elements(pl_grad *c) {
    const scatter s = { .put = pl_g_opset(c) < 11 ? "Scatter" : "ScatterElements",
                        .get = "GatherElements",
                        .axis = pl_g_same_int(c, "axis"),
                        .n_axis = 1 };
    return scatter_grad(c, &s);
}

pl_status pl_grad_scatter_nd(pl_grad *c) {
    const scatter s = { .put = "ScatterND", .get = "GatherND", .n_axis = 0 };
    return scatter_grad(c, &s);
}

/* Position of each element of the update along the axis, int64 of its shape. */
static pl_value *cache_positions(pl_grad *c, int axis, int rank, bool circular) {
    pl_value *x = c->node->in[0], *u = c->node->in[1];
    int64_t dims[PL_RANK_MAX], at = axis;
    pl_value *length = pl_g2(c, "Gather", pl_g_shape(c, u), pl_g_int(c, at));
    pl_value *steps = pl_g3(c, "Range", pl_g_int(c, 0), length, pl_g_int(c, 1));
    for (int d = 0; d < rank; d++)
        dims[d] = d == axis ? -1 : 1;
    pl_value *place = pl_g_reshape(c, steps, dims, (size_t)rank);
    if (c->node->n_in > 2 && c->node->in[2] != NULL) {
        for (int d = 0; d < rank; d++)
            dims[d] = d == 0 ? -1 : 1;
        place = pl_g_add(c, place, pl_g_reshape(c, c->node->in[2], dims, (size_t)rank));
    }
    pl_value *room = pl_g2(c, "Gather", pl_g_shape(c, x), pl_g_int(c, at));
    if (circular) place = pl_g2(c, "Mod", place, room);
    return pl_g_expand_like(c, place, u);
}

pl_status pl_grad_tensor_scatter(pl_grad *c) {
    pl_value *u = c->node->in[1];
    const int rank = pl_g_rank(c, c->node->in[0]);
    const bool circular = pl_attr_string_is(c->node, "mode", "circular");
    int64_t axis = pl_attr_int(c->node, "axis");
    if (rank < 0) return c->st;
    if (axis < 0) axis += rank;
    const pl_attr attrs[2] = { PL_G_INT("axis", axis),
                               PL_G_STRING("mode", circular ? "circular" : "linear") };
    if (c->wanted[0]) {
        const bool has = c->node->n_in > 2 && c->node->in[2] != NULL;
        pl_value *in[3] = { c->dy[0], pl_g_zeros_like(c, u), has ? c->node->in[2] : NULL };
        c->dx[0] = pl_g_op(c, "TensorScatter", in, has ? 3 : 2, attrs, 2);
    }
    if (c->wanted[1]) {
        pl_value *in[2] = { c->dy[0], cache_positions(c, (int)axis, rank, circular) };
        c->dx[1] = pl_g_op(c, "GatherElements", in, 2, attrs, 1);
    }
    return c->st;
}
