/* Generates an input. Values depend only on (seed, input number, element number). */
#ifndef PL_GENERATE_H
#define PL_GENERATE_H

#include <plumb.h>

#include "graph/graph.h"
#include "tensor/datum.h"

/* dims: symbol -> int64_t *; unknown dims are 1. */
pl_status pl_generate_input(const pl_model *model, size_t input, const plumb_inputs *source,
                            const pl_strmap *dims, pl_datum **out, pl_err *err);

#endif
