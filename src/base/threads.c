/* The thread pool: workers wait for a loop to open, join it, and leave it.
 *
 * A worker that wakes late finds the loop closed and goes back to sleep: the caller waits only for
 * workers that joined, never for one that is still waking up. Joining, leaving and closing are one
 * atomic each (see join); the mutex is for sleeping only. Blocks are assigned in advance: each
 * thread starts with its own part, always the same one, so that its data is still in its cache from
 * the last loop. When done it takes blocks from the ends of other parts. Waiting threads spin for
 * about 50 microseconds before they sleep, so that none sleeps between the steps of a model: waking
 * one costs as much as a small convolution. They do not spin longer, because the OpenMP runtime of
 * a backend may need the same cores. */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

enum {
    THREADS_MAX = 1024,
    SPIN_NS = 50000,
    SPINS = 64, /* pauses of 10 to 140 cycles each, between looks at the clock */
    CACHE_LINE = 64,
    OPEN = 1 /* of pl_pool.state */
};

typedef struct loop {
    pl_pool_fn fn;
    void *ctx;
    int64_t n, grain;
    int64_t n_blocks, unit; /* unit: blocks taken at once */
    int n_shares;
} loop;

/* Units left in a thread's part: begin in the upper, end in the lower 32 bits. */
typedef struct share {
    _Alignas(CACHE_LINE) atomic_uint_fast64_t left;
} share;

struct pl_pool {
    int n_threads; /* the calling thread included */
    int n_cpus;
    int n_workers; /* started; under run_lock */
    bool started;
    pthread_t *workers;
    pthread_mutex_t run_lock; /* held by the loop that uses the workers */
    share *shares;            /* of the current loop, by thread */
    loop current;             /* constant while it is open or a worker is inside */

    pthread_mutex_t lock; /* for sleeping only */
    pthread_cond_t wake, left;
    _Alignas(CACHE_LINE) atomic_uint_fast64_t state; /* twice the loop's number, plus OPEN */
    atomic_int n_asleep;
    atomic_bool stop;
    _Alignas(CACHE_LINE) atomic_int n_inside; /* workers in the loop, or checking whether to join */
    atomic_bool waits;                        /* the caller sleeps until they have left */
};

/* Set while this thread runs blocks: a nested loop must not wait for its own workers. */
static _Thread_local bool inside_loop;

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* With more threads than cores, a waiting thread must yield. */
static bool spins(const pl_pool *pool) {
    return pool->n_threads <= pool->n_cpus;
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
    pl_pool *pool = pl_aligned_alloc(CACHE_LINE, sizeof *pool);
    if (pool == NULL) return NULL;
    memset(pool, 0, sizeof *pool);
    pool->n_cpus = default_threads();
    if (n_threads <= 0) n_threads = pool->n_cpus;
    if (n_threads > THREADS_MAX) n_threads = THREADS_MAX;
    pool->workers = pl_calloc((size_t)n_threads, sizeof *pool->workers);
    pool->shares = pl_aligned_alloc(CACHE_LINE, (size_t)n_threads * sizeof *pool->shares);
    if (pool->workers == NULL || pool->shares == NULL) {
        pl_free(pool->workers);
        pl_free(pool->shares);
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
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->n_workers; i++)
        pthread_join(pool->workers[i], NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->run_lock);
    pl_free(pool->workers);
    pl_free(pool->shares);
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

/* Uses the same blocks as with threads: a body may keep one partial result per block. */
static void run_inline(const loop *l) {
    for (int64_t block = 0; block < l->n_blocks; block++)
        run_block(l, block);
}

/* ---- shares ---- */

static uint_fast64_t share_of(uint_fast64_t begin, uint_fast64_t end) {
    return begin << 32 | end;
}

static void shares_fill(pl_pool *pool, loop *l) {
    const int64_t n = l->n_blocks;
    l->unit = n / INT32_MAX + 1;
    const int64_t units = n / l->unit + (n % l->unit != 0);
    l->n_shares = units < pool->n_workers + 1 ? (int)units : pool->n_workers + 1;
    int64_t begin = 0;
    for (int i = 0; i < l->n_shares; i++) {
        const int64_t end = begin + units / l->n_shares + (i < units % l->n_shares);
        atomic_store_explicit(&pool->shares[i].left,
                              share_of((uint_fast64_t)begin, (uint_fast64_t)end),
                              memory_order_relaxed);
        begin = end;
    }
}

/* The next unit of the thread's own part, or the last one of another part; -1 = none left. */
static int64_t share_take(share *s, bool own) {
    uint_fast64_t left = atomic_load_explicit(&s->left, memory_order_relaxed);
    for (;;) {
        const uint_fast64_t begin = left >> 32, end = left & UINT32_MAX;
        if (begin >= end) return -1;
        const uint_fast64_t then = own ? share_of(begin + 1, end) : share_of(begin, end - 1);
        if (atomic_compare_exchange_weak_explicit(&s->left, &left, then, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return (int64_t)(own ? begin : end - 1);
        }
    }
}

static void run_unit(const loop *l, int64_t unit) {
    const int64_t begin = unit * l->unit;
    for (int64_t b = begin; b < begin + l->unit && b < l->n_blocks; b++)
        run_block(l, b);
}

static void run_shared(pl_pool *pool, const loop *l, int self) {
    for (int i = 0; i < l->n_shares; i++) {
        const int of = (self + i) % l->n_shares;
        for (int64_t u; (u = share_take(&pool->shares[of], of == self)) >= 0;)
            run_unit(l, u);
    }
}

/* ---- workers ---- */

static bool is_news(pl_pool *pool, uint_fast64_t seen) {
    const uint_fast64_t state = atomic_load(&pool->state);
    return ((state & OPEN) != 0 && state != seen) || atomic_load(&pool->stop);
}

/* Spins until a new loop opens or the time is up. */
static bool spin_open(pl_pool *pool, uint_fast64_t seen) {
    const int64_t end = spins(pool) ? pl_clock_ns() + SPIN_NS : 0;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (is_news(pool, seen)) return true;
            cpu_pause();
        }
    } while (end > 0 && pl_clock_ns() < end);
    return false;
}

