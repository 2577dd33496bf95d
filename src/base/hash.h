/* XXH3 hashes: fast content names, not cryptography. */
#ifndef PL_HASH_H
#define PL_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pl_hash128 {
    uint64_t low, high;
} pl_hash128;

static inline bool pl_hash128_equal(pl_hash128 a, pl_hash128 b) {
    return a.low == b.low && a.high == b.high;
}

enum { PL_HASH128_HEX = 33 }; /* 32 digits and the NUL */

uint64_t pl_hash64(const void *data, size_t n_bytes);
/* For maps in memory only; never store or compare it. Seeded at random once per process, so that
 * nobody can choose names that collide. */
uint64_t pl_hash_in_memory(const void *data, size_t n_bytes);
pl_hash128 pl_hash128_of(const void *data, size_t n_bytes);
void pl_hash128_hex(pl_hash128 hash, char out[PL_HASH128_HEX]);

/* Streaming form. */
typedef struct pl_hasher pl_hasher;
pl_hasher *pl_hasher_new(void); /* NULL when out of memory */
void pl_hasher_update(pl_hasher *hasher, const void *data, size_t n_bytes);
pl_hash128 pl_hasher_digest(const pl_hasher *hasher);
void pl_hasher_free(pl_hasher *hasher);

#endif
