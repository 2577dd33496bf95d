/* The accumulators of a pair of tensors, computed in parts: by several processes, each of which
 * reads only its own elements. The result has the same bits as pl_accumulate, because the parts are
 * the chunks that it works in, and are combined by the same tree. */
#ifndef PL_ACCUMULATE_PART_H
#define PL_ACCUMULATE_PART_H

#include "metric/accumulate.h"

int64_t pl_accumulate_n_parts(int64_t n_elements); /* of 16 M elements */
/* Parts first to first + n - 1 into out[0 … n - 1]. floor < 0: guessed from a sample of the whole,
 * the same for every part. */
pl_status pl_accumulate_parts(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, double floor,
                              int64_t first, int64_t n, pl_accumulators *out, pl_err *err);
/* Combines all parts. When the guess was wrong, *again is the floor to compute the parts with whose
 * floor differs, and *out is not set; else *again is -1, and `parts` has been used up. */
pl_status pl_accumulate_join(const pl_tensor *a, const pl_tensor *r, pl_accumulators *parts,
                             double *again, pl_accumulators *out, pl_err *err);

#endif
