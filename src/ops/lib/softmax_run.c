/* The loops of Softmax, LogSoftmax and Hardmax.
 *
 * Contiguous rows go to the vector maths. For other axes the loops run over stretches of the inner
 * dim, so that they vectorise too. */
#include "ops/lib/softmax_run.h"

#include <math.h>
#include <string.h>

#include "kernels/soft.h"
#include "kernels/vmath.h"

enum { SEGMENT = 256 }; /* elements of the inner dim worked on at a time */

/* ---- one row, or one segment of inner elements; the first of equal maxima is Hardmax's ---- */

#define LOOPS(F, T)                                                                                \
    static void hardmax_##F(const pl_##F *x, pl_##F *y, int64_t n, int64_t step) {                 \
        int64_t best = 0;                                                                          \
        for (int64_t k = 1; k < n && !isnan(x[best * step]); k++) {                                \
            if (x[k * step] > x[best * step] || isnan(x[k * step])) best = k;                      \
        }                                                                                          \
        for (int64_t k = 0; k < n; k++)                                                            \
            y[k * step] = k == best;                                                               \
    }                                                                                              \
    static void rows_##F(void *ctx, int64_t begin, int64_t end) {                                  \
        const pl_softmax *j = ctx;                                                                 \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const int64_t n = j->view.n;                                                               \
        for (int64_t row = begin; row < end; row++) {                                              \
            const pl_##F *x = (const pl_##F *)j->x + row * n;                                      \
            pl_##F *y = (pl_##F *)j->y + row * n;                                                  \
            if (j->kind == PL_SOFTMAX) {                                                           \
                v->softmax(x, y, (size_t)n);                                                       \
            } else if (j->kind == PL_LOG_SOFTMAX) {                                                \
                v->log_softmax(x, y, (size_t)n);                                                   \
            } else {                                                                               \
                hardmax_##F(x, y, n, 1);                                                           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void segment_##F(const pl_softmax *j, const pl_##F *x, pl_##F *y, size_t w) {           \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const size_t n = (size_t)j->view.n, step = (size_t)j->view.inner;                          \
        T max[SEGMENT], part[SEGMENT];                                                             \
        double sum[SEGMENT] = { 0 };                                                               \
        memcpy(max, x, w * sizeof(T));                                                             \
        for (size_t k = 1; k < n; k++)                                                             \
            v->max(max, x + k * step, max, w);                                                     \
        for (size_t k = 0; k < n; k++) {                                                           \
            T *e = part;                                                                           \
            v->sub(x + k * step, max, e, w);                                                       \
            v->exp(e, e, w);                                                                       \
            for (size_t i = 0; i < w; i++)                                                         \
                sum[i] += (double)e[i];                                                            \
            if (j->kind == PL_SOFTMAX) memcpy(y + k * step, e, w * sizeof(T));                     \
        }                                                                                          \
        for (size_t i = 0; i < w; i++)                                                             \
            part[i] = (T)(j->kind == PL_SOFTMAX ? sum[i] : log(sum[i]));                           \
        for (size_t k = 0; k < n; k++) {                                                           \
            if (j->kind == PL_SOFTMAX) {                                                           \
                v->div(y + k * step, part, y + k * step, w);                                       \
            } else {                                                                               \
                v->sub(x + k * step, max, y + k * step, w);                                        \
                v->sub(y + k * step, part, y + k * step, w);                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void segments_##F(void *ctx, int64_t begin, int64_t end) {                              \
        const pl_softmax *j = ctx;                                                                 \
        const int64_t inner = j->view.inner;                                                       \
        for (int64_t unit = begin; unit < end; unit++) {                                           \
            const int64_t outer = unit / j->n_segments, from = unit % j->n_segments * SEGMENT;     \
            const int64_t w = inner - from < SEGMENT ? inner - from : SEGMENT;                     \
            const int64_t at = outer * j->view.n * inner + from;                                   \
            const pl_##F *x = (const pl_##F *)j->x + at;                                           \
            pl_##F *y = (pl_##F *)j->y + at;                                                       \
            if (j->kind != PL_HARDMAX) segment_##F(j, x, y, (size_t)w);                            \
            for (int64_t i = 0; j->kind == PL_HARDMAX && i < w; i++)                               \
                hardmax_##F(x + i, y + i, j->view.n, inner);                                       \
        }                                                                                          \
    }
LOOPS(f32, float)
LOOPS(f64, double)

static void naive_row(const pl_softmax *j, const pl_f32 *x, pl_f32 *y, int64_t n, int64_t step) {
    float max = x[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        if (x[k * step] > max || isnan(x[k * step])) max = x[k * step];
    for (int64_t k = 0; k < n; k++) {
        y[k * step] = (float)pl_soft_exp((double)(x[k * step] - max));
        sum += y[k * step];
    }
    const float log_sum = (float)pl_soft_log((double)sum);
    for (int64_t k = 0; k < n; k++)
        y[k * step] = j->kind == PL_SOFTMAX ? y[k * step] / sum : x[k * step] - max - log_sum;
}

static void naive_rows(void *ctx, int64_t begin, int64_t end) {
    const pl_softmax *j = ctx;
    const int64_t inner = j->view.inner, n = j->view.n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / inner * n * inner + row % inner;
        naive_row(j, (const pl_f32 *)j->x + at, (pl_f32 *)j->y + at, n, inner);
    }
}

void pl_softmax_rows(pl_pool *pool, pl_softmax *j, bool is_f64) {
    if (j->naive && !is_f64 && j->kind != PL_HARDMAX) {
        pl_pool_for(pool, j->view.outer * j->view.inner, pl_rows_grain(j->view.n), naive_rows, j);
        return;
    }
    if (j->view.inner == 1) {
        pl_pool_for(pool, j->view.outer, pl_rows_grain(j->view.n), is_f64 ? rows_f64 : rows_f32, j);
        return;
    }
    j->n_segments = (j->view.inner + SEGMENT - 1) / SEGMENT;
    const int64_t width = j->view.inner < SEGMENT ? j->view.inner : SEGMENT;
    pl_pool_for(pool, j->view.outer * j->n_segments, pl_rows_grain(j->view.n * width),
                is_f64 ? segments_f64 : segments_f32, j);
}

void pl_log_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64) {
    pl_softmax j = { .kind = PL_LOG_SOFTMAX, .view = view, .x = x, .y = y };
    pl_softmax_rows(pool, &j, is_f64);
}

void pl_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64) {
    pl_softmax j = { .kind = PL_SOFTMAX, .view = view, .x = x, .y = y };
    pl_softmax_rows(pool, &j, is_f64);
}
