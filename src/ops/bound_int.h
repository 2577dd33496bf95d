/* Inside src/ops: what bound.c offers to the rules of lib/ alone. */
#ifndef PL_BOUND_INT_H
#define PL_BOUND_INT_H

#include "ops/bound.h"

/* pl_b_apply, but *out is in the precision that it was computed in (or f64). */
pl_status pl_b_apply_raw(pl_bound *c, pl_tensor *const *x, pl_dtype precision, int slot,
                         pl_tensor **out);

#endif
