/* Windows in gradients, for convolutions and pools. */
#ifndef PL_CONVOLVE_GRAD_H
#define PL_CONVOLVE_GRAD_H

#include "ops/grad.h"
#include "ops/lib/window.h"

/* The window of the node over x with this kernel. Sizes must be known, except along axes with
 * stride 1: there the result is the same for any size. */
bool pl_g_window(pl_grad *c, const pl_value *x, const pl_value *w, pl_window *win);
/* Elements from the first tap to the last along axis d. */
int64_t pl_g_window_span(const pl_window *w, int d);
/* Adds dy (N, G.., out…), times the weights, back to the elements that the windows read. */
pl_value *pl_g_conv_back(pl_grad *c, pl_value *dy, pl_value *w, const pl_window *win,
                         int64_t groups);

#endif
