/* PagedAttention of com.microsoft: causal attention of sequences that lie side by side, over a
 * cache in blocks. New keys (normalised, rotated) and values are stored first, then every sequence
 * reads its whole history back through its row of block_table.
 *
 * Semantics: ContribOperators.md of ONNX Runtime 1.27, which has inputs 0 to 9; slot_mapping,
 * head_sink, smooth_softmax, q_norm_weight and k_norm_weight, is_causal as its
 * docs/contrib_ops/cuda/paged_attention.md adds them later. Its only kernels are for CUDA. */
#include "ops/microsoft/paged.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/microsoft/ms_attention.h"
#include "ops/microsoft/ms_attention_rules.h"

enum { OUT_KEY = 1, OUT_VALUE };

/* ---- shapes ---- */

typedef struct paged_types {
    int64_t heads, kv_heads;
    pl_dim tokens, size, batch;
} paged_types;

static pl_status refuse(const pl_infer *c, const char *what) {
    return pl_node_fail(c->err, PL_E_UNSUPPORTED, c->node, "%s is not supported", what);
}

static pl_status paged_attrs(pl_infer *c, paged_types *t) {
    PL_TRY(pl_meet_heads(c, "num_heads", &t->heads));
    PL_TRY(pl_meet_heads(c, "kv_num_heads", &t->kv_heads));
    if (t->heads > INT32_MAX || t->kv_heads > INT32_MAX) return pl_infer_fail(c, "too many heads");
    if (t->heads % t->kv_heads != 0) {
        return pl_infer_fail(c, "%lld query heads cannot share %lld key heads", (long long)t->heads,
                             (long long)t->kv_heads);
    }
    if (!pl_attr_string_is(c->node, "k_quant_type", "NONE") ||
        !pl_attr_string_is(c->node, "v_quant_type", "NONE") ||
        !pl_attr_string_is(c->node, "k_cache_dtype", "") ||
        !pl_attr_string_is(c->node, "v_cache_dtype", ""))
        return refuse(c, "a quantised cache");
    if (!pl_attr_string_is(c->node, "kv_cache_layout", "SEPARATE") ||
        pl_attr_int(c->node, "v_head_size") != 0)
        return refuse(c, "a latent cache");
    const int64_t window = pl_attr_int(c->node, "local_window_size");
    if (window == 0 || window < -1 || window > INT32_MAX) {
        return pl_infer_fail(c, "local_window_size is %lld, expected -1 or at least 1",
                             (long long)window);
    }
    if (window > 0 && pl_attr_int(c->node, "is_causal") == 0)
        return refuse(c, "a window without is_causal");
    return PL_OK;
}

static pl_status paged_rows(const pl_infer *c, paged_types *t) {
    bool known = false;
    if (pl_infer_has(c, PL_PAGED_KEY) != pl_infer_has(c, PL_PAGED_VALUE))
        return pl_infer_fail(c, "key and value are required together");
    PL_TRY(pl_meet_rank(c, PL_PAGED_QUERY, "query", 2, &known));
    t->tokens = pl_infer_dim(c, PL_PAGED_QUERY, 0);
    const bool packed = !pl_infer_has(c, PL_PAGED_KEY);
    PL_TRY(pl_meet_divide(c, "dim 1 of query", pl_infer_dim(c, PL_PAGED_QUERY, 1),
                          t->heads + (packed ? 2 * t->kv_heads : 0), &t->size));
    for (int i = PL_PAGED_KEY; i <= PL_PAGED_VALUE && !packed; i++) {
        const char *name = i == PL_PAGED_KEY ? "key" : "value";
        pl_dim size = PL_DIM_UNKNOWN;
        PL_TRY(pl_meet_rank(c, i, name, 2, &known));
        PL_TRY(pl_meet_agree(c, "the number of tokens", pl_infer_dim(c, i, 0), &t->tokens));
        PL_TRY(
            pl_meet_divide(c, "dim 1 of key or value", pl_infer_dim(c, i, 1), t->kv_heads, &size));
        PL_TRY(pl_meet_agree(c, "the head size", size, &t->size));
    }
    pl_dim blocks = PL_DIM_UNKNOWN, block = PL_DIM_UNKNOWN, heads = pl_dim_of(t->kv_heads);
    for (int i = PL_PAGED_KEY_CACHE; i <= PL_PAGED_VALUE_CACHE; i++) {
        PL_TRY(
            pl_meet_rank(c, i, i == PL_PAGED_KEY_CACHE ? "key_cache" : "value_cache", 4, &known));
        PL_TRY(pl_meet_agree(c, "the number of blocks", pl_infer_dim(c, i, 0), &blocks));
        PL_TRY(pl_meet_agree(c, "the block size", pl_infer_dim(c, i, 1), &block));
        PL_TRY(pl_meet_agree(c, "the number of kv heads", pl_infer_dim(c, i, 2), &heads));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, i, 3), &t->size));
    }
    return PL_OK;
}

