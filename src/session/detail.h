/* Measured for a pair only on request: quantiles of the error, agreement of argmax and top k, the
 * worst channels. */
#ifndef PL_DETAIL_H
#define PL_DETAIL_H

#include "base/arena.h"
#include "base/json.h"
#include "base/threads.h"
#include "tensor/tensor.h"

enum { PL_DETAIL_QUANTILES = 4, PL_DETAIL_CHANNELS = 8, PL_DETAIL_TOP = 5 };

typedef struct pl_detail_channel {
    int64_t index;
    double psnr, max_abs;
} pl_detail_channel;

typedef struct pl_detail {
    double abs_quantiles[PL_DETAIL_QUANTILES], rel_quantiles[PL_DETAIL_QUANTILES];
    double argmax, topk; /* share of rows along the last axis; NAN for scalars */
    int channel_axis;    /* -1 = it has none */
    size_t n_channels;
    pl_detail_channel channels[PL_DETAIL_CHANNELS]; /* those that differ, worst first */
} pl_detail;
extern const double pl_detail_quantiles[PL_DETAIL_QUANTILES]; /* 0.5, 0.9, 0.99, 0.999 */

/* Same shape. *out is NULL for types without an order (text, complex numbers) and empty tensors.
 * Allocated in the arena, which only the calling thread may use. Needs memory for several doubles
 * per element. */
pl_status pl_detail_find(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, pl_arena *arena,
                         const pl_detail **out, pl_err *err);
void pl_detail_put_json(pl_json *json, const pl_detail *detail);
void pl_detail_put_text(pl_buf *out, const pl_detail *detail); /* indented lines */

#endif
