/* Constant int8 weights of products of codes as uint8: the same numbers, with another zero point.
 * Products of uint8 with uint8 are not clipped at 16 bits where those of uint8 with int8 are (x86
 * without VNNI). */
#ifndef PL_UNSIGNED_WEIGHTS_H
#define PL_UNSIGNED_WEIGHTS_H

#include "graph/graph.h"

/* In place. *n_changed: weights. */
pl_status pl_model_unsigned_weights(pl_model *model, size_t *n_changed, pl_err *err);

#endif
