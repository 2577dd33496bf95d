/* What Resize and Upsample do along each axis: sizes, coordinates, weights. */
#ifndef PL_RESIZE_H
#define PL_RESIZE_H

#include "graph/graph.h"
#include "ops/eval.h"

typedef enum pl_resize_mode {
    PL_RESIZE_NEAREST = 0,
    PL_RESIZE_LINEAR,
    PL_RESIZE_CUBIC
} pl_resize_mode;

typedef enum pl_resize_coordinates {
    PL_RESIZE_HALF_PIXEL = 0,
    PL_RESIZE_HALF_PIXEL_SYMMETRIC,
    PL_RESIZE_PYTORCH_HALF_PIXEL,
    PL_RESIZE_ALIGN_CORNERS,
    PL_RESIZE_ASYMMETRIC,
    PL_RESIZE_CROP,             /* tf_crop_and_resize */
    PL_RESIZE_HALF_PIXEL_FOR_NN /* tf_half_pixel_for_nn: Resize-11 */
} pl_resize_coordinates;

typedef enum pl_resize_nearest {
    PL_RESIZE_ROUND_PREFER_FLOOR = 0,
    PL_RESIZE_ROUND_PREFER_CEIL,
    PL_RESIZE_FLOOR,
    PL_RESIZE_CEIL,
    PL_RESIZE_SIMPLE /* before Resize-11: down for larger, up for smaller outputs */
} pl_resize_nearest;

typedef struct pl_resize { /* the attributes */
    pl_resize_mode mode;
    pl_resize_coordinates coordinates;
    pl_resize_nearest nearest;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
    char policy; /* 's'tretch, 'l': not_larger, 'm': not_smaller */
    int n_axes;
    int axes[PL_RANK_MAX]; /* the axis that element k of sizes, scales and roi refers to */
} pl_resize;

typedef struct pl_resize_axis {
    int64_t n_in, n_out;
    double scale;      /* as given, or n_out / n_in */
    double start, end; /* of the region of interest, in units of the axis */
} pl_resize_axis;

/* Each returns NULL, or what is wrong. */
const char *pl_resize_read(const pl_node *node, int rank, pl_resize *out);
/* Scales (input or attribute) and sizes, whichever is not NULL; n_in is set already. */
const char *pl_resize_by_scales(const pl_resize *r, const double *scales, size_t n,
                                pl_resize_axis *axes);
const char *pl_resize_by_sizes(const pl_resize *r, const int64_t *sizes, size_t n,
                               pl_resize_axis *axes);
const char *pl_resize_set_roi(const pl_resize *r, const pl_tensor *roi, int rank,
                              pl_resize_axis *axes);

/* Output j of an axis is the sum over t of w[j * n + t] * input[at[j * n + t]]; every `at` is in
 * range. */
typedef struct pl_taps {
    int n;
    int64_t *at;
    double *w;     /* NULL: nearest */
    bool *outside; /* per output: takes the extrapolation value; NULL = none */
    bool identity; /* output j is input j */
} pl_taps;
/* False when out of memory. */
bool pl_resize_taps(pl_eval *c, const pl_resize *r, const pl_resize_axis *a, pl_taps *out);

#endif
