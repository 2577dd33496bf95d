/* The string map: entries in insertion order, and a table of their indices probed linearly.
 * At most 3/4 of the table is full; the full hash is kept, so that growth does not touch keys and
 * a probe compares bytes only when 64 bits agree. */
#include "base/strmap.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"

enum { SLOTS_MIN = 16 };

void pl_strmap_release(pl_strmap *map) {
    pl_free(map->entries);
    pl_free(map->slots);
    *map = (pl_strmap)PL_STRMAP_INIT;
}

/* The slot that holds the key, or the empty one where it belongs. Needs at least one empty slot. */
static size_t find_slot(const pl_strmap *map, const char *key, size_t n_key, uint64_t hash) {
    const size_t mask = map->n_slots - 1;
    size_t i = (size_t)hash & mask;
    while (map->slots[i] != 0) {
        const pl_strmap_entry *e = &map->entries[map->slots[i] - 1];
        if (e->hash == hash && e->n_key == n_key && (n_key == 0 || memcmp(e->key, key, n_key) == 0))
            break;
        i = (i + 1) & mask;
    }
    return i;
}

static const pl_strmap_entry *find(const pl_strmap *map, const char *key, size_t n_key) {
    if (map->n_entries == 0) return NULL;
    const uint32_t slot = map->slots[find_slot(map, key, n_key, pl_hash_in_memory(key, n_key))];
    return slot == 0 ? NULL : &map->entries[slot - 1];
}

void *pl_strmap_get_n(const pl_strmap *map, const char *key, size_t n_key) {
    const pl_strmap_entry *e = find(map, key, n_key);
    return e == NULL ? NULL : e->value;
}

void *pl_strmap_get(const pl_strmap *map, const char *key) {
    return pl_strmap_get_n(map, key, strlen(key));
}

bool pl_strmap_has(const pl_strmap *map, const char *key) {
    return find(map, key, strlen(key)) != NULL;
}

static int grow_slots(pl_strmap *map) {
    const size_t n_slots = map->n_slots == 0 ? SLOTS_MIN : map->n_slots * 2;
    uint32_t *slots = pl_calloc(n_slots, sizeof *slots);
    if (slots == NULL) return -1;
    for (size_t e = 0; e < map->n_entries; e++) {
        size_t i = (size_t)map->entries[e].hash & (n_slots - 1);
        while (slots[i] != 0)
            i = (i + 1) & (n_slots - 1);
        slots[i] = (uint32_t)(e + 1);
    }
    pl_free(map->slots);
    map->slots = slots;
    map->n_slots = n_slots;
    return 0;
}

/* Makes room for one more entry while leaving an empty slot. */
static int reserve_one(pl_strmap *map) {
    if (map->n_entries >= UINT32_MAX - 1) return -1;
    if (!PL_ARRAY_ROOM(map->entries, map->n_entries, &map->entries_capacity)) return -1;
    if (map->n_entries + 1 > map->n_slots / 4 * 3) return grow_slots(map);
    return 0;
}

int pl_strmap_put_n(pl_strmap *map, const char *key, size_t n_key, void *value) {
    if (reserve_one(map) != 0) return -1;
    const uint64_t hash = pl_hash_in_memory(key, n_key);
    const size_t slot = find_slot(map, key, n_key, hash);
    if (map->slots[slot] != 0) {
        map->entries[map->slots[slot] - 1].value = value;
        return 0;
    }
    map->entries[map->n_entries] = (pl_strmap_entry){ key, n_key, hash, value };
    map->slots[slot] = (uint32_t)++map->n_entries;
    return 0;
}

int pl_strmap_put(pl_strmap *map, const char *key, void *value) {
    return pl_strmap_put_n(map, key, strlen(key), value);
}