static pl_status paged_lists(const pl_infer *c, paged_types *t) {
    bool known = false;
    PL_TRY(pl_meet_rank(c, PL_PAGED_PAST, "past_seqlens", 1, &known));
    PL_TRY(pl_meet_rank(c, PL_PAGED_TABLE, "block_table", 2, &known));
    PL_TRY(pl_meet_rank(c, PL_PAGED_STARTS, "cumulative_sequence_length", 1, &known));
    t->batch = pl_infer_dim(c, PL_PAGED_PAST, 0);
    PL_TRY(pl_meet_agree(c, "the batch size", pl_infer_dim(c, PL_PAGED_TABLE, 0), &t->batch));
    const pl_dim starts = pl_infer_dim(c, PL_PAGED_STARTS, 0);
    if (pl_dim_known(starts)) {
        if (starts.value < 1)
            return pl_infer_fail(c, "cumulative_sequence_length is empty, expected a first 0");
        PL_TRY(pl_meet_agree(c, "the batch size", pl_dim_of(starts.value - 1), &t->batch));
    }
    PL_TRY(pl_meet_rank(c, PL_PAGED_SLOTS, "slot_mapping", 1, &known));
    return pl_meet_agree(c, "the size of slot_mapping", pl_infer_dim(c, PL_PAGED_SLOTS, 0),
                         &t->tokens);
}

static pl_status paged_tables(const pl_infer *c, paged_types *t) {
    bool known = false;
    pl_dim width = PL_DIM_UNKNOWN, heads = pl_dim_of(t->heads);
    if (pl_infer_has(c, PL_PAGED_COS) != pl_infer_has(c, PL_PAGED_SIN))
        return pl_infer_fail(c, "cos_cache and sin_cache are required together");
    if (pl_attr_int(c->node, "do_rotary") != 0 && !pl_infer_has(c, PL_PAGED_COS))
        return pl_infer_fail(c, "do_rotary requires cos_cache and sin_cache");
    if (pl_attr_int(c->node, "rotary_offset") != 0) return refuse(c, "rotary_offset");
    for (int i = PL_PAGED_COS; i <= PL_PAGED_SIN; i++) {
        PL_TRY(pl_meet_rank(c, i, i == PL_PAGED_COS ? "cos_cache" : "sin_cache", 2, &known));
        PL_TRY(pl_meet_agree(c, "the width of the caches", pl_infer_dim(c, i, 1), &width));
    }
    if (pl_dim_known(width) && pl_dim_known(t->size) && width.value > t->size.value / 2) {
        return pl_infer_fail(c, "the caches have %lld columns, expected at most %lld",
                             (long long)width.value, (long long)(t->size.value / 2));
    }
    PL_TRY(pl_meet_rank(c, PL_PAGED_SINK, "head_sink", 1, &known));
    PL_TRY(pl_meet_agree(c, "the size of head_sink", pl_infer_dim(c, PL_PAGED_SINK, 0), &heads));
    if (pl_infer_has(c, PL_PAGED_Q_NORM) != pl_infer_has(c, PL_PAGED_K_NORM))
        return pl_infer_fail(c, "q_norm_weight and k_norm_weight are required together");
    for (int i = PL_PAGED_Q_NORM; i <= PL_PAGED_K_NORM; i++) {
        PL_TRY(pl_meet_rank(c, i, i == PL_PAGED_Q_NORM ? "q_norm_weight" : "k_norm_weight", 1,
                            &known));
        PL_TRY(pl_meet_agree(c, "the head size", pl_infer_dim(c, i, 0), &t->size));
    }
    return PL_OK;
}

