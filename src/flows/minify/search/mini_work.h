/* The temporary folder, and the time left. */
#ifndef PL_MINI_WORK_H
#define PL_MINI_WORK_H

#include <stdint.h>

#include "flows/minify/search/mini_state.h"

/* The temporary folder; removes those that killed runs left (mini_work.c). */
pl_status pl_mini_work_open(pl_mini *m, pl_err *err);
void pl_mini_work_close(pl_mini *m);
double pl_mini_cpu_seconds(void);
/* Time left; at least a millisecond, 1e9 without a limit. */
double pl_mini_seconds_left(const pl_mini *m);
/* Deadline in pl_clock_ns for a run of the reference of at most this length. */
int64_t pl_mini_deadline(const pl_mini *m, double seconds);

#endif
