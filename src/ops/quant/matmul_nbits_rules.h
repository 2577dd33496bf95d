/* Rules that the rows of matmul_nbits.c name and that stand in the files beside it. */
#ifndef PL_MATMUL_NBITS_RULES_H
#define PL_MATMUL_NBITS_RULES_H

#include "ops/op.h"

/* matmul_nbits_grad.c */
pl_status pl_grad_matmul_nbits(pl_grad *c);

#endif
