/* The rules, in the order in which they apply. */
#include "session/verdict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/count.h"
#include "session/lost_calls.h"

/* ---- one value ---- */

pl_verdict pl_verdict_of_value(const pl_value_facts *f) {
    if (f->undefined) return PL_VERDICT_UNVERIFIED;
    const bool differs = f->structural || f->nonfinite || f->rule == PL_FACT_NO;
    /* Computed wrongly from the run's own inputs. */
    if (f->local == PL_FACT_NO) return f->cleared ? PL_VERDICT_INHERITED : PL_VERDICT_CULPRIT;
    /* Computed correctly, from wrong inputs. */
    if (f->local == PL_FACT_YES && f->far)
        return f->grown ? PL_VERDICT_AMPLIFIED : PL_VERDICT_INHERITED;
    /* Differs from the reference. Without a replay this is circumstantial. */
    if (differs && f->bad_inputs == PL_FACT_YES) return PL_VERDICT_INHERITED;
    if (differs && f->bad_inputs == PL_FACT_NO)
        return f->grown && f->local == PL_FACT_UNKNOWN ? PL_VERDICT_CULPRIT : PL_VERDICT_AMPLIFIED;
    if (differs) return PL_VERDICT_MISMATCH;
    /* Not compared. */
    const bool accepted = f->rule == PL_FACT_YES || f->local == PL_FACT_YES;
    if (!f->paired && !f->unreplayed) return PL_VERDICT_UNPAIRED;
    if (f->unreplayed && f->rule != PL_FACT_YES) return PL_VERDICT_UNVERIFIED;
    if (!accepted && !f->exact) return PL_VERDICT_UNVERIFIED;
    return f->compared && f->exact ? PL_VERDICT_SAME : PL_VERDICT_WITHIN;
}

void pl_verdict_decide(pl_sync_point *p) {
    p->verdict = pl_verdict_of_value(&p->facts);
}

bool pl_verdict_is_answer(pl_verdict v) {
    return v != PL_VERDICT_UNPAIRED && v != PL_VERDICT_UNVERIFIED;
}

/* ---- outputs ---- */

bool pl_verdict_output_fails(const pl_output_facts *f) {
    if (f->by_rule) return f->rule == PL_FACT_NO || f->overflowed;
    if (f->structural || f->overflowed) return true;
    if (f->rule == PL_FACT_NO) return true;
    if (f->no_gold) return f->nonfinite || f->relative > f->tol;
    return f->inherited && !(f->error <= f->tol * f->scale);
}

/* ---- the whole ---- */

static bool is_over(const pl_session *s) {
    return s->outcome == PL_OUTCOME_FAILED || s->outcome == PL_OUTCOME_NONDETERMINISTIC;
}

void pl_verdict_failed(pl_session *s, const char *reason) {
    if (is_over(s)) return;
    s->outcome = PL_OUTCOME_FAILED;
    s->reason = reason;
}

void pl_verdict_unstable(pl_session *s, const char *value, const char *reason) {
    if (is_over(s)) return;
    s->outcome = PL_OUTCOME_NONDETERMINISTIC;
    s->reason = reason;
    if (value != NULL) s->first_divergence = value;
}

void pl_verdict_count(pl_session *s) {
    pl_coverage *c = &s->coverage;
    const size_t n_known = c->n_outputs;
    *c = (pl_coverage){ .n_outputs = 0 };
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        const bool answer = pl_verdict_is_answer(p->verdict);
        if (p->is_output && !p->is_input) {
            c->n_outputs++;
            c->n_outputs_compared += answer;
        }
        if (p->is_input) {
            c->n_inputs += answer;
        } else {
            c->n_verified += answer;
            c->n_unverified += p->verdict == PL_VERDICT_UNVERIFIED;
            c->n_unpaired += p->verdict == PL_VERDICT_UNPAIRED;
        }
    }
    for (size_t i = 0; i < s->n_left_b; i++) {
        c->n_outputs += s->left_b[i].is_output;
        c->n_unpaired += !s->left_b[i].expected;
    }
    if (n_known > c->n_outputs) c->n_outputs = n_known;
}

typedef struct found {
    const pl_sync_point *culprit, *failing, *first, *bad, *model;
    const pl_sync_point *uncompared; /* an output that was not compared */
    size_t n_bad, n_accepted;
} found;

