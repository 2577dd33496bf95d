/* Rules named in the rows of integer_conv.c and defined in the files beside it. */
#ifndef PL_INTEGER_CONV_RULES_H
#define PL_INTEGER_CONV_RULES_H

#include "ops/op.h"

/* integer_conv_bound.c */
pl_status pl_conv_integer_bound(pl_bound *c);
pl_status pl_qlinear_conv_bound(pl_bound *c);

/* integer_conv_emit.c */
pl_status pl_emit_conv_integer(pl_emit *c);
pl_status pl_emit_qlinear_conv(pl_emit *c);

#endif
