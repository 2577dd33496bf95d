/* The backward pass: gradients as nodes of the same graph. */
#ifndef PL_BACKWARD_H
#define PL_BACKWARD_H

#include "ops/infer.h"

/* Appends the nodes that compute dy/dx for each x. `dy` is the incoming gradient (NULL: ones of y's
 * shape). out[i] is NULL where y does not depend on xs[i]. Operators must be resolved and types
 * inferred. An operator without a gradient rule is PL_E_UNSUPPORTED and named. Linear in nodes.
 * If is differentiated branch by branch; Loop and Scan with a known trip count are unrolled. */
pl_status pl_backward(pl_graph *graph, pl_value *y, pl_value *dy, pl_value *const *xs, size_t n_xs,
                      pl_value **out, pl_err *err);
/* The same for the sum over several ys, each with its incoming gradient. In a body, xs may be
 * values of the graphs around it. */
pl_status pl_backward_sum(pl_graph *graph, pl_value *const *ys, pl_value *const *dys, size_t n_ys,
                          pl_value *const *xs, size_t n_xs, pl_value **out, pl_err *err);

/* Replaces every ai.onnx.preview.training.Gradient node of the main graph by the nodes that compute
 * it. A model without one is unchanged. */
pl_status pl_lower_gradient(pl_model *model, pl_err *err);

/* ---- models with gradients ---- */
typedef enum pl_backward_part {
    /* Inputs: those of the model, d_NAME for each float output, then the parameters (float
     * initializers, which stay as defaults). Outputs: those of the model, then d_NAME for each
     * float input and for each parameter that has a gradient. */
    PL_BACKWARD_JOINT,
    /* Inputs: those of the model, then the parameters. Outputs: those of the model, then what the
     * backward part needs. */
    PL_BACKWARD_FORWARD,
    /* Inputs: d_NAME for each float output, then what it needs of the forward part. Outputs: the
     * gradients, as in the joint graph. */
    PL_BACKWARD_BACKWARD
} pl_backward_part;
/* Returns a new model; the given one is unchanged. No float output, or no float input or parameter:
 * PL_E_UNSUPPORTED. `options` (may be NULL) gives sizes to symbolic dims: some rules need them.
 * Tensors are shared. */
pl_status pl_model_backward(const pl_model *model, pl_backward_part part,
                            const pl_infer_options *options, pl_model **out, pl_err *err);

#endif