/* Waits for a new loop. A worker that wakes too late spins again before it sleeps: otherwise a
 * series of short loops would each end before it is awake. */
static void wait_open(pl_pool *pool, uint_fast64_t seen) {
    while (!spin_open(pool, seen)) {
        pthread_mutex_lock(&pool->lock);
        atomic_fetch_add(&pool->n_asleep, 1); /* a loop opened later sees it */
        if (!is_news(pool, seen)) pthread_cond_wait(&pool->wake, &pool->lock);
        atomic_fetch_sub(&pool->n_asleep, 1);
        pthread_mutex_unlock(&pool->lock);
    }
}

/* Enter first, then look: either this worker sees that the loop is closed, or the closing thread
 * sees the worker inside and waits for it (both sides are sequentially consistent). */
static void join(pl_pool *pool, int self, uint_fast64_t *seen) {
    atomic_fetch_add(&pool->n_inside, 1);
    const uint_fast64_t state = atomic_load(&pool->state);
    if ((state & OPEN) != 0 && state != *seen) {
        const loop l = pool->current;
        *seen = state;
        run_shared(pool, &l, self);
    }
    if (atomic_fetch_sub(&pool->n_inside, 1) == 1 && atomic_load(&pool->waits)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_signal(&pool->left);
        pthread_mutex_unlock(&pool->lock);
    }
}

typedef struct worker {
    pl_pool *pool;
    int self;
} worker;

static void *worker_main(void *arg) {
    const worker w = *(worker *)arg;
    uint_fast64_t seen = 0;
    pl_free(arg);
    inside_loop = true;
    for (;;) {
        wait_open(w.pool, seen);
        if (atomic_load(&w.pool->stop)) return NULL;
        join(w.pool, w.self, &seen);
    }
}

/* Call with run_lock held. Workers block all signals, so that the program's threads get them. */
static void start_workers(pl_pool *pool) {
    sigset_t all, before;
    pool->started = true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_workers < pool->n_threads - 1) {
        worker *w = pl_malloc(sizeof *w);
        if (w == NULL) break;
        *w = (worker){ pool, pool->n_workers + 1 };
        if (pthread_create(&pool->workers[pool->n_workers], NULL, worker_main, w) != 0) {
            pl_free(w);
            break;
        }
        pool->n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- loops ---- */

static void loop_open(pl_pool *pool, loop *l) {
    shares_fill(pool, l);
    pool->current = *l;
    atomic_fetch_add(&pool->state, 2 + OPEN); /* it was closed */
    if (atomic_load(&pool->n_asleep) == 0) return;
    pthread_mutex_lock(&pool->lock);
    if (l->n_shares > pool->n_workers) {
        pthread_cond_broadcast(&pool->wake);
    } else {
        for (int i = 1; i < l->n_shares; i++)
            pthread_cond_signal(&pool->wake);
    }
    pthread_mutex_unlock(&pool->lock);
}

/* All blocks are taken: closes the loop and waits for the workers inside. */
static void loop_close(pl_pool *pool) {
    atomic_fetch_sub(&pool->state, OPEN);
    const int64_t end = spins(pool) ? pl_clock_ns() + SPIN_NS : 0;
    do {
        for (int i = 0; i < SPINS; i++) {
            if (atomic_load(&pool->n_inside) == 0) return;
            cpu_pause();
        }
    } while (end > 0 && pl_clock_ns() < end);
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->waits, true); /* threads that leave later see it */
    while (atomic_load(&pool->n_inside) > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    atomic_store(&pool->waits, false);
    pthread_mutex_unlock(&pool->lock);
}

void pl_pool_for(pl_pool *pool, int64_t n, int64_t grain, pl_pool_fn fn, void *ctx) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (n <= grain) {
        fn(ctx, 0, n);
        return;
    }
    loop l = { fn, ctx, n, grain, n / grain + (n % grain != 0), 1, 1 };
    /* A second concurrent loop runs in its own thread instead of waiting. */
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
        run_shared(pool, &l, 0);
        loop_close(pool);
        inside_loop = false;
    }
    pthread_mutex_unlock(&pool->run_lock);
}
