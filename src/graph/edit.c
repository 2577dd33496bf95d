/* Removing nodes and redirecting uses. */
#include "graph/edit.h"

#include <string.h>

#include "base/alloc.h"

/* ---- what is needed ---- */

typedef struct marking {
    pl_graph *graph;
    bool *values;       /* by value id */
    bool *nodes;        /* by index in graph */
    pl_value **waiting; /* marked values of graph whose producer was not visited yet */
    size_t n_waiting;
} marking;

/* Each value enters `waiting` once, so it never holds more than there are values. */
static void mark(marking *m, pl_value *value) {
    if (value == NULL || m->values[value->id]) return;
    m->values[value->id] = true;
    if (value->graph == m->graph) m->waiting[m->n_waiting++] = value;
}

static pl_status mark_body(void *ctx, pl_graph *body, pl_err *err);

static pl_status mark_uses(marking *m, const pl_node *node, pl_err *err) {
    for (uint32_t i = 0; i < node->n_in; i++)
        mark(m, node->in[i]);
    return pl_node_each_body(node, mark_body, m, err);
}

static pl_status mark_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++)
        PL_TRY(mark_uses(ctx, body->nodes[i], err));
    for (size_t i = 0; i < body->n_outputs; i++)
        mark(ctx, body->outputs[i]);
    return PL_OK;
}

static pl_status mark_all(marking *m, pl_err *err) {
    for (size_t i = 0; i < m->graph->n_outputs; i++)
        mark(m, m->graph->outputs[i]);
    while (m->n_waiting > 0) {
        const pl_node *node = m->waiting[--m->n_waiting]->producer;
        if (node == NULL || m->nodes[node->index]) continue;
        m->nodes[node->index] = true;
        PL_TRY(mark_uses(m, node, err));
    }
    return PL_OK;
}

/* ---- removing ---- */

/* Keeps the values for which keep[index] is true; rebuilds the map of names. */
static pl_status filter_values(pl_graph *graph, const bool *keep, pl_err *err) {
    pl_strmap names = PL_STRMAP_INIT;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *value = graph->values[i];
        if (!keep[i]) continue;
        if (pl_strmap_put(&names, value->name, value) != 0) {
            pl_strmap_release(&names);
            return pl_fail_memory(err, sizeof(pl_value *));
        }
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        if (keep[i]) graph->values[n++] = graph->values[i];
    }
    graph->n_values = n;
    pl_strmap_release(&graph->by_name);
    graph->by_name = names;
    return PL_OK;
}

static void filter_nodes(pl_graph *graph, const bool *drop) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        if (drop[i]) continue;
        node->index = (uint32_t)n;
        graph->nodes[n++] = node;
    }
    graph->n_nodes = n;
}

pl_status pl_graph_remove_nodes(pl_graph *graph, const bool *drop, pl_err *err) {
    bool *keep = pl_calloc(graph->n_values + 1, sizeof *keep);
    if (keep == NULL) return pl_fail_memory(err, graph->n_values);
    for (size_t i = 0; i < graph->n_nodes; i++)
        graph->nodes[i]->index = (uint32_t)i;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        keep[i] = v->producer == NULL || !drop[v->producer->index] || v->is_input || v->is_output ||
                  v->init != NULL;
    }
    const pl_status st = filter_values(graph, keep, err);
    pl_free(keep);
    PL_TRY(st);
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *v = graph->values[i];
        if (v->producer != NULL && drop[v->producer->index]) v->producer = NULL;
    }
    filter_nodes(graph, drop);
    return PL_OK;
}

/* ---- names ---- */

static pl_status unshadow_body(void *ctx, pl_graph *body, pl_err *err) {
    bool renamed = false;
    for (size_t i = 0; i < body->n_values; i++) {
        pl_value *value = body->values[i];
        if (pl_graph_find_in_scope(body->parent, value->name) == NULL) continue;
        const char *name =
            pl_arena_printf(body->model->arena, "%s/%s#%u", body->name, value->name, value->id);
        if (name == NULL) return pl_fail_memory(err, strlen(value->name));
        value->name = name;
        renamed = true;
    }
    if (renamed) {
        bool *keep = pl_calloc(body->n_values + 1, sizeof *keep);
        if (keep == NULL) return pl_fail_memory(err, body->n_values);
        memset(keep, 1, body->n_values);
        const pl_status st = filter_values(body, keep, err);
        pl_free(keep);
        PL_TRY(st);
    }
    for (size_t i = 0; i < body->n_nodes; i++)
        PL_TRY(pl_node_each_body(body->nodes[i], unshadow_body, ctx, err));
    return PL_OK;
}

