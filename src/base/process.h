/* Child processes, started with posix_spawn (safe from threaded programs). */
#ifndef PL_PROCESS_H
#define PL_PROCESS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/progress.h"

typedef struct pl_process_result {
    int exit_code; /* valid when signal == 0 */
    int signal;    /* 0, or the signal that ended it */
    bool timed_out;
    double cpu_seconds; /* of it and of the children that it waited for */
    pl_buf out, err;    /* what it printed; each capped, the tail is kept */
} pl_process_result;

typedef struct pl_process_options {
    const char *const *env;      /* NULL = ours; else a complete NULL-terminated environment */
    const char *dir;             /* NULL = ours */
    double timeout_seconds;      /* 0 = none; then the whole process group is killed */
    size_t max_output_bytes;     /* 0 = 1 MiB for each stream */
    bool in_our_group;           /* no process group of its own: a time-out ends the child alone */
    const pl_progress *progress; /* polled while waiting; cancelling ends it. NULL = none */
} pl_process_options;

/* Runs argv[0] (searched in PATH) to its end with standard input from /dev/null. A child that
 * fails is not an error here: look at the result. Release it either way. */
pl_status pl_process_run(const char *const *argv, const pl_process_options *options,
                         pl_process_result *out, pl_err *err);
void pl_process_result_release(pl_process_result *result);

/* Ends the children that this process is waiting for, each with its group. For handlers of fatal
 * signals: async-signal-safe. */
void pl_process_abandon(void);

/* Peak memory in bytes: of this process, plus that of the largest process among those it started
 * and waited for, and theirs. */
int64_t pl_process_peak_bytes(void);

#endif
