/* Upgrades of nodes to the next version of their operator, by the rule in the column `next` of a
 * row. Most versions only added types and need no rule. */
#ifndef PL_NEXT_VERSION_H
#define PL_NEXT_VERSION_H

#include "ops/op.h"

/* The next version computes something different and cannot express this one. */
pl_status pl_next_never(pl_node *node, pl_err *err);
/* For rules: removes this attribute. */
void pl_next_drop_attr(pl_node *node, const char *name);

/* Upgrades a resolved node to opset `to`, version by version. The caller must resolve it again. */
pl_status pl_node_to_opset(pl_node *node, int to, pl_err *err);

#endif
