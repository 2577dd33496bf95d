/* The table of kinds, and the data that its rows look at.
 *
 * An element is bad when it is more than four bounds from its replay. A hypothesis predicts the bad
 * elements (or all of them); it explains the data when 99 in 100 predictions are within twice four
 * bounds plus a few roundings. Order matters: special kinds come first. */
#include "blame/kind.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/kind_int.h"

typedef struct kind_row {
    const char *name;
    bool (*fits)(pl_kind_data *k); /* may set k->text */
} kind_row;

/* ---- shared ---- */

double pl_kind_slack(const pl_kind_data *k, int64_t i, double p) {
    if (k->is_integer) return k->e[i];
    return 8 * k->e[i] + 4 * k->u * (fabs(p) + fabs(k->a[i]) + fabs(k->d[i])) + k->tiny;
}

bool pl_kind_near(const pl_kind_data *k, int64_t i, double p) {
    return fabs(k->a[i] - p) <= pl_kind_slack(k, i, p);
}

int64_t pl_kind_sample_size(const pl_kind_data *k) {
    return k->n_bad < PL_KIND_SAMPLE ? k->n_bad : PL_KIND_SAMPLE;
}

int64_t pl_kind_sampled(const pl_kind_data *k, int64_t s) {
    return k->bad[k->n_bad / pl_kind_sample_size(k) * s];
}

/* A computed integer errs by its own rounding and stays within its type. */
static bool near_stored(const pl_kind_data *k, int64_t i, double p) {
    if (!k->is_integer) return pl_kind_near(k, i, p);
    return fabs(k->a[i] - fmin(fmax(p, k->least), k->most)) <= 1 + k->e[i];
}

/* Do 99 in 100 of the bad elements equal what fn predicts for them? For integers, whose rounding is
 * as large as small errors, the prediction must also be much closer than the replay. */
static bool explains_bad(const pl_kind_data *k, double (*fn)(const pl_kind_data *, int64_t)) {
    int64_t good = 0;
    double left = 0, before = 0;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b];
        const double p = fn(k, i);
        good += near_stored(k, i, p);
        left += fabs(k->a[i] - fmin(fmax(p, k->least), k->most));
        before += fabs(k->a[i] - k->d[i]);
    }
    return 100 * good >= 99 * k->n_bad && (!k->is_integer || left <= before / 2);
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n) {
    qsort(x, (size_t)n, sizeof(double), compare_doubles);
    return n % 2 == 1 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* The median, of a sample if there are many; changes x. */
static double middle(double *x, int64_t n) {
    enum { MOST = 4096 };
    if (n <= MOST) return median(x, n);
    for (int64_t i = 0; i < MOST; i++)
        x[i] = x[n / MOST * i];
    return median(x, MOST);
}

static void say(pl_kind_data *k, const char *what, double x) {
    const char *text = pl_arena_printf(k->arena, "%s %.6g", what, x);
    k->text = text == NULL ? "" : text;
}

/* ---- rows ---- */

static bool nonfinite(pl_kind_data *k) {
    int64_t n_nan = 0, n_inf = 0, n_lost = 0;
    for (int64_t i = 0; i < k->n; i++) {
        n_nan += isnan(k->a[i]) && !isnan(k->d[i]);
        n_inf += isinf(k->a[i]) && !isinf(k->d[i]);
        n_lost += isfinite(k->a[i]) && !isfinite(k->d[i]);
    }
    if (n_nan + n_inf + n_lost == 0) return false;
    k->text = n_nan > 0 ? "NaN born here" : n_inf > 0 ? "Inf born here" : "NaN or Inf lost here";
    return true;
}

/* Unsigned codes wrap around. */
static double negated(const pl_kind_data *k, int64_t i) {
    return k->is_integer && k->least == 0 && k->d[i] > 0 ? k->most + 1 - k->d[i] : -k->d[i];
}
static bool sign(pl_kind_data *k) {
    return explains_bad(k, negated);
}

/* Zeros: a block of zeros is a region that was never written; denormals are flushed. */
static bool zero(pl_kind_data *k) {
    for (int64_t b = 0; b < k->n_bad; b++)
        if (k->a[k->bad[b]] != 0) return false;
    return true;
}

static bool flushed(pl_kind_data *k) {
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b];
        if (k->a[i] != 0 || fabs(k->d[i]) >= k->normal) return false;
    }
    return true;
}

