/* GroupQueryAttention and RotaryEmbedding of com.microsoft.
 *
 * GroupQueryAttention is causal and keeps its keys and values in buffers: seqlens_k[b] + 1
 * positions of batch item b are valid after this step. If the step provides all of them (the first
 * prompt) the buffers start empty, otherwise it appends. */
#include <string.h>

#include "base/size.h"
#include "ops/microsoft/ms_attention.h"
#include "ops/microsoft/ms_attention_rules.h"

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, SEQLENS, TOTAL, COS, SIN, POSITION, BIAS, SINK };
enum { OUT_KEY = 1, OUT_VALUE, OUT_QK };

/* ---- shapes ---- */

typedef struct group_types {
    int64_t heads, kv_heads;
    pl_dim batch, len, size, past, total;
} group_types;

static pl_status group_inputs(const pl_infer *c, group_types *t) {
    bool known = false;
    PL_TRY(pl_meet_rank(c, QUERY, "query", 3, &known));
    t->batch = pl_infer_dim(c, QUERY, 0);
    t->len = pl_infer_dim(c, QUERY, 1);
    const pl_dim hidden = pl_infer_dim(c, QUERY, 2);
    if (pl_infer_has(c, KEY) != pl_infer_has(c, VALUE)) {
        return pl_infer_fail(c, "key and value are required together");
    }
    if (!pl_infer_has(c, KEY)) {
        if (t->heads > INT32_MAX || t->kv_heads > INT32_MAX) {
            return pl_infer_fail(c, "too many heads");
        }
        return pl_meet_divide(c, "dim 2 of query", hidden, t->heads + 2 * t->kv_heads, &t->size);
    }
    PL_TRY(pl_meet_divide(c, "dim 2 of query", hidden, t->heads, &t->size));
    for (int i = KEY; i <= VALUE; i++) {
        pl_dim size = PL_DIM_UNKNOWN;
        PL_TRY(pl_meet_rank(c, i, i == KEY ? "key" : "value", 3, &known));
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &t->batch));
        PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, i, 1), &t->len));
        PL_TRY(
            pl_meet_divide(c, "dim 2 of key or value", pl_infer_dim(c, i, 2), t->kv_heads, &size));
        PL_TRY(pl_meet_agree(c, "the head size", size, &t->size));
    }
    return PL_OK;
}

static pl_status group_past(const pl_infer *c, group_types *t) {
    t->past = pl_dim_of(0);
    if (pl_infer_has(c, PAST_KEY) != pl_infer_has(c, PAST_VALUE)) {
        return pl_infer_fail(c, "past_key and past_value are required together");
    }
    if (!pl_infer_has(c, PAST_KEY)) return PL_OK;
    t->past = PL_DIM_UNKNOWN;
    pl_dim heads = pl_dim_of(t->kv_heads);
    for (int i = PAST_KEY; i <= PAST_VALUE; i++) {
        bool known = false;
        PL_TRY(pl_meet_rank(c, i, i == PAST_KEY ? "past_key" : "past_value", 4, &known));
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, i, 0), &t->batch));
        PL_TRY(pl_meet_agree(c, "the number of kv heads", pl_infer_dim(c, i, 1), &heads));
        PL_TRY(pl_meet_agree(c, "the past length", pl_infer_dim(c, i, 2), &t->past));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, i, 3), &t->size));
    }
    return PL_OK;
}

