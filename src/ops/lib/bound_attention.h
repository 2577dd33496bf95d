/* The bound of attention operators, from the norms of their heads. */
#ifndef PL_BOUND_ATTENTION_H
#define PL_BOUND_ATTENTION_H

#include "ops/bound.h"

/* Numbers of inputs; -1 = the operator has none. Left-out keys or values are packed with what
 * stands before them. */
typedef struct pl_b_attention {
    int q, k, v, past_key, past_value;
    int bias;       /* added to q, k and v side by side before all else */
    int score_bias; /* floats added to the scores; -inf and the like hide keys */
    int mask;       /* flags (batch, keys) or lengths (batch): hide by adding `filter`; 0 = none */
    double filter;
    bool causal; /* query i sees keys up to i + shift */
    int64_t shift;
    int cos, sin; /* caches, when q and k are turned */
    int64_t head_size, v_size;
    double scale;
    bool probs; /* output 3 has probabilities, not scores */
    /* q, k and v (rows of q_cols, k_cols, rest) come from a projection: what it gave and what one
     * element may be off by, besides what its inputs are off by. NULL = the inputs above are used.
     */
    const double *projected;
    int64_t n_projected, q_cols, k_cols, cols;
    double projection_error;
} pl_b_attention;
pl_status pl_b_attention_rule(pl_bound *c, const pl_b_attention *a);

/* Turning pairs by angles: output 0 from input x and the caches. */
pl_status pl_b_rotary_rule(pl_bound *c, int x, int cos, int sin);

#endif
