/* Queries a subset of the nodes without building its model. */
#ifndef PL_MINI_FAST_H
#define PL_MINI_FAST_H

#include "flows/minify/search/mini_state.h"

typedef struct pl_mini_fast pl_mini_fast;
void pl_mini_fast_free(pl_mini_fast *fast); /* NULL is fine */
/* *out NULL: subsets of this state must be built. Valid until another one is requested. */
pl_status pl_mini_fast_of(pl_mini *m, const pl_mini_state *from, pl_mini_fast **out, pl_err *err);
pl_status pl_mini_fast_ask(pl_mini *m, pl_mini_fast *fast, const bool *keep, bool *fails,
                           pl_err *err);
/* Queries the nodes in keep[] the fastest possible way. */
pl_status pl_mini_ask_nodes(pl_mini *m, const pl_mini_state *from, const bool *keep, bool *fails,
                            pl_err *err);

#endif