static pl_status group_caches(const pl_infer *c, const group_types *t) {
    if (pl_infer_has(c, COS) != pl_infer_has(c, SIN)) {
        return pl_infer_fail(c, "cos_cache and sin_cache are required together");
    }
    if (pl_attr_int(c->node, "do_rotary") != 0 && !pl_infer_has(c, COS)) {
        return pl_infer_fail(c, "do_rotary requires cos_cache and sin_cache");
    }
    bool known = false;
    pl_dim width = PL_DIM_UNKNOWN;
    for (int i = COS; i <= SIN; i++) {
        PL_TRY(pl_meet_rank(c, i, i == COS ? "cos_cache" : "sin_cache", 2, &known));
        PL_TRY(pl_meet_agree(c, "the width of the caches", pl_infer_dim(c, i, 1), &width));
    }
    if (pl_dim_known(width) && pl_dim_known(t->size) && width.value > t->size.value / 2) {
        return pl_infer_fail(c, "the caches have %lld columns, expected at most %lld",
                             (long long)width.value, (long long)(t->size.value / 2));
    }
    pl_dim batch = t->batch, len = t->len, heads = pl_dim_of(t->heads);
    PL_TRY(pl_meet_rank(c, POSITION, "position_ids", 2, &known));
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, POSITION, 0), &batch));
    PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, POSITION, 1), &len));
    PL_TRY(pl_meet_rank(c, SINK, "head_sink", 1, &known));
    return pl_meet_agree(c, "the size of head_sink", pl_infer_dim(c, SINK, 0), &heads);
}

pl_status pl_ms_group_infer(pl_infer *c) {
    group_types t;
    memset(&t, 0, sizeof(t));
    PL_TRY(pl_meet_heads(c, "num_heads", &t.heads));
    PL_TRY(pl_meet_heads(c, "kv_num_heads", &t.kv_heads));
    if (t.heads % t.kv_heads != 0) {
        return pl_infer_fail(c, "%lld query heads cannot share %lld key heads", (long long)t.heads,
                             (long long)t.kv_heads);
    }
    if (!pl_attr_string_is(c->node, "k_quant_type", "NONE") ||
        !pl_attr_string_is(c->node, "v_quant_type", "NONE")) {
        return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node,
                            "quantised caches are not supported");
    }
    PL_TRY(group_inputs(c, &t));
    PL_TRY(group_past(c, &t));
    PL_TRY(group_caches(c, &t));
    PL_TRY(pl_meet_length(c, TOTAL, "total_sequence_length", &t.total));
    bool known = false;
    PL_TRY(pl_meet_rank(c, SEQLENS, "seqlens_k", 1, &known));
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, SEQLENS, 0), &t.batch));
    PL_TRY(pl_ms_check_bias(c, BIAS, t.batch, pl_dim_of(t.heads), t.len, t.total));
    pl_dim y[3] = { t.batch, t.len, PL_DIM_UNKNOWN }, room = PL_DIM_UNKNOWN;
    PL_TRY(pl_meet_multiply(c, t.size, t.heads, &y[2]));
    if (pl_dim_known(t.total) && pl_dim_known(t.past)) {
        room = pl_dim_of(pl_i64_max(t.total.value, t.past.value));
    }
    const pl_dtype dtype = pl_infer_dtype_of(c, QUERY);
    const pl_dim cache[4] = { t.batch, pl_dim_of(t.kv_heads), room, t.size };
    const pl_dim qk[4] = { t.batch, pl_dim_of(t.heads), t.len, t.total };
    PL_TRY(pl_infer_set(c, 0, dtype, 3, y));
    PL_TRY(pl_infer_set(c, OUT_KEY, dtype, 4, cache));
    PL_TRY(pl_infer_set(c, OUT_VALUE, dtype, 4, cache));
    return pl_infer_set(c, OUT_QK, dtype, 4, qk);
}

/* ---- GroupQueryAttention ---- */

typedef struct group {
    pl_attention a;
    int64_t total, capacity; /* of the batch; of the buffers */
    bool first_prompt;
    int64_t *past_len; /* for each batch item */
} group;

static void group_heads(const pl_eval *c, group *g, const void *q, const void *k, const void *v) {
    pl_attention *a = &g->a;
    if (k != NULL) {
        a->q = pl_heads_bsnh(q, a->q_heads, a->q_len, a->head_size);
        a->k = pl_heads_bsnh(k, a->kv_heads, a->q_len, a->head_size);
        a->v = pl_heads_bsnh(v, a->kv_heads, a->q_len, a->head_size);
        return;
    }
    const int64_t row = pl_in(c, QUERY)->dims[2];
    a->q = (pl_heads){ q, 0, a->q_len * row, a->head_size, row };
    a->k = a->v = a->q;
    a->k.offset = a->q_heads * a->head_size;
    a->v.offset = a->k.offset + a->kv_heads * a->head_size;
}

