/* Rules named in the rows of batch_norm.c and defined in the files beside it. */
#ifndef PL_BATCH_NORM_RULES_H
#define PL_BATCH_NORM_RULES_H

#include "ops/op.h"

/* batch_norm_emit.c */
pl_status pl_emit_batch_norm(pl_emit *c);

/* batch_norm_grad.c */
pl_status pl_batch_norm_grad(pl_grad *c);

#endif
