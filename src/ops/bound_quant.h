/* The bound of products of quantised operands. */
#ifndef PL_BOUND_QUANT_H
#define PL_BOUND_QUANT_H

#include "ops/bound.h"

/* (a - a_zero) times (b - b_zero) by MatMul or by Conv with the node's attributes, plus the bias;
 * with a y_scale rounded to codes of the output. Numbers of inputs, -1 = there is none. */
typedef struct pl_b_codes {
    bool is_conv;
    int a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias;
} pl_b_codes;
pl_status pl_b_codes_rule(pl_bound *c, const pl_b_codes *codes);

#endif
