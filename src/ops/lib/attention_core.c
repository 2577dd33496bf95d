/* Scaled dot-product attention: splits the work into blocks and manages their buffers. */
#include "ops/lib/attention_core.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vmath.h"

enum { QUERY_BLOCK = 128, ROTARY_BLOCK = 64, ROW_ALIGN = 16 };

typedef struct key_range {
    int64_t first, end;
} key_range;

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

static key_range keys_of(const pl_attention *a, int64_t b, int64_t i) {
    key_range r = { 0, a->visible == NULL ? a->kv_len : clamp(a->visible[b], 0, a->kv_len) };
    const int64_t causal_end = i + (a->shift == NULL ? 0 : a->shift[b]) + 1;
    const bool bound = a->causal && !(a->last_free && i == a->q_len - 1);
    if (bound) r.end = pl_i64_min(r.end, pl_i64_max(causal_end, 0));
    if (a->window > 0) r.first = pl_i64_max(0, causal_end - a->window);
    r.first = pl_i64_min(r.first, r.end);
    return r;
}

typedef struct attention_block {
    const pl_attention *a;
    const pl_provider *by;
    int64_t b, h, row0, row1, key0, key1;
} attention_block;

typedef struct rotary_job {
    const pl_rotary *r;
    const pl_heads *x;
    void *to;
    int64_t to_batch, to_head, to_row;
} rotary_job;

static void round_to_f32(pl_dtype dtype, pl_f32 *x, int64_t n) {
    if (dtype != PL_F16 && dtype != PL_BF16) return;
    for (int64_t i = 0; i < n; i++) {
        x[i] = dtype == PL_F16 ? pl_f16_to_f32(pl_f16_from_f32(x[i]))
                               : pl_bf16_to_f32(pl_bf16_from_f32(x[i]));
    }
}

static void round_to_f64(pl_dtype dtype, pl_f64 *x, int64_t n) {
    if (dtype != PL_F16 && dtype != PL_BF16 && dtype != PL_F32) return;
    for (int64_t i = 0; i < n; i++) {
        float low = (float)x[i];
        if (dtype == PL_F16) low = pl_f16_to_f32(pl_f16_from_f64(x[i]));
        if (dtype == PL_BF16) low = pl_bf16_to_f32(pl_bf16_from_f64(x[i]));
        x[i] = (double)low;
    }
}

#define T float
#define E pl_f32
#define V pl_vmath_get()->f32
#define S(name) name##_f32
#include "ops/lib/attention_rows.inc"

#define T double
#define E pl_f64
#define V pl_vmath_get()->f64
#define S(name) name##_f64
#include "ops/lib/attention_rows.inc"

typedef struct attention_job {
    const pl_attention *a;
    const pl_provider *by;
    int64_t blocks; /* of queries, for each head */
    atomic_int status;
} attention_job;

/* Leaves out keys that no query of the block sees, unless the scores are an output. */
static void trim_keys(attention_block *k) {
    const pl_attention *a = k->a;
    k->key0 = 0;
    k->key1 = a->kv_len;
    if (a->stage != PL_SCORES_NONE) return;
    k->key0 = a->kv_len;
    k->key1 = 0;
    for (int64_t i = k->row0; i < k->row1; i++) {
        const key_range r = keys_of(a, k->b, i);
        k->key0 = pl_i64_min(k->key0, r.first);
        k->key1 = pl_i64_max(k->key1, r.end);
    }
    k->key0 = pl_i64_min(k->key0, k->key1);
}

static void run_blocks(void *ctx, int64_t begin, int64_t end) {
    attention_job *j = ctx;
    const pl_attention *a = j->a;
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = i % j->blocks, bh = i / j->blocks;
        attention_block k = { .a = a, .by = j->by, .b = bh / a->q_heads, .h = bh % a->q_heads };
        k.row0 = block * QUERY_BLOCK;
        k.row1 = pl_i64_min(k.row0 + QUERY_BLOCK, a->q_len);
        trim_keys(&k);
        const pl_status st = a->wide ? block_f64(&k) : block_f32(&k);
        if (st != PL_OK) atomic_store(&j->status, (int)st);
    }
}

