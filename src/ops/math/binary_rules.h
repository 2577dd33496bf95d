/* Rules named in the rows of binary.c and defined in the files beside it. */
#ifndef PL_BINARY_RULES_H
#define PL_BINARY_RULES_H

#include "ops/op.h"

/* binary_bound.c */
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

/* binary_emit.c */
pl_status pl_emit_add(pl_emit *c);
pl_status pl_emit_bit_shift(pl_emit *c);
pl_status pl_emit_div(pl_emit *c);
pl_status pl_emit_max(pl_emit *c);
pl_status pl_emit_mean(pl_emit *c);
pl_status pl_emit_min(pl_emit *c);
pl_status pl_emit_mod(pl_emit *c);
pl_status pl_emit_mul(pl_emit *c);
pl_status pl_emit_pow(pl_emit *c);
pl_status pl_emit_prelu(pl_emit *c);
pl_status pl_emit_sub(pl_emit *c);
pl_status pl_emit_sum(pl_emit *c);

/* binary_grad.c */
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
