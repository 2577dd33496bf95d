/* Transposed convolution for one element type. No guard: conv_transpose.c includes it twice.
 *
 * Columns = W^T X for a block of output channels, then each channel adds its columns up, taps in
 * memory order: every output sums over taps of (sum over input channels). */

typedef struct S(back) {
    pl_conv_geo g;
    const pl_conv_table *t;
    const E *cols; /* (channels of the block, taps, in) */
    const E *bias;
    E *y;          /* first channel of the block */
    int64_t first; /* its number */
} S(back);

static void S(back_plane)(const S(back) * b, const E *cols, E *y) {
    const pl_conv_geo *g = &b->g;
    for (int64_t tap = 0; tap < g->n_taps; tap++) {
        const int64_t ax = tap % g->kernel[2] * g->dilation[2] - g->pad[2];
        const int64_t ay = tap / g->kernel[2] % g->kernel[1] * g->dilation[1] - g->pad[1];
        const int64_t az = tap / g->kernel[2] / g->kernel[1] * g->dilation[0] - g->pad[0];
        int64_t lo[3], hi[3];
        pl_conv_span(az, g->stride[0], g->out[0], g->in[0], &lo[0], &hi[0]);
        pl_conv_span(ay, g->stride[1], g->out[1], g->in[1], &lo[1], &hi[1]);
        pl_conv_span(ax, g->stride[2], g->out[2], g->in[2], &lo[2], &hi[2]);
        for (int64_t z = lo[0]; z < hi[0] && hi[2] > lo[2]; z++)
            for (int64_t r = lo[1]; r < hi[1]; r++) {
                const int64_t oz = z * g->stride[0] + az, oy = r * g->stride[1] + ay;
                b->t->S(scatter)(cols + tap * g->n_in + (z * g->in[1] + r) * g->in[2] + lo[2],
                                 g->stride[2], hi[2] - lo[2],
                                 y + (oz * g->out[1] + oy) * g->out[2] + lo[2] * g->stride[2] + ax);
            }
    }
}

static void S(back_range)(void *ctx, int64_t begin, int64_t end) {
    const S(back) *b = ctx;
    for (int64_t i = begin; i < end; i++) {
        E *y = b->y + i * b->g.n_out;
        memset(y, 0, (size_t)b->g.n_out * sizeof(T));
        S(back_plane)(b, b->cols + i * b->g.n_taps * b->g.n_in, y);
        for (int64_t j = 0; b->bias != NULL && j < b->g.n_out; j++)
            y[j] += b->bias[b->first + i];
    }
}

/* Channels first … first + n of one group of one batch item. */
static pl_status S(back_block)(pl_pool *pool, S(back) * b, const E *x, const E *w, int64_t n,
                               E *cols, pl_err *err) {
    const pl_conv_geo *g = &b->g;
    const int64_t q = b->first % g->co; /* w of this group: (ci, co, taps) */
    S(pl_gemm_job) j = { .m = n * g->n_taps, .n = g->n_in, .k = g->ci, .ldc = g->n_in, .alpha = 1 };
    j.a = w + q * g->n_taps;
    j.a_rs = 1;
    j.a_cs = g->co * g->n_taps;
    j.b = x;
    j.b_rs = g->n_in;
    j.b_cs = 1;
    j.c = cols;
    PL_TRY(S(pl_gemm_run)(pool, &j, err));
    pl_pool_for(pool, n, 1, S(back_range), b);
    return PL_OK;
}

pl_status S(pl_conv_transpose)(pl_pool *pool, const pl_conv_shape *shape, const E *x, const E *w,
                               const E *bias, E *y, pl_err *err) {
    S(back) b = { .t = pl_conv_table_get(), .bias = bias };
    pl_status st = PL_OK;
    if (pl_libs_plain()) return S(pl_conv_transpose_plain)(shape, x, w, bias, y, err);
    PL_TRY(pl_conv_geo_of(shape, &b.g, err));
    const pl_conv_geo *g = &b.g;
    if (g->batch == 0 || g->co == 0 || g->n_out == 0) return PL_OK;
    const int64_t one = pl_i64_max(1, g->n_taps * g->n_in);
    const int64_t step = pl_i64_max(1, pl_i64_min(g->co, COLS_MAX / one));
    size_t bytes;
    if (!pl_size_mul((size_t)one, (size_t)step * sizeof(T), &bytes))
        return pl_fail_memory(err, SIZE_MAX);
    E *cols = pl_aligned_alloc(64, bytes);
    if (cols == NULL) return pl_fail_memory(err, bytes);
    b.cols = cols;
    for (int64_t item = 0; item < g->batch * g->groups; item++) {
        const int64_t group = item % g->groups;
        for (int64_t c = 0; c < g->co; c += step) {
            b.first = group * g->co + c;
            b.y = y + (item * g->co + c) * g->n_out;
            PL_TRY_GOTO(done, st,
                        S(back_block)(pool, &b, x + item * g->ci * g->n_in,
                                      w + group * g->ci * g->co * g->n_taps,
                                      pl_i64_min(step, g->co - c), cols, err));
        }
    }
done:
    pl_free(cols);
    return st;
}
