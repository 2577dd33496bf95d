/* The emission rules, named in the rows of the operator table. They stand in emit_map.c,
 * emit_view.c, emit_fold.c and emit_heavy.c. */
#ifndef PL_EMIT_RULES_H
#define PL_EMIT_RULES_H

#include "ops/op.h"

/* ---- that several rows share (emit.c) ---- */
pl_status pl_emit_types_only(pl_emit *c); /* the outputs depend on types and shapes alone */
pl_status pl_emit_identity(pl_emit *c);

/* ---- of one operator ---- */
pl_status pl_emit_abs(pl_emit *c);
pl_status pl_emit_acos(pl_emit *c);
pl_status pl_emit_acosh(pl_emit *c);
pl_status pl_emit_add(pl_emit *c);
pl_status pl_emit_and(pl_emit *c);
pl_status pl_emit_asin(pl_emit *c);
pl_status pl_emit_asinh(pl_emit *c);
pl_status pl_emit_atan(pl_emit *c);
pl_status pl_emit_atanh(pl_emit *c);
pl_status pl_emit_batch_norm(pl_emit *c);
pl_status pl_emit_bit_and(pl_emit *c);
pl_status pl_emit_bit_or(pl_emit *c);
pl_status pl_emit_bit_xor(pl_emit *c);
pl_status pl_emit_bitwise_not(pl_emit *c);
pl_status pl_emit_cast(pl_emit *c);
pl_status pl_emit_ceil(pl_emit *c);
pl_status pl_emit_celu(pl_emit *c);
pl_status pl_emit_clip(pl_emit *c);
pl_status pl_emit_concat_rule(pl_emit *c);
pl_status pl_emit_conv_rule(pl_emit *c);
pl_status pl_emit_cos(pl_emit *c);
pl_status pl_emit_cosh(pl_emit *c);
pl_status pl_emit_div(pl_emit *c);
pl_status pl_emit_dropout(pl_emit *c);
pl_status pl_emit_elu(pl_emit *c);
pl_status pl_emit_equal(pl_emit *c);
pl_status pl_emit_erf(pl_emit *c);
pl_status pl_emit_exp(pl_emit *c);
pl_status pl_emit_expand_rule(pl_emit *c);
pl_status pl_emit_floor(pl_emit *c);
pl_status pl_emit_gelu(pl_emit *c);
pl_status pl_emit_gemm_rule(pl_emit *c);
pl_status pl_emit_global_average_pool(pl_emit *c);
pl_status pl_emit_global_max_pool(pl_emit *c);
pl_status pl_emit_greater(pl_emit *c);
pl_status pl_emit_greater_equal(pl_emit *c);
pl_status pl_emit_hard_sigmoid(pl_emit *c);
pl_status pl_emit_hard_swish(pl_emit *c);
pl_status pl_emit_instance_norm(pl_emit *c);
pl_status pl_emit_is_inf(pl_emit *c);
pl_status pl_emit_is_nan(pl_emit *c);
pl_status pl_emit_layer_norm(pl_emit *c);
pl_status pl_emit_leaky_relu(pl_emit *c);
pl_status pl_emit_less(pl_emit *c);
pl_status pl_emit_less_equal(pl_emit *c);
pl_status pl_emit_log(pl_emit *c);
pl_status pl_emit_log_softmax(pl_emit *c);
pl_status pl_emit_matmul(pl_emit *c);
pl_status pl_emit_max(pl_emit *c);
pl_status pl_emit_mean(pl_emit *c);
pl_status pl_emit_min(pl_emit *c);
pl_status pl_emit_mish(pl_emit *c);
pl_status pl_emit_mul(pl_emit *c);
pl_status pl_emit_neg(pl_emit *c);
pl_status pl_emit_not(pl_emit *c);
pl_status pl_emit_or(pl_emit *c);
pl_status pl_emit_pow(pl_emit *c);
pl_status pl_emit_prelu(pl_emit *c);
pl_status pl_emit_reciprocal(pl_emit *c);
pl_status pl_emit_reduce_l1(pl_emit *c);
pl_status pl_emit_reduce_max(pl_emit *c);
pl_status pl_emit_reduce_mean(pl_emit *c);
pl_status pl_emit_reduce_min(pl_emit *c);
pl_status pl_emit_reduce_sum(pl_emit *c);
pl_status pl_emit_relu(pl_emit *c);
pl_status pl_emit_rms_norm(pl_emit *c);
pl_status pl_emit_round(pl_emit *c);
pl_status pl_emit_same_elements(pl_emit *c);
pl_status pl_emit_selu(pl_emit *c);
pl_status pl_emit_sigmoid(pl_emit *c);
pl_status pl_emit_sign(pl_emit *c);
pl_status pl_emit_sin(pl_emit *c);
pl_status pl_emit_sinh(pl_emit *c);
pl_status pl_emit_slice_rule(pl_emit *c);
pl_status pl_emit_softmax(pl_emit *c);
pl_status pl_emit_softplus(pl_emit *c);
pl_status pl_emit_softsign(pl_emit *c);
pl_status pl_emit_split_rule(pl_emit *c);
pl_status pl_emit_sqrt(pl_emit *c);
pl_status pl_emit_sub(pl_emit *c);
pl_status pl_emit_sum(pl_emit *c);
pl_status pl_emit_swish(pl_emit *c);
pl_status pl_emit_tan(pl_emit *c);
pl_status pl_emit_tanh(pl_emit *c);
pl_status pl_emit_thresholded_relu(pl_emit *c);
pl_status pl_emit_transpose_rule(pl_emit *c);
pl_status pl_emit_where(pl_emit *c);
pl_status pl_emit_xor(pl_emit *c);

#endif
