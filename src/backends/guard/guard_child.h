/* The child's end: serves one backend and one program until its socket closes. */
#ifndef PL_GUARD_CHILD_H
#define PL_GUARD_CHILD_H

#include "backends/backend.h"

/* Returns the exit code of the child. `warm` is a backend that the guard has opened, or NULL;
 * `confined`: the sandbox is active; `limited`: a cgroup, too. */
int pl_guard_child_serve(int socket, pl_backend *warm, bool confined, bool limited);
/* Threads of this process; 0 when unknown. */
uint64_t pl_guard_count_threads(void);

#endif
