/* Rules named in the rows of cast.c and defined in the files beside it. */
#ifndef PL_CAST_RULES_H
#define PL_CAST_RULES_H

#include "ops/op.h"

/* cast_emit.c */
pl_status pl_emit_bit_cast(pl_emit *c);
pl_status pl_emit_cast(pl_emit *c);

#endif
