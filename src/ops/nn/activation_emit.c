/* Emission of the activation functions: one C expression each, with the functions of jit's prelude.
 * Semantics: the kernels in activation.c. */
#include <math.h>
#include <stdio.h>

#include "ops/emit.h"
#include "ops/nn/activation_rules.h"

#define UNARY(name, floats, integers)                                                              \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return pl_emit_unary(c, floats, integers);                                                 \
    }
#define LIBM(name) UNARY(name, "px_" #name "_$S($0)", NULL)

LIBM(mish)
LIBM(sigmoid)
LIBM(softplus)
UNARY(relu, "px_relu_$S($0)", "$0 < 0 ? 0 : $0")
UNARY(softsign, "$0 / (1 + px_abs_$S($0))", NULL)
UNARY(hard_swish, "$0 * px_unit_$S($0 * (($T)1 / 6) + ($T)0.5)", NULL)

/* the expression: before, the value of the attribute, after */
static pl_status with_number(pl_emit *c, const char *before, double value, const char *after) {
    char number[64], expr[300];
    snprintf(expr, sizeof(expr), "%s%s%s", before, pl_emit_number(value, number), after);
    return pl_emit_unary(c, expr, NULL);
}
pl_status pl_emit_leaky_relu(pl_emit *c) {
    return with_number(c, "$0 < 0 ? ", pl_attr_float(c->node, "alpha"), " * $0 : $0");
}
pl_status pl_emit_thresholded_relu(pl_emit *c) {
    return with_number(c, "$0 > ", pl_attr_float(c->node, "alpha"), " || $0 != $0 ? $0 : 0");
}
pl_status pl_emit_swish(pl_emit *c) {
    const double alpha = pl_attr_float(c->node, "alpha");
    if (alpha == 1) return pl_emit_unary(c, "px_silu_$S($0)", NULL);
    return with_number(c, "$0 * px_sigmoid_$S(", alpha, " * $0)");
}
pl_status pl_emit_hard_sigmoid(pl_emit *c) {
    char a[64], b[64], expr[200];
    pl_emit_number(pl_attr_float(c->node, "alpha"), a);
    pl_emit_number(pl_attr_float(c->node, "beta"), b);
    snprintf(expr, sizeof(expr), "px_unit_$S(%s * $0 + %s)", a, b);
    return pl_emit_unary(c, expr, NULL);
}
pl_status pl_emit_gelu(pl_emit *c) {
    const bool by_tanh = pl_attr_string_is(c->node, "approximate", "tanh");
    return pl_emit_unary(c, by_tanh ? "px_gelu_tanh_$S($0)" : "px_gelu_$S($0)", NULL);
}
static pl_status elu(pl_emit *c, double width, double below, double above) {
    char w[64], b[64], a[64], expr[300];
    if (!(width > 0)) return pl_emit_decline(c, "alpha is not positive");
    pl_emit_number(width, w);
    pl_emit_number(below, b);
    pl_emit_number(above, a);
    snprintf(expr, sizeof(expr), "px_elu_$S($0, %s, %s, %s)", w, b, a);
    return pl_emit_unary(c, expr, NULL);
}
pl_status pl_emit_elu(pl_emit *c) {
    return elu(c, 1, pl_attr_float(c->node, "alpha"), 1);
}
pl_status pl_emit_celu(pl_emit *c) {
    const double alpha = pl_attr_float(c->node, "alpha");
    return elu(c, alpha, alpha, 1);
}
pl_status pl_emit_selu(pl_emit *c) {
    const double gamma = pl_attr_float(c->node, "gamma");
    return elu(c, 1, pl_attr_float(c->node, "alpha") * gamma, gamma);
}

/* Shrink-9; integers in double. */
pl_status pl_emit_shrink(pl_emit *c) {
    char l[64], b[64], expr[400], integers[460];
    const bool exact = pl_emit_is_float(c->in[0]->dtype);
    pl_emit_number(pl_attr_float(c->node, "lambd"), l);
    pl_emit_number(pl_attr_float(c->node, "bias"), b);
    const char *const l_text = exact ? l : l + 4, *const b_text = exact ? b : b + 4;
    snprintf(expr, sizeof(expr), "$0 < -(%s) ? $0 + %s : $0 > %s ? $0 - %s : $0 != $0 ? $0 : 0",
             l_text, b_text, l_text, b_text);
    snprintf(integers, sizeof(integers), "px_hold_i(%s)", expr);
    return pl_emit_unary(c, expr, integers);
}

pl_status pl_emit_swiglu(pl_emit *c) {
    char number[64], expr[200];
    snprintf(expr, sizeof(expr), "$0 * px_sigmoid_$S(%s * $0) * $1",
             pl_emit_number(pl_attr_float(c->node, "alpha"), number));
    return pl_emit_out(c, 0,
                       pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), pl_emit_in(c, 1)));
}

/* Clip-13: minimum first, then maximum, so that the maximum wins. Attributes before Clip-11. */
pl_status pl_emit_clip(pl_emit *c) {
    const bool old = c->node->opset < 11, floats = pl_emit_is_float(c->in[0]->dtype);
    pl_ref x = pl_emit_in(c, 0);
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "min" : "max";
        const bool has =
            old ? c->node->opset >= 6 || pl_attr_has(c->node, name) : pl_emit_has(c, i);
        if (!has) continue;
        if (!old && pl_emit_elements(c->in[i]) != 1) return pl_emit_decline(c, "unsupported bound");
        const pl_ref limit = old ? pl_emit_constant(c, pl_emit_compute(c->in[0]->dtype),
                                                    pl_attr_float(c->node, name))
                                 : pl_emit_scalar(c, pl_emit_in(c, i));
        const char *expr = i == 1 ? (floats ? "px_max_$S($0, $1)" : "$0 < $1 ? $1 : $0")
                                  : (floats ? "px_min_$S($0, $1)" : "$0 > $1 ? $1 : $0");
        x = pl_emit_map2(c, c->in[0]->dtype, expr, x, limit);
    }
    return pl_emit_out(c, 0, x);
}

/* Dropout outside training: the input, and a mask of ones. */
pl_status pl_emit_dropout(pl_emit *c) {
    if (pl_node_is_random(c->node)) return pl_emit_decline(c, "random");
    if (pl_emit_wants(c, 1)) {
        int64_t dims[PL_EMIT_RANK_MAX];
        pl_emit_out_dims(c, 1, dims);
        const pl_ref one = pl_emit_constant(c, c->out[1]->dtype, 1);
        PL_TRY(pl_emit_out(c, 1, pl_emit_expand(c, one, c->out[1]->rank, dims)));
    }
    return pl_emit_wants(c, 0) ? pl_emit_identity(c) : PL_OK;
}
