/* Products in double with a B of float16, bfloat16 or float32. */
#ifndef PL_GEMM_NARROW_H
#define PL_GEMM_NARROW_H

#include "kernels/gemm/gemm.h"

/* One product, by our own kernels? */
bool pl_gemm_narrow_takes(const pl_gemm_shape *shape, pl_dtype dtype);
/* C = alpha * op(A) * op(B). The bits are those of pl_gemm_f64 with B widened first. */
pl_status pl_gemm_narrow_f64(pl_pool *pool, const pl_gemm_shape *shape, double alpha,
                             const pl_f64 *a, pl_dtype dtype, const void *b, pl_f64 *c,
                             pl_err *err);

#endif