static found look(const pl_session *s) {
    found f = { .n_bad = 0 };
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        f.n_accepted += p->accepted;
        if (p->is_output && f.uncompared == NULL && !pl_verdict_is_answer(p->verdict))
            f.uncompared = p;
        if (p->fails && !p->accepted && f.failing == NULL) f.failing = p;
        if (p->model_wrong && !p->accepted && f.model == NULL) f.model = p;
        if (!pl_sync_point_is_bad(p)) continue;
        f.n_bad++;
        if (f.bad == NULL) f.bad = p;
        if (f.culprit == NULL && p->verdict == PL_VERDICT_CULPRIT) f.culprit = p;
        if (f.first == NULL && p->verdict != PL_VERDICT_INHERITED) f.first = p;
    }
    if (f.first == NULL) f.first = f.bad;
    return f;
}

/* Relative rms of a - b; NAN when they were not measured. */
static double relative(const pl_sync_point *p) {
    if (!p->measured || p->acc.n_finite == 0 || !(p->acc.sum_rr > 0)) return (double)NAN;
    return sqrt(p->acc.sum_sq / p->acc.sum_rr);
}

/* The start of a difference that no operation is to blame for: the first value whose codes differ,
 * or that is off by more than its type explains. */
const pl_sync_point *pl_verdict_birth(const pl_session *s, const pl_sync_point *failing) {
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        if (!p->measured || p->pair_class == PL_PAIR_EXACT) continue;
        if (p->pair_class == PL_PAIR_NONFINITE) return p;
        const bool code = pl_dtype_is_integer(p->a.dtype);
        const double u = code ? 0 : pl_dtype_unit_roundoff(p->a.dtype);
        if (code ? p->acc.n_mismatch > 0 : relative(p) > 1024 * u) return p;
    }
    return failing;
}

static const char *say_culprit(const pl_session *s, const found *f) {
    const pl_blame_entry *b = s->n_blame > 0 ? &s->blame[0] : NULL;
    if (b == NULL) return f->culprit->reason;
    return pl_arena_printf(s->arena, "%s producing '%s': %s", b->op, b->value, b->reason);
}

static const char *say_failing(const pl_session *s, const pl_sync_point *p,
                               const pl_sync_point *born) {
    const bool own = p->verdict == PL_VERDICT_MISMATCH && p->reason[0] != '\0';
    if (own || !p->measured)
        return pl_arena_printf(s->arena, "output '%s': %s", p->value,
                               p->reason[0] != '\0' ? p->reason : p->metadata_reason);
    if (p->acc.nonfinite_index >= 0)
        return pl_arena_printf(s->arena,
                               "output '%s' has NaN or Inf on one side only (%lld elements), but "
                               "no operation is to blame; it starts at '%s' (%s)",
                               p->value,
                               (long long)p->acc.n_nan_a + p->acc.n_nan_r + p->acc.n_inf_a +
                                   p->acc.n_inf_r + p->acc.n_inf_sign,
                               born->value, born->op);
    if (!isnan(s->quant_limit))
        return pl_arena_printf(
            s->arena,
            "quantisation moves output '%s' by %.2g of its size (limit %.2g); no "
            "quantiser made a mistake that can be named",
            p->value, relative(p), s->quant_limit);
    if (p->acc.max_abs == 0) /* equal to the reference: both are far from fp64 */
        return pl_arena_printf(s->arena, "output '%s' has the same error as the reference: %s",
                               p->value, p->reason);
    return pl_arena_printf(s->arena,
                           "output '%s' is off by %.3g (%.2g of its size), but no operation is to "
                           "blame: rounding error from '%s' (%s) is amplified",
                           p->value, p->acc.max_abs, relative(p), born->value, born->op);
}

static const char *say_model(const pl_session *s, const pl_sync_point *p, const char *who) {
    const pl_lost_call *lost = pl_lost_calls_for(s, p->value);
    const char *call = lost == NULL ? "" : pl_lost_call_describe(s, lost);
    if (call == NULL) return NULL;
    return pl_arena_printf(
        s->arena, "%s: %s producing '%s'%s%s%s%s: %s%s%s", who, p->op[0] != '\0' ? p->op : "what",
        p->value, p->module[0] != '\0' ? ", module " : "", p->module,
        p->source[0] != '\0' ? ", " : "", p->source, p->reason, *call != '\0' ? "; " : "", call);
}

