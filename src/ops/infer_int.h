/* Inside src/ops only: calling a rule with the checks that belong to every operator. */
#ifndef PL_INFER_INT_H
#define PL_INFER_INT_H

#include "ops/infer.h"

/* Types against the row's ports, then the rule. */
pl_status pl_infer_call(pl_infer *c);

#endif
