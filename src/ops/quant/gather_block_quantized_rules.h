/* Rules named in the row of gather_block_quantized.c and defined in the file beside it. */
#ifndef PL_GATHER_BLOCK_QUANTIZED_RULES_H
#define PL_GATHER_BLOCK_QUANTIZED_RULES_H

#include "ops/op.h"

/* gather_block_quantized_grad.c */
pl_status pl_grad_gather_block_quantized(pl_grad *c);

#endif
