/* Reductions over any set of axes.
 *
 * Adjacent axes of one kind are merged, so that the innermost run is contiguous. It is either
 * reduced (each run goes to the vector maths) or kept (runs are folded into a row of accumulators).
 * Long reductions are split into parts whose number depends only on the shape. The parts are
 * combined in order, so the number of threads does not change a bit. */
#include <math.h>
#include <string.h>

#include "base/size.h"
#include "kernels/soft.h"
#include "kernels/vmath.h"
#include "ops/math/reduce.h"

enum {
    BLOCK = 512,       /* accumulators of one unit of work */
    PART = 32 * 1024,  /* reductions of fewer elements are not split */
    GRAIN = 16 * 1024, /* elements below which threads do not pay */
};

/* How an element is folded into the accumulator. */
typedef enum fold_op { ADD = 0, ADD_ABS, ADD_SQUARE, MULTIPLY, TAKE_MAX, TAKE_MIN } fold_op;

typedef union row { /* accumulators: floats in double, integers in int64 */
    double f[BLOCK];
    int64_t i[BLOCK];
} row;

typedef struct job {
    pl_reduce_kind kind;
    fold_op op;
    bool integers; /* accumulates in int64 */
    pl_dtype dtype;
    size_t size;
    const char *x;
    char *y;
    int n_keep, n_reduce; /* groups of axes outside the innermost run */
    int64_t keep_dims[PL_RANK_MAX], keep_strides[PL_RANK_MAX];
    int64_t reduce_dims[PL_RANK_MAX], reduce_strides[PL_RANK_MAX];
    bool inner_reduced;
    int64_t inner;    /* length of the innermost run */
    int64_t n_rows;   /* runs folded into one output, or into one row of outputs */
    int64_t n_blocks; /* blocks of outputs in a row */
    int64_t n_parts, part;
    int64_t count; /* elements reduced into one output */
    row *partial;
} job;

/* ---- folding elements into accumulators ---- */

#define FOLD_ROW(fn, T, A, EXPR)                                                                   \
    static void fn(A *acc, const T *x, size_t n) {                                                 \
        for (size_t k = 0; k < n; k++) {                                                           \
            const A v = (A)x[k], a = acc[k];                                                       \
            acc[k] = (EXPR);                                                                       \
        }                                                                                          \
    }
