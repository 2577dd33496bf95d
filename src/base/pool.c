/* The thread pool: workers sleep on a condition variable, join the open loop, and leave it.
 *
 * A worker that wakes late finds the loop closed and goes back to sleep: the caller waits only for
 * workers that joined, never for one that is still waking up. Everything but the block counter is
 * guarded by one mutex; there is one lock round per worker and loop, none per block.
 * Waits look at an atomic for some 50 microseconds before they sleep: as long as the steps of a
 * model follow each other, nobody sleeps, for waking a thread costs as much as a small convolution.
 * Not longer: the OpenMP runtime of a backend may want the same cores. */
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
    THREADS_MAX = 1024,
    SPIN_NS = 50000,
    SPINS = 64, /* pauses of 10 to 140 cycles each, between looks at the clock */
};

typedef struct loop {
    pl_pool_fn fn;
    void *ctx;
    int64_t n, grain;
    int64_t n_blocks;
} loop;

struct pl_pool {
    int n_threads; /* the calling thread included */
    int n_cpus;
    int n_workers; /* started; under run_lock */
    bool started;
    pthread_t *workers;
    pthread_mutex_t run_lock; /* held by the one loop that uses the workers */

    pthread_mutex_t lock;
    pthread_cond_t wake, left;
    loop current;                /* under lock; stable while `open` or while a worker is in */
    bool open;                   /* under lock: workers may join */
    atomic_bool stop;            /* written under lock */
    atomic_uint_fast64_t serial; /* of the current loop; written under lock */
    atomic_int n_inside;         /* workers in the loop; written under lock */
    atomic_int_fast64_t next;    /* next block */
};

/* Set while this thread runs blocks: a loop within a loop must not wait for its own workers. */
static _Thread_local bool inside_loop;

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* More threads than cores: whoever waits must let the others work. */
static bool spins(const pl_pool *pool) {
    return pool->n_threads <= pool->n_cpus;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int default_threads(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
}

int pl_pool_cpus(void) {
    return default_threads();
}

pl_pool *pl_pool_new(int n_threads) {
    pl_pool *pool = pl_calloc(1, sizeof *pool);
    if (pool == NULL) return NULL;
    pool->n_cpus = default_threads();
    if (n_threads <= 0) n_threads = pool->n_cpus;
    if (n_threads > THREADS_MAX) n_threads = THREADS_MAX;
    pool->workers = pl_calloc((size_t)n_threads, sizeof *pool->workers);
    if (pool->workers == NULL) {
        pl_free(pool);
        return NULL;
    }
    pool->n_threads = n_threads;
    /* Default attributes: on Linux these four cannot fail. */
    pthread_mutex_init(&pool->run_lock, NULL);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pthread_cond_init(&pool->left, NULL);
    return pool;
}

void pl_pool_free(pl_pool *pool) {
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->run_lock);
    pl_free(pool->workers);
    pl_free(pool);
}

int pl_pool_threads(const pl_pool *pool) {
    return pool == NULL ? 1 : pool->n_threads;
}

static void run_block(const loop *l, int64_t block) {
    const int64_t begin = block * l->grain;
    const int64_t end = l->n - begin < l->grain ? l->n : begin + l->grain;
    l->fn(l->ctx, begin, end);
}

/* The same blocks as with threads: a body may keep one partial result for each block. */
static void run_inline(const loop *l) {
    for (int64_t block = 0; block < l->n_blocks; block++)
        run_block(l, block);
}

static void run_shared(pl_pool *pool, const loop *l) {
    for (;;) {
        const int64_t block = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (block >= l->n_blocks) break;
        run_block(l, block);
    }
}

/* Until another loop is open, or the time is over. */
static void wait_serial(pl_pool *pool, uint_fast64_t seen) {
    const int64_t end = spins(pool) ? now_ns() + SPIN_NS : 0;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (atomic_load_explicit(&pool->serial, memory_order_acquire) != seen) return;
            cpu_pause();
        }
    } while (end > 0 && !atomic_load(&pool->stop) && now_ns() < end);
}

/* Until all workers have left the loop, or the time is over. */
static void wait_left(pl_pool *pool) {
    const int64_t end = spins(pool) ? now_ns() + SPIN_NS : 0;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (atomic_load_explicit(&pool->n_inside, memory_order_acquire) == 0) return;
            cpu_pause();
        }
    } while (now_ns() < end);
}

static void *worker_main(void *arg) {
    pl_pool *pool = arg;
    uint_fast64_t seen = 0;
    inside_loop = true;
    for (;;) {
        wait_serial(pool, seen);
        pthread_mutex_lock(&pool->lock);
        while (!pool->stop && !(pool->open && atomic_load(&pool->serial) != seen))
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop) {
            pthread_mutex_unlock(&pool->lock);
            return NULL;
        }
        seen = atomic_load(&pool->serial);
        const loop l = pool->current;
        atomic_fetch_add(&pool->n_inside, 1);
        pthread_mutex_unlock(&pool->lock);

        run_shared(pool, &l);

        pthread_mutex_lock(&pool->lock);
        if (atomic_fetch_sub(&pool->n_inside, 1) == 1 && !pool->open)
            pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Under run_lock. Signals stay with the threads of the program: workers block them all. */
static void start_workers(pl_pool *pool) {
    sigset_t all, before;
    pool->started = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_workers < pool->n_threads - 1) {
        if (pthread_create(&pool->workers[pool->n_workers], NULL, worker_main, pool) != 0) break;
        pool->n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void loop_open(pl_pool *pool, const loop *l) {
    pthread_mutex_lock(&pool->lock);
    pool->current = *l;
    pool->open = true;
    atomic_store(&pool->next, 0);
    atomic_fetch_add(&pool->serial, 1);
    if (l->n_blocks - 1 >= pool->n_workers) {
        pthread_cond_broadcast(&pool->wake);
    } else {
        for (int64_t i = 1; i < l->n_blocks; i++)
            pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* All blocks are handed out: shuts the door and waits for those inside. */
static void loop_close(pl_pool *pool) {
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    pthread_mutex_unlock(&pool->lock);
    wait_left(pool);
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->n_inside) > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void pl_pool_for(pl_pool *pool, int64_t n, int64_t grain, pl_pool_fn fn, void *ctx) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (n <= grain) {
        fn(ctx, 0, n);
        return;
    }
    const loop l = { fn, ctx, n, grain, n / grain + (n % grain != 0) };
    /* A second loop at the same time runs in its own thread rather than wait. */
    if (pool == NULL || pool->n_threads == 1 || inside_loop ||
        pthread_mutex_trylock(&pool->run_lock) != 0) {
        run_inline(&l);
        return;
    }
    if (!pool->started) start_workers(pool);
    if (pool->n_workers == 0) {
        run_inline(&l);
    } else {
        inside_loop = true;
        loop_open(pool, &l);
        run_shared(pool, &l);
        loop_close(pool);
        inside_loop = false;
    }
    pthread_mutex_unlock(&pool->run_lock);
}
