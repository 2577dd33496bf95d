/* Work along one axis: ArgMax and ArgMin, running sums and products. A tensor is seen as [outer, n,
 * inner]; inner positions are handled in blocks. */
#include <string.h>

#include "base/size.h"
#include "kernels/vmath.h"
#include "ops/lib/sort_key.h"
#include "ops/math/reduce.h"

enum { BLOCK = 256, GRAIN = 16 * 1024 };

typedef struct job {
    pl_dtype dtype;
    size_t size;
    const char *x;
    char *y;
    int64_t n, inner, n_blocks;
    /* attributes of the operator */
    bool smallest, last;
    bool product, exclusive, reverse;
    bool naive; /* accumulators rounded to float each time */
} job;

static void job_run(pl_eval *c, job *j, const pl_tensor *x, int axis, pl_pool_fn fn) {
    int64_t outer = 1;
    if (x->n_elements == 0) return;
    j->dtype = x->dtype;
    j->size = pl_dtype_bytes(x->dtype);
    j->x = x->data;
    j->n = x->dims[axis];
    j->inner = x->strides[axis];
    for (int d = 0; d < axis; d++)
        outer *= x->dims[d];
    j->n_blocks = j->inner / BLOCK + (j->inner % BLOCK != 0);
    const int64_t each = j->n * pl_i64_min(BLOCK, j->inner);
    pl_pool_for(c->pool, outer * j->n_blocks, pl_i64_max(1, GRAIN / each), fn, j);
}

/* ---- ArgMax, ArgMin ---- */

/* Keys for which the wanted element is the largest. */
static void arg_keys(const job *j, const char *x, uint64_t *keys, size_t n) {
    pl_sort_keys(j->dtype, x, keys, n);
    if (!j->smallest) return;
    const bool nans = pl_dtype_is_float(j->dtype);
    for (size_t k = 0; k < n; k++)
        keys[k] = nans && keys[k] == PL_KEY_NAN ? PL_KEY_NAN : ~keys[k];
}

static int64_t arg_row(const job *j, const char *x) {
    uint64_t keys[BLOCK], best = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < j->n; i += BLOCK) {
        const int64_t m = pl_i64_min(BLOCK, j->n - i);
        arg_keys(j, x + (size_t)i * j->size, keys, (size_t)m);
        for (int64_t k = 0; k < m; k++) {
            const bool better = j->last ? keys[k] >= best : keys[k] > best;
            if (!better && i + k > 0) continue;
            best = keys[k];
            at = i + k;
        }
    }
    return at;
}

static int64_t arg_row_f32(const job *j, const pl_f32 *x) {
    const pl_vmath_f32 *v = &pl_vmath_get()->f32;
    const float best =
        j->smallest ? v->reduce_min(x, (size_t)j->n) : v->reduce_max(x, (size_t)j->n);
    const bool nan = best != best;
    if (j->last) {
        for (int64_t i = j->n - 1; i > 0; i--) {
            if (x[i] == best || (nan && x[i] != x[i])) return i;
        }
        return 0;
    }
    for (int64_t i = 0; i < j->n; i++) {
        if (x[i] == best || (nan && x[i] != x[i])) return i;
    }
    return 0;
}

static void arg_block(const job *j, const char *x, pl_i64 *y, size_t width) {
    uint64_t keys[BLOCK], best[BLOCK];
    int64_t at[BLOCK];
    arg_keys(j, x, best, width);
    memset(at, 0, sizeof(at));
    for (int64_t i = 1; i < j->n; i++) {
        arg_keys(j, x + (size_t)(i * j->inner) * j->size, keys, width);
        for (size_t k = 0; k < width; k++) {
            const bool better = j->last ? keys[k] >= best[k] : keys[k] > best[k];
            best[k] = better ? keys[k] : best[k];
            at[k] = better ? i : at[k];
        }
    }
    for (size_t k = 0; k < width; k++)
        y[k] = at[k];
}

/* The same for floats by comparison; NaN is above all numbers. */
#define ARG_F32(fn, BETTER)                                                                        \
    static void fn(const job *j, const pl_f32 *x, int32_t *at, float *best, size_t width) {        \
        for (int64_t i = 1; i < j->n; i++) {                                                       \
            const pl_f32 *row = x + i * j->inner;                                                  \
            const int32_t number = (int32_t)i;                                                     \
            for (size_t k = 0; k < width; k++) {                                                   \
                const float v = row[k], b = best[k];                                               \
                const bool better = (BETTER);                                                      \
                best[k] = better ? v : b;                                                          \
                at[k] = better ? number : at[k];                                                   \
            }                                                                                      \
        }                                                                                          \
    }
ARG_F32(arg_max_first, (v > b) | ((v != v) & (b == b)))
ARG_F32(arg_max_last, (v >= b) | (v != v))
ARG_F32(arg_min_first, (v < b) | ((v != v) & (b == b)))
ARG_F32(arg_min_last, (v <= b) | (v != v))

