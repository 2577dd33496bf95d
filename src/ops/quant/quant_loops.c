/* Rounding to quantised types, and the loops of QuantizeLinear and DequantizeLinear. */
#include "ops/quant/quant_loops.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "ops/quant/qlinear_rules.h"
#include "ops/quant/quantize_rules.h"

enum { BLOCK = 512, UNIT = 16 * 1024 };

/* ---- to the type ---- */

static void store_small_float(const pl_quant_target *t, const double *x, uint8_t *y, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] = pl_f8_from_f64(t->dtype, x[i] + t->zero, t->saturate, 'n');
}

/* Clamps before rounding, so that adding 1.5 * 2^23 rounds every value correctly and the conversion
 * to int is defined. The comparisons send NaN to the lowest value, as MLAS does. */
#define STORE_INT(name, T, x_type, lo, hi)                                                         \
    static void name(const x_type *x, x_type zero, T *y, size_t n) {                               \
        const x_type magic = sizeof(x_type) == 4 ? (x_type)12582912 : (x_type)6755399441055744.0;  \
        const x_type low = (x_type)(lo)-zero, high = (x_type)(hi)-zero;                            \
        for (size_t i = 0; i < n; i++) {                                                           \
            x_type v = x[i] > low ? x[i] : low;                                                    \
            v = v < high ? v : high;                                                               \
            v = (v + magic) - magic;                                                               \
            y[i] = (T)(int32_t)(v + zero);                                                         \
        }                                                                                          \
    }
