/* Rules named in the rows of logical.c and defined in the files beside it. */
#ifndef PL_LOGICAL_RULES_H
#define PL_LOGICAL_RULES_H

#include "ops/op.h"

/* logical_emit.c */
pl_status pl_emit_and(pl_emit *c);
pl_status pl_emit_bit_and(pl_emit *c);
pl_status pl_emit_bit_or(pl_emit *c);
pl_status pl_emit_bit_xor(pl_emit *c);
pl_status pl_emit_equal(pl_emit *c);
pl_status pl_emit_greater(pl_emit *c);
pl_status pl_emit_greater_equal(pl_emit *c);
pl_status pl_emit_less(pl_emit *c);
pl_status pl_emit_less_equal(pl_emit *c);
pl_status pl_emit_or(pl_emit *c);
pl_status pl_emit_where(pl_emit *c);
pl_status pl_emit_xor(pl_emit *c);

#endif
