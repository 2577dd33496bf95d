/* Products of 8-bit integers with scales and zero points. */
#ifndef PL_INTEGER_MATMUL_H
#define PL_INTEGER_MATMUL_H

#include "ops/lib/matmul.h"

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

#endif
