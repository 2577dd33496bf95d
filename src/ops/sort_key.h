/* Numbers as unsigned keys in the same order, so that sorting needs one comparison for all types.
 *
 * Zeros of both signs are equal; every NaN has the same key, above all others (as NumPy sorts). */
#ifndef PL_SORT_KEY_H
#define PL_SORT_KEY_H

#include "tensor/dtype.h"

#define PL_KEY_NAN UINT64_MAX /* also the largest 64-bit integer; no float but NaN has it */

/* Keys of n contiguous elements of a numeric or bool type. */
void pl_sort_keys(pl_dtype dtype, const void *from, uint64_t *to, size_t n);

#endif
