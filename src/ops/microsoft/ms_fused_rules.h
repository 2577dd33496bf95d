/* Rules named in the rows of ms_fused.c and defined in the files beside it. */
#ifndef PL_MS_FUSED_RULES_H
#define PL_MS_FUSED_RULES_H

#include "ops/op.h"

/* ms_dropout.c */
pl_status pl_ms_bias_dropout_infer(pl_infer *c);
pl_status pl_ms_bias_dropout_eval(pl_eval *c); /* BiasDropout, BitmaskBiasDropout */
pl_status pl_ms_bitmask_bias_dropout_infer(pl_infer *c);
pl_status pl_ms_bitmask_dropout_infer(pl_infer *c);
pl_status pl_ms_bitmask_dropout_eval(pl_eval *c);

/* ms_fused_bound.c */
pl_status pl_ms_bias_add_bound(pl_bound *c);
pl_status pl_ms_bias_dropout_bound(pl_bound *c);
pl_status pl_ms_bitmask_dropout_bound(pl_bound *c);
pl_status pl_ms_bias_softmax_bound(pl_bound *c);
pl_status pl_ms_bias_split_gelu_bound(pl_bound *c);
pl_status pl_ms_embed_bound(pl_bound *c);
pl_status pl_ms_fast_gelu_bound(pl_bound *c);
pl_status pl_ms_gelu_bound(pl_bound *c); /* Gelu, BiasGelu */
pl_status pl_ms_gemm_fast_gelu_bound(pl_bound *c);
pl_status pl_ms_group_norm_bound(pl_bound *c);
pl_status pl_ms_skip_group_norm_bound(pl_bound *c);
pl_status pl_ms_skip_layer_norm_bound(pl_bound *c);
pl_status pl_ms_skip_rms_norm_bound(pl_bound *c);

/* ms_fused_emit.c */
pl_status pl_emit_bias_add(pl_emit *c);
pl_status pl_emit_bias_dropout(pl_emit *c);
pl_status pl_emit_bitmask_dropout(pl_emit *c);
pl_status pl_emit_bias_gelu(pl_emit *c);
pl_status pl_emit_bias_softmax(pl_emit *c);
pl_status pl_emit_bias_split_gelu(pl_emit *c);
pl_status pl_emit_fast_gelu(pl_emit *c);
pl_status pl_emit_gemm_fast_gelu(pl_emit *c);
pl_status pl_emit_ms_group_norm(pl_emit *c);
pl_status pl_emit_ms_skip_group_norm(pl_emit *c);
pl_status pl_emit_skip_layer_norm(pl_emit *c);
pl_status pl_emit_skip_rms_norm(pl_emit *c);

/* ms_fused_grad.c */
pl_status pl_ms_bias_add_grad(pl_grad *c);
pl_status pl_ms_bias_dropout_grad(pl_grad *c);
pl_status pl_ms_bitmask_dropout_grad(pl_grad *c);
pl_status pl_ms_bias_softmax_grad(pl_grad *c);
pl_status pl_ms_bias_split_gelu_grad(pl_grad *c);
pl_status pl_ms_embed_grad(pl_grad *c);
pl_status pl_ms_fast_gelu_grad(pl_grad *c);
pl_status pl_ms_gelu_grad(pl_grad *c);
pl_status pl_ms_gemm_fast_gelu_grad(pl_grad *c);
pl_status pl_ms_group_norm_grad(pl_grad *c);
pl_status pl_ms_skip_group_norm_grad(pl_grad *c);
pl_status pl_ms_skip_layer_norm_grad(pl_grad *c);
pl_status pl_ms_skip_rms_norm_grad(pl_grad *c);

#endif
