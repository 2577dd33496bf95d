/* Conversion of large tensors on a pool; pl_tensor_cast (tensor.h) is the same on one thread. */
#ifndef PL_TENSOR_CAST_H
#define PL_TENSOR_CAST_H

#include "base/threads.h"
#include "tensor/tensor.h"

/* pool may be NULL. */
pl_status pl_tensor_cast_on(pl_pool *pool, const pl_tensor *t, pl_dtype dtype, pl_tensor **out,
                            pl_err *err);

#endif
