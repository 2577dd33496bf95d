/* Error bounds of the ai.onnx.ml rows. */
#ifndef PL_ML_BOUND_H
#define PL_ML_BOUND_H

#include "ops/bound.h"

/* Scores before the post transform, row by row, and their errors. */
typedef struct pl_b_scores {
    pl_tensor *raw; /* owned */
    const double *s;
    double *e; /* zeroed, to fill; in scratch */
    int64_t n_rows, width;
} pl_b_scores;
/* The node's own kernel without its post transform and without the named attributes (the list ends
 * with NULL). width 0: nothing to bound. */
pl_status pl_b_scores_open(pl_bound *c, int slot, const char *const *without, pl_b_scores *out);
/* Sets the bounds of output `slot` from the scores. For a classifier (slot 1) also those of the
 * labels, output 0: unbounded where the two best scores are closer than their errors, or where
 * unsure[row] (may be NULL). */
pl_status pl_b_scores_set(pl_bound *c, int slot, const pl_b_scores *scores, const bool *unsure);

#endif
