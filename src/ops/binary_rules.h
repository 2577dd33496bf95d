/* Error bounds and gradients of arithmetic; the kernels are in op_binary.c. */
#ifndef PL_BINARY_RULES_H
#define PL_BINARY_RULES_H

#include "ops/op.h"

pl_status pl_add_bound(pl_bound *c); /* Sub as well */
pl_status pl_bits_bound(pl_bound *c);
pl_status pl_div_bound(pl_bound *c);
pl_status pl_extreme_bound(pl_bound *c); /* Max, Min */
pl_status pl_mean_bound(pl_bound *c);
pl_status pl_mod_bound(pl_bound *c);
pl_status pl_mul_bound(pl_bound *c);
pl_status pl_pow_bound(pl_bound *c);
pl_status pl_prelu_bound(pl_bound *c);
pl_status pl_sum_bound(pl_bound *c);

pl_status pl_add_grad(pl_grad *c);
pl_status pl_div_grad(pl_grad *c);
pl_status pl_extreme_grad(pl_grad *c);
pl_status pl_mean_grad(pl_grad *c);
pl_status pl_mod_grad(pl_grad *c);
pl_status pl_mul_grad(pl_grad *c);
pl_status pl_pow_grad(pl_grad *c);
pl_status pl_prelu_grad(pl_grad *c);
pl_status pl_sub_grad(pl_grad *c);
pl_status pl_sum_grad(pl_grad *c);

#endif
