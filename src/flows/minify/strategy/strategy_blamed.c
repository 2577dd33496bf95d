/* The blamed operation alone, on its recorded inputs: often a single query is enough. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

/* Marks the producers of the blamed value and of its group; returns their number. */
static size_t mark(pl_mini *m, const pl_graph *graph, bool whole_group, bool *keep) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL) continue;
            bool named = strcmp(node->out[k]->name, m->blamed) == 0;
            for (size_t j = 0; j < m->n_blamed_group && whole_group; j++)
                named = named || strcmp(node->out[k]->name, m->blamed_group[j]) == 0;
            if (!named || keep[i]) continue;
            keep[i] = true;
            n++;
        }
    }
    return n;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    bool fails = false;
    pl_status st = PL_OK;
    bool *keep = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, graph->n_nodes);
    size_t before = 0;
    for (int whole = 0; whole < 2 && !fails && st == PL_OK; whole++) {
        pl_mini_state *candidate = NULL;
        const size_t n = mark(m, graph, whole != 0, keep);
        if (n == 0 || before + n == graph->n_nodes) continue;
        before += n;
        st = pl_mini_cut(m, from, keep, &candidate, err);
        if (candidate != NULL) st = pl_mini_try_take(m, candidate, out, &fails, err);
    }
    pl_free(keep);
    return st;
}

const pl_strategy pl_strategy_blamed = { .name = "Blamed operation alone",
                                         .stage = PL_STAGE_GUESS,
                                         .goal = PL_GOAL_NODES,
                                         .needs_blame = true,
                                         .run = run };
