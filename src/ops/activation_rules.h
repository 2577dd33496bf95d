/* Error bounds and gradients of the activation functions; the kernels are in op_activation.c, and
 * here where other rows have them, too. */
#ifndef PL_ACTIVATION_RULES_H
#define PL_ACTIVATION_RULES_H

#include "ops/op.h"

pl_status pl_swish_eval(pl_eval *c); /* com.microsoft QuickGelu */

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
