/* Rules named in the rows of integer_matmul.c and defined in the files beside it. */
#ifndef PL_INTEGER_MATMUL_RULES_H
#define PL_INTEGER_MATMUL_RULES_H

#include "ops/op.h"

/* integer_matmul_bound.c */
pl_status pl_matmul_integer_bound(pl_bound *c);
pl_status pl_qlinear_matmul_bound(pl_bound *c);

/* integer_matmul_emit.c */
pl_status pl_emit_matmul_integer(pl_emit *c);
pl_status pl_emit_qlinear_matmul(pl_emit *c);

#endif
