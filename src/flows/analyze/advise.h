/* Precision advice: which nodes of an fp16, bf16 or int8 model have to compute in float32. */
#ifndef PL_ADVISE_H
#define PL_ADVISE_H

#include "flows/analyze/analyze_int.h"

typedef struct pl_advise_options {
    pl_model *original; /* the model before autocast; NULL = the analyses' model is it */
    pl_node **twins;    /* with `original`: its nodes, by index, in the analyses' model */
    const char *amp;    /* with `original`: "fp16", "bf16" */
    const char *out;    /* file for the mixed-precision model; NULL = none */
} pl_advise_options;

/* The samples must have been analysed; of[0].session gets the advice. Candidates run on the backend
 * under test; the outputs must be close to those of fp64 (of the reference model where there is
 * one, of the model without its Q/DQ pairs for int8). */
pl_status pl_advise(pl_analysis *of, size_t n_samples, const pl_advise_options *options,
                    pl_err *err);

/* Is a value blamed for products that saturate at 16 bits? */
bool pl_advise_is_saturated(const pl_session *session);
/* Tries the remedy, unsigned weights. *helps if nothing is clipped then: they become the advice,
 * and the model is written to `out` (NULL = none). */
pl_status pl_advise_saturated(pl_analysis *of, size_t n_samples, const char *out, bool *helps,
                              pl_err *err);

struct pl_mixed;
/* For a quantised model with a table of layers: which layers to keep in float. The session of the
 * first sample gets the advice. */
pl_status pl_advise_layers(struct pl_mixed *m, const pl_advise_options *options, pl_err *err);

#endif
