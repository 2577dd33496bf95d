/* Counter-based random numbers: integer mixing only, hence the same on every machine.
 *
 * mix() is the finaliser of SplitMix64 (Steele, Lea, Flood 2014, variant 13 of Stafford). Seed and
 * stream are each mixed in before the index, so that neighbouring seeds, streams and indices give
 * unrelated words. */
#include "base/rng.h"

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15) /* 2^64 / golden ratio */
#define NORMAL_DOMAIN UINT64_C(0x6E6F726D616C2131)

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t pl_rng_at(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t key = mix(seed + GOLDEN);
    key = mix((key ^ stream) + GOLDEN);
    return mix(mix((key ^ index) + GOLDEN) + key);
}

double pl_rng_uniform_at(uint64_t seed, uint64_t stream, uint64_t index) {
    return (double)(pl_rng_at(seed, stream, index) >> 11) * 0x1p-53;
}

/* The sum of twelve uniform integers of 32 bits. Its mean is 6 * (2^32 - 1), an integer, and its
 * variance 2^64 - 1; so the centred sum over 2^32 has mean 0 and variance 1 - 2^-64. It has at most
 * 36 significant bits: the division is exact. Range (-6, 6), excess kurtosis -0.1.
 * 32 bits and not 16, because values with short significands make float sums and products exact
 * and so hide the very errors that plumb looks for. */
double pl_rng_normal_at(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t word = pl_rng_at(seed ^ NORMAL_DOMAIN, stream, index);
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        word += GOLDEN;
        const uint64_t bits = mix(word);
        sum += (int64_t)(bits & UINT32_MAX) + (int64_t)(bits >> 32);
    }
    return (double)(sum - 6 * (int64_t)UINT32_MAX) * 0x1p-32;
}
