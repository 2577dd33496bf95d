/* Matrix products with NumPy's rules: operands of one dim, broadcast batches, transposed views. */
#ifndef PL_MATMUL_H
#define PL_MATMUL_H

#include "kernels/gemm/gemm.h"
#include "ops/bound.h"
#include "ops/infer.h"

/* trans: the last two dims are swapped. trans_batch (com.microsoft FusedMatMul): before that, dim 0
 * moves to just before the last dim. Neither applies to an operand with too few dims. */
typedef struct pl_matmul_options {
    bool trans_a, trans_b, trans_batch_a, trans_batch_b;
} pl_matmul_options;

/* Shape rule: sets output 0 from inputs a and b. */
pl_status pl_matmul_infer(pl_infer *c, int a, int b, pl_matmul_options options, pl_dtype dtype);

typedef struct pl_matmul {
    int64_t batch, m, n, k; /* of the operator */
    int n_batch_dims;
    int64_t batch_dims[PL_RANK_MAX];
    pl_gemm_shape gemm; /* for the kernel; batches may be merged into m */
} pl_matmul;

/* Plans the call of the kernel. Offsets are in scratch. The shape rule has checked the shapes. */
pl_status pl_matmul_plan(pl_eval *c, const pl_tensor *a, const pl_tensor *b,
                         pl_matmul_options options, pl_matmul *p);

/* y = alpha * a * b for float types (low precision through f32) and integers (wrapping). Constant
 * input i_b keeps its packed form in the node's state. */
pl_status pl_matmul_eval(pl_eval *c, int i_a, int i_b, pl_matmul_options options, double alpha);
/* Integer product into `out` (batch * m * n), modulo 2^64. */
pl_status pl_matmul_ints(pl_eval *c, const pl_matmul *p, const pl_tensor *a, const pl_tensor *b,
                         uint64_t *out);

#endif
