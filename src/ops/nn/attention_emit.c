/* Emission of attention, with the kernel of eager, and of rotary embeddings, as maps. */
#include <math.h>

#include "base/alloc.h"
#include "ops/emit.h"
#include "ops/lib/attention_core.h"
#include "ops/lib/emit_rotary.h"
#include "ops/nn/attention_rules.h"

/* ---- Attention-23, -24 ---- */

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD };

typedef struct attention {
    pl_attention a;
    bool flat, flat_kv, has_mask, has_nonpad;
    int64_t end, past_len; /* end: keys that the mask covers */
    bool has_past;
    int64_t bias[4];
} attention;

static pl_heads heads_at(const void *data, bool flat, int64_t heads, int64_t len, int64_t size) {
    return flat ? pl_heads_bsnh(data, heads, len, size) : pl_heads_bnsh(data, heads, len, size);
}

static pl_status run_attention(const pl_emit_args *args, pl_err *err) {
    const attention *q = args->params;
    pl_attention a = q->a;
    const int64_t *nonpad = q->has_nonpad ? args->in[q->has_mask ? 4 : 3] : NULL;
    pl_eval eval = { .pool = args->pool, .kernels = args->kernels, .err = err };
    int64_t *keys = pl_calloc((size_t)a.batch + 1, 2 * sizeof(*keys));
    if (keys == NULL) return pl_fail_memory(err, (size_t)a.batch);
    int64_t *shift = keys + a.batch + 1;
    for (int64_t b = 0; b < a.batch; b++) {
        const int64_t n = nonpad == NULL ? a.kv_len : nonpad[b];
        const int64_t valid = n < 0 ? 0 : n > a.kv_len ? a.kv_len : n;
        keys[b] = nonpad != NULL && valid < q->end ? valid : q->end;
        shift[b] = nonpad != NULL && !q->has_past ? valid - a.q_len : q->past_len;
    }
    a.visible = keys;
    a.shift = shift;
    a.q = heads_at(args->in[0], q->flat, a.q_heads, a.q_len, a.head_size);
    a.k = heads_at(args->in[1], q->flat_kv, a.kv_heads, a.kv_len, a.head_size);
    a.v = heads_at(args->in[2], q->flat_kv, a.kv_heads, a.kv_len, a.v_size);
    if (q->has_mask) {
        a.bias = (pl_heads){ args->in[3], 0, q->bias[0], q->bias[1], q->bias[2] };
        a.bias_col = q->bias[3];
    }
    a.y = args->out;
    const pl_heads y = heads_at(args->out, q->flat, a.q_heads, a.q_len, a.v_size);
    a.y_batch = y.batch;
    a.y_head = y.head;
    a.y_row = y.row;
    const pl_status st = pl_attention_run(&eval, &a);
    pl_free(keys);
    return st;
}

static void attention_sizes(const pl_emit *c, attention *q) {
    pl_attention *a = &q->a;
    const int rank = pl_emit_rank(c, Q);
    q->flat = q->flat_kv = rank == 3;
    a->batch = pl_emit_dim(c, Q, 0);
    a->q_heads = q->flat ? pl_attr_int(c->node, "q_num_heads") : pl_emit_dim(c, Q, 1);
    a->kv_heads = q->flat ? pl_attr_int(c->node, "kv_num_heads") : pl_emit_dim(c, K, 1);
    a->q_len = pl_emit_dim(c, Q, rank - 2);
    a->kv_len = pl_emit_dim(c, K, rank - 2);
    a->head_size = pl_emit_dim(c, Q, rank - 1) / (q->flat ? a->q_heads : 1);
    a->v_size = pl_emit_dim(c, V, rank - 1) / (q->flat ? a->kv_heads : 1);
    a->scale = pl_attr_has(c->node, "scale") ? pl_attr_float(c->node, "scale")
                                             : 1 / sqrt((double)a->head_size);
    a->softcap = pl_attr_float(c->node, "softcap");
    a->softmax_dtype = (pl_dtype)pl_attr_int(c->node, "softmax_precision");
    a->causal = pl_attr_int(c->node, "is_causal") != 0;
    q->has_past = pl_emit_has(c, PAST_KEY);
    q->past_len = q->has_past ? pl_emit_dim(c, PAST_KEY, 2) : 0;
}

/* Keys or values as [batch, heads, len, size] after those of the past; also output `out`. */
static pl_status cache(pl_emit *c, const attention *q, int in, int out, int64_t size, pl_ref *x) {
    static const int perm[] = { 0, 2, 1, 3 };
    const int past = in == K ? PAST_KEY : PAST_VALUE;
    const int64_t dims[] = { q->a.batch, q->a.kv_len, q->a.kv_heads, size };
    if (!pl_emit_has(c, past) && !pl_emit_wants(c, out)) return PL_OK;
    pl_ref y = pl_emit_in(c, in);
    if (q->flat) y = pl_emit_transpose(c, pl_emit_reshape(c, y, 4, dims), perm);
    if (pl_emit_has(c, past)) {
        const pl_ref both[] = { pl_emit_in(c, past), y };
        if (both[0] < 0 || both[1] < 0) return pl_emit_decline(c, "no memory");
        y = c->builder->concat(c, 2, 2, both);
    }
    *x = y;
    return pl_emit_wants(c, out) ? pl_emit_out(c, out, y) : PL_OK;
}

