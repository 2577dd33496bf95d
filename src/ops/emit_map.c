/* Emission of element-wise operators: one C expression each, over the functions of jit's prelude.
 * The meaning is that of the kernels in op_unary.c, op_binary.c, op_activation.c, op_logical.c. */
#include <math.h>
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

/* ---- helpers ---- */

static pl_dtype in_dtype(const pl_emit *c, int i) {
    return c->in[i]->dtype;
}

/* y = expr(x) for floats; integers by another expression, or declined. */
static pl_status unary(pl_emit *c, const char *floats, const char *integers) {
    const pl_dtype dtype = in_dtype(c, 0);
    const char *expr = pl_emit_is_float(dtype) ? floats : integers;
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, pl_emit_map1(c, c->out[0]->dtype, expr, pl_emit_in(c, 0)));
}

/* The second operand. Before opset 7 an attribute says at which dim of the first it begins. */
static pl_ref second(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref y = pl_emit_in(c, 1);
    const int rank = pl_emit_rank(c, 0), n = pl_emit_rank(c, 1);
    if (y < 0 || c->node->opset >= 7 || !pl_attr_has(c->node, "axis") || n > rank) return y;
    const int first = pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    if (first < 0 || first + n > rank) return -1;
    for (int d = first; d < rank; d++)
        dims[d - first] = d - first < n ? pl_emit_dim(c, 1, d - first) : 1;
    return pl_emit_reshape(c, y, rank - first, dims);
}

static pl_status binary(pl_emit *c, const char *floats, const char *integers) {
    const char *expr = pl_emit_is_float(in_dtype(c, 0)) ? floats : integers;
    if (expr == NULL) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), second(c)));
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
UNARY(relu, "px_relu_$S($0)", "$0 < 0 ? 0 : $0")
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

/* Shrink-9; of integers in double. */
pl_status pl_emit_shrink(pl_emit *c) {
    char l[64], b[64], expr[400], integers[460];
    const bool exact = pl_emit_is_float(in_dtype(c, 0));
    pl_emit_number(pl_attr_float(c->node, "lambd"), l);
    pl_emit_number(pl_attr_float(c->node, "bias"), b);
    const char *const l_text = exact ? l : l + 4, *const b_text = exact ? b : b + 4;
    snprintf(expr, sizeof(expr), "$0 < -(%s) ? $0 + %s : $0 > %s ? $0 - %s : $0 != $0 ? $0 : 0",
             l_text, b_text, l_text, b_text);
    snprintf(integers, sizeof(integers), "px_hold_i(%s)", expr);
    return unary(c, expr, integers);
}

pl_status pl_emit_swiglu(pl_emit *c) {
    char number[64], expr[200];
    snprintf(expr, sizeof(expr), "$0 * px_sigmoid_$S(%s * $0) * $1",
             pl_emit_number(pl_attr_float(c->node, "alpha"), number));
    return pl_emit_out(c, 0,
                       pl_emit_map2(c, c->out[0]->dtype, expr, pl_emit_in(c, 0), pl_emit_in(c, 1)));
}

