/* Bodies of If, Loop and Scan: replaces an If by a branch, a Loop by one iteration, and removes
 * nodes from bodies. Scans, and loops that need more than one step, are unrolled
 * (strategy_unroll.c). */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"
#include "graph/edit.h"
#include "ops/control/control.h"
#include "ops/op.h"

/* ---- a body in place of its node ---- */

typedef struct inlining {
    pl_graph *graph, *body;
    pl_node *node;
    pl_value **instead; /* by value id of the model, after all values were created */
} inlining;

/* Moves the body's values to the main graph. */
static pl_status move_values(inlining *x, pl_err *err) {
    pl_model *model = x->graph->model;
    const size_t n = x->body->n_values;
    pl_value **fresh = pl_calloc(n + 1, sizeof(pl_value *));
    if (fresh == NULL) return pl_fail_memory(err, n);
    pl_status st = PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        const pl_value *v = x->body->values[i];
        if (v->is_input) continue;
        st = pl_graph_add_fresh_value(x->graph, v->name, &fresh[i], err);
        if (st != PL_OK) break;
        fresh[i]->type = v->type;
        if (v->init != NULL) st = pl_value_set_init(fresh[i], v->init, err);
    }
    if (st == PL_OK) {
        x->instead = pl_calloc((size_t)model->n_values + 1, sizeof(pl_value *));
        if (x->instead == NULL) st = pl_fail_memory(err, model->n_values);
    }
    for (size_t i = 0; i < n && st == PL_OK; i++)
        if (fresh[i] != NULL) x->instead[x->body->values[i]->id] = fresh[i];
    pl_free(fresh);
    return st;
}

static pl_status adopt(void *ctx, pl_graph *nested, pl_err *err) {
    (void)err;
    nested->parent = ctx;
    return PL_OK;
}

/* Puts the body's nodes in the place of their owner. */
static pl_status move_nodes(inlining *x, pl_err *err) {
    pl_graph *graph = x->graph;
    const size_t n = graph->n_nodes + x->body->n_nodes;
    pl_node **nodes = pl_arena_array(graph->model->arena, n + 1, sizeof(pl_node *));
    size_t at = 0;
    if (nodes == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        for (size_t k = 0; graph->nodes[i] == x->node && k < x->body->n_nodes; k++) {
            pl_node *node = x->body->nodes[k];
            node->graph = graph;
            PL_TRY(pl_node_each_body(node, adopt, graph, err));
            for (uint32_t o = 0; o < node->n_out; o++)
                if (node->out[o] != NULL) pl_node_set_output(node, o, x->instead[node->out[o]->id]);
            nodes[at++] = node;
        }
        nodes[at++] = graph->nodes[i];
    }
    graph->nodes = nodes;
    graph->n_nodes = graph->nodes_capacity = n;
    for (size_t i = 0; i < n; i++)
        nodes[i]->index = (uint32_t)i;
    return PL_OK;
}

static pl_value *resolved(const inlining *x, pl_value *v) {
    return x->instead[v->id] != NULL ? x->instead[v->id] : v;
}

/* Outputs [first, …) of the body replace those of the node, which is removed. */
static pl_status replace_node(inlining *x, size_t first, pl_err *err) {
    pl_graph *graph = x->graph;
    size_t n_dead = 0;
    for (uint32_t i = 0; i < x->node->n_out && first + i < x->body->n_outputs; i++) {
        if (x->node->out[i] == NULL) continue;
        x->instead[x->node->out[i]->id] = resolved(x, x->body->outputs[first + i]);
    }
    PL_TRY(pl_mini_redirect(x->instead, graph, err));
    pl_mini_move_outputs(graph, x->instead);
    bool *drop = pl_calloc(graph->n_nodes + 1, sizeof(bool));
    if (drop == NULL) return pl_fail_memory(err, graph->n_nodes);
    drop[x->node->index] = true;
    const pl_status st = pl_graph_remove_nodes(graph, drop, err);
    pl_free(drop);
    return st == PL_OK ? pl_graph_remove_dead(graph, &n_dead, err) : st;
}

