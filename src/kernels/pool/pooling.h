/* Max and average pooling over one to three spatial dims, NC(D)(H)W in and out, dense.
 *
 * Cell o of a dim reads inputs o * stride - pad_begin + tap * dilation. The caller sets the sizes,
 * so ceil_mode and auto_pad are possible. Max: cells outside the input are skipped; NaN wins; ties
 * give the first index; a window with no cell gives the type's lowest value (-inf) and index -1.
 * Average: sums are in f64; a window without cells gives NaN (0/0). */
#ifndef PL_POOLING_H
#define PL_POOLING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/threads.h"
#include "tensor/dtype.h"

typedef struct pl_pooling_shape {
    int n_spatial;  /* 1, 2 or 3 */
    int64_t planes; /* batch * channels */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad_begin[3];
    int64_t pad_end[3]; /* average with count_include_pad only: cells in [in, in + pad_end) count */
} pl_pooling_shape;

/* indices may be NULL; else the flat position in x of each maximum (ONNX MaxPool-12), with
 * `column_major` the spatial part counted with the first spatial dim fastest (storage_order 1). */
pl_status pl_max_pool_f32(pl_pool *pool, const pl_pooling_shape *shape, const pl_f32 *x, pl_f32 *y,
                          pl_i64 *indices, bool column_major, pl_err *err);
pl_status pl_max_pool_f64(pl_pool *pool, const pl_pooling_shape *shape, const pl_f64 *x, pl_f64 *y,
                          pl_i64 *indices, bool column_major, pl_err *err);
pl_status pl_max_pool_i8(pl_pool *pool, const pl_pooling_shape *shape, const pl_i8 *x, pl_i8 *y,
                         pl_i64 *indices, bool column_major, pl_err *err);
pl_status pl_max_pool_u8(pl_pool *pool, const pl_pooling_shape *shape, const pl_u8 *x, pl_u8 *y,
                         pl_i64 *indices, bool column_major, pl_err *err);

/* count_include_pad: the divisor counts the padding cells too (never those beyond pad_end). */
pl_status pl_average_pool_f32(pl_pool *pool, const pl_pooling_shape *shape, const pl_f32 *x,
                              pl_f32 *y, bool count_include_pad, pl_err *err);
pl_status pl_average_pool_f64(pl_pool *pool, const pl_pooling_shape *shape, const pl_f64 *x,
                              pl_f64 *y, bool count_include_pad, pl_err *err);

#endif
