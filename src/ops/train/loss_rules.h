/* Rules named in the rows of loss.c and defined in the files beside it. */
#ifndef PL_LOSS_RULES_H
#define PL_LOSS_RULES_H

#include "ops/op.h"

/* loss_emit.c */
pl_status pl_emit_cross_entropy(pl_emit *c);
pl_status pl_emit_nll_loss(pl_emit *c);

#endif
