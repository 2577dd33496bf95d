/* A part of a model as a separate model: a function, or a cut between values. */
#ifndef PL_RESTRICT_H
#define PL_RESTRICT_H

#include "graph/graph.h"

/* *out stays NULL when there is nothing to restrict. Lists are comma-separated value names; a name
 * that holds a comma is taken whole when a value of that name exists. */
pl_status pl_model_restrict(pl_model *model, const char *function, const char *from, const char *to,
                            pl_model **out, pl_err *err);

#endif
