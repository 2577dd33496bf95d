/* Values inside bodies of If, Loop and Scan, made visible: the executed graph is copied, and what a
 * body computes becomes an output of its node, and of the node around that, up to the model.
 *
 * Only in a body that runs exactly once does a name mean one value, so the graph is first run with
 * counters. Both branches of an If must have the same outputs, so the branch that ran replaces the
 * other one. Loop and Scan stack the values of their iterations, so a lifted value has a leading
 * dim of 1 for each of them. */
#ifndef PL_ORT_LIFT_H
#define PL_ORT_LIFT_H

#include "backends/ort/ort_map.h"

/* A copy of `graph` with one output per body, in order: an int64 scalar that counts its runs.
 * watched[i].output is its name, owned by the copy. */
pl_status pl_ort_lift_counters(const pl_model *graph, pl_model **out, pl_ort_watch **watched,
                               size_t *n_watched, pl_err *err);
/* A copy of `graph` in which all values of bodies with counts[i] == 1 are outputs. */
pl_status pl_ort_lift_values(const pl_model *graph, const int64_t *counts, const pl_ort_map *map,
                             pl_model **out, pl_ort_watch **watched, size_t *n_watched,
                             pl_err *err);

#endif
