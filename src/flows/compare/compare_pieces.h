/* Recordings in pieces that lie on several machines, under MPI: the ranks tell each other which
 * pieces they see, each reads its own, and rank 0 gets the few tensors of others that it needs to
 * judge them. Between pl_pieces_open and pl_pieces_end, ranks other than 0 must not wait for
 * anything else than sync.h. */
#ifndef PL_COMPARE_PIECES_H
#define PL_COMPARE_PIECES_H

#include "base/progress.h"
#include "base/ranks/ranks.h"
#include "flows/compare/compare_side.h"

typedef struct pl_pieces pl_pieces;

/* Called by every rank. Opens the sides that lie in pieces on several machines; the others are left
 * to the caller (recording is NULL). `st` and `why`: what this rank has run into before. When a
 * rank fails, all do, and have told rank 0. */
pl_status pl_pieces_open(pl_ranks *ranks, const char *const paths[2], pl_compare_side sides[2],
                         const pl_progress *progress, pl_status st, const pl_err *why,
                         pl_pieces **out, pl_err *err);
/* Rank 0 ends the others' waiting; they serve until then. NULL is fine. */
void pl_pieces_end(pl_pieces *pieces);
void pl_pieces_free(pl_pieces *pieces);

#endif
