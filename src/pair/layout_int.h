/* Shared by layout.c and layout_apply.c. */
#ifndef PL_LAYOUT_INT_H
#define PL_LAYOUT_INT_H

#include "pair/layout.h"

typedef struct pl_shape {
    int rank;
    int64_t dims[PL_RANK_MAX];
} pl_shape;

pl_shape pl_shape_squeeze(const pl_shape *s); /* without the dims of size 1 */

#endif
