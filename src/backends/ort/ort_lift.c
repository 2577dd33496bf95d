/* Lifting values out of bodies. */
#include "backends/ort/ort_lift.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "graph/edit.h"

/* A value in a body that becomes an output of the node around it. */
typedef struct export {
    pl_value *value;
    size_t watch; /* index */
    int n_stacked;
}
export;

typedef struct exports {
    export *items;
    size_t n, capacity;
} exports;

typedef struct lift {
    pl_model *model;       /* the copy */
    const int64_t *counts; /* runs per body; NULL = insert counters */
    const pl_ort_map *map; /* with counts */
    size_t n_bodies;       /* so far; the next body has this index */
    pl_ort_watch *watched;
    size_t n_watched, capacity;
} lift;

static pl_status add_export(exports *list, export item, pl_err *err) {
    if (!PL_ARRAY_ROOM(list->items, list->n, &list->capacity))
        return pl_fail_memory(err, list->n * sizeof(item));
    list->items[list->n++] = item;
    return PL_OK;
}

static pl_status add_watch(lift *l, pl_ort_watch watch, pl_err *err) {
    if (!PL_ARRAY_ROOM(l->watched, l->n_watched, &l->capacity))
        return pl_fail_memory(err, l->n_watched * sizeof(watch));
    l->watched[l->n_watched++] = watch;
    return PL_OK;
}

/* ---- building graphs ---- */

/* A value with a name that no graph has: a body may not shadow outer names. */
static pl_status add_value(pl_graph *g, pl_value **out, pl_err *err) {
    char name[48];
    snprintf(name, sizeof(name), "plumb_lift!%u", g->model->n_values);
    return pl_graph_add_fresh_value(g, name, out, err);
}

/* value = Constant(int64 scalar) */
static pl_status add_constant(pl_graph *g, int64_t number, pl_value **out, pl_err *err) {
    pl_node *node = NULL;
    pl_tensor *t = NULL;
    PL_TRY(add_value(g, out, err));
    PL_TRY(pl_graph_add_node(g, "Constant", "", 0, 1, &node, err));
    pl_node_set_output(node, 0, *out);
    pl_attr *attr = pl_node_add_attr(node, "value", PL_ATTR_TENSOR);
    if (attr == NULL) return pl_fail_memory(err, sizeof(*attr));
    PL_TRY(pl_tensor_new(PL_I64, 0, NULL, &t, err));
    memcpy(t->data, &number, sizeof(number));
    attr->tensor = t;
    return pl_model_keep_tensor_take(g->model, t, err);
}

static pl_status add_unary(pl_graph *g, const char *op, pl_value *in, pl_value **out, pl_err *err) {
    pl_node *node = NULL;
    PL_TRY(add_value(g, out, err));
    PL_TRY(pl_graph_add_node(g, op, "", 1, 1, &node, err));
    node->in[0] = in;
    pl_node_set_output(node, 0, *out);
    if (strcmp(op, "ReduceSum") != 0) return PL_OK;
    pl_attr *keep = pl_node_add_attr(node, "keepdims", PL_ATTR_INT);
    if (keep == NULL) return pl_fail_memory(err, sizeof(*keep));
    keep->i = 0;
    return PL_OK;
}

/* A graph cannot list a value twice as an output, so add a copy. */
static pl_status add_output(pl_graph *g, pl_value *v, pl_err *err) {
    pl_value *copy = v;
    if (v->is_output) PL_TRY(add_unary(g, "Identity", v, &copy, err));
    return pl_graph_add_output(g, copy, err);
}

/* Adds an output to a node: a new value of its graph. */
static pl_status extend_node(pl_node *node, pl_value **out, pl_err *err) {
    pl_value **outs = pl_arena_array(node->graph->model->arena, node->n_out + 1, sizeof(*outs));
    if (outs == NULL) return pl_fail_memory(err, node->n_out);
    PL_TRY(add_value(node->graph, out, err));
    if (node->n_out > 0) memcpy(outs, node->out, node->n_out * sizeof(*outs));
    node->out = outs;
    pl_node_set_output(node, node->n_out++, *out);
    return PL_OK;
}

