/* Unrolls Loop and Scan. */
#ifndef PL_UNROLL_H
#define PL_UNROLL_H

#include "graph/graph.h"

/* Number of steps of a Loop or Scan of the main graph, known without a run: its trip count or the
 * length of the scanned input; -1 = not known. A Loop's condition may end it earlier. */
pl_status pl_node_trip_count(const pl_node *node, int64_t *out, pl_err *err);
/* Replaces the node by that many copies of its body; resolves operators and infers types again. If
 * something is not constant: PL_E_UNSUPPORTED, and the model is no longer usable. */
pl_status pl_node_unroll(pl_node *node, pl_err *err);

#endif
