/* The plain loop over one block: any pair of types, any values. */
#ifndef PL_ACCUMULATE_PLAIN_H
#define PL_ACCUMULATE_PLAIN_H

#include "metric/accumulate.h"

/* n elements at a and r, types as given, of which `coarse` is the coarser. Fills *out, whose
 * indices count from 0. Exact for 64-bit integers. */
void pl_accumulate_plain(pl_dtype type_a, const char *a, pl_dtype type_r, const char *r, size_t n,
                         pl_dtype coarse, double floor, pl_accumulators *out);

#endif