#define FOLD_FLOAT(name, EXPR)                                                                     \
    FOLD_ROW(name##_f32, pl_f32, double, EXPR)                                                     \
    FOLD_ROW(name##_f64, pl_f64, double, EXPR)
FOLD_FLOAT(row_add, a + v)
FOLD_FLOAT(row_abs, a + fabs(v))
FOLD_FLOAT(row_square, a + v * v)
FOLD_FLOAT(row_multiply, a *v)
FOLD_FLOAT(row_max, v > a || v != v ? v : a)
FOLD_FLOAT(row_min, v < a || v != v ? v : a)

static void (*const ROW_F32[])(double *, const pl_f32 *,
                               size_t) = { row_add_f32,      row_abs_f32, row_square_f32,
                                           row_multiply_f32, row_max_f32, row_min_f32 };
static void (*const ROW_F64[])(double *, const pl_f64 *,
                               size_t) = { row_add_f64,      row_abs_f64, row_square_f64,
                                           row_multiply_f64, row_max_f64, row_min_f64 };

static int64_t int_op(fold_op op, bool is_u64, int64_t a, int64_t v) {
    const uint64_t ua = (uint64_t)a, uv = (uint64_t)v;
    const bool above = is_u64 ? uv > ua : v > a;
    switch (op) {
    case ADD: return (int64_t)(ua + uv);
    case ADD_ABS: return (int64_t)(ua + (!is_u64 && v < 0 ? 0 - uv : uv));
    case ADD_SQUARE: return (int64_t)(ua + uv * uv);
    case MULTIPLY: return (int64_t)(ua * uv);
    case TAKE_MAX: return above ? v : a;
    case TAKE_MIN: return above ? a : v;
    }
    return a;
}

#define RUN_PRODUCT(fn, T)                                                                         \
    static double fn(const T *x, size_t n) {                                                       \
        double product = 1;                                                                        \
        for (size_t k = 0; k < n; k++)                                                             \
            product *= (double)x[k];                                                               \
        return product;                                                                            \
    }
RUN_PRODUCT(product_f32, pl_f32)
RUN_PRODUCT(product_f64, pl_f64)

/* For few elements a call would cost more. */
enum { SHORT = 8 };
static double short_sum(const pl_f32 *x, size_t n) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += (double)x[k];
    return sum;
}

static double run_f32(fold_op op, const pl_f32 *x, size_t n) {
    const pl_vmath_f32 *v = &pl_vmath_get()->f32;
    switch (op) {
    case ADD: return n < SHORT ? short_sum(x, n) : v->sum(x, n);
    case ADD_ABS: return v->sum_abs(x, n);
    case ADD_SQUARE: return v->sum_sq(x, n);
    case MULTIPLY: return product_f32(x, n);
    case TAKE_MAX: return (double)v->reduce_max(x, n);
    case TAKE_MIN: return (double)v->reduce_min(x, n);
    }
    return 0;
}

static double run_f64(fold_op op, const pl_f64 *x, size_t n) {
    const pl_vmath_f64 *v = &pl_vmath_get()->f64;
    switch (op) {
    case ADD: return v->sum(x, n);
    case ADD_ABS: return v->sum_abs(x, n);
    case ADD_SQUARE: return v->sum_sq(x, n);
    case MULTIPLY: return product_f64(x, n);
    case TAKE_MAX: return v->reduce_max(x, n);
    case TAKE_MIN: return v->reduce_min(x, n);
    }
    return 0;
}

/* The operation that joins two accumulators. */
static fold_op join_of(fold_op op) {
    return op == ADD_ABS || op == ADD_SQUARE ? ADD : op;
}

/* Folds n <= BLOCK elements into as many accumulators. */
static void fold_row(const job *j, fold_op op, row *acc, const char *x, size_t n) {
    row values;
    if (j->integers) {
        pl_load_i64(j->dtype, x, values.i, n);
        for (size_t k = 0; k < n; k++)
            acc->i[k] = int_op(op, j->dtype == PL_U64, acc->i[k], values.i[k]);
    } else if (j->dtype == PL_F32) {
        ROW_F32[op](acc->f, (const pl_f32 *)x, n);
    } else if (j->dtype == PL_F64) {
        ROW_F64[op](acc->f, (const pl_f64 *)x, n);
    } else {
        pl_load_f64(j->dtype, x, values.f, n);
        ROW_F64[op](acc->f, values.f, n);
    }
}

/* Folds n elements into one accumulator. */
static void fold_run(const job *j, fold_op op, row *acc, const char *x, int64_t n) {
    double part = 0;
    if (!j->integers && (j->dtype == PL_F32 || j->dtype == PL_F64)) {
        part = j->dtype == PL_F32 ? run_f32(op, (const pl_f32 *)x, (size_t)n)
                                  : run_f64(op, (const pl_f64 *)x, (size_t)n);
        ROW_F64[join_of(op)](acc->f, &part, 1);
        return;
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        const size_t m = (size_t)pl_i64_min(BLOCK, n - at);
        const char *from = x + (size_t)at * j->size;
        row values;
        if (!j->integers) {
            pl_load_f64(j->dtype, from, values.f, m);
            part = run_f64(op, values.f, m);
            ROW_F64[join_of(op)](acc->f, &part, 1);
            continue;
        }
        pl_load_i64(j->dtype, from, values.i, m);
        for (size_t k = 0; k < m; k++)
            acc->i[0] = int_op(op, j->dtype == PL_U64, acc->i[0], values.i[k]);
    }
}

/* Adds up exp(x - shift), into one accumulator or element by element. */
static void fold_exp(const job *j, row *acc, const double *shift, const char *x, int64_t n) {
    const pl_vmath_f64 *v = &pl_vmath_get()->f64;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const size_t m = (size_t)pl_i64_min(BLOCK, n - at);
        double values[BLOCK];
        pl_load_f64(j->dtype, x + (size_t)at * j->size, values, m);
        for (size_t k = 0; k < m; k++)
            values[k] -= shift[j->inner_reduced ? 0 : k];
        v->exp(values, values, m);
        if (j->inner_reduced) {
            acc->f[0] += v->sum(values, m);
        } else {
            row_add_f64(acc->f, values, m);
        }
    }
}

