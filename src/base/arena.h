/* An arena: many small objects that die together (a graph, a run's scratch).
 *
 * Not thread-safe; one owner. Memory is zeroed, aligned to 16, stable until reset or release.
 * Objects that hold references register a cleanup, run in reverse order. */
#ifndef PL_ARENA_H
#define PL_ARENA_H

#include <stddef.h>

typedef struct pl_arena pl_arena;

pl_arena *pl_arena_new(void);         /* NULL when out of memory */
void pl_arena_free(pl_arena *arena);  /* runs cleanups; NULL is fine */
void pl_arena_reset(pl_arena *arena); /* runs cleanups, keeps the largest block for reuse */

/* NULL when out of memory or when the product overflows. A zero size gives a valid pointer. */
void *pl_arena_alloc(pl_arena *arena, size_t n_bytes);
void *pl_arena_array(pl_arena *arena, size_t count, size_t size);
/* The same, but the memory is not zeroed when it is large: for what is written throughout. */
void *pl_arena_raw(pl_arena *arena, size_t count, size_t size);
char *pl_arena_strdup(pl_arena *arena, const char *s);
char *pl_arena_strndup(pl_arena *arena, const char *s, size_t n);
char *pl_arena_printf(pl_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Calls fn(object) when the arena is reset or freed. Returns 0, or -1 when out of memory (fn is
 * then not registered and the caller still owns the object). */
int pl_arena_defer(pl_arena *arena, void (*fn)(void *), void *object);

size_t pl_arena_bytes(const pl_arena *arena); /* bytes held from the heap, for reports and tests */

#endif
