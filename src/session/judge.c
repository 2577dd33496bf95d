/* One pass, then the rule, then the colour. A second pass over the elements is needed only if the
 * largest error is between what every element may have and what none may have. */
#include "session/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "metric/same.h"
#include "session/verdict.h"

enum { BLOCK = 16384, RUN = 512 };

/* Limits of |a - r| / (|r| + rms(r)) for correct code, by precision: some tens of the rounding
 * errors that a deep model accumulates; for quantised ones, the steps. */
static const double default_tol[PL_PRECISION_COUNT] = {
    [PL_PRECISION_F64] = 1e-9,  [PL_PRECISION_F32] = 1e-3,    [PL_PRECISION_F16] = 2e-2,
    [PL_PRECISION_BF16] = 1e-1, [PL_PRECISION_F8E4M3] = 0.25, [PL_PRECISION_F8E5M2] = 0.5,
    [PL_PRECISION_F4] = 1,      [PL_PRECISION_INT16] = 1e-2,  [PL_PRECISION_INT8] = 0.5,
    [PL_PRECISION_INT4] = 2,    [PL_PRECISION_INT2] = 4,      [PL_PRECISION_EXACT] = 0,
};

/* A factor further from 1 than this is not rounding; fp16 scales are rounded to 5e-4. */
#define FACTOR 4e-3

static bool is_code(pl_precision p) {
    return p >= PL_PRECISION_INT16 && p <= PL_PRECISION_INT2;
}

const char *pl_profile_name(pl_profile profile) {
    return profile == PL_PROFILE_TORCH ? "torch" : "plumb";
}

bool pl_profile_parse(const char *text, pl_profile *out) {
    *out = strcmp(text, "torch") == 0 ? PL_PROFILE_TORCH : PL_PROFILE_PLUMB;
    return strcmp(text, pl_profile_name(*out)) == 0;
}

double pl_judge_tol(const pl_judge *judge, pl_precision precision) {
    if (!isnan(judge->tol)) return judge->tol;
    return precision < PL_PRECISION_COUNT ? default_tol[precision] : 0;
}

static bool is_floating(pl_dtype d) {
    return pl_dtype_is_float(d) || pl_dtype_class_of(d) == PL_CLASS_COMPLEX;
}

bool pl_judge_types_fit(pl_dtype a, pl_dtype r) {
    if (a == r) return true;
    if (is_floating(a) && is_floating(r)) return pl_dtype_class_of(a) == pl_dtype_class_of(r);
    return pl_dtype_is_integer(a) && pl_dtype_is_integer(r);
}

/* ---- the second pass ---- */

typedef struct worst {
    double q;
    int64_t index;
    double a, r;
} worst;

typedef struct bound_pass {
    const pl_tensor *a, *r;
    double tol, scale, absolute;
    worst *blocks;
} bound_pass;

static void bound_block(void *ctx, int64_t begin, int64_t end) {
    const bound_pass *p = ctx;
    double a[RUN], r[RUN];
    worst w = { .index = -1 };
    for (int64_t at = begin; at < end; at += RUN) {
        const size_t n = (size_t)(end - at < RUN ? end - at : RUN);
        pl_load_f64(p->a->dtype,
                    (const char *)p->a->data + (size_t)at * pl_dtype_bytes(p->a->dtype), a, n);
        pl_load_f64(p->r->dtype,
                    (const char *)p->r->data + (size_t)at * pl_dtype_bytes(p->r->dtype), r, n);
        for (size_t i = 0; i < n; i++) {
            const double d = fabs(a[i] - r[i]);
            if (!(d > 0) || isinf(d)) continue; /* NaN and Inf agree here */
            const double bound = p->tol * (fabs(r[i]) + p->scale) + p->absolute;
            const double q = bound > 0 ? d / bound : (double)INFINITY;
            if (q > w.q) w = (worst){ q, at + (int64_t)i, a[i], r[i] };
        }
    }
    p->blocks[begin / BLOCK] = w;
}

static pl_status find_worst(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, double tol,
                            double scale, double absolute, worst *out, pl_err *err) {
    pl_tensor *ca = NULL, *cr = NULL;
    if (a->data == NULL && a->n_elements > 0)
        return pl_fail(err, PL_E_NOT_FOUND, "elements not found: they lie on another machine");
    const int64_t n_blocks = (a->n_elements + BLOCK - 1) / BLOCK;
    worst *blocks = pl_calloc((size_t)n_blocks + 1, sizeof *blocks);
    if (blocks == NULL) return pl_fail_memory(err, (size_t)n_blocks * sizeof *blocks);
    pl_status st = pl_tensor_contiguous(a, &ca, err);
    if (st == PL_OK) st = pl_tensor_contiguous(r, &cr, err);
    if (st == PL_OK) {
        bound_pass pass = { ca, cr, tol, scale, absolute, blocks };
        pl_pool_for(pool, a->n_elements, BLOCK, bound_block, &pass);
        *out = (worst){ .index = -1 };
        for (int64_t i = 0; i < n_blocks; i++)
            if (blocks[i].q > out->q) *out = blocks[i];
    }
    pl_tensor_unref(ca);
    pl_tensor_unref(cr);
    pl_free(blocks);
    return st;
}

