/* Rules named in the rows of matmul_nbits.c and defined in the files beside it. */
#ifndef PL_MATMUL_NBITS_RULES_H
#define PL_MATMUL_NBITS_RULES_H

#include "ops/op.h"

/* matmul_nbits_grad.c */
pl_status pl_grad_matmul_nbits(pl_grad *c);

#endif