/* Where all is NaN on both sides, as it has to be, any fault inside would be NaN as well. */
static void doubt_nan(pl_session *s) {
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        const bool fine = p->verdict == PL_VERDICT_SAME || p->verdict == PL_VERDICT_WITHIN;
        if (!fine || p->is_input || p->overflowed || !p->measured || p->acc.n == 0 ||
            p->acc.n_both_nan < p->acc.n)
            continue;
        p->verdict = PL_VERDICT_UNVERIFIED;
        p->facts.exact = false;
        p->reason = "every element is NaN on both sides";
    }
}

static bool is_empty(const pl_side *side) {
    bool empty = false;
    for (int i = 0; side->present && side->dtype != PL_UNDEFINED && i < side->rank; i++)
        empty = empty || side->dims[i] == 0;
    return empty;
}

/* Nothing but values without elements, made of inputs without elements: no number was looked at. An
 * empty answer to inputs that have elements (no box was found) is one. */
static bool nothing_computed(const pl_session *s, const pl_claim *claim) {
    bool fed = false, starved = s->starved;
    size_t n = 0;
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        if (!pl_verdict_is_answer(p->verdict)) continue;
        if (p->is_input) {
            starved = starved || is_empty(&p->a);
            fed = fed || !is_empty(&p->a);
        } else if (p->is_output || claim->every_value) {
            n++;
            if (!is_empty(&p->a)) return false;
        }
    }
    return n > 0 && (starved || (claim->every_value && !fed));
}

/* Why there is no verdict, most important reason first; NULL when everything relevant was
 * compared. */
static const char *say_nothing(const pl_session *s, const pl_claim *claim, const found *f) {
    const pl_coverage *c = &s->coverage;
    if (nothing_computed(s, claim))
        return "no value has an element, so nothing was compared; give inputs that are not empty";
    if (c->n_verified == 0 && c->n_inputs > 0)
        return pl_arena_printf(s->arena, "only inputs could be paired (%zu), no computed value",
                               c->n_inputs);
    if (c->n_verified == 0 && c->n_unverified > 0)
        return pl_arena_printf(s->arena, "no value could be verified; the first, '%s': %s",
                               f->uncompared != NULL ? f->uncompared->value : s->points[0].value,
                               f->uncompared != NULL ? f->uncompared->reason : s->points[0].reason);
    if (c->n_verified == 0 && f->uncompared == NULL) return "no value could be compared";
    if (c->n_outputs_compared < c->n_outputs && f->uncompared != NULL)
        return pl_arena_printf(s->arena, "%zu of %zu outputs compared; not '%s': %s",
                               c->n_outputs_compared, c->n_outputs, f->uncompared->value,
                               f->uncompared->reason[0] != '\0' ? f->uncompared->reason
                                                                : "no counterpart");
    if (c->n_outputs_compared < c->n_outputs) {
        const char *name = "";
        for (size_t i = 0; i < s->n_left_b && *name == '\0'; i++)
            if (s->left_b[i].is_output) name = s->left_b[i].value;
        return pl_arena_printf(s->arena,
                               "%zu of %zu outputs compared; output '%s' is missing from "
                               "the run under test",
                               c->n_outputs_compared, c->n_outputs, name);
    }
    if (c->n_outputs == 0 && claim->only_claimed && c->n_unverified > 0) {
        size_t i = 0;
        while (s->points[i].verdict != PL_VERDICT_UNVERIFIED)
            i++;
        return pl_arena_printf(s->arena, "'%s' could not be compared: %s", s->points[i].value,
                               s->points[i].reason);
    }
    if (c->n_outputs == 0 && claim->only_claimed) {
        size_t n_a = 0, n_b = 0;
        for (size_t i = 0; i < s->n_points; i++)
            n_a += s->points[i].verdict == PL_VERDICT_UNPAIRED;
        for (size_t i = 0; i < s->n_left_b; i++)
            n_b += !s->left_b[i].expected;
        const size_t n_most = n_a > n_b ? n_a : n_b, n_both = c->n_verified + c->n_inputs;
        if (n_most >= n_both && (n_a == 0 || n_b == 0))
            return pl_arena_printf(s->arena,
                                   "%zu value%s compared, %zu of %s without a counterpart, and "
                                   "which ones are outputs is not known; name the model instead "
                                   "of a recording",
                                   n_both, pl_plural(n_both), n_most, n_a > n_b ? "A" : "B");
        if (n_a > 0 && n_b > 0)
            return pl_arena_printf(
                s->arena,
                "without a counterpart: %zu of A, %zu of B; it is not known which are outputs", n_a,
                n_b);
    }
    return NULL;
}

