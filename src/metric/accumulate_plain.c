/* Elements in runs that fit the stack, through double (64-bit integers through int64). */
#include "metric/accumulate_plain.h"

#include <math.h>
#include <string.h>

enum { RUN = 512 };

/* One pair of numbers, whatever their type was. */
typedef struct pair {
    double d, abs_a, abs_r; /* |d|, |a|, |r| */
    double aa, rr, ar;      /* |a|^2, |r|^2, Re(a conj(r)), all scaled by v_scale */
    double a, r;            /* for the report: the value, or a complex one's real part */
} pair;

static double smallest_normal(pl_dtype t) {
    switch (t) {
    case PL_F32:
    case PL_C64:
    case PL_BF16: return 0x1p-126;
    case PL_F64:
    case PL_C128: return 0x1p-1022;
    case PL_F16: return 0x1p-14;
    case PL_F8E4M3FN: return 0x1p-6;
    case PL_F8E4M3FNUZ: return 0x1p-7;
    case PL_F8E5M2: return 0x1p-14;
    case PL_F8E5M2FNUZ: return 0x1p-15;
    case PL_F4E2M1: return 1;
    default: return 0;
    }
}

static void add_pair(pl_accumulators *out, const pair *p, double tiny, int64_t at) {
    const double d = out->d_scale == 0 ? p->d : ldexp(p->d, -(int)out->d_scale);
    out->n_finite++;
    out->sum_sq += d * d;
    out->sum_abs += d;
    out->sum_rr += p->rr;
    out->sum_aa += p->aa;
    out->sum_ar += p->ar;
    if (p->d > out->max_abs || out->max_abs_index < 0) {
        out->max_abs = p->d;
        out->max_abs_index = at;
        out->max_abs_a = p->a;
        out->max_abs_r = p->r;
    }
    if (p->abs_a > out->max_a) out->max_a = p->abs_a;
    if (p->abs_r > out->max_r) out->max_r = p->abs_r;
    if (p->abs_r <= out->floor) {
        out->n_excluded++;
    } else {
        out->sum_rel += p->d / p->abs_r;
    }
    if (p->abs_r < tiny && p->abs_r > 0) {
        out->n_subnormal++;
        if (p->abs_a == 0) out->n_flushed++;
    }
}

static void note_mismatch(pl_accumulators *out, int64_t at, bool nonfinite) {
    out->n_mismatch++;
    if (out->mismatch_index < 0) out->mismatch_index = at;
    if (nonfinite && out->nonfinite_index < 0) out->nonfinite_index = at;
}

/* True when both are finite; else the pair is counted in its class. */
static bool both_finite(pl_accumulators *out, double a, double r, int64_t at) {
    if (isfinite(a) && isfinite(r)) return true;
    bool same = false;
    if (isnan(a) || isnan(r)) {
        same = isnan(a) && isnan(r);
        if (same) {
            out->n_both_nan++;
        } else if (isnan(a)) {
            out->n_nan_a++;
        } else {
            out->n_nan_r++;
        }
    } else if (isinf(a) && isinf(r)) {
        same = a == r;
        if (same) {
            out->n_both_inf++;
        } else {
            out->n_inf_sign++;
        }
    } else if (isinf(a)) {
        out->n_inf_a++;
    } else {
        out->n_inf_r++;
    }
    if (!same) note_mismatch(out, at, true);
    return false;
}

/* ---- units in the last place ---- */
/* Elements as integers in the order of the values; adjacent values differ by 1. */
static int64_t ordered_code(pl_dtype t, const char *p) {
    uint64_t bits = 0;
    const size_t size = pl_dtype_bytes(t);
    memcpy(&bits, p, size);
    if (t == PL_F8E8M0) return (int64_t)bits;
    const unsigned sign_bit = t == PL_F4E2M1 ? 3 : (unsigned)(8 * size - 1);
    const int64_t magnitude = (int64_t)(bits & ((UINT64_C(1) << sign_bit) - 1));
    return (bits >> sign_bit & 1) != 0 ? -magnitude : magnitude;
}

static void add_ulp(pl_accumulators *out, pl_dtype t, double a, double r) {
    char x[8], y[8];
    pl_store_f64(t, &a, x, 1);
    pl_store_f64(t, &r, y, 1);
    const int64_t i = ordered_code(t, x), k = ordered_code(t, y);
    int64_t ulp;
    if (__builtin_sub_overflow(i > k ? i : k, i > k ? k : i, &ulp)) ulp = INT64_MAX;
    if (ulp > out->max_ulp) out->max_ulp = ulp;
}