pl_status pl_ms_paged_infer(pl_infer *c) {
    paged_types t = { 0, 0, PL_DIM_UNKNOWN, PL_DIM_UNKNOWN, PL_DIM_UNKNOWN };
    PL_TRY(paged_attrs(c, &t));
    PL_TRY(paged_rows(c, &t));
    PL_TRY(paged_lists(c, &t));
    PL_TRY(paged_tables(c, &t));
    pl_dim y[2] = { t.tokens, PL_DIM_UNKNOWN };
    PL_TRY(pl_meet_multiply(c, t.size, t.heads, &y[1]));
    PL_TRY(pl_infer_set(c, 0, pl_infer_dtype_of(c, PL_PAGED_QUERY), 2, y));
    for (int out = OUT_KEY; out <= OUT_VALUE; out++) {
        const int from = out == OUT_KEY ? PL_PAGED_KEY_CACHE : PL_PAGED_VALUE_CACHE;
        pl_dim dims[4];
        for (int d = 0; d < 4; d++)
            dims[d] = pl_infer_dim(c, from, d);
        dims[2] = pl_dim_of(t.kv_heads);
        dims[3] = t.size;
        PL_TRY(pl_infer_set(c, out, pl_infer_dtype_of(c, from), 4, dims));
    }
    return PL_OK;
}

/* ---- kernel ---- */

typedef struct paged {
    pl_paged p;
    pl_attention a; /* of one sequence at a time */
    int64_t longest;
} paged;

static void paged_sizes(const pl_eval *c, paged *g) {
    const pl_tensor *q = pl_in(c, PL_PAGED_QUERY), *cache = pl_in(c, PL_PAGED_KEY_CACHE);
    pl_attention *a = &g->a;
    a->wide = q->dtype == PL_F64;
    a->batch = 1;
    a->q_heads = pl_attr_int(c->node, "num_heads");
    a->kv_heads = pl_attr_int(c->node, "kv_num_heads");
    a->head_size = a->v_size = cache->dims[3];
    a->causal = pl_attr_int(c->node, "is_causal") != 0;
    a->window = pl_attr_int(c->node, "local_window_size");
    if (a->window < 0) a->window = -1;
    g->p = (pl_paged){ .batch = pl_in(c, PL_PAGED_PAST)->n_elements,
                       .tokens = q->dims[0],
                       .n_blocks = cache->dims[0],
                       .block = cache->dims[1],
                       .columns = pl_in(c, PL_PAGED_TABLE)->dims[1] };
}

static pl_status check_sequence(pl_eval *c, const paged *g, int64_t b) {
    const pl_paged *p = &g->p;
    const int64_t n = p->starts[b + 1] - p->starts[b];
    if (n < 0 || p->starts[b + 1] > p->tokens) {
        return pl_eval_fail(c, "cumulative_sequence_length[%lld] is %lld, expected %lld to %lld",
                            (long long)(b + 1), (long long)p->starts[b + 1],
                            (long long)p->starts[b], (long long)p->tokens);
    }
    int64_t room = 0;
    if (!pl_i64_mul(p->columns, p->block, &room)) room = INT64_MAX;
    if (p->past[b] < 0 || p->past[b] + n > room) {
        return pl_eval_fail(c, "past_seqlens[%lld] is %lld with %lld new tokens in room for %lld",
                            (long long)b, (long long)p->past[b], (long long)n, (long long)room);
    }
    const int64_t first = pl_paged_first(p, b, g->a.window);
    for (int64_t at = first; n > 0 && at < p->past[b] + n; at++) {
        if (pl_paged_row(p, b, at) >= 0) continue;
        return pl_eval_fail(c, "block_table[%lld, %lld] is %lld, the cache has %lld blocks",
                            (long long)b, (long long)(at / p->block),
                            (long long)p->table[b * p->columns + at / p->block],
                            (long long)p->n_blocks);
    }
    return PL_OK;
}

