/* Progress and cancellation of long work. The library reports through a callback; the CLI installs
 * one that draws (cli/bar.c). */
#ifndef PL_PROGRESS_H
#define PL_PROGRESS_H

#include "base/status.h"

/* A non-zero result of update() cancels. The functions of plumb.h wrap the user's callback in a
 * pl_watch (flows/api.h): it remembers the request, and repeats the last report for phase NULL. */
typedef plumb_progress pl_progress;

/* For places that cannot stop: the next step honours the request. Accepts NULL, like the others. */
void pl_progress_update(const pl_progress *progress, const char *phase, int64_t done,
                        int64_t total);
/* PL_E_CANCELLED if the user cancelled. */
pl_status pl_progress_step(const pl_progress *progress, const char *phase, int64_t done,
                           int64_t total, pl_err *err);
/* The same while waiting: no progress to report. */
pl_status pl_progress_poll(const pl_progress *progress, pl_err *err);

#endif
