/* The error bound of softmax, for operators that contain one. */
#ifndef PL_BOUND_SOFTMAX_H
#define PL_BOUND_SOFTMAX_H

#include "ops/bound.h"
#include "ops/lib/float_io.h"

/* x (with errors e; NULL = exact) and y, its softmax or log-softmax, are (outer, n, inner). Fills
 * out, which must be zeroed. */
void pl_b_softmax(const pl_bound *c, pl_axis_view view, const double *x, const double *e,
                  const double *y, bool log, double *out);

#endif
