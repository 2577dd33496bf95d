/* Makes a state from any subset of the nodes of another.
 *
 * A value that a kept node needs from a removed one becomes an input with the recorded data, or a
 * weight if it depends on no input of the model. A value that a kept node computed for others
 * becomes an output, so a failure of two distant nodes remains when everything between them is
 * removed. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_values.h"
#include "graph/edit.h"
#include "ops/op.h"

typedef struct cutting {
    const pl_graph *graph;
    const bool *keep;  /* by node index */
    bool *from_others; /* by value id: needed by a kept node, made by one that is gone */
    bool *for_others;  /* by value id: used by a node that is gone */
    bool *for_kept;    /* by value id */
    bool *constant;    /* by value id: depends on no input */
    const char **from, **to;
    size_t n_from, n_to;
    const pl_node *at;
} cutting;

static void note_use(cutting *c, const pl_value *v) {
    if (v == NULL || v->graph != c->graph) return;
    if (!c->keep[c->at->index]) {
        c->for_others[v->id] = true;
        return;
    }
    c->for_kept[v->id] = true;
    if (v->producer == NULL || c->keep[v->producer->index] || c->from_others[v->id]) return;
    c->from_others[v->id] = true;
    c->from[c->n_from++] = v->name;
}

static pl_status note_body(void *ctx, pl_graph *body, pl_err *err) {
    cutting *c = ctx;
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            note_use(c, node->in[k]);
        PL_TRY(pl_node_each_body(node, note_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        note_use(c, body->outputs[i]);
    return PL_OK;
}

static void note_constant(cutting *c, const pl_node *node) {
    bool constant = node->def == NULL || !pl_node_is_random(node);
    if (node->def == NULL || pl_node_has_body(node)) constant = false;
    for (uint32_t k = 0; k < node->n_in && constant; k++) {
        const pl_value *v = node->in[k];
        if (v != NULL && !c->constant[v->id]) constant = v->init != NULL && !v->is_input;
    }
    for (uint32_t k = 0; k < node->n_out && constant; k++)
        if (node->out[k] != NULL) c->constant[node->out[k]->id] = true;
}

static pl_status note_all(cutting *c, pl_err *err) {
    for (size_t i = 0; i < c->graph->n_nodes; i++) {
        const pl_node *node = c->graph->nodes[i];
        c->at = node;
        for (uint32_t k = 0; k < node->n_in; k++)
            note_use(c, node->in[k]);
        PL_TRY(pl_node_each_body(node, note_body, c, err));
        note_constant(c, node);
    }
    return PL_OK;
}

/* Outputs of the model first, in order; then values computed for removed nodes. A node without
 * either keeps its first output: dead code can be what fails. */
static void choose_outputs(cutting *c) {
    const pl_graph *graph = c->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const pl_value *v = graph->outputs[i];
        if (v->producer != NULL && c->keep[v->producer->index]) c->to[c->n_to++] = v->name;
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const pl_value *spare = NULL;
        bool needed = !c->keep[i];
        for (uint32_t k = 0; k < node->n_out && c->keep[i]; k++) {
            const pl_value *v = node->out[k];
            if (v == NULL) continue;
            if (spare == NULL) spare = v;
            needed = needed || v->is_output || c->for_others[v->id] || c->for_kept[v->id];
            if (!v->is_output && c->for_others[v->id]) c->to[c->n_to++] = v->name;
        }
        if (!needed && spare != NULL) c->to[c->n_to++] = spare->name;
    }
}

/* ---- data of the new inputs ---- */

static pl_status data_of(pl_mini *m, const pl_mini_state *from, const char *name, pl_datum **out,
                         pl_err *err) {
    const pl_graph *graph = from->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (strcmp(graph->inputs[i]->name, name) != 0) continue;
        *out = from->in[i] == NULL ? NULL : pl_datum_ref(from->in[i]);
        return PL_OK;
    }
    if (pl_mini_values_has(from->values, name)) {
        return pl_mini_values_get(from->values, name, out, err);
    }
    /* The value of a Constant is known without a run. */
    const pl_value *v = pl_graph_find(graph, name);
    *out = NULL;
    if (m->with_data || v == NULL || !pl_node_has_flag(v->producer, PL_OP_CONSTANT)) return PL_OK;
    pl_tensor *t = v->producer->def == NULL ? NULL : pl_attr_tensor(v->producer, "value");
    return t == NULL ? PL_OK : pl_datum_of_tensor_take(pl_tensor_ref(t), out, err);
}

static pl_status declare(pl_model *model, pl_value *value, const pl_datum *d, pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return PL_OK;
    for (int i = 0; i < d->tensor->rank; i++)
        dims[i] = pl_dim_of(d->tensor->dims[i]);
    value->type = pl_type_tensor(model->arena, d->tensor->dtype, d->tensor->rank, dims);
    return value->type == NULL ? pl_fail_memory(err, sizeof(pl_type)) : PL_OK;
}

