/* Error bounds of ONNX Runtime's fused normalisations and Gelu kin (op_ms_fused.c). */
#ifndef PL_MS_FUSED_BOUND_H
#define PL_MS_FUSED_BOUND_H

#include "ops/bound.h"

pl_status pl_ms_bias_add_bound(pl_bound *c);
pl_status pl_ms_gelu_bound(pl_bound *c); /* Gelu, BiasGelu */
pl_status pl_ms_fast_gelu_bound(pl_bound *c);
pl_status pl_ms_bias_split_gelu_bound(pl_bound *c);
pl_status pl_ms_bias_softmax_bound(pl_bound *c);
pl_status pl_ms_embed_bound(pl_bound *c);
pl_status pl_ms_group_norm_bound(pl_bound *c);
pl_status pl_ms_skip_group_norm_bound(pl_bound *c);
pl_status pl_ms_skip_layer_norm_bound(pl_bound *c);
pl_status pl_ms_skip_rms_norm_bound(pl_bound *c);

#endif
