/* The blocked product for one element type. No guard: gemm_f32.c and gemm_f64.c include it with
 * T element, E its unaligned form, S(name) the name with the type's suffix.
 *
 * A job runs in super-blocks (rows x columns x k) small enough for their packed copies to stay
 * within SUPER elements each; each super-block is packed and computed by the pool, tiles in any
 * order. */

enum {
    SUPER = 2 << 20,
    SMALL = 8192,
    CHUNK_COLS = 4,
    CHUNK_ROWS = 8,
    VECTOR_COLS = 512,
    LAZY_SLACK = 64
};

/* How B reaches the tiles. */
typedef enum b_mode {
    B_PACKED, /* by the caller */
    B_DIRECT, /* read where it lies, but for the ragged last panel: few rows, or little k */
    B_LAZY,   /* packed chunk by chunk by the thread that uses it: it stays in its cache */
    B_FIRST   /* all packed first: so many rows that the chunks are shared */
} b_mode;

typedef struct super {
    const pl_gemm_table *t;
    const S(pl_gemm_job) * job;
    pl_gemm_blocks blocks;
    int64_t mr, nr, panels_a, panels_b;
    int64_t row0, row1, pa0, pa1; /* rows and panels of A */
    int64_t pb0, pb1;             /* panels of B */
    int64_t kb0, kb1;             /* blocks of k */
    b_mode mode;
    pl_slots slots; /* B_LAZY: a buffer for each thread */
    E *a, *b;       /* packed copies of this super-block */
    int64_t chunks_a, chunks_b, chunk_rows, lazy_size;
} super;

static int64_t k_start(const super *s, int64_t kb) {
    return kb * s->blocks.kc;
}
static int64_t k_end(const super *s, int64_t kb) {
    return k_start(s, kb) + pl_gemm_block_len(&s->blocks, kb);
}
static int64_t row_of(const super *s, int64_t panel) {
    return pl_gemm_panel_row(s->job->m, s->panels_a, panel);
}

/* Packed A of rows r0 … r1: blocks of k one after the other, in each the panels. */
static E *a_panel(const super *s, E *base, int64_t r0, int64_t r1, int64_t kb, int64_t kb0,
                  int64_t row) {
    const int64_t before = k_start(s, kb) - k_start(s, kb0), len = k_end(s, kb) - k_start(s, kb);
    return base + before * (r1 - r0) + (row - r0) * len;
}
static E *b_panel(const super *s, E *base, int64_t p0, int64_t p1, int64_t kb, int64_t kb0,
                  int64_t panel) {
    const int64_t before = k_start(s, kb) - k_start(s, kb0), len = k_end(s, kb) - k_start(s, kb);
    return base + (before * (p1 - p0) + (panel - p0) * len) * s->nr;
}

static void pack_a_range(void *ctx, int64_t begin, int64_t end) {
    const super *s = ctx;
    const S(pl_gemm_job) *j = s->job;
    for (int64_t p = begin; p < end; p++) {
        const int64_t panel = s->pa0 + p, row = row_of(s, panel), rows = row_of(s, panel + 1) - row;
        for (int64_t kb = s->kb0; kb < s->kb1; kb++) {
            const int64_t k0 = k_start(s, kb);
            E *to = a_panel(s, s->a, s->row0, s->row1, kb, s->kb0, row);
            if (j->a_fill != NULL) {
                j->a_fill(j->fill_ctx, k0, k_end(s, kb) - k0, row, rows, rows, to, NULL, NULL);
                continue;
            }
            s->t->S(pack_a)(j->a + row * j->a_rs + k0 * j->a_cs, j->a_rs, j->a_cs, rows,
                            k_end(s, kb) - k0, to);
        }
    }
}
static void pack_b_range(void *ctx, int64_t begin, int64_t end) {
    const super *s = ctx;
    const S(pl_gemm_job) *j = s->job;
    for (int64_t p = begin; p < end; p++) {
        const int64_t panel = s->pb0 + p, col = panel * s->nr;
        const int64_t cols = pl_i64_min(s->nr, j->n - col);
        for (int64_t kb = s->kb0; kb < s->kb1; kb++) {
            const int64_t k0 = k_start(s, kb);
            s->t->S(pack_b)(j->b + k0 * j->b_rs + col * j->b_cs, j->b_rs, j->b_cs,
                            k_end(s, kb) - k0, cols,
                            b_panel(s, s->b, s->pb0, s->pb1, kb, s->kb0, panel));
        }
    }
}