/* Scan may list an axis and a direction for each of its scan outputs. */
static pl_status extend_scan(pl_node *node, pl_err *err) {
    static const char *const lists[] = { "scan_output_axes", "scan_output_directions" };
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        pl_attr *a = &node->attrs[i];
        if (strcmp(a->name, lists[0]) != 0 && strcmp(a->name, lists[1]) != 0) continue;
        int64_t *ints = pl_arena_array(node->graph->model->arena, a->n + 1, sizeof(*ints));
        if (ints == NULL) return pl_fail_memory(err, a->n);
        if (a->n > 0) memcpy(ints, a->ints, a->n * sizeof(*ints));
        ints[a->n++] = 0;
        a->ints = ints;
    }
    return PL_OK;
}

/* ---- bodies ---- */

static bool is_op(const pl_node *node, const char *op) {
    return pl_domain_is_onnx(node->domain) && strcmp(node->op, op) == 0;
}

static bool stacks(const pl_node *node) {
    return is_op(node, "Loop") || (is_op(node, "Scan") && node->opset >= 9);
}

static pl_status visit_graph(lift *l, pl_graph *g, const pl_graph *twin, bool live, exports *out,
                             pl_err *err);

/* Exports of the body itself: a counter, or the outputs of its nodes. */
static pl_status export_own(lift *l, pl_graph *body, const pl_graph *twin, exports *out,
                            pl_err *err) {
    if (l->counts == NULL) {
        pl_value *one = NULL;
        PL_TRY(add_constant(body, 1, &one, err));
        return add_export(out, (export){ one, l->n_bodies - 1, 0 }, err);
    }
    for (size_t i = 0; i < twin->n_nodes; i++) {
        for (uint32_t k = 0; k < twin->nodes[i]->n_out; k++) {
            const pl_value *v = twin->nodes[i]->out[k];
            pl_value *mine = v == NULL ? NULL : pl_graph_find(body, v->name);
            const bool other = v != NULL && v->type != NULL && v->type->kind != PL_TYPE_TENSOR &&
                               v->type->kind != PL_TYPE_NONE;
            if (mine == NULL || other) continue;
            PL_TRY(add_export(out, (export){ mine, l->n_watched, 0 }, err));
            PL_TRY(add_watch(l, pl_ort_map_value(l->map, v), err));
        }
    }
    return PL_OK;
}

/* Exports a value from a body, through its node, to the enclosing graph. */
static pl_status hand_on(lift *l, pl_node *node, pl_graph *body, pl_graph *other, export e,
                         exports *out, pl_err *err) {
    pl_value *v = NULL;
    PL_TRY(add_output(body, e.value, err));
    if (other != NULL) { /* counters only */
        pl_value *zero = NULL;
        PL_TRY(add_constant(other, 0, &zero, err));
        PL_TRY(add_output(other, zero, err));
    }
    PL_TRY(extend_node(node, &v, err));
    if (is_op(node, "Scan")) PL_TRY(extend_scan(node, err));
    if (stacks(node) && l->counts == NULL) PL_TRY(add_unary(node->graph, "ReduceSum", v, &v, err));
    return add_export(out, (export){ v, e.watch, e.n_stacked + stacks(node) }, err);
}

static pl_status visit_body(lift *l, pl_node *node, pl_graph *body, const pl_graph *twin,
                            pl_graph *other, bool live, exports *out, pl_err *err) {
    exports inner = { 0 };
    const size_t index = l->n_bodies++;
    if (l->counts == NULL) { /* entries must be in order of the bodies */
        PL_TRY(add_watch(l, (pl_ort_watch){ .name = "" }, err));
    } else {
        live = live && l->counts[index] == 1;
    }
    pl_status st = live ? export_own(l, body, twin, &inner, err) : PL_OK;
    if (st == PL_OK) st = visit_graph(l, body, twin, live, &inner, err);
    for (size_t i = 0; i < inner.n && st == PL_OK; i++)
        st = hand_on(l, node, body, other, inner.items[i], out, err);
    pl_free(inner.items);
    return st;
}

