/* Attention operators of com.microsoft: Attention and QAttention (with the projection of the
 * input), MultiHeadAttention and DecoderMaskedMultiHeadAttention (without).
 *
 * Masks add a finite mask_filter_value, so a query whose keys are all masked still averages;
 * `unidirectional` removes keys entirely, as in ONNX Runtime. */
#include "ops/microsoft/ms_attention.h"

#include <float.h>
#include <string.h>

#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "ops/lib/compute.h"
#include "ops/microsoft/ms_attention_rules.h"

extern const pl_op_def pl_ops_ms_attention[];

/* ---- Attention, QAttention ---- */

/* Inputs that both operators have, at different indices. */
typedef struct packed_ports {
    int mask, past, attention_bias, past_len; /* -1: the operator has none */
} packed_ports;
static const packed_ports attention_ports = { 3, 4, 5, 6 };
static const packed_ports q_attention_ports = { 5, 8, -1, -1 };

static pl_status hidden_sizes(const pl_infer *c, int64_t heads, pl_dim packed, pl_dim sizes[3]) {
    size_t n = 0;
    const int64_t *given = pl_attr_ints(c->node, "qkv_hidden_sizes", &n);
    if (n == 0) {
        pl_dim one = PL_DIM_UNKNOWN;
        PL_TRY(pl_meet_divide(c, "dim 1 of weights", packed, 3, &one));
        sizes[0] = sizes[1] = sizes[2] = one;
    } else {
        if (n != 3) return pl_infer_fail(c, "qkv_hidden_sizes has %zu entries, expected 3", n);
        int64_t sum = 0;
        for (size_t i = 0; i < 3; i++) {
            if (given[i] < 1 || !pl_i64_add(sum, given[i], &sum)) {
                return pl_infer_fail(c, "an entry of qkv_hidden_sizes is %lld",
                                     (long long)given[i]);
            }
            sizes[i] = pl_dim_of(given[i]);
        }
        PL_TRY(pl_meet_agree(c, "the sum of qkv_hidden_sizes", pl_dim_of(sum), &packed));
        if (given[0] != given[1]) {
            return pl_infer_fail(c, "queries have %lld elements and keys %lld", (long long)given[0],
                                 (long long)given[1]);
        }
    }
    for (int i = 0; i < 3; i++) {
        pl_dim one = PL_DIM_UNKNOWN;
        PL_TRY(pl_meet_divide(c, "a hidden size", sizes[i], heads, &one));
    }
    return PL_OK;
}

/* past: [2, batch, heads, length or capacity, head size]. */
static pl_status meet_past(pl_infer *c, const packed_ports *p, int64_t heads, const pl_dim *sizes,
                           pl_dim *batch, pl_dim *past_len, pl_dim *capacity) {
    *past_len = pl_dim_of(0);
    *capacity = PL_DIM_UNKNOWN;
    if (!pl_infer_has(c, p->past)) return PL_OK;
    bool known = false;
    PL_TRY(pl_meet_rank(c, p->past, "past", 5, &known));
    pl_dim two = pl_dim_of(2), n = pl_dim_of(heads), size = PL_DIM_UNKNOWN;
    PL_TRY(pl_meet_divide(c, "a hidden size", sizes[0], heads, &size));
    PL_TRY(pl_meet_agree(c, "dim 0 of past", pl_infer_dim(c, p->past, 0), &two));
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, p->past, 1), batch));
    PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, p->past, 2), &n));
    PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, p->past, 4), &size));
    *past_len = pl_infer_dim(c, p->past, 3);
    if (pl_attr_int(c->node, "past_present_share_buffer") == 0) return PL_OK;
    *capacity = *past_len;
    if (p->past_len < 0 || !pl_infer_has(c, p->past_len)) {
        return pl_infer_fail(c, "a shared past needs past_sequence_length");
    }
    return pl_meet_length(c, p->past_len, "past_sequence_length", past_len);
}

static pl_status packed_infer(pl_infer *c, const packed_ports *p) {
    int64_t heads = 0;
    bool known = false;
    pl_dim past_len = PL_DIM_UNKNOWN, capacity = PL_DIM_UNKNOWN, total = PL_DIM_UNKNOWN;
    pl_dim size = PL_DIM_UNKNOWN, sizes[3] = { size, size, size };
    PL_TRY(pl_meet_heads(c, "num_heads", &heads));
    if (pl_attr_int(c->node, "do_rotary") != 0) {
        return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node, "do_rotary is not supported");
    }
    PL_TRY(pl_meet_rank(c, 0, "input", 3, &known));
    PL_TRY(pl_meet_rank(c, 1, "weights", 2, &known));
    PL_TRY(pl_meet_rank(c, 2, "bias", 1, &known));
    pl_dim batch = pl_infer_dim(c, 0, 0), len = pl_infer_dim(c, 0, 1);
    pl_dim in_size = pl_infer_dim(c, 0, 2), packed = pl_infer_dim(c, 1, 1);
    PL_TRY(pl_meet_agree(c, "the input size", pl_infer_dim(c, 1, 0), &in_size));
    PL_TRY(pl_meet_agree(c, "the size of bias", pl_infer_dim(c, 2, 0), &packed));
    PL_TRY(hidden_sizes(c, heads, packed, sizes));
    PL_TRY(meet_past(c, p, heads, sizes, &batch, &past_len, &capacity));
    PL_TRY(pl_meet_sum(c, past_len, len, &total));
    if (pl_dim_known(capacity) && pl_dim_known(total) && capacity.value < total.value) {
        return pl_infer_fail(c, "past has room for %lld positions, %lld are needed",
                             (long long)capacity.value, (long long)total.value);
    }
    PL_TRY(pl_ms_check_mask(c, p->mask, batch, len, total));
    if (p->attention_bias >= 0) {
        PL_TRY(pl_ms_check_bias(c, p->attention_bias, batch, pl_dim_of(heads), len, total));
    }
    const pl_dtype dtype = pl_infer_dtype_of(c, 2);
    const pl_dim y[3] = { batch, len, sizes[2] };
    PL_TRY(pl_infer_set(c, 0, dtype != PL_UNDEFINED ? dtype : pl_infer_dtype_of(c, 0), 3, y));
    if (c->n_out < 2) return PL_OK;
    const bool has_present = c->node->out[1] != NULL;
    if (has_present && pl_dim_known(sizes[0]) && pl_dim_known(sizes[2]) &&
        sizes[0].value != sizes[2].value) {
        return pl_infer_fail(c, "present needs keys and values of one size");
    }
    PL_TRY(pl_meet_divide(c, "a hidden size", sizes[0], heads, &size));
    const bool shared = pl_infer_has(c, p->past) && p->past_len >= 0 &&
                        pl_attr_int(c->node, "past_present_share_buffer") != 0;
    const pl_dim present[5] = { pl_dim_of(2), batch, pl_dim_of(heads), shared ? capacity : total,
                                size };
    return pl_infer_set(c, 1, c->out[0]->dtype, 5, present);
}

