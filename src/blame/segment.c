/* Segments: walks backwards and stops at recorded values. */
#include "blame/segment.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"

pl_status pl_segmenter_init(pl_segmenter *s, const pl_model *model, pl_has_fn has, void *ctx,
                            pl_err *err) {
    const size_t n_nodes = model->graph->n_nodes;
    *s = (pl_segmenter){ .model = model, .has = has, .ctx = ctx };
    s->node_mark = pl_calloc(n_nodes + 1, sizeof(uint32_t));
    s->value_mark = pl_calloc((size_t)model->n_values + 1, sizeof(uint32_t));
    s->stack = pl_calloc(n_nodes + 1, sizeof(pl_node *));
    if (s->node_mark != NULL && s->value_mark != NULL && s->stack != NULL) return PL_OK;
    pl_segmenter_release(s);
    return pl_fail_memory(err, n_nodes);
}

void pl_segmenter_release(pl_segmenter *s) {
    pl_free(s->node_mark);
    pl_free(s->value_mark);
    pl_free(s->stack);
    *s = (pl_segmenter){ .model = NULL };
}

typedef struct walk {
    pl_segmenter *s;
    const pl_value **inputs;
    size_t n_stack, n_found, n_inputs, capacity;
    const pl_node **found;
    size_t found_capacity;
    bool failed;
} walk;

static void add_input(walk *w, const pl_value *value) {
    if (w->s->value_mark[value->id] == w->s->epoch) return;
    w->s->value_mark[value->id] = w->s->epoch;
    if (!PL_ARRAY_ROOM(w->inputs, w->n_inputs, &w->capacity)) {
        w->failed = true;
        return;
    }
    w->inputs[w->n_inputs++] = value;
}

static void push(walk *w, const pl_node *node) {
    if (w->s->node_mark[node->index] == w->s->epoch) return;
    w->s->node_mark[node->index] = w->s->epoch;
    w->s->stack[w->n_stack++] = node;
}

static void visit_value(walk *w, const pl_value *value) {
    if (value == NULL || value->graph != w->s->model->graph) return; /* of a body */
    if (value->producer == NULL) {
        if (value->is_input) add_input(w, value);
    } else if (w->s->has(w->s->ctx, value)) {
        add_input(w, value);
    } else {
        push(w, value->producer);
    }
}

/* Visits the outer values that the bodies of a control-flow node use. */
static pl_status visit_body(void *ctx, pl_graph *body, pl_err *err) {
    walk *w = ctx;
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            visit_value(w, node->in[k]);
        PL_TRY(pl_node_each_body(node, visit_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        visit_value(w, body->outputs[i]);
    return PL_OK;
}

static int by_index(const void *a, const void *b) {
    const pl_node *x = *(const pl_node *const *)a, *y = *(const pl_node *const *)b;
    return (x->index > y->index) - (x->index < y->index);
}

static void add_found(walk *w, const pl_node *node) {
    if (!PL_ARRAY_ROOM(w->found, w->n_found, &w->found_capacity)) {
        w->failed = true;
        return;
    }
    w->found[w->n_found++] = node;
}

static pl_status copy_out(const walk *w, pl_arena *arena, pl_segment *out, pl_err *err) {
    const pl_node **nodes = pl_arena_array(arena, w->n_found + 1, sizeof(pl_node *));
    const pl_value **inputs = pl_arena_array(arena, w->n_inputs + 1, sizeof(pl_value *));
    if (nodes == NULL || inputs == NULL) return pl_fail_memory(err, w->n_found);
    for (size_t i = 0; i < w->n_found; i++)
        nodes[i] = w->found[i];
    for (size_t i = 0; i < w->n_inputs; i++)
        inputs[i] = w->inputs[i];
    *out = (pl_segment){
        .nodes = nodes, .n_nodes = w->n_found, .inputs = inputs, .n_inputs = w->n_inputs
    };
    for (size_t i = 0; i < w->n_found; i++)
        out->n_computing += nodes[i]->n_in > 0;
    return PL_OK;
}

pl_status pl_segment_find(pl_segmenter *s, const pl_value *value, pl_arena *arena, pl_segment *out,
                          pl_err *err) {
    walk w = { .s = s };
    pl_status st = PL_OK;
    *out = (pl_segment){ .nodes = NULL };
    if (value->producer == NULL || value->graph != s->model->graph) return PL_OK;
    s->epoch++;
    push(&w, value->producer);
    while (w.n_stack > 0 && st == PL_OK && !w.failed) {
        const pl_node *node = s->stack[--w.n_stack];
        add_found(&w, node);
        for (uint32_t i = 0; i < node->n_in; i++)
            visit_value(&w, node->in[i]);
        st = pl_node_each_body(node, visit_body, &w, err);
    }
    if (st == PL_OK && w.failed) st = pl_fail_memory(err, w.n_found);
    if (st == PL_OK) {
        if (w.n_found > 1) qsort(w.found, w.n_found, sizeof(pl_node *), by_index);
        st = copy_out(&w, arena, out, err);
    }
    pl_free(w.found);
    pl_free(w.inputs);
    return st;
}
