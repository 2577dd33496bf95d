/* Emission of element-wise operators: one C expression each, over the functions of jit's prelude.
 * The meaning is that of the kernels in op_unary.c, op_binary.c, op_activation.c, op_logical.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

/* ---- helpers ---- */

static bool is_float(pl_dtype d) {
    return d == PL_F32 || d == PL_F16 || d == PL_BF16 || d == PL_F64;
}
static pl_dtype in_dtype(const pl_emit *c, int i) {
    return c->in[i]->dtype;
}

/* y = expr(x) for floats; integers by another expression, or declined. */
static pl_status unary(pl_emit *c, const char *floats, const char *integers) {
    const pl_dtype dtype = in_dtype(c, 0);
    const char *expr = is_float(dtype) ? floats : integers;
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, pl_emit_in(c, 0)));
}

/* Before opset 7 broadcasting was asked for by attributes. */
static pl_status binary(pl_emit *c, const char *floats, const char *integers) {
    const char *expr = is_float(in_dtype(c, 0)) ? floats : integers;
    if (c->node->opset < 7) return pl_emit_decline(c, "broadcasting of opset 6 and before");
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0,
                       pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), pl_emit_in(c, 1)));
}

/* ---- one input ---- */

#define UNARY(name, floats, integers)                                                              \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return unary(c, floats, integers);                                                         \
    }
#define LIBM(name) UNARY(name, "px_" #name "_$S($0)", NULL)

LIBM(acos)
LIBM(acosh)
LIBM(asin)
LIBM(asinh)
LIBM(atan)
LIBM(atanh)
LIBM(ceil)
LIBM(cos)
LIBM(cosh)
LIBM(erf)
LIBM(exp)
LIBM(floor)
LIBM(log)
LIBM(mish)
LIBM(sigmoid)
LIBM(sin)
LIBM(sinh)
LIBM(softplus)
LIBM(sqrt)
LIBM(tan)
LIBM(tanh)
UNARY(round, "px_rint_$S($0)", NULL)
UNARY(reciprocal, "1 / $0", NULL)
UNARY(abs, "px_abs_$S($0)", "$0 < 0 ? 0u - (uint64_t)$0 : $0")
UNARY(neg, "-$0", "0u - (uint64_t)$0")
UNARY(sign, "$0 != $0 ? $0 : ($T)(($0 > 0) - ($0 < 0))", "($0 > 0) - ($0 < 0)")
UNARY(is_nan, "$0 != $0", NULL)
UNARY(not, NULL, "$0 == 0")
UNARY(bitwise_not, NULL, "~$0")
UNARY(relu, "px_max_$S($0, 0)", "$0 < 0 ? 0 : $0")
UNARY(softsign, "$0 / (1 + px_abs_$S($0))", NULL)
UNARY(hard_swish, "$0 * px_unit_$S($0 * (($T)1 / 6) + ($T)0.5)", NULL)

pl_status pl_emit_is_inf(pl_emit *c) {
    const bool positive = pl_attr_int(c->node, "detect_positive") != 0;
    const bool negative = pl_attr_int(c->node, "detect_negative") != 0;
    return unary(c,
                 positive && negative ? "$0 - $0 != $0 - $0 && $0 == $0"
                 : positive           ? "$0 - $0 != $0 - $0 && $0 > 0"
                 : negative           ? "$0 - $0 != $0 - $0 && $0 < 0"
                                      : "0",
                 NULL);
}

