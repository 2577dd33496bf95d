/* Private to gemm: one integer product, for the two ways to compute it. */
#ifndef PL_GEMM_I8_INT_H
#define PL_GEMM_I8_INT_H

#include "kernels/gemm/gemm_int.h"

/* Pointers are those of one item of a batch; zero points may be NULL. */
typedef struct pl_i8_product {
    const pl_gemm_shape *s;
    const uint8_t *a, *b;
    bool a_signed, b_signed;
    const pl_i32 *a_zero, *b_zero;
    int64_t a_step, b_step;
    pl_i32 *c;
} pl_i8_product;

/* With the instructions of `dot`; false: no memory. */
bool pl_gemm_i8_dot(pl_pool *pool, const pl_gemm_dot *dot, const pl_i8_product *p);

#endif
