/* Gradient rules: what a rule sees and what it sets.
 *
 * A rule stands beside its kernel. Given dL/d(output) as values of the graph, it appends the nodes
 * that compute dL/d(input) and says which value each is. It writes ONNX operators only, so that any
 * backend can run the result. Types of the node's inputs and outputs are known (inference has run);
 * where a rule needs a shape that is not known, it fails and names the value. */
#ifndef PL_GRAD_H
#define PL_GRAD_H

#include "ops/op.h"

struct pl_grad {
    pl_graph *graph; /* where new nodes go */
    const pl_node *node;
    pl_value *const *dy; /* per output; NULL = zero */
    pl_value **dx;       /* per input, to set; NULL = zero or not differentiable */
    const bool *wanted;  /* per input: somebody needs dx */
    pl_err *err;
};

/* Each appends one node and gives its output; the type of the result is that of `like`. */
pl_status pl_g_unary(pl_grad *c, const char *op, pl_value *x, pl_value **out);
pl_status pl_g_binary(pl_grad *c, const char *op, pl_value *x, pl_value *y, const pl_type *type,
                      pl_value **out);
/* Sums g (of the output's shape) over the axes along which x was broadcast. */
pl_status pl_g_unbroadcast(pl_grad *c, pl_value *g, const pl_type *g_type, const pl_value *x,
                           pl_value **out);
pl_status pl_g_ints(pl_grad *c, const int64_t *ints, size_t n, pl_value **out); /* a constant */

#endif
