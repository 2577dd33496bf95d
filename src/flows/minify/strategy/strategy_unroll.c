/* Unroll bodies: replaces a Loop or Scan with a known number of steps by copies of its body, then
 * keeps as few of those nodes as fail. The copies are more nodes than before, so the result of both
 * together counts: a step is then one node of many, with the inputs of that step. */
#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_fast.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"
#include "ops/op.h"
#include "passes/unroll.h"

enum { STEPS_MAX = 64, NODES_MAX = 512 };

/* The number of iterations of a Loop must be constant. */
static pl_status freeze_counts(pl_mini_state *s, const pl_node *node, pl_err *err) {
    if (pl_node_bodies(node) != PL_BODIES_LOOP) return PL_OK;
    for (uint32_t k = 0; k < 2 && k < node->n_in; k++) {
        const pl_graph *graph = s->model->graph;
        for (size_t i = 0; i < graph->n_inputs; i++) {
            if (graph->inputs[i] != node->in[k]) continue;
            PL_TRY(pl_mini_state_freeze(s, i, err));
            break;
        }
    }
    return PL_OK;
}

static pl_status build(pl_mini *m, const pl_mini_state *from, size_t index, pl_mini_state **out,
                       pl_err *err) {
    pl_mini_state *s = NULL;
    pl_err trouble = PL_ERR_INIT;
    size_t n_dropped = 0;
    int64_t n_steps = 0;
    bool ok = false;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_graph *graph = s->model->graph;
    pl_node *node = graph->nodes[index];
    PL_TRY_GOTO(done, st, freeze_counts(s, node, err));
    PL_TRY_GOTO(done, st, pl_node_trip_count(node, &n_steps, err));
    if (n_steps < 1 || n_steps > STEPS_MAX ||
        (size_t)n_steps * pl_model_count_nodes(s->model) > NODES_MAX) {
        goto done;
    }
    st = pl_node_unroll(node, &trouble);
    if (st == PL_E_MEMORY) *err = trouble;
    if (st != PL_OK) { /* not constant: no such candidate */
        st = st == PL_E_MEMORY ? st : PL_OK;
        goto done;
    }
    /* Keeps dead code: it can be what fails. */
    PL_TRY_GOTO(done, st, pl_mini_state_drop_unused(s, &n_dropped, err));
    PL_TRY_GOTO(done, st, pl_mini_state_settle(m, s, &ok, err));

    if (ok && graph->n_nodes > 0) {
        *out = s;
        s = NULL;
    }
done:
    pl_mini_state_free(s);
    return st;
}

/* Keeps as few of its nodes as fail. Takes the state and returns one that fails, too. */
static pl_status reduce(pl_mini *m, pl_mini_state **state, pl_err *err) {
    static const pl_strategy *const ways[] = { &pl_strategy_suffix, &pl_strategy_delta,
                                               &pl_strategy_bypass };
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        pl_mini_state *smaller = NULL;
        bool ok = true;
        if (m->with_data && (*state)->values == NULL) {
            PL_TRY(pl_mini_state_evaluate(m, *state, &ok, err));
        }
        if (!ok || (*state)->model->graph->n_nodes < 2) return PL_OK;
        const pl_status st = ways[i]->run(m, *state, &smaller, err);
        if (smaller != NULL) {
            pl_mini_state_free(*state);
            *state = smaller;
        }
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    const size_t n_before = pl_model_count_nodes(from->model);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_bodies bodies = pl_node_bodies(graph->nodes[i]);
        pl_mini_state *candidate = NULL, *unrolled = NULL;
        bool fails = false;
        if (bodies != PL_BODIES_LOOP && bodies != PL_BODIES_SCAN) continue;
        pl_mini_fast_free(m->fast); /* its state is freed, and the address may be reused */
        m->fast = NULL;
        PL_TRY(build(m, from, i, &candidate, err));
        if (candidate != NULL) PL_TRY(pl_mini_try_take(m, candidate, &unrolled, &fails, err));
        if (!fails) continue;
        const pl_status st = reduce(m, &unrolled, err);
        if (pl_model_count_nodes(unrolled->model) < n_before) {
            *out = unrolled;
            return st;
        }
        pl_mini_state_free(unrolled);
        PL_TRY(st);
    }
    return PL_OK;
}

const pl_strategy pl_strategy_unroll = {
    .name = "Unroll bodies", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_NODES, .run = run
};
