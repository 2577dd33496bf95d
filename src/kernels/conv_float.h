/* Convolution for one element type. No guard: conv_f32.c and conv_f64.c include it with T, E,
 * S(name).
 *
 * A 1x1 kernel is a plain product; one channel per group runs along rows; the rest is a product
 * whose columns are read, or filled chunk by chunk, from the staged input (im2col that never leaves
 * the cache). Where there are few outputs (7 x 7) the product runs transposed, channels along the
 * vectors. Plain loops serve where padding or dilation would make staging absurd. */

typedef enum way { WAY_POINT, WAY_FILL, WAY_POINT_T, WAY_FILL_T, WAY_DEPTH, WAY_DIRECT } way;
static const char *const way_names[] = { "own 1x1 product",
                                         "own implicit product",
                                         "own 1x1 product, transposed",
                                         "own implicit product, transposed",
                                         "own depthwise",
                                         "direct" };

typedef struct conv {
    pl_pool *pool;
    pl_conv_geo g;
    pl_conv_stage st;
    way how;
    const pl_conv_table *t;
    const E *x, *w, *bias;
    E *y;
    const E *packed;
    const int64_t *taps;
    pl_conv_plan plan;
    E *staged;          /* one batch item, or a plane for each thread (depthwise) */
    E *turned;          /* transposed: (n_out, co) of each group */
    int64_t item;       /* batch item at work */
    bool groups_beside; /* groups run beside each other, each on one thread */
    pl_slots slots;
    int64_t slot_size;
    atomic_int status;
} conv;

/* Of the lanes that a product with n columns computes, how many are of use. */
static double lanes_used(int64_t n) {
    const int64_t lanes = pl_gemm_table_get()->S(nr) / 2;
    return (double)n / (double)(pl_div_up(n, lanes) * lanes);
}

static way way_of(const pl_conv_geo *g, const pl_conv_stage *st) {
    bool point = g->n_taps == 1;
    for (int i = 0; i < 3; i++)
        point = point && g->stride[i] == 1 && g->pad[i] == 0 && g->in[i] == g->out[i];
    if (!point && !st->fits) return WAY_DIRECT;
    if (!point && g->ci == 1) return WAY_DEPTH;
    const bool turn = g->n_out <= 96 && g->n_out > 1 && g->co >= 32 &&
                      lanes_used(g->n_out) < 0.9 * lanes_used(g->co);
    if (point) return turn ? WAY_POINT_T : WAY_POINT;
    return turn ? WAY_FILL_T : WAY_FILL;
}

