/* Blocks of attention for one element type. attention_core.c includes it twice, with T the element,
 * E its unaligned form, V the vector maths of that type and S(name) the name with the type's
 * suffix. */
#ifdef T

/* Softmax in the type that the operator names; low ones round on the way in and out. */
static void S(softmax)(const pl_attention *a, E *x, int64_t n) {
    S(round_to)(a->softmax_dtype, x, n);
    V.softmax(x, x, (size_t)n);
    S(round_to)(a->softmax_dtype, x, n);
}

static const E *S(bias_row)(const pl_attention *a, int64_t b, int64_t h, int64_t i) {
    const pl_heads *p = &a->bias;
    return (const E *)p->data + p->offset + b * p->batch + h * p->head + i * p->row;
}

/* True when the bias hides all n keys. */
static bool S(add_bias)(const pl_attention *a, const E *bias, E *x, int64_t n) {
    if (a->bias_col == 0) {
        V.add_s(x, bias[0], x, (size_t)n);
        return bias[0] == (T)-INFINITY;
    }
    V.add(x, bias, x, (size_t)n);
    return V.reduce_max(bias, (size_t)n) == (T)-INFINITY;
}

static void S(fill)(E *x, int64_t n, T value) {
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* One row of scores, keys key0 .. key0 + n, from scaled products to probabilities. The row has room
 * for one more element: the sink sits there during the softmax. */
static void S(finish_row)(const attention_block *k, int64_t i, E *x) {
    const pl_attention *a = k->a;
    const int64_t n = k->key1 - k->key0;
    const key_range seen = keys_of(a, k->b, i);
    const int64_t lo = seen.first - k->key0, hi = seen.end - k->key0;
    E *out = NULL;
    if (a->stage != PL_SCORES_NONE) {
        out = (E *)a->scores + ((k->b * a->q_heads + k->h) * a->q_len + i) * a->kv_len;
    }
    if (a->stage == PL_SCORES_SCALED) memcpy(out, x, (size_t)n * sizeof(T));
    if (a->softcap > 0) {
        V.div_s(x, (T)a->softcap, x, (size_t)n);
        V.tanh(x, x, (size_t)n);
        V.mul_s(x, (T)a->softcap, x, (size_t)n);
    }
    if (a->stage == PL_SCORES_CAPPED) memcpy(out, x, (size_t)n * sizeof(T));
    bool blind = hi <= lo;
    if (a->bias.data != NULL && !blind) {
        const E *bias = S(bias_row)(a, k->b, k->h, i);
        blind = S(add_bias)(a, bias + (a->bias_col == 0 ? 0 : seen.first), x + lo, hi - lo);
    }
    if (a->stage == PL_SCORES_BIASED) {
        S(fill)(out, a->kv_len, (T)a->unseen);
        if (hi > lo) memcpy(out + seen.first, x + lo, (size_t)(hi - lo) * sizeof(T));
    }
    if (blind) {
        S(fill)(x, n, 0);
    } else {
        if (a->sink != NULL) x[hi] = ((const E *)a->sink)[k->h];
        S(softmax)(a, x + lo, hi - lo + (a->sink != NULL));
        S(fill)(x, lo, 0);
        S(fill)(x + hi, n - hi, 0);
    }
    if (a->stage == PL_SCORES_PROBS) {
        S(fill)(out, a->kv_len, 0);
        memcpy(out + k->key0, x, (size_t)n * sizeof(T));
    }
}

static pl_status S(block)(const attention_block *k) {
    const pl_attention *a = k->a;
    const int64_t n = k->key1 - k->key0, rows = k->row1 - k->row0;
    const int64_t ld = (n + 1 + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    const int64_t kv = k->h / (a->q_heads / a->kv_heads);
    E *x = pl_malloc((size_t)rows * (size_t)ld * sizeof(T));
    if (x == NULL) return PL_E_MEMORY;
    const E *q = (const E *)a->q.data + a->q.offset + k->b * a->q.batch + k->h * a->q.head +
                 k->row0 * a->q.row;
    const E *key = (const E *)a->k.data + a->k.offset + k->b * a->k.batch + kv * a->k.head +
                   k->key0 * a->k.row;
    const E *value = (const E *)a->v.data + a->v.offset + k->b * a->v.batch + kv * a->v.head +
                     k->key0 * a->v.row;
    E *y = (E *)a->y + k->b * a->y_batch + k->h * a->y_head + k->row0 * a->y_row;
    pl_gemm_shape qk = { .m = rows, .n = n, .k = a->head_size, .trans_b = true, .batch = 1 };
    qk.lda = a->q.row, qk.ldb = a->k.row, qk.ldc = ld;
    pl_gemm_shape pv = { .m = rows, .n = a->v_size, .k = n, .batch = 1 };
    pv.lda = ld, pv.ldb = a->v.row, pv.ldc = a->y_row;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, S(pl_gemm)(NULL, &qk, (T)a->scale, q, key, 0, x, NULL, NULL));
    for (int64_t i = 0; i < rows; i++)
        S(finish_row)(k, k->row0 + i, x + i * ld);
    PL_TRY_GOTO(done, st, S(pl_gemm)(NULL, &pv, 1, x, value, 0, y, NULL, NULL));
done:
    pl_free(x);
    return st;
}

static void S(cache_fill)(const pl_cache *c, E *to) {
    for (int64_t bh = 0; bh < c->batch * c->heads; bh++) {
        const int64_t b = bh / c->heads, h = bh % c->heads;
        E *row = to + bh * c->capacity * c->size;
        int64_t at = c->past == NULL ? 0 : c->past_len[b];
        if (c->past != NULL) {
            const E *past = (const E *)c->past + bh * c->past_capacity * c->size;
            const int64_t kept = c->keep_past ? pl_i64_min(c->past_capacity, c->capacity) : at;
            memcpy(row, past, (size_t)(kept * c->size) * sizeof(T));
        }
        const E *fresh =
            (const E *)c->fresh.data + c->fresh.offset + b * c->fresh.batch + h * c->fresh.head;
        for (int64_t i = 0; i < c->len; i++, at++) {
            memcpy(row + at * c->size, fresh + i * c->fresh.row, (size_t)c->size * sizeof(T));
        }
        if (c->keep_past) at = pl_i64_max(at, pl_i64_min(c->past_capacity, c->capacity));
        S(fill)(row + at * c->size, (c->capacity - at) * c->size, 0);
    }
}

/* x1, x2 are the halves of what is turned, or its even and odd elements. */
static void S(turn)(const pl_rotary *r, const E *x, const E *cos, const E *sin, E *y) {
    const int64_t half = r->dim / 2, step = r->interleaved ? 2 : 1;
    const int64_t second = r->interleaved ? 1 : half;
    for (int64_t i = 0; i < half; i++) {
        const T x1 = x[i * step], x2 = x[i * step + second];
        y[i * step] = cos[i] * x1 - sin[i] * x2;
        y[i * step + second] = sin[i] * x1 + cos[i] * x2;
    }
    memcpy(y + 2 * half, x + 2 * half, (size_t)(r->size - 2 * half) * sizeof(T));
}

static void S(rotary_rows)(const rotary_job *j, int64_t begin, int64_t end) {
    const pl_rotary *r = j->r;
    for (int64_t i = begin; i < end; i++) {
        const int64_t s = i % r->len, h = i / r->len % r->heads, b = i / r->len / r->heads;
        const int64_t row = r->rows[b * r->len + s] * r->cache_cols;
        const E *x =
            (const E *)j->x->data + j->x->offset + b * j->x->batch + h * j->x->head + s * j->x->row;
        E *y = (E *)j->to + b * j->to_batch + h * j->to_head + s * j->to_row;
        S(turn)(r, x, (const E *)r->cos + row, (const E *)r->sin + row, y);
    }
}

#undef T
#undef E
#undef V
#undef S
#endif