/* Red by the built-in limits, although it agrees: rounding, a tie or an ambiguity explains it. */
static bool is_explained(const pl_sync_point *p) {
    return p->colour == PL_RED && !p->accepted && pl_verdict_is_answer(p->verdict) &&
           p->limits_from != NULL && strcmp(p->limits_from, pl_precision_name(p->precision)) == 0;
}

/* Never silent about things that agree but are not the same. */
static const char *with_remarks(const pl_session *s, const pl_claim *claim, const char *why) {
    const pl_sync_point *typed = NULL, *laid = NULL, *red = NULL, *softened = NULL, *left = NULL;
    size_t n_typed = 0, n_laid = 0, n_red = 0, n_softened = 0, n_left = 0;
    for (size_t i = 0; i < s->n_points && why != NULL; i++) {
        const pl_sync_point *p = &s->points[i];
        const bool counts = p->is_output || (claim->every_value && !p->is_input);
        if (!counts || p->accepted || !pl_verdict_is_answer(p->verdict)) continue;
        if ((claim->every_value || claim->truth) && p->a.present && p->b.present &&
            p->a.dtype != p->b.dtype && n_typed++ == 0)
            typed = p;
        if (p->layout != NULL && p->layout[0] != '\0' && n_laid++ == 0) laid = p;
        if (p->is_output && p->n_undefined > 0 && n_left++ == 0) left = p;
        if (p->is_output && is_explained(p) && n_softened++ == 0) softened = p;
        if (p->is_output && p->colour == PL_RED && !is_explained(p) && n_red++ == 0) red = p;
    }
    if (typed != NULL)
        why = pl_arena_printf(s->arena, "%s; %zu in another type, first '%s': %s, reference %s",
                              why, n_typed, typed->value, pl_dtype_name(typed->a.dtype),
                              pl_dtype_name(typed->b.dtype));
    if (laid != NULL && why != NULL)
        why = pl_arena_printf(s->arena, "%s; %zu in another layout, first '%s': %s", why, n_laid,
                              laid->value, laid->layout);
    if (red != NULL && why != NULL)
        why = pl_arena_printf(s->arena, "%s; %zu output%s red by %s, first '%s'", why, n_red,
                              n_red == 1 ? " is" : "s are", s->metric, red->value);
    if (left != NULL && why != NULL)
        why = pl_arena_printf(
            s->arena, "%s; padding is left out of %zu output%s, first '%s': %lld elements", why,
            n_left, pl_plural(n_left), left->value, (long long)left->n_undefined);
    if (softened != NULL && why != NULL)
        why = pl_arena_printf(s->arena, "%s; %s alone would call %zu output%s red, first '%s'", why,
                              s->metric, n_softened, pl_plural(n_softened), softened->value);
    return why;
}

/* What agrees is not red, unless the user's own limits say so. */
static void soften(pl_session *s) {
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        if (p->is_output && is_explained(p)) p->colour = PL_YELLOW;
    }
}

/* Which values are outputs is unknown, and B has some that A has not: the headline says so. */
static const char *with_left(const pl_session *s, const pl_claim *claim, const char *why) {
    const char *first = NULL;
    size_t n = 0;
    if (why == NULL || !claim->only_claimed || s->coverage.n_outputs > 0) return why;
    for (size_t i = 0; i < s->n_left_b; i++)
        if (!s->left_b[i].expected && n++ == 0) first = s->left_b[i].value;
    if (n == 0) return why;
    return pl_arena_printf(s->arena, "%s; %zu of B without a counterpart, first '%s'", why, n,
                           first);
}

