/* Rules named in the rows of resize.c and defined in the files beside it. */
#ifndef PL_RESIZE_RULES_H
#define PL_RESIZE_RULES_H

#include "ops/op.h"

/* resize_next.c */
pl_status pl_next_upsample(pl_node *node, pl_err *err);

#endif