pl_status pl_graph_unshadow(pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], unshadow_body, NULL, err));
    return PL_OK;
}

/* ---- dead code ---- */

static pl_status remove_dead_body(void *ctx, pl_graph *body, pl_err *err) {
    size_t n = 0;
    PL_TRY(pl_graph_remove_dead(body, &n, err));
    *(size_t *)ctx += n;
    return PL_OK;
}

static pl_status remove_unmarked(pl_graph *graph, const marking *m, size_t *n_removed,
                                 pl_err *err) {
    pl_status st = PL_OK;
    bool *drop = pl_calloc(graph->n_nodes + 1, sizeof *drop);
    bool *keep = pl_calloc(graph->n_values + 1, sizeof *keep);
    if (drop == NULL || keep == NULL) {
        st = pl_fail_memory(err, graph->n_nodes + graph->n_values);
        goto done;
    }
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        const bool made = v->producer != NULL && m->nodes[v->producer->index];
        keep[i] = v->is_input || made || m->values[v->id];
    }
    PL_TRY_GOTO(done, st, filter_values(graph, keep, err));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        drop[i] = !m->nodes[i];
        *n_removed += drop[i];
    }
    filter_nodes(graph, drop);
done:
    pl_free(drop);
    pl_free(keep);
    return st;
}

pl_status pl_graph_remove_dead(pl_graph *graph, size_t *n_removed, pl_err *err) {
    marking m = { .graph = graph };
    pl_status st = PL_OK;
    *n_removed = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        graph->nodes[i]->index = (uint32_t)i;
        PL_TRY(pl_node_each_body(graph->nodes[i], remove_dead_body, n_removed, err));
    }
    m.values = pl_calloc((size_t)graph->model->n_values + 1, sizeof *m.values);
    m.nodes = pl_calloc(graph->n_nodes + 1, sizeof *m.nodes);
    m.waiting = pl_calloc(graph->n_values + 1, sizeof(pl_value *));
    if (m.values == NULL || m.nodes == NULL || m.waiting == NULL) {
        st = pl_fail_memory(err, graph->model->n_values);
        goto done;
    }
    PL_TRY_GOTO(done, st, mark_all(&m, err));
    st = remove_unmarked(graph, &m, n_removed, err);
done:
    pl_free(m.values);
    pl_free(m.nodes);
    pl_free(m.waiting);
    return st;
}

/* ---- redirecting ---- */

typedef struct redirect {
    pl_value *from, *to;
} redirect;

static pl_status redirect_graph(void *ctx, pl_graph *graph, pl_err *err) {
    const redirect *r = ctx;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] == r->from) node->in[k] = r->to;
        }
        PL_TRY(pl_node_each_body(node, redirect_graph, ctx, err));
    }
    for (size_t i = 0; i < graph->n_outputs; i++) {
        if (graph->outputs[i] != r->from) continue;
        graph->outputs[i] = r->to;
        r->to->is_output = true;
        if (r->from->graph == graph) r->from->is_output = false;
    }
    return PL_OK;
}

pl_status pl_graph_replace_uses(pl_graph *graph, pl_value *from, pl_value *to, pl_err *err) {
    for (const pl_graph *around = graph; around != to->graph; around = around->parent) {
        if (around->parent == NULL)
            return pl_fail(err, PL_E_INVALID, "value '%s' is not visible in graph '%s'", to->name,
                           graph->name);
    }
    if (from == to) return PL_OK;
    redirect r = { from, to };
    return redirect_graph(&r, graph, err);
}

/* ---- IR version ---- */

void pl_model_raise_ir(pl_model *model) {
    pl_graph *graph = model->graph;
    size_t n = 0;
    if (model->ir_version >= 4) return;
    model->ir_version = 4;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_value *value = graph->inputs[i];
        value->is_input = value->init == NULL;
        if (value->is_input) graph->inputs[n++] = value;
    }
    graph->n_inputs = n;
}
