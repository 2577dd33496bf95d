/* Scaled dot-product attention on plain buffers, shared by all attention operators.
 *
 * Scores are scale * Q K' per head; then softcap, bias, softmax over the keys that a query may see,
 * and the product with V. Work is split by (batch, head, block of queries), so the whole score
 * matrix never exists unless it is an output. All buffers are float, or double when `wide`. */
#ifndef PL_ATTENTION_CORE_H
#define PL_ATTENTION_CORE_H

#include "ops/eval.h"

/* A stack of matrices [batch, head, row, n]: strides in elements; the last axis is contiguous. */
typedef struct pl_heads {
    const void *data;
    int64_t offset, batch, head, row;
} pl_heads;

/* Stage of the score matrix that the caller wants as an output. */
typedef enum pl_scores_stage {
    PL_SCORES_NONE = 0,
    PL_SCORES_SCALED, /* scale * Q K' */
    PL_SCORES_CAPPED, /* after softcap */
    PL_SCORES_BIASED, /* after the bias; `unseen` where a key is not seen */
    PL_SCORES_PROBS   /* after softmax */
} pl_scores_stage;

typedef struct pl_attention {
    bool wide; /* double throughout */
    int64_t batch, q_heads, kv_heads, q_len, kv_len, head_size, v_size;
    pl_heads q, k, v;      /* k and v have kv_heads; each serves q_heads / kv_heads of q */
    double scale, softcap; /* softcap 0 = none */

    /* Added to the scores: strides 0 where broadcast; bias_col is 0 or 1. data NULL = none. */
    pl_heads bias;
    int64_t bias_col;
    /* A query whose bias is -inf for all keys gives zeros (ONNX Attention-24), otherwise NaN. */

    /* Query i of batch b sees the keys [first, end): end = min(visible[b], i + shift[b] + 1), the
     * second term only when causal, and not for the last query if last_free; first = end - window
     * when window > 0. NULL arrays: kv_len and 0. */
    const int64_t *visible, *shift;
    bool causal, last_free;
    int64_t window;

    const void *sink;       /* attention sink: one extra logit per query head; NULL = none */
    pl_dtype softmax_dtype; /* F16, BF16: rounds scores and probabilities to it */

    /* Out: y has strides like q; scores is dense [batch, q_heads, q_len, kv_len]. */
    void *y;
    int64_t y_batch, y_head, y_row;
    pl_scores_stage stage;
    double unseen;
    void *scores;
} pl_attention;

/* Sizes are >= 0, kv_heads divides q_heads, everything lies inside its buffer. */
pl_status pl_attention_run(pl_eval *c, const pl_attention *a);

/* ---- buffers in the type of the computation ---- */
static inline size_t pl_attention_size(bool wide) {
    return wide ? sizeof(double) : sizeof(float);
}
/* Input i in that type; NULL when out of memory or left out. */
const void *pl_attention_in(pl_eval *c, int i, bool wide);
/* Buffer to compute output i of these four dims in: the tensor itself, or scratch that
 * pl_attention_out_done rounds. Outputs that are not requested get scratch as well. NULL when out
 * of memory or too large. */
void *pl_attention_out(pl_eval *c, int i, bool wide, int64_t d0, int64_t d1, int64_t d2,
                       int64_t d3);
void pl_attention_out_done(pl_eval *c, int i, bool wide, const void *data);

/* [batch, heads, len, size] dense, or [batch, len, heads, size] dense. */
pl_heads pl_heads_bnsh(const void *data, int64_t heads, int64_t len, int64_t size);
pl_heads pl_heads_bsnh(const void *data, int64_t heads, int64_t len, int64_t size);

/* Keys or values as a cache: to[b, h, 0 .. capacity) = past[b, h, 0 .. past_len[b]), then the `len`
 * new rows, then zeros. past may be NULL (then past_len is not read). */
typedef struct pl_cache {
    int64_t batch, heads, size, len, capacity;
    const void *past;
    int64_t past_capacity;
    const int64_t *past_len;
    bool keep_past; /* rows after the new ones are kept from the past, not zeroed */
    pl_heads fresh;
} pl_cache;
void pl_cache_fill(const pl_cache *c, bool wide, void *to);

/* ---- rotary embedding ---- */
typedef struct pl_rotary {
    bool wide, interleaved;
    int64_t batch, heads, len, size, dim; /* dim <= size: elements of each head to rotate */
    const void *cos, *sin;                /* rows of `cache_cols` (>= dim / 2) */
    int64_t cache_cols;
    const int64_t *rows; /* batch * len: row of the cache for each position */
} pl_rotary;
/* to: dense [batch, heads, len, size] or with the strides given. */
void pl_rotary_run(pl_eval *c, const pl_rotary *r, const pl_heads *x, void *to, int64_t to_batch,
                   int64_t to_head, int64_t to_row);

#endif
