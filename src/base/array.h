/* Growable arrays: the one way to make room for one more element.
 *
 *     if (!PL_ARRAY_ROOM(s->items, s->n, &s->capacity)) return pl_fail_memory(err, s->n);
 *     s->items[s->n++] = item;
 *
 * `items` is an lvalue of any pointer type, all zero at first; pl_free it. Capacities double.
 * False: out of memory, nothing changed. In an arena the old half is left behind, which costs at
 * most as much again and keeps every pointer valid. */
#ifndef PL_ARRAY_H
#define PL_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

#define PL_ARRAY_ROOM(items, n, capacity)                                                          \
    ((n) < *(capacity) || pl_array_grow(&(items), capacity, sizeof *(items)))
#define PL_ARENA_ROOM(arena, items, n, capacity)                                                   \
    ((n) < *(capacity) || pl_arena_grow(arena, &(items), n, capacity, sizeof *(items)))

/* The same for `need` elements in total. */
#define PL_ARRAY_ROOM_FOR(items, need, capacity)                                                   \
    ((need) <= *(capacity) || pl_array_grow_to(&(items), need, capacity, sizeof *(items)))

/* `items` is the address of a pointer to elements of `size` bytes. */
bool pl_array_grow(void *items, size_t *capacity, size_t size);
bool pl_array_grow_to(void *items, size_t need, size_t *capacity, size_t size);
bool pl_arena_grow(pl_arena *arena, void *items, size_t n, size_t *capacity, size_t size);

#endif
