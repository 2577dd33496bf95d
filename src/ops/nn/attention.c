/* Attention and RotaryEmbedding of ai.onnx, FlexAttention of ai.onnx.preview.
 *
 * The masks of ONNX Attention are converted to two things: an additive bias with strides, and for
 * each query the range of keys that it sees (causal, padding, a mask that is shorter than the
 * keys). */
#include <math.h>

#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vmath.h"
#include "ops/grad.h"
#include "ops/lib/attention_core.h"
#include "ops/lib/attention_dims.h"
#include "ops/lib/bound_attention.h"
#include "ops/lib/bound_nn.h"
#include "ops/nn/attention_rules.h"

extern const pl_op_def pl_ops_attention[];

/* ---- Attention ---- */

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD };
enum { Y, PRESENT_KEY, PRESENT_VALUE, QK };

typedef struct attention_types {
    pl_dim batch, q_heads, kv_heads, q_len, kv_len, past_len, total, head_size, v_size;
} attention_types;

static const pl_dim open_dim = { -1, NULL };

/* [batch, heads, len, size] or, with heads from the attribute, [batch, len, heads * size]. */
static pl_status meet_heads(const pl_infer *c, int i, const char *what, const char *attr,
                            pl_dim *batch, pl_dim *heads, pl_dim *len, pl_dim *size) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0) return PL_OK;
    if (rank != 3 && rank != 4) {
        return pl_infer_fail(c, "%s has rank %d, expected 3 or 4", what, rank);
    }
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), batch));
    PL_TRY(pl_meet_agree(c, "a sequence length", pl_infer_dim(c, i, rank - 2), len));
    pl_dim found = pl_infer_dim(c, i, rank - 1);
    if (rank == 3) {
        int64_t n = 0;
        PL_TRY(pl_meet_heads(c, attr, &n));
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_dim_of(n), heads));
        PL_TRY(pl_meet_divide(c, what, found, n, &found));
    } else {
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, i, 1), heads));
    }
    return pl_meet_agree(c, "the head size", found, size);
}

static pl_status meet_past(const pl_infer *c, attention_types *t) {
    if (pl_infer_has(c, PAST_KEY) != pl_infer_has(c, PAST_VALUE)) {
        return pl_infer_fail(c, "past_key and past_value are required together");
    }
    if (!pl_infer_has(c, PAST_KEY)) {
        t->past_len = pl_dim_of(0);
        return PL_OK;
    }
    for (int i = PAST_KEY; i <= PAST_VALUE; i++) {
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, i == PAST_KEY ? "past_key" : "past_value", 4, &known));
        if (!known) continue;
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &t->batch));
        PL_TRY(pl_meet_agree(c, "the number of kv heads", pl_infer_dim(c, i, 1), &t->kv_heads));
        PL_TRY(pl_meet_agree(c, "the past length", pl_infer_dim(c, i, 2), &t->past_len));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, i, 3),
                             i == PAST_KEY ? &t->head_size : &t->v_size));
    }
    return PL_OK;
}

static pl_status check_groups(const pl_infer *c, pl_dim q_heads, pl_dim kv_heads) {
    if (!pl_dim_known(q_heads) || !pl_dim_known(kv_heads)) return PL_OK;
    if (kv_heads.value == q_heads.value) return PL_OK;
    if (kv_heads.value > 0 && q_heads.value % kv_heads.value == 0) return PL_OK;
    return pl_infer_fail(c, "%lld query heads cannot share %lld key heads",
                         (long long)q_heads.value, (long long)kv_heads.value);
}

/* The mask may be shorter than the keys; the remaining keys are hidden (Attention-24). */
static pl_status check_mask(const pl_infer *c, const attention_types *t) {
    const int rank = pl_infer_rank(c, MASK);
    if (rank < 0) return PL_OK;
    if (rank == 0) return pl_infer_fail(c, "attn_mask is a scalar, expected rank 2 to 4");
    const pl_dim last = pl_infer_dim(c, MASK, rank - 1);
    if (pl_dim_known(last) && pl_dim_known(t->total) && last.value > t->total.value) {
        return pl_infer_fail(c, "attn_mask covers %lld keys, expected %lld", (long long)last.value,
                             (long long)t->total.value);
    }
    const pl_dim dims[4] = { t->batch, t->q_heads, t->q_len, open_dim };
    return pl_meet_broadcast(c, MASK, "attn_mask", 4, dims);
}

static pl_status check_attributes(const pl_infer *c) {
    const int64_t mode = pl_attr_int(c->node, "qk_matmul_output_mode");
    if (mode < 0 || mode > 3) {
        return pl_infer_fail(c, "qk_matmul_output_mode is %lld, expected 0 to 3", (long long)mode);
    }
    const int64_t type = pl_attr_int(c->node, "softmax_precision");
    if (type != 0 && type != PL_F32 && type != PL_F16 && type != PL_BF16 && type != PL_F64) {
        return pl_infer_fail(c, "softmax_precision is %lld, expected a float type",
                             (long long)type);
    }
    return PL_OK;
}

