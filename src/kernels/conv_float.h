/* Convolution for one element type. No guard: conv_f32.c and conv_f64.c include it with T, E,
 * S(name).
 *
 * Four ways: a 1x1 kernel is a plain product; one channel per group runs along rows; the rest is a
 * product whose columns are filled from the staged input chunk by chunk (im2col that never leaves
 * the cache); and plain loops where padding or dilation would make staging absurd. */

typedef enum way { WAY_POINT, WAY_DEPTH, WAY_FILL, WAY_DIRECT } way;

typedef struct conv {
    pl_pool *pool;
    pl_conv_geo g;
    pl_conv_stage st;
    const pl_conv_table *t;
    const E *x, *w, *bias;
    E *y;
    const E *packed;
    const int64_t *taps;
    E *staged;          /* one batch item, or a plane for each thread (depthwise) */
    int64_t item;       /* batch item at work */
    bool groups_beside; /* groups run beside each other, each on one thread */
    pl_slots slots;
    int64_t slot_size;
    atomic_int status;
} conv;

static way way_of(const pl_conv_geo *g, const pl_conv_stage *st) {
    bool point = g->n_taps == 1;
    for (int i = 0; i < 3; i++)
        point = point && g->stride[i] == 1 && g->pad[i] == 0 && g->in[i] == g->out[i];
    if (point) return WAY_POINT;
    if (!st->fits) return WAY_DIRECT;
    return g->ci == 1 ? WAY_DEPTH : WAY_FILL;
}

/* Is row z (plane, row) of the stage read by any tap? */
static bool row_is_read(int64_t at, int64_t stride, int64_t kernel, int64_t dilation) {
    if (stride == 1 || kernel > 64) return true;
    for (int64_t k = 0; k < kernel; k++)
        if ((at - k * dilation) % stride == 0 && at >= k * dilation) return true;
    return false;
}

/* One row of the input, sorted by remainder, zeros where it is padding. */
static void stage_row(const conv *c, const E *from, E *to) {
    const pl_conv_geo *g = &c->g;
    const int64_t stride = g->stride[2];
    for (int64_t f = 0; f < stride; f++) {
        E *row = to + f * c->st.phase;
        if (!row_is_read(f + stride * g->kernel[2] * g->dilation[2], stride, g->kernel[2],
                         g->dilation[2]))
            continue;
        int64_t lo = 0, hi = 0;
        if (from != NULL) pl_conv_span(f - g->pad[2], stride, g->in[2], c->st.phase, &lo, &hi);
        memset(row, 0, (size_t)lo * sizeof(T));
        if (hi > lo) S(c->t->gather)(from + lo * stride + f - g->pad[2], stride, hi - lo, row + lo);
        memset(row + hi, 0, (size_t)(c->st.phase - hi) * sizeof(T));
    }
}

static void stage_plane(const conv *c, const E *x, E *to) {
    const pl_conv_geo *g = &c->g;
    for (int64_t z = 0; z < c->st.depth; z++) {
        const int64_t iz = z - g->pad[0];
        for (int64_t r = 0; r < c->st.height; r++) {
            const int64_t iy = r - g->pad[1];
            const bool inside = iz >= 0 && iz < g->in[0] && iy >= 0 && iy < g->in[1];
            if (!row_is_read(r, g->stride[1], g->kernel[1], g->dilation[1])) continue;
            stage_row(c, inside ? x + (iz * g->in[1] + iy) * g->in[2] : NULL,
                      to + (z * c->st.height + r) * c->st.pitch);
        }
    }
}

static void stage_range(void *ctx, int64_t begin, int64_t end) {
    const conv *c = ctx;
    const int64_t channels = c->g.groups * c->g.ci;
    for (int64_t i = begin; i < end; i++)
        stage_plane(c, c->x + (c->item * channels + i) * c->g.n_in, c->staged + i * c->st.plane);
}

/* Where output `at` of a channel reads, relative to a tap. */
static int64_t stage_of(const conv *c, int64_t at) {
    const pl_conv_geo *g = &c->g;
    const int64_t ox = at % g->out[2], oy = at / g->out[2] % g->out[1];
    const int64_t oz = at / g->out[2] / g->out[1];
    return (oz * g->stride[0] * c->st.height + oy * g->stride[1]) * c->st.pitch + ox;
}

typedef struct fill_ctx {
    const conv *c;
    const E *staged; /* of this group */
} fill_ctx;

static void fill_columns(const void *ctx, int64_t k0, int64_t len, int64_t col, int64_t cols,
                         E *to) {
    const fill_ctx *f = ctx;
    const conv *c = f->c;
    pl_conv_run runs[PL_CONV_RUNS_MAX];
    int64_t n_runs = 0;
    for (int64_t at = col; at < col + cols;) {
        const int64_t n = pl_i64_min(c->g.out[2] - at % c->g.out[2], col + cols - at);
        runs[n_runs++] = (pl_conv_run){ stage_of(c, at), n };
        at += n;
    }
    S(c->t->fill)(f->staged, c->taps + k0, len, runs, n_runs, cols, to);
}

