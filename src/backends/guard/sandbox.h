/* Confines plumb-guard and its children: Landlock for files, TCP and signals, seccomp for sockets
 * and new processes. What is confined can read only what it was given, write only to its own
 * folder, and reach no other machine. Both are one-way: no call lifts them again. */
#ifndef PL_SANDBOX_H
#define PL_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

typedef struct pl_sandbox {
    const char *const *readable; /* files or folders; those that do not exist are skipped */
    const char *const *writable; /* folders */
    const char *parent; /* of the last writable folder, so that it can be removed; NULL = none */
    const char *groups; /* holds the guard's cgroup, which can be removed; NULL = none */
    size_t n_readable, n_writable;
    bool programs; /* may start programs */
} pl_sandbox;

/* Whether this kernel has both. `why`, of at least 100 characters, says what is missing. */
bool pl_sandbox_available(char *why, size_t n_why);
/* Restricts files, TCP and signals, for this process and all it starts. False: nothing changed; see
 * errno. */
bool pl_sandbox_files(const pl_sandbox *s);
/* Restricts system calls. A forbidden one is reported on stderr and ends the process with
 * SIGSYS. */
bool pl_sandbox_calls(const pl_sandbox *s);

#endif
