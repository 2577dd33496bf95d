/* Error bounds of the activation functions.
 *
 * Each is the rounding of a correct implementation plus what an error e of x becomes. Runtimes
 * compute low precision in float: terms that are absolute (the 1 in 1 + exp(-x)) count in u_acc,
 * the stored result in u. Near a kink the bound covers what x can reach within 8e, since a correct
 * value may be off by more than its bound. */
#include <math.h>

#include "ops/bound.h"
#include "ops/nn/activation_rules.h"

#define BOUND(name, EXPR)                                                                          \
    static double name##_element(const pl_bound *c, const double *px, const double *pe,            \
                                 double y) {                                                       \
        const double x = px[0], e = pe[0], u = c->u;                                               \
        (void)u;                                                                                   \
        if (!isfinite(x) || !isfinite(y)) return 0;                                                \
        return (EXPR) + (c->u > 0 && y != 0 ? c->tiny : 0);                                        \
    }
#define RULE(name)                                                                                 \
    pl_status pl_##name##_bound(pl_bound *c) {                                                     \
        return pl_b_each(c, name##_element);                                                       \
    }

/* The part of an error e that passes a clamp to [low, high]. */
static double clamped(double x, double e, double low, double high) {
    return e > 0 && x + 8 * e > low && x - 8 * e < high ? e : 0;
}
static double sigmoid(double x) {
    return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

/* ---- exact but for the clamp ---- */

BOUND(relu, clamped(x, e, 0, HUGE_VAL))
pl_status pl_relu_bound(pl_bound *c) {
    return pl_b_any_error(c) ? pl_b_each(c, relu_element) : PL_OK;
}

/* Clip-11: x, min, max. The error of a limit counts where the limit may be the result. */
static double clip_element(const pl_bound *c, const double *x, const double *e, double y) {
    const double low = c->p[0] != 0 ? x[1] : -HUGE_VAL, high = c->p[1] != 0 ? x[2] : HUGE_VAL;
    const double near_low = fabs(y - low) <= 8 * (e[0] + e[1]) ? e[1] : 0;
    const double near_high = fabs(y - high) <= 8 * (e[0] + e[2]) ? e[2] : 0;
    return fmax(clamped(x[0], e[0], low, high), fmax(near_low, near_high));
}
static double clip6_element(const pl_bound *c, const double *x, const double *e, double y) {
    (void)y;
    return clamped(x[0], e[0], c->p[0], c->p[1]);
}
pl_status pl_clip_bound(pl_bound *c) {
    if (!pl_b_any_error(c)) return PL_OK;
    if (c->node->opset >= 11) {
        c->p[0] = pl_b_in(c, 1) != NULL;
        c->p[1] = pl_b_in(c, 2) != NULL;
        return pl_b_each(c, clip_element);
    }
    c->p[0] = c->node->opset >= 6 || pl_attr_has(c->node, "min") ? pl_attr_float(c->node, "min")
                                                                 : -HUGE_VAL;
    c->p[1] = c->node->opset >= 6 || pl_attr_has(c->node, "max") ? pl_attr_float(c->node, "max")
                                                                 : HUGE_VAL;
    return pl_b_each(c, clip6_element);
}

/* In training Dropout is random and never replayed; otherwise the output is the input. */
pl_status pl_dropout_bound(pl_bound *c) {
    if (c->e_in[0] == NULL || pl_b_out(c, 0) == NULL) return PL_OK;
    return pl_b_set_take(c, 0, pl_tensor_ref(c->e_in[0]));
}

/* ---- pieces of lines ---- */

BOUND(leaky_relu, (x < 0 ? u * fabs(y) : 0) +
                      e * fmax(x + 8 * e > 0 ? 1 : 0, x - 8 * e < 0 ? fabs(c->p[0]) : 0))
pl_status pl_leaky_relu_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "alpha");
    return pl_b_each(c, leaky_relu_element);
}

/* Jumps at alpha. */
BOUND(thresholded_relu, e == 0                       ? 0
                        : fabs(x - c->p[0]) <= 8 * e ? fmax(fabs(c->p[0]), fabs(x)) + e
                        : x > c->p[0]                ? e
                                                     : 0)
pl_status pl_thresholded_relu_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "alpha");
    return pl_b_any_error(c) ? pl_b_each(c, thresholded_relu_element) : PL_OK;
}

/* Jumps at +-lambd (p0) from 0 inside to |lambd - bias| outside. */
BOUND(shrink, e > 0 && fabs(fabs(x) - c->p[0]) <= 8 * e ? fmax(fabs(c->p[0] - c->p[1]), fabs(y)) + e
                                                        : u * fabs(y) + (fabs(x) > c->p[0] ? e : 0))
pl_status pl_shrink_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "lambd");
    c->p[1] = pl_attr_float(c->node, "bias");
    return pl_b_each(c, shrink_element);
}

/* alpha x + beta, clamped to [0, 1]: p is what comes before the clamp. */
static double hard_sigmoid_error(const pl_bound *c, double x, double e, double alpha, double beta) {
    const double error = 2 * c->u * (fabs(alpha * x) + fabs(beta)) + fabs(alpha) * e;
    return clamped(alpha * x + beta, error, 0, 1);
}
BOUND(hard_sigmoid, hard_sigmoid_error(c, x, e, c->p[0], c->p[1]))
pl_status pl_hard_sigmoid_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "alpha");
    c->p[1] = pl_attr_float(c->node, "beta");
    return pl_b_each(c, hard_sigmoid_element);
}
BOUND(hard_swish, fabs(x) * hard_sigmoid_error(c, x, 0, 1.0 / 6, 0.5) + 2 * u * fabs(y) +
                      (x + 8 * e > -3 ? 1.5 * e : 0))
