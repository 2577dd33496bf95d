/* What is recorded of a tensor when only statistics are. Strings and complex numbers have only
 * counts. */
#ifndef PL_STATS_H
#define PL_STATS_H

#include "base/json.h"
#include "base/json_read.h"
#include "tensor/tensor.h"

typedef struct pl_stats {
    int64_t n_elements, n_nan, n_inf, n_zero;
    double min, max, mean; /* of the finite elements; NaN when there is none */
} pl_stats;

pl_stats pl_stats_of(const pl_tensor *t); /* contiguous */
void pl_stats_put(pl_json *json, const pl_stats *stats);
bool pl_stats_get(const pl_json_value *value, pl_stats *out);

#endif
