/* Gradients of operators that only change the shape, or repeat. */
#include "ops/grad.h"
#include "ops/tensor/shape_rules.h"

pl_status pl_grad_expand(pl_grad *c) {
    return pl_g_give(c, 0, c->dy[0]);
}

/* y as [r0, d0, r1, d1, …], summed over the repeats. */
pl_status pl_grad_tile(pl_grad *c) {
    static const int64_t one[1] = { 1 }, flat[1] = { -1 };
    pl_value *x = c->node->in[0];
    const int rank = pl_g_rank(c, x);
    int64_t axes[PL_RANK_MAX];
    if (rank < 0) return c->st;
    if (c->node->n_in != 2) return pl_g_fail(c, "Tile-1 has no gradient; use Tile-6");
    if (rank == 0) {
        c->dx[0] = c->dy[0];
        return c->st;
    }
    for (int d = 0; d < rank; d++)
        axes[d] = 2 * d;
    pl_value *pairs[2] = { pl_g_unsqueeze(c, c->node->in[1], one, 1),
                           pl_g_unsqueeze(c, pl_g_shape(c, x), one, 1) };
    pl_value *dims = pl_g_reshape(c, pl_g_concat(c, pairs, 2, 1), flat, 1);
    pl_value *apart = pl_g2(c, "Reshape", c->dy[0], dims);
    pl_value *sum = pl_g_reduce(c, "ReduceSum", apart, axes, (size_t)rank, false);
    c->dx[0] = pl_g_reshape_like(c, sum, x);
    return c->st;
}
