/* Tensors for the page: pictures of a slice, and statistics of the whole.
 *
 * A picture is at most PL_PICTURE_MAX cells on a side; a larger slice is reduced (mean, largest
 * magnitude, or one element of each cell), a smaller one is exact. Work is bounded: beyond
 * PL_SCAN_MAX elements a regular sample is read, and the answer says so. */
#ifndef PL_SLICE_H
#define PL_SLICE_H

#include "base/buf.h"
#include "report/viewed.h"

enum { PL_PICTURE_MAX = 512, PL_SCAN_MAX = 1 << 24 };

typedef enum pl_reduce_mode { PL_REDUCE_MAX, PL_REDUCE_MEAN, PL_REDUCE_SAMPLE } pl_reduce_mode;
bool pl_reduce_mode_parse(const char *name, pl_reduce_mode *out); /* "max", "mean", "sample" */

typedef struct pl_slice {
    int row_axis, col_axis;     /* -1 = there is none (rank 0 or 1) */
    int64_t index[PL_RANK_MAX]; /* of the other axes */
    int64_t row, col;           /* first element of the window */
    int64_t n_rows, n_cols;     /* 0 = to the end */
    int64_t max_rows, max_cols; /* of the picture */
    pl_reduce_mode mode;
} pl_slice;

/* The last two axes that are longer than one, at the element `flat` (counted in C order). */
void pl_slice_default(const pl_tensor *t, int64_t flat, pl_slice *out);
/* a - b at element i as in the comparison: NaN on both sides and equal infinities do not differ,
 * and integers are subtracted before they are rounded to a double. */
double pl_view_difference(const pl_tensor *a, const pl_tensor *b, int64_t i);
/* The 64-bit integer type if all tensors have it, else PL_UNDEFINED. */
pl_dtype pl_view_whole(const pl_tensor *a, const pl_tensor *b);

/* A picture: "PLSL", a little-endian 32-bit length, so many bytes of JSON (padded to eight with
 * spaces), then for each side that the JSON names ("a", "b", "d") its cells, row by row, as
 * little-endian floats where those hold the tensors' values, else doubles, or as they are where an
 * exact picture shows 64-bit integers. An exact picture has no "d": the reader subtracts.
 * PL_E_INVALID when the slice lies outside. */
pl_status pl_slice_put(const pl_view_pair *pair, const pl_slice *slice, pl_buf *out, pl_err *err);

/* Histograms, quantiles, worst elements, channels, a sample of pairs; as JSON. Of more than four
 * million elements only blocks are read; `worst` (-1 = not known) is always included. */
pl_status pl_figures_put(const pl_view_pair *pair, int64_t worst, pl_buf *out, pl_err *err);

#endif
