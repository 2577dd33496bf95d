/* The row loop of normalisations, in float and in double. */
#include "ops/lib/norm_rows.h"

#include <math.h>
#include <string.h>

#include "kernels/vmath.h"
#include "ops/lib/elementwise.h"

/* One accumulator of the type itself, in index order. */
static void naive_f32(const pl_norm *j, const pl_f32 *x, double *mean, double *var) {
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < j->n && !j->rms; i++)
        sum += x[i];
    const float m = sum / (float)j->n;
    for (int64_t i = 0; i < j->n; i++)
        squares += (x[i] - m) * (x[i] - m);
    *mean = (double)m;
    *var = (double)(squares / (float)j->n);
}
static void naive_f64(const pl_norm *j, const pl_f64 *x, double *mean, double *var) {
    pl_vmath_get()->f64.mean_var(x, (size_t)j->n, mean, var);
}

#define ROWS(F, T)                                                                                 \
    static void statistics_##F(const pl_norm *j, const pl_##F *x, double *mean, double *inverse) { \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        double var = 0;                                                                            \
        *mean = 0;                                                                                 \
        if (j->naive) {                                                                            \
            naive_##F(j, x, mean, &var);                                                           \
        } else if (j->rms) {                                                                       \
            var = v->sum_sq(x, (size_t)j->n) / (double)j->n;                                       \
        } else {                                                                                   \
            v->mean_var(x, (size_t)j->n, mean, &var);                                              \
        }                                                                                          \
        *inverse = 1 / sqrt(var + j->epsilon);                                                     \
    }                                                                                              \
    /* Every element has its own scale. */                                                         \
    static void apply_each_##F(const pl_##F *x, pl_##F *y, T mean, T inverse, const pl_##F *scale, \
                               const pl_##F *bias, int64_t n) {                                    \
        if (scale != NULL && bias != NULL) {                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (x[i] - mean) * inverse * scale[i] + bias[i];                               \
        } else if (scale != NULL) {                                                                \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (x[i] - mean) * inverse * scale[i];                                         \
        } else {                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = (x[i] - mean) * inverse + (bias != NULL ? bias[i] : 0);                     \
        }                                                                                          \
    }                                                                                              \
    static void apply_blocks_##F(const pl_norm *j, const pl_##F *x, pl_##F *y, T mean,             \
                                 double inverse, const pl_##F *scale, const pl_##F *bias) {        \
        const int64_t n = j->n, block = j->block; /* stores might alias them in *j */              \
        for (int64_t k = 0; k * block < n; k++) {                                                  \
            const T a = (T)(scale != NULL ? inverse * (double)scale[k] : inverse);                 \
            const T b = bias != NULL ? bias[k] : 0;                                                \
            const pl_##F *from = x + k * block;                                                    \
            pl_##F *to = y + k * block;                                                            \
            for (int64_t i = 0; i < block; i++)                                                    \
                to[i] = (from[i] - mean) * a + b;                                                  \
        }                                                                                          \
    }                                                                                              \
    static void norm_rows_##F(void *ctx, int64_t begin, int64_t end) {                             \
        const pl_norm *j = ctx;                                                                    \
        for (int64_t row = begin; row < end; row++) {                                              \
            const pl_##F *x = (const pl_##F *)j->x + row * j->n;                                   \
            pl_##F *y = (pl_##F *)j->y + row * j->n;                                               \
            const int64_t at = row % j->period * (j->n / j->block);                                \
            const pl_##F *scale = j->scale == NULL ? NULL : (const pl_##F *)j->scale + at;         \
            const pl_##F *bias = j->bias == NULL ? NULL : (const pl_##F *)j->bias + at;            \
            double mean = 0, inverse = 0;                                                          \
            statistics_##F(j, x, &mean, &inverse);                                                 \
            if (j->mean != NULL) ((pl_##F *)j->mean)[row] = (T)mean;                               \
            if (j->inverse != NULL) ((pl_##F *)j->inverse)[row] = (T)inverse;                      \
            if (j->block == 1) {                                                                   \
                apply_each_##F(x, y, (T)mean, (T)inverse, scale, bias, j->n);                      \
            } else {                                                                               \
                apply_blocks_##F(j, x, y, (T)mean, inverse, scale, bias);                          \
            }                                                                                      \
        }                                                                                          \
    }
ROWS(f32, float)
ROWS(f64, double)

void pl_norm_run(pl_pool *pool, const pl_norm *norm, bool is_f64) {
    pl_norm job = *norm;
    pl_pool_for(pool, job.rows, pl_rows_grain(job.n), is_f64 ? norm_rows_f64 : norm_rows_f32, &job);
}

/* ---- scales of any shape that broadcasts ---- */

bool pl_norm_scale_is_whole(const pl_eval *c, int i, const pl_tensor *x, int axis) {
    const pl_tensor *t = pl_in(c, i);
    if (t == NULL) return false;
    for (int d = 0; d < t->rank; d++) {
        if (x->rank - t->rank + d < axis && t->dims[d] != 1) return true;
    }
    return false;
}

static void expand(const pl_broadcast *b, const char *from, char *to, size_t bytes) {
    const size_t step = (size_t)pl_broadcast_step(b, 0);
    for (int64_t row = 0; row < b->n_outer; row++) {
        const char *p = from + (size_t)pl_broadcast_row(b, 0, row) * bytes;
        for (int64_t i = 0; i < b->n_inner; i++, to += bytes, p += step * bytes)
            memcpy(to, p, bytes);
    }
}

const void *pl_norm_scale(pl_eval *c, int i, const pl_tensor *x, int axis, bool whole,
                          bool is_f64) {
    const pl_tensor *t = pl_in(c, i);
    const void *from = pl_in_floats(c, i, is_f64);
    if (t == NULL || from == NULL) return NULL;
    const int first = whole ? 0 : axis;
    int64_t n = 1;
    for (int d = first; d < x->rank; d++)
        n *= x->dims[d];
    if (t->n_elements == n) return from;
    pl_tensor shape = *t; /* surplus leading dims of 1 are dropped */
    const int surplus = t->rank - (x->rank - first);
    if (surplus > 0) {
        shape.rank -= surplus;
        memmove(shape.dims, shape.dims + surplus, (size_t)shape.rank * sizeof(int64_t));
        memmove(shape.strides, shape.strides + surplus, (size_t)shape.rank * sizeof(int64_t));
    }
    const size_t bytes = is_f64 ? sizeof(double) : sizeof(float);
    char *to = pl_scratch(c, (size_t)n, bytes);
    if (to == NULL) return NULL;
    pl_broadcast b;
    const pl_tensor *const one[] = { &shape };
    pl_broadcast_init(&b, x->rank - first, x->dims + first, 1, one);
    expand(&b, from, to, bytes);
    return to;
}

void pl_norm_fill_nan(pl_tensor *t) {
    const double nan_value = nan("");
    const size_t bytes = t == NULL ? 0 : pl_dtype_bytes(t->dtype);
    for (int64_t i = 0; t != NULL && i < t->n_elements; i++)
        pl_store_f64(t->dtype, &nan_value, (char *)t->data + (size_t)i * bytes, 1);
}

/* ---- shape rules ---- */

pl_status pl_norm_check_length(pl_infer *c, int i, pl_dim size, const char *what) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0) return PL_OK;
    const pl_dim have = rank == 1 ? pl_infer_dim(c, i, 0) : PL_DIM_UNKNOWN;
    if (rank != 1) return pl_infer_fail(c, "%s has rank %d, expected 1", what, rank);
    if (!pl_dim_known(have) || !pl_dim_known(size) || have.value == size.value) return PL_OK;
    return pl_infer_fail(c, "%s has %lld elements, expected %lld", what, (long long)have.value,
                         (long long)size.value);
}

pl_status pl_norm_check_onto(pl_infer *c, int i, const char *what) {
    const int rx = pl_infer_rank(c, 0), rank = pl_infer_rank(c, i);
    if (rx < 0 || rank < 0) return PL_OK;
    if (rank > rx) return pl_infer_fail(c, "%s has rank %d, but X only %d", what, rank, rx);
    for (int d = 0; d < rank; d++) {
        const pl_dim s = pl_infer_dim(c, i, d), x = pl_infer_dim(c, 0, rx - rank + d);
        if (!pl_dim_known(s) || s.value == 1 || !pl_dim_known(x) || s.value == x.value) continue;
        return pl_infer_fail(c, "dim %d of %s is %lld, expected 1 or %lld", d, what,
                             (long long)s.value, (long long)x.value);
    }
    return PL_OK;
}
