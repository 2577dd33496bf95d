/* Rules named in the rows of ms_padding.c and defined in the files beside it. */
#ifndef PL_MS_PADDING_RULES_H
#define PL_MS_PADDING_RULES_H

#include "ops/op.h"

/* ms_padding_grad.c */
pl_status pl_remove_padding_grad(pl_grad *c);
pl_status pl_restore_padding_grad(pl_grad *c);

#endif
