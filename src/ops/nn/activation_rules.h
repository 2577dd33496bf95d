/* Rules named in the rows of activation.c and defined in the files beside it. */
#ifndef PL_ACTIVATION_RULES_H
#define PL_ACTIVATION_RULES_H

#include "ops/op.h"

/* activation_bound.c */
pl_status pl_celu_bound(pl_bound *c);
pl_status pl_clip_bound(pl_bound *c);
pl_status pl_dropout_bound(pl_bound *c);
pl_status pl_elu_bound(pl_bound *c);
pl_status pl_gelu_bound(pl_bound *c);
pl_status pl_hard_sigmoid_bound(pl_bound *c);
pl_status pl_hard_swish_bound(pl_bound *c);
pl_status pl_leaky_relu_bound(pl_bound *c);
pl_status pl_mish_bound(pl_bound *c);
pl_status pl_relu_bound(pl_bound *c);
pl_status pl_selu_bound(pl_bound *c);
pl_status pl_shrink_bound(pl_bound *c);
pl_status pl_sigmoid_bound(pl_bound *c);
pl_status pl_softplus_bound(pl_bound *c);
pl_status pl_softsign_bound(pl_bound *c);
pl_status pl_swiglu_bound(pl_bound *c);
pl_status pl_swish_bound(pl_bound *c);
pl_status pl_thresholded_relu_bound(pl_bound *c);

/* activation_emit.c */
pl_status pl_emit_celu(pl_emit *c);
pl_status pl_emit_clip(pl_emit *c);
pl_status pl_emit_dropout(pl_emit *c);
pl_status pl_emit_elu(pl_emit *c);
pl_status pl_emit_gelu(pl_emit *c);
pl_status pl_emit_hard_sigmoid(pl_emit *c);
pl_status pl_emit_hard_swish(pl_emit *c);
pl_status pl_emit_leaky_relu(pl_emit *c);
pl_status pl_emit_mish(pl_emit *c);
pl_status pl_emit_relu(pl_emit *c);
pl_status pl_emit_selu(pl_emit *c);
pl_status pl_emit_shrink(pl_emit *c);
pl_status pl_emit_sigmoid(pl_emit *c);
pl_status pl_emit_softplus(pl_emit *c);
pl_status pl_emit_softsign(pl_emit *c);
pl_status pl_emit_swiglu(pl_emit *c);
pl_status pl_emit_swish(pl_emit *c);
pl_status pl_emit_thresholded_relu(pl_emit *c);

/* activation_grad.c */
pl_status pl_celu_grad(pl_grad *c);
pl_status pl_clip_grad(pl_grad *c);
pl_status pl_dropout_grad(pl_grad *c);
pl_status pl_elu_grad(pl_grad *c);
pl_status pl_gelu_grad(pl_grad *c);
pl_status pl_hard_sigmoid_grad(pl_grad *c);
pl_status pl_hard_swish_grad(pl_grad *c);
pl_status pl_leaky_relu_grad(pl_grad *c);
pl_status pl_mish_grad(pl_grad *c);
pl_status pl_relu_grad(pl_grad *c);
pl_status pl_selu_grad(pl_grad *c);
pl_status pl_shrink_grad(pl_grad *c);
pl_status pl_sigmoid_grad(pl_grad *c);
pl_status pl_softplus_grad(pl_grad *c);
pl_status pl_softsign_grad(pl_grad *c);
pl_status pl_swiglu_grad(pl_grad *c);
pl_status pl_swish_grad(pl_grad *c);
pl_status pl_thresholded_relu_grad(pl_grad *c);

#endif
