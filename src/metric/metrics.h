/* The metrics: one row each, a function of the accumulators, with its direction and the limits for
 * its colours. Adding a metric adds a row in metrics.def.
 *
 * A pair has a class first and a number second. Sorted by "most divergent": structural, non-finite
 * mismatch, finite by the metric, exact. Limits depend on the pair's effective precision and, for
 * absolute errors, on max|r|; they are reported with the colour. */
#ifndef PL_METRICS_H
#define PL_METRICS_H

#include "metric/accumulate.h"

typedef enum pl_pair_class {
    PL_PAIR_EXACT,      /* every element equal */
    PL_PAIR_FINITE,     /* differs by numbers */
    PL_PAIR_NONFINITE,  /* NaN or Inf on one side only: worse than any number */
    PL_PAIR_STRUCTURAL, /* type or shape differ: there are no accumulators */
    PL_PAIR_CLASS_COUNT
} pl_pair_class;
const char *pl_pair_class_name(pl_pair_class c); /* "exact", … */
pl_pair_class pl_accumulators_class(const pl_accumulators *acc);
/* r is zero everywhere and a is not: ratios are meaningless, judge by max_abs. */
bool pl_accumulators_zero_reference(const pl_accumulators *acc);

/* X(NAME, "name", green, yellow): PSNR in dB from which a pair is green or yellow. F64 to F4 and
 * INT16 to INT2 follow measured noise floors of correct code; EXACT is for index-like integers,
 * bools and strings. */
/* clang-format off */
#define PL_PRECISION_MAP(X)                   \
    X(F64,    "fp64",    250,      200)       \
    X(F32,    "fp32",    100,      70)        \
    X(F16,    "fp16",    60,       40)        \
    X(BF16,   "bf16",    50,       35)        \
    X(F8E4M3, "fp8e4m3", 35,       25)        \
    X(F8E5M2, "fp8e5m2", 30,       20)        \
    X(F4,     "fp4",     20,       10)        \
    X(INT16,  "int16",   80,       60)        \
    X(INT8,   "int8",    40,       30)        \
    X(INT4,   "int4",    25,       15)        \
    X(INT2,   "int2",    10,       5)         \
    X(EXACT,  "exact",   INFINITY, INFINITY)
/* clang-format on */
typedef enum pl_precision {
#define X(NAME, text, green, yellow) PL_PRECISION_##NAME,
    PL_PRECISION_MAP(X)
#undef X
        PL_PRECISION_COUNT
} pl_precision;
const char *pl_precision_name(pl_precision p);
/* Of the coarser type. A caller that knows more (values that went through int8) passes its own. */
pl_precision pl_precision_of(pl_dtype a, pl_dtype r);

typedef struct pl_metric_limits { /* values as good as green are green, then yellow, then red */
    double green, yellow;
    bool known;
} pl_metric_limits;

typedef enum pl_direction { PL_LOWER_IS_BETTER, PL_HIGHER_IS_BETTER } pl_direction;
typedef enum pl_colour { PL_GREEN, PL_YELLOW, PL_RED, PL_NO_COLOUR } pl_colour;
const char *pl_colour_name(pl_colour c);

typedef struct pl_metric {
    const char *name, *long_name, *unit; /* unit "" = none; "=" = that of the values */
    pl_direction direction;
    double (*value)(const pl_accumulators *acc); /* never NaN */
    pl_metric_limits (*limits)(const pl_accumulators *acc, pl_precision p);
} pl_metric;

#define PL_METRIC(name, long_name, unit, BETTER, limits)                                           \
    double pl_measure_##name(const pl_accumulators *acc);                                          \
    pl_metric_limits pl_limits_of_##limits(const pl_accumulators *acc, pl_precision p);
#include "metric/metrics.def"
#undef PL_METRIC
extern const pl_metric pl_metrics[];
extern const size_t pl_n_metrics;
const pl_metric *pl_metric_find(const char *name); /* NULL if not found */

/* The metric whose limits colour the pair: m, or max_abs with a zero reference. */
const pl_metric *pl_metric_judged_by(const pl_metric *m, const pl_accumulators *acc,
                                     pl_precision p);
/* Exact is green and a non-finite mismatch red, whatever the metric. With a zero reference the
 * limits of max_abs decide. `used`, which may be NULL, takes the limits that were applied: the
 * metric's own, or max_abs's. */
pl_colour pl_metric_colour(const pl_metric *m, const pl_accumulators *acc, pl_precision p,
                           pl_metric_limits *used);
pl_colour pl_metric_judge(const pl_metric *m, double value, const pl_metric_limits *limits);
/* < 0 when pair x is worse (comes first in a list by divergence), 0 when equal; NULL = structural.
 */
int pl_metric_order(const pl_metric *m, const pl_accumulators *x, const pl_accumulators *y);

#endif
