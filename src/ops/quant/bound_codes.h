/* Error bounds of operators that round to codes: which codes can a correct runtime give?
 *
 * A code has no tolerance of its own. The value before rounding is known in fp64 with an error e,
 * and every code that a value within 8e of it rounds to is correct (docs/blame.md). When nothing
 * before was rounded, e is zero and ties have one correct result. */
#ifndef PL_BOUND_CODES_H
#define PL_BOUND_CODES_H

#include "ops/bound.h"

/* Relative error of a runtime's arithmetic before rounding to codes: some float roundings, times 8,
 * plus one of the node's type where that is narrower than float. */
double pl_b_round_slack(pl_dtype native);
/* Are all inputs and all of p exact in the type? Then nothing was rounded. */
bool pl_b_unrounded(pl_bound *c, const pl_tensor *p, pl_dtype native);
typedef struct pl_b_codes {
    pl_dtype dtype;       /* of the output in the model */
    bool saturate;        /* float8 */
    const pl_tensor *p;   /* before rounding, in steps */
    const double *e;      /* absolute error of each p, including the factor 8; NULL = 0 */
    double slack, offset; /* for all: plus slack * |p| + offset */
    double zero;          /* zero point, unless */
    const double *zeros;  /* there is one for each element */
    double zero_error;    /* of the zero point, in codes */
} pl_b_codes;
/* Sets the bound of output 0, in codes. */
pl_status pl_b_set_codes(pl_bound *c, const pl_b_codes *r);
/* Largest relative error of a scale. */
double pl_b_scale_error(pl_bound *c, int i);

#endif