/* before, the attribute's number, after */
static pl_status with_number(pl_emit *c, const char *before, double value, const char *after) {
    char number[64], expr[300];
    snprintf(expr, sizeof(expr), "%s%s%s", before, pl_emit_number(value, number), after);
    return unary(c, expr, NULL);
}
pl_status pl_emit_leaky_relu(pl_emit *c) {
    return with_number(c, "$0 < 0 ? ", pl_attr_float(c->node, "alpha"), " * $0 : $0");
}
pl_status pl_emit_thresholded_relu(pl_emit *c) {
    return with_number(c, "$0 > ", pl_attr_float(c->node, "alpha"), " || $0 != $0 ? $0 : 0");
}
pl_status pl_emit_swish(pl_emit *c) {
    const double alpha = pl_attr_float(c->node, "alpha");
    if (alpha == 1) return unary(c, "px_silu_$S($0)", NULL);
    return with_number(c, "$0 * px_sigmoid_$S(", alpha, " * $0)");
}
pl_status pl_emit_hard_sigmoid(pl_emit *c) {
    char a[64], b[64], expr[200];
    pl_emit_number(pl_attr_float(c->node, "alpha"), a);
    pl_emit_number(pl_attr_float(c->node, "beta"), b);
    snprintf(expr, sizeof(expr), "px_unit_$S(%s * $0 + %s)", a, b);
    return unary(c, expr, NULL);
}
pl_status pl_emit_gelu(pl_emit *c) {
    const bool by_tanh = pl_attr_string_is(c->node, "approximate", "tanh");
    return unary(c, by_tanh ? "px_gelu_tanh_$S($0)" : "px_gelu_$S($0)", NULL);
}
static pl_status elu(pl_emit *c, double width, double below, double above) {
    char w[64], b[64], a[64], expr[300];
    if (!(width > 0)) return pl_emit_decline(c, "alpha is not positive");
    pl_emit_number(width, w);
    pl_emit_number(below, b);
    pl_emit_number(above, a);
    snprintf(expr, sizeof(expr), "px_elu_$S($0, %s, %s, %s)", w, b, a);
    return unary(c, expr, NULL);
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

/* Clip-13: first the minimum, then the maximum, which so wins. */
pl_status pl_emit_clip(pl_emit *c) {
    char low[64], high[64], expr[300];
    const bool old = c->node->opset < 11;
    if (!is_float(in_dtype(c, 0))) return pl_emit_decline(c, "Clip of integers");
    double bound[2] = { 0, 0 };
    bool has[2];
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "min" : "max";
        has[i] = old ? c->node->opset >= 6 || pl_attr_has(c->node, name) : pl_emit_has(c, i + 1);
        if (!has[i]) continue;
        if (!old && (c->in_tensor[i + 1] == NULL || c->in_tensor[i + 1]->n_elements != 1)) {
            return pl_emit_decline(c, "bounds are not constant");
        }
        bound[i] = old ? pl_attr_float(c->node, name) : pl_tensor_get_f64(c->in_tensor[i + 1], 0);
    }
    pl_emit_number(bound[0], low);
    pl_emit_number(bound[1], high);
    if (has[0] && has[1]) {
        snprintf(expr, sizeof(expr), "px_min_$S(px_max_$S($0, %s), %s)", low, high);
    } else {
        snprintf(expr, sizeof(expr),
                 has[0]   ? "px_max_$S($0, %s)"
                 : has[1] ? "px_min_$S($0, %s)"
                          : "$0",
                 has[0] ? low : high);
    }
    return pl_emit_out(c, 0, pl_emit_map1(c, in_dtype(c, 0), expr, pl_emit_in(c, 0)));
}

/* ---- two inputs ---- */

#define BINARY(name, floats, integers)                                                             \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return binary(c, floats, integers);                                                        \
    }
BINARY(add, "$0 + $1", "(uint64_t)$0 + (uint64_t)$1")
BINARY(sub, "$0 - $1", "(uint64_t)$0 - (uint64_t)$1")
BINARY(mul, "$0 * $1", "(uint64_t)$0 * (uint64_t)$1")
BINARY(less, "$0 < $1", "$0 < $1")
BINARY(less_equal, "$0 <= $1", "$0 <= $1")
BINARY(greater, "$0 > $1", "$0 > $1")
BINARY(greater_equal, "$0 >= $1", "$0 >= $1")
BINARY(equal, "$0 == $1", "$0 == $1")
BINARY(and, NULL, "$0 & $1")
BINARY(or, NULL, "$0 | $1")
BINARY(xor, NULL, "$0 ^ $1")
BINARY(bit_and, NULL, "$0 & $1")
BINARY(bit_or, NULL, "$0 | $1")
BINARY(bit_xor, NULL, "$0 ^ $1")
BINARY(prelu, "$0 < 0 ? $1 * $0 : $0", NULL)

pl_status pl_emit_div(pl_emit *c) {
    const bool is_unsigned = pl_dtype_class_of(in_dtype(c, 0)) == PL_CLASS_UINT;
    return binary(c, "$0 / $1", is_unsigned ? "px_div_u($0, $1)" : "px_div_i($0, $1)");
}

