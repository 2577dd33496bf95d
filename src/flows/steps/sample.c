/* Sampling: temperature, top-k, top-p, one random number for each token. */
#include "flows/steps/sample.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

/* ---- rules ---- */

static bool read_number(const char *text, double *out) {
    char *end = NULL;
    errno = 0;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && errno == 0 && isfinite(*out);
}

static bool is_whole(double x) {
    return x == floor(x) && x >= 0 && x < 0x1p53;
}

static pl_status read_part(char *part, pl_sample_rule *rule, pl_err *err) {
    char *value = strchr(part, '=');
    double x = 0;
    if (value != NULL) *value++ = '\0';
    if (value == NULL || !read_number(value, &x))
        return pl_fail(err, PL_E_USAGE, "sampling: '%.60s' requires a number", part);
    if (strcmp(part, "temperature") == 0 && x > 0) {
        rule->temperature = x;
    } else if (strcmp(part, "top-k") == 0 && is_whole(x)) {
        rule->top_k = (int64_t)x;
    } else if (strcmp(part, "top-p") == 0 && x > 0 && x <= 1) {
        rule->top_p = x;
    } else if (strcmp(part, "seed") == 0 && is_whole(x)) {
        rule->seed = (uint64_t)x;
    } else {
        return pl_fail(err, PL_E_USAGE,
                       "sampling: invalid '%.60s=%.60s'; available: greedy, or temperature=T "
                       "(above 0), top-k=K, top-p=P (above 0, at most 1), seed=S",
                       part, value);
    }
    return PL_OK;
}

pl_status pl_sample_rule_read(const char *text, pl_sample_rule *out, pl_err *err) {
    *out = (pl_sample_rule){ .temperature = 1, .top_p = 1 };
    if (text == NULL || strcmp(text, "greedy") == 0) return PL_OK;
    out->draws = true;
    char *copy = pl_strdup(text), *rest = NULL;
    if (copy == NULL) return pl_fail_memory(err, strlen(text));
    pl_status st = PL_OK;
    for (char *part = strtok_r(copy, ",", &rest); st == PL_OK && part != NULL;
         part = strtok_r(NULL, ",", &rest))
        st = read_part(part, out, err);
    pl_free(copy);
    return st;
}

/* ---- tokens ---- */

typedef struct candidate {
    double weight;
    int64_t token;
} candidate;

static int by_weight(const void *x, const void *y) {
    const candidate *a = x, *b = y;
    if (a->weight != b->weight) return a->weight > b->weight ? -1 : 1;
    return a->token < b->token ? -1 : a->token > b->token;
}

static int64_t best_of(const double *logits, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == (double)INFINITY) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return n > 0 && logits[best] > -(double)INFINITY ? best : -1;
}

/* How many of the sorted candidates stay, and their sum. */
static int64_t kept(const pl_sample_rule *rule, const candidate *c, int64_t n, double *sum) {
    double all = 0, part = 0;
    if (rule->top_k > 0 && rule->top_k < n) n = rule->top_k;
    for (int64_t i = 0; i < n; i++)
        all += c[i].weight;
    for (int64_t i = 0; i < n; i++) {
        part += c[i].weight;
        if (part >= rule->top_p * all) {
            *sum = part;
            return i + 1;
        }
    }
    *sum = all;
    return n;
}

pl_status pl_sample_token(const pl_sample_rule *rule, const double *logits, int64_t n, int64_t at,
                          int64_t *token, pl_err *err) {
    const int64_t best = best_of(logits, n);
    *token = best;
    if (!rule->draws || best < 0) return PL_OK;
    candidate *c = pl_calloc((size_t)n, sizeof(*c));
    if (c == NULL) return pl_fail_memory(err, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        c[i] = (candidate){ exp((logits[i] - logits[best]) / rule->temperature), i };
    qsort(c, (size_t)n, sizeof(*c), by_weight);
    double sum = 0, part = 0;
    const int64_t n_kept = kept(rule, c, n, &sum);
    const double drawn = pl_rng_uniform_at(rule->seed, 0x73616d70, (uint64_t)at) * sum;
    for (int64_t i = 0; i < n_kept; i++) {
        part += c[i].weight;
        *token = c[i].token;
        if (drawn < part) break;
    }
    pl_free(c);
    return PL_OK;
}
