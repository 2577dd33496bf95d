/* A process that starts programs for another one. It is started before MPI, which does not support
 * fork afterwards, and knows nothing of it. It runs one program at a time, and ends with the
 * process that started it. */
#ifndef PL_SPAWNER_H
#define PL_SPAWNER_H

#include <sys/types.h>

#include "base/process.h"

typedef struct pl_spawner pl_spawner;

/* Starts argv, which must call pl_spawner_serve(0). Without the variables of MPI launchers. */
pl_status pl_spawner_start(const char *const *argv, pl_spawner **out, pl_err *err);
void pl_spawner_stop(pl_spawner *spawner); /* with what it runs; NULL is fine */
pid_t pl_spawner_pid(const pl_spawner *spawner);
/* As pl_process_run, of whose options it takes the time-out, the limit of the output and the
 * progress. Cannot be used again after a failure. */
pl_status pl_spawner_run(pl_spawner *spawner, const char *const *argv,
                         const pl_process_options *options, pl_process_result *out, pl_err *err);

/* The other end: answers on this socket until it is closed. */
pl_status pl_spawner_serve(int fd, pl_err *err);

#endif