static pl_status paged_lengths(pl_eval *c, paged *g) {
    pl_paged *p = &g->p;
    size_t n = 0;
    p->starts = pl_in_ints(c, PL_PAGED_STARTS, &n);
    p->past = pl_in_ints(c, PL_PAGED_PAST, &n);
    p->table = pl_in_ints(c, PL_PAGED_TABLE, &n);
    p->slots = pl_has(c, PL_PAGED_SLOTS) ? pl_in_ints(c, PL_PAGED_SLOTS, &n) : NULL;
    if (p->starts == NULL || p->past == NULL || p->table == NULL ||
        (p->slots == NULL && pl_has(c, PL_PAGED_SLOTS)))
        return pl_eval_memory(c);
    if (p->starts[0] != 0) {
        return pl_eval_fail(c, "cumulative_sequence_length[0] is %lld, expected 0",
                            (long long)p->starts[0]);
    }
    for (int64_t b = 0; b < p->batch; b++) {
        PL_TRY(check_sequence(c, g, b));
        const int64_t fresh = p->starts[b + 1] - p->starts[b];
        if (fresh > 0) g->longest = pl_i64_max(g->longest, p->past[b] + fresh);
    }
    for (int64_t t = 0; p->slots != NULL && t < p->tokens; t++) {
        if (p->slots[t] >= -1 && p->slots[t] < p->n_blocks * p->block) continue;
        return pl_eval_fail(c, "slot_mapping[%lld] is %lld, the cache has %lld slots", (long long)t,
                            (long long)p->slots[t], (long long)(p->n_blocks * p->block));
    }
    return PL_OK;
}

/* q, k and v of all tokens, as one sequence. */
static pl_status paged_heads(pl_eval *c, paged *g) {
    pl_attention *a = &g->a;
    const int64_t tokens = g->p.tokens, size = a->head_size;
    const void *q = pl_attention_in(c, PL_PAGED_QUERY, a->wide);
    const void *k = pl_attention_in(c, PL_PAGED_KEY, a->wide);
    const void *v = pl_attention_in(c, PL_PAGED_VALUE, a->wide);
    if (q == NULL || (pl_has(c, PL_PAGED_KEY) && (k == NULL || v == NULL)))
        return pl_eval_memory(c);
    if (k != NULL) {
        a->q = pl_heads_bsnh(q, a->q_heads, tokens, size);
        a->k = pl_heads_bsnh(k, a->kv_heads, tokens, size);
        a->v = pl_heads_bsnh(v, a->kv_heads, tokens, size);
        return PL_OK;
    }
    const int64_t row = pl_in(c, PL_PAGED_QUERY)->dims[1];
    a->q = a->k = a->v = (pl_heads){ q, 0, tokens * row, size, row };
    a->k.offset = a->q_heads * size;
    a->v.offset = a->k.offset + a->kv_heads * size;
    return PL_OK;
}