/* ---- beginning and end ---- */

static int64_t int_start(fold_op op, pl_dtype dtype) {
    switch (op) {
    case ADD:
    case ADD_ABS:
    case ADD_SQUARE: return 0;
    case MULTIPLY: return 1;
    case TAKE_MAX: return dtype == PL_BOOL || dtype == PL_U64 ? 0 : pl_dtype_int_min(dtype);
    case TAKE_MIN:
        if (dtype == PL_BOOL) return 1;
        return dtype == PL_U64 ? -1 : pl_dtype_int_max(dtype); /* -1: all bits set */
    }
    return 0;
}

static void start(const job *j, fold_op op, row *acc, size_t n) {
    static const double NEUTRAL[] = { 0, 0, 0, 1, -HUGE_VAL, HUGE_VAL };
    if (j->integers) {
        acc->i[0] = int_start(op, j->dtype);
        for (size_t k = 1; k < n; k++)
            acc->i[k] = acc->i[0];
    } else {
        acc->f[0] = NEUTRAL[op];
        for (size_t k = 1; k < n; k++)
            acc->f[k] = acc->f[0];
    }
}

static int64_t int_mean(const job *j, int64_t sum) {
    if (j->count == 0) return 0;
    return j->dtype == PL_U64 ? (int64_t)((uint64_t)sum / (uint64_t)j->count) : sum / j->count;
}

static void finish(const job *j, row *acc, size_t n, char *y) {
    if (j->integers) {
        for (size_t k = 0; j->kind == PL_REDUCE_MEAN && k < n; k++)
            acc->i[k] = int_mean(j, acc->i[k]);
        pl_store_i64(j->dtype, acc->i, y, n);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        if (j->kind == PL_REDUCE_MEAN) acc->f[k] /= (double)j->count;
        if (j->kind == PL_REDUCE_L2) acc->f[k] = sqrt(acc->f[k]);
        if (j->kind == PL_REDUCE_LOG_SUM) acc->f[k] = log(acc->f[k]);
    }
    pl_store_f64(j->dtype, acc->f, y, n);
}

/* ---- units of work ---- */

typedef struct unit { /* one block of outputs and one part of the elements reduced into it */
    int64_t output;   /* index of the first */
    size_t width;
    const char *x; /* of row 0 */
    int64_t row_begin, row_end;
    int64_t run; /* elements of each run */
} unit;

static unit unit_at(const job *j, int64_t u) {
    const int64_t part = u % j->n_parts, block = u / j->n_parts % j->n_blocks;
    int64_t keep = u / j->n_parts / j->n_blocks, offset = 0;
    unit w = { .width = 1, .row_end = j->n_rows, .run = j->inner };
    w.output = j->inner_reduced ? keep : keep * j->inner + block * BLOCK;
    for (int d = j->n_keep - 1; d >= 0; d--) {
        offset += keep % j->keep_dims[d] * j->keep_strides[d];
        keep /= j->keep_dims[d];
    }
    if (!j->inner_reduced) {
        offset += block * BLOCK;
        w.width = (size_t)pl_i64_min(BLOCK, j->inner - block * BLOCK);
        w.run = (int64_t)w.width;
    }
    if (j->n_rows > 1) {
        w.row_begin = part * j->part;
        w.row_end = pl_i64_min(j->n_rows, w.row_begin + j->part);
    } else if (j->inner_reduced) {
        offset += part * j->part;
        w.run = pl_i64_min(j->inner - part * j->part, j->part);
    }
    w.x = j->x + (size_t)offset * j->size;
    return w;
}

static int64_t row_offset(const job *j, int64_t at) {
    int64_t offset = 0;
    for (int d = j->n_reduce - 1; d >= 0; d--) {
        offset += at % j->reduce_dims[d] * j->reduce_strides[d];
        at /= j->reduce_dims[d];
    }
    return offset;
}

