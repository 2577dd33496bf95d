/* Convolution and transposed convolution, one to three spatial dims, NC(D)(H)W in and out, dense.
 *
 * Unused entries of the arrays (index >= n_spatial) are ignored. Output sizes are given by the
 * caller, so every padding rule of ONNX is possible. Cell o of a dim reads input o * stride -
 * pad_begin + tap * dilation. Positions outside [0, in) read as zero, and zero times a weight of
 * Inf or NaN is NaN in every algorithm and provider. pad_begin may be negative. w is (c_out, c_in /
 * groups, kernel…), bias (c_out) or NULL. Results do not depend on the number of threads.
 * Impossible shapes are PL_E_INVALID. */
#ifndef PL_CONV_H
#define PL_CONV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/threads.h"
#include "kernels/gemm/gemm.h"
#include "tensor/dtype.h"

typedef struct pl_conv_shape {
    int n_spatial; /* 1, 2 or 3 */
    int64_t batch, c_in, c_out, groups;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_begin[3];
    const pl_provider *by; /* NULL = the default of the process */
} pl_conv_shape;

/* State that a node keeps between calls: packed weights, library primitives, scratch. It is reused
 * for the same shape, weight pointer and number of threads, otherwise rebuilt; the bytes at w must
 * not change in the meantime. Starts NULL; one call at a time for each state. NULL = no cache. */
typedef struct pl_conv_state pl_conv_state;
void pl_conv_state_free(pl_conv_state *state); /* NULL is fine */
/* Bytes of the packed weights (0 = none). pl_conv_state_move moves them to the caller's memory,
 * which must be 64-byte aligned and outlive the state. */
size_t pl_conv_state_bytes(const pl_conv_state *state);
void pl_conv_state_move(pl_conv_state *state, void *to);
/* Fills the state now instead of at the first convolution. */
pl_status pl_conv_prepare_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *w,
                              pl_conv_state **state, pl_err *err);
pl_status pl_conv_prepare_f64(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *w,
                              pl_conv_state **state, pl_err *err);

pl_status pl_conv_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x, const pl_f32 *w,
                      const pl_f32 *bias, pl_f32 *y, pl_conv_state **state, pl_err *err);
pl_status pl_conv_f64(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *x, const pl_f64 *w,
                      const pl_f64 *bias, pl_f64 *y, pl_conv_state **state, pl_err *err);
/* The same, followed by an epilogue (NULL = none). */
pl_status pl_conv_after_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                            const pl_f32 *w, const pl_f32 *bias, pl_f32 *y, pl_conv_state **state,
                            const pl_epilogue *after, pl_err *err);
pl_status pl_conv_after_f64(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *x,
                            const pl_f64 *w, const pl_f64 *bias, pl_f64 *y, pl_conv_state **state,
                            const pl_epilogue *after, pl_err *err);

/* The same for x times factor, one factor for each channel of each item, applied while x is packed:
 * the same bits as a separate product. Only for shapes that pl_conv_takes_factor_f32 accepts (1x1,
 * own kernels); PL_E_INVALID for others. */
bool pl_conv_takes_factor_f32(const pl_conv_shape *shape);
pl_status pl_conv_factor_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                             const pl_f32 *factor, const pl_f32 *w, const pl_f32 *bias, pl_f32 *y,
                             pl_conv_state **state, const pl_epilogue *after, pl_err *err);
bool pl_conv_takes_factor_f64(const pl_conv_shape *shape);
pl_status pl_conv_factor_f64(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *x,
                             const pl_f64 *factor, const pl_f64 *w, const pl_f64 *bias, pl_f64 *y,
                             pl_conv_state **state, const pl_epilogue *after, pl_err *err);

/* Winograd's F(2x2, 3x3): faster than pl_conv_f32 and rounded differently. Falls back to
 * pl_conv_f32 if x or w contains Inf or NaN, which the transforms would turn into NaN. Needs a
 * state, used for nothing else, and own kernels. */
bool pl_conv_winograd_fits(const pl_conv_shape *shape);
pl_status pl_conv_winograd_prepare_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *w,
                                       pl_conv_state **state, pl_err *err);
pl_status pl_conv_winograd_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                               const pl_f32 *w, const pl_f32 *bias, pl_f32 *y,
                               pl_conv_state **state, const pl_epilogue *after, pl_err *err);

/* Transposed: input cell i adds to output i * stride - pad_begin + tap * dilation. w is (c_in,
 * c_out / groups, kernel…); `in` and `out` are the sizes of this operator's x and y. */
pl_status pl_conv_transpose_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                                const pl_f32 *w, const pl_f32 *bias, pl_f32 *y, pl_err *err);
pl_status pl_conv_transpose_f64(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *x,
                                const pl_f64 *w, const pl_f64 *bias, pl_f64 *y, pl_err *err);

/* Integers: y(i32) = sum of (x - x_zero) * (w - w_zero), wrapping modulo 2^32. Padding reads as
 * x_zero and so adds nothing (ONNX ConvInteger-10). w_zero: step 1 = one for each output
 * channel. */
pl_status pl_conv_i8(pl_pool *pool, const pl_conv_shape *shape, const void *x, bool x_signed,
                     int32_t x_zero, const void *w, bool w_signed, pl_gemm_i8_zero w_zero,
                     pl_i32 *y, pl_err *err);

/* The plain versions: direct loops over output, then input channel, then taps in memory order; one
 * accumulator of the element type; the bias is added last. */
pl_status pl_conv_plain_f32(const pl_conv_shape *shape, const pl_f32 *x, const pl_f32 *w,
                            const pl_f32 *bias, pl_f32 *y, pl_err *err);
/* The same bits, but fast: vectorised over outputs, channels in parallel. */
pl_status pl_conv_long_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                           const pl_f32 *w, const pl_f32 *bias, pl_f32 *y, pl_err *err);
pl_status pl_conv_plain_f64(const pl_conv_shape *shape, const pl_f64 *x, const pl_f64 *w,
                            const pl_f64 *bias, pl_f64 *y, pl_err *err);
pl_status pl_conv_transpose_plain_f32(const pl_conv_shape *shape, const pl_f32 *x, const pl_f32 *w,
                                      const pl_f32 *bias, pl_f32 *y, pl_err *err);
pl_status pl_conv_transpose_plain_f64(const pl_conv_shape *shape, const pl_f64 *x, const pl_f64 *w,
                                      const pl_f64 *bias, pl_f64 *y, pl_err *err);
pl_status pl_conv_plain_i8(const pl_conv_shape *shape, const void *x, bool x_signed, int32_t x_zero,
                           const void *w, bool w_signed, pl_gemm_i8_zero w_zero, pl_i32 *y,
                           pl_err *err);

#endif
