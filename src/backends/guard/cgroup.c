/* cgroup v2 by its files. A group with processes cannot give controllers to groups below it (the
 * root excepted), so the group is made beside plumb's own more often than below it. */
#include "backends/guard/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

#define ROOT "/sys/fs/cgroup"
#define PREFIX "plumb-guard-"

enum { THREADS_PER_CHILD = 1024 }; /* runtimes start one per core, compilers a few programs */

static bool read_text(const char *path, char *text, size_t n_text) {
    const int fd = pl_fd_open(path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, n_text - 1);
    close(fd);
    text[n < 0 ? 0 : n] = '\0';
    return n >= 0;
}

static bool has_word(const char *text, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += n)
        if ((at == text || at[-1] == ' ') && strchr(" \n", at[n]) != NULL) return true;
    return false;
}

static bool can_hold_groups(const char *folder) {
    char text[512];
    char *control = pl_path_join(folder, "cgroup.subtree_control");
    char *processes = pl_path_join(folder, "cgroup.procs");
    const bool ok = control != NULL && processes != NULL &&
                    read_text(control, text, sizeof(text)) && has_word(text, "memory") &&
                    has_word(text, "pids") && access(folder, W_OK) == 0 &&
                    access(processes, W_OK) == 0;
    pl_free(control);
    pl_free(processes);
    return ok;
}

char *pl_cgroup_find(const char *root, const char *self) {
    const char *line = strncmp(self, "0::/", 4) == 0 ? self : strstr(self, "\n0::/");
    if (line == NULL) return NULL;
    line += strcspn(line, "/");
    char *path = pl_strndup(line, strcspn(line, "\n"));
    char *found = NULL;
    /* A group outside of this namespace is shown as "/../x". */
    const bool inside = path != NULL && strstr(path, "/..") == NULL;
    for (int up = 0; up < 2 && inside && found == NULL; up++) {
        found = pl_path_join(root, path + 1);
        if (found != NULL && !can_hold_groups(found)) {
            pl_free(found);
            found = NULL;
        }
        if (path[1] == '\0') break;
        char *slash = strrchr(path, '/');
        slash[slash == path] = '\0';
    }
    pl_free(path);
    return found;
}

char *pl_cgroup_find_own(void) {
    char self[4096];
    return read_text("/proc/self/cgroup", self, sizeof(self)) ? pl_cgroup_find(ROOT, self) : NULL;
}

/* A guard that was killed leaves an empty group. One with processes cannot be removed. */
static void remove_stale(const char *parent) {
    pl_dir_list list = { 0 };
    if (pl_dir_list_read(parent, &list, NULL) != PL_OK) return;
    for (size_t i = 0; i < list.n_names; i++) {
        if (strncmp(list.names[i], PREFIX, sizeof(PREFIX) - 1) != 0) continue;
        const long pid = strtol(list.names[i] + sizeof(PREFIX) - 1, NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        char *path = pl_path_join(parent, list.names[i]);
        if (path != NULL) rmdir(path);
        pl_free(path);
    }
    pl_dir_list_free(&list);
}

static int open_in(const char *folder, const char *name, int flags) {
    char *path = pl_path_join(folder, name);
    const int fd = path == NULL ? -1 : pl_fd_open(path, flags | O_CLOEXEC, 0);
    pl_free(path);
    return fd;
}

static void close_files(pl_cgroup *g) {
    const int fds[] = { g->processes, g->memory, g->pids, g->events };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0) close(fds[i]);
}

bool pl_cgroup_open(const char *parent, pl_cgroup *out) {
    char name[64];
    *out = (pl_cgroup){ .processes = -1, .memory = -1, .pids = -1, .events = -1 };
    remove_stale(parent);
    snprintf(name, sizeof(name), PREFIX "%ld", (long)getpid());
    out->path = pl_path_join(parent, name);
    if (out->path == NULL || (mkdir(out->path, 0700) != 0 && errno != EEXIST)) {
        pl_free(out->path);
        out->path = NULL;
        return false;
    }
    out->processes = open_in(out->path, "cgroup.procs", O_WRONLY);
    out->memory = open_in(out->path, "memory.max", O_WRONLY);
    out->pids = open_in(out->path, "pids.max", O_WRONLY);
    out->events = open_in(out->path, "memory.events", O_RDONLY);
    if (out->processes >= 0 && out->memory >= 0 && out->pids >= 0 && out->events >= 0) return true;
    pl_cgroup_close(out);
    return false;
}

void pl_cgroup_limit(const pl_cgroup *g, size_t n_children, uint64_t memory_bytes) {
    char text[32];
    /* A little more than what the guard allows: it names the limit, the kernel only kills. File
     * pages count here, and are given back first. */
    const bool none = memory_bytes == 0 || memory_bytes > UINT64_MAX / 2;
    const uint64_t most = none ? 0 : memory_bytes + memory_bytes / 8 + (UINT64_C(64) << 20);
    int n =
        none ? snprintf(text, sizeof(text), "max") : snprintf(text, sizeof(text), "%" PRIu64, most);
    (void)!pwrite(g->memory, text, (size_t)n, 0);
    n = snprintf(text, sizeof(text), "%zu", n_children * THREADS_PER_CHILD);
    (void)!pwrite(g->pids, text, (size_t)n, 0);
}

bool pl_cgroup_enter(pl_cgroup *g) {
    const bool ok = write(g->processes, "0", 1) == 1;
    close_files(g);
    return ok;
}

uint64_t pl_cgroup_count_killed(const pl_cgroup *g) {
    char text[512];
    const ssize_t n = pread(g->events, text, sizeof(text) - 1, 0);
    if (n <= 0) return 0;
    text[n] = '\0';
    const char *at = strstr(text, "oom_kill ");
    return at == NULL ? 0 : strtoull(at + strlen("oom_kill "), NULL, 10);
}

void pl_cgroup_close(pl_cgroup *g) {
    if (g->path == NULL) return;
    close_files(g);
    rmdir(g->path);
    pl_free(g->path);
    g->path = NULL;
}
