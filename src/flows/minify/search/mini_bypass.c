/* Removes nodes by connecting their readers to one of their inputs of the same type. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_values.h"
#include "graph/edit.h"

pl_value *pl_mini_stand_in(const pl_node *node) {
    pl_value *out = NULL;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == NULL) continue;
        if (out != NULL) return NULL; /* several outputs: no single input can replace them */
        out = node->out[i];
    }
    if (out == NULL || out->type == NULL || out->type->kind != PL_TYPE_TENSOR) return NULL;
    for (uint32_t i = 0; i < node->n_in; i++) {
        pl_value *in = node->in[i];
        if (in == NULL || in->init != NULL || in->graph != node->graph) continue;
        if (in->type != NULL && in->type->has_rank && pl_type_equal(in->type, out->type)) return in;
    }
    return NULL;
}

bool pl_mini_can_bypass(const pl_node *node) {
    return pl_mini_stand_in(node) != NULL;
}

pl_status pl_mini_redirect(void *ctx, pl_graph *graph, pl_err *err) {
    pl_value *const *instead = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != NULL && instead[node->in[k]->id] != NULL) {
                node->in[k] = instead[node->in[k]->id];
            }
        }
        PL_TRY(pl_node_each_body(node, pl_mini_redirect, ctx, err));
    }
    for (size_t i = 0; i < graph->n_outputs && graph->parent != NULL; i++)
        if (instead[graph->outputs[i]->id] != NULL)
            graph->outputs[i] = instead[graph->outputs[i]->id];
    return PL_OK;
}

void pl_mini_move_outputs(pl_graph *graph, pl_value *const *instead) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        pl_value *v = graph->outputs[i], *to = instead[v->id];
        if (to != NULL) {
            v->is_output = false;
            if (to->producer == NULL || to->is_output) continue;
            to->is_output = true;
            v = to;
        }
        graph->outputs[n++] = v;
    }
    graph->n_outputs = n;
}

pl_status pl_mini_bypass(pl_mini *m, const pl_mini_state *from, const bool *keep,
                         pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    pl_status st = PL_OK;
    size_t n_dropped = 0, n_dead = 0;
    pl_value **instead = NULL;
    bool *drop = NULL;
    *out = NULL;
    (void)m;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_graph *graph = s->model->graph;
    instead = pl_calloc((size_t)s->model->n_values + 1, sizeof(pl_value *));
    drop = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (instead == NULL || drop == NULL) {
        st = pl_fail_memory(err, s->model->n_values);
        goto done;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        pl_value *in = keep[i] ? NULL : pl_mini_stand_in(node);
        if (in == NULL) continue;
        drop[i] = true;
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL) continue;
            instead[node->out[k]->id] = instead[in->id] != NULL ? instead[in->id] : in;
        }
    }
    PL_TRY_GOTO(done, st, pl_mini_redirect(instead, graph, err));
    pl_mini_move_outputs(graph, instead);
    if (graph->n_outputs == 0) goto done;
    PL_TRY_GOTO(done, st, pl_graph_remove_nodes(graph, drop, err));
    PL_TRY_GOTO(done, st, pl_graph_remove_dead(graph, &n_dead, err));
    PL_TRY_GOTO(done, st, pl_mini_state_drop_unused(s, &n_dropped, err));
    pl_mini_values_unref(s->values); /* later values have changed */
    s->values = NULL;
    if (graph->n_nodes == 0) goto done;
    *out = s;
    s = NULL;
done:
    pl_mini_state_free(s);
    pl_free(instead);
    pl_free(drop);
    return st;
}