/* q, k and v are side by side in the rows of x. */
static void split_packed(pl_attention *a, const void *x) {
    const int64_t q = a->q_heads * a->head_size, v = a->q_heads * a->v_size, row = 2 * q + v;
    const pl_heads one = { x, 0, a->q_len * row, a->head_size, row };
    a->q = a->k = a->v = one;
    a->k.offset = q;
    a->v.offset = 2 * q;
    a->v.head = a->v_size;
}

/* Appends the new keys and values to the past, in output present. */
static pl_status join_past(pl_eval *c, const packed_ports *p, pl_attention *a) {
    const pl_tensor *past = pl_in(c, p->past);
    const int64_t len = a->kv_len, size = a->head_size;
    const bool shared = past != NULL && pl_attr_int(c->node, "past_present_share_buffer") != 0;
    int64_t past_len = past == NULL ? 0 : past->dims[3];
    if (shared) past_len = pl_in_int(c, p->past_len, 0);
    a->kv_len += past_len;
    if (past == NULL && !pl_wants(c, 1)) return PL_OK;
    const int64_t capacity = shared ? past->dims[3] : a->kv_len;
    int64_t *lengths = pl_scratch(c, (size_t)a->batch, sizeof(*lengths));
    const void *from = pl_attention_in(c, p->past, a->wide);
    void *to = pl_attention_out(c, 1, a->wide, 2 * a->batch, a->q_heads, capacity, size);
    if (lengths == NULL || to == NULL || (past != NULL && from == NULL)) return pl_eval_memory(c);
    for (int64_t b = 0; b < a->batch; b++)
        lengths[b] = past_len;
    const size_t unit = pl_attention_size(a->wide);
    pl_cache cache = { .batch = a->batch,
                       .heads = a->q_heads,
                       .size = size,
                       .len = len,
                       .capacity = capacity,
                       .past_len = lengths,
                       .keep_past = shared };
    if (past != NULL) cache.past_capacity = past->dims[3];
    for (int64_t half = 0; half < 2; half++) {
        pl_heads *heads = half == 0 ? &a->k : &a->v;
        cache.fresh = *heads;
        const size_t skip_in = past == NULL ? 0 : (size_t)(half * (past->n_elements / 2)) * unit;
        const int64_t n_half = a->batch * a->q_heads * capacity * size;
        char *half_to = (char *)to + (size_t)(half * n_half) * unit;
        if (past != NULL) cache.past = (const char *)from + skip_in;
        pl_cache_fill(&cache, a->wide, half_to);
        *heads = pl_heads_bnsh(half_to, a->q_heads, capacity, size);
    }
    pl_attention_out_done(c, 1, a->wide, to);
    return PL_OK;
}

/* The causal shift is the length of the past. "Every token can only attend to previous tokens" is
 * ambiguous when there are more keys than queries and no past: here queries align with the first
 * keys, as in ONNX Attention-24. The other reading is that of ONNX Runtime on CPU (1.22 to 1.30),
 * whose mask ends before the last query. */
static pl_status set_causal(pl_eval *c, pl_attention *a, int64_t past_len) {
    a->causal = pl_attr_int(c->node, "unidirectional") != 0 && a->q_len > 1;
    a->last_free = c->otherwise;
    int64_t *shift = pl_scratch(c, (size_t)a->batch, sizeof(*shift));
    if (shift == NULL) return pl_eval_memory(c);
    for (int64_t b = 0; b < a->batch; b++)
        shift[b] = past_len;
    a->shift = shift;
    return PL_OK;
}

static pl_status packed_finish(pl_eval *c, const packed_ports *p, pl_attention *a, const void *x) {
    split_packed(a, x);
    const int64_t len = a->kv_len;
    PL_TRY(join_past(c, p, a));
    a->scale = pl_ms_scale(c, a->head_size);
    const double filter = pl_attr_float(c->node, "mask_filter_value");
    PL_TRY(pl_ms_bias(c, a, p->mask, p->attention_bias, filter));
    PL_TRY(set_causal(c, a, a->kv_len - len));
    PL_TRY(pl_ms_output(c, a));
    PL_TRY(pl_attention_run(c, a));
    pl_attention_out_done(c, 0, a->wide, a->y);
    return PL_OK;
}

static pl_attention packed_sizes(const pl_eval *c, bool wide) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    pl_attention a = { .wide = wide, .batch = x->dims[0], .q_len = x->dims[1] };
    a.kv_len = a.q_len;
    a.q_heads = a.kv_heads = pl_attr_int(c->node, "num_heads");
    size_t n = 0;
    const int64_t *sizes = pl_attr_ints(c->node, "qkv_hidden_sizes", &n);
    a.head_size = (n == 3 ? sizes[0] : w->dims[1] / 3) / a.q_heads;
    a.v_size = (n == 3 ? sizes[2] : w->dims[1] / 3) / a.q_heads;
    return a;
}

/* Fills every row with the bias, to which the product is added. */
static void fill_rows(bool wide, const void *bias, void *to, int64_t rows, int64_t n) {
    const size_t bytes = (size_t)n * pl_attention_size(wide);
    for (int64_t i = 0; i < rows; i++) {
        char *row = (char *)to + (size_t)i * bytes;
        if (bias != NULL) {
            memcpy(row, bias, bytes);
        } else {
            memset(row, 0, bytes);
        }
    }
}

static pl_status attention_infer(pl_infer *c) {
    return packed_infer(c, &attention_ports);
}

