/* Replaces sequences whose items are known by the items, so that gradients need only tensors:
 * SequenceAt becomes the item, ConcatFromSequence a Concat.
 *
 * One walk in topological order keeps, for every sequence value, the list of its items. Sequences
 * that are unknown (a position that depends on data) are left alone. */
#include <string.h>

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/grad.h"
#include "ops/op.h"
#include "passes/pass_int.h"

enum { MAX_ITEMS = 65536 };

/* Sequences that grow at the end share one list; each has its own length. */
typedef struct items {
    pl_value **list;
    size_t n, capacity;
    size_t *n_used; /* length of the shared list */
    bool known;
} items;

typedef struct taking_apart {
    pl_graph *graph;
    items *of; /* by value id */
    size_t n_of;
    bool *dropped; /* by node index */
    pl_arena *arena;
    bool changed;
    pl_err *err;
} taking_apart;

static const items *items_of(const taking_apart *t, const pl_value *value) {
    if (value == NULL || value->id >= t->n_of || !t->of[value->id].known) return NULL;
    return &t->of[value->id];
}

static pl_status set_items(taking_apart *t, const pl_value *value, pl_value *const *list,
                           size_t n) {
    items *to = &t->of[value->id];
    to->capacity = 2 * n + 1;
    to->list = pl_arena_array(t->arena, to->capacity, sizeof(*to->list));
    to->n_used = pl_arena_alloc(t->arena, sizeof(*to->n_used));
    if (to->list == NULL || to->n_used == NULL) return pl_fail_memory(t->err, n);
    if (n > 0) memcpy(to->list, list, n * sizeof(*list));
    to->n = *to->n_used = n;
    to->known = true;
    return PL_OK;
}

/* Position input i (negative counts from the end); `otherwise` when it is left out. */
static bool position(const pl_node *node, uint32_t i, size_t n, size_t otherwise, size_t *out) {
    int64_t at = 0;
    size_t n_at = 0;
    *out = otherwise;
    if (i >= node->n_in || node->in[i] == NULL) return true;
    if (!pl_g_known_ints(node->in[i], &at, 1, &n_at) || n_at != 1) return false;
    if (at < 0) at += (int64_t)n;
    *out = (size_t)at;
    return at >= 0 && at <= (int64_t)n;
}

/* Gives the node's output a new producer and drops the node. */
static pl_status replace(taking_apart *t, pl_node *node, const char *op, pl_value *const *in,
                         size_t n_in, pl_node **made) {
    pl_value *out = node->out[0];
    PL_TRY(pl_graph_add_node(t->graph, op, "", n_in, 1, made, t->err));
    for (size_t i = 0; i < n_in; i++)
        (*made)->in[i] = in[i];
    node->out[0] = NULL;
    pl_node_set_output(*made, 0, out);
    (*made)->def = pl_op_find("", op, (*made)->opset);
    t->dropped[node->index] = true;
    t->changed = true;
    return PL_OK;
}

/* ---- making and changing ---- */

static pl_status insert(taking_apart *t, const pl_node *node) {
    const items *from = items_of(t, node->in[0]);
    size_t at = 0;
    if (from == NULL || from->n >= MAX_ITEMS || !position(node, 2, from->n, from->n, &at))
        return PL_OK;
    items *to = &t->of[node->out[0]->id];
    if (at == from->n && *from->n_used == from->n && from->n < from->capacity) {
        *to = *from;
    } else {
        PL_TRY(set_items(t, node->out[0], from->list, from->n));
    }
    memmove(to->list + at + 1, to->list + at, (to->n - at) * sizeof(*to->list));
    to->list[at] = node->in[1];
    *to->n_used = ++to->n;
    return PL_OK;
}

static pl_status erase(taking_apart *t, const pl_node *node) {
    const items *from = items_of(t, node->in[0]);
    size_t at = 0;
    if (from == NULL || from->n == 0 || !position(node, 1, from->n, from->n - 1, &at) ||
        at >= from->n)
        return PL_OK;
    PL_TRY(set_items(t, node->out[0], from->list, from->n));
    items *to = &t->of[node->out[0]->id];
    memmove(to->list + at, to->list + at + 1, (to->n - at - 1) * sizeof(*to->list));
    *to->n_used = --to->n;
    return PL_OK;
}

