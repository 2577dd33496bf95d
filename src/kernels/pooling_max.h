/* Max pooling for one element type. No guard: pooling.c includes it with T, E, S(name), LOWEST,
 * IS_NAN. */

/* With indices, one element after the other: y and index start at the lowest value and -1. */
static void S(max_indexed)(const job *j, int64_t plane, const E *x, E *y) {
    const pl_conv_geo *g = &j->p->c;
    pl_i64 *index = j->indices + plane * g->n_out;
    for (int64_t i = 0; i < g->n_out; i++)
        index[i] = -1;
    for (int64_t row = 0; row < g->out[0] * g->out[1]; row++) {
        tap_walk w = walk_of(g, row);
        while (walk_next(&w))
            for (int64_t o = w.first; o < w.last; o++) {
                const int64_t from = w.from + o * g->stride[2], to = row * g->out[2] + o;
                const T v = x[from], old = y[to];
                if (index[to] >= 0 && !(v > old || (IS_NAN(v) && !IS_NAN(old)))) continue;
                y[to] = v;
                index[to] = from;
            }
    }
    for (int64_t i = 0; i < g->n_out; i++)
        if (index[i] >= 0)
            index[i] =
                plane * g->n_in + (j->column_major ? column_major_of(g, index[i]) : index[i]);
}

static void S(max_row)(const job *j, const E *x, int64_t step, int64_t n, E *acc) {
#ifdef MAX_PLAIN
    (void)j;
    for (int64_t i = 0; i < n; i++)
        if (x[i * step] > acc[i]) acc[i] = x[i * step];
#else
    j->t->S(max_row)(x, step, n, acc);
#endif
}

static void S(max_range)(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const pl_conv_geo *g = &j->p->c;
    for (int64_t plane = begin; plane < end; plane++) {
        const E *x = (const E *)j->x + plane * g->n_in;
        E *y = (E *)j->y + plane * g->n_out;
        for (int64_t i = 0; i < g->n_out; i++)
            y[i] = LOWEST;
        if (j->indices != NULL) {
            S(max_indexed)(j, plane, x, y);
            continue;
        }
        for (int64_t row = 0; row < g->out[0] * g->out[1]; row++) {
            tap_walk w = walk_of(g, row);
            while (walk_next(&w))
                S(max_row)
            (j, x + w.from + w.first * g->stride[2], g->stride[2], w.last - w.first,
             y + row * g->out[2] + w.first);
        }
    }
}

pl_status S(pl_max_pool)(pl_pool *pool, const pl_pooling_shape *shape, const E *x, E *y,
                         pl_i64 *indices, bool column_major, pl_err *err) {
    geo p;
    PL_TRY(geo_of(shape, &p, err));
    if (p.c.n_out == 0) return PL_OK;
    job j = { .p = &p, .t = pl_conv_table_get(), .x = x, .y = y };
    j.indices = indices;
    j.column_major = column_major;
    pl_pool_for(pool, p.c.batch, plane_grain(&p), S(max_range), &j);
    return PL_OK;
}