/* Where a panel of B lies. */
typedef struct b_place {
    const E *b;
    int64_t ldb;
    const int64_t *taps;
} b_place;

/* `lazy` is the thread's buffer, from panel pb0. */
static b_place b_source(const super *s, int64_t kb, int64_t panel, E *lazy, int64_t pb0) {
    const S(pl_gemm_job) *j = s->job;
    const int64_t k0 = k_start(s, kb), len = k_end(s, kb) - k0, col = panel * s->nr;
    b_place r = { NULL, s->nr, NULL };
    if (s->mode == B_PACKED) {
        r.b = j->b_packed + (k0 * s->panels_b + panel * len) * s->nr;
    } else if (s->mode == B_FIRST) {
        r.b = b_panel(s, s->b, s->pb0, s->pb1, kb, s->kb0, panel);
    } else if (s->mode == B_LAZY) {
        E *to = lazy + (panel - pb0) * len * s->nr;
        const int64_t cols = pl_i64_min(s->nr, j->n - col);
        r.b = to;
        if (j->b_fill != NULL)
            j->b_fill(j->fill_ctx, k0, len, col, cols, s->nr, to, &r.b, &r.taps);
        else
            s->t->S(pack_b)(j->b + k0 * j->b_rs + col * j->b_cs, j->b_rs, j->b_cs, len, cols, to);
    } else if (col + s->nr > j->n) {
        r.b = b_panel(s, s->b, panel, panel + 1, kb, s->kb0, panel);
    } else {
        r.b = j->b + k0 * j->b_rs + col;
        r.ldb = j->b_rs;
    }
    return r;
}

static void tile_run(const super *s, int64_t kb, int64_t pa, int64_t pb, const b_place *b) {
    const S(pl_gemm_job) *j = s->job;
    const int64_t row = row_of(s, pa), col = pb * s->nr, k0 = k_start(s, kb);
    const bool last = kb + 1 == s->blocks.n;
    S(pl_tile) t;
    t.k = k_end(s, kb) - k0;
    if (j->a_packed != NULL)
        t.a = j->a_packed + k0 * j->m + row * t.k;
    else
        t.a = a_panel(s, s->a, s->row0, s->row1, kb, s->kb0, row);
    t.b = b->b;
    t.ldb = b->ldb;
    t.taps = b->taps;
    t.c = j->c + row * j->ldc + col;
    t.ldc = j->ldc;
    t.rows = row_of(s, pa + 1) - row;
    t.cols = pl_i64_min(s->nr, j->n - col);
    t.alpha = j->alpha;
    t.beta = kb == 0 ? j->beta : 1;
    t.bias = last && j->bias != NULL ? j->bias + row : NULL;
    s->t->S(tile)(&t);
}

/* A panel of A stays in the first cache while those of B pass: C is written in longer runs. */
static void compute_block(const super *s, int64_t kb, int64_t ca, int64_t ea, int64_t cb,
                          int64_t eb, E *lazy) {
    b_place b[CHUNK_COLS];
    for (int64_t pb = cb; pb < eb; pb++)
        b[pb - cb] = b_source(s, kb, pb, lazy, cb);
    for (int64_t pa = ca; pa < ea; pa++)
        for (int64_t pb = cb; pb < eb; pb++)
            tile_run(s, kb, pa, pb, &b[pb - cb]);
}

static void compute_range(void *ctx, int64_t begin, int64_t end) {
    super *s = ctx;
    const int slot = s->mode == B_LAZY ? pl_slots_take(&s->slots) : 0;
    E *lazy = s->b + slot * s->lazy_size;
    for (int64_t i = begin; i < end; i++) {
        const int64_t ca = s->pa0 + i % s->chunks_a * s->chunk_rows;
        const int64_t cb = s->pb0 + i / s->chunks_a * CHUNK_COLS;
        const int64_t ea = pl_i64_min(ca + s->chunk_rows, s->pa1);
        const int64_t eb = pl_i64_min(cb + CHUNK_COLS, s->pb1);
        for (int64_t kb = s->kb0; kb < s->kb1; kb++)
            compute_block(s, kb, ca, ea, cb, eb, lazy);
    }
    if (s->mode == B_LAZY) pl_slots_give(&s->slots, slot);
}