/* All bad elements sit at the largest or smallest value, and the replay, which is not constant,
 * goes beyond it. */
static bool saturated(pl_kind_data *k) {
    double high = -(double)INFINITY, low = (double)INFINITY, most = -(double)INFINITY,
           least = (double)INFINITY;
    for (int64_t i = 0; i < k->n; i++) {
        high = fmax(high, k->a[i]);
        low = fmin(low, k->a[i]);
        most = fmax(most, k->d[i]);
        least = fmin(least, k->d[i]);
    }
    if (high == low && least < low && most > high) return false; /* a constant, not a limit */
    if (k->n_bad < 3 || most - least <= 16 * k->u * (fabs(most) + fabs(least))) return false;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b];
        const bool above = k->a[i] == high && k->d[i] > high;
        const bool below = k->a[i] == low && k->d[i] < low;
        if (!above && !below) return false;
    }
    const bool top = k->a[k->bad[0]] == high;
    say(k, "saturated at", top ? high : low);
    return true;
}

/* The elements are representable in the lower type (except for a few: bf16 that became a subnormal
 * fp16) and within one rounding of the replay, which is not representable. */
static bool rounded_to(const pl_kind_data *k, pl_dtype type, double u) {
    int64_t fits = 0;
    if (k->u >= u || k->n_bad == 0) return false;
    for (int64_t i = 0; i < k->n; i++) {
        double back = 0;
        unsigned char packed[8];
        pl_store_f64(type, &k->a[i], packed, 1);
        pl_load_f64(type, packed, &back, 1);
        fits += back == k->a[i];
        const double own = 1.01 * u * fabs(k->d[i]) + 4 * k->e[i] + 0x1p-24;
        if (!(fabs(k->a[i] - k->d[i]) <= own) || 50 * (i + 1 - fits) > k->n) return false;
    }
    return true;
}
static bool bf16(pl_kind_data *k) {
    k->text = "low precision: bfloat16";
    return rounded_to(k, PL_BF16, 0x1p-8);
}
static bool fp16(pl_kind_data *k) {
    k->text = "low precision: float16";
    return rounded_to(k, PL_F16, 0x1p-11);
}

/* With a single bad element all kinds would fit. */
static bool one_element(pl_kind_data *k) {
    if (k->n_bad != 1) return false;
    const int64_t i = k->bad[0];
    const double d = k->d[i], off = k->a[i] - d;
    const char *text =
        k->n > 1 ? pl_arena_printf(k->arena, "one element: %.6g, expected %.6g", k->a[i], d)
        : d != 0 ? pl_arena_printf(k->arena, "offset %.6g, or scale %.6g", off, k->a[i] / d)
                 : pl_arena_printf(k->arena, "offset %.6g", off);
    k->text = text == NULL ? "" : text;
    return true;
}

static double scaled(const pl_kind_data *k, int64_t i) {
    return k->p0 * k->d[i];
}
static bool scale(pl_kind_data *k) {
    int64_t n = 0;
    for (int64_t b = 0; b < k->n_bad && n < k->n; b++) {
        const int64_t i = k->bad[b];
        if (fabs(k->d[i]) > 8 * k->e[i] && k->d[i] != 0) k->work[n++] = k->a[i] / k->d[i];
    }
    if (n < 2) return false;
    k->p0 = middle(k->work, n);
    if (!explains_bad(k, scaled)) return false;
    say(k, "scale", k->p0);
    return true;
}

