/* Private to src/ops: calls a shape rule with the checks that apply to every operator. */
#ifndef PL_INFER_INT_H
#define PL_INFER_INT_H

#include "ops/infer.h"

/* Checks types against the row's ports, then calls the rule. */
pl_status pl_infer_call(pl_infer *c);

#endif
