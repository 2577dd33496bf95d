/* The backward pass: gradients as nodes of the same graph. */
#ifndef PL_BACKWARD_H
#define PL_BACKWARD_H

#include "graph/graph.h"

/* Appends the nodes that compute dy/dx for each x. `dy` is the incoming gradient (NULL: ones of y's
 * shape). out[i] is NULL where y does not depend on xs[i]. Operators must be resolved and types
 * inferred. An operator without a gradient rule is PL_E_UNSUPPORTED and named. Linear in nodes. */
pl_status pl_backward(pl_graph *graph, pl_value *y, pl_value *dy, pl_value *const *xs, size_t n_xs,
                      pl_value **out, pl_err *err);

/* Replaces every ai.onnx.preview.training.Gradient node of the main graph by the nodes that compute
 * it. A model without one is left as it is. */
pl_status pl_lower_gradient(pl_model *model, pl_err *err);

#endif
