/* Normalisations in gradient rules, built as forward nodes with the builder of grad.h. */
#ifndef PL_GRAD_NORM_H
#define PL_GRAD_NORM_H

#include "ops/lib/grad_nn.h"

typedef struct pl_g_normed {
    pl_value *y, *mean, *inverse; /* mean NULL for rms */
} pl_g_normed;

/* (x - mean) / sqrt(var + epsilon) over the axes. The statistics are at least in float, as in the
 * kernels: squares of 256 and more overflow float16, and epsilon may underflow it. */
pl_g_normed pl_g_normalise(pl_grad *c, pl_value *x, const int64_t *axes, size_t n, double epsilon,
                           bool rms);
/* x * scale + bias; either may be NULL. */
pl_value *pl_g_scale_shift(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias);
/* The input among the first n with the widest type: parameters may be wider than x. */
const pl_value *pl_g_widest(const pl_grad *c, uint32_t n);
/* x cast to the type of output i, which may be wider than x; NULL when that output has no
 * gradient. */
pl_value *pl_g_as_output(pl_grad *c, pl_value *x, uint32_t i);
/* Normalises x (N, C, …) in groups of channels; one scale per channel or per group. */
pl_value *pl_g_group_norm(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias, int64_t groups,
                          bool per_group);

#endif