static double shifted_by(const pl_kind_data *k, int64_t i) {
    return k->d[i] + k->p0;
}
/* Each difference includes the rounding of a large element; their mean does not, and small
 * elements, which have little slack, need that precision. */
static void refine_offset(pl_kind_data *k) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t b = 0; b < k->n_bad && !k->is_integer; b++) {
        const int64_t i = k->bad[b];
        if (!pl_kind_near(k, i, k->d[i] + k->p0)) continue;
        sum += k->a[i] - k->d[i];
        n++;
    }
    if (2 * n > k->n_bad) k->p0 = sum / (double)n;
}

static bool offset(pl_kind_data *k) {
    for (int64_t b = 0; b < k->n_bad; b++)
        k->work[b] = k->a[k->bad[b]] - k->d[k->bad[b]];
    if (k->n_bad < 2) return false;
    k->p0 = middle(k->work, k->n_bad);
    refine_offset(k);
    if (!explains_bad(k, shifted_by)) return false;
    say(k, "offset", k->p0);
    return true;
}

static double linear_of(const pl_kind_data *k, int64_t i) {
    return k->p0 * k->d[i] + k->p1;
}
static bool linear(pl_kind_data *k) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0;
    const double n = (double)k->n_bad;
    if (k->n_bad < 4) return false;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const double x = k->d[k->bad[b]], y = k->a[k->bad[b]];
        sx += x;
        sy += y;
        sxx += x * x;
        sxy += x * y;
    }
    const double det = n * sxx - sx * sx;
    if (!(det > 0)) return false;
    k->p0 = (n * sxy - sx * sy) / det;
    k->p1 = (sy - k->p0 * sx) / n;
    if (!explains_bad(k, linear_of)) return false;
    const char *text = fabs(k->p0) * sqrt(sxx / n) <= 16 * k->u * fabs(k->p1)
                           ? pl_arena_printf(k->arena, "constant %.6g", k->p1)
                           : pl_arena_printf(k->arena, "linear: %.6g x + %.6g", k->p0, k->p1);
    k->text = text == NULL ? "" : text;
    return true;
}

/* Truncated instead of rounded: every difference is one code, all towards zero or all away from it,
 * and some elements are right. One code everywhere would be an offset; one code for all large
 * elements a scale. */
static bool truncated(pl_kind_data *k) {
    int64_t towards = 0, larger = 0;
    double least = (double)INFINITY;
    if (k->n_bad < 8 || !k->is_integer || 10 * k->n_bad > 9 * k->n) return false;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b];
        if (fabs(k->a[i] - k->d[i]) != 1) return false;
        towards += fabs(k->a[i]) < fabs(k->d[i]);
        least = fmin(least, fabs(k->d[i]));
    }
    for (int64_t i = 0; i < k->n; i++)
        larger += fabs(k->d[i]) > least;
    if (larger < k->n_bad) return false;
    k->text = "wrong rounding mode";
    return towards == k->n_bad || towards == 0;
}

static const kind_row rows[] = {
    { "nan", nonfinite },
    { "flushed denormals", flushed },
    { "sign flip", sign },
    { "zero region", zero },
    { "rounding", truncated },
    { "saturated", saturated },
    { "bf16", bf16 },
    { "fp16", fp16 },
    { "one-element", one_element },
    { "scale", scale },
    { "offset", offset },
    { "stale region", pl_kind_stale },
    { "transposed", pl_kind_transposed },
    { "shifted", pl_kind_shifted },
    { "permuted", pl_kind_permuted },
    { "linear", linear },
    { "stale region", pl_kind_region },
};

/* ---- the data ---- */

