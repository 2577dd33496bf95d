/* Facts about one value, from which verdict.h derives its verdict. */
#ifndef PL_FACTS_H
#define PL_FACTS_H

#include <stdbool.h>

typedef enum pl_fact { PL_FACT_UNKNOWN, PL_FACT_NO, PL_FACT_YES } pl_fact;
static inline pl_fact pl_fact_of(bool yes) {
    return yes ? PL_FACT_YES : PL_FACT_NO;
}

/* All zero: nothing is known. */
typedef struct pl_value_facts {
    /* against its counterpart */
    bool paired;
    bool compared;   /* elements or bits were compared */
    bool exact;      /* all bits agree */
    bool structural; /* different shape, or types that cannot be compared */
    bool nonfinite;  /* NaN or Inf at different positions */
    pl_fact rule;    /* the profile's rule accepts it */
    /* against its replay on A's own inputs */
    bool unreplayed; /* replay was tried and failed */
    bool undefined;  /* no element is defined, so that nothing can be compared */
    pl_fact local;   /* its local error is within its bound (q <= PL_Q_CULPRIT) */
    bool cleared;    /* something else is to blame: a part, a shape before it */
    bool far;        /* further from gold than rounding explains */
    /* what it was computed from */
    pl_fact bad_inputs; /* some input is bad; UNKNOWN = not all were compared */
    bool grown;         /* its error is much larger than theirs */
} pl_value_facts;

#endif
