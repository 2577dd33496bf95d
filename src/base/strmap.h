/* A hash map from strings to pointers. Open addressing, grows by doubling, insertion order kept
 * (iterate `entries`). Keys are borrowed: they must outlive the map. Not thread-safe. */
#ifndef PL_STRMAP_H
#define PL_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_strmap_entry {
    const char *key; /* n_key bytes; NUL-terminated only if the caller's string was */
    size_t n_key;
    uint64_t hash;
    void *value;
} pl_strmap_entry;

typedef struct pl_strmap {
    pl_strmap_entry *entries; /* in insertion order */
    size_t n_entries;
    size_t entries_capacity;
    uint32_t *slots; /* entry index + 1, 0 = empty */
    size_t n_slots;
} pl_strmap;

#define PL_STRMAP_INIT                                                                             \
    { NULL, 0, 0, NULL, 0 }

void pl_strmap_release(pl_strmap *map);
void *pl_strmap_get(const pl_strmap *map, const char *key); /* NULL when absent */
void *pl_strmap_get_n(const pl_strmap *map, const char *key, size_t n_key);
bool pl_strmap_has(const pl_strmap *map, const char *key);
/* Adds or replaces. Returns 0, or -1 when out of memory (nothing changed). */
int pl_strmap_put(pl_strmap *map, const char *key, void *value);
int pl_strmap_put_n(pl_strmap *map, const char *key, size_t n_key, void *value);

#endif
