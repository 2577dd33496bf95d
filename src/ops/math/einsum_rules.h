/* Rules named in the rows of einsum.c and defined in the files beside it. */
#ifndef PL_EINSUM_RULES_H
#define PL_EINSUM_RULES_H

#include "ops/op.h"

/* einsum_emit.c */
pl_status pl_emit_einsum(pl_emit *c);

#endif
