/* Rules named in the rows of conv_special.c and defined in the files beside it. */
#ifndef PL_CONV_SPECIAL_RULES_H
#define PL_CONV_SPECIAL_RULES_H

#include "ops/op.h"

/* conv_special_grad.c */
pl_status pl_causal_conv_grad(pl_grad *c);
pl_status pl_col2im_grad(pl_grad *c);
pl_status pl_deform_conv_grad(pl_grad *c);

#endif
