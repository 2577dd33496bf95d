/* Our end of plumb-guard: a process that never computes and forks one child per program.
 *
 * pl_guard_start spawns it (posix_spawn: safe from threaded programs). A child opens one backend,
 * compiles one model and runs it as often as asked; whatever happens to it becomes a status and a
 * pl_failure here. Tensors travel in sealed memfds, which the child cannot change once it has sent
 * them, and everything in them is checked before it is used. */
#ifndef PL_GUARD_H
#define PL_GUARD_H

#include "backends/backend.h"
#include "backends/confine.h"
#include "backends/guard/guard_msg.h"

enum { PL_GUARD_MODES_MAX = 8 };

typedef struct pl_guard pl_guard;
typedef struct pl_guard_child pl_guard_child;

/* Looks for the program at $PLUMB_GUARD, beside the running program, in ../libexec/plumb beside its
 * folder, and the same around the library. */
/* tmp_dir: for temporary files of it and its children; NULL = $TMPDIR. The guard's own folders are
 * added to the confinement, if there is one. */
pl_status pl_guard_start(const char *tmp_dir, pl_confinement *confinement, pl_guard **out,
                         pl_err *err);
/* In a fork: the guard belongs to the parent process, so only our end of the socket is closed. */
void pl_guard_abandon(pl_guard *guard);
void pl_guard_stop(pl_guard *guard); /* ends it and all of its children; NULL is fine */
/* Tells the guard that this child opened its spec without harm. If no thread was started, the guard
 * then opens the backend itself when it is slow to start (ONNX Runtime takes 20 ms), and later
 * children inherit it. */
void pl_guard_preload(pl_guard *guard, const pl_guard_child *child);

pl_status pl_guard_child_new(pl_guard *guard, const char *spec, double timeout_seconds,
                             uint64_t memory_limit, pl_guard_child **out, pl_err *err);
void pl_guard_child_set_timeout(pl_guard_child *child, double seconds);
/* `progress` (may be NULL) is polled while waiting for the child; cancelling ends the child, and
 * the call returns PL_E_CANCELLED. */
void pl_guard_child_watch(pl_guard_child *child, const pl_progress *progress);
typedef struct pl_guard_opened { /* what a backend reports about itself */
    char version[2048], device[2048];
    char modes[2048]; /* record modes, separated by commas */
    uint64_t cpu;     /* features of its CPU (kernels/cpu.h) */
    bool confined;    /* the guard says that its sandbox is active */
    bool limited;     /* and that a cgroup limits the child */
} pl_guard_opened;
/* Opens the backend. `failure` may be NULL. */
pl_status pl_guard_child_open(pl_guard_child *child, pl_guard_opened *out, pl_failure *failure,
                              pl_err *err);
/* *answer is 1 (yes), 0 (no) or -1 (unknown). */
pl_status pl_guard_child_supports(pl_guard_child *child, const char *domain, const char *op,
                                  int opset, int *answer, pl_failure *failure, pl_err *err);
pl_status pl_guard_child_compile(pl_guard_child *child, const plumb_source *source, size_t *n_hooks,
                                 pl_failure *failure, pl_err *err);
void pl_guard_child_again(pl_guard_child *child, pl_again again);
pl_status pl_guard_child_run(pl_guard_child *child, const plumb_run_args *args, pl_run_times *times,
                             pl_failure *failure, pl_err *err);
/* The bytes live until the child is freed. */
pl_status pl_guard_child_executed(pl_guard_child *child, pl_bytes *onnx, pl_failure *failure,
                                  pl_err *err);
/* The text lives until the child is freed or asked again. */
pl_status pl_guard_child_placement(pl_guard_child *child, const char **text, pl_failure *failure,
                                   pl_err *err);
/* False once its process has ended, or was ended for a time-out. */
bool pl_guard_child_alive(const pl_guard_child *child);
void pl_guard_child_free(pl_guard_child *child); /* NULL is fine */

#endif
