/* Rules named in the rows of region.c and defined in the files beside it. */
#ifndef PL_REGION_RULES_H
#define PL_REGION_RULES_H

#include "ops/op.h"

/* region_grad.c */
pl_status pl_max_roi_pool_grad(pl_grad *c);

#endif
