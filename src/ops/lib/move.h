/* Strided copies, used by Transpose, Slice, Concat, Tile, ….
 *
 * Only the element size matters, not the type. Dims are merged first where possible, so a
 * contiguous copy is a memcpy, and a permutation of blocks copies whole blocks. */
#ifndef PL_MOVE_H
#define PL_MOVE_H

#include "ops/eval.h"

enum { PL_MOVE_RANK = 2 * PL_RANK_MAX }; /* Tile and DepthToSpace split dims in two */

/* Dims in the order of the target, outermost first; strides in elements. */
typedef struct pl_move {
    int rank;
    int64_t dims[PL_MOVE_RANK];
    int64_t from[PL_MOVE_RANK]; /* 0 repeats, negative reverses */
    int64_t to[PL_MOVE_RANK];
} pl_move;

/* `from` and `to` point to element 0,0,…; the caller has checked that all others are in bounds.
 * Source and target do not overlap. Strings are copied shallowly: see pl_own_strings. */
void pl_move_run(pl_pool *pool, const pl_move *m, size_t element_bytes, const void *from, void *to);
/* The same between tensors (element 0 of each moved by the offsets, in elements). */
pl_status pl_move_tensor(pl_eval *c, const pl_move *m, const pl_tensor *from, int64_t from_offset,
                         pl_tensor *to, int64_t to_offset);

/* Gives a fresh string tensor its own copy of the bytes that its elements point to. Does nothing
 * for other types. */
pl_status pl_own_strings(pl_eval *c, pl_tensor *t);

#endif