/* Lengths from seqlens_k, checked against the buffers. */
static pl_status group_lengths(pl_eval *c, group *g) {
    pl_attention *a = &g->a;
    size_t n = 0;
    const int64_t *seqlens = pl_in_ints(c, SEQLENS, &n);
    int64_t *visible = pl_scratch(c, (size_t)a->batch, sizeof(*visible));
    g->past_len = pl_scratch(c, (size_t)a->batch, sizeof(*g->past_len));
    if (seqlens == NULL || visible == NULL || g->past_len == NULL) return pl_eval_memory(c);
    const int64_t past_room = pl_has(c, PAST_KEY) ? pl_in(c, PAST_KEY)->dims[2] : 0;
    for (int64_t b = 0; b < a->batch; b++) {
        const int64_t past = g->first_prompt ? 0 : seqlens[b] + 1 - a->q_len;
        if (past < 0 || past > past_room || a->q_len > g->capacity - past) {
            return pl_eval_fail(
                c, "seqlens_k[%lld] is %lld with %lld new positions in a buffer of %lld",
                (long long)b, (long long)seqlens[b], (long long)a->q_len, (long long)g->capacity);
        }
        g->past_len[b] = past;
        visible[b] = a->window == 0 ? 0 : past + a->q_len;
    }
    a->visible = visible;
    a->shift = g->past_len;
    return PL_OK;
}

/* Cache row of each position: position_ids (for the first prompt its first element, counting up),
 * else the index of the position in the buffer. */
