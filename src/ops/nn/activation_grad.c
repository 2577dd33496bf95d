/* Gradients of the activation functions, with PyTorch's conventions at kinks. */
#include <math.h>

#include "ops/grad.h"
#include "ops/nn/activation_rules.h"

/* Defines a rule: EXPR computes dx from x, y and dy. */
#define GRAD(name, EXPR)                                                                           \
    pl_status pl_##name##_grad(pl_grad *c) {                                                       \
        pl_value *x = c->node->in[0], *y = c->node->out[0], *dy = c->dy[0];                        \
        (void)x, (void)y;                                                                          \
        c->dx[0] = (EXPR);                                                                         \
        return c->st;                                                                              \
    }

static pl_value *scaled(pl_grad *c, pl_value *x, double factor) {
    return factor == 1 ? x : pl_g_mul(c, x, pl_g_number(c, x, factor));
}
static pl_value *shifted(pl_grad *c, pl_value *x, double by) {
    return pl_g_add(c, x, pl_g_number(c, x, by));
}
/* 1 - x */
static pl_value *rest(pl_grad *c, pl_value *x) {
    return pl_g_sub(c, pl_g_number(c, x, 1), x);
}
static double alpha_of(const pl_grad *c) {
    return pl_attr_float(c->node, "alpha");
}

/* ---- pieces of lines ---- */

GRAD(relu, pl_g_keep(c, pl_g_above(c, x, 0), dy))
GRAD(leaky_relu, pl_g_select(c, pl_g_above(c, x, 0), dy, scaled(c, dy, alpha_of(c))))
GRAD(thresholded_relu, pl_g_keep(c, pl_g_above(c, x, alpha_of(c)), dy))
GRAD(shrink, pl_g_keep(c, pl_g_above(c, pl_g1(c, "Abs", x), pl_attr_float(c->node, "lambd")), dy))
GRAD(hard_sigmoid, pl_g_keep(c, pl_g2(c, "And", pl_g_above(c, y, 0), pl_g_below(c, y, 1)),
                             scaled(c, dy, alpha_of(c))))

pl_status pl_hard_swish_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *dy = c->dy[0];
    pl_value *middle = pl_g_mul(c, dy, shifted(c, scaled(c, x, 1.0 / 3), 0.5));
    pl_value *above = pl_g_select(c, pl_g_above(c, x, 3), dy, middle);
    c->dx[0] = pl_g_keep(c, pl_g1(c, "Not", pl_g_below(c, x, -3)), above);
    return c->st;
}

/* x gets the gradient within the limits, inclusive; a limit gets it where it is the result. */
static pl_status clip_ends(pl_grad *c, pl_value *low, pl_value *high) {
    pl_value *x = c->node->in[0], *dx = c->dy[0];
    pl_value *below = low == NULL ? NULL : pl_g2(c, "Less", x, low);
    pl_value *above = high == NULL ? NULL : pl_g2(c, "Greater", x, high);
    if (below != NULL) dx = pl_g_keep(c, pl_g1(c, "Not", below), dx);
    if (above != NULL) dx = pl_g_keep(c, pl_g1(c, "Not", above), dx);
    c->dx[0] = dx;
    if (c->node->opset < 11 || c->st != PL_OK) return c->st;
    pl_value *swapped = low == NULL || high == NULL ? NULL : pl_g2(c, "Less", high, low);
    if (low != NULL && c->wanted[1]) {
        pl_value *is = below;
        if (swapped != NULL) is = pl_g2(c, "And", is, pl_g1(c, "Not", swapped));
        (void)pl_g_give(c, 1, pl_g_keep(c, is, c->dy[0]));
    }
    if (high != NULL && c->wanted[2]) {
        pl_value *is = swapped == NULL ? above : pl_g2(c, "Or", above, swapped);
        (void)pl_g_give(c, 2, pl_g_keep(c, is, c->dy[0]));
    }
    return c->st;
}

pl_status pl_clip_grad(pl_grad *c) {
    const pl_node *node = c->node;
    if (node->opset >= 11) {
        return clip_ends(c, node->n_in > 1 ? node->in[1] : NULL,
                         node->n_in > 2 ? node->in[2] : NULL);
    }
    return clip_ends(c, pl_g_number(c, node->in[0], pl_attr_float(node, "min")),
                     pl_g_number(c, node->in[0], pl_attr_float(node, "max")));
}

/* ---- exponentials ---- */

/* x > 0: positive; else slope * exp(x / width). */
static pl_status elu_slope(pl_grad *c, double width, double slope, double positive) {
    pl_value *x = c->node->in[0], *dy = c->dy[0];
    pl_value *power = pl_g1(c, "Exp", scaled(c, x, 1 / width));
    pl_value *below = scaled(c, pl_g_mul(c, dy, power), slope);
    c->dx[0] = pl_g_select(c, pl_g_above(c, x, 0), scaled(c, dy, positive), below);
    return c->st;
}
pl_status pl_elu_grad(pl_grad *c) {
    return elu_slope(c, 1, alpha_of(c), 1);
}
pl_status pl_celu_grad(pl_grad *c) {
    return elu_slope(c, alpha_of(c), 1, 1);
}
pl_status pl_selu_grad(pl_grad *c) {
    const double gamma = pl_attr_float(c->node, "gamma");
    return elu_slope(c, 1, gamma * alpha_of(c), gamma);
}

