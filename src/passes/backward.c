/* Reverse accumulation: visits nodes from the outputs backwards and applies the rule of each once,
 * after all readers of its outputs. */
#include "passes/backward.h"

#include "base/alloc.h"
#include "graph/edit.h"
#include "ops/control/control.h"
#include "ops/grad.h"
#include "ops/infer.h"
#include "passes/pass_int.h"

typedef struct backward {
    pl_graph *graph;
    size_t n_values; /* of the model before the pass */
    bool *depends;   /* by value id: depends on one of xs */
    pl_value **grad; /* by value id: accumulated so far; NULL = zero */
    pl_err *err;
} backward;

static pl_status accumulate(backward *b, const pl_node *node, pl_value *x, pl_value *dx) {
    pl_value **slot = &b->grad[x->id];
    if (*slot == NULL) {
        *slot = dx;
        return PL_OK;
    }
    pl_grad c = { .graph = b->graph, .node = node, .err = b->err };
    *slot = pl_g_add(&c, *slot, dx);
    return c.st;
}

/* ---- If ---- */

typedef struct captures { /* values of enclosing graphs that a node's bodies read */
    const backward *b;
    pl_value **list;
    size_t n;
    bool *seen; /* by value id */
} captures;

static void capture(void *ctx, pl_value *value) {
    captures *c = ctx;
    if (value->id >= c->b->n_values || !c->b->depends[value->id] || c->seen[value->id]) return;
    /* Values of the body itself can depend, too. */
    for (const pl_graph *g = c->b->graph; g != NULL; g = g->parent) {
        if (g != value->graph) continue;
        c->seen[value->id] = true;
        c->list[c->n++] = value;
        return;
    }
}

/* One branch: recomputed, then differentiated; its outputs are the gradients of the captured
 * values. */
static pl_status grad_branch(backward *b, const pl_node *node, pl_value *const *dy,
                             const captures *c, pl_node *owner, const char *name) {
    pl_graph *const from = pl_attr_graph(node, name);
    pl_model *const model = b->graph->model;
    pl_graph *body = NULL;
    if (from == NULL) return pl_node_fail(b->err, PL_E_INVALID, node, "'%s' is missing", name);
    const char *prefix = pl_arena_printf(
        model->arena, "grad/%s/%s", node->out[0] == NULL ? node->op : node->out[0]->name, name);
    if (prefix == NULL) return pl_fail_memory(b->err, 1);
    PL_TRY(pl_graph_new(model, b->graph, prefix, &body, b->err));
    body->owner = owner;
    pl_attr *attr = pl_node_add_attr(owner, name, PL_ATTR_GRAPH);
    if (attr == NULL) return pl_fail_memory(b->err, 1);
    attr->graph = body;
    pl_value **map = pl_calloc((size_t)model->n_values + 1, sizeof(pl_value *));
    pl_value **ys = pl_calloc((size_t)node->n_out + 1, sizeof(pl_value *));
    pl_value **dys = pl_calloc((size_t)node->n_out + 1, sizeof(pl_value *));
    pl_value **dx = pl_calloc(c->n + 1, sizeof(pl_value *));
    size_t n = 0;
    pl_status st = PL_OK;
    if (map == NULL || ys == NULL || dys == NULL || dx == NULL) {
        st = pl_fail_memory(b->err, model->n_values);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_graph_copy_into(from, body, prefix, map, b->err));
    for (uint32_t i = 0; i < node->n_out && i < from->n_outputs; i++) {
        if (dy[i] == NULL) continue;
        ys[n] = map[from->outputs[i]->id];
        dys[n++] = dy[i];
    }
    PL_TRY_GOTO(done, st, pl_backward_sum(body, ys, dys, n, c->list, c->n, dx, b->err));
    for (size_t i = 0; i < c->n; i++) {
        pl_value *out = NULL;
        const char *base = pl_arena_printf(model->arena, "%s/d/%s", prefix, c->list[i]->name);
        if (base == NULL) {
            st = pl_fail_memory(b->err, 1);
            goto done;
        }
        /* An output of a body must be a value of the body. */
        if (dx[i] == NULL) {
            PL_TRY_GOTO(done, st, pl_pass_zeros_like(body, c->list[i], 0, base, &out, b->err));
        } else {
            PL_TRY_GOTO(done, st,
                        pl_pass_op(body, "Identity", &dx[i], 1, base, NULL, &out, b->err));
        }
        out->type = c->list[i]->type;
        PL_TRY_GOTO(done, st, pl_graph_add_output(body, out, b->err));
    }
    st = pl_graph_remove_dead(body, &n, b->err);
done:
    pl_free(map);
    pl_free(ys);
    pl_free(dys);
    pl_free(dx);
    return st;
}

static pl_status visit_if(backward *b, const pl_node *node, pl_value *const *dy) {
    captures c = { .b = b };
    pl_node *owner = NULL;
    pl_status st = PL_OK;
    c.list = pl_calloc(b->n_values + 1, sizeof(pl_value *));
    c.seen = pl_calloc(b->n_values + 1, sizeof(bool));
    if (c.list == NULL || c.seen == NULL) {
        st = pl_fail_memory(b->err, b->n_values);
        goto done;
    }
    pl_node_each_use(node, capture, &c);
    if (c.n == 0) goto done;
    PL_TRY_GOTO(done, st, pl_graph_add_node(b->graph, "If", "", 1, c.n, &owner, b->err));
    owner->in[0] = node->in[0];
    owner->def = node->def;
    PL_TRY_GOTO(done, st, grad_branch(b, node, dy, &c, owner, "then_branch"));
    PL_TRY_GOTO(done, st, grad_branch(b, node, dy, &c, owner, "else_branch"));
    for (size_t i = 0; i < c.n; i++) {
        pl_value *out = NULL;
        const char *base = pl_arena_printf(b->graph->model->arena, "grad/%s/if", c.list[i]->name);
        if (base == NULL) {
            st = pl_fail_memory(b->err, 1);
            goto done;
        }
        PL_TRY_GOTO(done, st, pl_graph_add_fresh_value(b->graph, base, &out, b->err));
        out->type = c.list[i]->type;
        pl_node_set_output(owner, (uint32_t)i, out);
        PL_TRY_GOTO(done, st, accumulate(b, node, c.list[i], out));
    }
done:
    pl_free(c.list);
    pl_free(c.seen);
    return st;
}

