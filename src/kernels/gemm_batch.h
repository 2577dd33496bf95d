/* The public entry for one element type. No guard: gemm.c includes it twice with T, E and S(name).
 */

typedef struct S(batch_ctx) {
    const pl_gemm_shape *s;
    S(pl_gemm_job) job; /* but for the pointers */
    const E *a, *b;
    E *c;
    pl_pool *pool;
    atomic_int status;
} S(batch_ctx);

static void S(batch_range)(void *ctx, int64_t begin, int64_t end) {
    S(batch_ctx) *x = ctx;
    const pl_gemm_shape *s = x->s;
    for (int64_t i = begin; i < end; i++) {
        S(pl_gemm_job) j = x->job;
        j.a = x->a + (s->offsets_a != NULL ? s->offsets_a[i] : i * s->stride_a);
        j.b = x->b + (s->offsets_b != NULL ? s->offsets_b[i] : i * s->stride_b);
        j.c = x->c + i * s->stride_c;
        const pl_status st = S(pl_gemm_run)(x->pool, &j, NULL);
        if (st != PL_OK) atomic_store(&x->status, (int)st);
    }
}

static pl_status S(state_ensure)(pl_pool *pool, pl_gemm_state **slot, const pl_gemm_shape *s,
                                 const E *b, S(pl_gemm_job) * job, pl_err *err) {
    if (slot == NULL || !state_pays(s, pl_gemm_table_get()->S(mr))) return PL_OK;
    if (*slot == NULL || !state_matches(*slot, s, b, sizeof(T))) {
        const int64_t size = S(pl_gemm_packed_b_size)(s->k, s->n);
        PL_TRY(state_renew(slot, s, b, sizeof(T), size, err));
        job->b = b;
        S(pl_gemm_pack_b)(pool, job, (*slot)->packed);
    }
    job->b_packed = (*slot)->packed;
    return PL_OK;
}

pl_status S(pl_gemm)(pl_pool *pool, const pl_gemm_shape *shape, T alpha, const E *a, const E *b,
                     T beta, E *c, pl_gemm_state **state, pl_err *err) {
    pl_gemm_shape s;
    if (pl_libs_plain()) return S(pl_gemm_plain)(shape, alpha, a, b, beta, c, err);
    PL_TRY(pl_gemm_check(shape, sizeof(T), sizeof(T), sizeof(T), &s, err));
    fold_batch(&s);
    S(batch_ctx) x = { .s = &s, .a = a, .b = b, .c = c };
    x.job = (S(
        pl_gemm_job)){ .m = s.m, .n = s.n, .k = s.k, .ldc = s.ldc, .alpha = alpha, .beta = beta };
    x.job.a_rs = s.trans_a ? 1 : s.lda;
    x.job.a_cs = s.trans_a ? s.lda : 1;
    x.job.b_rs = s.trans_b ? 1 : s.ldb;
    x.job.b_cs = s.trans_b ? s.ldb : 1;
    PL_TRY(S(state_ensure)(pool, state, &s, b, &x.job, err));
    atomic_init(&x.status, PL_OK);
    const bool parallel = batch_is_parallel(&s, pool);
    x.pool = parallel ? NULL : pool;
    pl_pool_for(parallel ? pool : NULL, s.batch, 1, S(batch_range), &x);
    if (atomic_load(&x.status) != PL_OK) return pl_fail_memory(err, 0);
    return PL_OK;
}