/* Clip-13: first the minimum, then the maximum, which so wins. Before 11 by attributes. */
pl_status pl_emit_clip(pl_emit *c) {
    const bool old = c->node->opset < 11, floats = pl_emit_is_float(in_dtype(c, 0));
    pl_ref x = pl_emit_in(c, 0);
    for (int i = 1; i <= 2; i++) {
        const char *name = i == 1 ? "min" : "max";
        const bool has =
            old ? c->node->opset >= 6 || pl_attr_has(c->node, name) : pl_emit_has(c, i);
        if (!has) continue;
        if (!old && pl_emit_elements(c->in[i]) != 1) return pl_emit_decline(c, "an odd bound");
        const pl_ref limit =
            old ? pl_emit_constant(c, pl_emit_compute(in_dtype(c, 0)), pl_attr_float(c->node, name))
                : pl_emit_scalar(c, pl_emit_in(c, i));
        const char *expr = i == 1 ? (floats ? "px_max_$S($0, $1)" : "$0 < $1 ? $1 : $0")
                                  : (floats ? "px_min_$S($0, $1)" : "$0 > $1 ? $1 : $0");
        x = pl_emit_map2(c, in_dtype(c, 0), expr, x, limit);
    }
    return pl_emit_out(c, 0, x);
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

/* PRelu-1 and -6: a slope of one dim belongs to the channels. */
pl_status pl_emit_prelu(pl_emit *c) {
    const pl_dtype dtype = in_dtype(c, 0);
    const int rank = pl_emit_rank(c, 0);
    pl_ref slope = pl_emit_in(c, 1);
    const bool is_unsigned = pl_dtype_class_of(dtype) == PL_CLASS_UINT;
    if (c->node->opset < 7 && pl_emit_rank(c, 1) == 1 && rank > 1) {
        slope = pl_emit_along(c, slope, rank - 1, 0);
    }
    const char *expr = pl_emit_is_float(dtype) ? "$0 < 0 ? $1 * $0 : $0"
                       : is_unsigned           ? "$0"
                                     : "$0 < 0 ? (int64_t)((uint64_t)$1 * (uint64_t)$0) : $0";
    return pl_emit_out(c, 0, pl_emit_map2(c, dtype, expr, pl_emit_in(c, 0), slope));
}

/* Mod-10: of floats with fmod=0, too, as models have it. */
pl_status pl_emit_mod(pl_emit *c) {
    const bool as_c = pl_attr_int(c->node, "fmod") != 0;
    const bool is_unsigned = pl_dtype_class_of(in_dtype(c, 0)) == PL_CLASS_UINT;
    return binary(c, as_c ? "px_mod_$S($0, $1)" : "px_modulo($0, $1)",
                  is_unsigned ? "px_mod_u($0, $1)"
                  : as_c      ? "px_rem_i($0, $1)"
                              : "px_mod_i($0, $1)");
}

pl_status pl_emit_bit_shift(pl_emit *c) {
    return binary(c, NULL,
                  pl_attr_string_is(c->node, "direction", "LEFT")
                      ? "(uint64_t)$1 > 63 ? 0 : (uint64_t)$0 << $1"
                      : "(uint64_t)$1 > 63 ? 0 : (uint64_t)$0 >> $1");
}

pl_status pl_emit_div(pl_emit *c) {
    const bool is_unsigned = pl_dtype_class_of(in_dtype(c, 0)) == PL_CLASS_UINT;
    return binary(c, "$0 / $1", is_unsigned ? "px_div_u($0, $1)" : "px_div_i($0, $1)");
}

/* A constant exponent: squares and roots as in the kernel. */
static pl_status pow_number(pl_emit *c, double e) {
    char number[64], expr[200];
    const bool in_double = in_dtype(c, 0) == PL_F64;
    if (e == 2) {
        snprintf(expr, sizeof(expr), "$0 * $0");
    } else if (e == 3 && !in_double) {
        snprintf(expr, sizeof(expr), "$0 * $0 * $0");
    } else if (e == 0.5 && !in_double) {
        snprintf(expr, sizeof(expr), "$0 == px_low_f32 ? px_high_f32 : px_sqrt_f32($0) + 0.0f");
    } else if (in_double || (double)(float)e == e || isnan(e)) {
        snprintf(expr, sizeof(expr), "px_pow_$S($0, %s)", pl_emit_number(e, number));
    } else {
        snprintf(expr, sizeof(expr), "(float)px_pow_f64($0, %a)", e);
    }
    pl_ref base = pl_emit_in(c, 0);
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    if (c->out[0]->rank != c->in[0]->rank) base = pl_emit_reshape(c, base, c->out[0]->rank, dims);
    return pl_emit_out(c, 0, pl_emit_map1(c, in_dtype(c, 0), expr, base));
}

/* Both operands meet in float where both fit into it, else in double; integers in int64. */
pl_status pl_emit_pow(pl_emit *c) {
    const pl_dtype x = in_dtype(c, 0), y = in_dtype(c, 1);
    const pl_tensor *e = c->in_tensor[1];
    if (e != NULL && e->n_elements == 1 && pl_emit_is_float(x) &&
        pl_emit_elements(c->out[0]) == pl_emit_elements(c->in[0])) {
        return pow_number(c, pl_tensor_get_f64(e, 0));
    }
    const bool x_fits = pl_emit_compute(x) == PL_F32, y_fits = pl_emit_compute(y) == PL_F32;
    const char *expr = pl_dtype_is_integer(x) && pl_dtype_is_integer(y) ? "px_pow_i($0, $1)"
                       : x_fits && y_fits                               ? "px_pow_f32($0, $1)"
                                                                        : "px_pow_f64($0, $1)";
    /* One exponent for all is used in the type of the base. */
    if (pl_emit_is_float(x) && pl_emit_elements(c->in[1]) == 1 && !(x_fits && y_fits) &&
        x != PL_F64) {
        return pl_emit_decline(c, "one exponent of another type");
    }
    const pl_dtype to = pl_dtype_is_integer(x) && !pl_dtype_is_integer(y) ? PL_F64 : x;
    const pl_ref z = pl_emit_map2(c, to, expr, pl_emit_in(c, 0), second(c));
    return pl_emit_out(c, 0, to == x ? z : pl_emit_map1(c, x, "px_trunc_$S($0)", z));
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
    const bool floating = pl_emit_is_float(in_dtype(c, 0));
    return pl_emit_out(c, 0, fold_inputs(c, c->out[0]->dtype, floating ? floats : integers));
}
pl_status pl_emit_max(pl_emit *c) {
    return extreme(c, "px_max_$S($0, $1)", "$0 > $1 ? $0 : $1");
}
pl_status pl_emit_min(pl_emit *c) {
    return extreme(c, "px_min_$S($0, $1)", "$0 < $1 ? $0 : $1");
}
pl_status pl_emit_sum(pl_emit *c) {
    if (!pl_emit_is_float(in_dtype(c, 0))) return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, fold_inputs(c, pl_emit_compute(in_dtype(c, 0)), "$0 + $1"));
}
pl_status pl_emit_mean(pl_emit *c) {
    char number[64], expr[100];
    if (!pl_emit_is_float(in_dtype(c, 0))) return pl_emit_decline(c, "no expression for this type");
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
    if (pl_dtype_is_integer(to) && pl_emit_is_float(from)) expr = "px_trunc_$S($0)";
    if (to == PL_BOOL) expr = "$0 != 0";
    return pl_emit_out(c, 0, pl_emit_map1(c, to, expr, pl_emit_in(c, 0)));
}

/* BitCast-26: the same bits; halves have no C type of their own. */
pl_status pl_emit_bit_cast(pl_emit *c) {
    const pl_dtype from = in_dtype(c, 0), to = c->out[0]->dtype;
    const pl_dtype odd[] = { PL_F16, PL_BF16, PL_BOOL };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (from == odd[i] || to == odd[i]) return pl_emit_decline(c, "bits of a half or a bool");
    if (pl_dtype_bytes(from) != pl_dtype_bytes(to)) return pl_emit_decline(c, "another size");
    return pl_emit_out(c, 0,
                       pl_emit_map1(c, to, "({ $T r; __builtin_memcpy(&r, &$0, sizeof(r)); r; })",
                                    pl_emit_in(c, 0)));
}