static void stage_range(void *ctx, int64_t begin, int64_t end) {
    const conv *c = ctx;
    const int64_t channels = c->g.groups * c->g.ci;
    const E *x_end = c->x + c->g.batch * channels * c->g.n_in;
    for (int64_t i = begin; i < end; i++)
        c->t->S(stage)(&c->plan, c->x + (c->item * channels + i) * c->g.n_in, x_end,
                       c->staged + i * c->st.plane);
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

static void fill_columns(const void *ctx, int64_t k0, int64_t len, int64_t col, int64_t n,
                         int64_t stride, E *to, const E **base, const int64_t **taps) {
    const fill_ctx *f = ctx;
    const conv *c = f->c;
    const int64_t nr = pl_gemm_table_get()->S(nr), width = base == NULL ? n : stride;
    pl_conv_run runs[PL_CONV_RUNS_MAX];
    int64_t n_runs = 0;
    for (int64_t at = col; at < col + n;) {
        const int64_t len_run = pl_i64_min(c->g.out[2] - at % c->g.out[2], col + n - at);
        runs[n_runs++] = (pl_conv_run){ stage_of(c, at), len_run };
        at += len_run;
    }
    if (base != NULL && n_runs == 1 && n == nr) { /* neighbours already: nothing to copy */
        *base = f->staged + runs[0].from;
        *taps = c->taps + k0;
        return;
    }
    c->t->S(fill)(f->staged, c->taps + k0, len, runs, n_runs, n, width, stride, to);
}

static pl_status group_run(conv *c, int64_t group) {
    const pl_conv_geo *g = &c->g;
    const int64_t k = g->ci * g->n_taps, channel = (c->item * g->groups + group) * g->co;
    fill_ctx f = { c, c->staged == NULL ? NULL : c->staged + group * g->ci * c->st.plane };
    S(pl_gemm_job) j = { .m = g->co, .n = g->n_out, .k = k, .ldc = g->n_out, .alpha = 1 };
    j.fill_ctx = &f;
    j.a_packed = c->packed + group * g->co * k;
    j.c = c->y + channel * g->n_out;
    j.bias = c->bias == NULL ? NULL : c->bias + group * g->co;
    if (c->how == WAY_POINT) {
        j.b = c->x + (c->item * g->groups + group) * g->ci * g->n_in;
        j.b_rs = g->n_in;
        j.b_cs = 1;
    } else {
        j.b_fill = fill_columns;
    }
    return S(pl_gemm_run)(c->groups_beside ? NULL : c->pool, &j, NULL);
}

/* The same with outputs as rows and channels as columns, turned round afterwards. */
static pl_status group_run_turned(conv *c, int64_t group) {
    const pl_conv_geo *g = &c->g;
    const int64_t k = g->ci * g->n_taps, channel = (c->item * g->groups + group) * g->co;
    fill_ctx f = { c, c->staged == NULL ? NULL : c->staged + group * g->ci * c->st.plane };
    S(pl_gemm_job) j = { .m = g->n_out, .n = g->co, .k = k, .ldc = g->co, .alpha = 1 };
    j.fill_ctx = &f;
    j.b_packed = c->packed + group * S(pl_gemm_packed_b_size)(k, g->co);
    j.c = c->turned + group * g->n_out * g->co;
    if (c->how == WAY_POINT_T) {
        j.a = c->x + (c->item * g->groups + group) * g->ci * g->n_in;
        j.a_rs = 1;
        j.a_cs = g->n_in;
    } else {
        j.a_fill = fill_columns;
    }
    const pl_status st = S(pl_gemm_run)(c->groups_beside ? NULL : c->pool, &j, NULL);
    if (st == PL_OK)
        c->t->S(transpose)(j.c, g->n_out, g->co, c->bias == NULL ? NULL : c->bias + group * g->co,
                           c->y + channel * g->n_out);
    return st;
}

static void group_range(void *ctx, int64_t begin, int64_t end) {
    conv *c = ctx;
    for (int64_t i = begin; i < end; i++) {
        const bool turned = c->how == WAY_POINT_T || c->how == WAY_FILL_T;
        const pl_status st = turned ? group_run_turned(c, i) : group_run(c, i);
        if (st != PL_OK) atomic_store(&c->status, (int)st);
    }
}

static pl_status run_product(conv *c, pl_err *err) {
    const pl_conv_geo *g = &c->g;
    const bool staged = c->how == WAY_FILL || c->how == WAY_FILL_T;
    const bool turned = c->how == WAY_POINT_T || c->how == WAY_FILL_T;
    const int64_t n = staged ? g->groups * g->ci * c->st.plane + PL_CONV_SLACK : 0;
    const int64_t total = n + (turned ? g->groups * g->co * g->n_out : 0);
    E *scratch = NULL;
    if (total > 0) {
        scratch = pl_aligned_alloc(64, (size_t)total * sizeof(T));
        if (scratch == NULL) return pl_fail_memory(err, (size_t)total * sizeof(T));
        c->staged = staged ? scratch : NULL;
        c->turned = scratch + n;
    }
    c->groups_beside = g->groups >= 2 * pl_pool_threads(c->pool);
    for (c->item = 0; c->item < g->batch; c->item++) {
        if (staged) pl_pool_for(c->pool, g->groups * g->ci, 4, stage_range, c);
        pl_pool_for(c->groups_beside ? c->pool : NULL, g->groups, 1, group_range, c);
    }
    pl_free(scratch);
    return PL_OK;
}

/* Several rows beside each other; a few long rows one by one. `line` holds one of those. */
static void depth_plane(const conv *c, const E *staged, const E *w, T bias, E *y, E *line) {
    const pl_conv_geo *g = &c->g;
    const int64_t step = g->stride[1] * c->st.pitch;
    for (int64_t z = 0; z < g->out[0]; z++) {
        const E *from = staged + z * g->stride[0] * c->st.height * c->st.pitch;
        E *to = y + z * g->out[1] * g->out[2];
        if (g->out[1] > 2) {
            c->t->S(depthwise_rows)(from, step, c->taps, w, g->n_taps, bias, g->out[1], g->out[2],
                                    to);
            continue;
        }
        for (int64_t r = 0; r < g->out[1]; r++) {
            c->t->S(depthwise)(from + r * step, c->taps, w, g->n_taps, bias, g->out[2], line);
            memcpy(to + r * g->out[2], line, (size_t)g->out[2] * sizeof(T));
        }
    }
}

static void depth_range(void *ctx, int64_t begin, int64_t end) {
    conv *c = ctx;
    const pl_conv_geo *g = &c->g;
    const int slot = pl_slots_take(&c->slots);
    E *staged = c->staged + slot * c->slot_size, *line = staged + c->st.plane + PL_CONV_SLACK;
    for (int64_t i = begin; i < end; i++) { /* i: a channel of the input of one batch item */
        c->t->S(stage)(&c->plan, c->x + i * g->n_in, c->x + g->batch * g->groups * g->n_in, staged);
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

static pl_status state_pack(conv *c, pl_conv_state *st, pl_err *err) {
    const pl_conv_geo *g = &c->g;
    const bool turned = c->how == WAY_POINT_T || c->how == WAY_FILL_T;
    const int64_t k = g->ci * g->n_taps;
    const int64_t one =
        turned ? S(pl_gemm_packed_b_size)(k, g->co) : pl_gemm_packed_a_size(g->co, k);
    const size_t bytes = (size_t)pl_i64_max(g->groups * one, 1) * sizeof(T);
    E *packed = pl_aligned_alloc(64, bytes);
    if (packed == NULL) return pl_fail_memory(err, bytes);
    st->packed = packed;
    for (int64_t i = 0; i < g->groups; i++) {
        S(pl_gemm_job) j = { .m = g->co, .n = g->co, .k = k };
        j.a = j.b = c->w + i * g->co * k;
        j.a_rs = j.b_cs = k;
        j.a_cs = j.b_rs = 1;
        if (turned)
            S(pl_gemm_pack_b)(c->pool, &j, packed + i * one);
        else
            S(pl_gemm_pack_a)(c->pool, &j, packed + i * one);
    }
    return PL_OK;
}

/* Tap offsets, the staging plan, packed weights: whatever this way needs. */
static pl_status state_fill(conv *c, pl_conv_state *st, pl_err *err) {
    const pl_conv_geo *g = &c->g;
    const int64_t n_taps = g->ci * g->n_taps;
    st->what = way_names[c->how];
    if (c->how == WAY_DIRECT) return PL_OK;
    if (c->how == WAY_FILL || c->how == WAY_FILL_T || c->how == WAY_DEPTH) {
        st->taps = pl_calloc((size_t)pl_i64_max(n_taps, 1), sizeof *st->taps);
        if (st->taps == NULL) return pl_fail_memory(err, (size_t)n_taps * sizeof *st->taps);
        for (int64_t i = 0; i < n_taps; i++)
            st->taps[i] = i / g->n_taps * c->st.plane + pl_conv_stage_tap(g, &c->st, i % g->n_taps);
        PL_TRY(pl_conv_plan_make(st, &c->st, err));
    }
    return c->how == WAY_DEPTH ? PL_OK : state_pack(c, st, err);
}

static pl_status state_ensure(conv *c, pl_conv_state **slot, pl_err *err) {
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
        const pl_status r = state_fill(c, st, err);
        if (r != PL_OK) {
            pl_conv_state_free(st);
            return r;
        }
        *slot = st;
    }
    c->packed = st->packed;
    c->taps = st->taps;
    c->plan = st->plan;
    return PL_OK;
}

pl_status S(pl_conv)(pl_pool *pool, const pl_conv_shape *shape, const E *x, const E *w,
                     const E *bias, E *y, pl_conv_state **state, pl_err *err) {
    conv c = { .pool = pool, .t = pl_conv_table_get(), .x = x, .w = w, .bias = bias, .y = y };
    pl_conv_state *own = NULL;
    if (pl_libs_plain()) return S(pl_conv_plain)(shape, x, w, bias, y, err);
    PL_TRY(pl_conv_geo_of(shape, &c.g, err));
    if (c.g.batch == 0 || c.g.co == 0 || c.g.n_out == 0) return PL_OK;
    c.st = pl_conv_stage_of(&c.g);
    atomic_init(&c.status, PL_OK);
    c.how = way_of(&c.g, &c.st);
    pl_status st = state_ensure(&c, state != NULL ? state : &own, err);
    if (st == PL_OK) {
        if (c.how == WAY_DEPTH)
            st = run_depth(&c, err);
        else if (c.how == WAY_DIRECT)
            pl_pool_for(pool, c.g.batch * c.g.groups * c.g.co, 1, direct_range, &c);
        else
            st = run_product(&c, err);
    }
    if (st == PL_OK && atomic_load(&c.status) != PL_OK) st = pl_fail_memory(err, 0);
    pl_conv_state_free(own);
    return st;
}