#define STORE_CODES(x_type, suffix)                                                                \
    STORE_INT(store_u8_##suffix, pl_u8, x_type, 0, 255)                                            \
    STORE_INT(store_i8_##suffix, pl_i8, x_type, -128, 127)                                         \
    STORE_INT(store_u16_##suffix, pl_u16, x_type, 0, 65535)                                        \
    STORE_INT(store_i16_##suffix, pl_i16, x_type, -32768, 32767)                                   \
    STORE_INT(store_u4_##suffix, pl_u8, x_type, 0, 15)                                             \
    STORE_INT(store_i4_##suffix, pl_i8, x_type, -8, 7)                                             \
    STORE_INT(store_u2_##suffix, pl_u8, x_type, 0, 3)                                              \
    STORE_INT(store_i2_##suffix, pl_i8, x_type, -2, 1)                                             \
    /* False when the type is none of these. */                                                    \
    static bool store_codes_##suffix(pl_dtype to, const x_type *x, x_type zero, void *y,           \
                                     size_t n) {                                                   \
        switch ((int)to) {                                                                         \
        case PL_U8: store_u8_##suffix(x, zero, y, n); return true;                                 \
        case PL_I8: store_i8_##suffix(x, zero, y, n); return true;                                 \
        case PL_U16: store_u16_##suffix(x, zero, y, n); return true;                               \
        case PL_I16: store_i16_##suffix(x, zero, y, n); return true;                               \
        case PL_U4: store_u4_##suffix(x, zero, y, n); return true;                                 \
        case PL_I4: store_i4_##suffix(x, zero, y, n); return true;                                 \
        case PL_U2: store_u2_##suffix(x, zero, y, n); return true;                                 \
        case PL_I2: store_i2_##suffix(x, zero, y, n); return true;                                 \
        default: return false;                                                                     \
        }                                                                                          \
    }
STORE_CODES(float, f32)
STORE_CODES(double, f64)

/* The same as pl_quant_store_f64. */
static void store_f32(const pl_quant_target *t, const float *x, void *y, size_t n) {
    if (store_codes_f32(t->dtype, x, (float)t->zero, y, n)) return;
    double wide[BLOCK];
    uint8_t *to = y; /* one byte each */
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t m = pl_size_min(n - at, BLOCK);
        for (size_t i = 0; i < m; i++)
            wide[i] = (double)x[at + i];
        store_small_float(t, wide, to + at, m);
    }
}

void pl_quant_store_f64(const pl_quant_target *t, const double *x, void *y, size_t n) {
    if (store_codes_f64(t->dtype, x, t->zero, y, n)) return;
    if (t->dtype == PL_F64) {
        memcpy(y, x, n * sizeof(*x));
    } else {
        store_small_float(t, x, y, n);
    }
}

void pl_quant_row(const pl_quant_target *t, const pl_i32 *acc, double s1, const pl_f64 *s2,
                  int64_t s2_step, bool in_f64, void *y, size_t n) {
    const size_t bytes = pl_dtype_bytes(t->dtype);
    float f32[BLOCK];
    double f64[BLOCK];
    const float fixed = (float)s1 * (float)s2[0] / (float)t->scale;
    for (size_t at = 0; at < n; at += BLOCK) {
        const size_t m = pl_size_min(n - at, BLOCK);
        char *to = (char *)y + at * bytes;
        if (in_f64) {
            for (size_t i = 0; i < m; i++)
                f64[i] = acc[at + i] * (s1 * s2[(int64_t)(at + i) * s2_step] / t->scale);
            pl_quant_store_f64(t, f64, to, m);
            continue;
        }
        if (s2_step == 0) {
            for (size_t i = 0; i < m; i++)
                f32[i] = (float)acc[at + i] * fixed;
        } else {
            for (size_t i = 0; i < m; i++)
                f32[i] = (float)acc[at + i] * ((float)s1 * (float)s2[at + i] / (float)t->scale);
        }
        store_f32(t, f32, to, m);
    }
}

/* ---- shape rules ---- */

pl_status pl_quant_single(const pl_infer *c, int i) {
    for (int d = 0; d < pl_infer_rank(c, i); d++) {
        const pl_dim dim = pl_infer_dim(c, i, d);
        if (pl_dim_known(dim) && dim.value != 1) {
            return pl_infer_fail(c, "input %d has a dim of %lld, expected a single value", i,
                                 (long long)dim.value);
        }
    }
    return PL_OK;
}

pl_status pl_quant_same_type(const pl_infer *c, int i, int zero) {
    const pl_dtype x = pl_infer_dtype_of(c, i), z = pl_infer_dtype_of(c, zero);
    if (x == PL_UNDEFINED || z == PL_UNDEFINED || x == z) return PL_OK;
    return pl_infer_fail(c, "zero point (input %d) is %s, expected %s", zero, pl_dtype_name(z),
                         pl_dtype_name(x));
}

static bool is_single(const pl_infer *c, int i) {
    for (int d = 0; d < pl_infer_rank(c, i); d++) {
        if (pl_infer_dim(c, i, d).value != 1) return false;
    }
    return true;
}

static pl_status check_dim(const pl_infer *c, int i, int d, pl_dim found, int64_t expected) {
    if (!pl_dim_known(found) || found.value == expected) return PL_OK;
    return pl_infer_fail(c, "dim %d of input %d is %lld, expected %lld", d, i,
                         (long long)found.value, (long long)expected);
}

/* Is input i (scale or zero point) a scalar, one for each index of the axis, or blocked? */
static pl_status check_param(const pl_infer *c, int i, int axis, int64_t block) {
    const int rank = pl_infer_rank(c, i), rank_x = pl_infer_rank(c, 0);
    if (rank <= 0 || rank_x < 0 || (block == 0 && is_single(c, i))) return PL_OK;
    if (rank_x == 0) return pl_infer_fail(c, "input %d is not a scalar, but input 0 is", i);
    if (block == 0) {
        const pl_dim whole = pl_infer_dim(c, 0, axis);
        if (rank != 1) {
            return pl_infer_fail(c, "input %d has rank %d, expected 0 or 1 without block_size", i,
                                 rank);
        }
        if (!pl_dim_known(whole)) return PL_OK;
        return check_dim(c, i, 0, pl_infer_dim(c, i, 0), whole.value);
    }
    if (rank != rank_x) {
        return pl_infer_fail(c, "input %d has rank %d, expected %d with block_size", i, rank,
                             rank_x);
    }
    for (int d = 0; d < rank; d++) {
        const pl_dim whole = pl_infer_dim(c, 0, d);
        if (!pl_dim_known(whole)) continue;
        const int64_t blocks = whole.value / block + (whole.value % block != 0);
        PL_TRY(check_dim(c, i, d, pl_infer_dim(c, i, d), d == axis ? blocks : whole.value));
    }
    return PL_OK;
}

static pl_status check_params(const pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const int64_t block = pl_attr_int(c->node, "block_size");
    int axis = 0;
    if (block < 0) return pl_infer_fail(c, "invalid block_size %lld", (long long)block);
    /* QuantizeLinear-25: an input of one dim needs no axis. */
    if (rank > 1 && (block > 0 || !is_single(c, 1))) {
        PL_TRY(pl_infer_axis(c, pl_attr_int(c->node, "axis"), rank, &axis));
    }
    PL_TRY(check_param(c, 1, axis, block));
    PL_TRY(check_param(c, 2, axis, block));
    if (!pl_infer_has(c, 2)) return PL_OK;
    if (pl_infer_rank(c, 1) >= 0 && pl_infer_rank(c, 2) >= 0 &&
        is_single(c, 1) != is_single(c, 2) && c->concrete) {
        return pl_infer_fail(c, "scale and zero point have different shapes");
    }
    return PL_OK;
}

/* The type that an attribute names; PL_UNDEFINED for 0. */
static pl_status attr_dtype(const pl_infer *c, const char *name, uint32_t allowed, pl_dtype *out) {
    const int64_t number = pl_attr_int(c->node, name);
    *out = PL_UNDEFINED;
    if (number == 0) return PL_OK;
    if (!pl_dtype_valid(number) || (allowed & PL_T((unsigned)number)) == 0) {
        return pl_infer_fail(c, "%s is %lld, which is not a valid type", name, (long long)number);
    }
    *out = (pl_dtype)number;
    return PL_OK;
}

pl_status pl_quantize_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dtype dtype = PL_U8, asked = PL_UNDEFINED, precision = PL_UNDEFINED;
    const pl_dtype zero = pl_infer_dtype_of(c, 2);
    PL_TRY(attr_dtype(c, "output_dtype", PL_T_QUANT, &asked));
    PL_TRY(attr_dtype(c, "precision", PL_T_FLOAT, &precision));
    if (asked != PL_UNDEFINED) dtype = asked;
    if (pl_infer_has(c, 2)) {
        if (asked != PL_UNDEFINED && zero != PL_UNDEFINED && zero != asked) {
            return pl_infer_fail(c, "output_dtype is %s, but the zero point is %s",
                                 pl_dtype_name(asked), pl_dtype_name(zero));
        }
        dtype = zero;
    }
    PL_TRY(check_params(c));
    return pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims);
}

pl_status pl_dequantize_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    pl_dtype dtype = PL_UNDEFINED;
    PL_TRY(pl_quant_same_type(c, 0, 2));
    PL_TRY(attr_dtype(c, "output_dtype", PL_T_FLOAT, &dtype));
    dtype = dtype == PL_UNDEFINED ? pl_infer_dtype_of(c, 1) : pl_infer_dtype(c, dtype);
    if (dtype == PL_F8E8M0) dtype = pl_infer_dtype(c, PL_F32); /* T3 has no such type */
    PL_TRY(check_params(c));
    return pl_infer_set(c, 0, dtype, rank, rank < 0 ? NULL : c->in[0]->dims);
}

/* ---- runs: stretches of the tensor that step through the scales evenly ---- */

typedef struct layout {
    int64_t n_runs, length; /* all runs but the last of an axis have this length */
    int64_t step;           /* through the scales within a run: 0 or 1 */
    int64_t n_axis, block;  /* step 0, blocked on the last axis: runs end at n_axis */
    int64_t per_axis;       /* scales along the axis */
} layout;

/* Start of run r in x, its length, and its first scale. */
static void run_at(const layout *l, int64_t r, int64_t *start, int64_t *n, int64_t *scale) {
    if (l->block > 0 && l->step == 0) { /* blocks along the last axis */
        const int64_t outer = r / l->per_axis, at = r % l->per_axis;
        *start = outer * l->n_axis + at * l->block;
        *n = pl_i64_min(l->block, l->n_axis - at * l->block);
        *scale = r;
        return;
    }
    *start = r * l->length;
    *n = l->length;
    if (l->block > 0) { /* a row of inner elements, each with its own scale */
        const int64_t outer = r / l->n_axis, at = r % l->n_axis;
        *scale = (outer * l->per_axis + at / l->block) * l->length;
    } else {
        *scale = l->step == 1 ? 0 : l->per_axis > 0 ? r % l->per_axis : 0;
    }
}

static layout layout_whole(const pl_tensor *x) {
    return (layout){ .n_runs = (x->n_elements + UNIT - 1) / UNIT, .length = UNIT };
}

static layout layout_of(const pl_eval *c, const pl_tensor *x, const pl_tensor *scale) {
    layout l = { 0 };
    const int64_t block = pl_attr_int(c->node, "block_size");
    /* "Used only for blocked quantization" (QuantizeLinear-21): with a single scale, ignore
     * block_size. */
    if (scale->rank == 0 || (block == 0 && scale->n_elements == 1)) {
        return layout_whole(x);
    }
    int64_t axis = x->rank == 1 ? 0 : pl_attr_int(c->node, "axis");
    if (axis < 0) axis += x->rank;
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < axis) outer *= x->dims[d];
        if (d > axis) inner *= x->dims[d];
    }
    l.n_axis = x->dims[axis];
    l.block = block;
    if (block > 0) {
        l.per_axis = scale->dims[axis];
        l.step = inner > 1 ? 1 : 0;
        l.n_runs = inner > 1 ? outer * l.n_axis : outer * l.per_axis;
        l.length = inner > 1 ? inner : block;
    } else {
        l.step = inner == 1 ? 1 : 0;
        l.n_runs = inner == 1 ? outer : outer * l.n_axis;
        l.length = inner == 1 ? l.n_axis : inner;
        l.per_axis = l.n_axis;
    }
    return l;
}

typedef struct quant_job {
    layout l;
    pl_dtype from, to, precision;
    const char *x;
    char *y;
    size_t x_bytes, y_bytes;
    int64_t n_total;
    const double *scale, *zero; /* zero may be NULL */
    bool saturate;
    void (*piece)(const struct quant_job *j, int64_t at, size_t n, int64_t scale);
} quant_job;

static void quant_runs(void *ctx, int64_t begin, int64_t end) {
    const quant_job *j = ctx;
    for (int64_t r = begin; r < end; r++) {
        int64_t start = 0, n = 0, scale = 0;
        run_at(&j->l, r, &start, &n, &scale);
        n = pl_i64_min(n, j->n_total - start);
        for (int64_t at = 0; at < n; at += BLOCK) {
            j->piece(j, start + at, (size_t)pl_i64_min(n - at, BLOCK), scale + at * j->l.step);
        }
    }
}

static void run_layout(pl_eval *c, quant_job *j, const pl_tensor *x, pl_tensor *y) {
    j->from = x->dtype;
    j->to = y->dtype;
    j->x = x->data;
    j->y = y->data;
    j->x_bytes = pl_dtype_bytes(x->dtype);
    j->y_bytes = pl_dtype_bytes(y->dtype);
    j->n_total = x->n_elements;
    const int64_t grain = pl_i64_max(1, UNIT / pl_i64_max(1, j->l.length));
    pl_pool_for(c->pool, j->l.n_runs, grain, quant_runs, j);
}

static pl_status run_job(pl_eval *c, quant_job *j, const pl_tensor *x, pl_tensor *y) {
    const pl_tensor *scale = pl_in(c, 1), *zero = pl_in(c, 2);
    double *s = pl_scratch(c, (size_t)scale->n_elements, sizeof(*s)), *z = NULL;
    if (s == NULL) return pl_eval_memory(c);
    pl_load_f64(scale->dtype, scale->data, s, (size_t)scale->n_elements);
    if (zero != NULL) {
        if (zero->n_elements != scale->n_elements) {
            return pl_eval_fail(c, "scale and zero point have different shapes");
        }
        z = pl_scratch(c, (size_t)zero->n_elements, sizeof(*z));
        if (z == NULL) return pl_eval_memory(c);
        pl_load_f64(zero->dtype, zero->data, z, (size_t)zero->n_elements);
    }
    if (x->n_elements == 0) return PL_OK;
    j->l = layout_of(c, x, scale);
    j->scale = s;
    j->zero = z;
    run_layout(c, j, x, y);
    return PL_OK;
}

/* ---- QuantizeLinear ---- */

/* x / scale in the arithmetic of the precision: low precision is rounded after each step. */
static void divide(const quant_job *j, const char *x, double *out, size_t n, int64_t scale) {
    pl_load_f64(j->from, x, out, n);
    uint16_t low[BLOCK];
    const bool is_low = j->precision == PL_F16 || j->precision == PL_BF16;
    if (is_low) {
        pl_store_f64(j->precision, out, low, n);
        pl_load_f64(j->precision, low, out, n);
    }
    for (size_t i = 0; i < n; i++)
        out[i] /= j->scale[scale + (int64_t)i * j->l.step];
    if (is_low) {
        pl_store_f64(j->precision, out, low, n);
        pl_load_f64(j->precision, low, out, n);
    }
}

static void store_each(const quant_job *j, const double *v, char *y, size_t n, int64_t scale) {
    for (size_t i = 0; i < n; i++) {
        const pl_quant_target t = { j->to, 1, j->zero[scale + (int64_t)i], j->saturate };
        pl_quant_store_f64(&t, v + i, y + i * j->y_bytes, 1);
    }
}

static void quantize_f64(const quant_job *j, int64_t at, size_t n, int64_t scale) {
    double v[BLOCK];
    char *y = j->y + (size_t)at * j->y_bytes;
    divide(j, j->x + (size_t)at * j->x_bytes, v, n, scale);
    const pl_quant_target t = { j->to, 1, j->zero != NULL ? j->zero[scale] : 0, j->saturate };
    if (j->zero != NULL && j->l.step != 0) {
        store_each(j, v, y, n, scale);
    } else {
        pl_quant_store_f64(&t, v, y, n);
    }
}

static void quantize_f32(const quant_job *j, int64_t at, size_t n, int64_t scale) {
    float v[BLOCK];
    char *y = j->y + (size_t)at * j->y_bytes;
    pl_load_f32(j->from, j->x + (size_t)at * j->x_bytes, v, n);
    if (j->l.step == 0) {
        const float s = (float)j->scale[scale];
        const pl_quant_target t = { j->to, 1, j->zero != NULL ? j->zero[scale] : 0, j->saturate };
        for (size_t i = 0; i < n; i++)
            v[i] /= s;
        store_f32(&t, v, y, n);
        return;
    }
    double wide[BLOCK];
    for (size_t i = 0; i < n; i++)
        v[i] /= (float)j->scale[scale + (int64_t)i];
    if (j->zero == NULL) {
        const pl_quant_target t = { j->to, 1, 0, j->saturate };
        store_f32(&t, v, y, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)v[i];
    store_each(j, wide, y, n, scale);
}

pl_status pl_quantize_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    const int64_t asked = pl_attr_int(c->node, "precision");
    quant_job job = { .saturate = !pl_attr_has(c->node, "saturate") ||
                                  pl_attr_int(c->node, "saturate") != 0 };
    job.precision = asked != 0 ? pl_eval_dtype(c, (pl_dtype)asked) : pl_in(c, 1)->dtype;
    if (job.precision == PL_F8E8M0) job.precision = pl_eval_dtype(c, PL_F32);
    job.piece = job.precision == PL_F32 && x->dtype != PL_F64 ? quantize_f32 : quantize_f64;
    return run_job(c, &job, x, pl_out(c, 0));
}

/* ---- DequantizeLinear ---- */

static void dequantize_f32(const quant_job *j, int64_t at, size_t n, int64_t scale) {
    float v[BLOCK];
    pl_load_f32(j->from, j->x + (size_t)at * j->x_bytes, v, n);
    if (j->l.step == 0) {
        const float s = (float)j->scale[scale], z = j->zero != NULL ? (float)j->zero[scale] : 0;
        for (size_t i = 0; i < n; i++)
            v[i] = (v[i] - z) * s;
    } else {
        for (size_t i = 0; i < n; i++) {
            const float z = j->zero != NULL ? (float)j->zero[scale + (int64_t)i] : 0;
            v[i] = (v[i] - z) * (float)j->scale[scale + (int64_t)i];
        }
    }
    pl_store_f32(j->to, v, j->y + (size_t)at * j->y_bytes, n);
}

/* For gold, and for int32, whose differences need more than 24 bits and are rounded to float
 * first. */
static void dequantize_f64(const quant_job *j, int64_t at, size_t n, int64_t scale) {
    double v[BLOCK];
    pl_load_f64(j->from, j->x + (size_t)at * j->x_bytes, v, n);
    for (size_t i = 0; i < n; i++) {
        const int64_t k = scale + (int64_t)i * j->l.step;
        v[i] -= j->zero != NULL ? j->zero[k] : 0;
        if (j->to == PL_F64) {
            v[i] *= j->scale[k];
        } else {
            v[i] = (double)((float)v[i] * (float)j->scale[k]);
        }
    }
    pl_store_f64(j->to, v, j->y + (size_t)at * j->y_bytes, n);
}

pl_status pl_dequantize_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    quant_job job = { .saturate = true };
    job.piece = y->dtype == PL_F64 || x->dtype == PL_I32 ? dequantize_f64 : dequantize_f32;
    return run_job(c, &job, x, y);
}

