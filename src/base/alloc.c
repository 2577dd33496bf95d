/* All heap allocations go through here. With failure injection off this costs one relaxed load. */
#include "base/alloc.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"

void pl_alloc_keep_freed(void) {
#ifdef M_MMAP_THRESHOLD                  /* glibc */
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* glibc's maximum */
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 16 << 20);
#endif
}

void pl_alloc_keep_large(void) {
#ifdef M_MMAP_THRESHOLD
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

void pl_alloc_give_back(void) {
#ifdef M_MMAP_THRESHOLD
    malloc_trim(0);
#endif
}

/* Allocations that may still succeed; negative = no limit. The globals of src/base: they exist for
 * tests and nothing else writes to them. */
static atomic_long allocations_left = -1;
static atomic_bool fails_once;

void pl_alloc_fail_after(long n) {
    atomic_store(&fails_once, false);
    atomic_store(&allocations_left, n < 0 ? -1 : n);
}

void pl_alloc_fail_once(long n) {
    atomic_store(&allocations_left, -1);
    atomic_store(&fails_once, true);
    atomic_store(&allocations_left, n < 0 ? -1 : n);
}

static bool injection_allows(void) {
    long left = atomic_load_explicit(&allocations_left, memory_order_relaxed);
    while (left > 0) {
        if (atomic_compare_exchange_weak(&allocations_left, &left, left - 1)) return true;
    }
    long none = 0;
    if (left == 0 && atomic_load(&fails_once)) /* one caller only */
        return !atomic_compare_exchange_strong(&allocations_left, &none, -1);
    return left < 0;
}

/* Also hides absurd sizes from sanitizers' allocators, which would abort. */
static bool size_sane(size_t n_bytes) {
    return n_bytes <= (size_t)PTRDIFF_MAX;
}

bool pl_may_allocate(size_t n_bytes) {
    return size_sane(n_bytes) && injection_allows();
}

void *pl_malloc(size_t n_bytes) {
    if (!pl_may_allocate(n_bytes)) return NULL;
    return malloc(n_bytes == 0 ? 1 : n_bytes);
}

void *pl_calloc(size_t count, size_t size) {
    size_t n_bytes;
    if (!pl_size_mul(count, size, &n_bytes) || !pl_may_allocate(n_bytes)) return NULL;
    return calloc(1, n_bytes == 0 ? 1 : n_bytes);
}

void *pl_realloc(void *p, size_t n_bytes) {
    if (!pl_may_allocate(n_bytes)) return NULL;
    return realloc(p, n_bytes == 0 ? 1 : n_bytes);
}

void *pl_realloc_array(void *p, size_t count, size_t size) {
    size_t n_bytes;
    if (!pl_size_mul(count, size, &n_bytes)) return NULL;
    return pl_realloc(p, n_bytes);
}

void *pl_aligned_alloc(size_t alignment, size_t n_bytes) {
    void *p = NULL;
    if (!pl_may_allocate(n_bytes)) return NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&p, alignment, n_bytes == 0 ? 1 : n_bytes) != 0) return NULL;
    return p;
}

void *pl_large_alloc(size_t n_bytes) {
    const size_t large = (size_t)2 << 20;
    size_t whole;
    if (n_bytes < large || !pl_size_add(n_bytes, large - 1, &whole)) {
        return pl_aligned_alloc(64, n_bytes);
    }
    whole = whole / large * large;
    void *p = pl_aligned_alloc(large, whole);
#ifdef MADV_HUGEPAGE
    if (p != NULL) (void)madvise(p, whole, MADV_HUGEPAGE); /* may fail: small pages work too */
#endif
    return p;
}

/* The value of "NAME: 123 kB" in text, in bytes; 0 if missing. */
static uint64_t meminfo_bytes(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10) * 1024;
}

bool pl_memory_holds(size_t n_bytes) {
    char text[4096];
    const int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return true;
    text[n] = '\0';
    const uint64_t memory = meminfo_bytes(text, "MemAvailable:");
    return memory == 0 || n_bytes <= memory + meminfo_bytes(text, "SwapFree:");
}

char *pl_strndup(const char *s, size_t n) {
    size_t n_bytes;
    if (!pl_size_add(n, 1, &n_bytes)) return NULL;
    char *copy = pl_malloc(n_bytes);
    if (copy == NULL) return NULL;
    if (n > 0) memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *pl_strdup(const char *s) {
    return pl_strndup(s, strlen(s));
}

void pl_free(void *p) {
    free(p);
}
