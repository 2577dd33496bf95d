/* Rules named in the rows of unary.c and defined in the files beside it. */
#ifndef PL_UNARY_RULES_H
#define PL_UNARY_RULES_H

#include "ops/op.h"

/* unary_emit.c */
pl_status pl_emit_abs(pl_emit *c);
pl_status pl_emit_acos(pl_emit *c);
pl_status pl_emit_acosh(pl_emit *c);
pl_status pl_emit_asin(pl_emit *c);
pl_status pl_emit_asinh(pl_emit *c);
pl_status pl_emit_atan(pl_emit *c);
pl_status pl_emit_atanh(pl_emit *c);
pl_status pl_emit_bitwise_not(pl_emit *c);
pl_status pl_emit_ceil(pl_emit *c);
pl_status pl_emit_cos(pl_emit *c);
pl_status pl_emit_cosh(pl_emit *c);
pl_status pl_emit_erf(pl_emit *c);
pl_status pl_emit_exp(pl_emit *c);
pl_status pl_emit_floor(pl_emit *c);
pl_status pl_emit_is_inf(pl_emit *c);
pl_status pl_emit_is_nan(pl_emit *c);
pl_status pl_emit_log(pl_emit *c);
pl_status pl_emit_neg(pl_emit *c);
pl_status pl_emit_not(pl_emit *c);
pl_status pl_emit_reciprocal(pl_emit *c);
pl_status pl_emit_round(pl_emit *c);
pl_status pl_emit_sign(pl_emit *c);
pl_status pl_emit_sin(pl_emit *c);
pl_status pl_emit_sinh(pl_emit *c);
pl_status pl_emit_sqrt(pl_emit *c);
pl_status pl_emit_tan(pl_emit *c);
pl_status pl_emit_tanh(pl_emit *c);

#endif
