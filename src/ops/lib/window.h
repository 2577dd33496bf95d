/* Sliding windows: the attributes that convolutions and pools share, read and checked once.
 *
 * kernel_shape, strides, dilations, pads and auto_pad as in ONNX Conv-22 and MaxPool-22. The shape
 * rule and the kernel read the same structure, so they cannot disagree about the padding. */
#ifndef PL_WINDOW_H
#define PL_WINDOW_H

#include "ops/eval.h"
#include "ops/infer.h"

typedef enum pl_auto_pad {
    PL_PAD_NOTSET = 0,
    PL_PAD_VALID,
    PL_PAD_SAME_UPPER,
    PL_PAD_SAME_LOWER
} pl_auto_pad;

typedef struct pl_window {
    int n; /* spatial dims */
    pl_auto_pad auto_pad;
    bool ceil_mode;
    bool has_kernel; /* kernel[] is filled */
    int64_t kernel[PL_RANK_MAX], stride[PL_RANK_MAX], dilation[PL_RANK_MAX];
    int64_t pad_begin[PL_RANK_MAX], pad_end[PL_RANK_MAX]; /* auto_pad: by pl_window_place */
    int64_t in[PL_RANK_MAX], out[PL_RANK_MAX];            /* set by pl_window_place */
} pl_window;

/* Reads the attributes of a node for n spatial dims; missing attributes have their defaults. Lists
 * of the wrong length and values out of range are errors. */
pl_status pl_window_read(const pl_node *node, int n, pl_window *w, pl_err *err);

/* Fills in, out, pad_begin and pad_end of dim d for an input of this size. */
pl_status pl_window_place(const pl_node *node, pl_window *w, int d, int64_t in, pl_err *err);
/* The same for a dim that may be unknown; symbols are kept when the size does not change. */
pl_status pl_window_dim(const pl_node *node, pl_window *w, int d, pl_dim in, pl_dim *out,
                        pl_err *err);
/* All dims, from a tensor (N, C, spatial…). */
pl_status pl_window_of(const pl_eval *c, const pl_tensor *x, pl_window *w);

/* Number of taps and of output cells. Cannot overflow: the tensors of these sizes exist. */
int64_t pl_window_taps(const pl_window *w);
int64_t pl_window_cells(const pl_window *w);

/* The taps of output cell `cell` of dim d that lie in [lo, hi): `*first` to below `*last`. Kernels
 * may be far larger than the input (padding, SAME), so loops run over these, not over all taps. */
void pl_window_taps_in(const pl_window *w, int d, int64_t cell, int64_t lo, int64_t hi,
                       int64_t *first, int64_t *last);
/* Position in the input plane of tap `tap` of output cell `cell`; false = outside the input. */
bool pl_window_at(const pl_window *w, const int64_t *cell, const int64_t *tap, int64_t *offset);
/* Increments a multi-dimensional index, the last dim fastest; false after the last. */
bool pl_window_next(int n, const int64_t *dims, int64_t *index);

/* Rank at least 3 (N, C, one spatial dim or more) for input i, when known. */
pl_status pl_window_rank(const pl_infer *c, int i, int *n_spatial);

#endif
