/* The plumb rule: structure, non-finite masks, every element within its bound. */
#include <math.h>
#include <stdio.h>

#include "base/count.h"
#include "base/size.h"
#include "metric/accumulate.h"
#include "metric/metrics.h"
#include "metric/same_int.h"

enum { RUN = 512 };

/* One complex element counts as the larger of its parts' ratios; the index is the element's. */
static void judge_run(const double *a, const double *r, const double *bound, size_t n, int64_t at,
                      size_t per_element, pl_same_result *out) {
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(a[i]) || !isfinite(r[i])) continue; /* masks agree already */
        const double d = fabs(a[i] - r[i]);
        /* Written so that a NaN bound fails. */
        const double q = d == 0 ? 0 : bound[i] > 0 ? d / bound[i] : (double)INFINITY;
        if (q <= out->worst) continue;
        out->worst = q;
        out->index = at + (int64_t)(i / per_element);
    }
}

static void judge_all(const pl_tensor *res, const pl_tensor *ref, const pl_plumb_rule *rule,
                      pl_same_result *out) {
    double a[RUN], r[RUN], bound[RUN], one[RUN];
    const bool is_complex = pl_dtype_class_of(ref->dtype) == PL_CLASS_COMPLEX;
    const size_t per = is_complex ? 2 : 1, size = pl_dtype_bytes(ref->dtype);
    const pl_dtype part = !is_complex ? ref->dtype : ref->dtype == PL_C64 ? PL_F32 : PL_F64;
    for (int64_t at = 0; at < ref->n_elements; at += RUN / 2) {
        const size_t n = (size_t)pl_i64_min(ref->n_elements - at, RUN / 2);
        pl_load_f64(part, (const char *)res->data + (size_t)at * size, a, n * per);
        pl_load_f64(part, (const char *)ref->data + (size_t)at * size, r, n * per);
        if (rule->bound != NULL) rule->bound(rule->ctx, at, n, one);
        for (size_t i = 0; i < n * per; i++)
            bound[i] = rule->bound != NULL ? one[i / per] : rule->atol + rule->rtol * fabs(r[i]);
        judge_run(a, r, bound, n * per, at, per, out);
    }
}

static pl_status judge(const pl_tensor *ref, const pl_tensor *res, const pl_plumb_rule *rule,
                       const pl_accumulators *acc, pl_same_result *out, pl_err *err) {
    pl_tensor *a = NULL, *r = NULL;
    PL_TRY(pl_tensor_contiguous(res, &a, err));
    const pl_status st = pl_tensor_contiguous(ref, &r, err);
    if (st == PL_OK) {
        judge_all(a, r, rule, out);
        out->rule = PL_RULE_BOUND;
        if (!(out->worst <= 1))
            pl_same_say(out, PL_SAME_NO, PL_RULE_BOUND,
                        "element %lld is off by %.3g times its bound; largest error %.6g",
                        (long long)out->index, out->worst, acc->max_abs);
    }
    pl_tensor_unref(a);
    pl_tensor_unref(r);
    return st;
}

pl_status pl_same_plumb(const pl_tensor *ref, const pl_tensor *res, const pl_plumb_rule *rule,
                        pl_same_result *out, pl_err *err) {
    char a[100], b[100];
    pl_same_result_init(out);
    if (ref->dtype != res->dtype || !pl_tensor_same_shape(ref, res)) {
        pl_same_say(out, PL_SAME_NO, ref->dtype != res->dtype ? PL_RULE_DTYPE : PL_RULE_STRUCTURE,
                    "is %s, expected %s", pl_tensor_describe(res, a, sizeof a),
                    pl_tensor_describe(ref, b, sizeof b));
        return PL_OK;
    }
    pl_accumulators acc;
    PL_TRY(pl_accumulate(NULL, res, ref, &acc, err));
    out->res_error = pl_metric_find("rmse")->value(&acc);
    if (acc.nonfinite_index >= 0) {
        const int64_t n_bad =
            acc.n_nan_a + acc.n_nan_r + acc.n_inf_a + acc.n_inf_r + acc.n_inf_sign;
        out->index = acc.nonfinite_index;
        pl_same_say(out, PL_SAME_NO, PL_RULE_NONFINITE,
                    "NaN or Inf on one side only at %lld element%s, first at %lld",
                    (long long)n_bad, pl_plural((uint64_t)n_bad), (long long)acc.nonfinite_index);
        return PL_OK;
    }
    const pl_dtype_class c = pl_dtype_class_of(ref->dtype);
    const bool exact = c != PL_CLASS_FLOAT && c != PL_CLASS_COMPLEX && rule->bound == NULL;
    if (acc.n_mismatch == 0 || c == PL_CLASS_STRING || exact) {
        out->rule = PL_RULE_EQUALITY;
        out->index = acc.mismatch_index;
        if (acc.n_mismatch > 0)
            pl_same_say(out, PL_SAME_NO, PL_RULE_EQUALITY,
                        "%lld of %lld elements differ, first at %lld", (long long)acc.n_mismatch,
                        (long long)acc.n, (long long)acc.mismatch_index);
        return PL_OK;
    }
    return judge(ref, res, rule, &acc, out, err);
}

static pl_status plumb_at(const pl_datum *ref, const pl_datum *res, const pl_plumb_rule *rule,
                          int depth, pl_same_result *out, pl_err *err) {
    char a[100], b[100], step[32];
    pl_same_result_init(out);
    if (depth > PL_SAME_DEPTH_MAX)
        return pl_fail(err, PL_E_LIMIT, "data nested deeper than %d", PL_SAME_DEPTH_MAX);
    if (ref->kind != res->kind || ref->n_items != res->n_items) {
        pl_same_say(out, PL_SAME_NO, PL_RULE_STRUCTURE, "is %s, expected %s",
                    pl_datum_describe(res, a, sizeof a), pl_datum_describe(ref, b, sizeof b));
        return PL_OK;
    }
    if (ref->kind == PL_TYPE_TENSOR) return pl_same_plumb(ref->tensor, res->tensor, rule, out, err);
    for (size_t i = 0; i < ref->n_items; i++) {
        PL_TRY(plumb_at(ref->items[i], res->items[i], rule, depth + 1, out, err));
        if (out->verdict == PL_SAME_YES) continue;
        snprintf(step, sizeof step, "[%zu]", i);
        pl_same_path_prepend(out, step);
        return PL_OK;
    }
    return PL_OK;
}

pl_status pl_same_plumb_datum(const pl_datum *ref, const pl_datum *res, const pl_plumb_rule *rule,
                              pl_same_result *out, pl_err *err) {
    pl_plumb_rule plain = *rule;
    plain.bound = NULL;
    return plumb_at(ref, res, &plain, 0, out, err);
}