static void arg_block_f32(const job *j, const pl_f32 *x, pl_i64 *y, size_t width) {
    int32_t at[BLOCK] = { 0 };
    float best[BLOCK];
    for (size_t k = 0; k < width; k++)
        best[k] = x[k];
    if (j->smallest) {
        (j->last ? arg_min_last : arg_min_first)(j, x, at, best, width);
    } else {
        (j->last ? arg_max_last : arg_max_first)(j, x, at, best, width);
    }
    for (size_t k = 0; k < width; k++)
        y[k] = at[k];
}

static void arg_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t u = begin; u < end; u++) {
        const int64_t outer = u / j->n_blocks, from = u % j->n_blocks * BLOCK;
        const char *x = j->x + (size_t)(outer * j->n * j->inner + from) * j->size;
        pl_i64 *y = (pl_i64 *)(void *)j->y + outer * j->inner + from;
        const size_t width = (size_t)pl_i64_min(BLOCK, j->inner - from);
        if (j->inner > 1 && j->dtype == PL_F32 && j->n <= INT32_MAX) {
            arg_block_f32(j, (const pl_f32 *)(const void *)x, y, width);
        } else if (j->inner > 1) {
            arg_block(j, x, y, width);
        } else {
            *y = j->dtype == PL_F32 ? arg_row_f32(j, (const pl_f32 *)(const void *)x)
                                    : arg_row(j, x);
        }
    }
}

void pl_arg_reduce(pl_eval *c, const pl_tensor *x, int axis, bool smallest, bool last,
                   pl_tensor *y) {
    job j = { .y = y->data, .smallest = smallest, .last = last };
    job_run(c, &j, x, axis, arg_range);
}

/* ---- CumSum, CumProd ---- */

typedef union row {
    double f[BLOCK];
    int64_t i[BLOCK];
} row;

static void load(const job *j, const char *x, row *values, size_t n) {
    if (pl_dtype_is_float(j->dtype)) {
        pl_load_f64(j->dtype, x, values->f, n);
    } else {
        pl_load_i64(j->dtype, x, values->i, n);
    }
}

static void store(const job *j, const row *values, char *y, size_t n) {
    if (pl_dtype_is_float(j->dtype)) {
        pl_store_f64(j->dtype, values->f, y, n);
    } else {
        pl_store_i64(j->dtype, values->i, y, n);
    }
}

/* Accumulates values[k] into acc[a] and stores the running result in values[k]. */
static void step(const job *j, row *acc, size_t a, row *values, size_t k) {
    if (pl_dtype_is_float(j->dtype)) {
        const double before = acc->f[a], v = values->f[k];
        acc->f[a] = j->product ? before * v : before + v;
        if (j->naive) acc->f[a] = (double)(float)acc->f[a];
        values->f[k] = j->exclusive ? before : acc->f[a];
    } else {
        const uint64_t before = (uint64_t)acc->i[a], v = (uint64_t)values->i[k];
        acc->i[a] = (int64_t)(j->product ? before * v : before + v);
        values->i[k] = j->exclusive ? (int64_t)before : acc->i[a];
    }
}

static void cumulate_start(const job *j, row *acc, size_t n) {
    for (size_t k = 0; k < n; k++) {
        if (pl_dtype_is_float(j->dtype)) {
            acc->f[k] = j->product ? 1 : 0;
        } else {
            acc->i[k] = j->product ? 1 : 0;
        }
    }
}

static void cumulate_row(const job *j, const char *x, char *y) {
    const int64_t n_chunks = j->n / BLOCK + (j->n % BLOCK != 0);
    row acc, values;
    cumulate_start(j, &acc, 1);
    for (int64_t i = 0; i < n_chunks; i++) {
        const int64_t from = (j->reverse ? n_chunks - 1 - i : i) * BLOCK;
        const size_t m = (size_t)pl_i64_min(BLOCK, j->n - from);
        load(j, x + (size_t)from * j->size, &values, m);
        for (size_t k = 0; k < m; k++)
            step(j, &acc, 0, &values, j->reverse ? m - 1 - k : k);
        store(j, &values, y + (size_t)from * j->size, m);
    }
}

static void cumulate_block(const job *j, const char *x, char *y, size_t width) {
    row acc, values;
    cumulate_start(j, &acc, width);
    for (int64_t i = 0; i < j->n; i++) {
        const size_t at = (size_t)((j->reverse ? j->n - 1 - i : i) * j->inner) * j->size;
        load(j, x + at, &values, width);
        for (size_t k = 0; k < width; k++)
            step(j, &acc, k, &values, k);
        store(j, &values, y + at, width);
    }
}

static void cumulate_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t u = begin; u < end; u++) {
        const int64_t outer = u / j->n_blocks, from = u % j->n_blocks * BLOCK;
        const size_t at = (size_t)(outer * j->n * j->inner + from) * j->size;
        if (j->inner > 1) {
            cumulate_block(j, j->x + at, j->y + at, (size_t)pl_i64_min(BLOCK, j->inner - from));
        } else {
            cumulate_row(j, j->x + at, j->y + at);
        }
    }
}

void pl_cumulate(pl_eval *c, const pl_tensor *x, int axis, bool product, bool exclusive,
                 bool reverse, pl_tensor *y) {
    job j = { .y = y->data,
              .product = product,
              .exclusive = exclusive,
              .reverse = reverse,
              .naive = c->naive && x->dtype != PL_F64 };
    job_run(c, &j, x, axis, cumulate_range);
}
