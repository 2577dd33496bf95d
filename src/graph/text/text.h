/* The ONNX text form (onnx/defs/parser.cc, printer.cc): printed and parsed, round trip. */
#ifndef PL_TEXT_H
#define PL_TEXT_H

#include "graph/graph.h"

/* Whole model. Weights longer than max_elements (0 = no limit) cannot be round-tripped in text and
 * are PL_E_LIMIT. Floats print so that they read back to the same bits. */
pl_status pl_model_print(const pl_model *model, int64_t max_elements, pl_buf *out, pl_err *err);
/* `name` is the name of the text in messages ("x.onnxtxt:12:5: expected ')', found 'y'"). Functions
 * in the text are inlined like those of a file. */
pl_status pl_model_parse(const char *text, size_t n_text, const char *name, pl_model **out,
                         pl_err *err);
/* Only a graph, `(float[2,3] x) => (y) { y = Relu(x) }`, as samples in the operator table are
 * written; opset is that of ai.onnx ("" domain); other domains used get version 1. */
pl_status pl_model_parse_graph(const char *text, int opset, pl_model **out, pl_err *err);

#endif
