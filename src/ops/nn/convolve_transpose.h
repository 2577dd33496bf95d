/* The window of a transposed convolution, for its kernel, gradient and emission. */
#ifndef PL_CONVOLVE_TRANSPOSE_H
#define PL_CONVOLVE_TRANSPOSE_H

#include "ops/lib/convolve.h"

pl_status pl_conv_transpose_window(const pl_eval *c, const pl_tensor *x, const pl_tensor *w,
                                   pl_window *out);

#endif