/* ---- floats, and floats against integers ---- */
/* The scale that keeps squares of values up to `max` in range. */
static int64_t scale_for(double max) {
    return max > 0x1p480 ? 600 : max > 0 && max < 0x1p-480 ? -600 : 0;
}

static void choose_scales(const double *a, const double *r, size_t n, double *max_d,
                          double *max_v) {
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(r[i])) continue;
        *max_d = fmax(*max_d, fabs(a[i] - r[i]));
        *max_v = fmax(*max_v, fmax(fabs(a[i]), fabs(r[i])));
    }
}

static void add_floats(pl_accumulators *out, const double *a, const double *r, size_t n,
                       pl_dtype coarse, int64_t at) {
    const double tiny = smallest_normal(coarse);
    const bool has_ulp = pl_dtype_is_float(coarse);
    const int v = -(int)out->v_scale;
    for (size_t i = 0; i < n; i++) {
        const int64_t here = at + (int64_t)i;
        if (!both_finite(out, a[i], r[i], here)) continue;
        const double x = v == 0 ? a[i] : ldexp(a[i], v), y = v == 0 ? r[i] : ldexp(r[i], v);
        const pair p = {
            fabs(a[i] - r[i]), fabs(a[i]), fabs(r[i]), x * x, y * y, x * y, a[i], r[i]
        };
        if (a[i] != r[i]) note_mismatch(out, here, false);
        add_pair(out, &p, tiny, here);
        if (has_ulp && a[i] != r[i]) add_ulp(out, coarse, a[i], r[i]);
    }
}

/* If the difference of two finite values overflows, d and max_abs are Inf, but the scaled sum must
 * not be. */
static void fix_overflow(pl_accumulators *out, double a, double r) {
    const double d = fabs(ldexp(a, -(int)out->d_scale) - ldexp(r, -(int)out->d_scale));
    out->sum_abs += d;
    out->sum_sq += d * d;
}

static void plain_floats(pl_dtype type_a, const char *a, pl_dtype type_r, const char *r, size_t n,
                         pl_dtype coarse, pl_accumulators *out) {
    double x[RUN], y[RUN], max_d = 0, max_v = 0;
    const size_t sa = pl_dtype_bytes(type_a), sr = pl_dtype_bytes(type_r);
    if (type_a == PL_F64 || type_r == PL_F64) {
        for (size_t at = 0; at < n; at += RUN) {
            const size_t m = n - at < RUN ? n - at : RUN;
            pl_load_f64(type_a, a + at * sa, x, m);
            pl_load_f64(type_r, r + at * sr, y, m);
            choose_scales(x, y, m, &max_d, &max_v);
        }
        out->d_scale = scale_for(max_d);
        out->v_scale = scale_for(max_v);
    }
    for (size_t at = 0; at < n; at += RUN) {
        const size_t m = n - at < RUN ? n - at : RUN;
        pl_load_f64(type_a, a + at * sa, x, m);
        pl_load_f64(type_r, r + at * sr, y, m);
        add_floats(out, x, y, m, coarse, (int64_t)at);
    }
    if (!isinf(max_d)) return;
    out->sum_abs = out->sum_sq = 0;
    for (size_t at = 0; at < n; at++) {
        pl_load_f64(type_a, a + at * sa, x, 1);
        pl_load_f64(type_r, r + at * sr, y, 1);
        if (isfinite(x[0]) && isfinite(y[0])) fix_overflow(out, x[0], y[0]);
    }
}

/* ---- integers and bools ---- */
static void plain_integers(pl_dtype type_a, const char *a, pl_dtype type_r, const char *r, size_t n,
                           pl_accumulators *out) {
    int64_t x[RUN], y[RUN];
    const size_t sa = pl_dtype_bytes(type_a), sr = pl_dtype_bytes(type_r);
    for (size_t at = 0; at < n; at += RUN) {
        const size_t m = n - at < RUN ? n - at : RUN;
        pl_load_i64(type_a, a + at * sa, x, m);
        pl_load_i64(type_r, r + at * sr, y, m);
        for (size_t i = 0; i < m; i++) {
            const bool big_x = type_a == PL_U64 && x[i] < 0, big_y = type_r == PL_U64 && y[i] < 0;
            const bool x_over_y = big_x != big_y ? big_x
                                  : big_x        ? (uint64_t)x[i] > (uint64_t)y[i]
                                                 : x[i] > y[i];
            /* Exact modulo 2^64, unless a negative I64 meets a U64 above 2^63. */
            const uint64_t gap =
                x_over_y ? (uint64_t)x[i] - (uint64_t)y[i] : (uint64_t)y[i] - (uint64_t)x[i];
            const double fx = big_x ? (double)(uint64_t)x[i] : (double)x[i];
            const double fy = big_y ? (double)(uint64_t)y[i] : (double)y[i];
            const double d = big_x != big_y ? fabs(fx - fy) : (double)gap;
            const int64_t here = (int64_t)(at + i);
            if (x[i] != y[i] || big_x != big_y) note_mismatch(out, here, false);
            const pair p = { d, fabs(fx), fabs(fy), fx * fx, fy * fy, fx * fy, fx, fy };
            add_pair(out, &p, 0, here);
            const bool beyond = gap > INT64_MAX || (big_x != big_y && d >= 0x1p63);
            const int64_t ulp = beyond ? INT64_MAX : (int64_t)gap;
            if (ulp > out->max_ulp) out->max_ulp = ulp;
        }
    }
}

