/* Loops without a loop. */
#ifndef PL_UNROLL_H
#define PL_UNROLL_H

#include "graph/graph.h"

/* The steps of a Loop or Scan of the main graph, before anything runs: its trip count or the length
 * of what it scans; -1 = not known. A Loop's own condition may end it earlier. */
pl_status pl_node_trip_count(const pl_node *node, int64_t *out, pl_err *err);
/* Puts as many copies of the body in the place of that node; operators are resolved and types
 * inferred again. What is not known before the run is PL_E_UNSUPPORTED; then the model is no good
 * any more. */
pl_status pl_node_unroll(pl_node *node, pl_err *err);

#endif