/* ---- the rules ---- */

static double rms_of(const pl_accumulators *acc) {
    if (acc->n_finite <= 0) return 0;
    return ldexp(sqrt(acc->sum_rr / (double)acc->n_finite), (int)acc->v_scale);
}

static void fail_elements(pl_judged *out, const pl_accumulators *acc) {
    out->rule_fails = true;
    const int n =
        snprintf(out->reason, sizeof out->reason, "%lld of %lld elements differ, first at %lld",
                 (long long)acc->n_mismatch, (long long)acc->n, (long long)acc->mismatch_index);
    if (acc->max_abs > 0) /* text has no distance */
        snprintf(out->reason + n, sizeof out->reason - (size_t)n, "; by at most %.6g",
                 acc->max_abs);
}

/* Ties are rare: if more codes than this are off by one, there is another reason, such as a zero
 * point; a single code is likely one. */
static int64_t most_flips(int64_t n) {
    return n <= 1 ? 0 : n < 8 ? 1 : n / 4;
}

/* Does one factor explain the error of all elements? Then it is a wrong scale, not codes that flip
 * here and there. */
static bool is_one_factor(const pl_accumulators *acc) {
    if (acc->n_finite < 8 || !(acc->sum_rr > 0)) return false;
    const double factor = acc->sum_ar / acc->sum_rr;
    const double rest = acc->sum_aa - factor * acc->sum_ar; /* sum of squares of a - factor r */
    return fabs(factor - 1) > FACTOR && rest < 0.01 * acc->sum_sq;
}

/* Dequantised codes may be off by one code, from a tie, plus the rounding of the scale. */
static void judge_steps(const pl_judge_pair *pair, pl_judged *out) {
    const pl_accumulators *acc = &out->acc;
    if (acc->max_abs <= 1.5 * pair->step) return;
    out->rule_fails = true;
    snprintf(out->reason, sizeof out->reason,
             "element %lld is %.9g, expected %.9g: off by %.3g steps of %.3g",
             (long long)acc->max_abs_index, acc->max_abs_a, acc->max_abs_r,
             acc->max_abs / pair->step, pair->step);
}

static pl_status judge_floats(const pl_judge *j, pl_pool *pool, const pl_judge_pair *pair,
                              const pl_tensor *a, const pl_tensor *r, pl_judged *out, pl_err *err) {
    const pl_accumulators *acc = &out->acc;
    const double tol = pl_judge_tol(j, pair->precision), rms = rms_of(acc);
    const double scale = rms > 0 ? rms : 1, absolute = isnan(j->tol) ? pair->absolute : 0;
    worst w = { .index = -1 };
    if (isnan(j->tol) && is_code(pair->precision) && is_one_factor(acc)) {
        out->rule_fails = true;
        snprintf(out->reason, sizeof out->reason,
                 "every element is %.4g times what is expected: codes that flip do not do that",
                 acc->sum_ar / acc->sum_rr);
        return PL_OK;
    }
    if (isnan(j->tol) && is_code(pair->precision) && pair->step > 0) {
        judge_steps(pair, out);
        return PL_OK;
    }
    if (acc->max_abs <= tol * scale + absolute) return PL_OK;
    if (acc->max_abs > tol * (acc->max_r + scale) + absolute ||
        pl_dtype_class_of(r->dtype) == PL_CLASS_COMPLEX) {
        const double bound = tol * (fabs(acc->max_abs_r) + scale) + absolute;
        w = (worst){ bound > 0 ? acc->max_abs / bound : (double)INFINITY, acc->max_abs_index,
                     acc->max_abs_a, acc->max_abs_r };
    } else {
        PL_TRY(find_worst(pool, a, r, tol, scale, absolute, &w, err));
    }
    if (!(w.q > 1)) return PL_OK;
    out->rule_fails = true;
    snprintf(out->reason, sizeof out->reason,
             "element %lld is %.9g, expected %.9g: %.3g times its tolerance of %.3g (|r| + rms)",
             (long long)w.index, w.a, w.r, w.q, tol);
    return PL_OK;
}