static pl_status attention_set(pl_infer *c, const attention_types *t, int rank) {
    const pl_dtype dtype = pl_infer_dtype_of(c, Q), v_dtype = pl_infer_dtype_of(c, V);
    pl_dim y[4] = { t->batch, t->q_heads, t->q_len, t->v_size };
    if (rank == 3) {
        y[1] = t->q_len;
        y[2] = open_dim;
        if (pl_dim_known(t->q_heads)) {
            PL_TRY(pl_meet_multiply(c, t->v_size, t->q_heads.value, &y[2]));
        }
    }
    PL_TRY(pl_infer_set(c, Y, dtype, rank, y));
    const pl_dim key[4] = { t->batch, t->kv_heads, t->total, t->head_size };
    const pl_dim value[4] = { t->batch, t->kv_heads, t->total, t->v_size };
    const pl_dim qk[4] = { t->batch, t->q_heads, t->q_len, t->total };
    PL_TRY(pl_infer_set(c, PRESENT_KEY, pl_infer_dtype_of(c, K), 4, key));
    PL_TRY(pl_infer_set(c, PRESENT_VALUE, v_dtype, 4, value));
    return pl_infer_set(c, QK, dtype, 4, qk);
}

static pl_status attention_infer(pl_infer *c) {
    attention_types t = { open_dim, open_dim, open_dim, open_dim, open_dim,
                          open_dim, open_dim, open_dim, open_dim };
    const int rank = pl_infer_rank(c, Q);
    for (int i = K; i <= V; i++) {
        if (rank < 0 || pl_infer_rank(c, i) < 0 || pl_infer_rank(c, i) == rank) continue;
        return pl_infer_fail(c, "Q, K and V have different ranks");
    }
    PL_TRY(meet_heads(c, Q, "Q", "q_num_heads", &t.batch, &t.q_heads, &t.q_len, &t.head_size));
    PL_TRY(meet_heads(c, K, "K", "kv_num_heads", &t.batch, &t.kv_heads, &t.kv_len, &t.head_size));
    PL_TRY(meet_heads(c, V, "V", "kv_num_heads", &t.batch, &t.kv_heads, &t.kv_len, &t.v_size));
    PL_TRY(check_groups(c, t.q_heads, t.kv_heads));
    PL_TRY(check_attributes(c));
    PL_TRY(meet_past(c, &t));
    PL_TRY(pl_meet_sum(c, t.past_len, t.kv_len, &t.total));
    PL_TRY(check_mask(c, &t));
    bool known = false;
    PL_TRY(pl_meet_rank(c, NONPAD, "nonpad_kv_seqlen", 1, &known));
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, NONPAD, 0), &t.batch));
    return attention_set(c, &t, rank);
}

/* Sizes from the tensors; the shape rule has checked that they agree. */
static void attention_sizes(const pl_eval *c, pl_attention *a, int64_t *past_len) {
    const pl_tensor *q = pl_in(c, Q), *k = pl_in(c, K), *v = pl_in(c, V);
    const bool flat = q->rank == 3;
    a->batch = q->dims[0];
    a->q_heads = flat ? pl_attr_int(c->node, "q_num_heads") : q->dims[1];
    a->kv_heads = flat ? pl_attr_int(c->node, "kv_num_heads") : k->dims[1];
    a->q_len = q->dims[q->rank - 2];
    a->kv_len = k->dims[k->rank - 2];
    a->head_size = q->dims[q->rank - 1] / (flat ? a->q_heads : 1);
    a->v_size = v->dims[v->rank - 1] / (flat ? a->kv_heads : 1);
    *past_len = pl_has(c, PAST_KEY) ? pl_in(c, PAST_KEY)->dims[2] : 0;
}

static pl_heads heads_of(const pl_tensor *t, const void *data, int64_t heads, int64_t size) {
    return t->rank == 3 ? pl_heads_bsnh(data, heads, t->dims[1], size)
                        : pl_heads_bnsh(data, heads, t->dims[2], size);
}

/* Keys or values as the attention reads them: the input itself, or past and input joined in output
 * present. */
static pl_status join_past(pl_eval *c, const pl_attention *a, int in, int past, int out,
                           const int64_t *past_len, int64_t size, pl_heads *heads) {
    const void *data = pl_attention_in(c, in, a->wide);
    if (data == NULL) return pl_eval_memory(c);
    *heads = heads_of(pl_in(c, in), data, a->kv_heads, size);
    if (!pl_has(c, past) && !pl_wants(c, out)) return PL_OK;
    pl_cache cache = { .batch = a->batch, .heads = a->kv_heads, .size = size, .fresh = *heads };
    cache.len = pl_in(c, in)->dims[pl_in(c, in)->rank - 2];
    if (pl_has(c, past)) {
        cache.past = pl_attention_in(c, past, a->wide);
        cache.past_capacity = past_len[0];
        cache.past_len = past_len;
        if (cache.past == NULL) return pl_eval_memory(c);
    }
    cache.capacity = cache.len + cache.past_capacity;
    void *to = pl_attention_out(c, out, a->wide, a->batch, a->kv_heads, cache.capacity, size);
    if (to == NULL) return pl_eval_memory(c);
    pl_cache_fill(&cache, a->wide, to);
    pl_attention_out_done(c, out, a->wide, to);
    *heads = pl_heads_bnsh(to, a->kv_heads, cache.capacity, size);
    return PL_OK;
}

