/* Random numbers that depend only on (seed, stream, index): never on names, libm, threads or the
 * machine. Used for generated inputs and for the random operators. */
#ifndef PL_RNG_H
#define PL_RNG_H

#include <stdint.h>

/* A well mixed 64-bit word for one position. */
uint64_t pl_rng_at(uint64_t seed, uint64_t stream, uint64_t index);
/* In [0, 1), 53 bits. */
double pl_rng_uniform_at(uint64_t seed, uint64_t stream, uint64_t index);
/* Near N(0,1), by summing integers only: exact, the same on every machine. */
double pl_rng_normal_at(uint64_t seed, uint64_t stream, uint64_t index);

#endif
