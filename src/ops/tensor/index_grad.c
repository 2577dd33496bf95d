/* Gradients of gathers. Adding needs ScatterElements-16 or ScatterND-16; before, Gather uses a
 * product with one-hot rows. */
#include "base/size.h"
#include "ops/lib/grad_move.h"
#include "ops/tensor/index_rules.h"

/* ---- gathers ---- */

/* Adds rows of g into rows of zeros: data [n, …], indices of any shape, g [indices…, …]. */
static pl_value *add_rows(pl_grad *c, pl_value *zeros, pl_value *indices, pl_value *g) {
    const int64_t last = -1;
    pl_value *in[3] = { zeros, pl_g_unsqueeze(c, pl_g_cast(c, indices, PL_I64), &last, 1), g };
    const pl_attr add = PL_G_STRING("reduction", "add");
    return pl_g_op(c, "ScatterND", in, 3, &add, 1);
}

/* Before opset 16: dx = one_hot(indices)^T g, with the axis in the middle. */
static pl_status gather_by_product(pl_grad *c, int axis, int rank) {
    static const int64_t swap[2] = { 1, 0 }, flat[1] = { -1 };
    pl_value *x = c->node->in[0];
    int64_t outer = 1, inner = 1, n = 0;
    for (int d = 0; d < rank; d++) {
        const int64_t size = pl_g_dim(c, x, d);
        int64_t *to = d < axis ? &outer : &inner;
        if (d == axis) {
            n = size;
        } else if (!pl_i64_mul(*to, size, to)) {
            return pl_g_fail(c, "is not supported for these sizes");
        }
    }
    if (c->st != PL_OK) return c->st;
    const int64_t dims[3] = { outer, -1, inner };
    pl_value *list = pl_g_reshape(c, c->node->in[1], flat, 1);
    pl_value *rows = pl_g_one_hot(c, list, n, x->type->dtype);
    pl_value *g = pl_g_reshape(c, c->dy[0], dims, 3);
    pl_value *sums = pl_g2(c, "MatMul", pl_g_transpose(c, rows, swap, 2), g);
    c->dx[0] = pl_g_reshape_like(c, sums, x);
    return c->st;
}

pl_status pl_grad_gather(pl_grad *c) {
    pl_value *x = c->node->in[0], *indices = c->node->in[1];
    const int rank = pl_g_rank(c, x), rank_i = pl_g_rank(c, indices);
    int64_t axis = pl_attr_int(c->node, "axis"), perm[2 * PL_RANK_MAX], back[PL_RANK_MAX];
    if (rank < 0 || rank_i < 0 || !c->wanted[0]) return c->st;
    if (axis < 0) axis += rank;
    if (pl_g_opset(c) < 16) return gather_by_product(c, (int)axis, rank);
    if (axis == 0) {
        c->dx[0] = add_rows(c, pl_g_zeros_like(c, x), indices, c->dy[0]);
        return c->st;
    }
    /* Moves the indices' axes of g to the front, then the axes before them, then the rest. */
    const int rank_g = rank - 1 + rank_i;
    if (rank_g > PL_RANK_MAX) return pl_g_fail(c, "has too many axes");
    for (int d = 0; d < rank_g; d++) {
        perm[d] = d < rank_i ? axis + d : d < rank_i + axis ? d - rank_i : d;
    }
    for (int d = 0; d < rank; d++)
        back[d] = d == 0 ? axis : d <= axis ? d - 1 : d; /* x with the axis in front */
    pl_value *zeros = pl_g_zeros_like(c, pl_g_transpose(c, x, back, (size_t)rank));
    pl_value *g = pl_g_transpose(c, c->dy[0], perm, (size_t)rank_g);
    pl_value *sum = add_rows(c, zeros, indices, g);
    for (int d = 0; d < rank; d++)
        back[d] = d < axis ? d + 1 : d == axis ? 0 : d;
    c->dx[0] = pl_g_transpose(c, sum, back, (size_t)rank);
    return c->st;
}

pl_status pl_grad_gather_elements(pl_grad *c) {
    const pl_attr attrs[2] = { pl_g_same_int(c, "axis"), PL_G_STRING("reduction", "add") };
    if (!c->wanted[0]) return c->st;
    if (pl_g_opset(c) < 16) {
        pl_value *at[2] = { pl_g_positions(c, c->node->in[0]), c->node->in[1] };
        pl_value *positions = pl_g_op(c, "GatherElements", at, 2, attrs, 1);
        c->dx[0] = pl_g_put_back(c, c->node->in[0], positions, c->dy[0], false);
        return c->st;
    }
    pl_value *in[3] = { pl_g_zeros_like(c, c->node->in[0]), c->node->in[1], c->dy[0] };
    c->dx[0] = pl_g_op(c, "ScatterElements", in, 3, attrs, 2);
    return c->st;
}

pl_status pl_grad_gather_nd(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const pl_attr batch = pl_g_same_int(c, "batch_dims");
    const pl_attr add = PL_G_STRING("reduction", "add");
    if (!c->wanted[0]) return c->st;
    if (batch.i == 0 && pl_g_opset(c) >= 16) {
        pl_value *in[3] = { pl_g_zeros_like(c, x), c->node->in[1], c->dy[0] };
        c->dx[0] = pl_g_op(c, "ScatterND", in, 3, &add, 1);
        return c->st;
    }
    pl_value *in[2] = { pl_g_positions(c, x), c->node->in[1] };
    pl_value *positions = pl_g_op(c, "GatherND", in, 2, &batch, batch.i == 0 ? 0 : 1);
    c->dx[0] = pl_g_put_back(c, x, positions, c->dy[0], false);
    return c->st;
}

pl_status pl_grad_compress(pl_grad *c) {
    pl_value *in[2] = { pl_g_positions(c, c->node->in[0]), c->node->in[1] };
    const pl_attr axis = pl_g_same_int(c, "axis");
    if (!c->wanted[0]) return c->st;
    pl_value *positions =
        pl_g_op(c, "Compress", in, 2, &axis, pl_attr_has(c->node, "axis") ? 1 : 0);
    c->dx[0] = pl_g_put_back(c, c->node->in[0], positions, c->dy[0], true);
    return c->st;
}

/* values = [off, on]: each gets the sum of the gradients of its elements. */
pl_status pl_grad_one_hot(pl_grad *c) {
    pl_value *values = c->node->in[2], *sums[2];
    const int64_t zero = 0;
    const pl_attr axis = pl_g_same_int(c, "axis");
    if (!c->wanted[2]) return c->st;
    pl_tensor *units = NULL;
    PL_TRY(pl_tensor_new(values->type->dtype, 1, (const int64_t[]){ 2 }, &units, c->err));
    pl_store_f64(units->dtype, (const double[]){ 0, 1 }, units->data, 2); /* along any axis */
    pl_value *in[3] = { c->node->in[0], c->node->in[1], pl_g_tensor_take(c, units) };
    pl_value *on = pl_g_mul(c, c->dy[0], pl_g_op(c, "OneHot", in, 3, &axis, 1));
    sums[1] = pl_g_unsqueeze(c, pl_g_reduce(c, "ReduceSum", on, NULL, 0, false), &zero, 1);
    pl_value *all = pl_g_reduce(c, "ReduceSum", c->dy[0], NULL, 0, false);
    sums[0] = pl_g_sub(c, pl_g_unsqueeze(c, all, &zero, 1), sums[1]);
    c->dx[2] = pl_g_concat(c, sums, 2, 0);
    return c->st;
}
