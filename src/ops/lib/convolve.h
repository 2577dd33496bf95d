/* Convolutions: windows and shapes shared by Conv, ConvTranspose, ConvInteger, QLinearConv and
 * FusedConv. */
#ifndef PL_CONVOLVE_H
#define PL_CONVOLVE_H

#include "kernels/conv/conv.h"
#include "ops/bound.h"
#include "ops/emit.h"
#include "ops/infer.h"
#include "ops/lib/window.h"

/* Output 0 of a convolution of input x with weights w: dtype and shape. */
pl_status pl_conv_infer_shape(pl_infer *c, int x, int w, pl_dtype dtype);
/* Bias input i must have one value for each output channel. */
pl_status pl_conv_check_bias(const pl_infer *c, int i, pl_dim channels);

/* Places the windows over a real tensor x. */
pl_status pl_conv_window(const pl_eval *c, const pl_tensor *x, const pl_tensor *w, pl_window *out);
/* For the kernels; 1 to 3 spatial dims. */
pl_conv_shape pl_conv_shape_of(const pl_eval *c, const pl_window *win, const pl_tensor *x,
                               int64_t c_out, int64_t groups);

/* Any number of spatial dims, direct loops in double; bias may be NULL. Zero points are already
 * subtracted from x and w. pl_eval.otherwise skips padding instead of reading zeros. */
pl_status pl_conv_any(pl_eval *c, const pl_window *win, const pl_tensor *xt, int64_t c_out,
                      int64_t groups, const pl_f64 *x, const pl_f64 *w, const pl_f64 *bias,
                      pl_f64 *y);
pl_status pl_conv_transpose_any(pl_eval *c, const pl_window *win, const pl_tensor *xt,
                                int64_t c_out, int64_t groups, const pl_f64 *x, const pl_f64 *w,
                                const pl_f64 *bias, pl_f64 *y);

/* For emission: the window of a convolution of input 0 with weights in input w. Returns NULL, or
 * what is wrong. */
const char *pl_emit_conv_shape(pl_emit *c, int w, pl_conv_shape *out);

#endif
