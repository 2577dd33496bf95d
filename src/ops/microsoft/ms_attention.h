/* Shared by the attention operators of com.microsoft: masks, projections. Semantics:
 * docs/ContribOperators.md of ONNX Runtime, and its CPU kernels where that is unclear. */
#ifndef PL_MS_ATTENTION_H
#define PL_MS_ATTENTION_H

#include "ops/bound.h"
#include "ops/lib/attention_core.h"
#include "ops/lib/attention_dims.h"

/* The additive mask of a node: a mask input in one of its forms (below) with `filter` where it
 * hides a key, plus an attention_bias. Either index may be -1. Sizes in `a` must be set; kv_len is
 * the total length. Sets a->bias. */
pl_status pl_ms_bias(pl_eval *c, pl_attention *a, int mask, int attention_bias, double filter);
/* Shape rule of the mask: [batch], [2 batch] (ends, then starts), [3 batch + 2] (lengths first),
 * [batch, total], [batch, 1] and [1, 1] (no mask), [batch, q_len, total],
 * [batch, 1, max, max] (rows past .. past + q_len count). */
pl_status pl_ms_check_mask(const pl_infer *c, int mask, pl_dim batch, pl_dim q_len, pl_dim total);
/* attention_bias: [batch or 1, heads or 1, q_len, total]. */
pl_status pl_ms_check_bias(const pl_infer *c, int i, pl_dim batch, pl_dim heads, pl_dim q_len,
                           pl_dim total);

/* A dense copy of heads [batch, n, len, size] with bias[offset + h * size + d] added. NULL when out
 * of memory. */
void *pl_ms_add_bias(pl_eval *c, bool wide, const pl_heads *x, int64_t batch, int64_t n,
                     int64_t len, int64_t size, const void *bias, int64_t offset);

/* All wanted outputs are empty. The other sizes are then unchecked and ignored. */
bool pl_ms_is_empty(const pl_eval *c);
/* Sets a->sink: the input, or zeros for smooth_softmax; NULL without either. */
pl_status pl_ms_sink(pl_eval *c, pl_attention *a, int input);
/* scale attribute; 0 or absent: 1 / sqrt(head_size) */
double pl_ms_scale(const pl_eval *c, int64_t head_size);
/* y of [batch, len, heads * size]: sets a->y and its strides from output 0. */
pl_status pl_ms_output(pl_eval *c, pl_attention *a);

#endif
