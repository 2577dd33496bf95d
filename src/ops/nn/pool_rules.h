/* Rules named in the rows of pool.c and defined in the files beside it. */
#ifndef PL_POOL_RULES_H
#define PL_POOL_RULES_H

#include "ops/op.h"

/* pool_emit.c */
pl_status pl_emit_average_pool(pl_emit *c);
pl_status pl_emit_global_average_pool(pl_emit *c);
pl_status pl_emit_global_lp_pool(pl_emit *c);
pl_status pl_emit_global_max_pool(pl_emit *c);
pl_status pl_emit_lp_pool(pl_emit *c);
pl_status pl_emit_max_pool(pl_emit *c);

/* pool_grad.c */
pl_status pl_average_pool_grad(pl_grad *c);
pl_status pl_global_average_grad(pl_grad *c);
pl_status pl_global_lp_grad(pl_grad *c);
pl_status pl_global_max_grad(pl_grad *c);
pl_status pl_lp_pool_grad(pl_grad *c);
pl_status pl_max_pool_grad(pl_grad *c);
pl_status pl_max_unpool_grad(pl_grad *c);

#endif
