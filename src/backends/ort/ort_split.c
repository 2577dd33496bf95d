/* Splitting Relu off the convolutions of a graph that ONNX Runtime has optimised. */
#include "backends/ort/ort_split.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "onnx/onnx.h"

static bool has_relu(const pl_node *node) {
    const pl_attr *act = pl_node_attr(node, "activation");
    return strcmp(node->domain, PL_ORT_NCHWC) == 0 && strcmp(node->op, "Conv") == 0 &&
           node->n_out == 1 && node->out[0] != NULL && act != NULL && act->type == PL_ATTR_STRING &&
           act->s.n_bytes == 4 && memcmp(act->s.data, "Relu", 4) == 0;
}

static void drop_attr(pl_node *node, const char *name) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (strcmp(node->attrs[i].name, name) != 0) node->attrs[n++] = node->attrs[i];
    }
    node->n_attrs = n;
}

/* out = Conv(…, activation = Relu) becomes sum = Conv(…), out = Relu(sum). */
static pl_status split_node(pl_node *node, pl_value **sum, pl_err *err) {
    pl_graph *g = node->graph;
    pl_node *relu = NULL;
    pl_value *out = node->out[0];
    PL_TRY(pl_graph_add_fresh_value(g, "plumb_before_relu", sum, err));
    PL_TRY(pl_graph_add_node(g, "Relu", "", 1, 1, &relu, err));
    drop_attr(node, "activation");
    pl_node_set_output(node, 0, *sum);
    relu->in[0] = *sum;
    pl_node_set_output(relu, 0, out);
    return PL_OK;
}

/* The entry for the input of a Relu that was split off; `graph` owns its name. */
static pl_status watch_of(pl_model *graph, const pl_ort_map *map, const pl_node *node,
                          const pl_value *sum, pl_ort_watch *out, pl_err *err) {
    *out = pl_ort_map_before(map, node->out[0], "Relu");
    out->name = pl_model_intern(graph, sum->name, strlen(sum->name));
    return out->name == NULL ? pl_fail_memory(err, strlen(sum->name)) : PL_OK;
}

/* New values of the split nodes, by node index; name = NULL if the node was not split. */
static pl_status split_all(pl_model *graph, const pl_ort_map *map, pl_model *copy,
                           pl_ort_watch *added, size_t *n_added, pl_err *err) {
    const pl_graph *g = graph->graph;
    for (size_t i = 0; i < g->n_nodes; i++) {
        pl_value *sum = NULL;
        if (!has_relu(g->nodes[i])) continue;
        if (pl_ort_map_before(map, g->nodes[i]->out[0], "Relu").stands_for == NULL) continue;
        PL_TRY(split_node(copy->graph->nodes[i], &sum, err));
        PL_TRY(watch_of(graph, map, g->nodes[i], sum, &added[i], err));
        ++*n_added;
    }
    return PL_OK;
}

static const pl_ort_watch *added_before(const pl_model *graph, const pl_ort_watch *added,
                                        const pl_ort_watch *watch) {
    const pl_value *v = pl_graph_find(graph->graph, watch->name);
    if (v == NULL || v->producer == NULL) return NULL;
    const pl_ort_watch *found = &added[v->producer->index];
    return found->name == NULL ? NULL : found;
}

pl_status pl_ort_split(pl_model *graph, const pl_ort_map *map, const pl_ort_watch *watched,
                       size_t n, const pl_onnx_refer *refer, pl_buf *onnx, pl_ort_watch **out,
                       size_t *n_out, pl_err *err) {
    pl_model *copy = NULL;
    size_t n_added = 0;
    pl_status st = PL_OK;
    *n_out = n;
    *out = NULL;
    pl_ort_watch *added = pl_calloc(graph->graph->n_nodes + 1, sizeof(*added));
    if (added == NULL) return pl_fail_memory(err, graph->graph->n_nodes);
    PL_TRY_GOTO(done, st, pl_model_copy(graph, &copy, err));
    PL_TRY_GOTO(done, st, split_all(graph, map, copy, added, &n_added, err));
    if (n_added == 0) goto done;
    PL_TRY_GOTO(done, st, pl_model_serialize_referring(copy, refer, onnx, err));
    *out = pl_calloc(n + n_added + 1, sizeof(**out));
    if (*out == NULL || !pl_buf_ok(onnx)) {
        st = pl_fail_memory(err, onnx->n_bytes);
        goto done;
    }
    *n_out = 0;
    for (size_t i = 0; i < n; i++) {
        const pl_ort_watch *before = added_before(graph, added, &watched[i]);
        if (before != NULL) (*out)[(*n_out)++] = *before;
        (*out)[(*n_out)++] = watched[i];
    }
done:
    pl_model_free(copy);
    pl_free(added);
    return st;
}
