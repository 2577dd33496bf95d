/* Normalisations in emission rules. */
#ifndef PL_EMIT_NORM_H
#define PL_EMIT_NORM_H

#include "ops/emit.h"

/* What is pl_emit_normalised, over which axes, and what came out. */
typedef struct pl_emit_norm {
    pl_ref x;
    pl_dtype wide; /* the type that y is computed in */
    unsigned axes;
    int64_t n; /* elements of a row */
    bool rms;
    double epsilon;
    pl_ref mean, inverse; /* set; mean not for rms */
} pl_emit_norm;
/* (x - mean) * inverse, statistics in double. */
pl_ref pl_emit_normalised(pl_emit *c, pl_emit_norm *q);
/* "$0 / n", in this type. */
pl_ref pl_emit_divide(pl_emit *c, pl_dtype dtype, pl_ref sum, int64_t n);

/* scale and bias may be left out (-2; a negative reference that failed stays one). */
enum { PL_EMIT_NONE = -2 };
pl_ref pl_emit_scaled(pl_emit *c, pl_dtype wide, pl_ref y, pl_ref scale, pl_ref bias);
/* Output i in its own shape and type, when it is wanted. */
pl_status pl_emit_statistic(pl_emit *c, int i, pl_ref value);

/* x: what is pl_emit_normalised over the last dims from `first` on, with the inputs and outputs
 * named. */
typedef struct pl_emit_row_norm {
    pl_ref x;
    int first;
    bool rms;
    int scale, bias;           /* inputs; -1 = none */
    int mean_out, inverse_out; /* outputs; -1 = none */
} pl_emit_row_norm;
pl_status pl_emit_rows(pl_emit *c, const pl_emit_row_norm *r);

#endif
