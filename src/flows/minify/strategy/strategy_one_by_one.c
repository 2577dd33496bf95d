/* One by one: tries to remove every node, output and optional input once more. If none can be
 * removed, the result is 1-minimal. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

static pl_status try_node(pl_mini *m, const pl_mini_state *from, size_t i, pl_mini_state **out,
                          pl_err *err) {
    const pl_graph *graph = from->model->graph;
    pl_mini_state *candidate = NULL;
    bool fails = false;
    pl_status st = PL_OK;
    bool *keep = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, graph->n_nodes);
    memset(keep, 1, graph->n_nodes);
    keep[i] = false;
    st = pl_mini_cut(m, from, keep, &candidate, err);
    if (candidate != NULL) st = pl_mini_try_take(m, candidate, out, &fails, err);
    candidate = NULL;
    if (st == PL_OK && !fails && pl_mini_can_bypass(graph->nodes[i])) {
        st = pl_mini_bypass(m, from, keep, &candidate, err);
        if (candidate != NULL) st = pl_mini_try_take(m, candidate, out, &fails, err);
    }
    pl_free(keep);
    return st;
}

/* Computes the values at the cuts again if the recorded ones no longer fit. */
static pl_status refresh(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    bool ok = false;
    PL_TRY(pl_mini_state_copy(from, out, err));
    return pl_mini_state_evaluate(m, *out, &ok, err);
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const size_t n = from->model->graph->n_nodes;
    pl_mini_state *fresh = NULL;
    pl_status st = PL_OK;
    if (n > 1 && from->values == NULL && m->with_data) PL_TRY(refresh(m, from, &fresh, err));
    const pl_mini_state *base = fresh == NULL ? from : fresh;
    /* From the end: outputs are removed first. After a success the driver calls again. */
    for (size_t i = n; i > 0 && n > 1 && *out == NULL && st == PL_OK; i--)
        st = try_node(m, base, i - 1, out, err);
    if (st == PL_OK && *out == NULL) m->one_minimal = true;
    pl_mini_state_free(fresh);
    return st;
}

const pl_strategy pl_strategy_one_by_one = {
    .name = "One by one", .stage = PL_STAGE_PROOF, .goal = PL_GOAL_NODES, .run = run
};
