/* A pool of threads for data-parallel loops.
 *
 * Work is cut into blocks whose size does not depend on the number of threads; each thread begins
 * with its own part of the blocks, the same from loop to loop, and helps others when it is done. A
 * loop body writes only to its own block, so results never depend on the number of threads. The
 * calling thread works too: a pool of 1 has no threads of its own. One loop runs at a time; a
 * nested pl_pool_for, and one from a second thread while the pool is busy, runs inline in its
 * calling thread, in the same blocks. Threads start at the first loop that needs them. */
#ifndef PL_POOL_H
#define PL_POOL_H

#include <stdint.h>

typedef struct pl_pool pl_pool;

/* n_threads <= 0: one for each CPU this process may run on. NULL when out of memory; a pool that
 * cannot start all its threads works with those it has. */
pl_pool *pl_pool_new(int n_threads);
void pl_pool_free(pl_pool *pool);
int pl_pool_threads(const pl_pool *pool); /* 1 for NULL */

int pl_pool_cpus(void); /* usable by this process */

/* Calls fn(ctx, begin, end) for consecutive ranges that cover 0..n in steps of `grain` (>= 1), in
 * any order and at the same time: begin / grain is the index of the block, with threads or without.
 * pool == NULL runs inline. */
typedef void (*pl_pool_fn)(void *ctx, int64_t begin, int64_t end);
void pl_pool_for(pl_pool *pool, int64_t n, int64_t grain, pl_pool_fn fn, void *ctx);

#endif
