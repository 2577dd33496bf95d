/* Error bounds of products of 8-bit integers. */
#include <math.h>

#include "ops/quant/integer_matmul_rules.h"
#include "ops/quant/product_error.h"

pl_status pl_matmul_integer_bound(pl_bound *c) {
    const pl_b_int_product p = { "MatMul",
                                 13,
                                 { 0, -1, 2, pl_b_rank(c, 0) - 2 },
                                 { 1, -1, 3, pl_b_rank(c, 1) - 1 },
                                 pl_b_abs,
                                 pl_b_abs,
                                 1 };
    return pl_b_integer_bound(c, &p);
}

pl_status pl_qlinear_matmul_bound(pl_bound *c) {
    const pl_b_int_product p = { "MatMul",
                                 13,
                                 { 0, 1, 2, pl_b_rank(c, 0) - 2 },
                                 { 3, 4, 5, pl_b_rank(c, 3) - 1 },
                                 pl_b_square,
                                 sqrt,
                                 1 };
    return pl_b_requantize_product(c, &p, 6, 7);
}
