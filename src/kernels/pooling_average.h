/* Average pooling for one element type. No guard: pooling.c includes it with T, E, S(name). */

static void S(average_range)(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    const pl_conv_geo *g = &j->p->c;
    double *sum = pl_malloc((size_t)g->out[2] * sizeof *sum);
    if (sum == NULL) {
        atomic_store(&j->failed, true);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t rows = g->out[0] * g->out[1], row = i % rows;
        const E *x = (const E *)j->x + i / rows * g->n_in;
        E *y = (E *)j->y + i * g->out[2];
        memset(sum, 0, (size_t)g->out[2] * sizeof *sum);
        tap_walk w = walk_of(g, row);
        while (walk_next(&w))
            j->t->S(sum_row)(x + w.from + w.first * g->stride[2], g->stride[2], w.last - w.first,
                             sum + w.first);
        const double outer = cells(j->p, 0, row / g->out[1], j->with_pad) *
                             cells(j->p, 1, row % g->out[1], j->with_pad);
        for (int64_t o = 0; o < g->out[2]; o++)
            y[o] = (T)(sum[o] / (outer * j->counts[o]));
    }
    pl_free(sum);
}

pl_status S(pl_average_pool)(pl_pool *pool, const pl_pooling_shape *shape, const E *x, E *y,
                             bool count_include_pad, pl_err *err) {
    geo p;
    PL_TRY(geo_of(shape, &p, err));
    if (p.c.n_out == 0 || p.c.batch == 0) return PL_OK;
    job j = { .p = &p, .t = pl_conv_table_get(), .x = x, .y = y };
    double *counts = pl_malloc((size_t)p.c.out[2] * sizeof *counts);
    if (counts == NULL) return pl_fail_memory(err, (size_t)p.c.out[2] * sizeof *counts);
    for (int64_t o = 0; o < p.c.out[2]; o++)
        counts[o] = cells(&p, 2, o, count_include_pad);
    j.with_pad = count_include_pad;
    j.counts = counts;
    atomic_init(&j.failed, false);
    const int64_t rows = p.c.batch * p.c.out[0] * p.c.out[1];
    const int64_t grain = pl_i64_max(1, 65536 / (p.c.out[2] * p.c.n_taps + 1));
    pl_pool_for(pool, rows, grain, S(average_range), &j);
    pl_free(counts);
    if (atomic_load(&j.failed)) return pl_fail_memory(err, 0);
    return PL_OK;
}
