/* Metrics of logits, and their table. */
#include "metric/logits.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

#define INF ((double)INFINITY)

/* ---- one pair of rows ---- */

/* False if there is a NaN or +Inf, or no possible token. */
static bool has_distribution(const double *x, int64_t n) {
    bool some = false;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i]) || x[i] == INF) return false;
        some = some || x[i] > -INF;
    }
    return some;
}

static int64_t best_of(const double *x, int64_t n, int64_t but) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        if (i == but || isnan(x[i])) continue;
        if (best < 0 || x[i] > x[best]) best = i;
    }
    return best < 0 ? 0 : best;
}

static double log_sum_exp(const double *x, int64_t n, double top) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

/* The k best, best first; ties go to the lower index. */
static void top_of(const double *x, int64_t n, int64_t k, int64_t *best) {
    int64_t n_best = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = n_best;
        while (at > 0 && x[i] > x[best[at - 1]])
            at--;
        if (at >= k) continue;
        if (n_best < k) n_best++;
        memmove(best + at + 1, best + at, (size_t)(n_best - at - 1) * sizeof(*best));
        best[at] = i;
    }
}

static double share_of_top(const pl_logit_pair *p) {
    int64_t a[PL_LOGIT_TOP] = { 0 }, r[PL_LOGIT_TOP] = { 0 }, n = 0;
    const int64_t k = p->n < PL_LOGIT_TOP ? p->n : PL_LOGIT_TOP;
    top_of(p->a, p->n, k, a);
    top_of(p->r, p->n, k, r);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            n += r[i] == a[j];
    return (double)n / (double)k;
}

pl_status pl_logit_pair_init(pl_logit_pair *p, const double *a, const double *r, int64_t n,
                             int64_t token, pl_err *err) {
    *p = (pl_logit_pair){ .a = a, .r = r, .n = n, .token = token };
    if (n < 1) return pl_fail(err, PL_E_INVALID, "logits of no tokens");
    if (token >= n)
        return pl_fail(err, PL_E_INVALID, "token %lld, but the logits are of %lld tokens",
                       (long long)token, (long long)n);
    p->a_best = best_of(a, n, -1);
    p->r_best = best_of(r, n, -1);
    p->rival = p->a_best != p->r_best ? p->a_best : best_of(r, n, p->r_best);
    if (token < 0) p->token = p->r_best;
    p->broken = !has_distribution(a, n) || !has_distribution(r, n);
    if (p->broken) return PL_OK;
    p->a_log = log_sum_exp(a, n, a[p->a_best]);
    p->r_log = log_sum_exp(r, n, r[p->r_best]);
    p->shared = share_of_top(p);
    return PL_OK;
}

/* ---- values ---- */

/* Sum of exp(x) (x - y), both as logs of probabilities. */
static double divergence(const double *x, double x_log, const double *y, double y_log, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = x[i] - x_log, q = y[i] - y_log;
        if (p == -INF) continue;
        if (q == -INF) return INF;
        sum += exp(p) * (p - q);
    }
    return sum > 0 ? sum : 0; /* rounding may make it negative */
}

double pl_logit_kl(const pl_logit_pair *p) {
    return p->broken ? INF : divergence(p->r, p->r_log, p->a, p->a_log, p->n);
}
double pl_logit_kl_reverse(const pl_logit_pair *p) {
    return p->broken ? INF : divergence(p->a, p->a_log, p->r, p->r_log, p->n);
}
double pl_logit_nll(const pl_logit_pair *p) {
    return p->broken ? INF : p->a_log - p->a[p->token];
}
double pl_logit_nll_reference(const pl_logit_pair *p) {
    return p->broken ? INF : p->r_log - p->r[p->token];
}
double pl_logit_top_k(const pl_logit_pair *p) {
    return p->broken ? 0 : p->shared;
}
double pl_logit_flip(const pl_logit_pair *p) {
    return p->broken || p->a_best != p->r_best ? 1 : 0;
}

/* x[i] - x[j]; with a single token there is no rival, and an impossible one is infinitely far
 * behind. */
static double lead(const double *x, int64_t i, int64_t j) {
    return x[i] == x[j] ? 0 : x[i] - x[j];
}
double pl_logit_margin(const pl_logit_pair *p) {
    if (p->broken) return 0;
    return p->n == 1 ? INF : lead(p->r, p->r_best, p->rival);
}
double pl_logit_drift(const pl_logit_pair *p) {
    if (p->broken) return INF;
    const double r = lead(p->r, p->r_best, p->rival), a = lead(p->a, p->r_best, p->rival);
    return a == r ? 0 : fabs(a - r);
}

/* ---- the table ---- */
const pl_logit_metric pl_logit_metrics[PL_N_LOGIT_METRICS] = {
#define PL_LOGIT_METRIC(name, long_name, unit, BETTER)                                             \
    { #name, long_name, unit, PL_##BETTER##_IS_BETTER, pl_logit_##name },
#include "metric/logits.def"
#undef PL_LOGIT_METRIC
};

/* ---- tensors ---- */

static pl_status check_logits(const pl_tensor *a, const pl_tensor *r, size_t n_tokens, bool given,
                              pl_err *err) {
    char x[200], y[200];
    if (!pl_tensor_same_shape(a, r))
        return pl_fail(err, PL_E_INVALID, "%s and %s have different shapes",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    if (pl_dtype_class_of(a->dtype) != PL_CLASS_FLOAT ||
        pl_dtype_class_of(r->dtype) != PL_CLASS_FLOAT || a->rank < 1 || a->n_elements == 0)
        return pl_fail(err, PL_E_INVALID, "%s holds no logits: expected floats of rank 1 or more",
                       pl_tensor_describe(a, x, sizeof x));
    const int64_t n_rows = a->n_elements / a->dims[a->rank - 1];
    if (given && n_tokens != (size_t)n_rows)
        return pl_fail(err, PL_E_INVALID, "%zu tokens for %lld rows of logits", n_tokens,
                       (long long)n_rows);
    return PL_OK;
}

pl_status pl_measure_logits(const pl_tensor *a, const pl_tensor *r, const int64_t *tokens,
                            size_t n_tokens, double values[PL_N_LOGIT_METRICS], pl_err *err) {
    pl_status st = PL_OK;
    pl_tensor *x = NULL, *y = NULL;
    double *rows = NULL;
    memset(values, 0, PL_N_LOGIT_METRICS * sizeof(*values));
    PL_TRY(check_logits(a, r, n_tokens, tokens != NULL, err));
    const int64_t n = a->dims[a->rank - 1], n_rows = a->n_elements / n;
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(a, &x, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(r, &y, err));
    rows = pl_calloc((size_t)n, 2 * sizeof(*rows));
    st = rows == NULL ? pl_fail_memory(err, (size_t)n) : PL_OK;
    const size_t step_a = (size_t)n * pl_dtype_bytes(x->dtype),
                 step_r = (size_t)n * pl_dtype_bytes(y->dtype);
    for (int64_t i = 0; i < n_rows && st == PL_OK; i++) {
        pl_logit_pair p;
        pl_load_f64(x->dtype, (const char *)x->data + (size_t)i * step_a, rows, (size_t)n);
        pl_load_f64(y->dtype, (const char *)y->data + (size_t)i * step_r, rows + n, (size_t)n);
        st = pl_logit_pair_init(&p, rows, rows + n, n, tokens == NULL ? -1 : tokens[i], err);
        for (size_t k = 0; k < PL_N_LOGIT_METRICS && st == PL_OK; k++)
            values[k] += pl_logit_metrics[k].value(&p) / (double)n_rows;
    }
done:
    pl_free(rows);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return st;
}
