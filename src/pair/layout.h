/* Layout hypotheses: what makes two tensors of the same values comparable when their shapes, or the
 * order of their elements, differ. Never applied silently: the text names it.
 *
 *   squeeze            other dims of size 1 only
 *   reshape            same elements in the same order
 *   transpose 0,3,1,2  B's axes in this order are A's (B is NHWC, A is NCHW)
 *   pad 0,5,0          B has so many elements more at the end of each axis
 *   block 1,16         B keeps axis 1 in blocks of 16 as its last axis (NCHWc), the rest is padding
 *   part 2,1,4         the second of four equal parts of B along axis 2 (one rank of four)
 *   every 2,1,4        every fourth element of B along axis 2, from the second on
 *
 * "a: " in front: the other way round, A is the one to be changed. Parts are joined by "; " and
 * applied from left to right. */
#ifndef PL_LAYOUT_H
#define PL_LAYOUT_H

#include "tensor/tensor.h"

enum { PL_LAYOUT_TEXT_MAX = 128 };

typedef struct pl_layout {
    char text[PL_LAYOUT_TEXT_MAX]; /* "" = as they are */
    double error;  /* rms(a - b) / rms(b) under it; infinite when nothing has the shape */
    double second; /* of the next best hypothesis that gives other elements; infinite when none */
} pl_layout;

/* Tries what the shapes allow and keeps the best fit, plain forms first. Numeric tensors only;
 * others get the only hypothesis there is by shape. */
pl_status pl_layout_find(const pl_tensor *a, const pl_tensor *b, pl_layout *out, pl_err *err);
/* By shapes alone: true when exactly one hypothesis fits (text may be ""). */
bool pl_layout_guess(int rank_a, const int64_t *dims_a, int rank_b, const int64_t *dims_b,
                     char text[PL_LAYOUT_TEXT_MAX]);
/* Does it select a part of a tensor (one rank's share)? */
bool pl_layout_is_part(const char *text);
/* New references to both in one shape, dense. PL_E_INVALID when the layout does not fit. */
pl_status pl_layout_apply(const char *text, const pl_tensor *a, const pl_tensor *b,
                          pl_tensor **out_a, pl_tensor **out_b, pl_err *err);

#endif
