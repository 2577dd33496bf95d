/* A graph without its weights as JSON, for a recording: ops, edges, attributes, hashes of weights.
 * docs/formats/recording.md has the fields. */
#ifndef PL_GRAPH_JSON_H
#define PL_GRAPH_JSON_H

#include "base/buf.h"
#include "graph/graph.h"

pl_status pl_graph_json(const pl_model *model, pl_buf *out, pl_err *err);

#endif
