/* Mistakes of a quantiser, as opposed to the noise of quantisation. */
#ifndef PL_QUANT_MISTAKES_H
#define PL_QUANT_MISTAKES_H

#include "flows/analyze/mixed.h"

typedef struct pl_mistake {
    const char *kind; /* "wrong scale", "wrong zero point", "clipped range"; NULL = none */
    const char *evidence;
} pl_mistake;

/* Notes whether the quantiser of this value clips the float model's data; called while gold runs
 * (pl_blame_unseen). */
pl_status pl_quant_clip(void *ctx, const pl_value *value, const pl_datum *gold, pl_err *err);

/* Checks every quantiser between the layer's value and the nearest values before it that have a
 * counterpart: parameters, inputs, float weights. `m` is of one sample and x's own. */
pl_status pl_quant_mistake(pl_analysis *x, const pl_mixed *m, const pl_layer *layer,
                           pl_mistake *out, pl_err *err);

#endif