static pl_status attention_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    pl_attention a = packed_sizes(c, x->dtype == PL_F64);
    if (pl_ms_is_empty(c)) return PL_OK;
    const int64_t rows = a.batch * a.q_len, n = w->dims[1], k = x->dims[2];
    pl_kept *kept = pl_kept_of(c, 1);
    const void *input = pl_attention_in(c, 0, a.wide), *bias = pl_attention_in(c, 2, a.wide);
    const void *weights =
        a.wide ? (const void *)pl_in_f64(c, 1) : (const void *)pl_compute_in_f32(c, 1, kept);
    void *qkv = pl_scratch(c, (size_t)(rows * n), pl_attention_size(a.wide));
    if (input == NULL || weights == NULL || qkv == NULL || (bias == NULL && pl_has(c, 2))) {
        return pl_eval_memory(c);
    }
    fill_rows(a.wide, bias, qkv, rows, n);
    const pl_gemm_shape s = { .m = rows, .n = n, .k = k, .batch = 1, .by = c->kernels };
    if (a.wide) {
        PL_TRY(pl_gemm_f64(c->pool, &s, 1, input, weights, 1, qkv, pl_kept_gemm(kept), c->err));
    } else {
        PL_TRY(pl_gemm_f32(c->pool, &s, 1, input, weights, 1, qkv, pl_kept_gemm(kept), c->err));
    }
    return packed_finish(c, &attention_ports, &a, qkv);
}

/* QAttention: integer projection; one scale for all weights or one per column. */
enum { QA_SCALE = 3, QA_W_SCALE = 4, QA_ZERO = 6, QA_W_ZERO = 7 };

static pl_status check_per_column(const pl_infer *c, int i, const char *what, pl_dim columns) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0 || rank == 0) return PL_OK;
    const pl_dim n = pl_infer_dim(c, i, 0);
    if (rank == 1 && (!pl_dim_known(n) || n.value == 1 || !pl_dim_known(columns))) return PL_OK;
    if (rank == 1 && n.value == columns.value) return PL_OK;
    return pl_infer_fail(c, "%s is neither one value nor one for each column", what);
}

static pl_status q_attention_infer(pl_infer *c) {
    const pl_dim columns = pl_infer_dim(c, 1, 1), one = pl_dim_of(1);
    PL_TRY(check_per_column(c, QA_SCALE, "input_scale", one));
    PL_TRY(check_per_column(c, QA_W_SCALE, "weight_scale", columns));
    PL_TRY(check_per_column(c, QA_ZERO, "input_zero_point", one));
    PL_TRY(check_per_column(c, QA_W_ZERO, "weight_zero_point", columns));
    return packed_infer(c, &q_attention_ports);
}

/* Zero points as int32; NULL and step 0 when left out. */
static pl_status zero_points(pl_eval *c, int i, pl_gemm_i8_zero *out) {
    *out = (pl_gemm_i8_zero){ NULL, 0, 0 };
    if (!pl_has(c, i)) return PL_OK;
    size_t n = 0;
    const int64_t *ints = pl_in_ints(c, i, &n);
    int32_t *value = pl_scratch(c, n, sizeof(*value));
    if (ints == NULL || value == NULL) return pl_eval_memory(c);
    for (size_t k = 0; k < n; k++)
        value[k] = (int32_t)ints[k];
    out->value = value;
    out->step = n > 1;
    return PL_OK;
}

static pl_status dequantize(pl_eval *c, bool wide, const int32_t *sums, int64_t rows, int64_t n,
                            void *to) {
    const double x_scale = pl_in_float(c, QA_SCALE, 1);
    const pl_f64 *scales = pl_in_f64(c, QA_W_SCALE), *bias = pl_in_f64(c, 2);
    double *both = pl_scratch(c, (size_t)n, sizeof(*both));
    if (scales == NULL || bias == NULL || both == NULL) return pl_eval_memory(c);
    const bool single = pl_in(c, QA_W_SCALE)->n_elements == 1;
    for (int64_t j = 0; j < n; j++)
        both[j] = x_scale * scales[single ? 0 : j];
    for (int64_t i = 0; i < rows * n; i++) {
        const double x = (double)sums[i] * both[i % n] + bias[i % n];
        if (wide) {
            ((double *)to)[i] = x;
        } else {
            ((float *)to)[i] = (float)x;
        }
    }
    return PL_OK;
}

static pl_status q_attention_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    pl_attention a = packed_sizes(c, pl_in(c, 2)->dtype == PL_F64);
    if (pl_ms_is_empty(c)) return PL_OK;
    const int64_t rows = a.batch * a.q_len, n = w->dims[1], k = x->dims[2];
    int32_t *sums = pl_scratch(c, (size_t)(rows * n), sizeof(*sums));
    void *qkv = pl_scratch(c, (size_t)(rows * n), pl_attention_size(a.wide));
    pl_gemm_i8_zero x_zero, w_zero;
    if (sums == NULL || qkv == NULL) return pl_eval_memory(c);
    PL_TRY(zero_points(c, QA_ZERO, &x_zero));
    PL_TRY(zero_points(c, QA_W_ZERO, &w_zero));
    x_zero.step = 0;
    const pl_gemm_shape s = { .m = rows, .n = n, .k = k, .batch = 1, .by = c->kernels };
    PL_TRY(pl_gemm_i8(c->pool, &s, x->data, x->dtype == PL_I8, x_zero, w->data, w->dtype == PL_I8,
                      w_zero, sums, c->err));
    PL_TRY(dequantize(c, a.wide, sums, rows, n, qkv));
    return packed_finish(c, &q_attention_ports, &a, qkv);
}

/* ---- MultiHeadAttention, DecoderMaskedMultiHeadAttention ---- */

typedef struct mha_ports {
    int bias, mask, attention_bias, past_key, past_value, past_len, beam_width, cache_indirection;
    bool decoder; /* q_len is 1; without keys the query is [batch, 1, 3 * hidden] */
} mha_ports;
static const mha_ports multi_head_ports = { 3, 4, 5, 6, 7, 8, -1, 9, false };
static const mha_ports decoder_ports = { 10, 3, 4, 5, 6, 7, 8, 9, true };

typedef struct mha_types {
    int64_t heads;
    pl_dim batch, q_len, kv_len, past_len, capacity, total, size, v_size;
} mha_types;