/* ---- complex and strings ---- */
static void load_complex(pl_dtype t, const char *p, double out[2]) {
    const bool is_complex = pl_dtype_class_of(t) == PL_CLASS_COMPLEX;
    const pl_dtype part = t == PL_C64 ? PL_F32 : t == PL_C128 ? PL_F64 : t;
    out[1] = 0;
    pl_load_f64(part, p, out, is_complex ? 2 : 1);
}

static double complex_class(const double z[2]) { /* NaN, Inf or finite, as a single number */
    if (isnan(z[0]) || isnan(z[1])) return (double)NAN;
    return isinf(z[0]) || isinf(z[1]) ? (double)INFINITY : 0;
}

static void plain_complex(pl_dtype type_a, const char *a, pl_dtype type_r, const char *r, size_t n,
                          pl_dtype coarse, pl_accumulators *out) {
    const size_t sa = pl_dtype_bytes(type_a), sr = pl_dtype_bytes(type_r);
    const double tiny = smallest_normal(coarse);
    const pl_dtype part = coarse == PL_C128 ? PL_F64 : PL_F32;
    for (size_t i = 0; i < n; i++) {
        double x[2], y[2];
        load_complex(type_a, a + i * sa, x);
        load_complex(type_r, r + i * sr, y);
        const double cx = complex_class(x), cy = complex_class(y);
        if (isinf(cx) && isinf(cy) && (x[0] != y[0] || x[1] != y[1])) {
            out->n_inf_sign++;
            note_mismatch(out, (int64_t)i, true);
            continue;
        }
        if (!both_finite(out, cx, cy, (int64_t)i)) continue;
        const pair p = { hypot(x[0] - y[0], x[1] - y[1]),
                         hypot(x[0], x[1]),
                         hypot(y[0], y[1]),
                         x[0] * x[0] + x[1] * x[1],
                         y[0] * y[0] + y[1] * y[1],
                         x[0] * y[0] + x[1] * y[1],
                         x[0],
                         y[0] };
        if (x[0] != y[0] || x[1] != y[1]) note_mismatch(out, (int64_t)i, false);
        add_pair(out, &p, tiny, (int64_t)i);
        add_ulp(out, part, x[0], y[0]);
        add_ulp(out, part, x[1], y[1]);
    }
}

static void plain_strings(const pl_string *a, const pl_string *r, size_t n, pl_accumulators *out) {
    for (size_t i = 0; i < n; i++) {
        const bool same = a[i].n_bytes == r[i].n_bytes &&
                          (a[i].n_bytes == 0 || memcmp(a[i].data, r[i].data, a[i].n_bytes) == 0);
        if (!same) note_mismatch(out, (int64_t)i, false);
    }
}

void pl_accumulate_plain(pl_dtype type_a, const char *a, pl_dtype type_r, const char *r, size_t n,
                         pl_dtype coarse, double floor, pl_accumulators *out) {
    const pl_dtype_class ca = pl_dtype_class_of(type_a), cr = pl_dtype_class_of(type_r);
    pl_accumulators_init(out);
    out->n = (int64_t)n;
    out->floor = floor;
    if (ca == PL_CLASS_STRING) {
        plain_strings((const pl_string *)(const void *)a, (const pl_string *)(const void *)r, n,
                      out);
    } else if (ca == PL_CLASS_COMPLEX || cr == PL_CLASS_COMPLEX) {
        plain_complex(type_a, a, type_r, r, n, coarse, out);
    } else if (ca == PL_CLASS_FLOAT || cr == PL_CLASS_FLOAT) {
        plain_floats(type_a, a, type_r, r, n, coarse, out);
    } else {
        plain_integers(type_a, a, type_r, r, n, out);
    }
}
