/* Normalisations in emission rules. */
#ifndef PL_EMIT_NORM_H
#define PL_EMIT_NORM_H

#include "ops/emit.h"

/* A normalisation: x, its axes, and the statistics that were computed. */
typedef struct pl_emit_norm {
    pl_ref x;
    pl_dtype wide; /* the type that y is computed in */
    unsigned axes;
    int64_t n; /* elements of a row */
    bool rms;
    double epsilon;
    pl_ref mean, inverse; /* results; mean is not set for rms */
} pl_emit_norm;
/* (x - mean) * inverse, statistics in double. */
pl_ref pl_emit_normalised(pl_emit *c, pl_emit_norm *q);
/* "$0 / n", in this type. */
pl_ref pl_emit_divide(pl_emit *c, pl_dtype dtype, pl_ref sum, int64_t n);

/* A scale or bias that is left out. Differs from -1, a reference that failed. */
enum { PL_EMIT_NONE = -2 };
pl_ref pl_emit_scaled(pl_emit *c, pl_dtype wide, pl_ref y, pl_ref scale, pl_ref bias);
/* Sets output i, in its own shape and type, if it is wanted. */
pl_status pl_emit_statistic(pl_emit *c, int i, pl_ref value);

/* Normalises x over the dims from `first` on, with these inputs and outputs of the node. */
typedef struct pl_emit_row_norm {
    pl_ref x;
    int first;
    bool rms;
    int scale, bias;           /* inputs; -1 = none */
    int mean_out, inverse_out; /* outputs; -1 = none */
} pl_emit_row_norm;
pl_status pl_emit_rows(pl_emit *c, const pl_emit_row_norm *r);

#endif
