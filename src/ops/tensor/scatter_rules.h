/* Rules named in the rows of scatter.c and defined in the files beside it. */
#ifndef PL_SCATTER_RULES_H
#define PL_SCATTER_RULES_H

#include "ops/op.h"

/* scatter_emit.c */
pl_status pl_emit_tensor_scatter(pl_emit *c);

/* scatter_grad.c */
pl_status pl_grad_scatter_elements(pl_grad *c);
pl_status pl_grad_scatter_nd(pl_grad *c);
pl_status pl_grad_tensor_scatter(pl_grad *c);

#endif