static void bool_bias(const pl_u8 *mask, bool wide, void *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (wide) {
            ((double *)to)[i] = mask[i] != 0 ? 0.0 : (double)-INFINITY;
        } else {
            ((float *)to)[i] = mask[i] != 0 ? 0.0f : -INFINITY;
        }
    }
}

static pl_status set_bias(pl_eval *c, pl_attention *a) {
    const pl_tensor *mask = pl_in(c, MASK);
    if (mask == NULL) return PL_OK;
    if (mask->dtype == PL_BOOL) {
        void *to = pl_scratch(c, (size_t)mask->n_elements, pl_attention_size(a->wide));
        if (to == NULL) return pl_eval_memory(c);
        bool_bias(mask->data, a->wide, to, mask->n_elements);
        a->bias.data = to;
    } else {
        a->bias.data = pl_attention_in(c, MASK, a->wide);
        if (a->bias.data == NULL) return pl_eval_memory(c);
    }
    int64_t stride[4] = { 0, 0, 0, 0 };
    for (int d = 0; d < mask->rank; d++) {
        if (mask->dims[d] != 1) stride[4 - mask->rank + d] = mask->strides[d];
    }
    a->bias.batch = stride[0];
    a->bias.head = stride[1];
    a->bias.row = stride[2];
    a->bias_col = stride[3];
    return PL_OK;
}

/* Attention-24 hides keys beyond the end of the mask; Attention-23 broadcasts a mask of size 1. */
static int64_t mask_end(const pl_eval *c, int64_t kv_len) {
    const pl_tensor *mask = pl_in(c, MASK);
    if (mask == NULL) return kv_len;
    const int64_t n = mask->dims[mask->rank - 1];
    return n == 1 && c->node->opset < 24 ? kv_len : n;
}

/* Causal masks are aligned with the last valid key: after the past, or where the padding begins. */
static pl_status set_visible(pl_eval *c, pl_attention *a, int64_t past_len) {
    int64_t *visible = pl_scratch(c, (size_t)a->batch, sizeof(*visible));
    int64_t *shift = pl_scratch(c, (size_t)a->batch, sizeof(*shift));
    size_t n = 0;
    const int64_t *nonpad = pl_in_ints(c, NONPAD, &n);
    if (visible == NULL || shift == NULL || (nonpad == NULL && pl_has(c, NONPAD))) {
        return pl_eval_memory(c);
    }
    const int64_t end = mask_end(c, a->kv_len);
    for (int64_t b = 0; b < a->batch; b++) {
        visible[b] = end;
        shift[b] = past_len;
        if (nonpad == NULL) continue;
        const int64_t valid = pl_i64_min(pl_i64_max(nonpad[b], 0), a->kv_len);
        visible[b] = pl_i64_min(end, valid);
        if (!pl_has(c, PAST_KEY)) shift[b] = valid - a->q_len;
    }
    a->visible = visible;
    a->shift = shift;
    a->causal = pl_attr_int(c->node, "is_causal") != 0;
    return PL_OK;
}

static double scale_of(const pl_eval *c, int64_t head_size) {
    if (pl_attr_has(c->node, "scale")) return pl_attr_float(c->node, "scale");
    return head_size == 0 ? 1.0 : 1.0 / sqrt((double)head_size);
}

static pl_dtype softmax_type(const pl_eval *c) {
    return pl_eval_dtype(c, (pl_dtype)pl_attr_int(c->node, "softmax_precision"));
}

static pl_status set_outputs(pl_eval *c, pl_attention *a) {
    const bool flat = pl_in(c, Q)->rank == 3;
    a->y = pl_attention_out(c, Y, a->wide, a->batch, a->q_heads, a->q_len, a->v_size);
    if (a->y == NULL) return pl_eval_memory(c);
    const pl_heads y = flat ? pl_heads_bsnh(a->y, a->q_heads, a->q_len, a->v_size)
                            : pl_heads_bnsh(a->y, a->q_heads, a->q_len, a->v_size);
    a->y_batch = y.batch;
    a->y_head = y.head;
    a->y_row = y.row;
    if (!pl_wants(c, QK)) return PL_OK;
    static const pl_scores_stage stages[] = { PL_SCORES_SCALED, PL_SCORES_CAPPED, PL_SCORES_BIASED,
                                              PL_SCORES_PROBS };
    a->unseen = (double)-INFINITY;
    a->stage = stages[pl_attr_int(c->node, "qk_matmul_output_mode")];
    a->scores = pl_attention_out(c, QK, a->wide, a->batch, a->q_heads, a->q_len, a->kv_len);
    return a->scores == NULL ? pl_eval_memory(c) : PL_OK;
}

