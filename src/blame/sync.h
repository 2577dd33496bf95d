/* Sync points of two recordings: paired, compared by metadata, measured and judged; and where a
 * divergence begins.
 *
 * Memory is constant: tensors are read in place, one pair at a time, and released. Pairs run on the
 * pool, large ones alone with all threads; results do not depend on that. */
#ifndef PL_SYNC_H
#define PL_SYNC_H

#include "base/progress.h"
#include "base/ranks/ranks.h"
#include "pair/pair.h"
#include "session/judge.h"
#include "session/verdict.h"

typedef struct pl_sync_side {
    const pl_recording *recording;
    const pl_model *model; /* model it was made from, or NULL */
} pl_sync_side;

typedef struct pl_sync_options {
    pl_judge judge;
    pl_pair_options pair;
    pl_pool *pool;
    const pl_progress *progress;             /* may be NULL */
    const plumb_metric *const *user_metrics; /* from plugins; called by one thread */
    size_t n_user_metrics;
    const char *const *details; /* values that are measured in detail (detail.h) */
    size_t n_details;
    bool probe; /* tensors of a recording without hashes are probed: a session will be looked at */
    pl_ranks *ranks; /* of an MPI job, which share the measuring; NULL = none */
} pl_sync_options;

/* Fills points, left_b, metric, profile, tol and user_metrics of the session. *pairing is the
 * caller's to release when it succeeds. On ranks other than 0 the points are not judged. */
pl_status pl_sync_compare(const pl_sync_side *a, const pl_sync_side *b,
                          const pl_sync_options *options, pl_session *session, pl_pairing *pairing,
                          pl_err *err);

/* sync_ranks.c: for a rank that fails before or instead of comparing. Rank 0 hears the others out
 * and lets them go; another rank tells rank 0 why. */
void pl_sync_give_up(pl_ranks *ranks, const pl_progress *progress, pl_status st, const pl_err *err);

/* Finds where divergence begins: a bad value with a bad one among its inputs is inherited; one
 * whose inputs agree far better than itself is a culprit, and blamed; otherwise amplified. Values
 * whose inputs are not known stay mismatches. Uses A's graph, else B's. Sets blame,
 * first_divergence. */
pl_status pl_sync_trace(const pl_sync_side *a, const pl_sync_side *b,
                        const pl_sync_options *options, pl_session *session, pl_err *err);

#endif
