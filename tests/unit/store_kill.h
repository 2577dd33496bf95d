/* For tests of src/store: a folder of its own, and children that are killed at random moments. */
#ifndef PL_STORE_KILL_H
#define PL_STORE_KILL_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "tensor/tensor.h"

static char test_dir[256];

static inline int make_dir(void **state) {
    (void)state;
    char *dir = NULL;
    if (pl_dir_temporary(&dir, NULL) != PL_OK) return -1;
    snprintf(test_dir, sizeof test_dir, "%s", dir);
    pl_free(dir);
    return 0;
}

static inline int remove_dir(void **state) {
    (void)state;
    return pl_dir_remove(test_dir, NULL) == PL_OK ? 0 : -1;
}

static inline const char *in_dir(const char *name) {
    static char paths[4][400];
    static int next = 0;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_dir, name);
    return path;
}

/* A float tensor whose elements depend on the seed only. */
static inline pl_tensor *random_tensor(uint64_t seed, int64_t n) {
    pl_tensor *t = NULL;
    if (pl_tensor_new(PL_F32, 1, &n, &t, NULL) != PL_OK) return NULL;
    pl_f32 *data = t->data;
    for (int64_t i = 0; i < n; i++)
        data[i] = (float)(int32_t)pl_rng_at(seed, 0, (uint64_t)i);
    return t;
}

static inline void sleep_us(long us) {
    const struct timespec t = { us / 1000000, us % 1000000 * 1000 };
    nanosleep(&t, NULL);
}

/* Runs work(ctx) in a child, kills it after `us` microseconds; true when the child was done before.
 * The child never returns into the test. */
static inline bool run_and_kill(void (*work)(void *), void *ctx, long us) {
    int status = 0;
    const pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        work(ctx);
        _exit(0);
    }
    sleep_us(us);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* How many kills: PLUMB_TEST_KILLS, else 50. */
static inline int n_kills(void) {
    const char *text = getenv("PLUMB_TEST_KILLS");
    return text == NULL ? 50 : atoi(text);
}

#endif