/* ---- nodes ---- */

static pl_status no_rule(const backward *b, const pl_node *node) {
    const char *why = node->def->no_grad;
    return pl_node_fail(b->err, PL_E_UNSUPPORTED, node, "this operator has no gradient rule%s%s",
                        node->def->grad == PL_GRAD_TODO ? " yet"
                        : why != NULL                   ? ": "
                                                        : "",
                        why != NULL ? why : "");
}

static pl_status visit(backward *b, const pl_node *node, pl_arena *arena) {
    pl_value **dy = pl_arena_array(arena, node->n_out, sizeof(pl_value *));
    pl_value **dx = pl_arena_array(arena, node->n_in, sizeof(pl_value *));
    bool *wanted = pl_arena_array(arena, node->n_in, sizeof(bool));
    bool any = false;
    if (dy == NULL || dx == NULL || wanted == NULL) return pl_fail_memory(b->err, node->n_in);
    for (uint32_t k = 0; k < node->n_out; k++) {
        dy[k] = node->out[k] == NULL ? NULL : b->grad[node->out[k]->id];
        any = any || dy[k] != NULL;
    }
    if (!any || !pl_node_depends(node, b->depends)) return PL_OK;
    if (node->def->grad == pl_grad_branches) return visit_if(b, node, dy);
    any = false;
    for (uint32_t k = 0; k < node->n_in; k++) {
        wanted[k] =
            node->in[k] != NULL && b->depends[node->in[k]->id] && pl_g_is_float(node->in[k]);
        any = any || wanted[k];
    }
    if (!any) return PL_OK;
    if (node->def->grad == PL_GRAD_TODO || node->def->grad == PL_GRAD_UNDEFINED)
        return no_rule(b, node);
    pl_grad c = {
        .graph = b->graph, .node = node, .dy = dy, .dx = dx, .wanted = wanted, .err = b->err
    };
    PL_TRY(pl_g_rule(&c));
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (wanted[k] && dx[k] != NULL) PL_TRY(accumulate(b, node, node->in[k], dx[k]));
    }
    return PL_OK;
}

static pl_status run_backward(backward *b, pl_value *const *ys, pl_value *const *dys, size_t n_ys,
                              pl_value *const *xs, size_t n_xs, pl_value **out, pl_arena *arena) {
    const size_t n_nodes = b->graph->n_nodes;
    for (size_t i = 0; i < n_xs; i++)
        b->depends[xs[i]->id] = true;
    pl_mark_dependents(b->graph, b->depends);
    for (size_t i = 0; i < n_ys; i++) {
        pl_value *dy = dys[i];
        const char *base = "grad/ones";
        if (dy == NULL) PL_TRY(pl_pass_zeros_like(b->graph, ys[i], 1, base, &dy, b->err));
        if (b->grad[ys[i]->id] == NULL) {
            b->grad[ys[i]->id] = dy;
            continue;
        }
        pl_value *sum = NULL; /* two outputs may be the same value */
        PL_TRY(pl_pass_op(b->graph, "Add", (pl_value *const[]){ b->grad[ys[i]->id], dy }, 2,
                          "grad/sum", NULL, &sum, b->err));
        sum->type = ys[i]->type;
        b->grad[ys[i]->id] = sum;
    }
    for (size_t i = n_nodes; i-- > 0;) {
        pl_arena_reset(arena);
        PL_TRY(visit(b, b->graph->nodes[i], arena));
    }
    for (size_t i = 0; i < n_xs; i++)
        out[i] = b->grad[xs[i]->id];
    return PL_OK;
}

pl_status pl_backward_sum(pl_graph *graph, pl_value *const *ys, pl_value *const *dys, size_t n_ys,
                          pl_value *const *xs, size_t n_xs, pl_value **out, pl_err *err) {
    if (graph->parent == NULL) PL_TRY(pl_unroll_loops(graph->model, xs, n_xs, err));
    backward b = { .graph = graph, .n_values = graph->model->n_values, .err = err };
    pl_arena *arena = pl_arena_new();
    pl_status st = PL_OK;
    b.depends = pl_calloc(b.n_values + 1, sizeof(bool));
    b.grad = pl_calloc(b.n_values + 1, sizeof(pl_value *));
    if (arena == NULL || b.depends == NULL || b.grad == NULL) {
        st = pl_fail_memory(err, b.n_values);
    } else {
        st = run_backward(&b, ys, dys, n_ys, xs, n_xs, out, arena);
    }
    pl_free(b.depends);
    pl_free(b.grad);
    pl_arena_free(arena);
    return st;
}

pl_status pl_backward(pl_graph *graph, pl_value *y, pl_value *dy, pl_value *const *xs, size_t n_xs,
                      pl_value **out, pl_err *err) {
    return pl_backward_sum(graph, &y, &dy, 1, xs, n_xs, out, err);
}
