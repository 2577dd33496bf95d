/* Blame by replay, when one side of a comparison is a model: the values of A are computed again in
 * fp64 from what A itself had (blame/blame.h). It only explains what diverges already: a
 * comparison that agrees stays so. */
#ifndef PL_COMPARE_BLAME_H
#define PL_COMPARE_BLAME_H

#include "blame/blame.h"
#include "flows/compare/compare_side.h"

/* `of` is the side whose model it is. Fills q, local, propagated, amplified and verdicts of the
 * points, blame and coverage of the session. What could not be done is a line in notes. */
pl_status pl_compare_blame(const pl_compare_side sides[2], int of, pl_pool *pool, uint64_t seed,
                           const pl_progress *progress, pl_session *session, pl_buf *notes,
                           pl_err *err);

#endif
