/* How far a recorded value is from the replay of its segment, in units of its error bound.
 *
 * q = max |a - d| / (max(E, u|d|) + tiny) over the elements: a as recorded, d the fp64 replay, E
 * its bound, u the unit roundoff of the model's type. A correct implementation stays below 2, more
 * than PL_Q_CULPRIT is a fault. Integers and bools have no slack but E itself, in codes. */
#ifndef PL_LOCAL_ERROR_H
#define PL_LOCAL_ERROR_H

#include "base/threads.h"
#include "session/verdict.h"
#include "tensor/tensor.h"

#define PL_Q_UNUSUAL 2.0 /* above it excuses are tried; never a fault by itself */

typedef enum pl_local_class {
    PL_LOCAL_MEASURED,  /* q is the result */
    PL_LOCAL_NONFINITE, /* NaN or Inf on one side only, or Inf of other sign: q is infinite */
    PL_LOCAL_SHAPE      /* different shape or kind of type: not measured */
} pl_local_class;

typedef struct pl_local_error {
    pl_local_class kind;
    double q;
    int64_t worst;              /* element with the largest q; -1 = none */
    int64_t n, n_bad;           /* elements; those with q > PL_Q_CULPRIT or a non-finite mismatch */
    int64_t n_limit, limit_at;  /* the largest number of the type for Inf, which is fine: how many,
                                   the first */
    double rms, max_abs, rms_d; /* of a - d over the finite ones; of d */
} pl_local_error;

/* `native` is the type in the model; a may have another (fp16 values stored as float). bound NULL =
 * exact. Results do not depend on the number of threads. */
pl_status pl_local_error_measure(pl_pool *pool, const pl_tensor *a, const pl_tensor *d,
                                 const pl_tensor *bound, pl_dtype native, pl_local_error *out,
                                 pl_err *err);
/* The denominator of q for one element. */
double pl_local_scale(double d, double bound, pl_dtype native);

#endif
