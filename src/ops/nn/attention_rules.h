/* Rules named in the rows of attention.c and defined in the files beside it. */
#ifndef PL_ATTENTION_RULES_H
#define PL_ATTENTION_RULES_H

#include "ops/op.h"

/* attention_emit.c */
pl_status pl_emit_attention(pl_emit *c);
pl_status pl_emit_rotary(pl_emit *c);

/* attention_grad.c */
pl_status pl_attention_grad(pl_grad *c);
pl_status pl_rotary_grad(pl_grad *c);

#endif
