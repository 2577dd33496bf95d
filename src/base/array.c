/* Growth by doubling. */
#include "base/array.h"

#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

enum { FIRST_BYTES = 128, FIRST_MIN = 4 };

static bool next_capacity(size_t capacity, size_t size, size_t *out) {
    if (capacity > 0) return pl_size_mul(capacity, 2, out);
    *out = FIRST_BYTES / size > FIRST_MIN ? FIRST_BYTES / size : FIRST_MIN;
    return true;
}

bool pl_array_grow(void *items, size_t *capacity, size_t size) {
    return pl_array_grow_to(items, *capacity + 1, capacity, size);
}

bool pl_array_grow_to(void *items, size_t need, size_t *capacity, size_t size) {
    void *old;
    size_t wanted = *capacity;
    memcpy(&old, items, sizeof old); /* the address of a T *, whatever T is */
    while (wanted < need)
        if (!next_capacity(wanted, size, &wanted)) return false;
    void *grown = pl_realloc_array(old, wanted, size);
    if (grown == NULL) return false;
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

bool pl_arena_grow(pl_arena *arena, void *items, size_t n, size_t *capacity, size_t size) {
    void *old;
    size_t wanted = 0;
    memcpy(&old, items, sizeof old);
    if (!next_capacity(*capacity, size, &wanted)) return false;
    void *grown = pl_arena_array(arena, wanted, size);
    if (grown == NULL) return false;
    if (n > 0) memcpy(grown, old, n * size);
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}
