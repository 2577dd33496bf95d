/* The one interface to the heap. Everything in plumb allocates through these, so that tests can
 * make the n-th allocation fail (pl_alloc_fail_after) and so that sizes are checked in one place.
 * All return NULL on failure; the caller turns that into pl_fail_memory. */
#ifndef PL_ALLOC_H
#define PL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

void *pl_malloc(size_t n_bytes);
void *pl_calloc(size_t count, size_t size); /* zeroed, product checked */
void *pl_realloc(void *p, size_t n_bytes);  /* on failure p stays valid */
void *pl_realloc_array(void *p, size_t count, size_t size);
void *pl_aligned_alloc(size_t alignment, size_t n_bytes); /* free with pl_free */
/* For memory that is read often: large pages from 2 MB on, if the system has any. At least 64-byte
 * aligned. */
void *pl_large_alloc(size_t n_bytes);
/* Whether n_bytes are available; Linux overcommits and kills a process that touches too much. True
 * when the system does not say. Control group limits are ignored. */
bool pl_memory_holds(size_t n_bytes);
char *pl_strdup(const char *s);
char *pl_strndup(const char *s, size_t n); /* copies exactly n bytes and adds a NUL */
void pl_free(void *p);

/* Call it in main, before any thread starts. From then on the heap keeps freed memory instead of
 * returning it to the system. Tensors come and go by the thousand, and fresh pages cost more than
 * small operators. */
void pl_alloc_keep_freed(void);
/* The same for allocations of any size, which a runtime makes for each copy of the weights: the
 * copies come one after the other. */
void pl_alloc_keep_large(void);
/* Returns what is free to the system. */
void pl_alloc_give_back(void);

/* Whether a request of this size may be made at all: for allocators beside this one. */
bool pl_may_allocate(size_t n_bytes);

/* For tests: after `n` more successful allocations in this process every later one fails;
 * a negative n switches the injection off (the default). Thread-safe. */
void pl_alloc_fail_after(long n);
/* The same, but only one allocation fails: the code after it must still notice. */
void pl_alloc_fail_once(long n);

#endif