/* Chunks of rows: all of them when the thread packs B itself, unless that leaves threads idle. */
static int64_t chunk_rows_of(const super *s, int threads) {
    const int64_t rows = s->pa1 - s->pa0, cols = pl_div_up(s->pb1 - s->pb0, CHUNK_COLS);
    if (s->mode != B_LAZY) return CHUNK_ROWS;
    const int64_t parts = cols >= 2 * threads ? 1 : pl_div_up(2 * threads, cols);
    return pl_i64_max(pl_div_up(rows, parts), pl_i64_min(rows, 3));
}

/* Packs what is not packed yet and computes one super-block. */
static void super_run(pl_pool *pool, super *s) {
    const S(pl_gemm_job) *j = s->job;
    s->row0 = row_of(s, s->pa0);
    s->row1 = row_of(s, s->pa1);
    if (j->a_packed == NULL)
        pl_pool_for(pool, s->pa1 - s->pa0, j->a_fill != NULL ? 1 : 4, pack_a_range, s);
    if (s->mode == B_FIRST) {
        pl_pool_for(pool, s->pb1 - s->pb0, 4, pack_b_range, s);
    } else if (s->mode == B_DIRECT && s->pb1 * s->nr > j->n) {
        const int64_t p0 = s->pb0;
        s->pb0 = s->pb1 - 1; /* the copy holds the last panel alone */
        pack_b_range(s, 0, 1);
        s->pb0 = p0;
    }
    s->chunk_rows = chunk_rows_of(s, pl_pool_threads(pool));
    s->chunks_a = pl_div_up(s->pa1 - s->pa0, s->chunk_rows);
    s->chunks_b = pl_div_up(s->pb1 - s->pb0, CHUNK_COLS);
    pl_pool_for(pool, s->chunks_a * s->chunks_b, 1, compute_range, s);
}

static void super_init(super *s, const S(pl_gemm_job) * job) {
    *s = (super){ .t = pl_gemm_table_get(), .job = job };
    s->blocks = pl_gemm_blocks_of(job->k);
    s->mr = s->t->S(mr);
    s->nr = s->t->S(nr);
    s->panels_a = pl_div_up(job->m, s->mr);
    s->panels_b = pl_div_up(job->n, s->nr);
    if (job->b_packed != NULL)
        s->mode = B_PACKED;
    else if (job->b_fill != NULL)
        s->mode = B_LAZY;
    else if (job->b_cs == 1 && (s->panels_a <= 3 || job->k <= 64))
        s->mode = B_DIRECT;
    else
        s->mode = s->panels_a <= 32 ? B_LAZY : B_FIRST;
}

/* k == 0, or nothing to multiply: C = beta * C + bias. */
static void scale_only(const S(pl_gemm_job) * j) {
    for (int64_t i = 0; i < j->m; i++)
        for (int64_t c = 0; c < j->n; c++) {
            E *p = j->c + i * j->ldc + c;
            *p = (j->beta == 0 ? 0 : j->beta * *p) + (j->bias == NULL ? 0 : j->bias[i]);
        }
}

typedef struct vector_job {
    const pl_gemm_table *t;
    const S(pl_gemm_job) * job;
} vector_job;

static void vector_finish(const S(pl_gemm_job) * j, int64_t col, int64_t n, const E *y) {
    for (int64_t q = 0; q < n; q++) {
        E *c = j->c + col + q;
        const T r = j->alpha * y[q] + (j->beta == 0 ? 0 : j->beta * *c);
        *c = j->bias == NULL ? r : r + j->bias[0];
    }
}
/* One row times a row-major B. */
static void row_range(void *ctx, int64_t begin, int64_t end) {
    const vector_job *v = ctx;
    const S(pl_gemm_job) *j = v->job;
    E y[VECTOR_COLS];
    v->t->S(row)(j->a, j->b + begin, j->b_rs, end - begin, j->k, y);
    vector_finish(j, begin, end - begin, y);
}
/* One row times a B whose columns are contiguous: dot products. */
static void dots_range(void *ctx, int64_t begin, int64_t end) {
    const vector_job *v = ctx;
    const S(pl_gemm_job) *j = v->job;
    E y[VECTOR_COLS];
    v->t->S(dots)(j->a, j->b + begin * j->b_cs, j->b_cs, end - begin, j->k, y);
    vector_finish(j, begin, end - begin, y);
}

static bool use_row(const S(pl_gemm_job) * j) {
    return j->m == 1 && j->b != NULL && j->a != NULL && j->b_packed == NULL &&
           j->a_packed == NULL && j->b_cs == 1 && j->a_cs == 1;
}
static bool use_dots(const S(pl_gemm_job) * j) {
    return j->m == 1 && j->b != NULL && j->a != NULL && j->b_packed == NULL &&
           j->a_packed == NULL && j->b_rs == 1 && j->a_cs == 1;
}

