/* A rank of an MPI job other than 0: does the tasks that the foreman gives it.
 *
 * Messages are text fields, each ended by NUL; the first byte says what it is. */
#ifndef PL_HAND_H
#define PL_HAND_H

#include "base/ranks/ranks.h"
#include "base/ranks/spawner.h"

typedef enum pl_crew_message {
    PL_SAY_OPEN = 'O',   /* to a hand: folder, its journal, the foreman's journal, "resume" or "" */
    PL_SAY_TASK = 'T',   /* key, request, steps done, what the next one needs or "" */
    PL_SAY_END = 'E',    /* no more work; "broken" when ranks have died, or "" */
    PL_SAY_OPENED = 'o', /* from a hand: how many tasks it does at a time */
    PL_SAY_DONE = 'd',   /* key, steps done, milliseconds, what the next one needs or "" */
    PL_SAY_FAILED = 'f'  /* key or "", number of the status, message */
} pl_crew_message;

typedef struct pl_hand_job {
    const char *program;
    double timeout;
    pl_spawner *const *spawners; /* one for each task at a time */
    size_t n_spawners;
    const pl_progress *progress;
} pl_hand_job;

/* Until the foreman says that it is enough, fails, or dies. *alone: ranks have died, do not wait
 * for them. A failure is reported to the foreman. */
pl_status pl_hand_work(pl_ranks *ranks, const pl_hand_job *job, bool *alone, pl_err *err);

#endif