static pl_status group_positions(pl_eval *c, const group *g, pl_rotary *r) {
    const int64_t n = r->batch * r->len;
    int64_t *rows = pl_scratch(c, (size_t)n, sizeof(*rows));
    size_t n_ids = 0;
    const int64_t *ids = pl_in_ints(c, POSITION, &n_ids);
    if (rows == NULL || (ids == NULL && pl_has(c, POSITION))) return pl_eval_memory(c);
    const int64_t limit = pl_i64_min(pl_in(c, COS)->dims[0], pl_in(c, SIN)->dims[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t s = i % r->len, b = i / r->len;
        int64_t base = g->past_len[b], at = 0;
        if (ids != NULL) base = g->first_prompt ? ids[0] : ids[i];
        const bool step = ids == NULL || g->first_prompt;
        if (!pl_i64_add(base, step ? s : 0, &at) || at < 0 || at >= limit) {
            return pl_eval_fail(c, "position %lld is outside the caches of %lld rows",
                                (long long)base, (long long)limit);
        }
        rows[i] = at;
    }
    r->rows = rows;
    return PL_OK;
}

static pl_status group_rotate(pl_eval *c, group *g) {
    pl_attention *a = &g->a;
    if (pl_attr_int(c->node, "do_rotary") == 0) return PL_OK;
    pl_rotary r = { .wide = a->wide, .batch = a->batch, .len = a->q_len, .size = a->head_size };
    r.interleaved = pl_attr_int(c->node, "rotary_interleaved") != 0;
    r.cache_cols = pl_in(c, COS)->dims[1];
    r.dim = 2 * r.cache_cols;
    r.cos = pl_attention_in(c, COS, a->wide);
    r.sin = pl_attention_in(c, SIN, a->wide);
    const size_t unit = pl_attention_size(a->wide);
    const size_t n = (size_t)(a->batch * a->q_len * a->head_size);
    void *q = pl_scratch_raw(c, n * (size_t)a->q_heads, unit);
    void *k = pl_scratch_raw(c, n * (size_t)a->kv_heads, unit);
    if (r.cos == NULL || r.sin == NULL || q == NULL || k == NULL) return pl_eval_memory(c);
    PL_TRY(group_positions(c, g, &r));
    const pl_heads to_q = pl_heads_bnsh(q, a->q_heads, a->q_len, a->head_size);
    const pl_heads to_k = pl_heads_bnsh(k, a->kv_heads, a->q_len, a->head_size);
    r.heads = a->q_heads;
    pl_rotary_run(c, &r, &a->q, q, to_q.batch, to_q.head, to_q.row);
    r.heads = a->kv_heads;
    pl_rotary_run(c, &r, &a->k, k, to_k.batch, to_k.head, to_k.row);
    a->q = to_q;
    a->k = to_k;
    return PL_OK;
}

static pl_status group_join(pl_eval *c, const group *g, int i_past, int out, pl_heads *heads) {
    const pl_attention *a = &g->a;
    pl_cache cache = { .batch = a->batch,
                       .heads = a->kv_heads,
                       .size = a->head_size,
                       .len = a->q_len,
                       .capacity = g->capacity,
                       .past_len = g->past_len,
                       .fresh = *heads };
    if (pl_has(c, i_past)) {
        cache.past = pl_attention_in(c, i_past, a->wide);
        cache.past_capacity = pl_in(c, i_past)->dims[2];
        if (cache.past == NULL) return pl_eval_memory(c);
    }
    void *to = pl_attention_out(c, out, a->wide, a->batch, a->kv_heads, g->capacity, a->head_size);
    if (to == NULL) return pl_eval_memory(c);
    pl_cache_fill(&cache, a->wide, to);
    pl_attention_out_done(c, out, a->wide, to);
    *heads = pl_heads_bnsh(to, a->kv_heads, g->capacity, a->head_size);
    return PL_OK;
}

pl_status pl_ms_sink(pl_eval *c, pl_attention *a, int input) {
    if (pl_has(c, input)) {
        a->sink = pl_attention_in(c, input, a->wide);
        return a->sink == NULL ? pl_eval_memory(c) : PL_OK;
    }
    if (pl_attr_int(c->node, "smooth_softmax") != 1) return PL_OK;
    void *zeros = pl_scratch(c, (size_t)a->q_heads, pl_attention_size(a->wide));
    if (zeros == NULL) return pl_eval_memory(c);
    memset(zeros, 0, (size_t)a->q_heads * pl_attention_size(a->wide));
    a->sink = zeros;
    return PL_OK;
}

static pl_status group_scores(pl_eval *c, pl_attention *a) {
    if (!pl_wants(c, OUT_QK)) return PL_OK;
    const int64_t stage = pl_attr_int(c->node, "qk_output");
    if (stage != 1 && stage != 2) {
        return pl_eval_fail(c, "output_qk is requested, but qk_output is %lld", (long long)stage);
    }
    a->stage = stage == 1 ? PL_SCORES_BIASED : PL_SCORES_PROBS;
    a->scores = pl_attention_out(c, OUT_QK, a->wide, a->batch, a->q_heads, a->q_len, a->kv_len);
    return a->scores == NULL ? pl_eval_memory(c) : PL_OK;
}

static void group_sizes(const pl_eval *c, group *g) {
    const pl_tensor *q = pl_in(c, QUERY);
    pl_attention *a = &g->a;
    a->wide = q->dtype == PL_F64;
    a->batch = q->dims[0];
    a->q_len = q->dims[1];
    a->q_heads = pl_attr_int(c->node, "num_heads");
    a->kv_heads = pl_attr_int(c->node, "kv_num_heads");
    a->head_size = q->dims[2] / (a->q_heads + (pl_has(c, KEY) ? 0 : 2 * a->kv_heads));
    a->v_size = a->head_size;
    g->total = pl_in_int(c, TOTAL, 0);
    g->capacity = g->total;
    if (pl_has(c, PAST_KEY)) g->capacity = pl_i64_max(g->total, pl_in(c, PAST_KEY)->dims[2]);
    g->first_prompt = a->q_len == g->total;
    a->kv_len = g->total;
}

pl_status pl_ms_group_eval(pl_eval *c) {
    group g;
    memset(&g, 0, sizeof(g));
    pl_attention *a = &g.a;
    group_sizes(c, &g);
    if (pl_ms_is_empty(c)) return PL_OK;
    const void *q = pl_attention_in(c, QUERY, a->wide), *k = pl_attention_in(c, KEY, a->wide);
    const void *v = pl_attention_in(c, VALUE, a->wide);
    if (q == NULL || (pl_has(c, KEY) && (k == NULL || v == NULL))) return pl_eval_memory(c);
    group_heads(c, &g, q, k, v);
    a->causal = true;
    a->window = pl_attr_int(c->node, "local_window_size");
    PL_TRY(group_lengths(c, &g));
    PL_TRY(group_rotate(c, &g));
    PL_TRY(group_join(c, &g, PAST_KEY, OUT_KEY, &a->k));
    PL_TRY(group_join(c, &g, PAST_VALUE, OUT_VALUE, &a->v));
    a->scale = pl_ms_scale(c, a->head_size);
    a->softcap = pl_attr_float(c->node, "softcap");
    PL_TRY(pl_ms_bias(c, a, -1, BIAS, 0));
    PL_TRY(pl_ms_sink(c, a, SINK));
    PL_TRY(group_scores(c, a));
    PL_TRY(pl_ms_output(c, a));
    PL_TRY(pl_attention_run(c, a));
    pl_attention_out_done(c, 0, a->wide, a->y);
    if (pl_wants(c, OUT_QK)) pl_attention_out_done(c, OUT_QK, a->wide, a->scores);
    return PL_OK;
}

/* ---- RotaryEmbedding ---- */

enum { R_X, R_POSITION, R_COS, R_SIN };

/* Without rotary_embedding_dim the head size follows from the caches. */
static pl_status rotary_head_size(const pl_infer *c, int64_t *heads, int64_t *size) {
    const int rank = pl_infer_rank(c, R_X);
    const pl_dim last = pl_infer_dim(c, R_X, rank - 1), width = pl_infer_dim(c, R_COS, 1);
    const int64_t dim = pl_attr_int(c->node, "rotary_embedding_dim");
    const int64_t n = pl_attr_int(c->node, "num_heads");
    *heads = *size = -1;
    if (dim < 0 || dim % 2 != 0) {
        return pl_infer_fail(c, "rotary_embedding_dim is %lld", (long long)dim);
    }
    if (n < 0 || (dim > 0 && n == 0 && rank != 4)) {
        return pl_infer_fail(c, "num_heads is %lld, expected at least 1", (long long)n);
    }
    if (!pl_dim_known(last) || !pl_dim_known(width) || width.value > INT32_MAX) return PL_OK;
    if (rank == 4) {
        *size = last.value;
        *heads = pl_infer_dim(c, R_X, 1).value;
    } else {
        *size = dim > 0 ? last.value / n : 2 * width.value;
        if (*size == 0 || last.value % *size != 0 || (dim > 0 && last.value % n != 0)) {
            return pl_infer_fail(c, "cannot split %lld elements into heads of %lld",
                                 (long long)last.value, (long long)*size);
        }
        *heads = last.value / *size;
    }
    const int64_t turned = dim > 0 ? dim : *size;
    if (turned > *size || turned / 2 > width.value || turned % 2 != 0) {
        return pl_infer_fail(c, "cannot rotate %lld of %lld elements with %lld cosines",
                             (long long)turned, (long long)*size, (long long)width.value);
    }
    return PL_OK;
}

pl_status pl_ms_rotary_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, R_X), p_rank = pl_infer_rank(c, R_POSITION);
    bool known = false;
    int64_t heads = 0, size = 0;
    if (rank >= 0 && rank != 3 && rank != 4) {
        return pl_infer_fail(c, "input has rank %d, expected 3 or 4", rank);
    }
    PL_TRY(pl_meet_rank(c, R_COS, "cos_cache", 2, &known));
    PL_TRY(pl_meet_rank(c, R_SIN, "sin_cache", 2, &known));
    pl_dim width = pl_infer_dim(c, R_COS, 1), rows = pl_infer_dim(c, R_COS, 0);
    PL_TRY(pl_meet_agree(c, "the width of the caches", pl_infer_dim(c, R_SIN, 1), &width));
    PL_TRY(pl_meet_agree(c, "the length of the caches", pl_infer_dim(c, R_SIN, 0), &rows));
    if (rank >= 0) PL_TRY(rotary_head_size(c, &heads, &size));
    if (p_rank > 2) return pl_infer_fail(c, "position_ids has rank %d, expected 0 to 2", p_rank);
    if (p_rank == 2 && rank >= 0) {
        pl_dim batch = pl_infer_dim(c, R_X, 0), len = pl_infer_dim(c, R_X, rank - 2);
        PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, R_POSITION, 0), &batch));
        PL_TRY(pl_meet_agree(c, "the sequence length", pl_infer_dim(c, R_POSITION, 1), &len));
    }
    const pl_dim n = pl_infer_dim(c, R_POSITION, 0);
    if (p_rank == 1 && pl_dim_known(n) && n.value != 1) {
        return pl_infer_fail(c, "position_ids has %lld elements, expected one or a matrix",
                             (long long)n.value);
    }
    return pl_infer_set_like(c, 0, R_X);
}