static void list_bad(pl_kind_data *k) {
    for (int64_t i = 0; i < k->n; i++) {
        const bool apart = isnan(k->a[i]) != isnan(k->d[i]) || isinf(k->a[i]) != isinf(k->d[i]);
        const double scale_ =
            k->is_integer ? k->e[i] : 4 * (fmax(k->e[i], k->u * fabs(k->d[i])) + k->tiny);
        if (apart || fabs(k->a[i] - k->d[i]) > scale_) k->bad[k->n_bad++] = i;
    }
}

static pl_status data_init(pl_kind_data *k, const pl_tensor *a, const pl_tensor *d,
                           const pl_tensor *bound, pl_dtype native, pl_err *err) {
    const size_t n = (size_t)a->n_elements;
    k->n = a->n_elements;
    k->shape = a;
    k->is_integer = !pl_dtype_is_float(native);
    k->u = k->is_integer ? 0 : pl_dtype_unit_roundoff(native);
    k->tiny = native == PL_F16 ? 0x1p-24 : 0x1p-126;
    k->normal = native == PL_F16 ? 0x1p-14 : 0x1p-126;
    const bool is_signed = k->is_integer && pl_dtype_class_of(native) == PL_CLASS_INT;
    const int bits = k->is_integer ? (int)pl_dtype_bits(native) : 64;
    k->most = ldexp(1, is_signed ? bits - 1 : bits) - 1;
    k->least = is_signed ? -ldexp(1, bits - 1) : 0;
    if (!k->is_integer) k->least = -(k->most = (double)INFINITY);
    k->a = pl_calloc(n + 1, sizeof(double));
    k->d = pl_calloc(n + 1, sizeof(double));
    k->e = pl_calloc(n + 1, sizeof(double));
    k->work = pl_calloc(n + 1, sizeof(double));
    k->bad = pl_calloc(n + 1, sizeof(int64_t));
    if (k->a == NULL || k->d == NULL || k->e == NULL || k->work == NULL || k->bad == NULL) {
        return pl_fail_memory(err, n);
    }
    pl_load_f64(a->dtype, a->data, k->a, n);
    pl_load_f64(d->dtype, d->data, k->d, n);
    if (bound != NULL) memcpy(k->e, bound->data, n * sizeof(double));
    list_bad(k);
    return PL_OK;
}

static void data_release(pl_kind_data *k) {
    pl_free(k->a);
    pl_free(k->d);
    pl_free(k->e);
    pl_free(k->work);
    pl_free(k->bad);
}

static bool starts(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

/* A single channel, or the tail of a vector loop, says more than the kind of error there. */
static void name_place(pl_kind_data *k, pl_kind_fit *out) {
    const char *place = starts(out->where, "index") && k->n_bad > 1  ? "one channel"
                        : starts(out->where, "tail") && k->n_bad > 1 ? "tail"
                                                                     : NULL;
    if (*out->text == '\0') out->text = out->kind;
    if (place == NULL || starts(out->kind, "nan")) return;
    const char *text = strcmp(out->kind, "other") == 0
                           ? place
                           : pl_arena_printf(k->arena, "%s: %s", place, out->text);
    out->kind = place;
    if (text != NULL) out->text = text;
}

pl_status pl_kind_of(const pl_tensor *a, const pl_tensor *d, const pl_tensor *bound,
                     pl_dtype native, pl_arena *arena, pl_kind_fit *out, pl_err *err) {
    pl_kind_data k = { .arena = arena, .text = "" };
    *out = (pl_kind_fit){ "other", "", "", NULL };
    if (a->dtype == PL_STRING || !pl_tensor_same_shape(a, d) || a->n_elements == 0) return PL_OK;
    pl_status st = data_init(&k, a, d, bound, native, err);
    for (size_t i = 0; st == PL_OK && k.n_bad > 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
        k.text = "";
        if (!rows[i].fits(&k)) continue;
        out->kind = rows[i].name;
        out->text = k.text;
        break;
    }
    if (st == PL_OK) out->where = pl_kind_where(&k);
    if (st == PL_OK) name_place(&k, out);
    data_release(&k);
    return st;
}