RULE(hard_swish)

/* ---- exponentials ---- */

/* 1 / (1 + exp(-x)) on a device. */
static double sigmoid_maths(const pl_bound *c, double x, double y) {
    if (c->arithmetic == NULL) return 0;
    return y * (1 - y) * pl_b_maths(c, PL_MATHS_EXP, x, 1) + pl_b_maths(c, PL_MATHS_DIV, x, y);
}
/* 2u_acc is absolute: fast implementations clamp the tails. */
BOUND(sigmoid, sigmoid_maths(c, x, y) + 2 * c->u_acc + (u > c->u_acc ? 2 * u * y : 0) +
                   u * fabs(x) * y * (1 - y) + (y * (1 - y) + 0.05 * e) * e)
RULE(sigmoid)

BOUND(softplus, 3 * u * y + sigmoid(x) * pl_b_maths(c, PL_MATHS_EXP, x, 1) +
                    pl_b_maths(c, PL_MATHS_LOG, x, y) + (sigmoid(x) + 0.13 * e) * e)
RULE(softplus)

BOUND(softsign, 2 * u * fabs(y) + pl_b_maths(c, PL_MATHS_DIV, x, y) +
                    e / ((1 + fabs(x)) * (1 + fabs(x))) + e * e)
RULE(softsign)

/* Elu, Celu and Selu: x < 0 ? negative * (exp(x / width) - 1) : positive * x; runtimes compute
 * exp(x) - 1, not expm1. */
static double elu_element(const pl_bound *c, const double *px, const double *pe, double y) {
    const double x = px[0], e = pe[0], width = c->p[0], negative = c->p[1], positive = c->p[2];
    if (isnan(x) || isinf(y)) return 0;
    double bound =
        x > 0 ? (positive == 1 ? 0 : 2 * c->u * fabs(y))
              : 2 * (c->u * fabs(y) + c->u_acc * fabs(negative)) +
                    fabs(negative) * pl_b_maths(c, PL_MATHS_EXP, x / width, exp(x / width));
    if (x == 0) bound = 0;
    const double above = x + 8 * e > 0 ? fabs(positive) : 0;
    const double steepest = exp((width > 0 ? fmin(x + e, 0) : x - e) / width);
    const double below = x - 8 * e < 0 ? fabs(negative / width) * steepest : 0;
    if (e > 0) bound += e * fmax(above, below);
    return bound + (y != 0 ? c->tiny : 0);
}
static pl_status elu_bound(pl_bound *c, double width, double negative, double positive) {
    c->p[0] = width;
    c->p[1] = negative;
    c->p[2] = positive;
    return pl_b_each(c, elu_element);
}
pl_status pl_elu_bound(pl_bound *c) {
    return elu_bound(c, 1, pl_attr_float(c->node, "alpha"), 1);
}
pl_status pl_celu_bound(pl_bound *c) {
    const double alpha = pl_attr_float(c->node, "alpha");
    return elu_bound(c, alpha, alpha, 1);
}
pl_status pl_selu_bound(pl_bound *c) {
    const double gamma = pl_attr_float(c->node, "gamma");
    return elu_bound(c, 1, pl_attr_float(c->node, "alpha") * gamma, gamma);
}

/* ---- x times a squashing function, whose error is absolute ---- */

BOUND(gelu, fabs(x) / 2 * pl_b_maths(c, PL_MATHS_TANH, x, 1) + 2 * c->u_acc * fabs(x) +
                (u > c->u_acc ? 2 * u * fabs(y) : 0) + 1.13 * e)
RULE(gelu)

BOUND(mish, fabs(x) * pl_b_maths(c, PL_MATHS_TANH, x, 1) + 2 * c->u_acc * fabs(x) +
                2 * u * fabs(y) + 1.09 * e)
RULE(mish)

/* The slope of x * sigmoid(alpha x). */
static double swish_slope(double alpha, double x) {
    const double s = sigmoid(alpha * x);
    return s + alpha * x * s * (1 - s);
}
static double swish_error(const pl_bound *c, double x, double e, double y) {
    const double alpha = c->p[0], s = sigmoid(alpha * x);
    const double own = c->u_acc * (2 + fabs(alpha * x) * s * (1 - s)) * fabs(x) + c->u * fabs(y);
    return own + fabs(x) * sigmoid_maths(c, alpha * x, s) +
           (fabs(swish_slope(alpha, x)) + 0.3 * fabs(alpha) * e) * e;
}
BOUND(swish, swish_error(c, x, e, y))
pl_status pl_swish_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "alpha");
    return pl_b_each(c, swish_element);
}

static double swiglu_element(const pl_bound *c, const double *x, const double *e, double y) {
    if (!isfinite(x[0]) || !isfinite(x[1])) return 0;
    const double gate = x[0] * sigmoid(c->p[0] * x[0]);
    const double error = swish_error(c, x[0], e[0], gate);
    return pl_b_round(c, y) + (fabs(x[1]) + e[1]) * error + fabs(gate) * e[1];
}
pl_status pl_swiglu_bound(pl_bound *c) {
    c->p[0] = pl_attr_float(c->node, "alpha");
    return pl_b_each(c, swiglu_element);
}
