/* A mixture of experts as its kernel and its bound see it. */
#ifndef PL_MOE_H
#define PL_MOE_H

#include "ops/eval.h"

typedef enum pl_moe_act {
    PL_MOE_RELU,
    PL_MOE_GELU,
    PL_MOE_SILU,
    PL_MOE_IDENTITY,
    PL_MOE_SWIGLU
} pl_moe_act;

/* One of the three products of an expert: y = x W' + bias, W is (rows, columns) in memory. */
typedef struct pl_moe_layer {
    int weights, bias, scales, zeros; /* inputs; -1 = the operator has none */
    int64_t rows, columns;
    /* codes of `bits` bits, low bits first; blocks of `block` columns have one scale */
    int64_t bits, block, n_blocks;
    bool zeros_by_row; /* zero points are packed along a row's blocks, not along the rows */
} pl_moe_layer;

typedef struct pl_moe {
    bool quantised, normalise, interleaved, fused;
    pl_moe_act act;
    double alpha, beta, limit;
    int64_t tokens, hidden, inter, experts, k;
    int mixing; /* input with the weights of the experts; -1 = softmax of the router */
    pl_moe_layer fc1, fc2, fc3; /* fc3.rows 0 = none */
} pl_moe;

/* An expert that a token is sent to. */
typedef struct pl_moe_route {
    int64_t expert;
    double weight;
} pl_moe_route;

pl_status pl_moe_of(pl_eval *c, pl_moe *m);
/* The k experts of a token, best first; of equal ones the last. order: all experts by rank, or
 * NULL. */
void pl_moe_routes(const pl_moe *m, const double *router, const double *mixing,
                   pl_moe_route *routes, int64_t *order);
/* Row r of an expert's weights as doubles. scales, and weights that are no codes, come as doubles
 * too. */
typedef struct pl_moe_weights {
    const pl_moe_layer *layer;
    const pl_u8 *codes, *zeros; /* codes NULL: floats; zeros NULL: the middle code */
    const double *scales, *floats, *bias;
} pl_moe_weights;
pl_status pl_moe_weights_of(pl_eval *c, const pl_moe_layer *layer, pl_moe_weights *w);
void pl_moe_row(const pl_moe_weights *w, int64_t expert, int64_t row, double *out);
/* The activation: h are the results of fc1, l those of fc3 or NULL. */
double pl_moe_activate(const pl_moe *m, const double *h, const double *l, int64_t i);

#endif
