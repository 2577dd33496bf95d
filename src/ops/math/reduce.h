/* Reductions over any set of axes, and scans along one: the loops of family "reduce". */
#ifndef PL_REDUCE_H
#define PL_REDUCE_H

#include "ops/eval.h"

typedef enum pl_reduce_kind {
    PL_REDUCE_SUM = 0,
    PL_REDUCE_MEAN,
    PL_REDUCE_MAX,
    PL_REDUCE_MIN,
    PL_REDUCE_PROD,
    PL_REDUCE_L1,
    PL_REDUCE_L2,
    PL_REDUCE_LOG_SUM,
    PL_REDUCE_LOG_SUM_EXP,
    PL_REDUCE_SUM_SQUARE
} pl_reduce_kind;

/* y = x reduced over the axes marked in `reduced`. Floats are accumulated in double and rounded
 * once; integers in 64 bits, wrapping. Max and min are NaN when an element is. An empty set gives
 * the neutral element (mean: NaN; 0 for integers). */
pl_status pl_reduce(pl_eval *c, pl_reduce_kind kind, const pl_tensor *x, const bool *reduced,
                    pl_tensor *y);

/* Index of the largest (smallest) element along `axis` into int64 y; NaN counts as the extreme.
 * Ties go to the first, or to the last. The axis must not be empty. */
void pl_arg_reduce(pl_eval *c, const pl_tensor *x, int axis, bool smallest, bool last,
                   pl_tensor *y);

/* Running sums or products along `axis`. */
void pl_cumulate(pl_eval *c, const pl_tensor *x, int axis, bool product, bool exclusive,
                 bool reverse, pl_tensor *y);

#endif
