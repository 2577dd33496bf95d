/* The bound of attention operators, from the norms of their heads. */
#ifndef PL_BOUND_ATTENTION_H
#define PL_BOUND_ATTENTION_H

#include "ops/bound.h"

/* Indices of inputs; -1 = the operator has none. If keys or values are left out, they are packed
 * into the input before. */
typedef struct pl_b_attention {
    int q, k, v, past_key, past_value;
    int bias;       /* added to q, k and v, which it holds side by side, before anything else */
    int score_bias; /* floats added to the scores; large negative values hide keys */
    int mask;       /* flags (batch, keys) or lengths (batch): hide by adding `filter`; 0 = none */
    double filter;
    bool causal; /* query i sees keys up to i + shift */
    int64_t shift;
    int cos, sin;     /* rotary caches; -1 = no rotation */
    bool interleaved; /* pairs are neighbours, not halves */
    int64_t head_size, v_size;
    double scale;
    bool probs; /* output 3 has probabilities, not scores */
    /* If q, k and v (columns q_cols, k_cols, rest) come from a projection of the input: its result,
     * and the error of one element on top of inherited errors. NULL = use the inputs above. */
    const double *projected;
    int64_t n_projected, q_cols, k_cols, cols;
    double projection_error;
} pl_b_attention;
pl_status pl_b_attention_rule(pl_bound *c, const pl_b_attention *a);

/* Bound of rotary embedding: output 0 from input x and the caches. */
pl_status pl_b_rotary_rule(pl_bound *c, int x, int cos, int sin);

#endif