static void group_range(void *ctx, int64_t begin, int64_t end) {
    conv *c = ctx;
    const pl_conv_geo *g = &c->g;
    const int64_t k = g->ci * g->n_taps;
    for (int64_t i = begin; i < end; i++) {
        fill_ctx f = { c, c->staged == NULL ? NULL : c->staged + i * g->ci * c->st.plane };
        const int64_t channel = c->item * g->groups * g->co + i * g->co;
        S(pl_gemm_job) j = { .m = g->co, .n = g->n_out, .k = k, .ldc = g->n_out, .alpha = 1 };
        j.a_packed = c->packed + i * g->co * k;
        j.c = c->y + channel * g->n_out;
        j.bias = c->bias == NULL ? NULL : c->bias + i * g->co;
        if (c->staged == NULL) { /* a 1x1 kernel */
            j.b = c->x + (c->item * g->groups + i) * g->ci * g->n_in;
            j.b_rs = g->n_in;
            j.b_cs = 1;
        } else {
            j.b_fill = fill_columns;
            j.b_fill_ctx = &f;
        }
        const pl_status st = S(pl_gemm_run)(c->groups_beside ? NULL : c->pool, &j, NULL);
        if (st != PL_OK) atomic_store(&c->status, (int)st);
    }
}

static pl_status run_product(conv *c, bool staged, pl_err *err) {
    const pl_conv_geo *g = &c->g;
    if (staged) {
        const int64_t n = g->groups * g->ci * c->st.plane + PL_CONV_SLACK;
        c->staged = pl_aligned_alloc(64, (size_t)n * sizeof(T));
        if (c->staged == NULL) return pl_fail_memory(err, (size_t)n * sizeof(T));
        memset(c->staged + n - PL_CONV_SLACK, 0, PL_CONV_SLACK * sizeof(T));
    }
    c->groups_beside = g->groups >= 2 * pl_pool_threads(c->pool);
    for (c->item = 0; c->item < g->batch; c->item++) {
        if (staged) pl_pool_for(c->pool, g->groups * g->ci, 4, stage_range, c);
        pl_pool_for(c->groups_beside ? c->pool : NULL, g->groups, 1, group_range, c);
    }
    pl_free(c->staged);
    return PL_OK;
}

/* Rows of output, or the whole plane at once as if rows were as wide as the stage: for narrow
 * planes that wastes fewer lanes. `line` holds one such run. */
static void depth_plane(const conv *c, const E *staged, const E *w, T bias, E *y, E *line) {
    const pl_conv_geo *g = &c->g;
    const int64_t step = g->stride[1] * c->st.pitch, flat = (g->out[1] - 1) * step + g->out[2];
    const int64_t lanes = 64 / (int64_t)sizeof(T);
    const bool whole = pl_div_up(flat, lanes) < g->out[1] * pl_div_up(g->out[2], lanes);
    for (int64_t z = 0; z < g->out[0]; z++) {
        const E *from = staged + z * g->stride[0] * c->st.height * c->st.pitch;
        E *to = y + z * g->out[1] * g->out[2];
        if (whole) S(c->t->depthwise)(from, c->taps, w, g->n_taps, bias, flat, line);
        for (int64_t r = 0; r < g->out[1]; r++) {
            if (!whole)
                S(c->t->depthwise)(from + r * step, c->taps, w, g->n_taps, bias, g->out[2], line);
            memcpy(to + r * g->out[2], whole ? line + r * step : line,
                   (size_t)g->out[2] * sizeof(T));
        }
    }
}

static void depth_range(void *ctx, int64_t begin, int64_t end) {
    conv *c = ctx;
    const pl_conv_geo *g = &c->g;
    const int slot = pl_slots_take(&c->slots);
    E *staged = c->staged + slot * c->slot_size, *line = staged + c->st.plane + PL_CONV_SLACK;
    for (int64_t i = begin; i < end; i++) { /* i: a channel of the input of one batch item */
        stage_plane(c, c->x + i * g->n_in, staged);
        for (int64_t q = 0; q < g->co; q++) {
            const int64_t channel = i % g->groups * g->co + q;
            depth_plane(c, staged, c->w + channel * g->n_taps,
                        c->bias == NULL ? 0 : c->bias[channel], c->y + (i * g->co + q) * g->n_out,
                        line);
        }
    }
    pl_slots_give(&c->slots, slot);
}

