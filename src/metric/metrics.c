/* The table of metrics, their values and limits.
 *
 * Only PSNR has measured limits; those of the others are converted from it, with the factors given
 * at each. With a zero reference, limits on absolute errors take max|r| as 1. */
#include "metric/metrics.h"

#include <math.h>
#include <string.h>

#define INF ((double)INFINITY)

/* ---- classes ---- */
const char *pl_pair_class_name(pl_pair_class c) {
    static const char *const names[PL_PAIR_CLASS_COUNT] = { "exact", "finite", "nonfinite",
                                                            "structural" };
    return c < PL_PAIR_CLASS_COUNT ? names[c] : "?";
}

pl_pair_class pl_accumulators_class(const pl_accumulators *acc) {
    if (acc->nonfinite_index >= 0) return PL_PAIR_NONFINITE;
    return acc->n_mismatch > 0 ? PL_PAIR_FINITE : PL_PAIR_EXACT;
}

bool pl_accumulators_zero_reference(const pl_accumulators *acc) {
    return acc->max_r == 0 && acc->max_abs > 0;
}

/* ---- precision ---- */
const char *pl_precision_name(pl_precision p) {
    static const char *const names[] = {
#define X(NAME, text, green, yellow) text,
        PL_PRECISION_MAP(X)
#undef X
    };
    return p < PL_PRECISION_COUNT ? names[p] : "?";
}

pl_precision pl_precision_of(pl_dtype a, pl_dtype r) {
    switch (pl_dtype_coarser(a, r)) {
    case PL_F64:
    case PL_C128: return PL_PRECISION_F64;
    case PL_F32:
    case PL_C64: return PL_PRECISION_F32;
    case PL_F16: return PL_PRECISION_F16;
    case PL_BF16: return PL_PRECISION_BF16;
    case PL_F8E4M3FN:
    case PL_F8E4M3FNUZ: return PL_PRECISION_F8E4M3;
    case PL_F8E5M2:
    case PL_F8E5M2FNUZ: return PL_PRECISION_F8E5M2;
    case PL_F4E2M1:
    case PL_F8E8M0: return PL_PRECISION_F4;
    case PL_I16:
    case PL_U16: return PL_PRECISION_INT16;
    case PL_I8:
    case PL_U8: return PL_PRECISION_INT8;
    case PL_I4:
    case PL_U4: return PL_PRECISION_INT4;
    case PL_I2:
    case PL_U2: return PL_PRECISION_INT2;
    default: return PL_PRECISION_EXACT;
    }
}

