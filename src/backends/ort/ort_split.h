/* Values between a convolution and the Relu that ONNX Runtime computes with it.
 *
 * At its highest level ORT computes Relu while it stores the result of an NCHWc convolution. Relu
 * of a stored number is the same number, so the graph to be recorded may have the two as two nodes;
 * the caller proves that the outputs are bit-identical. */
#ifndef PL_ORT_SPLIT_H
#define PL_ORT_SPLIT_H

#include "backends/ort/ort_map.h"
#include "base/buf.h"

/* Writes `graph` with those nodes split to `onnx`, and the longer list of what there is to see:
 * each new value stands before the one it was split from. Names live in `graph`. *n_out == n, and
 * nothing written, when there is nothing to split. */
pl_status pl_ort_split(pl_model *graph, const pl_ort_map *map, const pl_ort_watch *watched,
                       size_t n, pl_buf *onnx, pl_ort_watch **out, size_t *n_out, pl_err *err);

#endif
