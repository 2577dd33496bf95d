/* Limits of memory and processes by the kernel (cgroup v2), where this user may make a group. They
 * stand behind the guard's own check of memory, which looks every few milliseconds: what grows
 * faster, or starts processes without end, meets these. */
#ifndef PL_CGROUP_H
#define PL_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_cgroup {
    char *path;                          /* NULL = none */
    int processes, memory, pids, events; /* descriptors: the guard cannot open them later */
} pl_cgroup;

/* The folder in which this process may make a group with both limits: its own group or the one
 * above. `root` is where cgroup v2 is mounted, `self` the text of /proc/self/cgroup. NULL = none;
 * the caller frees it. */
char *pl_cgroup_find(const char *root, const char *self);
/* The same for the kernel's own. */
char *pl_cgroup_find_own(void);
/* Makes a group named after this process in `parent`, and removes those of guards that are gone.
 * False: nothing is left behind. */
bool pl_cgroup_open(const char *parent, pl_cgroup *out);
/* For `n_children` that may have `memory_bytes` in all; 0 = no limit. */
void pl_cgroup_limit(const pl_cgroup *group, size_t n_children, uint64_t memory_bytes);
/* Moves the calling process into the group, and closes it there. False: it stays outside. */
bool pl_cgroup_enter(pl_cgroup *group);
/* How many processes were killed for want of memory. */
uint64_t pl_cgroup_count_killed(const pl_cgroup *group);
/* Removes the group, which must be empty. */
void pl_cgroup_close(pl_cgroup *group);

#endif
