/* One task: a request for `plumb corpus --worker JSON`, run in a process and journalled. */
#ifndef PL_TASK_H
#define PL_TASK_H

#include "base/ranks/spawner.h"
#include "flows/corpus/journal.h"

typedef struct pl_task_place {
    const char *program; /* path of plumb */
    double timeout;      /* seconds; 0 = none */
    pl_journal *journal;
    pl_spawner *spawner; /* NULL = this process starts programs itself */
    const pl_progress *progress;
} pl_task_place;

/* How far a task of several steps is: `text` is what the next one needs (worker.h), NULL = it is
 * done or has not begun. */
typedef struct pl_task_state {
    char *text;
    unsigned n_steps; /* done */
    double seconds;   /* of the last one */
} pl_task_state;

/* Does the next step. If the task fails, crashes or hangs, that is its result. Fails when the
 * journal cannot be written, no process can be started, or it is cancelled. The caller frees
 * state->text. */
pl_status pl_task_run(const pl_task_place *at, const char *key, const char *request,
                      pl_task_state *state, pl_err *err);
/* The lines of a process that begins, and of one that ends regularly before all is done. */
pl_status pl_task_note_open(pl_journal *journal, pl_err *err);
pl_status pl_task_note_stop(pl_journal *journal);

#endif
