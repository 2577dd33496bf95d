/* Gradients of arithmetic. Broadcast operands get the sum over the repeated axes. Where the
 * derivative is not unique, as in PyTorch: tied extremes share evenly, x^0 is constant, 0^p has
 * slope 0 in p. */
#include "ops/grad.h"
#include "ops/math/binary_rules.h"

pl_status pl_add_grad(pl_grad *c) {
    (void)pl_g_give(c, 0, c->dy[0]);
    return pl_g_give(c, 1, c->dy[0]);
}

pl_status pl_sub_grad(pl_grad *c) {
    (void)pl_g_give(c, 0, c->dy[0]);
    return c->wanted[1] ? pl_g_give(c, 1, pl_g_neg(c, c->dy[0])) : c->st;
}

pl_status pl_mul_grad(pl_grad *c) {
    for (int i = 0; i < 2; i++)
        if (c->wanted[i]) (void)pl_g_give(c, i, pl_g_mul(c, c->dy[0], c->node->in[1 - i]));
    return c->st;
}

pl_status pl_div_grad(pl_grad *c) { /* da = dy / b; db = -da * y */
    pl_value *da = pl_g_div(c, c->dy[0], c->node->in[1]);
    (void)pl_g_give(c, 0, da);
    if (!c->wanted[1]) return c->st;
    return pl_g_give(c, 1, pl_g_neg(c, pl_g_mul(c, da, c->node->out[0])));
}

/* y = x - turns * divisor: dx is dy, the divisor gets -dy * turns. */
pl_status pl_mod_grad(pl_grad *c) {
    (void)pl_g_give(c, 0, c->dy[0]);
    if (!c->wanted[1]) return c->st;
    pl_value *turns = pl_g_div(c, c->node->in[0], c->node->in[1]);
    if (pl_attr_int(c->node, "fmod") != 0) { /* towards zero */
        turns = pl_g_mul(c, pl_g1(c, "Sign", turns), pl_g1(c, "Floor", pl_g1(c, "Abs", turns)));
    } else {
        turns = pl_g1(c, "Floor", turns);
    }
    return pl_g_give(c, 1, pl_g_neg(c, pl_g_mul(c, c->dy[0], turns)));
}

/* dx = dy p x^(p - 1); dp = dy y log(x). */
pl_status pl_pow_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *y = c->node->out[0], *dy = c->dy[0];
    pl_value *p = pl_g_cast_like(c, c->node->in[1], x), *zero = pl_g_number(c, x, 0);
    if (c->wanted[0]) {
        pl_value *power = pl_g2(c, "Pow", x, pl_g_sub(c, p, pl_g_number(c, x, 1)));
        pl_value *flat = pl_g_equal(c, p, zero);
        pl_value *slope = pl_g_mul(c, p, power);
        (void)pl_g_give(c, 0, pl_g_mul(c, dy, pl_g_select(c, flat, zero, slope)));
    }
    if (!c->wanted[1]) return c->st;
    pl_value *is_zero = pl_g_equal(c, x, zero);
    pl_value *safe = pl_g_select(c, is_zero, pl_g_number(c, x, 1), x);
    pl_value *slope = pl_g_mul(c, y, pl_g1(c, "Log", safe));
    pl_value *infinite = pl_g2(c, "And", is_zero, pl_g2(c, "Less", p, zero)); /* y as is */
    slope = pl_g_select(c, infinite, pl_g_neg(c, y), slope);
    return pl_g_give(c, 1, pl_g_cast_like(c, pl_g_mul(c, dy, slope), c->node->in[1]));
}

pl_status pl_prelu_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *slope = c->node->in[1], *dy = c->dy[0];
    pl_value *positive = pl_g_above(c, x, 0);
    if (c->wanted[0]) (void)pl_g_give(c, 0, pl_g_select(c, positive, dy, pl_g_mul(c, dy, slope)));
    if (!c->wanted[1]) return c->st;
    return pl_g_give(c, 1, pl_g_keep(c, pl_g1(c, "Not", positive), pl_g_mul(c, dy, x)));
}

/* ---- any number of inputs ---- */

pl_status pl_sum_grad(pl_grad *c) {
    for (uint32_t i = 0; i < c->node->n_in; i++)
        (void)pl_g_give(c, (int)i, c->dy[0]);
    return c->st;
}

pl_status pl_mean_grad(pl_grad *c) {
    pl_value *share = pl_g_div(c, c->dy[0], pl_g_number(c, c->node->out[0], (double)c->node->n_in));
    for (uint32_t i = 0; i < c->node->n_in; i++)
        (void)pl_g_give(c, (int)i, share);
    return c->st;
}

/* Max and Min. */
pl_status pl_extreme_grad(pl_grad *c) {
    pl_value *y = c->node->out[0], *ties = NULL;
    if (c->node->n_in == 1) return pl_g_give(c, 0, c->dy[0]);
    for (uint32_t i = 0; i < c->node->n_in && c->st == PL_OK; i++) {
        pl_value *is = pl_g_cast_like(c, pl_g_equal(c, c->node->in[i], y), y);
        ties = ties == NULL ? is : pl_g_add(c, ties, is);
    }
    pl_value *share = pl_g_div(c, c->dy[0], ties);
    for (uint32_t i = 0; i < c->node->n_in; i++) {
        if (!c->wanted[i]) continue;
        (void)pl_g_give(c, (int)i, pl_g_keep(c, pl_g_equal(c, c->node->in[i], y), share));
    }
    return c->st;
}
