/* Error bounds of operators that round to codes: which codes can a correct runtime give?
 *
 * A code has no tolerance of its own. The value before rounding is known in fp64 with an error e,
 * and every code that a value within 8e of it rounds to is right (docs/blame.md, section 2). When
 * nothing on the way was rounded at all, e is zero and ties have one right answer. */
#ifndef PL_BOUND_CODES_H
#define PL_BOUND_CODES_H

#include "ops/bound.h"

/* What a runtime's own arithmetic before the rounding may be off by, relative: some roundings of
 * float, times 8, and one of the type of the node where it is smaller than float. */
double pl_b_round_slack(pl_dtype native);
/* Were all inputs and all of p exact in the type? Then no rounding happened. */
bool pl_b_unrounded(pl_bound *c, const pl_tensor *p, pl_dtype native);
typedef struct pl_b_codes {
    pl_dtype dtype;       /* of the output in the model */
    bool saturate;        /* float8 */
    const pl_tensor *p;   /* before rounding, in steps */
    const double *e;      /* absolute error of each p, the factor 8 included; NULL = 0 */
    double slack, offset; /* and slack * |p| + offset for all */
    double zero;          /* zero point; or */
    const double *zeros;  /* one for each element */
    double zero_error;    /* of the zero point, in codes */
} pl_b_codes;
/* Sets the bound of output 0, in codes. */
pl_status pl_b_set_codes(pl_bound *c, const pl_b_codes *r);
/* Largest relative error of a scale. */
double pl_b_scale_error(pl_bound *c, int i);

#endif