/* ---- values ---- */
/* Undoes the scale: value * 2^scale. */
static double unscale(double x, int64_t scale) {
    return scale == 0 ? x : ldexp(x, (int)scale);
}
/* Nothing could be measured although the tensors differ (strings, all NaN): the worst value. */
static bool unmeasured(const pl_accumulators *acc) {
    return acc->n_finite == 0 && acc->n_mismatch > 0;
}
static double per_element(double sum, const pl_accumulators *acc) {
    if (unmeasured(acc)) return INF;
    return acc->n_finite > 0 ? sum / (double)acc->n_finite : 0;
}
double pl_measure_mse(const pl_accumulators *acc) {
    return unscale(per_element(acc->sum_sq, acc), 2 * acc->d_scale);
}
double pl_measure_rmse(const pl_accumulators *acc) {
    return unscale(sqrt(per_element(acc->sum_sq, acc)), acc->d_scale);
}
double pl_measure_mae(const pl_accumulators *acc) {
    return unscale(per_element(acc->sum_abs, acc), acc->d_scale);
}
double pl_measure_max_abs(const pl_accumulators *acc) {
    return unmeasured(acc) ? INF : acc->max_abs;
}
double pl_measure_mean_rel(const pl_accumulators *acc) {
    const int64_t n = acc->n_finite - acc->n_excluded;
    if (unmeasured(acc)) return INF;
    return n > 0 ? acc->sum_rel / (double)n : 0;
}
/* 10 log10(x / error), also where the quotient would overflow. */
static double decibels(double x, int64_t x_scale, double error, int64_t error_scale) {
    if (error == 0) return INF;
    if (x == 0) return -INF;
    const double q = x / error;
    if (x_scale == error_scale && q > 0 && !isinf(q)) return 10 * log10(q);
    return 10 * (log10(x) - log10(error)) + 20 * log10(2.0) * (double)(x_scale - error_scale);
}
double pl_measure_psnr(const pl_accumulators *acc) {
    const double error = per_element(acc->sum_sq, acc);
    if (unmeasured(acc)) return -INF;
    if (acc->d_scale == 0 && acc->max_r < 0x1p480 && acc->max_r > 0x1p-480) {
        return decibels(acc->max_r * acc->max_r, 0, error, 0);
    }
    int e = 0;
    const double m = frexp(acc->max_r, &e); /* the square may overflow */
    return decibels(m * m, e, error, acc->d_scale);
}
double pl_measure_snr(const pl_accumulators *acc) {
    if (unmeasured(acc)) return -INF;
    return decibels(acc->sum_rr, acc->v_scale, acc->sum_sq, acc->d_scale);
}
/* Both zero: the same direction, 1; one zero: none, 0. */
double pl_measure_cosine(const pl_accumulators *acc) {
    if (unmeasured(acc)) return -1;
    if (acc->sum_sq == 0) return 1;
    if (acc->sum_rr == 0 || acc->sum_aa == 0) return 0;
    const double c = acc->sum_ar / (sqrt(acc->sum_rr) * sqrt(acc->sum_aa));
    return c > 1 ? 1 : c < -1 ? -1 : c;
}
double pl_measure_max_ulp(const pl_accumulators *acc) {
    return (double)acc->max_ulp;
}
double pl_measure_mismatch(const pl_accumulators *acc) {
    return (double)acc->n_mismatch;
}

/* ---- limits ---- */
pl_metric_limits pl_limits_of_psnr(const pl_accumulators *acc, pl_precision p) {
    static const pl_metric_limits rows[] = {
#define X(NAME, text, green, yellow) { (double)(green), (double)(yellow), true },
        PL_PRECISION_MAP(X)
#undef X
    };
    (void)acc;
    return p < PL_PRECISION_COUNT ? rows[p] : (pl_metric_limits){ 0, 0, false };
}

typedef double (*from_db)(double db, double peak);
static pl_metric_limits converted(const pl_accumulators *acc, pl_precision p, from_db f) {
    const pl_metric_limits db = pl_limits_of_psnr(acc, p);
    const double peak = acc->max_r > 0 ? acc->max_r : 1;
    return (pl_metric_limits){ f(db.green, peak), f(db.yellow, peak), db.known };
}
/* Signals are about 12 dB below their peak. */
static double db_snr(double db, double peak) {
    (void)peak;
    return db - 12;
}
static double db_mse(double db, double peak) {
    return peak * peak * pow(10, -db / 10);
}
static double db_rmse(double db, double peak) {
    return peak * pow(10, -db / 20);
}
/* The largest of many normal errors is 4 to 6 times their rms; twice that for heavier tails. */
static double db_max_abs(double db, double peak) {
    return 10 * db_rmse(db, peak);
}
/* Errors are as large at small values as at large ones, so the mean of 1/|r| dominates. */
static double db_mean_rel(double db, double peak) {
    return 10 * pow(10, -db_snr(db, peak) / 20);
}
/* An error orthogonal to the signal rotates it by the angle rms(d) / rms(r). */
static double db_cosine(double db, double peak) {
    return 1 - 0.5 * pow(10, -db_snr(db, peak) / 10);
}
pl_metric_limits pl_limits_of_snr(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_snr);
}
pl_metric_limits pl_limits_of_mse(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_mse);
}
pl_metric_limits pl_limits_of_rmse(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_rmse);
}
pl_metric_limits pl_limits_of_max_abs(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_max_abs);
}
pl_metric_limits pl_limits_of_mean_rel(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_mean_rel);
}
pl_metric_limits pl_limits_of_cosine(const pl_accumulators *acc, pl_precision p) {
    return converted(acc, p, db_cosine);
}
/* A distance in ulps is meaningless near zero: any limit would flag clean runs. */
pl_metric_limits pl_limits_of_none(const pl_accumulators *acc, pl_precision p) {
    (void)acc;
    (void)p;
    return (pl_metric_limits){ 0, 0, false };
}
pl_metric_limits pl_limits_of_mismatch(const pl_accumulators *acc, pl_precision p) {
    (void)acc;
    return (pl_metric_limits){ 0, 0, p == PL_PRECISION_EXACT };
}