/* Max and min of floats need no wider accumulators than float. */
static void fold_extremes(const job *j, const unit *w, row *acc) {
    const pl_vmath_f32 *v = &pl_vmath_get()->f32;
    float best[BLOCK];
    for (size_t k = 0; k < w->width; k++)
        best[k] = j->op == TAKE_MAX ? -HUGE_VALF : HUGE_VALF;
    for (int64_t r = w->row_begin; r < w->row_end; r++) {
        const pl_f32 *x = (const pl_f32 *)(const void *)w->x + row_offset(j, r);
        (j->op == TAKE_MAX ? v->max : v->min)(best, x, best, w->width);
    }
    for (size_t k = 0; k < w->width; k++)
        acc->f[k] = (double)best[k];
}

/* shift not NULL: sum of exp(x - shift). */
static void fold_unit(const job *j, const unit *w, fold_op op, const double *shift, row *acc) {
    start(j, op, acc, w->width);
    for (int64_t r = w->row_begin; r < w->row_end; r++) {
        const char *x = w->x + (size_t)row_offset(j, r) * j->size;
        if (shift != NULL) {
            fold_exp(j, acc, shift, x, w->run);
        } else if (j->inner_reduced) {
            fold_run(j, op, acc, x, w->run);
        } else {
            fold_row(j, op, acc, x, w->width);
        }
    }
}

static void units_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t u = begin; u < end; u++) {
        const unit w = unit_at(j, u);
        char *y = j->y + (size_t)w.output * j->size;
        row acc;
        if (j->kind == PL_REDUCE_LOG_SUM_EXP) {
            double shift[BLOCK] = { 0 };
            fold_unit(j, &w, TAKE_MAX, NULL, &acc);
            for (size_t k = 0; k < w.width; k++)
                shift[k] = isfinite(acc.f[k]) ? acc.f[k] : 0;
            fold_unit(j, &w, ADD, shift, &acc);
            for (size_t k = 0; k < w.width; k++)
                acc.f[k] = shift[k] + log(acc.f[k]);
            finish(j, &acc, w.width, y);
            continue;
        }
        if (j->dtype == PL_F32 && !j->inner_reduced && (j->op == TAKE_MAX || j->op == TAKE_MIN)) {
            fold_extremes(j, &w, &acc);
        } else {
            fold_unit(j, &w, j->op, NULL, &acc);
        }
        if (j->n_parts == 1) {
            finish(j, &acc, w.width, y);
        } else {
            memcpy(&j->partial[u], &acc, sizeof(double) * w.width);
        }
    }
}

/* Consecutive runs with one output each: no offsets to compute. */
static void runs_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = pl_i64_min(BLOCK, end - at);
        const char *x = j->x + (size_t)(at * j->inner) * j->size;
        row acc;
        for (int64_t k = 0; k < n; k++, x += (size_t)j->inner * j->size) {
            acc.f[k] = j->dtype == PL_F32
                           ? run_f32(j->op, (const pl_f32 *)(const void *)x, (size_t)j->inner)
                           : run_f64(j->op, (const pl_f64 *)(const void *)x, (size_t)j->inner);
        }
        finish(j, &acc, (size_t)n, j->y + (size_t)at * j->size);
    }
}

static bool is_runs(const job *j) {
    return j->inner_reduced && j->n_rows == 1 && j->n_keep <= 1 && j->n_parts == 1 &&
           j->kind != PL_REDUCE_LOG_SUM_EXP && (j->dtype == PL_F32 || j->dtype == PL_F64);
}

static void join_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const fold_op op = join_of(j->op);
    for (int64_t b = begin; b < end; b++) {
        row *acc = &j->partial[b * j->n_parts];
        const unit w = unit_at(j, b * j->n_parts);
        for (int64_t p = 1; p < j->n_parts; p++) {
            if (!j->integers) ROW_F64[op](acc->f, acc[p].f, w.width);
            for (size_t k = 0; j->integers && k < w.width; k++)
                acc->i[k] = int_op(op, j->dtype == PL_U64, acc->i[k], acc[p].i[k]);
        }
        finish(j, acc, w.width, j->y + (size_t)w.output * j->size);
    }
}

