/* Cutting a model between values.
 *
 * Backwards from the wanted values, stopping at those that become inputs. Every `from` becomes an
 * input, needed or not, in the order given; model inputs that are still needed follow in the
 * model's order. */
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "graph/copy_int.h"
#include "graph/edit.h"

typedef struct cutting {
    const pl_graph *graph;
    pl_value **from, **to;
    size_t n_from, n_to;
    bool *is_from;      /* by value id */
    bool *needed;       /* by value id, values of the main graph */
    bool *node_needed;  /* by index */
    pl_value **waiting; /* needed values whose producer was not visited yet */
    size_t n_waiting;
} cutting;

/* ---- finding ---- */

typedef struct find_ctx {
    const char *name;
    bool found;
} find_ctx;

static pl_status find_in_bodies(void *ctx, pl_graph *body, pl_err *err) {
    find_ctx *f = ctx;
    f->found = f->found || pl_graph_find(body, f->name) != NULL;
    for (size_t i = 0; i < body->n_nodes && !f->found; i++)
        PL_TRY(pl_node_each_body(body->nodes[i], find_in_bodies, ctx, err));
    return PL_OK;
}

static const char *value_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    return i < graph->n_values ? graph->values[i]->name : NULL;
}

static pl_status fail_value(const pl_graph *graph, const char *name, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, strlen(name), value_at, graph);
    const pl_status st =
        pl_fail(err, PL_E_NOT_FOUND, "the model has no value '%s'%s", name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static pl_status find_values(const pl_graph *graph, const char *const *names, size_t n,
                             pl_value **out, size_t *n_out, bool *seen, pl_err *err) {
    for (size_t i = 0; i < n; i++) {
        pl_value *value = pl_graph_find(graph, names[i]);
        if (value == NULL) {
            find_ctx f = { names[i], false };
            for (size_t k = 0; k < graph->n_nodes && !f.found; k++)
                PL_TRY(pl_node_each_body(graph->nodes[k], find_in_bodies, &f, err));
            return f.found ? pl_fail(err, PL_E_NOT_FOUND,
                                     "value '%s' is inside the body of a node: only values of the "
                                     "main graph can be cut",
                                     names[i])
                           : fail_value(graph, names[i], err);
        }
        if (seen[value->id]) continue;
        seen[value->id] = true;
        out[(*n_out)++] = value;
    }
    return PL_OK;
}

/* ---- what is needed ---- */

static void need(cutting *c, pl_value *value) {
    if (value == NULL || value->graph != c->graph || c->needed[value->id]) return;
    c->needed[value->id] = true;
    if (!c->is_from[value->id]) c->waiting[c->n_waiting++] = value;
}

static pl_status need_body(void *ctx, pl_graph *body, pl_err *err);

static pl_status need_inputs(cutting *c, const pl_node *node, pl_err *err) {
    for (uint32_t i = 0; i < node->n_in; i++)
        need(c, node->in[i]);
    return pl_node_each_body(node, need_body, c, err);
}

static pl_status need_body(void *ctx, pl_graph *body, pl_err *err) {
    for (size_t i = 0; i < body->n_nodes; i++)
        PL_TRY(need_inputs(ctx, body->nodes[i], err));
    for (size_t i = 0; i < body->n_outputs; i++)
        need(ctx, body->outputs[i]);
    return PL_OK;
}

static pl_status need_all(cutting *c, pl_err *err) {
    for (size_t i = 0; i < c->n_to; i++)
        need(c, c->to[i]);
    while (c->n_waiting > 0) {
        const pl_node *node = c->waiting[--c->n_waiting]->producer;
        if (node == NULL || c->node_needed[node->index]) continue;
        c->node_needed[node->index] = true;
        PL_TRY(need_inputs(c, node, err));
    }
    return PL_OK;
}

/* ---- building ---- */

static pl_status copy_values(const cutting *c, pl_copier *copier) {
    pl_graph *to = copier->to->graph;
    for (size_t i = 0; i < c->graph->n_values; i++) {
        const pl_value *v = c->graph->values[i];
        const bool made = v->producer != NULL && c->node_needed[v->producer->index];
        const bool cut_off = c->is_from[v->id];
        if (!c->needed[v->id] && !cut_off && !made) continue;
        PL_TRY(pl_copy_value(copier, v, to));
        /* A weight that becomes an input loses its data; an input keeps its default. */
        if (!cut_off || v->is_input) PL_TRY(pl_copy_init(copier, v));
    }
    return PL_OK;
}

/* A needed node may also produce a value that is now an input: rename that output. */
static pl_status rename_outputs(const cutting *c, pl_copier *copier) {
    for (size_t i = 0; i < c->n_from; i++) {
        const pl_value *v = c->from[i];
        pl_value *fresh = NULL;
        if (v->producer == NULL || !c->node_needed[v->producer->index]) continue;
        PL_TRY(pl_graph_add_fresh_value(copier->to->graph, v->name, &fresh, copier->err));
        pl_value *input = copier->values[v->id];
        pl_node_set_output(input->producer, v->producer_slot, fresh);
        input->producer = NULL;
    }
    return PL_OK;
}

static pl_status build(const cutting *c, pl_copier *copier) {
    pl_graph *to = copier->to->graph;
    pl_err *err = copier->err;
    PL_TRY(pl_copy_text(copier, c->graph->doc, &to->doc));
    PL_TRY(copy_values(c, copier));
    for (size_t i = 0; i < c->n_from; i++)
        PL_TRY(pl_graph_add_input(to, copier->values[c->from[i]->id], err));
    for (size_t i = 0; i < c->graph->n_inputs; i++) {
        const pl_value *v = c->graph->inputs[i];
        if (c->needed[v->id] && !c->is_from[v->id])
            PL_TRY(pl_graph_add_input(to, copier->values[v->id], err));
    }
    for (size_t i = 0; i < c->graph->n_nodes; i++) {
        if (c->node_needed[i]) PL_TRY(pl_copy_node(copier, c->graph->nodes[i], to));
    }
    PL_TRY(rename_outputs(c, copier));
    for (size_t i = 0; i < c->n_to; i++)
        PL_TRY(pl_graph_add_output(to, copier->values[c->to[i]->id], err));
    return PL_OK;
}

/* ---- the whole ---- */

static pl_status choose_ends(cutting *c, const char *const *from, size_t n_from,
                             const char *const *to, size_t n_to, bool *seen, pl_err *err) {
    for (size_t i = 0; n_from == 0 && i < c->graph->n_inputs; i++) {
        c->from[c->n_from++] = c->graph->inputs[i];
        c->is_from[c->graph->inputs[i]->id] = true;
    }
    PL_TRY(find_values(c->graph, from, n_from, c->from, &c->n_from, c->is_from, err));
    for (size_t i = 0; n_to == 0 && i < c->graph->n_outputs; i++)
        c->to[c->n_to++] = c->graph->outputs[i];
    return find_values(c->graph, to, n_to, c->to, &c->n_to, seen, err);
}

static pl_status cut(cutting *c, const pl_model *model, pl_model **out, pl_err *err) {
    pl_copier copier;
    PL_TRY(need_all(c, err));
    pl_status st = pl_copier_init(&copier, model, err);
    if (st == PL_OK) st = build(c, &copier);
    if (st == PL_OK) {
        *out = copier.to;
        copier.to = NULL;
    }
    pl_copier_release(&copier);
    return st;
}

pl_status pl_model_cut(const pl_model *model, const char *const *from, size_t n_from,
                       const char *const *to, size_t n_to, pl_model **out, pl_err *err) {
    const size_t n_values = (size_t)model->n_values + 1;
    const pl_graph *graph = model->graph;
    cutting c = { .graph = graph };
    pl_status st = PL_OK;
    bool *seen = pl_calloc(n_values, sizeof *seen);
    c.from = pl_calloc(n_from + graph->n_inputs + 1, sizeof(pl_value *));
    c.to = pl_calloc(n_to + graph->n_outputs + 1, sizeof(pl_value *));
    c.is_from = pl_calloc(n_values, sizeof *c.is_from);
    c.needed = pl_calloc(n_values, sizeof *c.needed);
    c.node_needed = pl_calloc(graph->n_nodes + 1, sizeof *c.node_needed);
    c.waiting = pl_calloc(n_values, sizeof(pl_value *));
    if (seen == NULL || c.from == NULL || c.to == NULL || c.is_from == NULL || c.needed == NULL ||
        c.node_needed == NULL || c.waiting == NULL) {
        st = pl_fail_memory(err, n_values);
        goto done;
    }
    PL_TRY_GOTO(done, st, choose_ends(&c, from, n_from, to, n_to, seen, err));
    st = cut(&c, model, out, err);
done:
    pl_free(seen);
    pl_free(c.from);
    pl_free(c.to);
    pl_free(c.is_from);
    pl_free(c.needed);
    pl_free(c.node_needed);
    pl_free(c.waiting);
    return st;
}
