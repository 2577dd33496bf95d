/* Grow window: the blamed operation with its surroundings. A fault of fused operations needs its
 * neighbours; the window doubles until it fails. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

/* Grows the window by one step along the edges, in both directions. */
static pl_status grow(const pl_graph *graph, bool *in, size_t *n_in, pl_err *err) {
    bool *touched = pl_calloc((size_t)graph->model->n_values + 1, sizeof(bool));
    bool *next = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    pl_status st = PL_OK;
    if (touched == NULL || next == NULL) {
        st = pl_fail_memory(err, graph->n_nodes);
        goto done;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in && in[i]; k++)
            if (node->in[k] != NULL && node->in[k]->producer != NULL)
                touched[node->in[k]->id] = true;
        for (uint32_t k = 0; k < node->n_out && in[i]; k++)
            if (node->out[k] != NULL) touched[node->out[k]->id] = true;
    }
    *n_in = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        next[i] = in[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            next[i] = next[i] || (node->in[k] != NULL && touched[node->in[k]->id]);
        for (uint32_t k = 0; k < node->n_out; k++)
            next[i] = next[i] || (node->out[k] != NULL && touched[node->out[k]->id]);
        *n_in += next[i];
    }
    memcpy(in, next, graph->n_nodes);
done:
    pl_free(touched);
    pl_free(next);
    return st;
}

static bool is_blamed(const pl_mini *m, const pl_node *node) {
    for (uint32_t k = 0; k < node->n_out; k++)
        if (node->out[k] != NULL && strcmp(node->out[k]->name, m->blamed) == 0) return true;
    return false;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    size_t n_in = 0, n_before = 0;
    bool fails = false;
    pl_status st = PL_OK;
    bool *in = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (in == NULL) return pl_fail_memory(err, graph->n_nodes);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        in[i] = is_blamed(m, graph->nodes[i]);
        n_in += in[i];
    }
    for (size_t width = 1; n_in > 0 && n_in < graph->n_nodes && !fails; width *= 2) {
        pl_mini_state *candidate = NULL;
        n_before = n_in;
        for (size_t i = 0; i < width; i++)
            PL_TRY_GOTO(done, st, grow(graph, in, &n_in, err));
        if (n_in == n_before || n_in == graph->n_nodes) break;
        PL_TRY_GOTO(done, st, pl_mini_cut(m, from, in, &candidate, err));
        if (candidate == NULL) continue;
        PL_TRY_GOTO(done, st, pl_mini_try_take(m, candidate, out, &fails, err));
    }
done:
    pl_free(in);
    return st;
}

const pl_strategy pl_strategy_window = { .name = "Grow window",
                                         .stage = PL_STAGE_GUESS,
                                         .goal = PL_GOAL_NODES,
                                         .needs_blame = true,
                                         .run = run };
