/* Some elements of a tensor, as ranges of their indices: sorted, apart from each other. */
#ifndef PL_RANGES_H
#define PL_RANGES_H

#include "tensor/tensor.h"

typedef struct pl_ranges {
    int64_t *at; /* n pairs: from, to (exclusive) */
    size_t n, capacity;
} pl_ranges;

void pl_ranges_release(pl_ranges *r);
/* Adds from..to - 1, which must not lie before the end of the last range. Nothing when empty. */
pl_status pl_ranges_add(pl_ranges *r, int64_t from, int64_t to, pl_err *err);
/* What is in x or y. */
pl_status pl_ranges_join(const pl_ranges *x, const pl_ranges *y, pl_ranges *out, pl_err *err);
int64_t pl_ranges_count(const pl_ranges *r);
/* A copy of t with these elements taken from `from`, which has the same shape and type (or is a
 * float like it); NULL = zeros. Text and ranges beyond the end are left as they are. */
pl_status pl_ranges_replace(const pl_ranges *r, const pl_tensor *t, const pl_tensor *from,
                            pl_tensor **out, pl_err *err);

#endif
