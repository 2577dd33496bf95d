/* The temporary folder, and the time that is left. */
#ifndef PL_MINI_WORK_H
#define PL_MINI_WORK_H

#include <stdint.h>

#include "flows/minify/search/mini_state.h"

/* The temporary folder; what runs that were killed have left is removed (mini_work.c). */
pl_status pl_mini_work_open(pl_mini *m, pl_err *err);
void pl_mini_work_close(pl_mini *m);
double pl_mini_cpu_seconds(void);
/* Of --max-time; at least a millisecond, 1e9 without it. */
double pl_mini_seconds_left(const pl_mini *m);
/* When a run of the reference must end that may take so long, in pl_clock_ns. */
int64_t pl_mini_deadline(const pl_mini *m, double seconds);

#endif