static pl_status mha_query(const pl_infer *c, const mha_ports *p, mha_types *t) {
    const int rank = pl_infer_rank(c, 0);
    const bool packed = !pl_infer_has(c, 1);
    if (rank < 0) return PL_OK;
    const bool fits = packed ? rank == 5 || (p->decoder && rank == 3) : rank == 3;
    if (!fits) {
        return pl_infer_fail(c, "query has rank %d and key is %s", rank,
                             packed ? "left out" : "given");
    }
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, 0, 0), &t->batch));
    PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, 0, 1), &t->q_len));
    if (rank == 5) {
        pl_dim heads = pl_dim_of(t->heads), three = pl_dim_of(3);
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, 0, 2), &heads));
        PL_TRY(pl_meet_agree(c, "dim 3 of query", pl_infer_dim(c, 0, 3), &three));
        t->size = pl_infer_dim(c, 0, 4);
    } else {
        pl_dim hidden = pl_infer_dim(c, 0, 2);
        if (packed) PL_TRY(pl_meet_divide(c, "dim 2 of query", hidden, 3, &hidden));
        PL_TRY(pl_meet_divide(c, "dim 2 of query", hidden, t->heads, &t->size));
    }
    if (!packed) return PL_OK;
    t->kv_len = t->q_len;
    t->v_size = t->size;
    return PL_OK;
}

/* key or value as [batch, len, heads * size] or [batch, heads, len, size]. */
static pl_status mha_plain(const pl_infer *c, int i, mha_types *t, pl_dim *size) {
    const int rank = pl_infer_rank(c, i);
    pl_dim heads = pl_dim_of(t->heads), found = pl_infer_dim(c, i, rank - 1);
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &t->batch));
    PL_TRY(pl_meet_agree(c, "the kv length", pl_infer_dim(c, i, rank - 2), &t->kv_len));
    if (rank == 4) {
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, i, 1), &heads));
    } else {
        PL_TRY(pl_meet_divide(c, "the hidden size of keys or values", found, t->heads, &found));
    }
    return pl_meet_agree(c, "the head size", found, size);
}

static pl_status mha_key_value(const pl_infer *c, mha_types *t) {
    if (!pl_infer_has(c, 1)) {
        return pl_infer_has(c, 2) ? pl_infer_fail(c, "value without key") : PL_OK;
    }
    const int rank = pl_infer_rank(c, 1), v_rank = pl_infer_rank(c, 2);
    if (rank == 5) {
        pl_dim heads = pl_dim_of(t->heads), two = pl_dim_of(2);
        if (pl_infer_has(c, 2)) return pl_infer_fail(c, "value given with packed keys and values");
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, 1, 0), &t->batch));
        PL_TRY(pl_meet_agree(c, "the kv length", pl_infer_dim(c, 1, 1), &t->kv_len));
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, 1, 2), &heads));
        PL_TRY(pl_meet_agree(c, "dim 3 of key", pl_infer_dim(c, 1, 3), &two));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, 1, 4), &t->size));
        t->v_size = t->size;
        return PL_OK;
    }
    if (!pl_infer_has(c, 2)) return pl_infer_fail(c, "key without value");
    if (rank < 0 || v_rank < 0) return PL_OK;
    if (rank != v_rank || (rank != 3 && rank != 4)) {
        return pl_infer_fail(c, "key has rank %d and value %d, expected 3 or 4", rank, v_rank);
    }
    PL_TRY(mha_plain(c, 1, t, &t->size));
    return mha_plain(c, 2, t, &t->v_size);
}

static bool shares_past(const pl_node *node, const mha_ports *p, bool has_past, bool has_len) {
    if (!has_past) return false;
    return p->decoder ? pl_attr_int(node, "past_present_share_buffer") != 0 : has_len;
}

static pl_status mha_past(pl_infer *c, const mha_ports *p, mha_types *t) {
    t->past_len = pl_dim_of(0);
    const bool has_past = pl_infer_has(c, p->past_key);
    if (has_past != pl_infer_has(c, p->past_value)) {
        return pl_infer_fail(c, "past_key and past_value are required together");
    }
    if (!has_past) return PL_OK;
    if (pl_infer_rank(c, 1) == 4) return pl_infer_fail(c, "past_key given with keys of rank 4");
    pl_dim length = PL_DIM_UNKNOWN, heads = pl_dim_of(t->heads);
    for (int k = 0; k < 2; k++) {
        const int i = k == 0 ? p->past_key : p->past_value;
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, k == 0 ? "past_key" : "past_value", 4, &known));
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &t->batch));
        PL_TRY(pl_meet_agree(c, "the number of heads", pl_infer_dim(c, i, 1), &heads));
        PL_TRY(pl_meet_agree(c, "the past length", pl_infer_dim(c, i, 2), &length));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, i, 3),
                             k == 0 ? &t->size : &t->v_size));
    }
    t->past_len = length;
    const bool has_len = pl_infer_has(c, p->past_len);
    if (!shares_past(c->node, p, has_past, has_len)) return PL_OK;
    if (!has_len) return pl_infer_fail(c, "a shared past needs past_sequence_length");
    t->capacity = length;
    return pl_meet_length(c, p->past_len, "past_sequence_length", &t->past_len);
}

static pl_status mha_set(pl_infer *c, const mha_types *t, bool shared) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const pl_dim heads = pl_dim_of(t->heads), room = shared ? t->capacity : t->total;
    pl_dim y[3] = { t->batch, t->q_len, PL_DIM_UNKNOWN };
    PL_TRY(pl_meet_multiply(c, t->v_size, t->heads, &y[2]));
    const pl_dim key[4] = { t->batch, heads, room, t->size };
    const pl_dim value[4] = { t->batch, heads, room, t->v_size };
    const pl_dim qk[4] = { t->batch, heads, t->q_len, t->total };
    PL_TRY(pl_infer_set(c, 0, dtype, 3, y));
    PL_TRY(pl_infer_set(c, 1, dtype, 4, key));
    PL_TRY(pl_infer_set(c, 2, dtype, 4, value));
    return pl_infer_set(c, 3, dtype, 4, qk);
}

