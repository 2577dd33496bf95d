/* Checkpoints and the repro folder (DESIGN 7). */
#ifndef PL_REPRO_H
#define PL_REPRO_H

#include "flows/minify/minify_int.h"

/* Writes the best state so far, named by its node count. */
pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err);

#endif
