/* For tests of src/store: tensors to write, and children that are killed in the middle of it. */
#ifndef PL_STORE_KILL_H
#define PL_STORE_KILL_H

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "tensor/tensor.h"

/* A float tensor whose elements depend on the seed only. */
static inline pl_tensor *random_tensor(uint64_t seed, int64_t n) {
    pl_tensor *t = NULL;
    if (pl_tensor_new(PL_F32, 1, &n, &t, NULL) != PL_OK) return NULL;
    pl_f32 *data = t->data;
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(int32_t)pl_rng_at(seed, 0, (uint64_t)i);
    return t;
}

/* Runs work(ctx) in a child and kills it at the entry to, or the return from, one of its system
 * calls: after `at` such stops, or never when at < 0. What a file holds changes in system calls
 * only, so these are all moments that matter, and unlike a moment of time they do not depend on the
 * machine. Returns how many stops there were; -1 when the child cannot be traced. *done: the child
 * ended well before that. It never returns into the test. */
static inline long run_and_kill(void (*work)(void *), void *ctx, long at, bool *done) {
    int status = 0;
    long n = 0, deliver = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0) _exit(99);
        work(ctx);
        _exit(0);
    }
    *done = false;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return -1;
    ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    while (WIFSTOPPED(status) && (at < 0 || n < at)) {
        if (ptrace(PTRACE_SYSCALL, pid, NULL, deliver) != 0) break;
        if (waitpid(pid, &status, 0) != pid) break;
        const bool call = WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
        deliver = call || !WIFSTOPPED(status) ? 0 : WSTOPSIG(status);
        n += call;
    }
    if (WIFSTOPPED(status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    *done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return n;
}

/* How many kills: PLUMB_TEST_KILLS, else 50. */
static inline int n_kills(void) {
    const char *text = getenv("PLUMB_TEST_KILLS");
    return text == NULL ? 50 : atoi(text);
}

#endif
