/* Rank 0 of an MPI job hands out tasks to the other ranks (hand.h).
 *
 * Each rank journals what it does in a file of its own, and holds a lock on it: when the lock is
 * free, the rank has died. What it had finished is on disk; what it was working on is named. */
#ifndef PL_FOREMAN_H
#define PL_FOREMAN_H

#include "base/door.h"
#include "base/ranks/ranks.h"
#include "flows/corpus/task.h"

typedef struct pl_foreman pl_foreman;

/* `dir` is the output; `part` the journal of rank 0, "parts/1-of-1.jsonl". Rank 3 gets
 * "parts/1-of-1-rank3.jsonl". */
pl_status pl_foreman_new(pl_ranks *ranks, const pl_dir *dir, const char *part, bool resume,
                         const pl_progress *progress, pl_foreman **out, pl_err *err);
/* Tells the others that there is no more work. NULL is fine. */
void pl_foreman_free(pl_foreman *foreman);

bool pl_foreman_has_idle(const pl_foreman *foreman);
size_t pl_foreman_places(const pl_foreman *foreman); /* tasks at a time, of all others */
size_t pl_foreman_busy(const pl_foreman *foreman);   /* tasks that others work on */
/* The next step of a task, to an idle rank. */
pl_status pl_foreman_give(pl_foreman *foreman, size_t task, const char *key, const char *request,
                          const pl_task_state *state, pl_err *err);
/* Takes the reports that have arrived and calls `done` for each finished step; now->text belongs
 * to it. Fails when a rank failed. */
typedef void (*pl_foreman_done)(void *ctx, size_t task, pl_task_state *now);
pl_status pl_foreman_listen(pl_foreman *foreman, pl_foreman_done done, void *ctx, pl_err *err);
/* At the end of the tasks: `st`, or PL_E_IO when ranks have died; the message names their tasks. */
pl_status pl_foreman_account(pl_foreman *foreman, pl_status st, pl_err *err);
/* Are all ranks alive? */
bool pl_foreman_is_whole(const pl_foreman *foreman);

/* Tells every rank that there is nothing to do: for failures before there is a foreman. */
void pl_foreman_dismiss(pl_ranks *ranks);

#endif
