/* Strided copies. Dims are merged, then one of three loops runs: blocks, a 2-d transpose in tiles,
 * or element by element. */
#include "ops/lib/move.h"

#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "base/repeat.h"
#include "base/size.h"

enum {
    GRAIN_BYTES = 128 * 1024, /* smallest unit of work that is worth a thread */
    TILE = 16,                /* elements of a cache line of floats */
    STRIPE = 64               /* rows of the target that one unit of a transpose writes */
};

typedef struct pair {
    pl_u64 lo, hi;
} pair;

/* A pl_move in bytes, simplified: no dims of 1, adjacent dims merged where possible, and the
 * innermost contiguous run merged into `unit`. */
typedef struct job {
    int rank;
    int64_t dims[PL_MOVE_RANK];
    int64_t from[PL_MOVE_RANK], to[PL_MOVE_RANK];
    int64_t unit;
    const char *src;
    char *dst;
    /* outer: the dims that units of work iterate over */
    int n_outer;
    int outer[PL_MOVE_RANK];
    /* transpose: dim `a` is contiguous in the source, the last one in the target */
    int a;
    int64_t n_stripes;
} job;

/* ---- simplifying ---- */

static bool job_init(job *j, const pl_move *m, size_t bytes, const void *from, void *to) {
    const int64_t size = (int64_t)bytes;
    *j = (job){ .unit = size, .src = from, .dst = to };
    for (int d = 0; d < m->rank; d++) {
        const int64_t n = m->dims[d], f = m->from[d] * size, t = m->to[d] * size;
        if (n == 0) return false;
        if (n == 1) continue;
        const int last = j->rank - 1;
        if (last >= 0 && j->from[last] == f * n && j->to[last] == t * n) {
            j->dims[last] *= n;
            j->from[last] = f;
            j->to[last] = t;
        } else {
            j->dims[j->rank] = n;
            j->from[j->rank] = f;
            j->to[j->rank++] = t;
        }
    }
    if (j->rank > 0 && j->from[j->rank - 1] == size && j->to[j->rank - 1] == size) {
        j->unit *= j->dims[--j->rank];
    }
    return true;
}

/* ---- walking the outer dims ---- */

typedef struct walk {
    const job *j;
    int64_t index[PL_MOVE_RANK];
    int64_t from, to;
} walk;

static void walk_start(walk *w, const job *j, int64_t at) {
    w->j = j;
    w->from = w->to = 0;
    for (int k = j->n_outer - 1; k >= 0; k--) {
        const int d = j->outer[k];
        w->index[k] = at % j->dims[d];
        at /= j->dims[d];
        w->from += w->index[k] * j->from[d];
        w->to += w->index[k] * j->to[d];
    }
}

static void walk_next(walk *w) {
    const job *j = w->j;
    for (int k = j->n_outer - 1; k >= 0; k--) {
        const int d = j->outer[k];
        w->from += j->from[d];
        w->to += j->to[d];
        if (++w->index[k] < j->dims[d]) return;
        w->from -= j->from[d] * j->dims[d];
        w->to -= j->to[d] * j->dims[d];
        w->index[k] = 0;
    }
}

static int64_t outer_count(const job *j) {
    int64_t n = 1;
    for (int k = 0; k < j->n_outer; k++)
        n *= j->dims[j->outer[k]];
    return n;
}

/* ---- blocks, and element by element ---- */

#define STRIDED(type)                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
    *(type *)(void *)(to + i * ts) = *(const type *)(const void *)(from + i * fs)

static bool is_element_size(int64_t n) {
    return n == 1 || n == 2 || n == 4 || n == 8 || n == 16;
}