static pl_status run_depth(conv *c, pl_err *err) {
    const int64_t planes = c->g.batch * c->g.groups;
    c->slot_size = (2 * c->st.plane + 4 * PL_CONV_SLACK + 15) / 16 * 16;
    const size_t bytes =
        (size_t)(c->slot_size * pl_slots_init(&c->slots, pl_pool_threads(c->pool))) * sizeof(T);
    c->staged = pl_aligned_alloc(64, bytes);
    if (c->staged == NULL) return pl_fail_memory(err, bytes);
    memset(c->staged, 0, bytes); /* the slack is read */
    const int64_t grain = pl_i64_max(1, 16384 / (c->st.plane + 1));
    pl_pool_for(c->pool, planes, grain, depth_range, c);
    pl_free(c->staged);
    return PL_OK;
}

/* The plain loops, channels of output beside each other. */
static void direct_range(void *ctx, int64_t begin, int64_t end) {
    const conv *c = ctx;
    for (int64_t i = begin; i < end; i++) {
        const int64_t co = c->g.groups * c->g.co, channel = i % co;
        S(pl_conv_direct)
        (&c->g, c->x + i / co * c->g.groups * c->g.ci * c->g.n_in, c->w, c->bias, channel,
         c->y + i * c->g.n_out);
    }
}

/* Packed weights and tap offsets, from *slot or made anew there. */
static pl_status state_fill(conv *c, way how, pl_conv_state *st, pl_err *err) {
    static const char *const names[] = { "own gemm 1x1", "own depthwise", "own implicit gemm",
                                         "direct" };
    const pl_conv_geo *g = &c->g;
    const int64_t k = g->ci * g->n_taps, n_taps = how == WAY_DEPTH ? g->n_taps : k;
    st->what = names[how];
    if (how == WAY_DIRECT) return PL_OK;
    if (how != WAY_POINT) {
        st->taps = pl_calloc((size_t)pl_i64_max(n_taps, 1), sizeof *st->taps);
        if (st->taps == NULL) return pl_fail_memory(err, (size_t)n_taps * sizeof *st->taps);
        for (int64_t i = 0; i < n_taps; i++)
            st->taps[i] = i / g->n_taps * c->st.plane + pl_conv_stage_tap(g, &c->st, i % g->n_taps);
    }
    if (how == WAY_DEPTH) return PL_OK;
    const size_t bytes = (size_t)pl_i64_max(g->groups * g->co * k, 1) * sizeof(T);
    E *packed = pl_aligned_alloc(64, bytes);
    if (packed == NULL) return pl_fail_memory(err, bytes);
    st->packed = packed;
    for (int64_t i = 0; i < g->groups; i++) {
        S(pl_gemm_job)
        j = { .m = g->co, .n = 1, .k = k, .a = c->w + i * g->co * k, .a_rs = k, .a_cs = 1 };
        S(pl_gemm_pack_a)(c->pool, &j, packed + i * g->co * k);
    }
    return PL_OK;
}

static pl_status state_ensure(conv *c, way how, pl_conv_state **slot, pl_err *err) {
    pl_conv_state *st = *slot;
    if (st == NULL || st->w != c->w || st->elem_bytes != sizeof(T) ||
        memcmp(&st->geo, &c->g, sizeof c->g) != 0) {
        pl_conv_state_free(st);
        *slot = NULL;
        st = pl_calloc(1, sizeof *st);
        if (st == NULL) return pl_fail_memory(err, sizeof *st);
        st->w = c->w;
        st->elem_bytes = sizeof(T);
        st->geo = c->g;
        const pl_status r = state_fill(c, how, st, err);
        if (r != PL_OK) {
            pl_conv_state_free(st);
            return r;
        }
        *slot = st;
    }
    c->packed = st->packed;
    c->taps = st->taps;
    return PL_OK;
}

pl_status S(pl_conv)(pl_pool *pool, const pl_conv_shape *shape, const E *x, const E *w,
                     const E *bias, E *y, pl_conv_state **state, pl_err *err) {
    conv c = { .pool = pool, .t = pl_conv_table_get(), .x = x, .w = w, .bias = bias, .y = y };
    pl_conv_state *own = NULL;
    PL_TRY(pl_conv_geo_of(shape, &c.g, err));
    if (c.g.batch == 0 || c.g.co == 0 || c.g.n_out == 0) return PL_OK;
    c.st = pl_conv_stage_of(&c.g);
    atomic_init(&c.status, PL_OK);
    const way how = way_of(&c.g, &c.st);
    pl_status st = state_ensure(&c, how, state != NULL ? state : &own, err);
    if (st == PL_OK) {
        switch (how) {
        case WAY_POINT: st = run_product(&c, false, err); break;
        case WAY_FILL: st = run_product(&c, true, err); break;
        case WAY_DEPTH: st = run_depth(&c, err); break;
        case WAY_DIRECT:
            pl_pool_for(pool, c.g.batch * c.g.groups * c.g.co, 1, direct_range, &c);
            break;
        }
    }
    if (st == PL_OK && atomic_load(&c.status) != PL_OK) st = pl_fail_memory(err, 0);
    pl_conv_state_free(own);
    return st;
}
