/* Rules named in the rows of optimizer.c and defined in the files beside it. */
#ifndef PL_OPTIMIZER_RULES_H
#define PL_OPTIMIZER_RULES_H

#include "ops/op.h"

/* optimizer_emit.c */
pl_status pl_emit_adagrad(pl_emit *c);
pl_status pl_emit_adam(pl_emit *c);
pl_status pl_emit_momentum(pl_emit *c);

#endif
