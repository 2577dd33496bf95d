/* Which kernels serve: for reports, and a switch for doubt.
 *
 * No kernel library is used. Measured (README.md), the own products and convolutions are as fast as
 * OpenBLAS and, called eagerly with NCHW in and out, as oneDNN; and they give the same bits for any
 * number of threads and with any cache, which the libraries do not promise.
 *
 * PLUMB_KERNELS=plain in the environment makes every product, convolution and transposed
 * convolution run the plain loops instead: slow, for finding out whether a fast kernel is to blame.
 * Read once. */
#ifndef PL_LIBS_H
#define PL_LIBS_H

#include <stdbool.h>
#include <stddef.h>

bool pl_libs_plain(void);

/* One line: "own kernels, avx512, AMD EPYC". Returns the length that it wants (as snprintf). */
size_t pl_libs_describe(char *out, size_t n_bytes);

#endif
