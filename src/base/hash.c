/* XXH3, inlined from the header of libxxhash: no library at link time. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/types.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/clock.h"

uint64_t pl_hash64(const void *data, size_t n_bytes) {
    return XXH3_64bits(data, n_bytes);
}

/* Created on first use; 0 = not yet. Concurrent threads agree on one. */
static uint64_t process_seed(void) {
    static _Atomic(uint64_t) seed;
    uint64_t now = atomic_load_explicit(&seed, memory_order_relaxed);
    if (now != 0) return now;
    uint64_t made = 0, unset = 0;
    if (getrandom(&made, sizeof made, GRND_NONBLOCK) != (ssize_t)sizeof made) {
        made = (uint64_t)(uintptr_t)&unset ^ (uint64_t)pl_clock_ns(); /* no entropy yet */
    }
    if (made == 0) made = 1;
    return atomic_compare_exchange_strong(&seed, &unset, made) ? made : unset;
}

uint64_t pl_hash_in_memory(const void *data, size_t n_bytes) {
    return XXH3_64bits_withSeed(data, n_bytes, process_seed());
}

static pl_hash128 hash128_from(XXH128_hash_t h) {
    return (pl_hash128){ .low = h.low64, .high = h.high64 };
}

pl_hash128 pl_hash128_of(const void *data, size_t n_bytes) {
    return hash128_from(XXH3_128bits(data, n_bytes));
}

/* Most significant digit first, as xxh128sum prints it. */
void pl_hash128_hex(pl_hash128 hash, char out[PL_HASH128_HEX]) {
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        out[i] = digits[(hash.high >> (60 - 4 * i)) & 15];
        out[16 + i] = digits[(hash.low >> (60 - 4 * i)) & 15];
    }
    out[32] = '\0';
}

struct pl_hasher {
    XXH3_state_t state;
};

pl_hasher *pl_hasher_new(void) {
    pl_hasher *hasher = pl_aligned_alloc(_Alignof(pl_hasher), sizeof *hasher);
    if (hasher == NULL) return NULL;
    XXH3_INITSTATE(&hasher->state);
    XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void pl_hasher_update(pl_hasher *hasher, const void *data, size_t n_bytes) {
    if (n_bytes > 0) XXH3_128bits_update(&hasher->state, data, n_bytes);
}

pl_hash128 pl_hasher_digest(const pl_hasher *hasher) {
    return hash128_from(XXH3_128bits_digest(&hasher->state));
}

void pl_hasher_free(pl_hasher *hasher) {
    pl_free(hasher);
}
