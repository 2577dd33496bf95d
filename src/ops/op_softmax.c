/* Softmax, LogSoftmax and Hardmax.
 *
 * Before opset 13 the input is seen as a matrix: dims before `axis` are rows, the rest is one long
 * column; since then the axis is taken by itself. Rows that are contiguous go to the vector maths;
 * other axes are worked on in stretches of the inner dim, so that these loops vectorise too. */
#include <math.h>
#include <string.h>

#include "kernels/vmath.h"
#include "ops/bound.h"
#include "ops/emit_rules.h"
#include "ops/float_io.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "ops/softmax_bound.h"
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
    bool naive; /* f32: the denominator in one float, in index order */
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

static void naive_row(const job *j, const pl_f32 *x, pl_f32 *y, int64_t n, int64_t step) {
    float max = x[0], sum = 0;
    for (int64_t k = 1; k < n; k++)
        if (x[k * step] > max || isnan(x[k * step])) max = x[k * step];
    for (int64_t k = 0; k < n; k++) {
        y[k * step] = expf(x[k * step] - max);
        sum += y[k * step];
    }
    const float log_sum = logf(sum);
    for (int64_t k = 0; k < n; k++)
        y[k * step] = j->kind == SOFTMAX ? y[k * step] / sum : x[k * step] - max - log_sum;
}

static void naive_rows(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t inner = j->view.inner, n = j->view.n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t at = row / inner * n * inner + row % inner;
        naive_row(j, (const pl_f32 *)j->x + at, (pl_f32 *)j->y + at, n, inner);
    }
}

