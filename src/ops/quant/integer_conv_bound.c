/* Error bounds of convolutions of 8-bit integers. */
#include <math.h>

#include "ops/quant/integer_conv_rules.h"
#include "ops/quant/product_error.h"

pl_status pl_conv_integer_bound(pl_bound *c) {
    const pl_b_int_product p = { "Conv",   11, { 0, -1, 2, -1 }, { 1, -1, 3, 0 }, pl_b_abs,
                                 pl_b_abs, 1 };
    return pl_b_integer_bound(c, &p);
}

pl_status pl_qlinear_conv_bound(pl_bound *c) {
    const pl_b_int_product p = {
        "Conv", 11, { 0, 1, 2, -1 }, { 3, 4, 5, 0 }, pl_b_square, sqrt, 1
    };
    return pl_b_requantize_product(c, &p, 6, 7);
}
