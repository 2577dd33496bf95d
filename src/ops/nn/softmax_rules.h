/* Rules named in the rows of softmax.c and defined in the files beside it. */
#ifndef PL_SOFTMAX_RULES_H
#define PL_SOFTMAX_RULES_H

#include "ops/op.h"

/* softmax_emit.c */
pl_status pl_emit_hardmax(pl_emit *c);
pl_status pl_emit_log_softmax(pl_emit *c);
pl_status pl_emit_softmax(pl_emit *c);

#endif
