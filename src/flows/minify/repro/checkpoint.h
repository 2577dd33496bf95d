/* Checkpoints of a run, and the settings of all its repros. */
#ifndef PL_CHECKPOINT_H
#define PL_CHECKPOINT_H

#include "base/buf.h"
#include "flows/minify/search/mini_state.h"

/* Writes the best state so far, named by its node count (checkpoint.c). */
pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err);
/* A new run must not mix its checkpoints with those of another: PL_E_EXISTS. */
pl_status pl_mini_checkpoints_check(const pl_mini *m, pl_err *err);
/* Removes all checkpoints, and the folder if it is empty. */
void pl_mini_checkpoints_remove(const pl_mini *m);
/* Settings common to all repros of this run (repro.h); spec is the backend's, and must live as
 * long. */
struct pl_repro pl_mini_repro(const pl_mini *m, const pl_mini_state *state, const pl_buf *spec);

#endif
