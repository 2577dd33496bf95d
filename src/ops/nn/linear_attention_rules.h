/* Rules named in the rows of linear_attention.c and defined in the files beside it. */
#ifndef PL_LINEAR_ATTENTION_RULES_H
#define PL_LINEAR_ATTENTION_RULES_H

#include "ops/op.h"

/* linear_attention_grad.c */
pl_status pl_linear_attention_grad(pl_grad *c);

#endif
