/* Private to src/flows: precision advice. advise.c searches, advise_survey.c measures. */
#ifndef PL_ADVISE_INT_H
#define PL_ADVISE_INT_H

#include "flows/analyze/analyze_int.h"
#include "session/advice.h"

typedef struct pl_unit { /* a node of `base` that can be raised */
    bool can;
    int64_t n, n_over, n_under, n_nonzero; /* of the worst sample */
    double largest, condition, local, effect;
    size_t sample; /* the sample with the largest `local` */
} pl_unit;

typedef struct pl_advising {
    pl_analysis *of; /* one for each sample */
    size_t n_samples;
    pl_model *base;  /* model whose nodes are raised: the model, or the one before autocast */
    pl_model *low;   /* the model under test */
    pl_node **twins; /* by index in `base`: the same node in `low` */
    bool amp, pairs; /* `low` is `base` under autocast; it rounds to codes (QDQ) */
    pl_dtype type;   /* float16, bfloat16; PL_UNDEFINED for pairs */
    pl_unit *units;  /* by index in `base` */
    size_t *owner;   /* pairs, by index of the DequantizeLinear: its unit + 1 */
    pl_pool *pool;
} pl_advising;

/* Runs every sample in fp64 node by node. For each node that can be raised, also runs it at the
 * precision of the model on the fp64 values, and notes the loss in the units. */
pl_status pl_advise_survey(pl_advising *x, pl_err *err);
/* For each of these units: the effect on the outputs when only this node is at the precision of the
 * model. */
pl_status pl_advise_effects(pl_advising *x, const size_t *units, size_t n, pl_err *err);

#endif