static pl_status attention_eval(pl_eval *c) {
    pl_attention a = { .wide = pl_in(c, Q)->dtype == PL_F64 || pl_in(c, V)->dtype == PL_F64 };
    int64_t past_len = 0;
    attention_sizes(c, &a, &past_len);
    int64_t *past = pl_scratch(c, (size_t)a.batch + 1, sizeof(*past));
    const void *q = pl_attention_in(c, Q, a.wide);
    if (past == NULL || q == NULL) return pl_eval_memory(c);
    for (int64_t b = 0; b <= a.batch; b++)
        past[b] = past_len;
    a.q = heads_of(pl_in(c, Q), q, a.q_heads, a.head_size);
    PL_TRY(join_past(c, &a, K, PAST_KEY, PRESENT_KEY, past, a.head_size, &a.k));
    PL_TRY(join_past(c, &a, V, PAST_VALUE, PRESENT_VALUE, past, a.v_size, &a.v));
    a.kv_len += past_len;
    a.scale = scale_of(c, a.head_size);
    a.softcap = pl_attr_float(c->node, "softcap");
    a.softmax_dtype = softmax_type(c);
    PL_TRY(set_bias(c, &a));
    PL_TRY(set_visible(c, &a, past_len));
    PL_TRY(set_outputs(c, &a));
    PL_TRY(pl_attention_run(c, &a));
    pl_attention_out_done(c, Y, a.wide, a.y);
    if (pl_wants(c, QK)) pl_attention_out_done(c, QK, a.wide, a.scores);
    return PL_OK;
}

static pl_status attention_bound(pl_bound *c) {
    const pl_eval eval = { .node = c->node, .n_in = c->n_in, .in = c->in, .err = c->err };
    pl_attention sizes = { 0 };
    int64_t past_len = 0;
    attention_sizes(&eval, &sizes, &past_len);
    const pl_b_attention a = { .q = Q,
                               .k = K,
                               .v = V,
                               .past_key = PAST_KEY,
                               .past_value = PAST_VALUE,
                               .bias = -1,
                               .score_bias = MASK,
                               .causal = pl_attr_int(c->node, "is_causal") != 0 &&
                                         pl_b_in(c, NONPAD) == NULL,
                               .shift = past_len,
                               .cos = -1,
                               .head_size = sizes.head_size,
                               .v_size = sizes.v_size,
                               .scale = scale_of(&eval, sizes.head_size),
                               .probs = pl_attr_int(c->node, "qk_matmul_output_mode") == 3 };
    return pl_b_attention_rule(c, &a);
}

/* ---- FlexAttention ---- */

static pl_status flex_infer(pl_infer *c) {
    attention_types t = { open_dim, open_dim, open_dim, open_dim, open_dim,
                          open_dim, open_dim, open_dim, open_dim };
    static const char *const names[] = { "Q", "K", "V" };
    for (int i = Q; i <= V; i++) {
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, names[i], 4, &known));
    }
    PL_TRY(meet_heads(c, Q, "Q", "", &t.batch, &t.q_heads, &t.q_len, &t.head_size));
    PL_TRY(meet_heads(c, K, "K", "", &t.batch, &t.kv_heads, &t.kv_len, &t.head_size));
    PL_TRY(meet_heads(c, V, "V", "", &t.batch, &t.kv_heads, &t.kv_len, &t.v_size));
    PL_TRY(check_groups(c, t.q_heads, t.kv_heads));
    const int64_t type = pl_attr_int(c->node, "softmax_precision");
    if (type != 0 && type != PL_F32 && type != PL_F16 && type != PL_BF16 && type != PL_F64) {
        return pl_infer_fail(c, "softmax_precision is %lld, expected a float type",
                             (long long)type);
    }
    const pl_dim y[4] = { t.batch, t.q_heads, t.q_len, t.v_size };
    return pl_infer_set(c, Y, pl_infer_dtype_of(c, Q), 4, y);
}

static void store(pl_tensor *t, bool wide, const void *data) {
    if (wide) {
        pl_store_f64(t->dtype, data, t->data, (size_t)t->n_elements);
    } else {
        pl_store_f32(t->dtype, data, t->data, (size_t)t->n_elements);
    }
}

static void load(const pl_tensor *t, bool wide, void *data) {
    if (wide) {
        pl_load_f64(t->dtype, t->data, data, (size_t)t->n_elements);
    } else {
        pl_load_f32(t->dtype, t->data, data, (size_t)t->n_elements);
    }
}

/* Runs x (in the type of the softmax) through a body that keeps type and shape. */
static pl_status modify(pl_eval *c, const char *attr, pl_dtype dtype, const int64_t *dims,
                        bool wide, void *x) {
    pl_graph *body = pl_attr_graph(c->node, attr);
    if (body == NULL) return PL_OK;
    if (c->run_body == NULL) return pl_eval_unsupported(c, "bodies cannot be run here");
    if (body->n_outputs != 1 || body->n_inputs < 1) {
        return pl_eval_fail(c, "%s has %zu inputs and %zu outputs, expected one of each", attr,
                            body->n_inputs, body->n_outputs);
    }
    pl_tensor *t = NULL;
    pl_datum *in = NULL, *out = NULL;
    PL_TRY(pl_tensor_new(dtype, 4, dims, &t, c->err));
    if (t == NULL) return pl_eval_memory(c);
    store(t, wide, x);
    PL_TRY(pl_datum_of_tensor_take(t, &in, c->err));
    pl_status st = c->run_body(c, body, &in, 1, &out, 1);
    if (st == PL_OK) {
        const pl_tensor *result = out->kind == PL_TYPE_TENSOR ? out->tensor : NULL;
        pl_tensor *dense = NULL;
        if (result == NULL || result->dtype != dtype || !pl_tensor_same_shape(result, in->tensor)) {
            st = pl_eval_fail(c, "%s changes the type or shape of its input", attr);
        } else {
            st = pl_tensor_contiguous(result, &dense, c->err);
        }
        if (dense != NULL) load(dense, wide, x);
        pl_tensor_unref(dense);
    }
    pl_datum_unref(in);
    pl_datum_unref(out);
    return st;
}