/* *whole is false when an input has no data but needs some. */
static pl_status feed(pl_mini *m, const pl_mini_state *from, const cutting *c, pl_mini_state *s,
                      bool *whole, pl_err *err) {
    pl_graph *graph = s->model->graph;
    *whole = true;
    for (size_t i = 0; i < graph->n_inputs && *whole; i++) {
        pl_value *value = graph->inputs[i];
        PL_TRY(data_of(m, from, value->name, &s->in[i], err));
        const pl_value *old = pl_graph_find(from->model->graph, value->name);
        const bool was_input = old != NULL && old->is_input;
        if (!was_input || m->with_data) PL_TRY(declare(s->model, value, s->in[i], err));
        *whole = s->in[i] != NULL || value->init != NULL || !m->with_data;
    }
    for (size_t i = graph->n_inputs; i > 0 && *whole; i--) {
        const pl_value *old = pl_graph_find(from->model->graph, graph->inputs[i - 1]->name);
        if (old != NULL && !old->is_input && c->constant[old->id]) {
            PL_TRY(pl_mini_state_freeze(s, i - 1, err));
        }
    }
    return PL_OK;
}

static pl_status finish(pl_mini *m, const pl_mini_state *from, const cutting *c, pl_model *model,
                        pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    size_t n_dropped = 0;
    bool whole = false;
    pl_datum **in = pl_calloc(model->graph->n_inputs + 1, sizeof(pl_datum *));
    if (in == NULL) {
        pl_model_free(model);
        return pl_fail_memory(err, 1);
    }
    PL_TRY(pl_mini_state_new_take(model, in, &s, err));
    s->values = pl_mini_values_ref(from->values);
    pl_status st = pl_mini_state_drop_unused(s, &n_dropped, err);
    if (st == PL_OK) st = feed(m, from, c, s, &whole, err);
    if (st == PL_OK && whole) {
        *out = s;
        s = NULL;
    }
    pl_mini_state_free(s);
    return st;
}

/* ---- the two cuts ---- */

static void release(cutting *c) {
    pl_free(c->from_others);
    pl_free(c->for_others);
    pl_free(c->for_kept);
    pl_free(c->constant);
    pl_free(c->from);
    pl_free(c->to);
}

static pl_status start(cutting *c, const pl_mini_state *from, const bool *keep, pl_err *err) {
    const size_t n = (size_t)from->model->n_values + 1;
    *c = (cutting){ .graph = from->model->graph, .keep = keep };
    c->from_others = pl_calloc(n, sizeof(bool));
    c->for_others = pl_calloc(n, sizeof(bool));
    c->for_kept = pl_calloc(n, sizeof(bool));
    c->constant = pl_calloc(n, sizeof(bool));
    c->from = pl_calloc(n, sizeof(char *));
    c->to = pl_calloc(n + c->graph->n_outputs, sizeof(char *));
    if (c->from_others == NULL || c->for_others == NULL || c->for_kept == NULL ||
        c->constant == NULL || c->from == NULL || c->to == NULL) {
        return pl_fail_memory(err, n);
    }
    return PL_OK;
}

pl_status pl_mini_cut(pl_mini *m, const pl_mini_state *from, const bool *keep, pl_mini_state **out,
                      pl_err *err) {
    cutting c;
    pl_model *model = NULL;
    *out = NULL;
    pl_status st = start(&c, from, keep, err);
    if (st == PL_OK) st = note_all(&c, err);
    if (st == PL_OK) {
        choose_outputs(&c);
        if (c.n_to > 0) st = pl_model_cut(from->model, c.from, c.n_from, c.to, c.n_to, &model, err);
    }
    if (st == PL_OK && model != NULL) st = finish(m, from, &c, model, out, err);
    release(&c);
    return st;
}

pl_status pl_mini_cut_outputs(pl_mini *m, const pl_mini_state *from, const bool *keep,
                              pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    cutting c;
    pl_model *model = NULL;
    *out = NULL;
    bool *all = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (all == NULL) return pl_fail_memory(err, graph->n_nodes);
    memset(all, 1, graph->n_nodes);
    pl_status st = start(&c, from, all, err);
    if (st == PL_OK) st = note_all(&c, err);
    for (size_t i = 0; i < graph->n_outputs && st == PL_OK; i++)
        if (keep[i]) c.to[c.n_to++] = graph->outputs[i]->name;
    if (st == PL_OK && c.n_to > 0) {
        st = pl_model_cut(from->model, NULL, 0, c.to, c.n_to, &model, err);
    }
    if (st == PL_OK && model != NULL) st = finish(m, from, &c, model, out, err);
    release(&c);
    pl_free(all);
    return st;
}