/* The two graph attributes of an If; false if it does not have exactly two. */
static bool branches(pl_node *node, const pl_node *twin, pl_attr *mine[2], const pl_attr *his[2]) {
    size_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        if (node->attrs[i].graph == NULL) continue;
        if (n == 2) return false;
        mine[n] = &node->attrs[i];
        his[n++] = &twin->attrs[i];
    }
    return n == 2;
}

static pl_status visit_if(lift *l, pl_node *node, const pl_node *twin, bool live, exports *out,
                          pl_err *err) {
    pl_attr *mine[2];
    const pl_attr *his[2];
    if (!branches(node, twin, mine, his)) return PL_OK;
    pl_graph *const graphs[2] = { mine[0]->graph, mine[1]->graph };
    for (size_t i = 0; i < 2; i++) {
        const size_t index = l->n_bodies, n_before = out->n;
        pl_graph *other = l->counts == NULL ? graphs[1 - i] : NULL;
        PL_TRY(visit_body(l, node, graphs[i], his[i]->graph, other, live, out, err));
        if (l->counts != NULL && live && l->counts[index] == 1 && out->n > n_before) {
            mine[1 - i]->graph = graphs[i];
        }
    }
    return PL_OK;
}

static pl_status visit_graph(lift *l, pl_graph *g, const pl_graph *twin, bool live, exports *out,
                             pl_err *err) {
    const size_t n = twin->n_nodes; /* g grows during the loop */
    for (size_t i = 0; i < n; i++) {
        pl_node *node = g->nodes[i];
        if (is_op(node, "If")) {
            PL_TRY(visit_if(l, node, twin->nodes[i], live, out, err));
        } else if (stacks(node)) {
            const pl_attr *body = pl_node_attr(node, "body");
            const pl_attr *his = pl_node_attr(twin->nodes[i], "body");
            if (body == NULL || body->graph == NULL) continue;
            PL_TRY(visit_body(l, node, body->graph, his->graph, NULL, live, out, err));
        }
    }
    return PL_OK;
}

static pl_status lift_all(lift *l, const pl_model *graph, pl_err *err) {
    exports out = { 0 };
    PL_TRY(pl_model_copy(graph, &l->model, err));
    pl_status st = visit_graph(l, l->model->graph, graph->graph, true, &out, err);
    for (size_t i = 0; i < out.n && st == PL_OK; i++) {
        st = pl_graph_add_output(l->model->graph, out.items[i].value, err);
        l->watched[out.items[i].watch].output = out.items[i].value->name;
        l->watched[out.items[i].watch].n_stacked = out.items[i].n_stacked;
    }
    pl_free(out.items);
    return st;
}

static pl_status finish(lift *l, pl_status st, pl_model **out, pl_ort_watch **watched,
                        size_t *n_watched) {
    if (st == PL_OK) {
        *out = l->model;
        *watched = l->watched;
        *n_watched = l->n_watched;
    } else {
        pl_model_free(l->model);
        pl_free(l->watched);
    }
    return st;
}

pl_status pl_ort_lift_counters(const pl_model *graph, pl_model **out, pl_ort_watch **watched,
                               size_t *n_watched, pl_err *err) {
    lift l = { 0 };
    return finish(&l, lift_all(&l, graph, err), out, watched, n_watched);
}

pl_status pl_ort_lift_values(const pl_model *graph, const int64_t *counts, const pl_ort_map *map,
                             pl_model **out, pl_ort_watch **watched, size_t *n_watched,
                             pl_err *err) {
    lift l = { .counts = counts, .map = map };
    return finish(&l, lift_all(&l, graph, err), out, watched, n_watched);
}