static double element(bool wide, const void *x, int64_t i) {
    return wide ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* Every head divided by its root mean square, times the weight. */
static pl_status paged_norm(pl_eval *c, const paged *g, int weight, int64_t heads, pl_heads *x) {
    const bool wide = g->a.wide;
    const int64_t size = g->a.head_size, tokens = g->p.tokens;
    const void *w = pl_attention_in(c, weight, wide);
    void *to = pl_scratch(c, (size_t)(tokens * heads * size), pl_attention_size(wide));
    if (w == NULL || to == NULL) return pl_eval_memory(c);
    const double epsilon = pl_attr_float(c->node, "qk_norm_epsilon");
    for (int64_t i = 0; i < tokens * heads; i++) {
        const int64_t from = x->offset + i / heads * x->row + i % heads * x->head;
        double sum = 0;
        for (int64_t k = 0; k < size; k++) {
            const double one = element(wide, x->data, from + k);
            sum += one * one;
        }
        const double factor = 1 / sqrt(sum / (double)size + epsilon);
        for (int64_t k = 0; k < size; k++) {
            const double y = element(wide, x->data, from + k) * factor * element(wide, w, k);
            if (wide) {
                ((double *)to)[i * size + k] = y;
            } else {
                ((float *)to)[i * size + k] = (float)y;
            }
        }
    }
    *x = pl_heads_bsnh(to, heads, tokens, size);
    return PL_OK;
}

static pl_status paged_rotate(pl_eval *c, paged *g) {
    pl_attention *a = &g->a;
    const pl_paged *p = &g->p;
    if (pl_attr_int(c->node, "do_rotary") == 0) return PL_OK;
    const int64_t size = a->head_size;
    pl_rotary r = { .wide = a->wide, .batch = 1, .len = p->tokens, .size = size };
    r.interleaved = pl_attr_int(c->node, "rotary_interleaved") != 0;
    r.cache_cols = pl_in(c, PL_PAGED_COS)->dims[1];
    r.dim = 2 * r.cache_cols;
    r.cos = pl_attention_in(c, PL_PAGED_COS, a->wide);
    r.sin = pl_attention_in(c, PL_PAGED_SIN, a->wide);
    const size_t unit = pl_attention_size(a->wide), n = (size_t)(p->tokens * size);
    int64_t *rows = pl_scratch(c, (size_t)p->tokens, sizeof(*rows));
    void *q = pl_scratch(c, n * (size_t)a->q_heads, unit);
    void *k = pl_scratch(c, n * (size_t)a->kv_heads, unit);
    if (r.cos == NULL || r.sin == NULL || rows == NULL || q == NULL || k == NULL)
        return pl_eval_memory(c);
    const int64_t limit =
        pl_i64_min(pl_in(c, PL_PAGED_COS)->dims[0], pl_in(c, PL_PAGED_SIN)->dims[0]);
    memset(rows, 0, (size_t)p->tokens * sizeof(*rows));
    if (p->tokens > 0 && limit < 1) return pl_eval_fail(c, "cos_cache and sin_cache have no rows");
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t t = p->starts[b]; t < p->starts[b + 1]; t++) {
            rows[t] = p->past[b] + t - p->starts[b];
            if (rows[t] >= limit) {
                return pl_eval_fail(c, "position %lld is outside the caches of %lld rows",
                                    (long long)rows[t], (long long)limit);
            }
        }
    }
    r.rows = rows;
    const pl_heads to_q = pl_heads_bsnh(q, a->q_heads, p->tokens, size);
    const pl_heads to_k = pl_heads_bsnh(k, a->kv_heads, p->tokens, size);
    r.heads = a->q_heads;
    pl_rotary_run(c, &r, &a->q, q, to_q.batch, to_q.head, to_q.row);
    r.heads = a->kv_heads;
    pl_rotary_run(c, &r, &a->k, k, to_k.batch, to_k.head, to_k.row);
    a->q = to_q;
    a->k = to_k;
    return PL_OK;
}

/* The cache with the new rows in it: output `out`. */
static pl_status paged_store(pl_eval *c, const paged *g, int from, int out, const pl_heads *fresh,
                             void **cache) {
    const pl_attention *a = &g->a;
    const pl_paged *p = &g->p;
    const size_t unit = pl_attention_size(a->wide), head = (size_t)a->head_size * unit;
    const void *old = pl_attention_in(c, from, a->wide);
    char *to = pl_attention_out(c, out, a->wide, p->n_blocks, p->block, a->kv_heads, a->head_size);
    if (old == NULL || to == NULL) return pl_eval_memory(c);
    memcpy(to, old, (size_t)pl_in(c, from)->n_elements * unit);
    for (int64_t b = 0; b < p->batch; b++) {
        for (int64_t t = p->starts[b]; t < p->starts[b + 1]; t++) {
            const int64_t slot = pl_paged_slot(p, b, t, t - p->starts[b]);
            for (int64_t h = 0; slot >= 0 && h < a->kv_heads; h++) {
                const int64_t at = fresh->offset + t * fresh->row + h * fresh->head;
                memcpy(to + (size_t)(slot * a->kv_heads + h) * head,
                       (const char *)fresh->data + (size_t)at * unit, head);
            }
        }
    }
    pl_attention_out_done(c, out, a->wide, to);
    *cache = to;
    return PL_OK;
}

