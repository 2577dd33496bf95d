/* Changing graphs: dead code, cutting, copying, hashing. Each is linear in nodes and edges. */
#ifndef PL_EDIT_H
#define PL_EDIT_H

#include "base/hash.h"
#include "graph/graph.h"

/* Removes nodes whose outputs nothing needs, then initializers without a use. Inputs stay. */
pl_status pl_graph_remove_dead(pl_graph *graph, size_t *n_removed, pl_err *err);
/* Every use of `from` (bodies and graph outputs too) becomes `to`. */
pl_status pl_graph_replace_uses(pl_graph *graph, pl_value *from, pl_value *to, pl_err *err);
/* Removes the nodes for which drop[index] is true; the caller has redirected their uses. */
pl_status pl_graph_remove_nodes(pl_graph *graph, const bool *drop, pl_err *err);
/* Renames values of bodies that have the name of a value in an enclosing graph, which ONNX
 * forbids. */
pl_status pl_graph_unshadow(pl_graph *graph, pl_err *err);
/* Raises the IR version to at least 4. Before 4 every initializer was listed as an input as well
 * and was a constant: those inputs are removed. */
void pl_model_raise_ir(pl_model *model);
/* A deep copy that shares tensors. */
pl_status pl_model_copy(const pl_model *model, pl_model **out, pl_err *err);
/* Appends copies of the nodes of `from` to `to`, a graph of the same model in the same scope:
 * inlines a body. map (by id, model->n_values entries) gives the replacement of a value, such as
 * the inputs of `from`; other values of `from` get copies called prefix/name, which are added to
 * it. */
pl_status pl_graph_copy_into(const pl_graph *from, pl_graph *to, const char *prefix, pl_value **map,
                             pl_err *err);
/* Appends to the main graph of `to` copies of the nodes of `from` that compute the wanted values
 * (by id in `from`), back to values that have a replacement in map (by id in `from`); weights are
 * included. Copies get fresh names and are added to map. A node with a body is PL_E_UNSUPPORTED.
 * The caller sorts and resolves. */
pl_status pl_graph_graft(const pl_model *from, pl_model *to, const bool *wanted, pl_value **map,
                         pl_err *err);
/* A new model: the nodes between `from` (become inputs) and `to` (become outputs). Either list may
 * be empty: then the model's own inputs or outputs. Unknown names are an error. If a `to` still
 * needs a model input that `from` does not cut off, the model keeps that input. Tensors are
 * shared. */
pl_status pl_model_cut(const pl_model *model, const char *const *from, size_t n_from,
                       const char *const *to, size_t n_to, pl_model **out, pl_err *err);
/* Depends on ops, attributes, edges, types of inputs and the bytes of weights; not on names of
 * values or nodes, on doc strings, or on the order of independent nodes. */
pl_status pl_model_hash(const pl_model *model, pl_hash128 *out, pl_err *err);
/* The same with another hash function for tensors, such as a cached one for large weights. */
typedef pl_status (*pl_tensor_hash_fn)(void *ctx, pl_tensor *tensor, pl_hash128 *out, pl_err *err);
pl_status pl_model_hash_by(const pl_model *model, pl_tensor_hash_fn fn, void *ctx, pl_hash128 *out,
                           pl_err *err);

#endif
