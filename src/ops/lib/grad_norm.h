/* Normalisations in gradients: written forward with the builder of grad.h. */
#ifndef PL_GRAD_NORM_H
#define PL_GRAD_NORM_H

#include "ops/lib/grad_nn.h"

typedef struct pl_g_normed {
    pl_value *y, *mean, *inverse; /* mean NULL for rms */
} pl_g_normed;

/* (x - mean) / sqrt(var + epsilon) over the axes. The statistics are in float at least, as in the
 * kernels: squares overflow float16 from 256 on, and epsilon may be too small for it. */
pl_g_normed pl_g_normalise(pl_grad *c, pl_value *x, const int64_t *axes, size_t n, double epsilon,
                           bool rms);
/* x * scale + bias; either may be NULL. */
pl_value *pl_g_scale_shift(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias);
/* The one of the first n inputs whose type is widest: parameters may be wider than what they scale.
 */
const pl_value *pl_g_widest(const pl_grad *c, uint32_t n);
/* x in the type of output i (that of the statistics may be wider than that of x); NULL when that
 * output has no gradient. */
pl_value *pl_g_as_output(pl_grad *c, pl_value *x, uint32_t i);
/* x (N, C, …) in groups of channels; scales one for each channel, or for each group. */
pl_value *pl_g_group_norm(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias, int64_t groups,
                          bool per_group);

#endif
