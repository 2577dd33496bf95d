/* Private to src/passes: shared by the parts of the backward pass. */
#ifndef PL_PASS_INT_H
#define PL_PASS_INT_H

#include "graph/graph.h"

/* Calls fn for the node's inputs and for every value of enclosing graphs that its bodies read. */
typedef void (*pl_use_fn)(void *ctx, pl_value *value);
void pl_node_each_use(const pl_node *node, pl_use_fn fn, void *ctx);
/* depends[id] = the value depends on a marked one through values that can carry a gradient. The
 * caller has marked the values to start from; branches of If are included. */
void pl_mark_dependents(const pl_graph *graph, bool *depends);
bool pl_node_depends(const pl_node *node, const bool *depends);
bool pl_carries_gradient(const pl_value *value); /* float, or not known */

/* Replaces every Loop, Scan and FlexAttention that depends on one of xs by copies of its bodies,
 * also in branches of If, after folding constants. A trip count or condition that is not constant
 * is PL_E_UNSUPPORTED. Sequences are replaced by their tensors. Types are inferred again when
 * something changed. */
pl_status pl_unroll_loops(pl_model *model, pl_value *const *xs, size_t n_xs, pl_err *err);

/* Upgrades a model of ai.onnx opset 7 or 8 to opset 9; others are unchanged. */
pl_status pl_raise_opset(pl_model *model, pl_err *err);

/* Replaces a FlexAttention by simple operators and copies of its bodies. */
pl_status pl_spell_flex(pl_graph *graph, pl_node *node, pl_err *err);

/* SequenceAt and ConcatFromSequence of sequences whose items are known become Identity and Concat;
 * SequenceMap over them becomes copies of its body. */
pl_status pl_take_sequences_apart(pl_graph *graph, bool *changed, pl_err *err);

/* The constant tensor of a value: an initializer, or that of a Constant node; else NULL. */
pl_tensor *pl_pass_constant(const pl_value *value);
/* A node with one output, called `base` or base_N. */
pl_status pl_pass_op(pl_graph *graph, const char *op, pl_value *const *in, size_t n_in,
                     const char *base, pl_node **node, pl_value **out, pl_err *err);
pl_status pl_pass_set_ints(pl_node *node, const char *name, const int64_t *v, size_t n,
                           pl_err *err);
/* Squeeze or Unsqueeze of one axis, an input or attribute depending on the opset. */
pl_status pl_pass_axis(pl_graph *graph, const char *op, pl_value *x, int64_t axis, const char *base,
                       pl_value **out, pl_err *err);
/* A constant of any integer type: rank 0 (n = 1) or 1. */
pl_status pl_pass_ints(pl_graph *graph, pl_dtype dtype, bool scalar, const int64_t *v, size_t n,
                       const char *base, pl_value **out, pl_err *err);
/* Zeros of the shape and type of x. */
pl_status pl_pass_zeros_like(pl_graph *graph, pl_value *x, double value, const char *base,
                             pl_value **out, pl_err *err);

#endif
