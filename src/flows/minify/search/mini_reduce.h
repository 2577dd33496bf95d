/* Finding a small subset that still fails. */
#ifndef PL_MINI_REDUCE_H
#define PL_MINI_REDUCE_H

#include "flows/minify/search/mini_state.h"

typedef struct pl_reduce {
    pl_mini *m;
    size_t n;                         /* items */
    bool first_matters, last_matters; /* that is known: these items stay */
    size_t patience; /* gives up after so many items in a row that matter; 0 = never */
    bool gave_up;
    /* A candidate with the items of keep[]; *out NULL: there is none. */
    pl_status (*build)(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err);
    /* The question without the building, where that is quicker; NULL = there is no such way. */
    pl_status (*ask)(void *ctx, const bool *keep, bool *fails, pl_err *err);
    void *ctx;
    pl_mini_state *best; /* while it runs: the smallest that fails, */
    bool *keep;          /* and its items */
} pl_reduce;
/* Leaves out as many items as it can; few items that matter cost about log2(n) queries each. What
 * is found replaces *best, which stays as it is when every item matters. */
pl_status pl_reduce_run(pl_reduce *r, pl_mini_state **best, pl_err *err);
/* The shortest prefix (or suffix) of the nodes that fails, by halving; replaces *best likewise. */
pl_status pl_mini_truncate(pl_mini *m, const pl_mini_state *from, bool prefix, pl_mini_state **best,
                           pl_err *err);
/* Asks; takes the candidate. FAILS: *best is replaced by it. */
pl_status pl_mini_try_take(pl_mini *m, pl_mini_state *candidate, pl_mini_state **best, bool *fails,
                           pl_err *err);

#endif
