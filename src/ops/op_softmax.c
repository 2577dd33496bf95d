/* Softmax, LogSoftmax and Hardmax.
 *
 * Before opset 13 the input is seen as a matrix: dims before `axis` are rows, the rest is one long
 * column; since then the axis is taken by itself. Rows that are contiguous go to the vector maths;
 * other axes are worked on in stretches of the inner dim, so that these loops vectorise too. */
#include <math.h>
#include <string.h>

#include "kernels/vmath.h"
#include "ops/float_io.h"
#include "ops/infer.h"
#include "ops/softmax_run.h"

extern const pl_op_def pl_ops_softmax[];

enum { SEGMENT = 256 }; /* elements of the inner dim worked on at a time */

typedef enum softmax_kind { SOFTMAX, LOG_SOFTMAX, HARDMAX } softmax_kind;

typedef struct job {
    softmax_kind kind;
    pl_axis_view view;
    int64_t n_segments;
    const void *x; /* pl_f32 or pl_f64 */
    void *y;
} job;

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
        const job *j = ctx;                                                                        \
        const pl_vmath_##F *v = &pl_vmath_get()->F;                                                \
        const int64_t n = j->view.n;                                                               \
        for (int64_t row = begin; row < end; row++) {                                              \
            const pl_##F *x = (const pl_##F *)j->x + row * n;                                      \
            pl_##F *y = (pl_##F *)j->y + row * n;                                                  \
            if (j->kind == SOFTMAX) {                                                              \
                v->softmax(x, y, (size_t)n);                                                       \
            } else if (j->kind == LOG_SOFTMAX) {                                                   \
                v->log_softmax(x, y, (size_t)n);                                                   \
            } else {                                                                               \
                hardmax_##F(x, y, n, 1);                                                           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void segment_##F(const job *j, const pl_##F *x, pl_##F *y, size_t w) {                  \
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
            if (j->kind == SOFTMAX) memcpy(y + k * step, e, w * sizeof(T));                        \
        }                                                                                          \
        for (size_t i = 0; i < w; i++)                                                             \
            part[i] = (T)(j->kind == SOFTMAX ? sum[i] : log(sum[i]));                              \
        for (size_t k = 0; k < n; k++) {                                                           \
            if (j->kind == SOFTMAX) {                                                              \
                v->div(y + k * step, part, y + k * step, w);                                       \
            } else {                                                                               \
                v->sub(x + k * step, max, y + k * step, w);                                        \
                v->sub(y + k * step, part, y + k * step, w);                                       \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void segments_##F(void *ctx, int64_t begin, int64_t end) {                              \
        const job *j = ctx;                                                                        \
        const int64_t inner = j->view.inner;                                                       \
        for (int64_t unit = begin; unit < end; unit++) {                                           \
            const int64_t outer = unit / j->n_segments, from = unit % j->n_segments * SEGMENT;     \
            const int64_t w = inner - from < SEGMENT ? inner - from : SEGMENT;                     \
            const int64_t at = outer * j->view.n * inner + from;                                   \
            const pl_##F *x = (const pl_##F *)j->x + at;                                           \
            pl_##F *y = (pl_##F *)j->y + at;                                                       \
            if (j->kind != HARDMAX) segment_##F(j, x, y, (size_t)w);                               \
            for (int64_t i = 0; j->kind == HARDMAX && i < w; i++)                                  \
                hardmax_##F(x + i, y + i, j->view.n, inner);                                       \
        }                                                                                          \
    }
LOOPS(f32, float)
LOOPS(f64, double)

static void run(pl_pool *pool, job *j, bool is_f64) {
    if (j->view.inner == 1) {
        pl_pool_for(pool, j->view.outer, pl_rows_grain(j->view.n), is_f64 ? rows_f64 : rows_f32, j);
        return;
    }
    j->n_segments = (j->view.inner + SEGMENT - 1) / SEGMENT;
    const int64_t width = j->view.inner < SEGMENT ? j->view.inner : SEGMENT;
    pl_pool_for(pool, j->view.outer * j->n_segments, pl_rows_grain(j->view.n * width),
                is_f64 ? segments_f64 : segments_f32, j);
}

static pl_status eval(pl_eval *c, softmax_kind kind) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    if (x->n_elements == 0) return PL_OK;
    job j = { .kind = kind,
              .view = pl_axis_view_of(x, axis, c->node->opset < 13 ? x->rank : axis + 1) };
    const bool is_f64 = x->dtype == PL_F64;
    j.x = pl_in_floats(c, 0, is_f64);
    j.y = pl_out_floats(c, 0, is_f64);
    if (j.x == NULL || j.y == NULL) return pl_eval_memory(c);
    run(c->pool, &j, is_f64);
    pl_out_floats_done(c, 0, j.y, is_f64);
    return PL_OK;
}

void pl_log_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64) {
    job j = { .kind = LOG_SOFTMAX, .view = view, .x = x, .y = y };
    run(pool, &j, is_f64);
}

void pl_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64) {
    job j = { .kind = SOFTMAX, .view = view, .x = x, .y = y };
    run(pool, &j, is_f64);
}

static pl_status softmax_eval(pl_eval *c) {
    return eval(c, SOFTMAX);
}
static pl_status log_softmax_eval(pl_eval *c) {
    return eval(c, LOG_SOFTMAX);
}
static pl_status hardmax_eval(pl_eval *c) {
    return eval(c, HARDMAX);
}

static pl_status axis_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    int axis = 0;
    if (rank >= 0) PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    return pl_infer_same_as_first(c);
}

/* ---- rows ---- */

#define ROW(name_, since_, until_, axis_, fn, grad_, amp)                                          \
    {                                                                                              \
        .name = name_, .since = since_, .until = until_, .flags = PL_OP_REDUCTION,                 \
        .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),  \
        .attrs = PL_ATTRS(PL_A_INT("axis", axis_)), .infer = axis_infer, .eval = fn,               \
        .grad = grad_, .bound = PL_BOUND_TODO, .emit = PL_EMIT_TODO, .autocast = amp,              \
        .samples = PL_SAMPLES({ "(float[2,3,4] x) => (y) { y = " name_ "(x) }", NULL, 0 },         \
                              { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", NULL, 0 }, \
                              { "(float[2,3,4] x) => (y) { y = " name_ "<axis=0>(x) }", NULL, 0 }) \
    }
#define BOTH(name_, fn, grad_, amp)                                                                \
    ROW(name_, 13, 0, -1, fn, grad_, amp), ROW(name_, 1, 12, 1, fn, grad_, amp)

/* clang-format off */
const pl_op_def pl_ops_softmax[] = {
    BOTH("Hardmax", hardmax_eval, PL_GRAD_ZERO, PL_AMP_KEEP),
    BOTH("LogSoftmax", log_softmax_eval, PL_GRAD_TODO, PL_AMP_FP32),
    BOTH("Softmax", softmax_eval, PL_GRAD_TODO, PL_AMP_FP32),
    { 0 },
};
/* clang-format on */