static pl_status constant(pl_graph *graph, const char *name, pl_dtype dtype, uint8_t value,
                          pl_value **out, pl_err *err) {
    pl_tensor *t = NULL;
    PL_TRY(pl_tensor_new_zero(dtype, 0, NULL, &t, err));
    *(uint8_t *)t->data = value; /* little-endian: the lowest byte */
    pl_status st = pl_graph_add_fresh_value(graph, name, out, err);
    if (st == PL_OK) st = pl_value_set_init(*out, t, err);
    pl_tensor_unref(t);
    return st;
}

/* Inputs of a Loop body: iteration 0, true, and the carried values. */
static pl_status bind_loop(inlining *x, pl_err *err) {
    pl_value *first = NULL, *go = NULL;
    const pl_graph *body = x->body;
    PL_TRY(constant(x->graph, "iteration", PL_I64, 0, &first, err));
    PL_TRY(constant(x->graph, "condition", PL_BOOL, 1, &go, err));
    PL_TRY(move_values(x, err));
    for (size_t i = 0; i < body->n_inputs; i++)
        x->instead[body->inputs[i]->id] = i == 0 ? first : i == 1 ? go : x->node->in[i];
    return PL_OK;
}

static pl_status build(pl_mini *m, const pl_mini_state *from, size_t index, const char *attr,
                       pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    size_t n_dropped = 0;
    bool ok = false;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_node *node = s->model->graph->nodes[index];
    const pl_attr *a = pl_node_attr(node, attr);
    inlining x = { .graph = s->model->graph, .body = a == NULL ? NULL : a->graph, .node = node };
    const bool loop = strcmp(attr, "body") == 0;
    /* With a user's check, models may contradict themselves. */
    if (x.body == NULL || (loop && (node->n_in < 2 || x.body->n_inputs != node->n_in ||
                                    x.body->n_outputs + 1 != node->n_in))) {
        goto done;
    }
    PL_TRY_GOTO(done, st, loop ? bind_loop(&x, err) : move_values(&x, err));
    PL_TRY_GOTO(done, st, move_nodes(&x, err));
    PL_TRY_GOTO(done, st, replace_node(&x, loop ? 1 : 0, err));
    PL_TRY_GOTO(done, st, pl_mini_state_drop_unused(s, &n_dropped, err));
    if (s->model->graph->n_outputs == 0 || s->model->graph->n_nodes == 0) goto done;
    PL_TRY_GOTO(done, st, pl_mini_state_settle(m, s, &ok, err));
    if (ok) {
        *out = s;
        s = NULL;
    }
done:
    pl_free(x.instead);
    pl_mini_state_free(s);
    return st;
}

/* ---- fewer nodes in a body ---- */

typedef struct thinning {
    pl_mini *m;
    const pl_mini_state *from;
    size_t n_items; /* nodes of bodies that can be bypassed, in the order of the walk */
} thinning;

typedef struct walk {
    const bool *keep; /* by item; NULL = only count */
    size_t item;
    pl_value **instead;
} walk;

/* Carried values of a Loop or Scan may be passed through unchanged: items like the nodes. */
static void walk_carried(walk *w, pl_graph *body) {
    const pl_node *owner = body->owner;
    const bool loop = pl_node_bodies(owner) == PL_BODIES_LOOP;
    pl_scan_layout scan = { .n_states = 0 };
    const char *name = NULL;
    if (!loop && (pl_node_bodies(owner) != PL_BODIES_SCAN ||
                  pl_scan_read(&scan, owner, owner->n_in, &name) != NULL)) {
        return;
    }
    const size_t first = loop ? 1 : 0, ahead = loop ? 1 : 0; /* Loop's output 0 ends it */
    const size_t end = loop ? body->n_outputs : scan.n_states;
    for (size_t i = first; i < end && i + ahead < body->n_inputs; i++) {
        if (body->outputs[i]->is_input) continue;
        const size_t item = w->item++;
        if (w->keep == NULL || w->keep[item]) continue;
        body->outputs[i]->is_output = false;
        body->outputs[i] = body->inputs[i + ahead];
        body->outputs[i]->is_output = true;
    }
}