GRAD(sigmoid, pl_g_mul(c, dy, pl_g_mul(c, y, rest(c, y))))
GRAD(softplus, pl_g_mul(c, dy, pl_g1(c, "Sigmoid", x)))

pl_status pl_softsign_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *below = shifted(c, pl_g1(c, "Abs", pl_g_widened(c, x)), 1);
    pl_value *dx = pl_g_div(c, pl_g_widened(c, c->dy[0]), pl_g_mul(c, below, below));
    c->dx[0] = pl_g_cast_like(c, dx, x);
    return c->st;
}

/* ---- x times a squashing function ---- */

/* d/dx x s(a x), where s is the sigmoid: s + a x s (1 - s). */
static pl_value *swish_slope(pl_grad *c, pl_value *x, pl_value *s) {
    pl_value *bend = pl_g_mul(c, scaled(c, x, alpha_of(c)), pl_g_mul(c, s, rest(c, s)));
    return pl_g_add(c, s, bend);
}
pl_status pl_swish_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    pl_value *s = pl_g1(c, "Sigmoid", scaled(c, x, alpha_of(c)));
    c->dx[0] = pl_g_mul(c, c->dy[0], swish_slope(c, x, s));
    return c->st;
}
pl_status pl_swiglu_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *b = c->node->in[1], *dy = c->dy[0];
    pl_value *s = pl_g1(c, "Sigmoid", scaled(c, x, alpha_of(c)));
    if (c->wanted[0]) c->dx[0] = pl_g_mul(c, pl_g_mul(c, dy, b), swish_slope(c, x, s));
    if (c->wanted[1]) c->dx[1] = pl_g_mul(c, dy, pl_g_mul(c, x, s));
    return c->st;
}

/* t = tanh(softplus(x)): t + x sigmoid(x) (1 - t^2) */
pl_status pl_mish_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    pl_value *t = pl_g1(c, "Tanh", pl_g1(c, "Softplus", x));
    pl_value *bend = pl_g_mul(c, pl_g1(c, "Sigmoid", x), rest(c, pl_g_mul(c, t, t)));
    c->dx[0] = pl_g_mul(c, c->dy[0], pl_g_add(c, t, pl_g_mul(c, x, bend)));
    return c->st;
}

/* With t = tanh(z), z = k (x + 0.044715 x^3): (1 + t) / 2 + x (1 - t^2) z' / 2. At least in float:
 * x^2 overflows float16. */
static pl_value *gelu_tanh_slope(pl_grad *c, pl_value *x) {
    const double k = M_2_SQRTPI * M_SQRT1_2, cubic = 0.044715;
    const pl_value *like = x;
    x = pl_g_widened(c, x);
    pl_value *square = pl_g_mul(c, x, x);
    pl_value *z = scaled(c, pl_g_mul(c, x, shifted(c, scaled(c, square, cubic), 1)), k);
    pl_value *t = pl_g1(c, "Tanh", z);
    pl_value *dz = scaled(c, shifted(c, scaled(c, square, 3 * cubic), 1), k / 2);
    pl_value *bend = pl_g_mul(c, pl_g_mul(c, x, rest(c, pl_g_mul(c, t, t))), dz);
    return pl_g_cast_like(c, pl_g_add(c, scaled(c, shifted(c, t, 1), 0.5), bend), like);
}
/* Phi(x) + x phi(x) */
static pl_value *gelu_slope(pl_grad *c, pl_value *x) {
    pl_value *share = scaled(c, shifted(c, pl_g1(c, "Erf", scaled(c, x, M_SQRT1_2)), 1), 0.5);
    pl_value *bell = pl_g1(c, "Exp", scaled(c, pl_g_mul(c, x, x), -0.5));
    return pl_g_add(c, share, pl_g_mul(c, x, scaled(c, bell, M_2_SQRTPI * M_SQRT1_2 / 2)));
}
GRAD(gelu, pl_g_mul(c, dy,
                    pl_attr_string_is(c->node, "approximate", "tanh") ? gelu_tanh_slope(c, x)
                                                                      : gelu_slope(c, x)))

/* ---- Dropout ---- */

/* Is it certain that nothing is dropped? */
static bool is_inference(const pl_grad *c) {
    const pl_node *node = c->node;
    if (node->opset < 7) return pl_attr_int(node, "is_test") != 0;
    if (node->opset < 12 || node->n_in < 3 || node->in[2] == NULL) return true;
    const pl_tensor *mode = pl_g_known(node->in[2]);
    return mode != NULL && mode->n_elements == 1 && pl_tensor_get_i64(mode, 0) == 0;
}

/* In training the mask says what was kept; otherwise it is all ones and the scale is 1. */
pl_status pl_dropout_grad(pl_grad *c) {
    const pl_node *node = c->node;
    if (c->dy[0] == NULL) return PL_OK;
    c->dx[0] = c->dy[0];
    if (is_inference(c)) return PL_OK;
    if (node->opset < 12 || node->n_out < 2 || node->out[1] == NULL)
        return pl_g_fail(c, "needs the mask in training mode, which the node does not output");
    pl_value *ratio = node->n_in > 1 && node->in[1] != NULL
                          ? pl_g_cast_like(c, node->in[1], c->dy[0])
                          : pl_g_number(c, c->dy[0], 0.5);
    pl_value *kept = pl_g_select(c, node->in[2], rest(c, ratio), pl_g_number(c, c->dy[0], 1));
    c->dx[0] = pl_g_keep(c, node->out[1], pl_g_div(c, c->dy[0], kept));
    return c->st;
}