/* Sizes of the pieces of SplitToSequence-11; false when they are not known. */
static bool piece_sizes(const pl_node *node, int64_t whole, int64_t *sizes, size_t *n) {
    int64_t split[256];
    size_t n_split = 0;
    *n = 0;
    if (node->n_in < 2 || node->in[1] == NULL) {
        split[0] = 1;
        n_split = 1;
    } else if (!pl_g_known_ints(node->in[1], split, 256, &n_split)) {
        return false;
    }
    const bool each = node->n_in < 2 || node->in[1] == NULL ||
                      (node->in[1]->type != NULL && node->in[1]->type->rank == 0);
    if (!each) { /* invalid sizes are left to the run, which reports them */
        int64_t left = whole;
        for (size_t i = 0; i < n_split; i++) {
            if (split[i] < 0 || split[i] > left) return false;
            left -= split[i];
            sizes[(*n)++] = split[i];
        }
        return left == 0;
    }
    if (split[0] < 1 || (whole > 0 && (whole - 1) / split[0] >= 256)) return false;
    for (int64_t left = whole; left > 0; left -= sizes[(*n)++])
        sizes[*n] = left < split[0] ? left : split[0];
    return true;
}

static pl_status take_slice(taking_apart *t, pl_value *x, int64_t axis, int64_t start, int64_t end,
                            const char *base, pl_value **out) {
    pl_value *in[4] = { x, NULL, NULL, NULL };
    const int64_t numbers[3] = { start, end, axis };
    const char *names[3] = { "start", "end", "axis" };
    for (int i = 0; i < 3; i++) {
        const char *name = pl_arena_printf(t->graph->model->arena, "%s/%s", base, names[i]);
        if (name == NULL) return pl_fail_memory(t->err, 1);
        PL_TRY(pl_pass_ints(t->graph, PL_I64, false, &numbers[i], 1, name, &in[i + 1], t->err));
    }
    return pl_pass_op(t->graph, "Slice", in, 4, base, NULL, out, t->err);
}

static pl_status split(taking_apart *t, const pl_node *node) {
    pl_value *x = node->in[0], *list[256];
    int64_t axis = pl_attr_int(node, "axis"), sizes[256], at = 0;
    size_t n = 0;
    if (x->type == NULL || !x->type->has_rank || pl_model_opset(t->graph->model, "") < 11)
        return PL_OK;
    if (axis < 0) axis += x->type->rank;
    if (axis < 0 || axis >= x->type->rank || !pl_dim_known(x->type->dims[axis])) return PL_OK;
    if (!piece_sizes(node, x->type->dims[axis].value, sizes, &n)) return PL_OK;
    const bool drop = pl_attr_int(node, "keepdims") == 0 && (node->n_in < 2 || node->in[1] == NULL);
    for (size_t i = 0; i < n; i++) {
        const char *base = pl_arena_printf(t->graph->model->arena, "%s/%zu", node->out[0]->name, i);
        if (base == NULL) return pl_fail_memory(t->err, 1);
        PL_TRY(take_slice(t, x, axis, at, at + sizes[i], base, &list[i]));
        if (drop) PL_TRY(pl_pass_axis(t->graph, "Squeeze", list[i], axis, base, &list[i], t->err));
        at += sizes[i];
    }
    return set_items(t, node->out[0], list, n);
}

/* ---- reading ---- */

static pl_status read_item(taking_apart *t, pl_node *node) {
    const items *from = items_of(t, node->in[0]);
    size_t at = 0;
    pl_node *made = NULL;
    if (from == NULL || !position(node, 1, from->n, 0, &at) || at >= from->n) return PL_OK;
    return replace(t, node, "Identity", &from->list[at], 1, &made);
}

static pl_status join(taking_apart *t, pl_node *node) {
    const items *from = items_of(t, node->in[0]);
    const int64_t axis = pl_attr_int(node, "axis");
    pl_node *made = NULL;
    if (from == NULL || from->n == 0) return PL_OK;
    pl_value **parts = pl_arena_array(t->arena, from->n, sizeof(*parts));
    if (parts == NULL) return pl_fail_memory(t->err, from->n);
    for (size_t i = 0; i < from->n; i++) {
        parts[i] = from->list[i];
        if (pl_attr_int(node, "new_axis") == 0) continue;
        const char *base = pl_arena_printf(t->graph->model->arena, "%s/%zu", node->out[0]->name, i);
        if (base == NULL) return pl_fail_memory(t->err, 1);
        PL_TRY(pl_pass_axis(t->graph, "Unsqueeze", parts[i], axis, base, &parts[i], t->err));
    }
    PL_TRY(replace(t, node, "Concat", parts, from->n, &made));
    pl_attr *attr = pl_node_add_attr(made, "axis", PL_ATTR_INT);
    if (attr == NULL) return pl_fail_memory(t->err, 1);
    attr->i = axis;
    return PL_OK;
}

