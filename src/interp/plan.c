/* Last uses. A body's use of an outer value counts as a use by the node that owns the body. */
#include "interp/plan.h"

#include <string.h>

#include "ops/op.h"

#define NEVER UINT32_MAX

typedef struct use_ctx {
    const pl_graph *graph; /* graph whose values are examined */
    uint32_t *last;        /* by value id: index of the last node that needs it */
    uint32_t node;
} use_ctx;

static void note_use(use_ctx *u, const pl_value *value) {
    if (value != NULL && value->graph == u->graph) u->last[value->id] = u->node;
}

static pl_status note_body(void *ctx, pl_graph *body, pl_err *err) {
    use_ctx *u = ctx;
    for (size_t i = 0; i < body->n_nodes; i++) {
        const pl_node *node = body->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            note_use(u, node->in[k]);
        PL_TRY(pl_node_each_body(node, note_body, ctx, err));
    }
    for (size_t i = 0; i < body->n_outputs; i++)
        note_use(u, body->outputs[i]);
    return PL_OK;
}

static pl_status find_last_uses(const pl_graph *graph, uint32_t *last, pl_err *err) {
    use_ctx u = { graph, last, 0 };
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        u.node = (uint32_t)i;
        for (uint32_t k = 0; k < node->n_in; k++)
            note_use(&u, node->in[k]);
        for (uint32_t k = 0; k < node->n_out; k++)
            note_use(&u, node->out[k]);
        PL_TRY(pl_node_each_body(node, note_body, &u, err));
    }
    return PL_OK;
}

static pl_status plan_graph(pl_plan *plan, const pl_graph *graph, uint32_t *last, pl_err *err);

typedef struct plan_ctx {
    pl_plan *plan;
    uint32_t *last;
} plan_ctx;

static pl_status plan_body(void *ctx, pl_graph *body, pl_err *err) {
    const plan_ctx *p = ctx;
    return plan_graph(p->plan, body, p->last, err);
}

static bool is_released(const pl_value *value, const uint32_t *last) {
    return last[value->id] != NEVER && !value->is_output && value->init == NULL;
}

static bool is_constant(const pl_node *node) {
    return node->n_in == 0 && (node->def->flags & (PL_OP_RANDOM | PL_OP_CONTROL)) == 0;
}

static pl_status plan_graph(pl_plan *plan, const pl_graph *graph, uint32_t *last, pl_err *err) {
    pl_graph_plan *g = &plan->graphs[graph->id];
    const size_t n = graph->n_nodes;
    g->release_at = pl_arena_array(plan->arena, n + 1, sizeof(*g->release_at));
    g->release = pl_arena_array(plan->arena, graph->n_values, sizeof(pl_value *));
    g->state = pl_arena_array(plan->arena, n, sizeof(void *));
    g->state_free = pl_arena_array(plan->arena, n, sizeof(*g->state_free));
    if (g->release_at == NULL || g->release == NULL || g->state == NULL || g->state_free == NULL) {
        return pl_fail_memory(err, n);
    }
    g->graph = graph; /* from now on pl_plan_release frees the states */
    PL_TRY(find_last_uses(graph, last, err));
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (is_released(value, last)) g->release_at[last[value->id] + 1]++;
        plan->constant[value->id] =
            value->init != NULL && (!value->is_input || graph->parent != NULL);
    }
    for (size_t i = 0; i < n; i++)
        g->release_at[i + 1] += g->release_at[i];
    uint32_t *at = pl_arena_array(plan->arena, n + 1, sizeof(*at));
    if (at == NULL) return pl_fail_memory(err, n);
    memcpy(at, g->release_at, (n + 1) * sizeof(*at));
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (is_released(value, last)) g->release[at[last[value->id]]++] = value;
    }
    plan_ctx ctx = { plan, last };
    for (size_t i = 0; i < n; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; is_constant(node) && k < node->n_out; k++) {
            if (node->out[k] != NULL) plan->constant[node->out[k]->id] = true;
        }
        PL_TRY(pl_node_each_body(node, plan_body, &ctx, err));
    }
    return PL_OK;
}

pl_status pl_plan_init(pl_plan *plan, const pl_model *model, pl_err *err) {
    *plan = (pl_plan){ .arena = pl_arena_new(), .n_graphs = model->n_graphs };
    if (plan->arena == NULL) return pl_fail_memory(err, 1);
    plan->graphs = pl_arena_array(plan->arena, plan->n_graphs, sizeof(pl_graph_plan));
    plan->constant = pl_arena_array(plan->arena, model->n_values, sizeof(bool));
    uint32_t *last = pl_arena_array(plan->arena, model->n_values, sizeof(*last));
    if (plan->graphs == NULL || plan->constant == NULL || last == NULL) {
        return pl_fail_memory(err, model->n_values);
    }
    memset(last, 0xff, model->n_values * sizeof(*last));
    return plan_graph(plan, model->graph, last, err);
}

void pl_plan_release(pl_plan *plan) {
    for (size_t g = 0; plan->graphs != NULL && g < plan->n_graphs; g++) {
        const pl_graph_plan *p = &plan->graphs[g];
        for (size_t i = 0; p->graph != NULL && i < p->graph->n_nodes; i++) {
            if (p->state[i] != NULL && p->state_free[i] != NULL) p->state_free[i](p->state[i]);
        }
    }
    pl_arena_free(plan->arena);
}
