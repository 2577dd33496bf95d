/* What the guard reads from /proc: every child once, and nobody else. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/guard/guard_proc.h"

enum { CROWD = 1100 }; /* their numbers, of four digits or more, fill more than 4096 bytes */

typedef struct crowd {
    pid_t pids[CROWD];
    int seen[CROWD];
    int n, strangers;
} crowd;

static void see(void *ctx, pid_t pid) {
    crowd *c = ctx;
    for (int i = 0; i < c->n; i++) {
        if (c->pids[i] != pid) continue;
        c->seen[i]++;
        return;
    }
    c->strangers++;
}

static pid_t start_idle(void) {
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

static void end_crowd(const crowd *c) {
    for (int i = 0; i < c->n; i++)
        kill(c->pids[i], SIGKILL);
    for (int i = 0; i < c->n; i++)
        waitpid(c->pids[i], NULL, 0);
}

static void test_proc__every_child_once_and_no_stranger(void **state) {
    (void)state;
    crowd *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    while (c->n < CROWD) {
        const pid_t pid = start_idle();
        if (pid < 0) break; /* a limit on processes: fewer must do */
        c->pids[c->n++] = pid;
    }
    pl_proc_each_child(getpid(), see, c);
    int missed = 0, twice = 0;
    for (int i = 0; i < c->n; i++) {
        missed += c->seen[i] == 0;
        twice += c->seen[i] > 1;
    }
    const int n = c->n, strangers = c->strangers;
    end_crowd(c);
    free(c);
    if (n < CROWD) skip();
    assert_int_equal(strangers, 0);
    assert_int_equal(missed, 0);
    assert_int_equal(twice, 0);
}

static void test_proc__memory_of_descendants_counts(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    int ready[2];
    char word = 0;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            char *block =
                mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (block != MAP_FAILED) memset(block, 1, BYTES);
            if (write(ready[1], "x", 1) != 1) _exit(1);
        }
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &word, 1), 1);
    const uint64_t bytes = pl_proc_tree_memory(pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_true(bytes >= BYTES);
    assert_int_equal(pl_proc_tree_memory(pid), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proc__every_child_once_and_no_stranger),
        cmocka_unit_test(test_proc__memory_of_descendants_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