static void softmax_rows(bool wide, void *x, int64_t rows, int64_t n) {
    for (int64_t i = 0; i < rows && n > 0; i++) {
        if (wide) {
            double *row = (double *)x + i * n;
            pl_vmath_get()->f64.softmax(row, row, (size_t)n);
        } else {
            float *row = (float *)x + i * n;
            pl_vmath_get()->f32.softmax(row, row, (size_t)n);
        }
    }
}

static pl_status flex_product(pl_eval *c, bool wide, const pl_gemm_shape *s, double scale,
                              const void *a, const void *b, void *y) {
    if (wide) return pl_gemm_f64(c->pool, s, scale, a, b, 0, y, NULL, c->err);
    return pl_gemm_f32(c->pool, s, (float)scale, a, b, 0, y, NULL, c->err);
}

/* Offset of the key head's matrix for each (batch, query head). */
static int64_t *group_offsets(pl_eval *c, int64_t q_heads, int64_t kv_heads, int64_t n,
                              int64_t matrix) {
    int64_t *at = pl_scratch(c, (size_t)n, sizeof(*at));
    for (int64_t i = 0; i < n && at != NULL; i++) {
        const int64_t b = i / q_heads, h = i % q_heads;
        at[i] = (b * kv_heads + h / (q_heads / kv_heads)) * matrix;
    }
    return at;
}

static pl_status flex_eval(pl_eval *c) {
    const pl_tensor *q = pl_in(c, Q), *k = pl_in(c, K), *v = pl_in(c, V);
    pl_dtype type = softmax_type(c);
    if (type == PL_UNDEFINED) type = q->dtype == PL_F64 ? PL_F64 : PL_F32;
    const bool wide = type == PL_F64 || q->dtype == PL_F64;
    if (pl_out(c, Y)->n_elements == 0) return PL_OK;
    const int64_t n = q->dims[0] * q->dims[1], len = q->dims[2], keys = k->dims[2];
    const int64_t size = q->dims[3], v_size = v->dims[3];
    const int64_t dims[4] = { q->dims[0], q->dims[1], len, keys };
    int64_t n_scores = 0;
    if (!pl_dims_product(4, dims, &n_scores)) return pl_eval_fail(c, "too many scores");
    const void *x = pl_attention_in(c, Q, wide), *key = pl_attention_in(c, K, wide);
    const void *value = pl_attention_in(c, V, wide);
    void *p = pl_scratch(c, (size_t)n_scores, pl_attention_size(wide));
    void *y = pl_attention_out(c, Y, wide, n, len, v_size, 1);
    if (x == NULL || key == NULL || value == NULL || p == NULL || y == NULL) {
        return pl_eval_memory(c);
    }
    pl_gemm_shape qk = {
        .m = len, .n = keys, .k = size, .trans_b = true, .batch = n, .by = c->kernels
    };
    qk.stride_a = len * size, qk.stride_c = len * keys;
    qk.offsets_b = group_offsets(c, q->dims[1], k->dims[1], n, keys * size);
    pl_gemm_shape pv = { .m = len, .n = v_size, .k = keys, .batch = n, .by = c->kernels };
    pv.stride_a = len * keys, pv.stride_c = len * v_size;
    pv.offsets_b = group_offsets(c, q->dims[1], k->dims[1], n, keys * v_size);
    if (qk.offsets_b == NULL || pv.offsets_b == NULL) return pl_eval_memory(c);
    PL_TRY(flex_product(c, wide, &qk, scale_of(c, size), x, key, p));
    PL_TRY(modify(c, "score_mod", type, dims, wide, p));
    softmax_rows(wide, p, n * len, keys);
    PL_TRY(modify(c, "prob_mod", type, dims, wide, p));
    PL_TRY(flex_product(c, wide, &pv, 1, p, value, y));
    pl_attention_out_done(c, Y, wide, y);
    return PL_OK;
}

/* Bodies may do anything to scores and probabilities: replay them with bounds. */
static pl_status bound_body(pl_bound *c, const char *attr, pl_b_term *x) {
    pl_graph *body = pl_attr_graph(c->node, attr);
    pl_datum *in = NULL, *out = NULL;
    pl_tensor *e = NULL;
    if (body == NULL || c->run_body == NULL) return PL_OK;
    PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(x->x), &in, c->err));
    pl_status st = c->run_body(c, body, &in, &x->e, 1, &out, &e, 1);
    if (st == PL_OK && (out->kind != PL_TYPE_TENSOR || !pl_tensor_same_shape(out->tensor, x->x)))
        st = pl_node_fail(c->err, PL_E_INVALID, c->node, "%s changes the shape of its input", attr);
    if (st == PL_OK) {
        const pl_b_term next = { pl_tensor_ref(out->tensor), e, x->native };
        pl_b_term_release(x);
        *x = next;
        e = NULL;
    }
    pl_tensor_unref(e);
    pl_datum_unref(in);
    pl_datum_unref(out);
    return st;
}

