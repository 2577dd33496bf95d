/* Rules named in the rows of shape.c and defined in the files beside it. */
#ifndef PL_SHAPE_RULES_H
#define PL_SHAPE_RULES_H

#include "ops/op.h"

/* shape_emit.c */
pl_status pl_emit_expand_rule(pl_emit *c);
pl_status pl_emit_same_elements(pl_emit *c);
pl_status pl_emit_tile(pl_emit *c);

/* shape_grad.c */
pl_status pl_grad_expand(pl_grad *c);
pl_status pl_grad_tile(pl_grad *c);

#endif