/* The mask as an addition to the scores; false hides a key. */
static pl_ref bias_of(pl_emit *c, attention *q, pl_dtype wide) {
    int64_t stride = 1;
    const int rank = pl_emit_rank(c, MASK);
    for (int d = rank - 1; d >= 0; d--) {
        const int64_t n = pl_emit_dim(c, MASK, d);
        q->bias[4 - rank + d] = n == 1 ? 0 : stride;
        stride *= n;
    }
    const pl_ref mask = pl_emit_in(c, MASK);
    if (c->in[MASK]->dtype != PL_BOOL) return pl_emit_convert(c, mask, wide);
    return pl_emit_map1(c, wide, "$0 ? 0 : px_low_$S", mask);
}

pl_status pl_emit_attention(pl_emit *c) {
    attention q = { 0 };
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_ref args[5] = { pl_emit_in(c, Q), pl_emit_in(c, K), pl_emit_in(c, V) };
    int n = 3;
    if (pl_emit_wants(c, 3)) return pl_emit_decline(c, "the scores are requested");
    attention_sizes(c, &q);
    q.a.wide = c->in[Q]->dtype == PL_F64 || c->in[V]->dtype == PL_F64;
    const pl_dtype wide = q.a.wide ? PL_F64 : PL_F32;
    if (q.a.head_size == 0) return pl_emit_decline(c, "heads of no elements");
    PL_TRY(cache(c, &q, K, 1, q.a.head_size, &args[1]));
    PL_TRY(cache(c, &q, V, 2, q.a.v_size, &args[2]));
    if (q.has_past || pl_emit_wants(c, 1) || pl_emit_wants(c, 2)) {
        if (pl_emit_has(c, PAST_VALUE) != q.has_past ||
            pl_emit_wants(c, 1) != pl_emit_wants(c, 2)) {
            return pl_emit_decline(c, "a cache of keys alone");
        }
        q.flat_kv = false;
        q.a.kv_len += q.past_len;
    }
    for (int i = 0; i < 3; i++)
        args[i] = pl_emit_convert(c, args[i], wide);
    q.end = q.a.kv_len;
    q.has_mask = pl_emit_has(c, MASK);
    if (q.has_mask) {
        const int64_t last = pl_emit_dim(c, MASK, pl_emit_rank(c, MASK) - 1);
        if (!(last == 1 && c->node->opset < 24)) q.end = last; /* 24 hides keys beyond it */
        args[n++] = bias_of(c, &q, wide);
    }
    q.has_nonpad = pl_emit_has(c, NONPAD);
    if (q.has_nonpad) args[n++] = pl_emit_in(c, NONPAD);
    pl_emit_out_dims(c, 0, dims);
    const pl_emit_kernel kernel = { .what = "attention",
                                    .run = run_attention,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = wide,
                                    .rank = c->out[0]->rank,
                                    .dims = dims };
    return pl_emit_out(c, 0, pl_emit_kernel_call(c, &kernel, n, args));
}

/* ---- rotary embeddings ---- */

pl_status pl_emit_rotary(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    pl_emit_rotary_sides r = { .batch = pl_emit_dim(c, 0, 0),
                               .len = pl_emit_dim(c, 0, rank - 2),
                               .dim = pl_attr_int(c->node, "rotary_embedding_dim"),
                               .interleaved = pl_attr_int(c->node, "interleaved") != 0 };
    r.heads = rank == 3 ? pl_attr_int(c->node, "num_heads") : pl_emit_dim(c, 0, 1);
    r.size = pl_emit_dim(c, 0, rank - 1) / (rank == 3 ? r.heads : 1);
    if (r.dim == 0) r.dim = r.size;
    pl_ref *const sides[] = { &r.cos, &r.sin };
    for (int i = 0; i < 2; i++) {
        if (pl_emit_has(c, 3)) {
            const int64_t dims[] = { r.batch, 1, r.len, 1 };
            const pl_ref position = pl_emit_reshape(c, pl_emit_in(c, 3), 4, dims);
            *sides[i] =
                pl_emit_cache_rows(c, 1 + i, position, r.dim / 2, pl_emit_cache_limit(c, 1, 2));
            continue;
        }
        const int64_t dims[] = { r.batch, 1, r.len, pl_emit_dim(c, 1 + i, 2) };
        const int64_t starts[4] = { 0 }, kept[] = { r.batch, 1, r.len, r.dim / 2 };
        const pl_ref all = pl_emit_reshape(c, pl_emit_in(c, 1 + i), 4, dims);
        *sides[i] = pl_emit_slice(c, all, starts, NULL, kept);
    }
    return pl_emit_rotate(c, &r);
}
