/* Shared by the kernels, bounds, gradients and emissions of normalisations. */
#ifndef PL_NORM_INT_H
#define PL_NORM_INT_H

#include "ops/op.h"

bool pl_batch_norm_is_training(const pl_node *node);
bool pl_batch_norm_is_spatial(const pl_node *node); /* false: a statistic for each element */
/* Axes of MeanVarianceNormalization as a bit set. */
uint32_t pl_mvn_axes(const pl_node *node, int rank);

#endif
