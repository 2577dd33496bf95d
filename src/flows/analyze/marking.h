/* Marking: runs a model with more of its values as outputs. The simple way to observe a backend
 * that exposes nothing, but one that can change what it computes. */
#ifndef PL_MARKING_H
#define PL_MARKING_H

#include "flows/analyze/side_run.h"

/* Called for each marked value; the datum is borrowed. */
typedef pl_status (*pl_marked_fn)(void *ctx, const pl_value *value, const pl_datum *d, pl_err *err);

typedef struct pl_marking {
    size_t n_shown;     /* values recorded with unchanged outputs */
    size_t n_disturbed; /* values that cannot be recorded without changing the outputs */
    size_t n_runs;
    size_t n_other, n_refused; /* of these runs: with changed outputs; refused by the backend */
} pl_marking;

/* Marks every value of the main graph that nodes make, all at once; groups that change the outputs
 * (or that the backend refuses) are halved, at most max_runs times. `run` is compiled and has run
 * plainly. */
pl_status pl_mark_values(pl_side_run *run, pl_datum *const *in, size_t max_runs, pl_marked_fn fn,
                         void *ctx, pl_marking *out, pl_err *err);
/* Does marking all values at once change the outputs? *tried is false when the backend refuses. */
pl_status pl_mark_disturbs(pl_side_run *run, pl_datum *const *in, bool *tried, bool *disturbs,
                           pl_err *err);

#endif