void pl_quant_whole(pl_eval *c, const pl_tensor *x, pl_tensor *y, double scale, double zero) {
    quant_job job = { .l = layout_whole(x),
                      .saturate = true,
                      .precision = x->dtype,
                      .scale = &scale,
                      .zero = &zero };
    job.piece = x->dtype == PL_F64 ? quantize_f64 : quantize_f32;
    run_layout(c, &job, x, y);
}

/* ---- DynamicQuantizeLinear ---- */

typedef struct range_job {
    const pl_tensor *x;
    double *low, *high; /* of each unit */
} range_job;

static void range_of(void *ctx, int64_t begin, int64_t end) {
    const range_job *j = ctx;
    const size_t bytes = pl_dtype_bytes(j->x->dtype);
    double low = 0, high = 0, v[BLOCK]; /* the range includes zero */
    for (int64_t at = begin; at < end; at += BLOCK) {
        const size_t n = (size_t)pl_i64_min(end - at, BLOCK);
        pl_load_f64(j->x->dtype, (const char *)j->x->data + (size_t)at * bytes, v, n);
        for (size_t i = 0; i < n; i++) {
            low = v[i] < low ? v[i] : low;
            high = v[i] > high ? v[i] : high;
        }
    }
    j->low[begin / UNIT] = low;
    j->high[begin / UNIT] = high;
}

