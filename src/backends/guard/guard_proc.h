/* Facts about the processes under test, from /proc. */
#ifndef PL_GUARD_PROC_H
#define PL_GUARD_PROC_H

#include <stdint.h>
#include <sys/types.h>

/* Calls fn for each child process of pid's main thread. */
void pl_proc_each_child(pid_t pid, void (*fn)(void *ctx, pid_t child), void *ctx);
/* Resident private and shared-memory pages and swap of pid and its descendants, in bytes. */
uint64_t pl_proc_tree_memory(pid_t pid);

#endif
