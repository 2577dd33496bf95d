/* Private to src/session: the accumulators' fields by name, for writing and reading. */
#ifndef PL_SESSION_INT_H
#define PL_SESSION_INT_H

#include "session/session.h"

#define PL_SESSION_FORMAT 1

/* counts: 0 to n; then indices: -1 to n - 1; then the others */
#define PL_ACC_COUNTS(X)                                                                           \
    X(n_finite)                                                                                    \
    X(n_mismatch)                                                                                  \
    X(n_both_nan)                                                                                  \
    X(n_both_inf)                                                                                  \
    X(n_nan_a)                                                                                     \
    X(n_nan_r)                                                                                     \
    X(n_inf_a)                                                                                     \
    X(n_inf_r)                                                                                     \
    X(n_inf_sign)                                                                                  \
    X(n_excluded)                                                                                  \
    X(n_subnormal)                                                                                 \
    X(n_flushed)
#define PL_ACC_INDICES(X)                                                                          \
    X(max_abs_index)                                                                               \
    X(nonfinite_index)                                                                             \
    X(mismatch_index)
#define PL_ACC_DOUBLES(X)                                                                          \
    X(sum_sq)                                                                                      \
    X(sum_abs)                                                                                     \
    X(sum_rel)                                                                                     \
    X(sum_rr)                                                                                      \
    X(sum_aa)                                                                                      \
    X(sum_ar)                                                                                      \
    X(max_abs)                                                                                     \
    X(max_abs_a)                                                                                   \
    X(max_abs_r)                                                                                   \
    X(max_a)                                                                                       \
    X(max_r)                                                                                       \
    X(floor)

#endif