static pl_status mha_infer(pl_infer *c, const mha_ports *p) {
    const pl_dim u = PL_DIM_UNKNOWN;
    mha_types t = { 0, u, u, u, u, u, u, u, u };
    PL_TRY(pl_meet_heads(c, "num_heads", &t.heads));
    PL_TRY(mha_query(c, p, &t));
    PL_TRY(mha_key_value(c, &t));
    PL_TRY(mha_past(c, p, &t));
    PL_TRY(pl_meet_sum(c, t.past_len, t.kv_len, &t.total));
    if (pl_dim_known(t.capacity) && pl_dim_known(t.total) && t.capacity.value < t.total.value) {
        return pl_infer_fail(c, "past_key has room for %lld positions, %lld are needed",
                             (long long)t.capacity.value, (long long)t.total.value);
    }
    PL_TRY(pl_ms_check_mask(c, p->mask, t.batch, t.q_len, t.total));
    PL_TRY(pl_ms_check_bias(c, p->attention_bias, t.batch, pl_dim_of(t.heads), t.q_len, t.total));
    bool known = false;
    PL_TRY(pl_meet_rank(c, p->bias, "bias", 1, &known));
    if (pl_dim_known(t.size) && pl_dim_known(t.v_size)) {
        int64_t sum = 0;
        pl_dim found = pl_infer_dim(c, p->bias, 0);
        if (!pl_i64_add(t.size.value, t.size.value, &sum) ||
            !pl_i64_add(sum, t.v_size.value, &sum) || !pl_i64_mul(sum, t.heads, &sum)) {
            return pl_infer_fail(c, "a dim overflows");
        }
        PL_TRY(pl_meet_agree(c, "the size of bias", pl_dim_of(sum), &found));
    }
    const bool shared =
        shares_past(c->node, p, pl_infer_has(c, p->past_key), pl_infer_has(c, p->past_len));
    return mha_set(c, &t, shared);
}

/* Sizes and locations of q, k and v in their inputs, before bias and past. */
static pl_status mha_heads(pl_eval *c, pl_attention *a) {
    const pl_tensor *q = pl_in(c, 0), *k = pl_in(c, 1), *v = pl_in(c, 2);
    const int64_t n = a->q_heads;
    const void *qd = pl_attention_in(c, 0, a->wide), *kd = pl_attention_in(c, 1, a->wide);
    const void *vd = pl_attention_in(c, 2, a->wide);
    if (qd == NULL || (kd == NULL && k != NULL) || (vd == NULL && v != NULL)) {
        return pl_eval_memory(c);
    }
    if (k == NULL) {
        const bool five = q->rank == 5;
        const int64_t size = five ? q->dims[4] : q->dims[2] / 3 / n;
        const pl_heads one = { qd, 0, a->q_len * n * 3 * size, five ? 3 * size : size,
                               n * 3 * size };
        a->head_size = a->v_size = size;
        a->kv_len = a->q_len;
        a->q = a->k = a->v = one;
        a->k.offset = five ? size : n * size;
        a->v.offset = 2 * a->k.offset;
        return PL_OK;
    }
    a->head_size = q->dims[2] / n;
    a->q = pl_heads_bsnh(qd, n, a->q_len, a->head_size);
    if (k->rank == 5 || v == NULL) {
        a->kv_len = k->dims[1];
        a->v_size = a->head_size;
        const int64_t row = n * 2 * a->head_size;
        a->k = a->v = (pl_heads){ kd, 0, a->kv_len * row, 2 * a->head_size, row };
        a->v.offset = a->head_size;
        return PL_OK;
    }
    a->kv_len = k->dims[k->rank - 2];
    a->v_size = v->dims[v->rank - 1] / (v->rank == 3 ? n : 1);
    a->k = k->rank == 3 ? pl_heads_bsnh(kd, n, a->kv_len, a->head_size)
                        : pl_heads_bnsh(kd, n, a->kv_len, a->head_size);
    a->v = v->rank == 3 ? pl_heads_bsnh(vd, n, a->kv_len, a->v_size)
                        : pl_heads_bnsh(vd, n, a->kv_len, a->v_size);
    return PL_OK;
}

/* Keys of rank 4 come from another node, which has added the bias. */
static pl_status mha_bias(pl_eval *c, const mha_ports *p, pl_attention *a) {
    if (!pl_has(c, p->bias)) return PL_OK;
    const int64_t n = a->q_heads, hidden = n * a->head_size;
    const void *bias = pl_attention_in(c, p->bias, a->wide);
    if (bias == NULL) return pl_eval_memory(c);
    void *q = pl_ms_add_bias(c, a->wide, &a->q, a->batch, n, a->q_len, a->head_size, bias, 0);
    if (q == NULL) return pl_eval_memory(c);
    a->q = pl_heads_bnsh(q, n, a->q_len, a->head_size);
    if (pl_has(c, 1) && pl_in(c, 1)->rank == 4) return PL_OK;
    void *k = pl_ms_add_bias(c, a->wide, &a->k, a->batch, n, a->kv_len, a->head_size, bias, hidden);
    void *v =
        pl_ms_add_bias(c, a->wide, &a->v, a->batch, n, a->kv_len, a->v_size, bias, 2 * hidden);
    if (k == NULL || v == NULL) return pl_eval_memory(c);
    a->k = pl_heads_bnsh(k, n, a->kv_len, a->head_size);
    a->v = pl_heads_bnsh(v, n, a->kv_len, a->v_size);
    return PL_OK;
}

/* Joins past_key or past_value into its present output. */
static pl_status mha_join(pl_eval *c, const pl_attention *a, int i_past, int out, bool shared,
                          const int64_t *past_len, int64_t size, pl_heads *heads) {
    const pl_tensor *past = pl_in(c, i_past);
    if (past == NULL && !pl_wants(c, out)) return PL_OK;
    pl_cache cache = { .batch = a->batch,
                       .heads = a->q_heads,
                       .size = size,
                       .len = a->kv_len,
                       .past_len = past_len,
                       .keep_past = shared,
                       .fresh = *heads };
    if (past != NULL) {
        cache.past = pl_attention_in(c, i_past, a->wide);
        cache.past_capacity = past->dims[2];
        if (cache.past == NULL) return pl_eval_memory(c);
    }
    cache.capacity = shared ? cache.past_capacity : cache.past_capacity + a->kv_len;
    void *to = pl_attention_out(c, out, a->wide, a->batch, a->q_heads, cache.capacity, size);
    if (to == NULL) return pl_eval_memory(c);
    pl_cache_fill(&cache, a->wide, to);
    pl_attention_out_done(c, out, a->wide, to);
    *heads = pl_heads_bnsh(to, a->q_heads, cache.capacity, size);
    return PL_OK;
}

