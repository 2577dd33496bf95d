/* Rules named in the rows of convolve.c and defined in the files beside it. */
#ifndef PL_CONVOLVE_RULES_H
#define PL_CONVOLVE_RULES_H

#include "ops/op.h"

/* convolve_emit.c */
pl_status pl_emit_conv_rule(pl_emit *c);
pl_status pl_emit_conv_transpose(pl_emit *c);
pl_status pl_emit_fused_conv(pl_emit *c);

/* convolve_grad.c */
pl_status pl_conv_grad(pl_grad *c);
pl_status pl_conv_transpose_grad(pl_grad *c);
pl_status pl_fused_conv_grad(pl_grad *c);
pl_status pl_nhwc_conv_grad(pl_grad *c);

/* convolve_transpose.c */
pl_status pl_conv_transpose_infer(pl_infer *c);
pl_status pl_conv_transpose_eval(pl_eval *c);

#endif
