/* Rules named in the rows of index.c and defined in the files beside it. */
#ifndef PL_INDEX_RULES_H
#define PL_INDEX_RULES_H

#include "ops/op.h"

/* index_emit.c */
pl_status pl_emit_gather(pl_emit *c);
pl_status pl_emit_gather_elements(pl_emit *c);
pl_status pl_emit_gather_nd(pl_emit *c);
pl_status pl_emit_one_hot(pl_emit *c);

/* index_grad.c */
pl_status pl_grad_compress(pl_grad *c);
pl_status pl_grad_gather(pl_grad *c);
pl_status pl_grad_gather_elements(pl_grad *c);
pl_status pl_grad_gather_nd(pl_grad *c);
pl_status pl_grad_one_hot(pl_grad *c);

#endif
