/* Errors of products of codes (product_error.c), for the bounds of quantised operators. */
#ifndef PL_PRODUCT_ERROR_H
#define PL_PRODUCT_ERROR_H

#include "ops/quant/bound_codes.h"

typedef struct pl_b_operand {
    int x, scale, zero; /* inputs; -1 = none */
    int axis;           /* axis that scale and zero point vary along, if they have several values */
} pl_b_operand;
/* (x - zero) * scale in double. */
pl_status pl_b_real_value(pl_bound *c, pl_b_operand o, pl_tensor **out);
/* Its error (Ex + Ez) * |scale|; *out stays NULL when it is exact. */
pl_status pl_b_real_error(pl_bound *c, pl_b_operand o, pl_tensor **out);

typedef struct pl_b_int_product {
    const char *op; /* the corresponding float operator, with the attributes of this node */
    int opset;
    pl_b_operand a, b;
    pl_b_map_fn power, root; /* errors add linearly (abs) or in quadrature (square, sqrt) */
    double alpha;            /* factor that the operator applies */
} pl_b_int_product;
/* Adds root(op(power(x), power(y))) to *sum, which starts as NULL. Does not consume x and y. */
pl_status pl_b_add_term(pl_bound *c, const pl_b_int_product *p, pl_tensor *x, pl_tensor *y,
                        pl_tensor **sum);
/* Effect of uncertain codes of both operands; NULL when there are none. */
pl_status pl_b_product_error(pl_bound *c, const pl_b_int_product *p, pl_tensor **out);
int pl_b_rank(const pl_bound *c, int i);
/* Sums of integers: exact except for uncertain codes. */
pl_status pl_b_integer_bound(pl_bound *c, const pl_b_int_product *p);

typedef struct pl_b_requant {
    const int *scales; /* all scale inputs, the output's first; ends with -1 */
    int zero;          /* zero point of the output */
    const double *e;   /* inherited error of each element in real units; NULL = none */
    double inherited;  /* the same for all */
    double own;        /* local error of the runtime's arithmetic, in real units */
    bool inexact;      /* the function is more than a chain of + and * */
} pl_b_requant;
pl_status pl_b_requantize(pl_bound *c, const pl_b_requant *q);
pl_status pl_b_requantize_product(pl_bound *c, const pl_b_int_product *p, int y_scale, int y_zero);

#endif