/* Inputs of a program are consumed. */
static pl_status bound_part(pl_bound *c, const char *text, pl_b_term *in, size_t n_in,
                            pl_b_term *out) {
    pl_b_program *program = NULL;
    pl_status st = text == NULL ? pl_fail_memory(c->err, 1) : PL_OK;
    if (st == PL_OK) st = pl_b_program_new(c, text, &program);
    pl_b_term result = { .native = PL_UNDEFINED };
    if (st == PL_OK) st = pl_b_program_run(c, program, in, n_in, &result, 1);
    for (size_t i = 0; i < n_in; i++)
        pl_b_term_release(&in[i]);
    pl_b_program_free(program);
    *out = result;
    return st;
}

/* Repeats each key head for the query heads that share it. */
static const char *repeat_text(pl_bound *c, const char *from, const char *to, const pl_tensor *t) {
    const long long heads = (long long)pl_b_in(c, Q)->dims[1], own = (long long)t->dims[1];
    if (heads == own || own == 0) return pl_arena_printf(c->scratch, "%s = Identity(%s)", to, from);
    return pl_arena_printf(
        c->scratch,
        "axis = Constant<value_ints=[2]>() u = Unsqueeze(%s, axis) "
        "wide = Constant<value_ints=[%lld, %lld, %lld, %lld, %lld]>() x = Expand(u, wide) "
        "flat = Constant<value_ints=[%lld, %lld, %lld, %lld]>() %s = Reshape(x, flat)",
        from, (long long)t->dims[0], own, heads / own, (long long)t->dims[2], (long long)t->dims[3],
        (long long)t->dims[0], heads, (long long)t->dims[2], (long long)t->dims[3], to);
}

static pl_status flex_bound(pl_bound *c) {
    const pl_eval eval = { .node = c->node, .n_in = c->n_in, .in = c->in, .err = c->err };
    const pl_tensor *y = pl_b_out(c, 0);
    pl_b_term in[2] = { { 0 } }, s = { 0 }, p = { 0 };
    if (y == NULL || y->n_elements == 0) return PL_OK;
    const char *keys = repeat_text(c, "k", "kk", pl_b_in(c, K));
    const char *values = repeat_text(c, "v", "vv", pl_b_in(c, V));
    if (keys == NULL || values == NULL) return pl_fail_memory(c->err, 1);
    pl_status st = pl_b_term_of_input(c, Q, &in[0]);
    if (st == PL_OK) st = pl_b_term_of_input(c, K, &in[1]);
    if (st == PL_OK) {
        st = bound_part(c,
                        pl_arena_printf(c->scratch,
                                        "(q, k) => (s) <float f = {%.17g}> { %s "
                                        "t = Transpose<perm=[0, 1, 3, 2]>(kk) r = MatMul(q, t) "
                                        "s = Mul(r, f) }",
                                        scale_of(&eval, pl_b_in(c, Q)->dims[3]), keys),
                        in, 2, &s);
    }
    if (st == PL_OK) st = bound_body(c, "score_mod", &s);
    if (st == PL_OK) st = bound_part(c, "(s) => (p) { p = Softmax<axis=-1>(s) }", &s, 1, &p);
    if (st == PL_OK) st = bound_body(c, "prob_mod", &p);
    in[0] = p;
    if (st == PL_OK) st = pl_b_term_of_input(c, V, &in[1]);
    if (st == PL_OK) {
        st = bound_part(
            c, pl_arena_printf(c->scratch, "(p, v) => (y) { %s y = MatMul(p, vv) }", values), in, 2,
            &s);
    }
    if (st == PL_OK) st = pl_b_set_take(c, 0, pl_tensor_ref(s.e));
    pl_b_term_release(&in[0]);
    pl_b_term_release(&in[1]);
    pl_b_term_release(&s);
    return st;
}

/* ---- RotaryEmbedding ---- */

enum { R_X, R_COS, R_SIN, R_POSITION };

static pl_status rotary_heads(const pl_infer *c, pl_dim *heads, pl_dim *size) {
    const int rank = pl_infer_rank(c, R_X);
    *heads = *size = open_dim;
    if (rank < 0) return PL_OK;
    if (rank != 3 && rank != 4) return pl_infer_fail(c, "X has rank %d, expected 3 or 4", rank);
    *size = pl_infer_dim(c, R_X, rank - 1);
    if (rank == 4) {
        *heads = pl_infer_dim(c, R_X, 1);
        return PL_OK;
    }
    int64_t n = 0;
    PL_TRY(pl_meet_heads(c, "num_heads", &n));
    *heads = pl_dim_of(n);
    return pl_meet_divide(c, "the last dim of X", *size, n, size);
}

