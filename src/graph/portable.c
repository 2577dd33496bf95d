/* What a model must satisfy to be written to a file. */
#include "graph/portable.h"

#include "base/alloc.h"

typedef struct import {
    pl_opset opset;
    const pl_node *user; /* first node of the domain; NULL: none yet */
} import;

typedef struct collecting {
    pl_strmap by_domain; /* domain -> import */
    pl_arena *arena;
} collecting;

static import *import_of(collecting *c, const char *domain) {
    import *found = pl_strmap_get(&c->by_domain, domain);
    if (found != NULL) return found;
    found = pl_arena_alloc(c->arena, sizeof *found);
    if (found == NULL) return NULL;
    found->opset.domain = domain;
    return pl_strmap_put(&c->by_domain, domain, found) == 0 ? found : NULL;
}

static pl_status collect_graph(void *ctx, pl_graph *graph, pl_err *err);

static pl_status collect_node(collecting *c, const pl_node *node, pl_err *err) {
    char text[600];
    /* A domain that is not imported stays that way. */
    if (node->opset == 0) return pl_node_each_body(node, collect_graph, c, err);
    import *i = import_of(c, node->domain);
    if (i == NULL) return pl_fail_memory(err, sizeof *i);
    if (i->user != NULL && i->opset.version != node->opset)
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "%s follows opset %d of domain '%s' (from a function), other nodes opset "
                       "%d: a file can import only one",
                       pl_node_describe(node, text, sizeof text), node->opset, node->domain,
                       i->opset.version);
    i->user = node;
    i->opset.version = node->opset;
    return pl_node_each_body(node, collect_graph, c, err);
}

static pl_status collect_graph(void *ctx, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(collect_node(ctx, graph->nodes[i], err));
    return PL_OK;
}

static pl_status collect(collecting *c, const pl_model *model, pl_opset **out, size_t *n_out,
                         pl_err *err) {
    for (size_t i = 0; i < model->n_opsets; i++) {
        import *made = import_of(c, model->opsets[i].domain);
        if (made == NULL) return pl_fail_memory(err, sizeof *made);
        made->opset = model->opsets[i];
    }
    PL_TRY(collect_graph(c, model->graph, err));
    *out = pl_arena_array(c->arena, c->by_domain.n_entries, sizeof **out);
    if (*out == NULL) return pl_fail_memory(err, c->by_domain.n_entries * sizeof **out);
    for (size_t i = 0; i < c->by_domain.n_entries; i++)
        (*out)[i] = ((const import *)c->by_domain.entries[i].value)->opset;
    *n_out = c->by_domain.n_entries;
    return PL_OK;
}

pl_status pl_model_collect_opsets(const pl_model *model, pl_arena *arena, pl_opset **out,
                                  size_t *n_out, pl_err *err) {
    collecting c = { PL_STRMAP_INIT, arena };
    const pl_status st = collect(&c, model, out, n_out, err);
    pl_strmap_release(&c.by_domain);
    return st;
}

pl_status pl_graph_list_typed(const pl_graph *graph, pl_value ***out, size_t *n_out, pl_err *err) {
    pl_strmap outputs = PL_STRMAP_INIT; /* is_output is set for outputs of bodies, too */
    pl_status st = PL_OK;
    size_t n = 0;
    pl_value **list = pl_calloc(graph->n_values + 1, sizeof(pl_value *));
    if (list == NULL) st = pl_fail_memory(err, graph->n_values);
    for (size_t i = 0; st == PL_OK && i < graph->n_outputs; i++) {
        pl_value *value = graph->outputs[i];
        if (value->graph != graph) continue;
        if (pl_strmap_put(&outputs, value->name, value) != 0) st = pl_fail_memory(err, 0);
    }
    for (size_t i = 0; st == PL_OK && i < graph->n_values; i++) {
        pl_value *value = graph->values[i];
        if (value->is_input || value->producer == NULL || value->type == NULL) continue;
        if (value->type->kind == PL_TYPE_NONE) continue;
        if (value->is_output && pl_strmap_has(&outputs, value->name)) continue;
        list[n++] = value;
    }
    pl_strmap_release(&outputs);
    if (st != PL_OK) {
        pl_free(list);
        return st;
    }
    *out = list;
    *n_out = n;
    return PL_OK;
}

pl_status pl_graph_check_capture(const pl_graph *graph, const pl_value *value, pl_err *err) {
    if (value->graph == graph || pl_graph_find_in_scope(graph, value->name) == value) return PL_OK;
    return pl_fail(
        err, PL_E_INVALID,
        "graph '%s' uses '%s' of graph '%s', but a nearer value of the same name hides it",
        graph->name, value->name, value->graph->name);
}