static pl_status rotary_rows(pl_eval *c, pl_rotary *r) {
    const int64_t n = r->batch * r->len, limit = pl_in(c, R_COS)->dims[0];
    int64_t *rows = pl_scratch(c, (size_t)n, sizeof(*rows));
    size_t n_ids = 0;
    const int64_t *ids = pl_in_ints(c, R_POSITION, &n_ids);
    if (rows == NULL || ids == NULL) return pl_eval_memory(c);
    const bool start = pl_in(c, R_POSITION)->rank < 2;
    for (int64_t i = 0; i < n; i++) {
        const int64_t base = start ? ids[0] : ids[i];
        if (!pl_i64_add(base, start ? i % r->len : 0, &rows[i]) || rows[i] < 0 ||
            rows[i] >= limit) {
            return pl_eval_fail(c, "position %lld is outside the caches of %lld rows",
                                (long long)base, (long long)limit);
        }
    }
    r->rows = rows;
    return PL_OK;
}

pl_status pl_ms_rotary_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, R_X);
    if (x->n_elements == 0) return PL_OK;
    const int64_t dim = pl_attr_int(c->node, "rotary_embedding_dim");
    const int64_t last = x->dims[x->rank - 1];
    pl_rotary r = { .wide = x->dtype == PL_F64, .batch = x->dims[0], .len = x->dims[x->rank - 2] };
    r.cache_cols = pl_in(c, R_COS)->dims[1];
    if (x->rank == 4) {
        r.size = last;
        r.heads = x->dims[1];
    } else {
        r.size = dim > 0 ? last / pl_attr_int(c->node, "num_heads") : 2 * r.cache_cols;
        r.heads = last / r.size;
    }
    r.dim = dim > 0 ? dim : r.size;
    r.interleaved = pl_attr_int(c->node, "interleaved") != 0;
    r.cos = pl_attention_in(c, R_COS, r.wide);
    r.sin = pl_attention_in(c, R_SIN, r.wide);
    const void *data = pl_attention_in(c, R_X, r.wide);
    void *y = pl_attention_out(c, 0, r.wide, x->n_elements, 1, 1, 1);
    if (r.cos == NULL || r.sin == NULL || data == NULL || y == NULL) return pl_eval_memory(c);
    PL_TRY(rotary_rows(c, &r));
    const pl_heads from = x->rank == 4 ? pl_heads_bnsh(data, r.heads, r.len, r.size)
                                       : pl_heads_bsnh(data, r.heads, r.len, r.size);
    pl_rotary_run(c, &r, &from, y, from.batch, from.head, from.row);
    pl_attention_out_done(c, 0, r.wide, y);
    return PL_OK;
}
