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
