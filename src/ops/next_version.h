/* How nodes of an old opset become nodes of the next one: what the column `next` of a row points
 * at. Most versions only took more types, and have no rule. */
#ifndef PL_NEXT_VERSION_H
#define PL_NEXT_VERSION_H

#include "ops/op.h"

/* The next version computes something different and cannot express this one. */
pl_status pl_next_never(pl_node *node, pl_err *err);
/* For rules: without this attribute. */
void pl_next_drop_attr(pl_node *node, const char *name);

/* Makes a resolved node one of opset `to`, version by version. Its row is then to be found again.
 */
pl_status pl_node_to_opset(pl_node *node, int to, pl_err *err);

#endif