static pl_status mha_cache(pl_eval *c, const mha_ports *p, pl_attention *a, int64_t *past_len) {
    const bool shared = shares_past(c->node, p, pl_has(c, p->past_key), pl_has(c, p->past_len));
    *past_len = pl_has(c, p->past_key) ? pl_in(c, p->past_key)->dims[2] : 0;
    if (shared) *past_len = pl_in_int(c, p->past_len, 0);
    int64_t *lengths = pl_scratch(c, (size_t)a->batch, sizeof(*lengths));
    if (lengths == NULL) return pl_eval_memory(c);
    for (int64_t b = 0; b < a->batch; b++)
        lengths[b] = *past_len;
    PL_TRY(mha_join(c, a, p->past_key, 1, shared, lengths, a->head_size, &a->k));
    PL_TRY(mha_join(c, a, p->past_value, 2, shared, lengths, a->v_size, &a->v));
    a->kv_len += *past_len;
    return PL_OK;
}

static pl_status mha_eval(pl_eval *c, const mha_ports *p) {
    const pl_tensor *q = pl_in(c, 0);
    pl_attention a = { .wide = q->dtype == PL_F64, .batch = q->dims[0], .q_len = q->dims[1] };
    a.q_heads = a.kv_heads = pl_attr_int(c->node, "num_heads");
    const bool beams = p->beam_width >= 0 && pl_in_int(c, p->beam_width, 1) > 1;
    if (beams || (!p->decoder && pl_has(c, p->cache_indirection))) {
        return pl_eval_unsupported(c, "beams (cache_indirection) are not supported");
    }
    if (p->decoder && a.q_len != 1) {
        return pl_eval_fail(c, "the sequence length is %lld, expected 1", (long long)a.q_len);
    }
    if (pl_ms_is_empty(c)) return PL_OK;
    int64_t past_len = 0;
    PL_TRY(mha_heads(c, &a));
    PL_TRY(mha_bias(c, p, &a));
    PL_TRY(mha_cache(c, p, &a, &past_len));
    a.scale = pl_ms_scale(c, a.head_size);
    const double filter = pl_attr_float(c->node, "mask_filter_value");
    PL_TRY(pl_ms_bias(c, &a, p->mask, p->attention_bias, filter));
    if (!p->decoder) PL_TRY(set_causal(c, &a, past_len));
    PL_TRY(pl_ms_output(c, &a));
    if (pl_wants(c, 3)) {
        a.stage = PL_SCORES_BIASED;
        a.unseen = (double)-FLT_MAX;
        a.scores = pl_attention_out(c, 3, a.wide, a.batch, a.q_heads, a.q_len, a.kv_len);
        if (a.scores == NULL) return pl_eval_memory(c);
    }
    PL_TRY(pl_attention_run(c, &a));
    pl_attention_out_done(c, 0, a.wide, a.y);
    if (pl_wants(c, 3)) pl_attention_out_done(c, 3, a.wide, a.scores);
    return PL_OK;
}

static pl_status multi_head_infer(pl_infer *c) {
    return mha_infer(c, &multi_head_ports);
}
static pl_status multi_head_eval(pl_eval *c) {
    return mha_eval(c, &multi_head_ports);
}
static pl_status decoder_infer(pl_infer *c) {
    return mha_infer(c, &decoder_ports);
}
static pl_status decoder_eval(pl_eval *c) {
    return mha_eval(c, &decoder_ports);
}

/* ---- rows ---- */

#define F PL_T_FLOAT
#define I8 (PL_T(PL_I8) | PL_T(PL_U8))
#define I32 PL_T(PL_I32)
#define OPT PL_PORT_OPTIONAL
#define SAME PL_PORT_SAME
#define MS .domain = "com.microsoft", .since = 1
#define RULES(infer_, eval_, grad_, bound_)                                                        \
    .infer = infer_, .eval = eval_, .grad = grad_, .bound = bound_, .autocast = PL_AMP_LOW
#define KV_OUT                                                                                     \
    .out = PL_PORTS({ "output", F, 0 }, { "present_key", F, OPT }, { "present_value", F, OPT },    \
                    { "qk", F, OPT })

