/* Gradients of reductions and running sums.
 *
 * The incoming gradient gets its reduced axes back as dims of 1, so that the formulas broadcast.
 * PyTorch's conventions: equal extremes share evenly, the norm of zeros has slope 0. */
#include "ops/grad.h"
#include "ops/math/reduce_rules.h"

/* The node's axes when they are known, in [0, rank); false when they are not. */
static bool known_axes(pl_grad *c, int rank, int64_t *axes, size_t *n) {
    bool reduced[PL_RANK_MAX] = { false };
    int64_t given[PL_RANK_MAX];
    size_t n_given = 0;
    const pl_value *input = c->node->n_in > 1 ? c->node->in[1] : NULL;
    if (input != NULL && !pl_g_known_ints(input, given, PL_RANK_MAX, &n_given)) return false;
    for (size_t i = 0; i < n_given; i++) /* the shape rule sees to it where it knows them, too */
        if (given[i] < -rank || given[i] >= rank) return false;
    pl_reduced_axes(c->node, rank, input == NULL ? NULL : given, n_given, reduced);
    *n = 0;
    for (int d = 0; d < rank; d++)
        if (reduced[d]) axes[(*n)++] = d;
    return true;
}

/* v, which has the shape of the output, with dims of 1 for the reduced axes. */
static pl_value *restored(pl_grad *c, pl_value *v) {
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    if (c->st != PL_OK || pl_attr_int(c->node, "keepdims") != 0) return v;
    const int rank = pl_g_rank(c, c->node->in[0]);
    if (rank < 0) return NULL;
    if (!known_axes(c, rank, axes, &n)) {
        (void)pl_g_fail(c, "needs known axes, or keepdims=1");
        return NULL;
    }
    return pl_g_unsqueeze(c, v, axes, n);
}

/* Reduces other data over the node's axes with keepdims. */
static pl_value *again(pl_grad *c, const char *op, pl_value *x) {
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    if (c->st != PL_OK) return NULL;
    const int rank = pl_g_rank(c, x);
    if (rank < 0) return NULL;
    if (!known_axes(c, rank, axes, &n)) {
        (void)pl_g_fail(c, "needs known axes");
        return NULL;
    }
    if (n == 0) return x; /* nothing is reduced */
    return pl_g_reduce(c, op, x, axes, n, true);
}

#define GRAD(name, EXPR)                                                                           \
    pl_status pl_reduce_##name##_grad(pl_grad *c) {                                                \
        pl_value *x = c->node->in[0], *y = restored(c, c->node->out[0]);                           \
        pl_value *g = restored(c, c->dy[0]);                                                       \
        (void)x, (void)y;                                                                          \
        c->dx[0] = (EXPR);                                                                         \
        return c->st;                                                                              \
    }

/* Rules that do not use y do not build it, so that no node is added for it. */
pl_status pl_reduce_sum_grad(pl_grad *c) {
    c->dx[0] = pl_g_expand_like(c, restored(c, c->dy[0]), c->node->in[0]);
    return c->st;
}

pl_status pl_reduce_mean_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *g = restored(c, c->dy[0]);
    c->dx[0] = pl_g_expand_like(c, pl_g_shared(c, g, x, c->node->out[0]), x);
    return c->st;
}

pl_status pl_reduce_l1_grad(pl_grad *c) {
    c->dx[0] = pl_g_mul(c, restored(c, c->dy[0]), pl_g1(c, "Sign", c->node->in[0]));
    return c->st;
}

pl_status pl_reduce_sum_square_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    c->dx[0] = pl_g_mul(c, restored(c, c->dy[0]), pl_g_mul(c, x, pl_g_number(c, x, 2)));
    return c->st;
}

pl_status pl_reduce_l2_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *y = restored(c, c->node->out[0]);
    pl_value *is_zero = pl_g_equal(c, y, pl_g_number(c, y, 0));
    pl_value *safe = pl_g_select(c, is_zero, pl_g_number(c, y, 1), y);
    c->dx[0] = pl_g_mul(c, x, pl_g_div(c, restored(c, c->dy[0]), safe));
    return c->st;
}

GRAD(log_sum, pl_g_expand_like(c, pl_g_div(c, g, pl_g1(c, "Exp", y)), x))
GRAD(log_sum_exp, pl_g_mul(c, g, pl_g1(c, "Exp", pl_g_sub(c, x, y))))

pl_status pl_reduce_extreme_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *y = restored(c, c->node->out[0]);
    pl_value *is = pl_g_equal(c, x, y);
    pl_value *ties = again(c, "ReduceSum", pl_g_cast_like(c, is, x));
    c->dx[0] = pl_g_keep(c, is, pl_g_div(c, restored(c, c->dy[0]), ties));
    return c->st;
}

/* The product of the other elements: with zeros replaced by 1 it is product / x, and 0 where
 * another element is 0. */
pl_status pl_reduce_prod_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    pl_value *is_zero = pl_g_equal(c, x, pl_g_number(c, x, 0));
    pl_value *safe = pl_g_select(c, is_zero, pl_g_number(c, x, 1), x);
    pl_value *zero = pl_g_cast_like(c, is_zero, x);
    pl_value *others = pl_g_sub(c, again(c, "ReduceSum", zero), zero);
    pl_value *product = pl_g_div(c, again(c, "ReduceProd", safe), safe);
    pl_value *slope = pl_g_mul(c, restored(c, c->dy[0]), product);
    c->dx[0] = pl_g_keep(c, pl_g_below(c, others, 0.5), slope);
    return c->st;
}

/* ---- along one axis ---- */

static pl_value *cumulate(pl_grad *c, const char *op, pl_value *x, bool exclusive, bool reverse) {
    const pl_attr attrs[2] = { PL_G_INT("exclusive", exclusive), PL_G_INT("reverse", reverse) };
    return pl_g_op(c, op, (pl_value *const[]){ x, c->node->in[1] }, 2, attrs, 2);
}

/* Each element contributes to all results at and after it, so the gradient is a sum from the other
 * end. */
static pl_value *backwards(pl_grad *c, pl_value *g) {
    return cumulate(c, "CumSum", g, pl_attr_int(c->node, "exclusive") != 0,
                    pl_attr_int(c->node, "reverse") == 0);
}

pl_status pl_cum_sum_grad(pl_grad *c) {
    c->dx[0] = backwards(c, c->dy[0]);
    return c->st;
}

/* Before the first zero sum(dy y) / x; at it the products without it; after it 0. */
pl_status pl_cum_prod_grad(pl_grad *c) {
    const bool exclusive = pl_attr_int(c->node, "exclusive") != 0;
    const bool reverse = pl_attr_int(c->node, "reverse") != 0;
    pl_value *x = c->node->in[0], *dy = c->dy[0], *one = pl_g_number(c, x, 1);
    pl_value *is_zero = pl_g_equal(c, x, pl_g_number(c, x, 0));
    pl_value *so_far = cumulate(c, "CumSum", pl_g_cast_like(c, is_zero, x), false, reverse);
    pl_value *first = pl_g2(c, "And", is_zero, pl_g_below(c, so_far, 1.5));
    pl_value *without = pl_g_select(c, first, one, x);
    without = cumulate(c, "CumProd", without, exclusive, reverse);
    pl_value *sum = backwards(c, pl_g_mul(c, dy, c->node->out[0]));
    pl_value *before = pl_g_div(c, sum, pl_g_select(c, is_zero, one, x));
    before = pl_g_keep(c, pl_g_below(c, so_far, 0.5), before);
    c->dx[0] = pl_g_select(c, first, backwards(c, pl_g_mul(c, dy, without)), before);
    return c->st;
}
