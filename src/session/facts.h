/* What is known of one value before it is judged (verdict.h). */
#ifndef PL_FACTS_H
#define PL_FACTS_H

#include <stdbool.h>

typedef enum pl_fact { PL_FACT_UNKNOWN, PL_FACT_NO, PL_FACT_YES } pl_fact;
static inline pl_fact pl_fact_of(bool yes) {
    return yes ? PL_FACT_YES : PL_FACT_NO;
}

/* What is known of one value; zero = nothing. */
typedef struct pl_value_facts {
    /* against its counterpart */
    bool paired;
    bool compared;   /* elements or bits were compared */
    bool exact;      /* all bits agree */
    bool structural; /* another shape, or a type that cannot be measured against the other */
    bool nonfinite;  /* NaN or Inf at other places */
    pl_fact rule;    /* the profile's rule accepts it */
    /* against its replay on A's own inputs */
    bool unreplayed; /* it was tried and could not be */
    pl_fact local;   /* its local error is within its bound (q <= PL_Q_CULPRIT) */
    bool cleared;    /* something else was found to do it: a part, a shape before it */
    bool far;        /* from gold, further than rounding explains */
    /* what it was computed from */
    pl_fact bad_inputs; /* some of it is bad; UNKNOWN = not all of it was compared */
    bool grown;         /* its error is much larger than theirs */
} pl_value_facts;

#endif
