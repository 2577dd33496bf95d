/* What the kernels, bounds, gradients and emissions of normalisations share. */
#ifndef PL_NORM_INT_H
#define PL_NORM_INT_H

#include "ops/op.h"

bool pl_batch_norm_is_training(const pl_node *node);
bool pl_batch_norm_is_spatial(const pl_node *node); /* else a statistic for each element */
/* Axes of MeanVarianceNormalization as a bit set. */
uint32_t pl_mvn_axes(const pl_node *node, int rank);

#endif
