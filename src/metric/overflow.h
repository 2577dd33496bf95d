/* Counts NaN and Inf that come only from the element type. */
#ifndef PL_OVERFLOW_H
#define PL_OVERFLOW_H

#include "tensor/tensor.h"

/* Elements of `a` that are NaN or Inf where `gold`, the same computed in fp64, is finite; with
 * `in_range` only where gold is within the range of a's type, where Inf is wrong. 0 when the
 * tensors cannot be compared. */
int64_t pl_overflow_count(const pl_tensor *a, const pl_tensor *gold, bool in_range);

#endif
