/* Rules named in the rows of moe.c and defined in the files beside it. */
#ifndef PL_MOE_RULES_H
#define PL_MOE_RULES_H

#include "ops/op.h"

/* moe_infer.c */
pl_status pl_moe_infer(pl_infer *c);
pl_status pl_qmoe_infer(pl_infer *c);
/* moe_bound.c */
pl_status pl_moe_bound(pl_bound *c);

#endif