/* ---- the plan ---- */

static void group_axes(job *j, const pl_tensor *x, const bool *reduced) {
    int n = 0;
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    bool is_reduced[PL_RANK_MAX];
    if (x->n_elements == 0) { /* the product of the other dims may overflow */
        j->inner_reduced = true;
        return;
    }
    for (int d = 0; d < x->rank; d++) {
        if (x->dims[d] == 1) continue;
        if (n > 0 && is_reduced[n - 1] == reduced[d]) {
            dims[n - 1] *= x->dims[d];
            strides[n - 1] = x->strides[d];
            continue;
        }
        dims[n] = x->dims[d];
        strides[n] = x->strides[d];
        is_reduced[n++] = reduced[d];
    }
    j->inner = n == 0 ? 1 : dims[n - 1];
    j->inner_reduced = n == 0 ? true : is_reduced[n - 1];
    j->n_rows = 1;
    for (int k = 0; k < n - 1; k++) {
        if (is_reduced[k]) {
            j->reduce_dims[j->n_reduce] = dims[k];
            j->reduce_strides[j->n_reduce++] = strides[k];
            j->n_rows *= dims[k];
        } else {
            j->keep_dims[j->n_keep] = dims[k];
            j->keep_strides[j->n_keep++] = strides[k];
        }
    }
    j->count = j->inner_reduced ? j->n_rows * j->inner : j->n_rows;
}

/* How a reduction is split: by rows, or within the single run. */
static void plan_parts(job *j) {
    const int64_t width = j->inner_reduced ? j->inner : pl_i64_min(j->inner, BLOCK);
    const int64_t things = j->n_rows > 1 || !j->inner_reduced ? j->n_rows : j->inner;
    const int64_t each = j->n_rows > 1 || !j->inner_reduced ? pl_i64_max(1, width) : 1;
    j->part = pl_i64_max(1, PART / each);
    j->n_parts = pl_i64_max(1, things / j->part + (things % j->part != 0));
    if (j->kind == PL_REDUCE_LOG_SUM_EXP || j->n_parts < 2) {
        j->part = pl_i64_max(1, things);
        j->n_parts = 1;
    }
}

/* ---- in index order, one accumulator of the type itself (pl_eval.naive) ---- */

static float naive_step(pl_reduce_kind kind, float acc, float v, float max) {
    switch (kind) {
    case PL_REDUCE_L1: return acc + fabsf(v);
    case PL_REDUCE_L2:
    case PL_REDUCE_SUM_SQUARE: return acc + v * v;
    case PL_REDUCE_PROD: return acc * v;
    case PL_REDUCE_LOG_SUM_EXP: return acc + (float)pl_soft_exp((double)(v - max));
    default: return acc + v;
    }
}

static float naive_end(pl_reduce_kind kind, float acc, float n, float max) {
    switch (kind) {
    case PL_REDUCE_MEAN: return acc / n;
    case PL_REDUCE_L2: return sqrtf(acc);
    case PL_REDUCE_LOG_SUM: return (float)pl_soft_log((double)acc);
    case PL_REDUCE_LOG_SUM_EXP: return (float)pl_soft_log((double)acc) + max;
    default: return acc;
    }
}

/* One pass over x in index order. acc NULL: computes the largest element into max. */
static void naive_pass(pl_reduce_kind kind, const pl_tensor *x, const pl_f32 *data,
                       const bool *reduced, float *acc, float *max) {
    int64_t stride[PL_RANK_MAX] = { 0 }, index[PL_RANK_MAX] = { 0 }, step = 1, to = 0;
    for (int d = x->rank - 1; d >= 0; d--) {
        if (reduced[d]) continue;
        stride[d] = step;
        step *= x->dims[d];
    }
    for (int64_t i = 0; i < x->n_elements; i++) {
        if (acc != NULL) acc[to] = naive_step(kind, acc[to], data[i], max[to]);
        if (acc == NULL && data[i] > max[to]) max[to] = data[i];
        for (int d = x->rank - 1; d >= 0; d--) {
            to += stride[d];
            if (++index[d] < x->dims[d]) break;
            to -= stride[d] * x->dims[d];
            index[d] = 0;
        }
    }
}

