/* Contents of small integer tensors in shape rules: known, symbolic or unknown, element by element.
 * One reader for both settings: a constant (or, in a run, any) tensor reads as known elements. */
#ifndef PL_CONTENT_H
#define PL_CONTENT_H

#include "ops/infer.h"

enum { PL_CONTENT_MAX = 64 }; /* longer tensors are not shapes */

/* Content of input i, or NULL when nothing is known (or it is left out, not integer, too long). */
const pl_content *pl_content_of(pl_infer *c, int i);
/* Sets the content of an output (copied). Does nothing in a run, where contents are not needed. */
pl_status pl_content_set(pl_infer *c, int output, int rank, size_t n, const pl_dim *dims,
                         const bool *known);
/* Output 0 holds the elements of input 0 in a tensor of rank `rank` (0 or 1; else nothing is set).
 */
pl_status pl_content_pass(pl_infer *c, int rank);

/* Product of dims begin..end-1: known, a symbol if it is the only factor, or unknown. Overflow is
 * an error. */
pl_status pl_dims_multiply(const pl_infer *c, const pl_dim *dims, int begin, int end, pl_dim *out);
/* Axes of a node, from the attribute or the input of its version. */
typedef struct pl_axes {
    bool present; /* the attribute or input is given */
    bool known;   /* false: an input whose content is not known */
    size_t n;
    int axis[PL_RANK_MAX]; /* non-negative, in the order given */
} pl_axes;
/* Read from attribute `attr` (NULL: none), else from input i (-1: none). An axis out of range is an
 * error; a repeated one is an error if `unique`, else it is dropped. */
pl_status pl_axes_read(pl_infer *c, const char *attr, int i, int rank, bool unique, pl_axes *out);

/* The dtype that an attribute of type INT names, as this run uses it; `otherwise` when absent. */
pl_status pl_attr_dtype(const pl_infer *c, const char *name, pl_dtype otherwise, pl_dtype *out);

#endif