static void strided_row(const char *from, int64_t fs, char *to, int64_t ts, int64_t n,
                        int64_t unit) {
    if (fs == 0 && ts == unit && is_element_size(unit)) {
        pl_fill(to, from, (size_t)unit, (size_t)n);
        return;
    }
    switch (unit) {
    case 1: STRIDED(pl_u8); return;
    case 2: STRIDED(pl_u16); return;
    case 4: STRIDED(pl_u32); return;
    case 8: STRIDED(pl_u64); return;
    case 16: STRIDED(pair); return;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * ts, from + i * fs, (size_t)unit);
        return;
    }
}

static void rows_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int last = j->rank - 1;
    walk w;
    walk_start(&w, j, begin);
    for (int64_t i = begin; i < end; i++, walk_next(&w)) {
        strided_row(j->src + w.from, j->from[last], j->dst + w.to, j->to[last], j->dims[last],
                    j->unit);
    }
}

static void bytes_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    memcpy(j->dst + begin, j->src + begin, (size_t)(end - begin));
}

/* A single long row, split along itself because there are no outer dims. */
static void row_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    strided_row(j->src + begin * j->from[0], j->from[0], j->dst + begin * j->to[0], j->to[0],
                end - begin, j->unit);
}

/* ---- transposing ---- */

/* A block of na × nb: source rows (of na elements) are fs apart, target rows (of nb) ts apart. */
#define BLOCK_LOOP(type)                                                                           \
    for (int64_t a = 0; a < na; a++) {                                                             \
        for (int64_t b = 0; b < nb; b++)                                                           \
            ((type *)(void *)(to + a * ts))[b] = ((const type *)(const void *)(from + b * fs))[a]; \
    }

static void block_plain(const char *from, int64_t fs, char *to, int64_t ts, int64_t na,
                        int64_t nb) {
    BLOCK_LOOP(pl_u32)
}

#if defined(__SSE__)
static void square_4(const char *from, int64_t fs, char *to, int64_t ts) {
    __m128 r0 = _mm_loadu_ps((const float *)(const void *)from);
    __m128 r1 = _mm_loadu_ps((const float *)(const void *)(from + fs));
    __m128 r2 = _mm_loadu_ps((const float *)(const void *)(from + 2 * fs));
    __m128 r3 = _mm_loadu_ps((const float *)(const void *)(from + 3 * fs));
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps((float *)(void *)to, r0);
    _mm_storeu_ps((float *)(void *)(to + ts), r1);
    _mm_storeu_ps((float *)(void *)(to + 2 * ts), r2);
    _mm_storeu_ps((float *)(void *)(to + 3 * ts), r3);
}

/* A full tile, through a buffer: each cache line of source and target is touched once, so rows that
 * are a power of two apart do not evict one another. */
static void tile_4(const char *from, int64_t fs, char *to, int64_t ts) {
    char buffer[TILE * TILE * 4];
    for (int64_t b = 0; b < TILE; b += 4) {
        for (int64_t a = 0; a < TILE; a += 4) {
            square_4(from + b * fs + a * 4, fs, buffer + a * TILE * 4 + b * 4, TILE * 4);
        }
    }
    for (int64_t a = 0; a < TILE; a++)
        memcpy(to + a * ts, buffer + a * TILE * 4, TILE * 4);
}

static void block_4(const char *from, int64_t fs, char *to, int64_t ts, int64_t na, int64_t nb) {
    int64_t a = 0;
    for (; nb == TILE && a + TILE <= na; a += TILE)
        tile_4(from + a * 4, fs, to + a * ts, ts);
    for (; a + 4 <= na; a += 4) {
        int64_t b = 0;
        for (; b + 4 <= nb; b += 4)
            square_4(from + b * fs + a * 4, fs, to + a * ts + b * 4, ts);
        block_plain(from + b * fs + a * 4, fs, to + a * ts + b * 4, ts, 4, nb - b);
    }
    block_plain(from + a * 4, fs, to + a * ts, ts, na - a, nb);
}
#else
static void block_4(const char *from, int64_t fs, char *to, int64_t ts, int64_t na, int64_t nb) {
    block_plain(from, fs, to, ts, na, nb);
}
#endif

