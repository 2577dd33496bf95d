/* Linear quantisation: q = saturate(round_half_even(x / scale) + zero), x = (q - zero) * scale. */
#ifndef PL_QUANT_LOOPS_H
#define PL_QUANT_LOOPS_H

#include "ops/eval.h"
#include "ops/infer.h"

/* Types that a tensor is quantised to. */
#define PL_T_QUANT                                                                                 \
    (PL_T(PL_I8) | PL_T(PL_U8) | PL_T(PL_I16) | PL_T(PL_U16) | PL_T_SMALL_INT | PL_T_FLOAT8 |      \
     PL_T(PL_F4E2M1))
#define PL_T_8BIT (PL_T(PL_I8) | PL_T(PL_U8))

typedef struct pl_quant_target {
    pl_dtype dtype;
    double scale, zero;
    bool saturate; /* float8 only */
} pl_quant_target;

static inline pl_quant_target pl_quant_target_of(pl_dtype dtype, double scale, double zero) {
    return (pl_quant_target){ dtype, scale, zero, true };
}

/* y[0..n) = round(x) + zero, saturated (NaN becomes the lowest integer); float targets: x + zero,
 * rounded. For target F64 (pl_eval.unrounded) x itself. x must already be divided by the scale. y
 * points to the first element to write. */
void pl_quant_store_f64(const pl_quant_target *t, const double *x, void *y, size_t n);

/* One row of accumulators: y[i] = saturate(round(acc[i] * multiplier) + zero), where multiplier =
 * s1 * s2[i * s2_step] / scale, in float or, for gold, in double. */
void pl_quant_row(const pl_quant_target *t, const pl_i32 *acc, double s1, const pl_f64 *s2,
                  int64_t s2_step, bool in_f64, void *y, size_t n);

/* ---- shape rules ---- */
/* Input i must have one element (when known). */
pl_status pl_quant_single(const pl_infer *c, int i);
/* Zero point `zero` must have the type of input i. */
pl_status pl_quant_same_type(const pl_infer *c, int i, int zero);

/* ---- QuantizeLinear and DequantizeLinear, for both domains ---- */

/* DynamicQuantizeLinear-11's parameters for the values of x: scale and zero point for uint8 (or
 * int8, com.microsoft), computed in float or, for F64, in double. */
pl_status pl_quant_dynamic(pl_eval *c, const pl_tensor *x, double *scale, double *zero);
/* Quantises all of x with one scale and zero point into y, which has the quantised type. */
void pl_quant_whole(pl_eval *c, const pl_tensor *x, pl_tensor *y, double scale, double zero);

#endif
