/* Converts constant int8 weights of products to uint8: the same values with another zero point. On
 * x86 without VNNI, products of uint8 with int8 saturate at 16 bits, those of uint8 with uint8 do
 * not. */
#ifndef PL_UNSIGNED_WEIGHTS_H
#define PL_UNSIGNED_WEIGHTS_H

#include "graph/graph.h"

/* In place. *n_changed: weights. */
pl_status pl_model_unsigned_weights(pl_model *model, size_t *n_changed, pl_err *err);

#endif