static void block(int64_t unit, const char *from, int64_t fs, char *to, int64_t ts, int64_t na,
                  int64_t nb) {
    switch (unit) {
    case 1: BLOCK_LOOP(pl_u8) return;
    case 2: BLOCK_LOOP(pl_u16) return;
    case 4: block_4(from, fs, to, ts, na, nb); return;
    case 8: BLOCK_LOOP(pl_u64) return;
    default: BLOCK_LOOP(pair) return;
    }
}

static void transpose_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int a = j->a, b = j->rank - 1;
    const int64_t fs = j->from[b], ts = j->to[a], nb = j->dims[b];
    for (int64_t i = begin; i < end; i++) {
        walk w;
        walk_start(&w, j, i / j->n_stripes);
        const int64_t a0 = i % j->n_stripes * STRIPE;
        const int64_t na = pl_i64_min(STRIPE, j->dims[a] - a0);
        const char *from = j->src + w.from + a0 * j->unit;
        char *to = j->dst + w.to + a0 * ts;
        for (int64_t b0 = 0; b0 < nb; b0 += TILE) {
            block(j->unit, from + b0 * fs, fs, to + b0 * j->unit, ts, na,
                  pl_i64_min(TILE, nb - b0));
        }
    }
}

/* The dim to transpose against the last one, or -1. */
static int transpose_dim(const job *j) {
    const int b = j->rank - 1;
    if (!is_element_size(j->unit) || j->to[b] != j->unit) return -1;
    for (int d = 0; d < b; d++) {
        if (j->from[d] == j->unit) return d;
    }
    return -1;
}

/* ---- running ---- */

static int64_t grain_for(int64_t bytes_each) {
    return pl_i64_max(1, GRAIN_BYTES / pl_i64_max(1, bytes_each));
}

void pl_move_run(pl_pool *pool, const pl_move *m, size_t element_bytes, const void *from,
                 void *to) {
    job j;
    if (!job_init(&j, m, element_bytes, from, to)) return;
    if (j.rank == 0) {
        pl_pool_for(pool, j.unit, GRAIN_BYTES, bytes_range, &j);
        return;
    }
    if (j.rank == 1) {
        pl_pool_for(pool, j.dims[0], grain_for(j.unit), row_range, &j);
        return;
    }
    const int b = j.rank - 1;
    j.a = transpose_dim(&j);
    for (int d = 0; d < b; d++) {
        if (d != j.a) j.outer[j.n_outer++] = d;
    }
    if (j.a < 0) {
        pl_pool_for(pool, outer_count(&j), grain_for(j.dims[b] * j.unit), rows_range, &j);
        return;
    }
    j.n_stripes = (j.dims[j.a] + STRIPE - 1) / STRIPE;
    const int64_t each = pl_i64_min(STRIPE, j.dims[j.a]) * j.dims[b] * j.unit;
    pl_pool_for(pool, outer_count(&j) * j.n_stripes, grain_for(each), transpose_range, &j);
}

pl_status pl_move_tensor(pl_eval *c, const pl_move *m, const pl_tensor *from, int64_t from_offset,
                         pl_tensor *to, int64_t to_offset) {
    const size_t size = pl_dtype_bytes(from->dtype);
    if (from->n_elements == 0 || to->n_elements == 0) return PL_OK;
    pl_move_run(c->pool, m, size, (const char *)from->data + from_offset * (int64_t)size,
                (char *)to->data + to_offset * (int64_t)size);
    return PL_OK;
}

/* ---- strings ---- */

pl_status pl_own_strings(pl_eval *c, pl_tensor *t) {
    if (t->dtype != PL_STRING) return PL_OK;
    const pl_string *items = t->data;
    for (int64_t i = 0; i < t->n_elements; i++) {
        PL_TRY(pl_tensor_set_string(t, i, items[i].data, items[i].n_bytes, c->err));
    }
    return PL_OK;
}
