/* Choosing a token from a row of logits: the most likely one, or one drawn by a rule with a seed.
 */
#ifndef PL_SAMPLE_H
#define PL_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The order is that of Hugging Face: temperature, then top-k, then top-p. */
typedef struct pl_sample_rule {
    bool draws;         /* false: greedy */
    double temperature; /* 1 */
    int64_t top_k;      /* the most likely so many; 0 = all */
    double top_p;       /* as few of the most likely as have this probability together; 1 = all */
    uint64_t seed;      /* 0 */
} pl_sample_rule;

/* "greedy" (NULL), or "temperature=0.8,top-k=40,top-p=0.95,seed=1" in any part and order. */
pl_status pl_sample_rule_read(const char *text, pl_sample_rule *out, pl_err *err);

/* The token after `at` others. It depends on the logits, the rule and `at` only. Tokens of the same
 * logit count in rising order. -1: the row is no distribution (NaN or +Inf). */
pl_status pl_sample_token(const pl_sample_rule *rule, const double *logits, int64_t n, int64_t at,
                          int64_t *token, pl_err *err);

#endif