static const char *say_agree(const pl_session *s, const pl_claim *claim, const found *f) {
    const pl_coverage *c = &s->coverage;
    char more[80] = "";
    if (f->n_accepted > 0 && !claim->every_value)
        return pl_arena_printf(s->arena, "%zu divergence%s accepted by the baseline", f->n_accepted,
                               pl_plural(f->n_accepted));
    if (claim->agree != NULL) return claim->agree;
    if (f->n_accepted > 0)
        snprintf(more, sizeof more, " except %zu accepted by the baseline", f->n_accepted);
    const size_t n = c->n_verified + c->n_inputs;
    return pl_arena_printf(s->arena, "no divergence in %zu compared value%s%s", n, pl_plural(n),
                           more);
}

static const char *at_fault(bool runtime, bool model) {
    return runtime && model ? "both" : runtime ? "runtime" : model ? "model" : "none";
}

pl_status pl_verdict_conclude(pl_session *s, const pl_claim *claim, pl_err *err) {
    doubt_nan(s);
    const found f = look(s);
    const pl_sync_point *born = NULL;
    const char *why = NULL;
    pl_verdict_count(s);
    if (is_over(s)) { /* 1. a side failed, or is not deterministic */
        s->at_fault = "runtime";
        return PL_OK;
    }
    const bool culprit = s->n_blame > 0 || f.culprit != NULL;
    const bool quantised = !isnan(s->quant_limit);
    bool own = false, by_model = false; /* who is blamed */
    for (size_t i = 0; i < s->n_blame; i++) {
        own = own || !s->blame[i].in_model;
        by_model = by_model || s->blame[i].in_model;
    }
    const bool values = claim->every_value && f.n_bad > 0;
    const bool runtime = quantised ? own
                                   : culprit || (f.failing != NULL && !f.failing->overflowed) ||
                                         (values && !claim->truth);
    const bool model = (claim->truth && (f.model != NULL || (values && !culprit))) ||
                       (f.failing != NULL && f.failing->overflowed) ||
                       (quantised && (by_model || (f.failing != NULL && !own)));
    s->outcome = PL_OUTCOME_DIVERGED;
    s->at_fault = at_fault(runtime, model);
    if (culprit) { /* 2. an operation computed wrongly */
        why = say_culprit(s, &f);
        if (f.model != NULL) {
            const char *too = say_model(s, f.model, "the exported model is wrong, too");
            why = too == NULL ? NULL : pl_arena_printf(s->arena, "%s; %s", why, too);
        }
        s->first_divergence = claim->every_value && f.first != NULL ? f.first->value
                              : f.culprit != NULL                   ? f.culprit->value
                                                                    : s->blame[0].value;
    } else if (f.model != NULL) { /* 3. the model is not what was recorded */
        why = say_model(s, f.model,
                        runtime ? "the exported model is wrong, and so is the runtime"
                                : "the exported model is wrong, not the runtime");
        s->first_divergence = f.model->value;
    } else if (f.failing != NULL) { /* 4. an output is beyond its bound */
        born = pl_verdict_birth(s, f.failing);
        why = say_failing(s, f.failing, born);
        s->first_divergence = quantised                                  ? f.failing->value
                              : f.failing->overflowed && f.first != NULL ? f.first->value
                              : claim->first != NULL                     ? claim->first
                                                                         : born->value;
    } else if (values) { /* 5. a value inside differs */
        why = *f.first->reason != '\0' ? f.first->reason
                                       : pl_arena_printf(s->arena, "'%s' differs", f.first->value);
        s->first_divergence = f.first->value;
    } else if ((why = say_nothing(s, claim, &f)) != NULL) { /* 6. too little was compared */
        s->outcome = PL_OUTCOME_INCONCLUSIVE;
        if (claim->advice != NULL && s->coverage.n_unpaired > 0)
            why = pl_arena_printf(s->arena, "%s; %s", why, claim->advice);
    } else { /* 7. everything was compared and agrees */
        s->outcome = PL_OUTCOME_AGREE;
        s->first_divergence = NULL;
        why = with_remarks(s, claim, with_left(s, claim, say_agree(s, claim, &f)));
        soften(s);
    }
    s->reason = why == NULL ? "" : why;
    return why == NULL ? pl_fail_memory(err, 1) : PL_OK;
}