static void run(pl_pool *pool, job *j, bool is_f64) {
    if (j->naive && !is_f64 && j->kind != HARDMAX) {
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

static pl_status eval(pl_eval *c, softmax_kind kind) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    if (x->n_elements == 0) return PL_OK;
    job j = { .kind = kind,
              .naive = c->naive,
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

/* ---- error bounds ---- */

static pl_axis_view view_of(const pl_bound *c) {
    const pl_tensor *x = pl_b_in(c, 0);
    const int64_t given = pl_attr_int(c->node, "axis");
    const int axis = (int)(given < 0 ? given + x->rank : given);
    return pl_axis_view_of(x, axis, c->node->opset < 13 ? x->rank : axis + 1);
}

typedef struct bound_job {
    const pl_bound *c;
    pl_axis_view view;
    const double *x, *e, *y; /* e: NULL = exact */
    double *out;
    bool log;
} bound_job;

/* Of one row: D = u(2 + |x - max|) + e is the error of an exponent's argument and of exp; the
 * denominator has the mean of all D (what came in adds up, roundings add in quadrature) and the
 * rounding of its own sum, which a few accumulators share: u sqrt(n) / 16. (Without it a float sum
 * over 6625 classes was near the limit.) The element's own exp and the division: u(1.5 + |x -
 * max|).
 */
static double shared_error(const bound_job *j, int64_t from, double max) {
    const int64_t n = j->view.n, step = j->view.inner;
    const double u = j->c->u_acc;
    double came_in = 0, squares = 0, sum = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = from + k * step;
        const double p = j->log ? exp(j->y[at]) : j->y[at];
        const double far = isfinite(j->x[at]) ? max - j->x[at] : 0;
        if (!(p > 0)) continue;
        const double own = p * u * ((j->log ? 1 : 2) + far);
        came_in += j->e != NULL ? p * j->e[at] : 0;
        squares += own * own;
        sum += own;
    }
    return came_in + (j->log ? sum : sqrt(squares) + u) + u * sqrt((double)n) / 16;
}

static void bound_row(const bound_job *j, int64_t from) {
    const int64_t n = j->view.n, step = j->view.inner;
    double max = -HUGE_VAL;
    for (int64_t k = 0; k < n; k++)
        max = fmax(max, j->x[from + k * step]);
    if (!isfinite(max)) return;
    const double shared = shared_error(j, from, max);
    for (int64_t k = 0; k < n; k++) {
        const int64_t at = from + k * step;
        const double y = j->y[at], far = isfinite(j->x[at]) ? max - j->x[at] : 0;
        const double rounded = j->c->u_acc * ((j->log ? 1 : 1.5) + far);
        const double all = rounded + (j->e != NULL ? j->e[at] : 0) + shared;
        if (j->log) {
            j->out[at] = isfinite(y) ? all + pl_b_round(j->c, y) : 0;
        } else {
            const double grown = all < 40 ? expm1(all) : HUGE_VAL;
            /* What is 0 here may be more when its x may come near the largest one. */
            const double least = isfinite(j->x[at]) ? fmin(exp(all - far), 1) : 0;
            j->out[at] = y > 0 ? fmin(y * grown, 1) + pl_b_stored(j->c, y) : least;
        }
    }
}
static void bound_rows(void *ctx, int64_t begin, int64_t end) {
    const bound_job *j = ctx;
    for (int64_t row = begin; row < end; row++)
        bound_row(j, row / j->view.inner * j->view.n * j->view.inner + row % j->view.inner);
}

void pl_b_softmax(const pl_bound *c, pl_axis_view view, const double *x, const double *e,
                  const double *y, bool log, double *out) {
    bound_job j = { c, view, x, e, y, out, log };
    pl_pool_for(c->pool, view.outer * view.inner, pl_rows_grain(view.n), bound_rows, &j);
}

static pl_status bound(pl_bound *c, bool log) {
    double *out = NULL;
    if (pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    const double *x = pl_b_x(c, 0), *y = pl_b_y(c, 0);
    if (x == NULL || y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &out));
    pl_b_softmax(c, view_of(c), x, pl_b_e(c, 0), y, log, out);
    return PL_OK;
}
static pl_status softmax_bound(pl_bound *c) {
    return bound(c, false);
}
static pl_status log_softmax_bound(pl_bound *c) {
    return bound(c, true);
}

/* 1 where the element could be the largest as well, and there also where it is now. */
static pl_status hardmax_bound(pl_bound *c) {
    double *out = NULL;
    if (!pl_b_any_error(c) || pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0)
        return PL_OK;
    const double *x = pl_b_x(c, 0), *y = pl_b_y(c, 0), *e = pl_b_e(c, 0);
    const pl_axis_view v = view_of(c);
    if (x == NULL || y == NULL) return pl_fail_memory(c->err, 1);
    PL_TRY(pl_b_new(c, 0, &out));
    for (int64_t row = 0; row < v.outer * v.inner; row++) {
        const int64_t from = row / v.inner * v.n * v.inner + row % v.inner;
        int64_t won = from;
        for (int64_t k = 0; k < v.n; k++)
            if (y[from + k * v.inner] != 0) won = from + k * v.inner;
        for (int64_t k = 0; k < v.n; k++) {
            const int64_t at = from + k * v.inner;
            const double reach = 8 * (e[at] + e[won]);
            if (at != won && reach > 0 && x[won] - x[at] <= reach) out[at] = out[won] = 1;
        }
    }
    return PL_OK;
}

/* ---- gradients ---- */

/* Sums over the axes that the operator sees as one. */
static pl_value *sum_over(pl_grad *c, pl_value *g) {
    int64_t axes[PL_RANK_MAX];
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t axis = pl_attr_int(c->node, "axis");
    size_t n = 0;
    if (rank < 0) return NULL;
    if (axis < 0) axis += rank;
    for (int64_t d = axis; d < (c->node->opset < 13 ? rank : axis + 1); d++)
        axes[n++] = d;
    return n == 0 ? g : pl_g_reduce(c, "ReduceSum", g, axes, n, true);
}

static pl_status softmax_grad(pl_grad *c) { /* y (dy - sum(dy y)) */
    pl_value *y = c->node->out[0], *dy = c->dy[0];
    c->dx[0] = pl_g_mul(c, y, pl_g_sub(c, dy, sum_over(c, pl_g_mul(c, dy, y))));
    return c->st;
}

static pl_status log_softmax_grad(pl_grad *c) { /* dy - exp(y) sum(dy) */
    pl_value *share = pl_g_mul(c, pl_g1(c, "Exp", c->node->out[0]), sum_over(c, c->dy[0]));
    c->dx[0] = pl_g_sub(c, c->dy[0], share);
    return c->st;
}

/* ---- rows ---- */

#define ROW(name_, since_, until_, axis_, fn, grad_, emit_, ...)                                   \
    {                                                                                              \
        .name = name_, .since = since_, .until = until_, .flags = PL_OP_REDUCTION,                 \
        .in = PL_PORTS({ "input", PL_T_FLOAT, 0 }), .out = PL_PORTS({ "output", PL_T_FLOAT, 0 }),  \
        .attrs = PL_ATTRS(PL_A_INT("axis", axis_)), .infer = axis_infer, .eval = fn##_eval,        \
        .grad = grad_, .bound = fn##_bound, .emit = emit_, .autocast = __VA_ARGS__,                \
        .samples = PL_SAMPLES(                                                                     \
            { "(float[2,3,4] x) => (y) { y = " name_ "(x) }", NULL, 0 },                           \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", NULL, 0 },                   \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=0>(x) }", NULL, 0 },                   \
            { "(float[2,3,4] x) => (y) { y = " name_ "<axis=1>(x) }", "x=9990:10000",              \
              PL_SAMPLE_NO_GRAD },                                                                 \
            { "(float16[4,300] x) => (y) { y = " name_ "(x) }", "x=-20:20", PL_SAMPLE_NO_GRAD })   \
    }
#define BOTH(name_, fn, grad_, emit_, ...)                                                         \
    ROW(name_, 13, 0, -1, fn, grad_, emit_, __VA_ARGS__),                                          \
        ROW(name_, 1, 12, 1, fn, grad_, emit_, __VA_ARGS__)

/* clang-format off */
const pl_op_def pl_ops_softmax[] = {
    BOTH("Hardmax", hardmax, PL_GRAD_ZERO, pl_emit_hardmax, PL_AMP_KEEP, .nan = PL_NAN_ANY),
    BOTH("LogSoftmax", log_softmax, log_softmax_grad, pl_emit_log_softmax, PL_AMP_FP32),
    BOTH("Softmax", softmax, softmax_grad, pl_emit_softmax, PL_AMP_FP32),
    { 0 },
};
/* clang-format on */
