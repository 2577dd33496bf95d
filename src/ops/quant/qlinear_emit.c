/* Emission of com.microsoft's quantised element-wise operators: the formula in double, rounded
 * once, as in qlinear.c. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/quant/qlinear_rules.h"

static pl_ref number_at(pl_emit *c, int i, double otherwise) {
    return pl_emit_has(c, i) ? pl_emit_scalar(c, pl_emit_in(c, i))
                             : pl_emit_constant(c, PL_F64, otherwise);
}

/* Dequantises input x, in double. */
static pl_ref value_of(pl_emit *c, int x, int scale, int zero) {
    return pl_emit_map3(c, PL_F64, "((double)$0 - (double)$1) * (double)$2", pl_emit_in(c, x),
                        number_at(c, zero, 0), number_at(c, scale, 1));
}

/* Converts a number of steps to a code of the output's type. */
static pl_ref coded(pl_emit *c, pl_ref steps, pl_ref zero) {
    const bool is_signed = c->out[0]->dtype == PL_I8;
    return pl_emit_map2(c, c->out[0]->dtype,
                        is_signed ? "px_quant_f64($0, $1, -128, 127)"
                                  : "px_quant_f64($0, $1, 0, 255)",
                        steps, zero);
}

static pl_status out_value(pl_emit *c, pl_ref value, int scale, int zero) {
    const pl_ref steps = pl_emit_map2(c, PL_F64, "$0 / (double)$1", value, number_at(c, scale, 1));
    return pl_emit_out(c, 0, coded(c, steps, number_at(c, zero, 0)));
}

static bool fits(const pl_emit *c) {
    return c->out[0]->dtype == PL_I8 || c->out[0]->dtype == PL_U8;
}

pl_status pl_emit_qlinear_sigmoid(pl_emit *c) {
    if (!fits(c)) return pl_emit_decline(c, "an element type");
    const pl_ref v = pl_emit_map1(c, PL_F64, "1 / (1 + __builtin_exp(-$0))", value_of(c, 0, 1, 2));
    return out_value(c, v, 3, 4);
}

pl_status pl_emit_qlinear_leaky_relu(pl_emit *c) {
    char expr[100];
    if (!fits(c)) return pl_emit_decline(c, "an element type");
    snprintf(expr, sizeof(expr), "$0 < 0 ? %a * $0 : $0", pl_attr_float(c->node, "alpha"));
    return out_value(c, pl_emit_map1(c, PL_F64, expr, value_of(c, 0, 1, 2)), 3, 4);
}

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };

/* Multiplies by the scales first, as the kernel does. */
static pl_status binary(pl_emit *c, bool multiplies) {
    if (!fits(c)) return pl_emit_decline(c, "an element type");
    const pl_ref sa = number_at(c, A_SCALE, 1), sb = number_at(c, B_SCALE, 1);
    const pl_ref to = number_at(c, C_SCALE, 1);
    const char *each = "(double)$0 - (double)$1";
    const pl_ref a = pl_emit_map2(c, PL_F64, each, pl_emit_in(c, A), number_at(c, A_ZERO, 0));
    const pl_ref b = pl_emit_map2(c, PL_F64, each, pl_emit_in(c, B), number_at(c, B_ZERO, 0));
    const pl_ref fa = pl_emit_map2(c, PL_F64, "(double)$0 / (double)$1", sa, to);
    const pl_ref fb = pl_emit_map2(c, PL_F64, "(double)$0 / (double)$1", sb, to);
    const pl_ref both = pl_emit_map2(c, PL_F64, "$0 * (double)$1", fa, sb);
    const pl_ref add[] = { a, fa, b, fb };
    const pl_ref steps = multiplies ? pl_emit_map3(c, PL_F64, "$0 * $1 * $2", a, b, both)
                                    : pl_emit_map(c, PL_F64, "$0 * $1 + $2 * $3", 4, add);
    return pl_emit_out(c, 0, coded(c, steps, number_at(c, C_ZERO, 0)));
}
pl_status pl_emit_qlinear_add(pl_emit *c) {
    return binary(c, false);
}
pl_status pl_emit_qlinear_mul(pl_emit *c) {
    return binary(c, true);
}

pl_status pl_emit_qlinear_where(pl_emit *c) {
    if (!fits(c)) return pl_emit_decline(c, "an element type");
    return out_value(c,
                     pl_emit_map3(c, PL_F64, "$0 ? $1 : $2", pl_emit_in(c, 0), value_of(c, 1, 2, 3),
                                  value_of(c, 4, 5, 6)),
                     7, 8);
}

/* Y_scale, Y_zero_point, then (tensor, scale, zero point) each. */
pl_status pl_emit_qlinear_concat(pl_emit *c) {
    enum { MANY = 32 };
    pl_ref pieces[MANY];
    const int n = (c->n_in - 2) / 3;
    if (n > MANY || n < 1 || !fits(c)) return pl_emit_decline(c, "many inputs");
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), c->out[0]->rank);
    for (int i = 0; i < n; i++) {
        const pl_ref v = value_of(c, 2 + 3 * i, 3 + 3 * i, 4 + 3 * i);
        const pl_ref steps = pl_emit_map2(c, PL_F64, "$0 / (double)$1", v, number_at(c, 0, 1));
        pieces[i] = coded(c, steps, number_at(c, 1, 0));
        if (pieces[i] < 0) return pl_emit_decline(c, "too many dims");
    }
    return pl_emit_out(c, 0, n == 1 ? pieces[0] : c->builder->concat(c, axis, n, pieces));
}

/* Before Softmax-13 all dims from the axis on are flattened. */
pl_status pl_emit_qlinear_softmax(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    if (rank == 0 || !fits(c)) return pl_emit_decline(c, "nothing to reduce");
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    const bool flat = pl_attr_int(c->node, "opset") < 13;
    const unsigned axes = flat ? pl_emit_axes_from(axis, rank) : 1u << axis;
    const pl_ref v =
        pl_emit_map2(c, PL_F64, "(double)$0 * (double)$1", pl_emit_in(c, 0), number_at(c, 1, 1));
    const pl_ref top = pl_emit_reduce(c, PL_FOLD_MAX, PL_F64, v, axes);
    const pl_ref e = pl_emit_map2(c, PL_F64, "__builtin_exp($0 - $1)", v, top);
    const pl_ref sum = pl_emit_reduce(c, PL_FOLD_SUM, PL_F64, e, axes);
    return out_value(c, pl_emit_map2(c, PL_F64, "$0 / $1", e, sum), 3, 4);
}
