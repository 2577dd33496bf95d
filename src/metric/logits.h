/* Metrics of logits: the next token of a language model, on both sides.
 *
 * One row of scores each; the softmax is computed here, in double and shifted by the largest score,
 * so that adding a constant to a row changes nothing. The table is logits.def. No value is ever
 * NaN: a row that holds a NaN or +Inf has no distribution, and every metric takes its worst value.
 * -Inf is probability 0; a divergence is Inf if one side gives probability 0 to a token that the
 * other allows. */
#ifndef PL_LOGITS_H
#define PL_LOGITS_H

#include "metric/metrics.h"

enum { PL_LOGIT_TOP = 10 }; /* tokens of the metric top_k; fewer when the vocabulary is smaller */

typedef struct pl_logit_pair {
    const double *a, *r;
    int64_t n;      /* size of the vocabulary, at least 1 */
    int64_t token;  /* the actual next token, or the reference's choice */
    int64_t a_best; /* most likely tokens; the lower index wins a tie */
    int64_t r_best;
    int64_t rival;       /* A's choice if it differs, else the reference's second */
    bool broken;         /* a row without a distribution */
    double a_log, r_log; /* log of the sum of exp(score) */
    double shared;       /* share of the top tokens */
} pl_logit_pair;
/* n >= 1. token < 0: the reference's choice; beyond the vocabulary: PL_E_INVALID. */
pl_status pl_logit_pair_init(pl_logit_pair *p, const double *a, const double *r, int64_t n,
                             int64_t token, pl_err *err);

typedef struct pl_logit_metric {
    const char *name, *long_name, *unit;
    pl_direction direction;
    double (*value)(const pl_logit_pair *p); /* never NaN */
} pl_logit_metric;

#define PL_LOGIT_METRIC(name, long_name, unit, BETTER)                                             \
    double pl_logit_##name(const pl_logit_pair *p);
#include "metric/logits.def"
#undef PL_LOGIT_METRIC
enum {
#define PL_LOGIT_METRIC(name, long_name, unit, BETTER) PL_LOGIT_##name,
#include "metric/logits.def"
#undef PL_LOGIT_METRIC
    PL_N_LOGIT_METRICS
};
extern const pl_logit_metric pl_logit_metrics[PL_N_LOGIT_METRICS];

/* Every metric, the mean over the rows of two tensors of one shape whose last axis is the
 * vocabulary. tokens: one for each row, or NULL. */
pl_status pl_measure_logits(const pl_tensor *a, const pl_tensor *r, const int64_t *tokens,
                            size_t n_tokens, double values[PL_N_LOGIT_METRICS], pl_err *err);

#endif
