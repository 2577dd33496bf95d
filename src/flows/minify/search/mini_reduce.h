/* Finds a small subset that still fails. */
#ifndef PL_MINI_REDUCE_H
#define PL_MINI_REDUCE_H

#include "flows/minify/search/mini_state.h"

typedef struct pl_reduce {
    pl_mini *m;
    size_t n;                         /* items */
    bool first_matters, last_matters; /* known to be needed */
    size_t patience; /* gives up after this many needed items in a row; 0 = never */
    bool gave_up;
    /* A candidate with the items of keep[]; *out NULL: there is none. */
    pl_status (*build)(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err);
    /* Queries without building, if that is faster; NULL = not available. */
    pl_status (*ask)(void *ctx, const bool *keep, bool *fails, pl_err *err);
    void *ctx;
    pl_mini_state *best; /* during the run: the smallest that fails, */
    bool *keep;          /* and its items */
} pl_reduce;
/* Leaves out as many items as possible; few needed items cost about log2(n) queries each. The
 * result replaces *best, which is unchanged when every item is needed. */
pl_status pl_reduce_run(pl_reduce *r, pl_mini_state **best, pl_err *err);
/* The shortest failing prefix (or suffix) of the nodes, by bisection; replaces *best the same
 * way. */
pl_status pl_mini_truncate(pl_mini *m, const pl_mini_state *from, bool prefix, pl_mini_state **best,
                           pl_err *err);
/* Queries the candidate and takes it. FAILS: it replaces *best. */
pl_status pl_mini_try_take(pl_mini *m, pl_mini_state *candidate, pl_mini_state **best, bool *fails,
                           pl_err *err);

#endif
