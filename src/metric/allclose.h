/* numpy's assert_allclose on two tensors or data, as the ONNX backend tests apply it. */
#ifndef PL_ALLCLOSE_H
#define PL_ALLCLOSE_H

#include "tensor/datum.h"

typedef struct pl_tolerance {
    double rtol, atol;
} pl_tolerance;

typedef enum pl_close_result {
    PL_CLOSE_SAME,      /* types and values agree */
    PL_CLOSE_VALUES,    /* types and shapes agree, values do not */
    PL_CLOSE_STRUCTURE, /* dtype, shape, length or kind differ */
} pl_close_result;

/* |got - want| <= atol + rtol * |want|; NaN equals NaN, infinities equal themselves; integers,
 * bools and strings exactly. Writes the first difference, in words, to `why`. Both contiguous. */
pl_close_result pl_allclose(const pl_datum *got, const pl_datum *want, pl_tolerance tol, char *why,
                            size_t n_why);

#endif
