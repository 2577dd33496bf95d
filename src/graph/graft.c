/* Copies parts of one model into another: the nodes that compute chosen values, with their
 * weights. */
#include <string.h>

#include "base/alloc.h"
#include "graph/copy_int.h"
#include "graph/edit.h"

typedef struct graft {
    pl_copier copier;
    const pl_graph *from;
    bool *need; /* by value id of `from` */
    bool *take; /* by node index of `from` */
} graft;

static pl_status mark(graft *g, pl_err *err) {
    for (size_t i = g->from->n_nodes; i-- > 0;) {
        const pl_node *node = g->from->nodes[i];
        char text[200];
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_value *v = node->out[k];
            g->take[i] =
                g->take[i] || (v != NULL && g->need[v->id] && g->copier.values[v->id] == NULL);
        }
        if (!g->take[i]) continue;
        if (pl_node_has_body(node))
            return pl_fail(err, PL_E_UNSUPPORTED, "%s has a body, which cannot be taken over",
                           pl_node_describe(node, text, sizeof(text)));
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != NULL) g->need[node->in[k]->id] = true;
    }
    return PL_OK;
}

/* Copies inputs of the node that have no replacement yet: weights, with their tensors. */
static pl_status bring_inputs(graft *g, const pl_node *node, pl_err *err) {
    for (uint32_t k = 0; k < node->n_in; k++) {
        const pl_value *v = node->in[k];
        if (v == NULL || g->copier.values[v->id] != NULL) continue;
        if (v->init == NULL)
            return pl_fail(err, PL_E_INVALID, "nothing in the model stands for '%s'", v->name);
        PL_TRY(
            pl_graph_add_fresh_value(g->copier.to->graph, v->name, &g->copier.values[v->id], err));
        PL_TRY(pl_copy_init(&g->copier, v));
    }
    return PL_OK;
}

/* Outputs that have a replacement are computed, too, but not read. */
static pl_status copy_one(graft *g, const pl_node *node, pl_err *err) {
    pl_value **map = g->copier.values;
    pl_value **others = pl_calloc((size_t)node->n_out + 1, sizeof(pl_value *));
    pl_status st = PL_OK;
    if (others == NULL) return pl_fail_memory(err, node->n_out);
    PL_TRY_GOTO(done, st, bring_inputs(g, node, err));
    for (uint32_t k = 0; k < node->n_out; k++) {
        const pl_value *v = node->out[k];
        if (v == NULL) continue;
        others[k] = map[v->id];
        PL_TRY_GOTO(done, st,
                    pl_graph_add_fresh_value(g->copier.to->graph, v->name, &map[v->id], err));
    }
    PL_TRY_GOTO(done, st, pl_copy_node(&g->copier, node, g->copier.to->graph));
    for (uint32_t k = 0; k < node->n_out; k++)
        if (others[k] != NULL) map[node->out[k]->id] = others[k];
done:
    pl_free(others);
    return st;
}

pl_status pl_graph_graft(const pl_model *from, pl_model *to, const bool *wanted, pl_value **map,
                         pl_err *err) {
    graft g = { .copier = { .to = to, .values = map, .err = err }, .from = from->graph };
    pl_status st = PL_OK;
    g.need = pl_calloc((size_t)from->n_values + 1, sizeof(bool));
    g.take = pl_calloc(g.from->n_nodes + 1, sizeof(bool));
    if (g.need == NULL || g.take == NULL) {
        st = pl_fail_memory(err, from->n_values);
        goto done;
    }
    memcpy(g.need, wanted, (size_t)from->n_values * sizeof(bool));
    PL_TRY_GOTO(done, st, mark(&g, err));
    for (size_t i = 0; i < g.from->n_nodes; i++)
        if (g.take[i]) PL_TRY_GOTO(done, st, copy_one(&g, g.from->nodes[i], err));
done:
    pl_free(g.need);
    pl_free(g.take);
    return st;
}
