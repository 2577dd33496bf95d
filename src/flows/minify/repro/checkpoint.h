/* Checkpoints of a run, and what every repro of it says. */
#ifndef PL_CHECKPOINT_H
#define PL_CHECKPOINT_H

#include "base/buf.h"
#include "flows/minify/search/mini_state.h"

/* Writes the best state so far, named by its node count (checkpoint.c). */
pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err);
/* A run that begins anew must not mix its checkpoints with another's: PL_E_EXISTS. */
pl_status pl_mini_checkpoints_check(const pl_mini *m, pl_err *err);
/* All checkpoints of the folder, and the folder when nothing else is in it. */
void pl_mini_checkpoints_remove(const pl_mini *m);
/* What every repro of this run says (repro.h); spec is its backend's, and lives as long. */
struct pl_repro pl_mini_repro(const pl_mini *m, const pl_mini_state *state, const pl_buf *spec);

#endif
