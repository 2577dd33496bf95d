/* Private to src/interp: when each value can be freed. */
#ifndef PL_PLAN_H
#define PL_PLAN_H

#include "graph/graph.h"

/* For one graph: release[release_at[i] .. release_at[i + 1]) are the values of this graph that
 * nothing needs after node i. Outputs of the graph are in none of them. */
typedef struct pl_graph_plan {
    const pl_graph *graph;
    uint32_t *release_at; /* n_nodes + 1 */
    const pl_value **release;
    void **state; /* per node, kept between runs */
    void (**state_free)(void *);
} pl_graph_plan;

typedef struct pl_plan {
    pl_arena *arena;
    pl_graph_plan *graphs; /* by graph id */
    size_t n_graphs;
    bool *constant; /* by value id: the same tensor in every run */
} pl_plan;

pl_status pl_plan_init(pl_plan *plan, const pl_model *model, pl_err *err);
void pl_plan_release(pl_plan *plan);

#endif
