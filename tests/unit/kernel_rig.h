/* What tests of kernels share: random numbers that are the same in every run, and a pool of threads
 * for all tests of a program (pool_set_up and pool_tear_down go into cmocka_run_group_tests). */
#ifndef PL_TEST_KERNEL_RIG_H
#define PL_TEST_KERNEL_RIG_H

#include <stdint.h>

#include "base/threads.h"

static pl_pool *pool;

static inline int pool_set_up(void **state) {
    (void)state;
    pool = pl_pool_new(3);
    return pool == NULL ? -1 : 0;
}

static inline int pool_tear_down(void **state) {
    (void)state;
    pl_pool_free(pool);
    return 0;
}

/* splitmix64 */
static inline uint64_t mix_of(uint64_t *seed) {
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t mix(void) {
    static uint64_t seed = 1;
    return mix_of(&seed);
}

static inline double unit(void) { /* in [-1, 1) */
    return (double)(mix() >> 11) * 0x1p-52 - 1.0;
}

static inline int64_t pick(int64_t lo, int64_t hi) {
    return lo + (int64_t)(mix() % (uint64_t)(hi - lo + 1));
}

#endif
