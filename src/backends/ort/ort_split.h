/* Splits Relu off convolutions, so that the value between them can be recorded. At its highest
 * level ORT applies Relu while it stores the result of an NCHWc convolution. Relu of the stored
 * number is the same number, so the recorded graph may have two nodes instead; the caller checks
 * that the outputs are bit-identical. */
#ifndef PL_ORT_SPLIT_H
#define PL_ORT_SPLIT_H

#include "backends/ort/ort_map.h"
#include "base/buf.h"
#include "onnx/onnx.h"

/* Writes `graph` with those nodes split to `onnx`, and the extended list of entries: each new value
 * comes before the one it was split from. `graph` owns the names. Weights that `refer` names stay
 * where they are. If there is nothing to split, *n_out == n and nothing is written. */
pl_status pl_ort_split(pl_model *graph, const pl_ort_map *map, const pl_ort_watch *watched,
                       size_t n, const pl_onnx_refer *refer, pl_buf *onnx, pl_ort_watch **out,
                       size_t *n_out, pl_err *err);

#endif
