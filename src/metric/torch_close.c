/* Elements in runs: f32 stays f32, f16 and bf16 are computed in f32 and rounded after every step,
 * f64 and complex in double, integers and bools in f32 (torch.isclose converts to the default
 * type).
 */
#include "metric/torch_close.h"

#include <math.h>

enum { RUN = 1024 };

/* ---- broadcasting ---- */
static int64_t dim_from_end(const pl_tensor *t, int i) {
    return i < t->rank ? t->dims[t->rank - 1 - i] : 1;
}

bool pl_torch_broadcasts(const pl_tensor *a, const pl_tensor *b) {
    for (int i = 0; i < a->rank || i < b->rank; i++) {
        const int64_t x = dim_from_end(a, i), y = dim_from_end(b, i);
        if (x != y && x != 1 && y != 1) return false;
    }
    return true;
}

/* A contiguous tensor of the broadcast shape; t itself if it has that shape. */
static pl_status spread(const pl_tensor *t, const pl_tensor *other, pl_tensor **out, pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    const int rank = t->rank > other->rank ? t->rank : other->rank;
    for (int i = 0; i < rank; i++) {
        const int64_t x = dim_from_end(t, i), y = dim_from_end(other, i);
        dims[rank - 1 - i] = x == 1 ? y : x;
        strides[rank - 1 - i] = x == 1 ? 0 : t->strides[t->rank - 1 - i];
    }
    pl_tensor *view = NULL;
    PL_TRY(pl_tensor_view(t, rank, dims, strides, 0, &view, err));
    const pl_status st = pl_tensor_contiguous(view, out, err);
    pl_tensor_unref(view);
    return st;
}

static pl_status spread_both(const pl_tensor *a, const pl_tensor *b, pl_tensor **x, pl_tensor **y,
                             pl_err *err) {
    PL_TRY(spread(a, b, x, err));
    const pl_status st = spread(b, a, y, err);
    if (st != PL_OK) {
        pl_tensor_unref(*x);
        *x = NULL;
    }
    return st;
}

/* ---- closeness of runs ---- */
static bool close_f32(const float *a, const float *b, size_t n, float tol, bool equal_nan) {
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        const float allowed = tol + fabsf(tol * b[i]), actual = fabsf(a[i] - b[i]);
        const int near = (actual <= allowed) & (actual < INFINITY) & (tol != 0);
        const int nan = (a[i] != a[i]) & (b[i] != b[i]) & equal_nan;
        bad |= !((a[i] == b[i]) | near | nan);
    }
    return !bad;
}

static bool close_f64(const double *a, const double *b, size_t n, double tol, bool equal_nan) {
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        const double allowed = tol + fabs(tol * b[i]), actual = fabs(a[i] - b[i]);
        const int near = (actual <= allowed) & (actual < (double)INFINITY) & (tol != 0);
        const int nan = (a[i] != a[i]) & (b[i] != b[i]) & equal_nan;
        bad |= !((a[i] == b[i]) | near | nan);
    }
    return !bad;
}

/* n complex numbers; equal_nan: both have a NaN part. */
static bool close_complex(const double *a, const double *b, size_t n, double tol, bool equal_nan) {
    for (size_t i = 0; i < 2 * n; i += 2) {
        if (a[i] == b[i] && a[i + 1] == b[i + 1]) continue;
        const bool nan_a = isnan(a[i]) || isnan(a[i + 1]), nan_b = isnan(b[i]) || isnan(b[i + 1]);
        if (equal_nan && nan_a && nan_b) continue;
        const double actual = hypot(a[i] - b[i], a[i + 1] - b[i + 1]);
        const double allowed = tol + hypot(tol * b[i], tol * b[i + 1]);
        if (tol == 0 || !isfinite(actual) || !(actual <= allowed)) return false;
    }
    return true;
}

static float round_to(pl_dtype t, float x) {
    char bits[8];
    float y;
    pl_store_f32(t, &x, bits, 1);
    pl_load_f32(t, bits, &y, 1);
    return y;
}

/* f16, bf16, float8: every operation rounds to the type, as does the tolerance (measured with torch
 * 1.13 on the CPU). */
static bool close_narrow(pl_dtype t, const float *a, const float *b, size_t n, float tol,
                         bool equal_nan) {
    const bool exact = tol == 0;
    tol = round_to(t, tol);
    for (size_t i = 0; i < n; i++) {
        if (a[i] == b[i] || (equal_nan && isnan(a[i]) && isnan(b[i]))) continue;
        const float allowed = round_to(t, tol + fabsf(round_to(t, tol * b[i])));
        const float actual = fabsf(round_to(t, a[i] - b[i]));
        if (exact || !isfinite(actual) || !(actual <= allowed)) return false;
    }
    return true;
}

static bool close_ints(pl_dtype t, const char *a, const char *b, size_t n, float tol) {
    int64_t x[RUN], y[RUN];
    pl_load_i64(t, a, x, n);
    pl_load_i64(t, b, y, n);
    for (size_t i = 0; i < n; i++) {
        if (x[i] == y[i]) continue;
        const float fx = t == PL_U64 ? (float)(uint64_t)x[i] : (float)x[i];
        const float fy = t == PL_U64 ? (float)(uint64_t)y[i] : (float)y[i];
        if (tol == 0 || !(fabsf(fx - fy) <= tol + fabsf(tol * fy))) return false;
    }
    return true;
}