static pl_status rotary_infer(pl_infer *c) {
    pl_dim heads = open_dim, size = open_dim;
    PL_TRY(rotary_heads(c, &heads, &size));
    const int rank = pl_infer_rank(c, R_X);
    const bool by_position = pl_infer_has(c, R_POSITION);
    pl_dim batch = pl_infer_dim(c, R_X, 0), len = pl_infer_dim(c, R_X, rank - 2);
    const int64_t dim = pl_attr_int(c->node, "rotary_embedding_dim");
    if (dim < 0 || dim % 2 != 0 || (pl_dim_known(size) && dim > size.value) ||
        (dim == 0 && pl_dim_known(size) && size.value % 2 != 0)) {
        return pl_infer_fail(c, "rotary_embedding_dim is %lld for heads of %lld elements",
                             (long long)dim, (long long)size.value);
    }
    pl_dim last = open_dim;
    for (int i = R_COS; i <= R_SIN; i++) {
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, i == R_COS ? "cos_cache" : "sin_cache", by_position ? 2 : 3,
                            &known));
        if (!known) continue;
        PL_TRY(pl_meet_agree(c, "the width of the caches", pl_infer_dim(c, i, by_position ? 1 : 2),
                             &last));
        if (by_position) continue;
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &batch));
        PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, i, 1), &len));
    }
    if (pl_dim_known(last) && pl_dim_known(size)) {
        const int64_t half = (dim == 0 ? size.value : dim) / 2;
        if (last.value < half) {
            return pl_infer_fail(c, "the caches have %lld columns, expected %lld",
                                 (long long)last.value, (long long)half);
        }
    }
    bool known = false;
    PL_TRY(pl_meet_rank(c, R_POSITION, "position_ids", 2, &known));
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, R_POSITION, 0), &batch));
    PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, R_POSITION, 1), &len));
    return pl_infer_set_like(c, 0, R_X);
}

static pl_status rotary_rows(pl_eval *c, pl_rotary *r) {
    const int64_t n = r->batch * r->len;
    int64_t *rows = pl_scratch(c, (size_t)n, sizeof(*rows));
    if (rows == NULL) return pl_eval_memory(c);
    size_t n_positions = 0;
    const int64_t *position = pl_in_ints(c, R_POSITION, &n_positions);
    if (position == NULL && pl_has(c, R_POSITION)) return pl_eval_memory(c);
    const int64_t limit = pl_i64_min(pl_in(c, R_COS)->dims[0], pl_in(c, R_SIN)->dims[0]);
    for (int64_t i = 0; i < n; i++) {
        rows[i] = position == NULL ? i : position[i];
        if (position == NULL || (rows[i] >= 0 && rows[i] < limit)) continue;
        return pl_eval_fail(c, "position %lld is outside the cache of %lld rows",
                            (long long)rows[i], (long long)limit);
    }
    r->rows = rows;
    return PL_OK;
}

static pl_status rotary_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, R_X);
    if (x->n_elements == 0) return PL_OK;
    const bool flat = x->rank == 3;
    pl_rotary r = { .wide = x->dtype == PL_F64, .batch = x->dims[0], .len = x->dims[x->rank - 2] };
    r.heads = flat ? pl_attr_int(c->node, "num_heads") : x->dims[1];
    r.size = x->dims[x->rank - 1] / (flat ? r.heads : 1);
    r.dim = pl_attr_int(c->node, "rotary_embedding_dim");
    if (r.dim == 0) r.dim = r.size;
    r.interleaved = pl_attr_int(c->node, "interleaved") != 0;
    r.cos = pl_attention_in(c, R_COS, r.wide);
    r.sin = pl_attention_in(c, R_SIN, r.wide);
    r.cache_cols = pl_in(c, R_COS)->dims[pl_in(c, R_COS)->rank - 1];
    const void *data = pl_attention_in(c, R_X, r.wide);
    void *y = pl_attention_out(c, 0, r.wide, x->n_elements, 1, 1, 1);
    if (r.cos == NULL || r.sin == NULL || data == NULL || y == NULL) return pl_eval_memory(c);
    PL_TRY(rotary_rows(c, &r));
    const pl_heads from = heads_of(x, data, r.heads, r.size);
    pl_rotary_run(c, &r, &from, y, from.batch, from.head, from.row);
    pl_attention_out_done(c, 0, r.wide, y);
    return PL_OK;
}

static pl_status rotary_bound(pl_bound *c) {
    return pl_b_rotary_rule(c, R_X, R_COS, R_SIN);
}

/* ---- rows ---- */

#define T_MASK (PL_T_NUMERIC | PL_T_BOOL)
#define ATTENTION_IN                                                                               \
    { "Q", PL_T_FLOAT, PL_PORT_SAME }, { "K", PL_T_FLOAT, PL_PORT_SAME }, { "V", PL_T_FLOAT, 0 },  \
        { "attn_mask", T_MASK, PL_PORT_OPTIONAL },                                                 \
        { "past_key", PL_T_FLOAT, PL_PORT_OPTIONAL | PL_PORT_SAME }, {                             \
        "past_value", PL_T_FLOAT, PL_PORT_OPTIONAL                                                 \
    }
#define ATTENTION_REST                                                                             \
    .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }, { "present_key", PL_T_FLOAT, PL_PORT_OPTIONAL },       \
                    { "present_value", PL_T_FLOAT, PL_PORT_OPTIONAL },                             \
                    { "qk_matmul_output", PL_T_FLOAT, PL_PORT_OPTIONAL }),                         \
    .attrs = PL_ATTRS(PL_A_INT("is_causal", 0), PL_A_INT("kv_num_heads", 0),                       \
                      PL_A_INT("q_num_heads", 0), PL_A_INT("qk_matmul_output_mode", 0),            \
                      PL_A_FLOAT("scale", 0), PL_A_FLOAT("softcap", 0),                            \
                      PL_A_INT("softmax_precision", 0)),                                           \
    .infer = attention_infer, .eval = attention_eval, .grad = pl_attention_grad,                   \
    .bound = attention_bound, .autocast = PL_AMP_LOW, PL_ATTENDS(0, 1, 3, -1, 1, 2, "q_num_heads")

