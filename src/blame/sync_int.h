/* The pairs of one comparison while they are measured: sync.c, and sync_ranks.c on several ranks.
 */
#ifndef PL_SYNC_INT_H
#define PL_SYNC_INT_H

#include <stdatomic.h>

#include "blame/sync.h"
#include "pair/pair_graph.h"

typedef struct pl_sync_work {
    const pl_record *a, *b;
    const char *layout;
    pl_sync_point *point;
    int64_t n_bytes; /* of both sides, for progress and for the choice of threads */
    pl_judged judged;
    bool done;       /* judged is set */
    bool rounded;    /* its integers come from reals */
    double absolute; /* what any element may be off by (pl_value_absolute_error) */
    double step;     /* value of one code, if the floats are only dequantised codes */
    double *user;
    bool wants_detail;
    pl_status st;
    pl_err err;
    bool shared; /* the ranks have measured it: acc, and the hashes and probes of both sides */
    pl_accumulators acc;
    bool away; /* on rank 0: a tensor lies on another machine */
} pl_sync_work;

typedef struct pl_syncing {
    const pl_sync_side *side[PL_PAIR_SIDES];
    const pl_sync_options *options;
    pl_session *session;
    pl_pair_side pair_side[PL_PAIR_SIDES];
    pl_pair_graph graph[PL_PAIR_SIDES];
    pl_arena *scratch;
    pl_sync_work *works;
    size_t n_works;
    int64_t n_bytes;
    _Atomic int64_t bytes_done;
    atomic_bool cancelled;
} pl_syncing;

/* Replaces a and b, references of the caller, by tensors with zeros where a recording says that no
 * element is defined. */
pl_status pl_sync_leave_out(const pl_sync_work *w, pl_tensor **a, pl_tensor **b, pl_err *err);
/* Counts those elements, once the pair has been judged. Where there are no others, nothing has been
 * compared. */
pl_status pl_sync_count_left_out(pl_sync_work *w, pl_err *err);

/* Recordings of other tools have no hashes, and the debugger needs one to recognise a tensor. */
pl_status pl_sync_probe_side(pl_side *side, const pl_tensor *t, pl_err *err);
/* Measures the pairs on all ranks; on rank 0 their works are then `shared`. */
pl_status pl_sync_share(pl_syncing *s, pl_err *err);

#endif
