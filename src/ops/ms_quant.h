/* Quantised operators of ONNX Runtime (com.microsoft): what the rows in op_ms_quant.c point to. */
#ifndef PL_MS_QUANT_H
#define PL_MS_QUANT_H

#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/quant.h"

/* Scale and zero point of one tensor; a zero point that is left out is 0. */
typedef struct pl_qparam {
    double scale, zero;
} pl_qparam;
pl_qparam pl_qparam_of(const pl_eval *c, int i_scale, int i_zero);
/* The shape rule's side: both have one element, the zero point has the type of input `of`. */
pl_status pl_qparam_check(const pl_infer *c, int of, int i_scale, int i_zero);

/* y for every value of an 8-bit type: table[byte] = quantise(fn(dequantise(byte))). Entries have
 * the type `to`: 8 bits, or F64 for values that are not rounded (pl_eval.unrounded). */
typedef union pl_qtable {
    pl_u8 codes[256];
    pl_f64 steps[256];
} pl_qtable;
typedef double (*pl_qtable_fn)(double x, double p);
void pl_qtable_make(pl_dtype from, pl_qparam in, pl_dtype to, pl_qparam out, pl_qtable_fn fn,
                    double p, pl_qtable *table);
/* y[i] = table[x[i]] over n bytes of x, in parallel; y has the type `to`. */
void pl_qtable_apply(pl_pool *pool, const pl_qtable *table, pl_dtype to, const void *x, void *y,
                     int64_t n);

/* ---- ms_quant_matmul.c ---- */
pl_status pl_qgemm_infer(pl_infer *c);
pl_status pl_qgemm_eval(pl_eval *c);
pl_status pl_matmul_integer_to_float_infer(pl_infer *c);
pl_status pl_matmul_integer_to_float_eval(pl_eval *c);
pl_status pl_dynamic_quantize_matmul_infer(pl_infer *c);
pl_status pl_dynamic_quantize_matmul_eval(pl_eval *c);

/* ---- ms_quant_nbits.c ---- */
pl_status pl_matmul_nbits_infer(pl_infer *c);
pl_status pl_matmul_nbits_eval(pl_eval *c);

/* ---- ms_quant_pool.c ---- */
pl_status pl_qlinear_pool_infer(pl_infer *c);
pl_status pl_qlinear_average_pool_eval(pl_eval *c);
pl_status pl_nhwc_max_pool_infer(pl_infer *c);
pl_status pl_nhwc_max_pool_eval(pl_eval *c);
pl_status pl_qlinear_global_pool_infer(pl_infer *c);
pl_status pl_qlinear_global_pool_eval(pl_eval *c);
pl_status pl_qlinear_reduce_mean_infer(pl_infer *c);
pl_status pl_qlinear_reduce_mean_eval(pl_eval *c);

#endif
