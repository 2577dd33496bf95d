/* Children and memory of a process, read from /proc. */
#include "backends/guard/guard_proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 8 };

/* One read returns at most a page, and a process may have more children than that. */
void pl_proc_each_child(pid_t pid, void (*fn)(void *ctx, pid_t child), void *ctx) {
    char text[4096];
    ssize_t n;
    long number = 0;
    snprintf(text, sizeof(text), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    const int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    while ((n = read(fd, text, sizeof(text))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                number = number * 10 + (text[i] - '0');
                continue;
            }
            if (number > 0) fn(ctx, (pid_t)number);
            number = 0;
        }
    }
    close(fd);
}

typedef struct sum {
    uint64_t bytes;
    int depth;
} sum;

static void add_memory(void *ctx, pid_t pid) {
    sum *s = ctx;
    char path[64], text[4096];
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    static const char *const keys[] = { "RssAnon:", "RssShmem:", "VmSwap:" };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const char *at = strstr(text, keys[i]);
        if (at != NULL) s->bytes += strtoull(at + strlen(keys[i]), NULL, 10) << 10;
    }
    if (s->depth++ < DEPTH_MAX) pl_proc_each_child(pid, add_memory, s);
    s->depth--;
}

uint64_t pl_proc_tree_memory(pid_t pid) {
    sum s = { 0, 0 };
    add_memory(&s, pid);
    return s.bytes;
}
