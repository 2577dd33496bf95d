/* What a model must satisfy to be written to a file, text or ONNX: opset imports that agree, and
 * captured values that can be found by name. And what both formats write about a graph. */
#ifndef PL_PORTABLE_H
#define PL_PORTABLE_H

#include "graph/graph.h"

/* Nodes carry their own opset version, because an inlined function may import another one than the
 * model. A file has one version for each domain: the one that all nodes agree on (domains without
 * nodes keep the model's). Nodes that disagree are PL_E_UNSUPPORTED, since any single import would
 * change what some of them compute. The array is in the arena. */
pl_status pl_model_collect_opsets(const pl_model *model, pl_arena *arena, pl_opset **out,
                                  size_t *n_out, pl_err *err);
/* Files know values only by name: a value that `graph` uses from an enclosing graph must not be
 * hidden by a nearer one of the same name (PL_E_INVALID). */
pl_status pl_graph_check_capture(const pl_graph *graph, const pl_value *value, pl_err *err);
/* Values with a value info: produced by nodes of the graph, of known type, and not inputs or
 * outputs of this graph. The caller frees *out with pl_free. */
pl_status pl_graph_list_typed(const pl_graph *graph, pl_value ***out, size_t *n_out, pl_err *err);

#endif
