/* Emission of arithmetic with two or more inputs. Semantics: the kernels in binary.c. */
#include <math.h>
#include <stdio.h>

#include "ops/emit.h"
#include "ops/math/binary_rules.h"

#define BINARY(name, floats, integers)                                                             \
    pl_status pl_emit_##name(pl_emit *c) {                                                         \
        return pl_emit_binary(c, floats, integers);                                                \
    }

BINARY(add, "$0 + $1", "(uint64_t)$0 + (uint64_t)$1")
BINARY(sub, "$0 - $1", "(uint64_t)$0 - (uint64_t)$1")
BINARY(mul, "$0 * $1", "(uint64_t)$0 * (uint64_t)$1")

/* PRelu-1 and -6: a slope of one dim is per channel. */
pl_status pl_emit_prelu(pl_emit *c) {
    const pl_dtype dtype = c->in[0]->dtype;
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

/* Mod-10: floats with fmod=0 as well, since models have them. */
pl_status pl_emit_mod(pl_emit *c) {
    const bool as_c = pl_attr_int(c->node, "fmod") != 0;
    const bool is_unsigned = pl_dtype_class_of(c->in[0]->dtype) == PL_CLASS_UINT;
    return pl_emit_binary(c, as_c ? "px_mod_$S($0, $1)" : "px_modulo($0, $1)",
                          is_unsigned ? "px_mod_u($0, $1)"
                          : as_c      ? "px_rem_i($0, $1)"
                                      : "px_mod_i($0, $1)");
}

pl_status pl_emit_bit_shift(pl_emit *c) {
    return pl_emit_binary(c, NULL,
                          pl_attr_string_is(c->node, "direction", "LEFT")
                              ? "(uint64_t)$1 > 63 ? 0 : (uint64_t)$0 << $1"
                              : "(uint64_t)$1 > 63 ? 0 : (uint64_t)$0 >> $1");
}

pl_status pl_emit_div(pl_emit *c) {
    const bool is_unsigned = pl_dtype_class_of(c->in[0]->dtype) == PL_CLASS_UINT;
    return pl_emit_binary(c, "$0 / $1", is_unsigned ? "px_div_u($0, $1)" : "px_div_i($0, $1)");
}

/* A constant exponent: squares and roots as in the kernel. */
static pl_status pow_number(pl_emit *c, double e) {
    char number[64], expr[200];
    const bool in_double = c->in[0]->dtype == PL_F64;
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
    return pl_emit_out(c, 0, pl_emit_map1(c, c->in[0]->dtype, expr, base));
}

/* Operands are converted to float if both fit into it, else to double; integers to int64. */
pl_status pl_emit_pow(pl_emit *c) {
    const pl_dtype x = c->in[0]->dtype, y = c->in[1]->dtype;
    const pl_tensor *e = c->in_tensor[1];
    if (e != NULL && e->n_elements == 1 && pl_emit_is_float(x) &&
        pl_emit_elements(c->out[0]) == pl_emit_elements(c->in[0])) {
        return pow_number(c, pl_tensor_get_f64(e, 0));
    }
    const bool x_fits = pl_emit_compute(x) == PL_F32, y_fits = pl_emit_compute(y) == PL_F32;
    const char *expr = pl_dtype_is_integer(x) && pl_dtype_is_integer(y) ? "px_pow_i($0, $1)"
                       : x_fits && y_fits                               ? "px_pow_f32($0, $1)"
                                                                        : "px_pow_f64($0, $1)";
    /* The kernel converts a single exponent to the type of the base. */
    if (pl_emit_is_float(x) && pl_emit_elements(c->in[1]) == 1 && !(x_fits && y_fits) &&
        x != PL_F64) {
        return pl_emit_decline(c, "one exponent of another type");
    }
    const pl_dtype to = pl_dtype_is_integer(x) && !pl_dtype_is_integer(y) ? PL_F64 : x;
    const pl_ref z = pl_emit_map2(c, to, expr, pl_emit_in(c, 0), pl_emit_second(c));
    return pl_emit_out(c, 0, to == x ? z : pl_emit_map1(c, x, "px_trunc_$S($0)", z));
}

/* ---- any number of inputs ---- */

/* Partial results have type dtype: the compute type where the kernel rounds once, else the
 * output's. */
static pl_ref fold_inputs(pl_emit *c, pl_dtype dtype, const char *expr) {
    pl_ref sum = pl_emit_in(c, 0);
    for (int i = 1; i < c->n_in; i++)
        sum = pl_emit_map2(c, dtype, expr, sum, pl_emit_in(c, i));
    return sum;
}
static pl_status extreme(pl_emit *c, const char *floats, const char *integers) {
    const bool floating = pl_emit_is_float(c->in[0]->dtype);
    return pl_emit_out(c, 0, fold_inputs(c, c->out[0]->dtype, floating ? floats : integers));
}
pl_status pl_emit_max(pl_emit *c) {
    return extreme(c, "px_max_$S($0, $1)", "$0 > $1 ? $0 : $1");
}
pl_status pl_emit_min(pl_emit *c) {
    return extreme(c, "px_min_$S($0, $1)", "$0 < $1 ? $0 : $1");
}
pl_status pl_emit_sum(pl_emit *c) {
    if (!pl_emit_is_float(c->in[0]->dtype))
        return pl_emit_decline(c, "no expression for this type");
    return pl_emit_out(c, 0, fold_inputs(c, pl_emit_compute(c->in[0]->dtype), "$0 + $1"));
}
pl_status pl_emit_mean(pl_emit *c) {
    char number[64], expr[100];
    if (!pl_emit_is_float(c->in[0]->dtype))
        return pl_emit_decline(c, "no expression for this type");
    const pl_dtype wide = pl_emit_compute(c->in[0]->dtype);
    const pl_ref sum = fold_inputs(c, wide, "$0 + $1");
    snprintf(expr, sizeof(expr), "$0 / %s", pl_emit_number(c->n_in, number));
    return pl_emit_out(c, 0, c->n_in > 1 ? pl_emit_map1(c, wide, expr, sum) : sum);
}
