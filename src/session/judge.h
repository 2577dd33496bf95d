/* How one pair of tensors is judged: every metric in one pass, the verdict by a profile, the colour
 * by limits.
 *
 * Profile plumb, where no error bound is known: |a - r| <= tol * (|r| + rms(r)) for every element,
 * tol by the pair's effective precision unless it is given (judge.c has the table). Integers and
 * bools must agree exactly, except that few integers of at most 8 bits that were rounded from reals
 * may be off by one code. After quantisation, an error that is one factor for all elements is not
 * rounding. Profile torch: PyTorch's same(). */
#ifndef PL_JUDGE_H
#define PL_JUDGE_H

#include <plumb.h>

#include "session/limits.h"
#include "session/session.h"

typedef enum pl_profile { PL_PROFILE_PLUMB, PL_PROFILE_TORCH } pl_profile;
bool pl_profile_parse(const char *text, pl_profile *out); /* "plumb", "torch" */
const char *pl_profile_name(pl_profile profile);

typedef struct pl_judge {
    pl_profile profile;
    double tol;              /* plumb; NAN = by precision */
    plumb_same_options same; /* torch */
    const pl_metric *metric; /* metric for the colour */
    const pl_limits *limits; /* of the user, or NULL */
} pl_judge;
double pl_judge_tol(const pl_judge *judge, pl_precision precision);

/* What is known of the pair beforehand. */
typedef struct pl_judge_pair {
    const char *value, *op; /* for the user's limits */
    pl_precision precision; /* effective */
    pl_dtype dtype;         /* of a, for the user's limits */
    double step;            /* floats: value of one code, if they are dequantised; 0 = not known */
    double absolute;        /* floats: what any element may be off by, however small it is */
    bool rounded;           /* integers: rounded from reals, so they may be off by one */
} pl_judge_pair;

typedef struct pl_judged {
    pl_accumulators acc;
    pl_pair_class pair_class;
    pl_colour colour;
    pl_metric_limits limits;
    const char *limits_from; /* owned by the limits, or static */
    bool rule_fails;         /* by the profile's rule */
    pl_verdict verdict;      /* SAME, WITHIN or MISMATCH */
    char reason[420];        /* "" when it agrees */
} pl_judged;

/* Shapes must be the same (else PL_E_INVALID) and types comparable. Thread-safe. Results do not
 * depend on the pool. */
pl_status pl_judge_tensors(const pl_judge *judge, pl_pool *pool, const pl_judge_pair *pair,
                           const pl_tensor *a, const pl_tensor *r, pl_judged *out, pl_err *err);
/* The same with the accumulators, when they are known: reads elements only for a second pass. */
pl_status pl_judge_measured(const pl_judge *judge, pl_pool *pool, const pl_judge_pair *pair,
                            const pl_tensor *a, const pl_tensor *r, const pl_accumulators *acc,
                            pl_judged *out, pl_err *err);
/* Metrics are relative to the size of the value. What an operator may be off by however small that
 * is (`absolute`, pl_value_absolute_error) is yellow, not red. */
pl_colour pl_judge_colour(pl_colour by_metric, const pl_accumulators *acc, double absolute);
/* False when values of these types cannot be compared: text or bool with numbers, integers with
 * floats. */
bool pl_judge_types_fit(pl_dtype a, pl_dtype r);

#endif
