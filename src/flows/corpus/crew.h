/* Runs tasks in separate processes, several at a time, here and on other ranks of an MPI job. They
 * start longest first (schedule.h). */
#ifndef PL_CREW_H
#define PL_CREW_H

#include "base/ranks/spawner.h"
#include "flows/corpus/foreman.h"
#include "flows/corpus/journal.h"
#include "flows/corpus/task.h"

typedef struct pl_crew {
    const char *program; /* path of plumb */
    int jobs;
    double timeout; /* seconds of one task; 0 = none */
    pl_journal *journal;
    const char *phase; /* for progress */
    const pl_progress *progress;
    /* Task i of n: its key, and the request as JSON. */
    const char *(*key)(void *ctx, size_t i);
    void (*request)(void *ctx, size_t i, pl_buf *out);
    uint64_t (*cost)(void *ctx, size_t i); /* microseconds, estimated; NULL = all alike */
    bool (*is_known)(void *ctx, size_t i); /* is the cost that of an earlier run? NULL = no */
    size_t (*family)(void *ctx, size_t i); /* schedule.h; NULL = none */
    /* Steps done by an earlier process; false when out of memory. NULL = none. */
    bool (*so_far)(void *ctx, size_t i, pl_task_state *out);
    void *ctx;
    size_t n_tasks;
    pl_spawner *const *spawners; /* one for each job; NULL = this process starts programs itself */
    pl_foreman *foreman;         /* for the other ranks; NULL = there are none */
} pl_crew;

/* If a task fails, crashes or hangs, that is its result. Fails when the journal cannot be written,
 * no process can be started, or it is cancelled; running tasks then do not count as crashed. */
pl_status pl_crew_run(pl_crew *crew, pl_err *err);

/* Finds plumb: the running program if it is plumb, else the one in PATH. */
pl_status pl_crew_program(const char *given, char *out, size_t n_out, pl_err *err);

#endif
