/* Blame by replay, when one side of a comparison is a model: A's values are computed again in fp64
 * from A's own inputs (blame/blame.h). It only explains divergences: a comparison that agrees still
 * agrees. */
#ifndef PL_COMPARE_BLAME_H
#define PL_COMPARE_BLAME_H

#include "blame/blame.h"
#include "flows/compare/compare_side.h"

/* `of` is the side whose model it is. Fills q, local, propagated, amplified and verdicts of the
 * points, blame and coverage of the session. Failures become notes. */
pl_status pl_compare_blame(const pl_compare_side sides[2], int of, pl_pool *pool, uint64_t seed,
                           const pl_progress *progress, pl_session *session, pl_buf *notes,
                           pl_err *err);

#endif
