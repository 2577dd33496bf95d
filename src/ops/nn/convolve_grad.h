/* Windows in gradients, for convolutions and pools. */
#ifndef PL_CONVOLVE_GRAD_H
#define PL_CONVOLVE_GRAD_H

#include "ops/grad.h"
#include "ops/lib/window.h"

/* The window of the node over x with this kernel. Sizes must be known, but along axes that are read
 * in steps of 1: there the rest does not depend on them, and any size stands for all. */
bool pl_g_window(pl_grad *c, const pl_value *x, const pl_value *w, pl_window *win);
/* Elements from the first tap to the last along axis d. */
int64_t pl_g_window_span(const pl_window *w, int d);
/* Sums what windows read back to where they read it from: dy (N, G.., out…) through weights. */
pl_value *pl_g_conv_back(pl_grad *c, pl_value *dy, pl_value *w, const pl_window *win,
                         int64_t groups);

#endif