/* Squares and roots as in the kernel; a scalar exponent only. */
pl_status pl_emit_pow(pl_emit *c) {
    char number[64], expr[200];
    const pl_dtype x = in_dtype(c, 0);
    if (!is_float(x) || c->node->opset < 7) return pl_emit_decline(c, "Pow of integers, or old");
    if (c->in_tensor[1] == NULL || c->in_tensor[1]->n_elements != 1 ||
        pl_emit_elements(c->out[0]) != pl_emit_elements(c->in[0])) {
        return pl_emit_decline(c, "the exponent is not one constant");
    }
    const double e = pl_tensor_get_f64(c->in_tensor[1], 0);
    const bool in_double = x == PL_F64;
    if (e == 2) {
        snprintf(expr, sizeof(expr), "$0 * $0");
    } else if (e == 3 && !in_double) {
        snprintf(expr, sizeof(expr), "$0 * $0 * $0");
    } else if (e == 0.5 && !in_double) {
        snprintf(expr, sizeof(expr), "$0 == px_low_f32 ? px_high_f32 : px_sqrt_f32($0) + 0.0f");
    } else if (in_double || (double)(float)e == e) {
        pl_emit_number(e, number);
        snprintf(expr, sizeof(expr), "px_pow_$S($0, %s)", number);
    } else {
        return pl_emit_decline(c, "the exponent is no float");
    }
    pl_ref base = pl_emit_in(c, 0);
    int64_t dims[PL_EMIT_RANK_MAX];
    for (int d = 0; d < c->out[0]->rank; d++)
        dims[d] = c->out[0]->dims[d].value;
    if (c->out[0]->rank != c->in[0]->rank) base = pl_emit_reshape(c, base, c->out[0]->rank, dims);
    return pl_emit_out(c, 0, pl_emit_map1(c, x, expr, base));
}

pl_status pl_emit_where(pl_emit *c) {
    return pl_emit_out(c, 0,
                       pl_emit_map3(c, c->out[0]->dtype, "$0 ? $1 : $2", pl_emit_in(c, 0),
                                    pl_emit_in(c, 1), pl_emit_in(c, 2)));
}

/* ---- any number of inputs ---- */

/* Inner results keep the compute type where the kernel rounds once, else the output's. */
static pl_ref fold_inputs(pl_emit *c, pl_dtype dtype, const char *expr) {
    pl_ref sum = pl_emit_in(c, 0);
    for (int i = 1; i < c->n_in; i++)
        sum = pl_emit_map2(c, dtype, expr, sum, pl_emit_in(c, i));
    return sum;
}
static pl_status extreme(pl_emit *c, const char *floats, const char *integers) {
    const bool floating = is_float(in_dtype(c, 0));
    return pl_emit_out(c, 0, fold_inputs(c, c->out[0]->dtype, floating ? floats : integers));
}
pl_status pl_emit_max(pl_emit *c) {
    return extreme(c, "px_max_$S($0, $1)", "$0 > $1 ? $0 : $1");
}
pl_status pl_emit_min(pl_emit *c) {
    return extreme(c, "px_min_$S($0, $1)", "$0 < $1 ? $0 : $1");
}
pl_status pl_emit_sum(pl_emit *c) {
    if (!is_float(in_dtype(c, 0))) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, fold_inputs(c, pl_emit_compute(in_dtype(c, 0)), "$0 + $1"));
}
pl_status pl_emit_mean(pl_emit *c) {
    char number[64], expr[100];
    if (!is_float(in_dtype(c, 0))) return pl_emit_decline(c, "no expression for this type");
    const pl_dtype wide = pl_emit_compute(in_dtype(c, 0));
    const pl_ref sum = fold_inputs(c, wide, "$0 + $1");
    snprintf(expr, sizeof(expr), "$0 / %s", pl_emit_number(c->n_in, number));
    return pl_emit_out(c, 0, c->n_in > 1 ? pl_emit_map1(c, wide, expr, sum) : sum);
}

/* ---- types ---- */

/* As cast_block of op_type.c: integers meet in int64, floats truncate through double. */
pl_status pl_emit_cast(pl_emit *c) {
    const pl_dtype from = in_dtype(c, 0), to = c->out[0]->dtype;
    const char *expr = "$0";
    if (from == PL_F64 && (to == PL_F16 || to == PL_BF16)) {
        return pl_emit_decline(c, "double to a half is rounded once");
    }
    if (pl_dtype_is_integer(to) && is_float(from)) expr = "px_trunc($0)";
    if (to == PL_BOOL) expr = "$0 != 0";
    if (pl_dtype_is_integer(from) && (to == PL_F16 || to == PL_BF16)) {
        return pl_emit_decline(c, "an integer to a half is rounded once");
    }
    return pl_emit_out(c, 0, pl_emit_map1(c, to, expr, pl_emit_in(c, 0)));
}