/* Copies the body once for each item. */
static pl_status map(taking_apart *t, const pl_node *node) {
    const pl_graph *body = pl_attr_graph(node, "body");
    const items *first = items_of(t, node->in[0]);
    pl_model *model = t->graph->model;
    if (body == NULL || first == NULL || body->n_inputs != node->n_in || first->n > MAX_ITEMS)
        return PL_OK;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_type *type = node->in[i] == NULL ? NULL : node->in[i]->type;
        const items *own = items_of(t, node->in[i]);
        const bool sequence = type == NULL || type->kind == PL_TYPE_SEQUENCE;
        if (sequence && (own == NULL || own->n != first->n)) return PL_OK;
    }
    pl_value **out = pl_arena_array(t->arena, body->n_outputs * first->n + 1, sizeof(*out));
    pl_value **map_ = pl_calloc((size_t)model->n_values + 1, sizeof(*map_));
    pl_status st = out == NULL || map_ == NULL ? pl_fail_memory(t->err, 1) : PL_OK;
    for (size_t k = 0; k < first->n && st == PL_OK; k++) {
        for (uint32_t i = 0; i < node->n_in; i++) {
            const items *own = items_of(t, node->in[i]);
            map_[body->inputs[i]->id] = own == NULL ? node->in[i] : own->list[k];
        }
        const char *base = pl_arena_printf(model->arena, "%s/%zu", node->out[0]->name, k);
        st = base == NULL ? pl_fail_memory(t->err, 1)
                          : pl_graph_copy_into(body, t->graph, base, map_, t->err);
        for (size_t i = 0; i < body->n_outputs && st == PL_OK; i++)
            out[i * first->n + k] = map_[body->outputs[i]->id];
        for (size_t i = 0; i < body->n_values; i++)
            map_[body->values[i]->id] = NULL;
    }
    for (uint32_t i = 0; i < node->n_out && st == PL_OK; i++)
        if (node->out[i] != NULL) st = set_items(t, node->out[i], out + i * first->n, first->n);
    pl_free(map_);
    return st;
}

static pl_list_use use_of(const pl_node *node) {
    return node->def == NULL ? PL_LIST_NONE : node->def->list;
}

static pl_status pass(taking_apart *t, const pl_node *node) {
    const items *same = items_of(t, node->in[0]);
    if (same != NULL) t->of[node->out[0]->id] = *same;
    return PL_OK;
}

static pl_status visit(taking_apart *t, pl_node *node) {
    const pl_list_use use = use_of(node);
    if (use == PL_LIST_NONE || node->n_out == 0 || node->out[0] == NULL) return PL_OK;
    if (use == PL_LIST_MAKE) return set_items(t, node->out[0], node->in, node->n_in);
    if (node->n_in == 0 || node->in[0] == NULL) return PL_OK;
    switch (use) {
    case PL_LIST_INSERT: return insert(t, node);
    case PL_LIST_ERASE: return erase(t, node);
    case PL_LIST_SPLIT: return split(t, node);
    case PL_LIST_MAP: return map(t, node);
    case PL_LIST_PASS: return pass(t, node);
    case PL_LIST_READ: return read_item(t, node);
    case PL_LIST_JOIN: return join(t, node);
    case PL_LIST_NONE:
    case PL_LIST_MAKE: break;
    }
    return PL_OK;
}

static bool has_sequences(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_list_use use = use_of(graph->nodes[i]);
        if (use == PL_LIST_READ || use == PL_LIST_JOIN) return true;
    }
    return false;
}

pl_status pl_take_sequences_apart(pl_graph *graph, bool *changed, pl_err *err) {
    const size_t n_nodes = graph->n_nodes;
    *changed = false;
    if (!has_sequences(graph)) return PL_OK;
    taking_apart t = { .graph = graph, .n_of = graph->model->n_values, .err = err };
    pl_status st = PL_OK;
    for (size_t i = 0; i < n_nodes; i++)
        graph->nodes[i]->index = (uint32_t)i;
    t.of = pl_calloc(t.n_of + 1, sizeof(*t.of));
    t.arena = pl_arena_new();
    t.dropped = pl_calloc(n_nodes + 1, sizeof(bool));
    if (t.of == NULL || t.arena == NULL || t.dropped == NULL) st = pl_fail_memory(err, n_nodes);
    for (size_t i = 0; i < n_nodes && st == PL_OK; i++)
        st = visit(&t, graph->nodes[i]);
    if (st == PL_OK && t.changed) {
        bool *drop = pl_calloc(graph->n_nodes + 1, sizeof(bool));
        if (drop == NULL) st = pl_fail_memory(err, graph->n_nodes);
        if (drop != NULL) memcpy(drop, t.dropped, n_nodes * sizeof(bool));
        if (st == PL_OK) st = pl_graph_remove_nodes(graph, drop, err);
        if (st == PL_OK) st = pl_graph_sort(graph, err);
        pl_free(drop);
    }
    *changed = t.changed;
    pl_free(t.of);
    pl_free(t.dropped);
    pl_arena_free(t.arena);
    return st;
}