/* The history of sequence b in order; what no query sees stays as it is. */
static void paged_gather(const paged *g, int64_t b, const void *cache, void *to) {
    const pl_paged *p = &g->p;
    const size_t row = (size_t)(g->a.kv_heads * g->a.head_size) * pl_attention_size(g->a.wide);
    for (int64_t at = pl_paged_first(p, b, g->a.window); at < g->a.kv_len; at++)
        memcpy((char *)to + (size_t)at * row,
               (const char *)cache + (size_t)pl_paged_row(p, b, at) * row, row);
}

static pl_status paged_attend(pl_eval *c, paged *g, const void *keys, const void *values) {
    pl_attention a = g->a;
    const pl_paged *p = &g->p;
    const size_t unit = pl_attention_size(a.wide);
    int64_t n = 0;
    if (!pl_i64_mul(g->longest, a.kv_heads * a.head_size, &n)) return pl_eval_memory(c);
    void *k = pl_scratch(c, (size_t)n, unit), *v = pl_scratch(c, (size_t)n, unit);
    char *y = pl_attention_out(c, 0, a.wide, p->tokens, a.q_heads, a.head_size, 1);
    if (k == NULL || v == NULL || y == NULL) return pl_eval_memory(c);
    memset(k, 0, (size_t)n * unit);
    memset(v, 0, (size_t)n * unit);
    a.y_head = a.head_size;
    a.y_row = a.q_heads * a.head_size;
    memset(y, 0, (size_t)(p->tokens * a.y_row) * unit);
    a.k = pl_heads_bsnh(k, a.kv_heads, g->longest, a.head_size);
    a.v = pl_heads_bsnh(v, a.kv_heads, g->longest, a.head_size);
    for (int64_t b = 0; b < p->batch; b++) {
        a.q_len = p->starts[b + 1] - p->starts[b];
        if (a.q_len == 0) continue;
        a.kv_len = g->a.kv_len = p->past[b] + a.q_len;
        a.shift = &p->past[b];
        a.visible = &g->a.kv_len;
        a.q.offset = g->a.q.offset + p->starts[b] * a.q.row;
        a.y = y + (size_t)(p->starts[b] * a.y_row) * unit;
        paged_gather(g, b, keys, k);
        paged_gather(g, b, values, v);
        PL_TRY(pl_attention_run(c, &a));
    }
    pl_attention_out_done(c, 0, a.wide, y);
    return PL_OK;
}

pl_status pl_ms_paged_eval(pl_eval *c) {
    paged g;
    memset(&g, 0, sizeof(g));
    paged_sizes(c, &g);
    if (pl_ms_is_empty(c)) return PL_OK;
    pl_attention *a = &g.a;
    void *keys = NULL, *values = NULL;
    PL_TRY(paged_lengths(c, &g));
    PL_TRY(paged_heads(c, &g));
    if (pl_has(c, PL_PAGED_Q_NORM)) {
        PL_TRY(paged_norm(c, &g, PL_PAGED_Q_NORM, a->q_heads, &a->q));
        PL_TRY(paged_norm(c, &g, PL_PAGED_K_NORM, a->kv_heads, &a->k));
    }
    PL_TRY(paged_rotate(c, &g));
    PL_TRY(paged_store(c, &g, PL_PAGED_KEY_CACHE, OUT_KEY, &a->k, &keys));
    PL_TRY(paged_store(c, &g, PL_PAGED_VALUE_CACHE, OUT_VALUE, &a->v, &values));
    a->scale = pl_ms_scale(c, a->head_size);
    a->softcap = pl_attr_float(c->node, "softcap");
    PL_TRY(pl_ms_sink(c, a, PL_PAGED_SINK));
    return paged_attend(c, &g, keys, values);
}