/* ---- the table ---- */
const pl_metric pl_metrics[] = {
#define PL_METRIC(name, long_name, unit, BETTER, limits)                                           \
    { #name, long_name, unit, PL_##BETTER##_IS_BETTER, pl_measure_##name, pl_limits_of_##limits },
#include "metric/metrics.def"
#undef PL_METRIC
};
const size_t pl_n_metrics = sizeof pl_metrics / sizeof *pl_metrics;

const pl_metric *pl_metric_find(const char *name) {
    for (size_t i = 0; i < pl_n_metrics; i++)
        if (strcmp(pl_metrics[i].name, name) == 0) return &pl_metrics[i];
    return NULL;
}

/* ---- colours and order ---- */
const char *pl_colour_name(pl_colour c) {
    static const char *const names[] = { "green", "yellow", "red", "none" };
    return c <= PL_NO_COLOUR ? names[c] : "?";
}

pl_colour pl_metric_judge(const pl_metric *m, double value, const pl_metric_limits *limits) {
    if (!limits->known) return PL_NO_COLOUR;
    const bool up = m->direction == PL_HIGHER_IS_BETTER;
    if (up ? value >= limits->green : value <= limits->green) return PL_GREEN;
    if (up ? value >= limits->yellow : value <= limits->yellow) return PL_YELLOW;
    return PL_RED;
}

const pl_metric *pl_metric_judged_by(const pl_metric *m, const pl_accumulators *acc,
                                     pl_precision p) {
    const bool bounded = m->limits(acc, p).known;
    return bounded && pl_accumulators_zero_reference(acc) ? pl_metric_find("max_abs") : m;
}

pl_colour pl_metric_colour(const pl_metric *m, const pl_accumulators *acc, pl_precision p,
                           pl_metric_limits *used) {
    const pl_metric *by = pl_metric_judged_by(m, acc, p);
    const pl_metric_limits limits = by->limits(acc, p);
    if (used != NULL) *used = limits;
    switch (pl_accumulators_class(acc)) {
    case PL_PAIR_EXACT: return PL_GREEN;
    case PL_PAIR_NONFINITE:
    case PL_PAIR_STRUCTURAL: return PL_RED;
    case PL_PAIR_FINITE:
    case PL_PAIR_CLASS_COUNT: break;
    }
    return pl_metric_judge(by, by->value(acc), &limits);
}

int pl_metric_order(const pl_metric *m, const pl_accumulators *x, const pl_accumulators *y) {
    const pl_pair_class cx = x == NULL ? PL_PAIR_STRUCTURAL : pl_accumulators_class(x);
    const pl_pair_class cy = y == NULL ? PL_PAIR_STRUCTURAL : pl_accumulators_class(y);
    if (cx != cy) return cx > cy ? -1 : 1;
    if (x == NULL || y == NULL) return 0;
    const double vx = m->value(x), vy = m->value(y);
    const int better = m->direction == PL_HIGHER_IS_BETTER ? 1 : -1;
    return vx < vy ? -better : vx > vy ? better : 0;
}
