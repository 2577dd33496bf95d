/* Rules named in the rows of qlinear.c and defined in the files beside it. */
#ifndef PL_QLINEAR_RULES_H
#define PL_QLINEAR_RULES_H

#include "ops/op.h"

/* qlinear_bound.c */
pl_status pl_dynamic_quantize_matmul_bound(pl_bound *c);
pl_status pl_matmul_integer_to_float_bound(pl_bound *c);
pl_status pl_qgemm_bound(pl_bound *c);
pl_status pl_qlinear_add_bound(pl_bound *c);
pl_status pl_qlinear_concat_bound(pl_bound *c);
pl_status pl_qlinear_leaky_relu_bound(pl_bound *c);
pl_status pl_qlinear_mean_bound(pl_bound *c);
pl_status pl_qlinear_mul_bound(pl_bound *c);
pl_status pl_qlinear_sigmoid_bound(pl_bound *c);
pl_status pl_qlinear_softmax_bound(pl_bound *c);
pl_status pl_qlinear_where_bound(pl_bound *c);

/* qlinear_emit.c */
pl_status pl_emit_qlinear_add(pl_emit *c);
pl_status pl_emit_qlinear_concat(pl_emit *c);
pl_status pl_emit_qlinear_leaky_relu(pl_emit *c);
pl_status pl_emit_qlinear_mul(pl_emit *c);
pl_status pl_emit_qlinear_sigmoid(pl_emit *c);
pl_status pl_emit_qlinear_softmax(pl_emit *c);
pl_status pl_emit_qlinear_where(pl_emit *c);

/* qlinear_matmul.c */
pl_status pl_dynamic_quantize_matmul_infer(pl_infer *c);
pl_status pl_matmul_integer_to_float_infer(pl_infer *c);
pl_status pl_qgemm_infer(pl_infer *c);
pl_status pl_dynamic_quantize_matmul_eval(pl_eval *c);
pl_status pl_matmul_integer_to_float_eval(pl_eval *c);
pl_status pl_qgemm_eval(pl_eval *c);

/* qlinear_pool.c */
pl_status pl_nhwc_max_pool_infer(pl_infer *c);
pl_status pl_qlinear_global_pool_infer(pl_infer *c);
pl_status pl_qlinear_pool_infer(pl_infer *c);
pl_status pl_qlinear_reduce_mean_infer(pl_infer *c);
pl_status pl_nhwc_max_pool_eval(pl_eval *c);
pl_status pl_qlinear_average_pool_eval(pl_eval *c);
pl_status pl_qlinear_global_pool_eval(pl_eval *c);
pl_status pl_qlinear_reduce_mean_eval(pl_eval *c);

/* quant_loops.c */
pl_status pl_dequantize_infer(pl_infer *c);
pl_status pl_quantize_infer(pl_infer *c);
pl_status pl_dequantize_eval(pl_eval *c);
pl_status pl_quantize_eval(pl_eval *c);

#endif
