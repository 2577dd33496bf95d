/* Converts data between the model's own types and the doubles of gold. */
#ifndef PL_RAISE_H
#define PL_RAISE_H

#include "base/threads.h"
#include "graph/graph.h"
#include "tensor/datum.h"

bool pl_dtype_is_raised(pl_dtype dtype); /* f32, f16, bf16: doubles under gold */
/* Converts float tensors to double, also inside sequences; other data is unchanged. *out is a new
 * reference. */
pl_status pl_datum_raise(pl_pool *pool, const pl_datum *d, pl_datum **out, pl_err *err);
/* Converts a tensor of doubles back to `dtype`; other data is unchanged. Replaces *arg. */
pl_status pl_datum_lower(pl_dtype dtype, pl_datum **arg, pl_err *err);
/* The type of a value in the model; `otherwise` when inference does not know it. */
pl_dtype pl_value_dtype(const pl_value *value, pl_dtype otherwise);

#endif