/* Room for the packed copies, in elements, and how many panels and blocks of k a super-block has.
 */
static void super_plan(super *s, int threads, int64_t step[3], int64_t need[2]) {
    const S(pl_gemm_job) *j = s->job;
    step[2] = pl_i64_min(s->blocks.n, 8);
    const int64_t depth = pl_i64_min(j->k, step[2] * s->blocks.kc);
    step[0] = pl_i64_max(1, pl_i64_min(s->panels_a, SUPER / (depth * s->mr)));
    step[1] = s->panels_b;
    need[0] = depth * pl_i64_min(j->m, step[0] * s->mr);
    need[1] = 0;
    if (j->a_packed != NULL) {
        step[0] = s->panels_a;
        need[0] = 0;
    }
    s->lazy_size = CHUNK_COLS * s->nr * s->blocks.kc + LAZY_SLACK;
    switch (s->mode) {
    case B_PACKED: break;
    case B_DIRECT: need[1] = depth * s->nr; break;
    case B_LAZY: need[1] = s->lazy_size * pl_slots_init(&s->slots, threads); break;
    case B_FIRST:
        step[1] = pl_i64_max(1, pl_i64_min(s->panels_b, SUPER / (depth * s->nr)));
        need[1] = depth * s->nr * step[1];
        break;
    }
}

pl_status S(pl_gemm_run)(pl_pool *pool, const S(pl_gemm_job) * job, pl_err *err) {
    if (job->m == 0 || job->n == 0) return PL_OK;
    if (job->k == 0) {
        scale_only(job);
        return PL_OK;
    }
    const double flops = 2.0 * (double)job->m * (double)job->n * (double)job->k;
    if (flops < 4e5) pool = NULL; /* waking threads costs more */
    vector_job v = { pl_gemm_table_get(), job };
    if (use_dots(job) || use_row(job)) {
        pl_pool_for(pool, job->n, VECTOR_COLS, use_dots(job) ? dots_range : row_range, &v);
        return PL_OK;
    }
    super s;
    int64_t step[3], need[2];
    super_init(&s, job);
    super_plan(&s, pl_pool_threads(pool), step, need);
    E small[SMALL] __attribute__((aligned(64)));
    E *heap = NULL;
    const size_t pad_a = ((size_t)need[0] + 15) & ~(size_t)15;
    const size_t total = pad_a + (size_t)need[1];
    if (total > SMALL) {
        heap = pl_aligned_alloc(64, total * sizeof(T));
        if (heap == NULL) return pl_fail_memory(err, total * sizeof(T));
    }
    s.a = heap != NULL ? heap : small;
    s.b = s.a + pad_a;
    for (s.pa0 = 0; s.pa0 < s.panels_a; s.pa0 = s.pa1) {
        s.pa1 = pl_i64_min(s.pa0 + step[0], s.panels_a);
        for (s.pb0 = 0; s.pb0 < s.panels_b; s.pb0 = s.pb1) {
            s.pb1 = pl_i64_min(s.pb0 + step[1], s.panels_b);
            for (s.kb0 = 0; s.kb0 < s.blocks.n; s.kb0 = s.kb1) {
                s.kb1 = pl_i64_min(s.kb0 + step[2], s.blocks.n);
                super_run(pool, &s);
            }
        }
    }
    pl_free(heap);
    return PL_OK;
}

void S(pl_gemm_pack_a)(pl_pool *pool, const S(pl_gemm_job) * job, E *to) {
    super s;
    super_init(&s, job);
    s.a = to;
    s.pa1 = s.panels_a;
    s.row1 = job->m;
    s.kb1 = s.blocks.n;
    pl_pool_for(pool, s.panels_a, 4, pack_a_range, &s);
}
void S(pl_gemm_pack_b)(pl_pool *pool, const S(pl_gemm_job) * job, E *to) {
    super s;
    super_init(&s, job);
    s.b = to;
    s.pb1 = s.panels_b;
    s.kb1 = s.blocks.n;
    pl_pool_for(pool, s.panels_b, 4, pack_b_range, &s);
}
int64_t S(pl_gemm_packed_b_size)(int64_t k, int64_t n) {
    const int64_t nr = pl_gemm_table_get()->S(nr);
    return k * pl_div_up(n, nr) * nr;
}
