/* Gradients through quantised operators. Codes are integers and have no gradient; scales, float
 * zero points, biases and float operands have one. */
#include "ops/grad.h"
#include "ops/quant/quantize_rules.h"

/* A scale or zero point along the axis of x: [1, …, n, …, 1]. */
static pl_value *along(pl_grad *c, pl_value *p, int axis, int rank) {
    int64_t dims[PL_RANK_MAX];
    if (p == NULL || p->type == NULL || p->type->rank == 0) return p; /* NULL: it has failed */
    for (int d = 0; d < rank; d++)
        dims[d] = d == axis ? -1 : 1;
    return pl_g_reshape(c, p, dims, (size_t)rank);
}

/* y = (x - zero) * scale. */
pl_status pl_grad_dequantize(pl_grad *c) {
    pl_value *x = c->node->in[0], *scale = c->node->in[1];
    pl_value *zero = c->node->n_in > 2 ? c->node->in[2] : NULL;
    const int rank = pl_g_rank(c, x), rank_s = pl_g_rank(c, scale);
    int64_t axis = pl_attr_has(c->node, "axis") ? pl_attr_int(c->node, "axis") : 1;
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    if (!c->wanted[1] || rank < 0 || rank_s < 0) return c->st;
    if (pl_attr_int(c->node, "block_size") != 0 && rank_s > 0)
        return pl_g_fail(c, "with respect to blocked scales is not supported");
    if (axis < 0) axis += rank;
    if (rank == 1) axis = 0;
    pl_value *code = pl_g_cast_like(c, x, c->dy[0]);
    if (zero != NULL)
        code = pl_g_sub(c, code, along(c, pl_g_cast_like(c, zero, c->dy[0]), (int)axis, rank));
    pl_value *g = pl_g_mul(c, c->dy[0], code);
    const bool single =
        rank_s == 0 || (pl_dim_known(scale->type->dims[0]) && scale->type->dims[0].value == 1);
    for (int d = 0; d < rank; d++)
        if (single || d != axis) axes[n++] = d;
    if (n > 0) g = pl_g_reduce(c, "ReduceSum", g, axes, n, false);
    c->dx[1] = pl_g_reshape_like(c, pl_g_cast_like(c, g, scale), scale);
    return c->st;
}