/* clang-format off */
const pl_op_def pl_ops_attention[] = {
    { .name = "Attention", .since = 24,
      .in = PL_PORTS(ATTENTION_IN, { "nonpad_kv_seqlen", PL_T_I64, PL_PORT_OPTIONAL }), ATTENTION_REST, .emit = pl_emit_attention,
      .samples = PL_SAMPLES(
          { "(float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,6] v) => (y) <bool[3,4] m = {1,1,0,1, 0,0,0,0, 1,1,1,1}> "
            "{ y = Attention<softcap=2.0>(q, k, v, m) }", NULL, 0 },
          { "(float[2,3,8] q, float[2,5,4] k, float[2,5,4] v) => (y) <int64[2] n = {3, 5}> "
            "{ y = Attention<q_num_heads=2, kv_num_heads=1, is_causal=1>(q, k, v, \"\", \"\", \"\", n) }", NULL, 0 },
          { "(float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v, float[1,1,3,5] m) => (y, a, b, s) "
            "{ y, a, b, s = Attention<scale=0.7, qk_matmul_output_mode=2>(q, k, v, m) }", NULL, 0 },
          { "(float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,6] v, int64[2] n) => (y) "
            "{ y = Attention<is_causal=1>(q, k, v, \"\", \"\", \"\", n) }", "n=0:6", 0 },
          { "(float[1,2,2,4] q, float[1,2,3,4] k, float[1,2,3,4] v, float[1,2,2,4] pk, float[1,2,2,4] pv, float[2,4] m) => (y) "
            "{ y = Attention(q, k, v, m, pk, pv) }", NULL, 0 }) },
    { .name = "Attention", .since = 23, .until = 23, .in = PL_PORTS(ATTENTION_IN), ATTENTION_REST, .emit = pl_emit_attention,
      .samples = PL_SAMPLES(
          { "(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v, float[1,2,2,4] pk, float[1,2,2,4] pv, float[3,5] m) "
            "=> (y, ok, ov, s) { y, ok, ov, s = Attention<is_causal=1, qk_matmul_output_mode=3>(q, k, v, m, pk, pv) }",
            NULL, 0 }) },
    { .name = "FlexAttention", .domain = "ai.onnx.preview", .since = 1, .flags = PL_OP_CONTROL, .bodies = PL_BODIES_OTHER,
      .in = PL_PORTS({ "Q", PL_T_FLOAT, PL_PORT_SAME }, { "K", PL_T_FLOAT, PL_PORT_SAME }, { "V", PL_T_FLOAT, PL_PORT_SAME }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_LIST("prob_mod", GRAPH), PL_A_FLOAT("scale", 0), PL_A_LIST("score_mod", GRAPH),
                        PL_A_INT("softmax_precision", 0)),
      .infer = flex_infer, .eval = flex_eval, .grad = pl_grad_unrolled, .bound = flex_bound, PL_EMIT_BREAK("executes bodies"), .autocast = PL_AMP_LOW,
      .samples = PL_SAMPLES(
          { "(float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,6] v) => (y) { y = ai.onnx.preview.FlexAttention(q, k, v) "
            "<score_mod = g (float[2,4,3,5] s) => (float[2,4,3,5] t) { t = Tanh(s) }> }", NULL, 0 },
          { "(float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v, float[2,1,1] w, float[3,5] b) => (y) "
            "{ y = ai.onnx.preview.FlexAttention(q, k, v) "
            "<scale = 0.4, score_mod = g (float[1,2,3,5] s) => (float[1,2,3,5] t) { u = Mul(s, w) t = Add(u, b) }, "
            "prob_mod = h (float[1,2,3,5] p) => (float[1,2,3,5] r) { e = Mul(p, p) r = Mul(e, w) }> }", NULL, 0 }) },
    { .name = "RotaryEmbedding", .since = 23,
      .in = PL_PORTS({ "X", PL_T_FLOAT, PL_PORT_SAME }, { "cos_cache", PL_T_FLOAT, PL_PORT_SAME },
                     { "sin_cache", PL_T_FLOAT, PL_PORT_SAME }, { "position_ids", PL_T_I64, PL_PORT_OPTIONAL | PL_PORT_ROWS_OF(1) }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("interleaved", 0), PL_A_INT("num_heads", 0), PL_A_INT("rotary_embedding_dim", 0)),
      .infer = rotary_infer, .eval = rotary_eval, .grad = pl_rotary_grad, .bound = rotary_bound, .emit = pl_emit_rotary, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(float[2,3,4,8] x, float[9,4] c, float[9,4] s) => (y) <int64[2,4] p = {0,1,2,3, 5,6,7,8}> "
            "{ y = RotaryEmbedding(x, c, s, p) }", NULL, 0 },
          { "(float[2,4,16] x, float[2,4,2] c, float[2,4,2] s) => (y) "
            "{ y = RotaryEmbedding<num_heads=2, rotary_embedding_dim=4, interleaved=1>(x, c, s) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
