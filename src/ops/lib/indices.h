/* Indices given as data: read, checked against their bounds, and converted to offsets. Shared by
 * gathering and scattering operators. */
#ifndef PL_INDICES_H
#define PL_INDICES_H

#include "ops/eval.h"
#include "ops/infer.h"

/* The elements of an integer tensor in scratch, negative ones counted from the end (-bound to -1).
 * An index out of range is an error that names it. */
pl_status pl_indices_read(pl_eval *c, const pl_tensor *indices, int64_t bound, int64_t **out);

/* Tuples (the last dim of `indices`) that name slices of `data`, after batch_dims leading dims that
 * both share: the offset of each slice, in elements. */
pl_status pl_tuple_offsets(pl_eval *c, const pl_tensor *data, const pl_tensor *indices,
                           int batch_dims, int64_t **out);

/* GatherElements and ScatterElements: element k of row r of the indices stands for
 *     data[base(r) + index * axis_stride + k * step]. */
typedef struct pl_along {
    int rank;
    int64_t dims[PL_RANK_MAX];    /* of the indices */
    int64_t strides[PL_RANK_MAX]; /* of the data; 0 for the axis */
    int64_t axis_stride, step;
    int64_t n_rows, n; /* rows, elements in a row */
} pl_along;
void pl_along_init(pl_along *a, const pl_tensor *data, const pl_tensor *indices, int axis);
int64_t pl_along_base(const pl_along *a, int64_t row);

/* The rule that both share: same rank, at least one; no dim of the indices beyond the data's,
 * except along the axis. Sets *axis; *rank is -1 when not known. */
pl_status pl_along_infer(pl_infer *c, int *axis, int *rank);

#endif
