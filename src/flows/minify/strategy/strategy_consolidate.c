/* Consolidate inputs: inputs with the same data become one. */
#include "backends/backend.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"
#include "graph/edit.h"

static bool same_input(const pl_mini_state *s, size_t i, size_t k) {
    const pl_value *a = s->model->graph->inputs[i], *b = s->model->graph->inputs[k];
    return s->in[i] != NULL && s->in[k] != NULL && a->init == NULL && b->init == NULL &&
           pl_datum_identical(s->in[i], s->in[k]);
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    pl_status st = PL_OK;
    bool any = false, fails = false;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_graph *graph = s->model->graph;
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++) {
        for (size_t k = graph->n_inputs; k > i + 1 && st == PL_OK; k--) {
            if (!same_input(s, i, k - 1)) continue;
            st = pl_graph_replace_uses(graph, graph->inputs[k - 1], graph->inputs[i], err);
            if (st == PL_OK) pl_mini_state_drop_input(s, k - 1);
            any = true;
        }
    }
    if (st != PL_OK || !any) {
        pl_mini_state_free(s);
        return st;
    }
    return pl_mini_try_take(m, s, out, &fails, err);
}

const pl_strategy pl_strategy_consolidate = { .name = "Consolidate inputs",
                                              .stage = PL_STAGE_STRUCTURE,
                                              .goal = PL_GOAL_INPUTS,
                                              .needs_data = true,
                                              .run = run };
