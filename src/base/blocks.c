/* Freed blocks of tensors, kept for the next tensor of about that size while somebody wants them.
 *
 * Sizes are rounded to eight classes per power of two, so a block is found by its class alone. The
 * rounding costs addresses, not memory: pages that nothing touches are never filled. */
#include "base/blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/alloc.h"

/* A sanitizer must see every use of freed memory: nothing is kept then. */
#ifdef __SANITIZE_ADDRESS__
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

enum { SLOTS = 32 };

static const size_t block_min = (size_t)8 << 20; /* smaller ones: malloc keeps them itself */
static const size_t kept_min = (size_t)64 << 20; /* always allowed */

typedef struct kept {
    void *p;
    size_t n_bytes;
} kept;

static struct {
    pthread_mutex_t lock;
    int users;
    size_t live, peak; /* bytes in use: now, at most */
    size_t n, total;
    kept of[SLOTS]; /* oldest first */
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* 0 = not a block of its own. */
static size_t class_of(size_t n_bytes) {
    if (SANITIZED || n_bytes < block_min || n_bytes > SIZE_MAX / 4) return 0;
    size_t step = block_min / 8;
    while (step * 16 < n_bytes)
        step *= 2;
    return (n_bytes + step - 1) / step * step;
}

static void drop_oldest(void) {
    munmap(cache.of[0].p, cache.of[0].n_bytes);
    cache.total -= cache.of[0].n_bytes;
    cache.n--;
    for (size_t i = 0; i < cache.n; i++)
        cache.of[i] = cache.of[i + 1];
}

/* Bytes that may be kept now: in all, what was in use at once and a quarter more, since blocks are
 * of many sizes. */
static size_t kept_max(void) {
    const size_t most = cache.peak + cache.peak / 4;
    return most > cache.live + kept_min ? most - cache.live : kept_min;
}

static void *take(size_t n_bytes) {
    void *p = NULL;
    pthread_mutex_lock(&cache.lock);
    cache.live += n_bytes;
    if (cache.live > cache.peak) cache.peak = cache.live;
    for (size_t i = cache.n; i-- > 0 && p == NULL;) { /* the newest may still be in a cache */
        if (cache.of[i].n_bytes != n_bytes) continue;
        p = cache.of[i].p;
        cache.total -= n_bytes;
        cache.n--;
        for (size_t k = i; k < cache.n; k++)
            cache.of[k] = cache.of[k + 1];
    }
    while (cache.n > 0 && cache.total > kept_max())
        drop_oldest();
    pthread_mutex_unlock(&cache.lock);
    return p;
}

static bool give(void *p, size_t n_bytes) {
    pthread_mutex_lock(&cache.lock);
    cache.live -= n_bytes;
    const size_t most = kept_max();
    const bool wanted = p != NULL && cache.users > 0 && n_bytes <= most;
    while (wanted && (cache.n == SLOTS || cache.total + n_bytes > most))
        drop_oldest();
    if (wanted) {
        cache.of[cache.n++] = (kept){ p, n_bytes };
        cache.total += n_bytes;
    }
    pthread_mutex_unlock(&cache.lock);
    return wanted;
}

/* An analysis touches much memory once. The large pages that a virtual machine has free are those
 * that its host took back: each costs a fault there, 2 s a gigabyte, where small ones cost a sixth.
 */
static bool is_analysing(void) {
    pthread_mutex_lock(&cache.lock);
    const bool analysing = cache.users > 0;
    pthread_mutex_unlock(&cache.lock);
    return analysing;
}

void *pl_block_alloc(size_t n_bytes) {
    const size_t whole = class_of(n_bytes);
    if (whole == 0) return pl_aligned_alloc(64, n_bytes);
    if (!pl_may_allocate(n_bytes)) return NULL;
    void *p = take(whole);
    if (p != NULL) return p;
    p = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#ifdef MADV_HUGEPAGE
    if (p != MAP_FAILED && !is_analysing()) (void)madvise(p, whole, MADV_HUGEPAGE);
#endif
    if (p != MAP_FAILED) return p;
    (void)give(NULL, whole);
    return NULL;
}

void pl_block_free(void *p, size_t n_bytes) {
    const size_t whole = class_of(n_bytes);
    if (p == NULL) return;
    if (whole == 0)
        pl_free(p);
    else if (!give(p, whole))
        munmap(p, whole);
}

/* A child of fork gets the lock open, whatever other threads did. */
static void lock(void) {
    pthread_mutex_lock(&cache.lock);
}
static void unlock(void) {
    pthread_mutex_unlock(&cache.lock);
}
static void survive_fork(void) {
    (void)pthread_atfork(lock, unlock, unlock);
}

void pl_blocks_keep(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, survive_fork);
    pthread_mutex_lock(&cache.lock);
    cache.users++;
    pthread_mutex_unlock(&cache.lock);
}

void pl_blocks_release(void) {
    pthread_mutex_lock(&cache.lock);
    if (--cache.users == 0) {
        while (cache.n > 0)
            drop_oldest();
        cache.peak = cache.live;
    }
    pthread_mutex_unlock(&cache.lock);
}

size_t pl_blocks_kept(void) {
    pthread_mutex_lock(&cache.lock);
    const size_t total = cache.total;
    pthread_mutex_unlock(&cache.lock);
    return total;
}