/* clang-format off */
const pl_op_def pl_ops_ms_attention[] = {
    { .name = "Attention", MS,
      .in = PL_PORTS({ "input", F, SAME }, { "weights", F, SAME }, { "bias", F, SAME | OPT }, { "mask_index", I32, OPT | PL_PORT_MASK },
                     { "past", F, SAME | OPT }, { "attention_bias", F, SAME | OPT }, { "past_sequence_length", I32, OPT }),
      .out = PL_PORTS({ "output", F, 0 }, { "present", F, OPT }),
      .attrs = PL_ATTRS(PL_A_INT("do_rotary", 0), PL_A_FLOAT("mask_filter_value", -10000), PL_A_REQUIRED("num_heads", INT),
                        PL_A_INT("past_present_share_buffer", 0), PL_A_LIST("qkv_hidden_sizes", INTS),
                        PL_A_INT("rotary_embedding_dim", 0), PL_A_FLOAT("scale", 0), PL_A_INT("unidirectional", 0)),
      RULES(attention_infer, attention_eval, pl_ms_attention_grad, pl_ms_attention_bound), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"),
      .samples = PL_SAMPLES(
          { "(float[2,3,4] x, float[4,24] w, float[24] b) => (y) <int32[2] m = {2, 3}> "
            "{ y = com.microsoft.Attention<num_heads=2>(x, w, b, m) }", NULL, 0 },
          { "(float[2,3,4] x, float[4,24] w, float[24] b, float[2,2,2,5,4] p) => (y, z) "
            "{ y, z = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, \"\", p) }", NULL, 0 }) },
    { .name = "DecoderMaskedMultiHeadAttention", MS,
      .in = PL_PORTS({ "query", F, SAME }, { "key", F, SAME | OPT }, { "value", F, SAME | OPT }, { "mask_index", I32, OPT | PL_PORT_MASK },
                     { "attention_bias", F, SAME | OPT }, { "past_key", F, SAME | OPT }, { "past_value", F, SAME | OPT },
                     { "past_sequence_length", I32, OPT }, { "beam_width", I32, OPT }, { "cache_indirection", I32, OPT },
                     { "bias", F, SAME | OPT }), KV_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("mask_filter_value", -10000), PL_A_REQUIRED("num_heads", INT), PL_A_INT("output_qk", 0),
                        PL_A_INT("past_present_share_buffer", 0), PL_A_FLOAT("scale", 0)),
      RULES(decoder_infer, decoder_eval, pl_ms_decoder_grad, pl_ms_decoder_bound), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"),
      .samples = PL_SAMPLES(
          { "(float[2,1,8] q, float[2,1,8] k, float[2,1,8] v, float[2,2,6,4] a, float[2,2,6,4] b) => (y, c, d) <int32[1] n = {3}> "
            "{ y, c, d = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads=2, past_present_share_buffer=1>"
            "(q, k, v, \"\", \"\", a, b, n) }", NULL, 0 },
          { "(float[2,1,24] q, float[2,2,3,4] a, float[2,2,3,4] b, float[24] e, float[1,2,1,4] f) => (y, c, d) "
            "{ y, c, d = com.microsoft.DecoderMaskedMultiHeadAttention<num_heads=2>(q, , , , f, a, b, , , , e) }", NULL, 0 }) },
    { .name = "GroupQueryAttention", MS,
      .in = PL_PORTS({ "query", F, SAME }, { "key", F, SAME | OPT }, { "value", F, SAME | OPT }, { "past_key", F, SAME | OPT },
                     { "past_value", F, SAME | OPT }, { "seqlens_k", I32, PL_PORT_LAST }, { "total_sequence_length", I32, PL_PORT_TOTAL },
                     { "cos_cache", F, SAME | OPT }, { "sin_cache", F, SAME | OPT }, { "position_ids", PL_T_I64, OPT | PL_PORT_ROWS_OF(7) },
                     { "attention_bias", F, SAME | OPT }, { "head_sink", F, SAME | OPT }, { "k_scale", F, OPT }, { "v_scale", F, OPT }),
      .out = PL_PORTS({ "output", F, 0 }, { "present_key", F, OPT }, { "present_value", F, OPT }, { "output_qk", F, OPT }),
      .attrs = PL_ATTRS(PL_A_INT("do_rotary", 0), PL_A_STRING("k_quant_type", "NONE"), PL_A_INT("kv_cache_bit_width", 0),
                        PL_A_REQUIRED("kv_num_heads", INT), PL_A_INT("local_window_size", -1), PL_A_REQUIRED("num_heads", INT),
                        PL_A_INT("qk_output", 0), PL_A_INT("rotary_interleaved", 0), PL_A_FLOAT("scale", 0),
                        PL_A_INT("smooth_softmax", -1), PL_A_FLOAT("softcap", 0), PL_A_STRING("v_quant_type", "NONE")),
      RULES(pl_ms_group_infer, pl_ms_group_eval, pl_ms_group_grad, pl_ms_group_bound), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"), .undefined = &pl_ms_group_undefined, PL_ATTENDS(0, 1, 10, 7, 1, 2, "num_heads"),
      .samples = PL_SAMPLES(
          { "(float[2,3,32] q, float[2,3,16] k, float[2,3,16] v) => (y, a, b) <int32[2] n = {2, 2}, int32 t = {3}> "
            "{ y, a, b = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, \"\", \"\", n, t) }", NULL, 0 },
          { "(float[2,1,32] q, float[2,2,6,16] c, float[2,2,6,16] d, float[8,8] e, float[8,8] f) => (y, a, b) "
            "<int32[2] n = {4, 3}, int32 t = {5}> { y, a, b = com.microsoft.GroupQueryAttention"
            "<num_heads=2, kv_num_heads=2, do_rotary=1, local_window_size=3, softcap=5.0>(q, q, q, c, d, n, t, e, f) }", NULL, 0 },
          { "(float[2,2,32] q, float[1,4,2,5] e, float[4] s, float[2,2,4,4] c, float[2,2,4,4] d) => (y, a, b) "
            "<int32[2] n = {4, 2}, int32 t = {5}> { y, a, b = com.microsoft.GroupQueryAttention"
            "<num_heads=4, kv_num_heads=2>(q, \"\", \"\", c, d, n, t, \"\", \"\", \"\", e, s) }", NULL, 0 }) },
    { .name = "MultiHeadAttention", MS,
      .in = PL_PORTS({ "query", F, SAME }, { "key", F, SAME | OPT }, { "value", F, SAME | OPT }, { "bias", F, SAME | OPT },
                     { "key_padding_mask", I32, OPT | PL_PORT_MASK }, { "attention_bias", F, SAME | OPT }, { "past_key", F, SAME | OPT },
                     { "past_value", F, SAME | OPT }, { "past_sequence_length", I32, OPT }, { "cache_indirection", I32, OPT }), KV_OUT,
      .attrs = PL_ATTRS(PL_A_FLOAT("mask_filter_value", -10000), PL_A_REQUIRED("num_heads", INT), PL_A_FLOAT("scale", 0),
                        PL_A_INT("unidirectional", 0)),
      RULES(multi_head_infer, multi_head_eval, pl_ms_multi_head_grad, pl_ms_multi_head_bound), PL_ATTENDS(0, 1, 5, -1, 1, 2, "num_heads"), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"), .flags = PL_OP_OPEN,
      .samples = PL_SAMPLES(
          { "(float[2,3,8] q, float[2,5,8] k, float[2,5,6] v, float[22] b) => (y) <int32[2,5] m = {1,1,1,1,0, 1,1,0,0,0}> "
            "{ y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, b, m) }", NULL, 0 },
          { "(float[2,3,2,3,4] q) => (y, a, b) { y, a, b = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q) }", NULL, 0 },
          { "(float[1,2,8] q, float[1,4,8] k, float[1,4,8] v) => (y) { y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v) }", NULL, 0 },
          { "(float[2,3,8] q, float[2,4,2,2,4] k, float[1,2,3,4] e) => (y) "
            "{ y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, \"\", \"\", \"\", e) }", NULL, 0 }) },
    { .name = "PagedAttention", MS,
      .in = PL_PORTS({ "query", F, SAME }, { "key", F, SAME | OPT }, { "value", F, SAME | OPT }, { "key_cache", F, SAME },
                     { "value_cache", F, SAME }, { "cumulative_sequence_length", I32, PL_PORT_OFFSETS }, { "past_seqlens", I32, PL_PORT_PAGES },
                     { "block_table", I32, PL_PORT_DISTINCT | PL_PORT_ROWS_OF(3) }, { "cos_cache", F, SAME | OPT }, { "sin_cache", F, SAME | OPT },
                     { "slot_mapping", I32, OPT | PL_PORT_SLOTS }, { "head_sink", F, SAME | OPT }, { "q_norm_weight", F, SAME | OPT },
                     { "k_norm_weight", F, SAME | OPT }, { "k_scale", F, OPT }, { "v_scale", F, OPT }, { "attention_metadata", I32, OPT }),
      .out = PL_PORTS({ "output", F, 0 }, { "key_cache_out", F, OPT }, { "value_cache_out", F, OPT }),
      .attrs = PL_ATTRS(PL_A_INT("do_rotary", 0), PL_A_INT("is_causal", 1), PL_A_STRING("k_cache_dtype", ""), PL_A_STRING("k_quant_type", "NONE"),
                        PL_A_INT("kv_cache_bit_width", 0), PL_A_STRING("kv_cache_layout", "SEPARATE"), PL_A_REQUIRED("kv_num_heads", INT),
                        PL_A_INT("local_window_size", -1), PL_A_REQUIRED("num_heads", INT), PL_A_FLOAT("qk_norm_epsilon", 1e-6),
                        PL_A_INT("rotary_interleaved", 0), PL_A_INT("rotary_offset", 0), PL_A_FLOAT("scale", 0), PL_A_INT("smooth_softmax", 0),
                        PL_A_FLOAT("softcap", 0), PL_A_STRING("v_cache_dtype", ""), PL_A_INT("v_head_size", 0), PL_A_STRING("v_quant_type", "NONE")),
      RULES(pl_ms_paged_infer, pl_ms_paged_eval, PL_GRAD_TODO, pl_ms_paged_bound), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"), .undefined = &pl_ms_paged_undefined,
      .samples = PL_SAMPLES(
          { "(float[5,32] q, float[5,16] k, float[5,16] v, float[6,4,2,8] c, float[6,4,2,8] d) => (y, a, b) <int32[4] s = {0, 2, 2, 5}, "
            "int32[3] p = {5, 3, 0}, int32[3,2] t = {4, 1, 0, 2, 5, 3}> { y, a, b = com.microsoft.PagedAttention<num_heads=4, kv_num_heads=2>"
            "(q, k, v, c, d, s, p, t) }", NULL, 0 },
          { "(float[4,64] q, float[3,4,2,8] c, float[3,4,2,8] d, float[9,3] e, float[9,3] f, float[4] h, float[8] g, float[8] i) => (y, a, b) "
            "<int32[3] s = {0, 3, 4}, int32[2] p = {4, 2}, int32[2,2] t = {1, 2, 0, 0}, int32[4] m = {8, -1, 10, 2}> "
            "{ y, a, b = com.microsoft.PagedAttention<num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=3, softcap=5.0, scale=0.3>"
            "(q, \"\", \"\", c, d, s, p, t, e, f, m, h, g, i) }", NULL, 0 },
          { "(float[5,16] q, float[2,4,2,8] c, float[2,4,2,8] d) => (y) <int32[3] s = {0, 1, 3}, int32[2] p = {1, 0}, int32[2,1] t = {1, 0}> "
            "{ y = com.microsoft.PagedAttention<num_heads=2, kv_num_heads=2, smooth_softmax=1>(q, q, q, c, d, s, p, t) }", NULL, 0 }) },
    { .name = "QAttention", MS,
      .in = PL_PORTS({ "input", I8, 0 }, { "weight", I8, 0 }, { "bias", F, SAME }, { "input_scale", F, SAME }, { "weight_scale", F, SAME },
                     { "mask_index", I32, OPT | PL_PORT_MASK }, { "input_zero_point", I8, OPT }, { "weight_zero_point", I8, OPT }, { "past", F, SAME | OPT }),
      .out = PL_PORTS({ "output", F, 0 }, { "present", F, OPT }),
      .attrs = PL_ATTRS(PL_A_INT("do_rotary", 0), PL_A_FLOAT("mask_filter_value", -10000), PL_A_REQUIRED("num_heads", INT),
                        PL_A_INT("past_present_share_buffer", 0), PL_A_FLOAT("scale", 0), PL_A_INT("unidirectional", 0)),
      RULES(q_attention_infer, q_attention_eval, PL_GRAD_UNDEFINED, pl_ms_q_attention_bound), PL_EMIT_BREAK("attention with its own cache and masks: a library routine"),
      .samples = PL_SAMPLES(
          { "(uint8[2,3,4] x, int8[4,24] w, float[24] b, float[24] s) => (y) <float i = {0.02}, int32[2] m = {2, 3}, uint8 z = {4}> "
            "{ y = com.microsoft.QAttention<num_heads=2>(x, w, b, i, s, m, z) }", "s=0.01:0.1", PL_SAMPLE_NO_GRAD }) },
    { .name = "RotaryEmbedding", MS,
      .in = PL_PORTS({ "input", F, SAME }, { "position_ids", PL_T_I64, PL_PORT_ROWS_OF(2) }, { "cos_cache", F, SAME }, { "sin_cache", F, SAME }),
      .out = PL_PORTS({ "output", F, 0 }),
      .attrs = PL_ATTRS(PL_A_INT("interleaved", 0), PL_A_INT("is_packed_batching", 0), PL_A_INT("num_heads", 0),
                        PL_A_INT("rotary_embedding_dim", 0), PL_A_FLOAT("scale", 1)),
      .infer = pl_ms_rotary_infer, .eval = pl_ms_rotary_eval, .grad = pl_ms_rotary_grad, .bound = pl_ms_rotary_bound, .emit = pl_emit_ms_rotary, .autocast = PL_AMP_KEEP,
      .samples = PL_SAMPLES(
          { "(float[2,3,16] x, float[9,4] c, float[9,4] s) => (y) <int64[1] p = {2}> "
            "{ y = com.microsoft.RotaryEmbedding(x, p, c, s) }", NULL, 0 },
          { "(float[2,2,3,8] x, float[9,2] c, float[9,2] s) => (y) <int64[2,3] p = {0,1,2, 4,5,6}> "
            "{ y = com.microsoft.RotaryEmbedding<num_heads=2, rotary_embedding_dim=4, interleaved=1>(x, p, c, s) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