static pl_status judge_plumb(const pl_judge *j, pl_pool *pool, const pl_judge_pair *pair,
                             const pl_tensor *a, const pl_tensor *r, pl_judged *out, pl_err *err) {
    const pl_accumulators *acc = &out->acc;
    if (is_floating(r->dtype)) return judge_floats(j, pool, pair, a, r, out, err);
    const bool narrow = pl_dtype_is_integer(r->dtype) && pl_dtype_bits(r->dtype) <= 8 &&
                        pl_dtype_is_integer(a->dtype) && pl_dtype_bits(a->dtype) <= 8;
    const bool flips = pair->rounded && acc->max_abs <= 1 && acc->n_mismatch <= most_flips(acc->n);
    if (narrow && (isnan(j->tol) ? flips : acc->max_abs <= j->tol)) return PL_OK;
    fail_elements(out, acc);
    const size_t n = strlen(out->reason);
    if (narrow && isnan(j->tol) && acc->max_abs <= 1)
        snprintf(out->reason + n, sizeof out->reason - n, "; option 'tol' 1 accepts one code");
    return PL_OK;
}

static pl_status judge_torch(const pl_judge *j, const pl_tensor *a, const pl_tensor *r,
                             pl_judged *out, pl_err *err) {
    pl_datum *da = NULL, *dr = NULL;
    pl_same_result same;
    pl_status st = pl_datum_of_tensor_take(pl_tensor_ref(a), &da, err);
    if (st == PL_OK) st = pl_datum_of_tensor_take(pl_tensor_ref(r), &dr, err);
    if (st == PL_OK) st = pl_same(dr, da, NULL, &j->same, &same, err);
    if (st == PL_OK) {
        out->rule_fails = same.verdict != PL_SAME_YES;
        snprintf(out->reason, sizeof out->reason, "%s", same.why);
    }
    pl_datum_unref(da);
    pl_datum_unref(dr);
    return st;
}

/* ---- colour ---- */

pl_colour pl_judge_colour(pl_colour by_metric, const pl_accumulators *acc, double absolute) {
    const bool own = pl_accumulators_class(acc) == PL_PAIR_FINITE && acc->max_abs <= absolute;
    return own && by_metric == PL_RED ? PL_YELLOW : by_metric;
}

static void colour(const pl_judge *j, const pl_judge_pair *pair, pl_judged *out) {
    const pl_metric *m = j->metric;
    pl_limits_match match;
    out->colour = pl_metric_colour(m, &out->acc, pair->precision, &out->limits);
    out->limits_from = pl_precision_name(pair->precision);
    out->colour = pl_judge_colour(out->colour, &out->acc, pair->absolute);
    if (!pl_limits_find(j->limits, m->name, pair->value, pair->op, pair->dtype, pair->precision,
                        &match))
        return;
    out->limits = match.limits;
    out->limits_from = match.from;
    if (out->pair_class == PL_PAIR_FINITE)
        out->colour = pl_metric_judge(m, m->value(&out->acc), &match.limits);
}

/* Positions of NaN and Inf first: they are worse than any number. */
static pl_status judge_rule(const pl_judge *j, pl_pool *pool, const pl_judge_pair *pair,
                            const pl_tensor *a, const pl_tensor *r, pl_judged *out, pl_err *err) {
    const pl_accumulators *acc = &out->acc;
    if (j->profile == PL_PROFILE_TORCH) return judge_torch(j, a, r, out, err);
    if (out->pair_class == PL_PAIR_EXACT) return PL_OK;
    if (out->pair_class != PL_PAIR_NONFINITE) return judge_plumb(j, pool, pair, a, r, out, err);
    out->rule_fails = true;
    const long long n_bad =
        (long long)acc->n_nan_a + acc->n_nan_r + acc->n_inf_a + acc->n_inf_r + acc->n_inf_sign;
    snprintf(out->reason, sizeof out->reason,
             "NaN or Inf on one side only at %lld element%s, first at %lld", n_bad,
             pl_plural((uint64_t)n_bad), (long long)acc->nonfinite_index);
    return PL_OK;
}

pl_status pl_judge_measured(const pl_judge *j, pl_pool *pool, const pl_judge_pair *pair,
                            const pl_tensor *a, const pl_tensor *r, const pl_accumulators *acc,
                            pl_judged *out, pl_err *err) {
    memset(out, 0, sizeof *out);
    out->limits_from = "";
    out->acc = *acc;
    out->pair_class = pl_accumulators_class(&out->acc);
    colour(j, pair, out);
    PL_TRY(judge_rule(j, pool, pair, a, r, out, err));
    const pl_value_facts facts = { .paired = true,
                                   .compared = true,
                                   .exact = out->pair_class == PL_PAIR_EXACT,
                                   .rule = pl_fact_of(!out->rule_fails) };
    out->verdict = pl_verdict_of_value(&facts);
    return PL_OK;
}

pl_status pl_judge_tensors(const pl_judge *j, pl_pool *pool, const pl_judge_pair *pair,
                           const pl_tensor *a, const pl_tensor *r, pl_judged *out, pl_err *err) {
    pl_accumulators acc;
    memset(out, 0, sizeof *out);
    out->limits_from = "";
    PL_TRY(pl_accumulate(pool, a, r, &acc, err));
    return pl_judge_measured(j, pool, pair, a, r, &acc, out, err);
}