pl_status pl_quant_dynamic(pl_eval *c, const pl_tensor *x, double *scale, double *zero) {
    const int64_t n_units = x->n_elements / UNIT + 1;
    range_job job = { x, pl_scratch(c, (size_t)n_units, sizeof(double)),
                      pl_scratch(c, (size_t)n_units, sizeof(double)) };
    if (job.low == NULL || job.high == NULL) return pl_eval_memory(c);
    memset(job.low, 0, (size_t)n_units * sizeof(double));
    memset(job.high, 0, (size_t)n_units * sizeof(double));
    pl_pool_for(c->pool, x->n_elements, UNIT, range_of, &job);
    double low = 0, high = 0;
    for (int64_t i = 0; i < n_units; i++) {
        low = job.low[i] < low ? job.low[i] : low;
        high = job.high[i] > high ? job.high[i] : high;
    }
    if (x->dtype == PL_F64) {
        *scale = (high - low) / 255;
        *zero = *scale == 0 ? 0 : rint(fmin(255, fmax(0, -low / *scale)));
    } else {
        const float s = ((float)high - (float)low) / 255;
        *scale = (double)s;
        *zero = s == 0 ? 0 : (double)rintf(fminf(255, fmaxf(0, -(float)low / s)));
    }
    /* An empty range would divide by zero; ONNX Runtime uses 1. */
    if (*scale == 0) *scale = 1;
    return PL_OK;
}

pl_status pl_dynamic_quantize_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0), *y_scale = pl_out(c, 1), *y_zero = pl_out(c, 2);
    double scale = 1, zero = 0;
    PL_TRY(pl_quant_dynamic(c, x, &scale, &zero));
    if (y_scale != NULL) pl_store_f64(y_scale->dtype, &scale, y_scale->data, 1);
    if (y_zero != NULL) pl_store_f64(PL_U8, &zero, y_zero->data, 1);
    if (y != NULL) pl_quant_whole(c, x, y, scale, zero);
    return PL_OK;
}