static pl_status walk_body(void *ctx, pl_graph *body, pl_err *err) {
    walk *w = ctx;
    walk_carried(w, body);
    bool *drop = pl_calloc(body->n_nodes + 1, sizeof(bool));
    pl_status st = drop == NULL ? pl_fail_memory(err, body->n_nodes) : PL_OK;
    for (size_t i = 0; i < body->n_nodes && st == PL_OK; i++) {
        pl_node *node = body->nodes[i];
        pl_value *in = pl_mini_stand_in(node);
        st = pl_node_each_body(node, walk_body, w, err);
        if (in == NULL || st != PL_OK) continue;
        const size_t item = w->item++;
        if (w->keep == NULL || w->keep[item]) continue;
        drop[i] = true;
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL)
                w->instead[node->out[k]->id] = w->instead[in->id] != NULL ? w->instead[in->id] : in;
    }
    if (st == PL_OK && w->keep != NULL) st = pl_mini_redirect(w->instead, body, err);
    if (st == PL_OK && w->keep != NULL) st = pl_graph_remove_nodes(body, drop, err);
    pl_free(drop);
    return st;
}

static pl_status walk_all(pl_graph *graph, walk *w, pl_err *err) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        PL_TRY(pl_node_each_body(graph->nodes[i], walk_body, w, err));
    return PL_OK;
}

static pl_status thin(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const thinning *x = ctx;
    pl_mini_state *s = NULL;
    size_t n_dead = 0, n_dropped = 0;
    bool ok = false;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(x->from, &s, err));
    walk w = { .keep = keep };
    w.instead = pl_calloc((size_t)s->model->n_values + 1, sizeof(pl_value *));
    if (w.instead == NULL) st = pl_fail_memory(err, s->model->n_values);
    if (st == PL_OK) st = walk_all(s->model->graph, &w, err);
    if (st == PL_OK) st = pl_graph_remove_dead(s->model->graph, &n_dead, err);
    if (st == PL_OK) st = pl_mini_state_drop_unused(s, &n_dropped, err);
    if (st == PL_OK) st = pl_mini_state_settle(x->m, s, &ok, err);
    if (st == PL_OK && ok) {
        *out = s;
        s = NULL;
    }
    pl_free(w.instead);
    pl_mini_state_free(s);
    return st;
}

static pl_status thin_bodies(pl_mini *m, const pl_mini_state *from, pl_mini_state **best,
                             pl_err *err) {
    thinning x = { .m = m, .from = from };
    walk count = { .keep = NULL };
    PL_TRY(walk_all(from->model->graph, &count, err));
    pl_reduce r = { .m = m, .n = count.item, .build = thin, .ctx = &x };
    return r.n == 0 ? PL_OK : pl_reduce_run(&r, best, err);
}

/* ---- the whole ---- */

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    static const char *const attrs[] = { "then_branch", "else_branch", "body" };
    const pl_graph *graph = from->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const bool loop = pl_node_bodies(node) == PL_BODIES_LOOP;
        if (!loop && pl_node_bodies(node) != PL_BODIES_BRANCHES) continue;
        for (int k = loop ? 2 : 0; k < (loop ? 3 : 2); k++) {
            pl_mini_state *candidate = NULL;
            bool fails = false;
            PL_TRY(build(m, from, i, attrs[k], &candidate, err));
            if (candidate != NULL) PL_TRY(pl_mini_try_take(m, candidate, out, &fails, err));
            if (fails) return PL_OK;
        }
    }
    return thin_bodies(m, from, out, err);
}

const pl_strategy pl_strategy_bodies = {
    .name = "Inline and shrink bodies", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_NODES, .run = run
};
