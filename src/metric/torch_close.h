/* torch.allclose and RMSE of two tensors, with PyTorch's broadcasting and arithmetic. */
#ifndef PL_TORCH_CLOSE_H
#define PL_TORCH_CLOSE_H

#include "tensor/tensor.h"

/* False when the shapes cannot be broadcast together. */
bool pl_torch_broadcasts(const pl_tensor *a, const pl_tensor *b);

/* All of: a == b, or equal_nan and both NaN, or |a - b| finite and <= tol + |tol * b|; each step is
 * rounded to the type, as PyTorch's kernels do, and integers go through f32. Same type, shapes that
 * broadcast, any strides. */
pl_status pl_torch_allclose(const pl_tensor *a, const pl_tensor *b, double tol, bool equal_nan,
                            bool *out, pl_err *err);
/* sqrt(mean((x - y)^2)) in double over the broadcast elements; NaN when there is none. */
pl_status pl_torch_rmse(const pl_tensor *x, const pl_tensor *y, double *out, pl_err *err);
/* Cosine of the angle between two tensors of the same number of elements, norms at least 1e-6. */
pl_status pl_torch_cosine(const pl_tensor *x, const pl_tensor *y, double *out, pl_err *err);
pl_status pl_torch_has_nan(const pl_tensor *x, bool *out, pl_err *err);

#endif
