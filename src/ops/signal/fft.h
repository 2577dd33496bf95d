/* The discrete Fourier transform of any length, in double.
 *
 * y[k] = sum over j of x[j] * exp(-2 pi i j k / n); the inverse has +i and is not scaled. Lengths
 * with small prime factors use mixed radix, others Bluestein's convolution: O(n log n) for every n.
 * A plan is read-only once made, so threads may share it; each needs its own work space. */
#ifndef PL_FFT_H
#define PL_FFT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

typedef struct pl_cplx {
    double re, im;
} pl_cplx;

typedef struct pl_fft pl_fft;

/* n >= 1. The plan is allocated in the arena; NULL when out of memory. */
const pl_fft *pl_fft_plan(pl_arena *arena, size_t n);
/* Elements (pl_cplx) of work space for a run. */
size_t pl_fft_work(const pl_fft *plan);
/* x (n elements) is overwritten by its transform. */
void pl_fft_run(const pl_fft *plan, bool inverse, pl_cplx *x, pl_cplx *work);

#endif
