/* Bypass: removes nodes whose output can be replaced by an input of the same type. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

typedef struct bypass {
    pl_mini *m;
    const pl_mini_state *from;
    const size_t *nodes; /* nodes that can be bypassed, by item */
    size_t n_nodes;
} bypass;

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const bypass *b = ctx;
    const size_t n = b->from->model->graph->n_nodes;
    bool *nodes = pl_calloc(n + 1, sizeof(bool));
    if (nodes == NULL) return pl_fail_memory(err, n);
    memset(nodes, 1, n);
    for (size_t i = 0; i < b->n_nodes; i++)
        nodes[b->nodes[i]] = keep[i];
    const pl_status st = pl_mini_bypass(b->m, b->from, nodes, out, err);
    pl_free(nodes);
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    size_t *nodes = pl_calloc(graph->n_nodes + 1, sizeof(size_t));
    pl_status st = PL_OK;
    if (nodes == NULL) return pl_fail_memory(err, graph->n_nodes);
    bypass b = { m, from, nodes, 0 };
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (pl_mini_can_bypass(graph->nodes[i])) nodes[b.n_nodes++] = i;
    if (graph->n_nodes > 1 && b.n_nodes > 0) {
        pl_reduce r = { .m = m,
                        .n = b.n_nodes,
                        .last_matters = nodes[b.n_nodes - 1] + 1 == graph->n_nodes,
                        .build = build,
                        .ctx = &b };
        st = pl_reduce_run(&r, out, err);
    }
    pl_free(nodes);
    return st;
}

const pl_strategy pl_strategy_bypass = {
    .name = "Bypass", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
