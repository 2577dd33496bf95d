/* Matrix products with NumPy's rules: operands of one dim, broadcast batches, transposed views. */
#ifndef PL_MATMUL_H
#define PL_MATMUL_H

#include "kernels/gemm.h"
#include "ops/bound.h"
#include "ops/infer.h"

/* trans: the last two dims are swapped. trans_batch (com.microsoft FusedMatMul): before that, dim 0
 * moves to just before the last dim. Neither touches an operand with fewer dims than it needs. */
typedef struct pl_matmul_options {
    bool trans_a, trans_b, trans_batch_a, trans_batch_b;
} pl_matmul_options;

/* Shape rule: sets output 0 from inputs a and b. */
pl_status pl_matmul_infer(pl_infer *c, int a, int b, pl_matmul_options options, pl_dtype dtype);

typedef struct pl_matmul {
    int64_t batch, m, n, k; /* as the operator means them */
    int n_batch_dims;
    int64_t batch_dims[PL_RANK_MAX];
    pl_gemm_shape gemm; /* the same work for the kernel: batches may be folded into m */
} pl_matmul;

/* The kernel's side. Offsets are in scratch. Shapes were checked by the rule. */
pl_status pl_matmul_plan(pl_eval *c, const pl_tensor *a, const pl_tensor *b,
                         pl_matmul_options options, pl_matmul *p);

/* y = alpha * a * b for float types (low precision through f32) and integers (wrapping). Constant
 * input i_b keeps its packed form in the node's state. */
pl_status pl_matmul_eval(pl_eval *c, int i_a, int i_b, pl_matmul_options options, double alpha);
/* Integer product into `out` (batch * m * n), modulo 2^64. */
pl_status pl_matmul_ints(pl_eval *c, const pl_matmul *p, const pl_tensor *a, const pl_tensor *b,
                         uint64_t *out);

/* ---- quantised operands ---- */
/* A scale or zero point, one for each row of A or column of B. `step` 0: one value for all. */
typedef struct pl_matmul_param {
    double *value;
    int64_t step;   /* 0 or 1 */
    int64_t stride; /* from one batch item to the next */
} pl_matmul_param;
/* Is the shape of input i a scalar, [n] or [batch…, n] with a 1 at the side of `is_row`? */
pl_status pl_matmul_param_check(const pl_infer *c, int i, bool is_row, pl_dim n);
/* Reads input i (NULL value and step 0 when it is left out). */
pl_status pl_matmul_param_read(pl_eval *c, const pl_matmul *p, int i, bool is_row,
                               pl_matmul_param *out);
/* acc = (a - a_zero) * (b - b_zero) for (u)int8 operands, in i32 modulo 2^32. */
pl_status pl_matmul_i8(pl_eval *c, const pl_matmul *p, const pl_tensor *a, pl_matmul_param a_zero,
                       const pl_tensor *b, pl_matmul_param b_zero, pl_i32 *acc);

/* ---- operators of the family that stand in files of their own ---- */
pl_status pl_einsum_infer(pl_infer *c);
pl_status pl_einsum_eval(pl_eval *c);
pl_status pl_einsum_bound(pl_bound *c);
pl_status pl_matmul_integer_infer(pl_infer *c);
pl_status pl_matmul_integer_eval(pl_eval *c);
pl_status pl_qlinear_matmul_infer(pl_infer *c);
pl_status pl_qlinear_matmul_eval(pl_eval *c);
pl_status pl_gemm_infer(pl_infer *c);
pl_status pl_gemm_eval(pl_eval *c);
pl_status pl_fused_gemm_eval(pl_eval *c);

#endif