/* Nothing to write. The other sizes are then unchecked and may be huge. */
static bool is_empty(const pl_attention *a) {
    const int64_t cols = pl_i64_max(a->v_size, a->stage == PL_SCORES_NONE ? 0 : a->kv_len);
    return a->batch == 0 || a->q_heads == 0 || a->q_len == 0 || cols == 0;
}

pl_status pl_attention_run(pl_eval *c, const pl_attention *a) {
    if (is_empty(a)) return PL_OK;
    attention_job j = { .a = a,
                        .by = c->kernels,
                        .blocks = (a->q_len + QUERY_BLOCK - 1) / QUERY_BLOCK };
    atomic_init(&j.status, PL_OK);
    pl_pool_for(c->pool, a->batch * a->q_heads * j.blocks, 1, run_blocks, &j);
    const pl_status st = (pl_status)atomic_load(&j.status);
    if (st == PL_E_MEMORY) return pl_eval_memory(c);
    return st == PL_OK ? PL_OK : pl_eval_fail(c, "the sizes of Q, K and V do not fit together");
}

/* ---- buffers ---- */

const void *pl_attention_in(pl_eval *c, int i, bool wide) {
    return wide ? (const void *)pl_in_f64(c, i) : (const void *)pl_in_f32(c, i);
}

static bool is_own(const pl_tensor *t, bool wide) {
    return t != NULL && t->dtype == (wide ? PL_F64 : PL_F32);
}

void *pl_attention_out(pl_eval *c, int i, bool wide, int64_t d0, int64_t d1, int64_t d2,
                       int64_t d3) {
    pl_tensor *t = pl_out(c, i);
    if (is_own(t, wide)) return t->data;
    const int64_t dims[] = { d0, d1, d2, d3 };
    int64_t n_elements = 0;
    if (!pl_dims_product(4, dims, &n_elements)) return NULL;
    return pl_scratch_raw(c, (size_t)n_elements, pl_attention_size(wide));
}

void pl_attention_out_done(pl_eval *c, int i, bool wide, const void *data) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || is_own(t, wide)) return;
    const size_t n = (size_t)t->n_elements;
    if (wide) {
        pl_store_f64(t->dtype, data, t->data, n);
    } else {
        pl_eval_store_f32(t->dtype, data, t->data, n);
    }
}

/* Wraps on overflow: other dims of an empty tensor may be huge, and nothing is read then. */
static int64_t times(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

pl_heads pl_heads_bnsh(const void *data, int64_t heads, int64_t len, int64_t size) {
    const int64_t matrix = times(len, size);
    return (pl_heads){ data, 0, times(heads, matrix), matrix, size };
}

pl_heads pl_heads_bsnh(const void *data, int64_t heads, int64_t len, int64_t size) {
    const int64_t row = times(heads, size);
    return (pl_heads){ data, 0, times(len, row), size, row };
}

void pl_cache_fill(const pl_cache *c, bool wide, void *to) {
    if (c->capacity == 0 || c->size == 0) return;
    if (wide) {
        cache_fill_f64(c, to);
    } else {
        cache_fill_f32(c, to);
    }
}

static void rotary_blocks(void *ctx, int64_t begin, int64_t end) {
    const rotary_job *j = ctx;
    if (j->r->wide) {
        rotary_rows_f64(j, begin, end);
    } else {
        rotary_rows_f32(j, begin, end);
    }
}

void pl_rotary_run(pl_eval *c, const pl_rotary *r, const pl_heads *x, void *to, int64_t to_batch,
                   int64_t to_head, int64_t to_row) {
    if (r->size == 0 || r->len == 0 || r->heads == 0) return;
    rotary_job j = { r, x, to, to_batch, to_head, to_row };
    pl_pool_for(c->pool, r->batch * r->heads * r->len, ROTARY_BLOCK, rotary_blocks, &j);
}
