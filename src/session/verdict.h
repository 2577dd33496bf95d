/* The one place that turns measurements into verdicts.
 *
 * Flows gather facts; the rules in verdict.c, read from top to bottom, decide the verdict on a
 * value, an output and the whole session. AGREE is a promise: every output was compared with
 * something independent of A and is within its bound, and no value is a culprit. Values
 * that were not compared are counted and shown, and never agree. */
#ifndef PL_VERDICT_H
#define PL_VERDICT_H

#include "session/session.h"

/* q above this is beyond the bound (docs/blame.md). */
#define PL_Q_CULPRIT 4.0
pl_verdict pl_verdict_of_value(const pl_value_facts *f);
/* Decides by its facts. */
void pl_verdict_decide(pl_sync_point *p);

/* ---- outputs ---- */

/* Unknown numbers are NAN. */
typedef struct pl_output_facts {
    bool structural;     /* another shape or type than the reference's */
    bool nonfinite;      /* NaN or Inf on one side only */
    bool overflowed;     /* NaN or Inf on both sides where fp64 is finite and fits the type */
    bool inherited;      /* much further from gold than the reference is (blame.h) */
    bool no_gold;        /* only `relative` is known */
    bool by_rule;        /* profile torch: `rule` alone decides */
    pl_fact rule;        /* the profile's rule accepts it */
    double error, scale; /* rms of its error against gold, and of gold */
    double relative;     /* rms of its distance from the reference, relative to that */
    double tol;          /* of the output's size: below it nothing fails without a culprit */
} pl_output_facts;
bool pl_verdict_output_fails(const pl_output_facts *f);

/* ---- the whole ---- */

/* Decides the outcome before the values do. The first call wins. */
void pl_verdict_failed(pl_session *s, const char *reason);
void pl_verdict_unstable(pl_session *s, const char *value, const char *reason);

typedef struct pl_claim { /* basis of the outcome */
    bool every_value;     /* compare: a bad value inside diverges too; else culprits and outputs */
    bool truth;           /* B is a recording that is the truth; A's model is the third party */
    bool only_claimed;    /* outputs are unknown: only what both sides have counts */
    const char *first;    /* first divergence if the profile found it; or NULL */
    const char *agree;    /* the reason when it agrees; NULL = counted */
    const char *advice;   /* what to do about values without a counterpart; or NULL */
} pl_claim;
/* Outcome, reason, first_divergence, at_fault and coverage, from points, blame and what was set by
 * the two above. Called again after a baseline has accepted points. */
pl_status pl_verdict_conclude(pl_session *s, const pl_claim *claim, pl_err *err);

/* Where a difference starts that no operation is to blame for; `failing` itself when it is not
 * known. */
const pl_sync_point *pl_verdict_birth(const pl_session *s, const pl_sync_point *failing);

/* Counts what was compared in s->coverage. */
void pl_verdict_count(pl_session *s);
/* Was it compared with something, by any rule? */
bool pl_verdict_is_answer(pl_verdict v);

#endif