static pl_status naive_reduce(pl_eval *c, pl_reduce_kind kind, const pl_tensor *x,
                              const bool *reduced, pl_tensor *y) {
    const size_t n = (size_t)y->n_elements;
    float *data = pl_scratch(c, (size_t)x->n_elements + 1, sizeof(*data));
    float *acc = pl_scratch(c, n, sizeof(*acc)), *max = pl_scratch(c, n, sizeof(*max));
    if (data == NULL || acc == NULL || max == NULL) return pl_eval_memory(c);
    pl_load_f32(x->dtype, x->data, data, (size_t)x->n_elements);
    for (size_t k = 0; k < n; k++) {
        acc[k] = kind == PL_REDUCE_PROD ? 1 : 0;
        max[k] = kind == PL_REDUCE_LOG_SUM_EXP ? -HUGE_VALF : 0;
    }
    if (kind == PL_REDUCE_LOG_SUM_EXP) naive_pass(kind, x, data, reduced, NULL, max);
    for (size_t k = 0; k < n; k++)
        if (!isfinite(max[k])) max[k] = 0;
    naive_pass(kind, x, data, reduced, acc, max);
    const float count = (float)x->n_elements / (float)y->n_elements;
    for (size_t k = 0; k < n; k++)
        acc[k] = naive_end(kind, acc[k], count, max[k]);
    pl_store_f32(y->dtype, acc, y->data, n);
    return PL_OK;
}

/* ---- the reduction ---- */

static const fold_op OP_OF[] = {
    [PL_REDUCE_SUM] = ADD,         [PL_REDUCE_MEAN] = ADD,
    [PL_REDUCE_MAX] = TAKE_MAX,    [PL_REDUCE_MIN] = TAKE_MIN,
    [PL_REDUCE_PROD] = MULTIPLY,   [PL_REDUCE_L1] = ADD_ABS,
    [PL_REDUCE_L2] = ADD_SQUARE,   [PL_REDUCE_LOG_SUM] = ADD,
    [PL_REDUCE_LOG_SUM_EXP] = ADD, [PL_REDUCE_SUM_SQUARE] = ADD_SQUARE,
};

pl_status pl_reduce(pl_eval *c, pl_reduce_kind kind, const pl_tensor *x, const bool *reduced,
                    pl_tensor *y) {
    /* Roots and logarithms of integers go through double. */
    const bool real =
        kind == PL_REDUCE_L2 || kind == PL_REDUCE_LOG_SUM || kind == PL_REDUCE_LOG_SUM_EXP;
    job j = { .kind = kind,
              .op = OP_OF[kind],
              .integers = !pl_dtype_is_float(x->dtype) && !real,
              .dtype = x->dtype,
              .size = pl_dtype_bytes(x->dtype),
              .x = x->data,
              .y = y->data };
    if (y->n_elements == 0) return PL_OK;
    if (c->naive && !j.integers && x->dtype != PL_F64 && pl_dtype_is_float(x->dtype) &&
        kind != PL_REDUCE_MAX && kind != PL_REDUCE_MIN) {
        return naive_reduce(c, kind, x, reduced, y);
    }
    group_axes(&j, x, reduced);
    plan_parts(&j);
    j.n_blocks = j.inner_reduced ? 1 : j.inner / BLOCK + (j.inner % BLOCK != 0);
    const int64_t n = y->n_elements / (j.inner_reduced ? 1 : j.inner) * j.n_blocks;
    if (j.n_parts > 1) {
        j.partial = pl_scratch(c, (size_t)(n * j.n_parts), sizeof(row));
        if (j.partial == NULL) return pl_eval_memory(c);
    }
    const int64_t width = j.inner_reduced ? 1 : pl_i64_min(j.inner, BLOCK);
    const int64_t each = pl_i64_max(1, j.count / j.n_parts * width);
    pl_pool_for(c->pool, n * j.n_parts, pl_i64_max(1, GRAIN / each),
                is_runs(&j) ? runs_range : units_range, &j);
    if (j.n_parts > 1) pl_pool_for(c->pool, n, 1, join_range, &j);
    return PL_OK;
}