static bool close_run(pl_dtype t, const char *a, const char *b, size_t n, double tol,
                      bool equal_nan) {
    float fa[RUN], fb[RUN];
    double x[2 * RUN], y[2 * RUN];
    switch (pl_dtype_class_of(t)) {
    case PL_CLASS_FLOAT:
        if (t == PL_F64) {
            pl_load_f64(t, a, x, n);
            pl_load_f64(t, b, y, n);
            return close_f64(x, y, n, tol, equal_nan);
        }
        pl_load_f32(t, a, fa, n);
        pl_load_f32(t, b, fb, n);
        if (t == PL_F32) return close_f32(fa, fb, n, (float)tol, equal_nan);
        return close_narrow(t, fa, fb, n, (float)tol, equal_nan);
    case PL_CLASS_COMPLEX:
        pl_load_f64(t == PL_C64 ? PL_F32 : PL_F64, a, x, 2 * n);
        pl_load_f64(t == PL_C64 ? PL_F32 : PL_F64, b, y, 2 * n);
        return close_complex(x, y, n, tol, equal_nan);
    case PL_CLASS_INT:
    case PL_CLASS_UINT:
    case PL_CLASS_BOOL: return close_ints(t, a, b, n, (float)tol);
    case PL_CLASS_STRING:
    case PL_CLASS_NONE: break;
    }
    return false;
}

pl_status pl_torch_allclose(const pl_tensor *a, const pl_tensor *b, double tol, bool equal_nan,
                            bool *out, pl_err *err) {
    pl_tensor *x = NULL, *y = NULL;
    PL_TRY(spread_both(a, b, &x, &y, err));
    const size_t size = pl_dtype_bytes(a->dtype);
    bool close = true;
    for (int64_t at = 0; at < x->n_elements && close; at += RUN) {
        const size_t n = (size_t)(x->n_elements - at < RUN ? x->n_elements - at : RUN);
        close = close_run(a->dtype, (const char *)x->data + (size_t)at * size,
                          (const char *)y->data + (size_t)at * size, n, tol, equal_nan);
    }
    *out = close;
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return PL_OK;
}

/* ---- sums ---- */
typedef struct sums {
    double dd, xx, yy, xy;
} sums;

static sums sum_runs(const pl_tensor *x, const pl_tensor *y) {
    double a[RUN], b[RUN];
    sums s = { 0 };
    const size_t sx = pl_dtype_bytes(x->dtype), sy = pl_dtype_bytes(y->dtype);
    for (int64_t at = 0; at < x->n_elements; at += RUN) {
        const size_t n = (size_t)(x->n_elements - at < RUN ? x->n_elements - at : RUN);
        sums run = { 0 };
        pl_load_f64(x->dtype, (const char *)x->data + (size_t)at * sx, a, n);
        pl_load_f64(y->dtype, (const char *)y->data + (size_t)at * sy, b, n);
        for (size_t i = 0; i < n; i++) {
            run.dd += (a[i] - b[i]) * (a[i] - b[i]);
            run.xx += a[i] * a[i];
            run.yy += b[i] * b[i];
            run.xy += a[i] * b[i];
        }
        s = (sums){ s.dd + run.dd, s.xx + run.xx, s.yy + run.yy, s.xy + run.xy };
    }
    return s;
}

pl_status pl_torch_rmse(const pl_tensor *x, const pl_tensor *y, double *out, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    PL_TRY(spread_both(x, y, &a, &b, err));
    *out = a->n_elements > 0 ? sqrt(sum_runs(a, b).dd / (double)a->n_elements) : (double)NAN;
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return PL_OK;
}

pl_status pl_torch_cosine(const pl_tensor *x, const pl_tensor *y, double *out, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    PL_TRY(spread_both(x, y, &a, &b, err));
    const sums s = sum_runs(a, b);
    *out = s.xy / (fmax(sqrt(s.xx), 1e-6) * fmax(sqrt(s.yy), 1e-6));
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return PL_OK;
}

pl_status pl_torch_has_nan(const pl_tensor *x, bool *out, pl_err *err) {
    pl_tensor *a = NULL;
    double v[RUN];
    *out = false;
    if (!pl_dtype_is_float(x->dtype)) return PL_OK;
    PL_TRY(pl_tensor_contiguous(x, &a, err));
    const size_t size = pl_dtype_bytes(a->dtype);
    for (int64_t at = 0; at < a->n_elements && !*out; at += RUN) {
        const size_t n = (size_t)(a->n_elements - at < RUN ? a->n_elements - at : RUN);
        pl_load_f64(a->dtype, (const char *)a->data + (size_t)at * size, v, n);
        for (size_t i = 0; i < n; i++)
            if (isnan(v[i])) *out = true;
    }
    pl_tensor_unref(a);
    return PL_OK;
}
