/* Removes optional inputs of nodes: a bias, a mask, an initial state. */
#include "base/alloc.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"
#include "graph/edit.h"
#include "ops/op.h"

typedef struct place {
    size_t node;
    uint32_t input;
} place;

typedef struct optional {
    pl_mini *m;
    const pl_mini_state *from;
    place *places;
    size_t n_places;
} optional;

static bool can_go(const pl_node *node, uint32_t i) {
    const pl_port *port = node->def == NULL ? NULL : node->def->in;
    /* A Loop without its limit does not terminate. */
    if (node->def != NULL && (node->def->flags & PL_OP_CONTROL) != 0) return false;
    for (uint32_t k = 0; port != NULL && port[k].name != NULL; k++)
        if (k == i)
            return (port[k].flags & PL_PORT_OPTIONAL) != 0 &&
                   (port[k].flags & PL_PORT_VARIADIC) == 0;
    return false;
}

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const optional *x = ctx;
    pl_mini_state *s = NULL;
    size_t n_dead = 0, n_dropped = 0;
    bool ok = false;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(x->from, &s, err));
    pl_graph *graph = s->model->graph;
    for (size_t i = 0; i < x->n_places; i++) {
        pl_node *node = graph->nodes[x->places[i].node];
        if (keep[i]) continue;
        node->in[x->places[i].input] = NULL;
        while (node->n_in > 0 && node->in[node->n_in - 1] == NULL)
            node->n_in--;
    }
    PL_TRY_GOTO(done, st, pl_graph_remove_dead(graph, &n_dead, err));
    PL_TRY_GOTO(done, st, pl_mini_state_drop_unused(s, &n_dropped, err));
    PL_TRY_GOTO(done, st, pl_mini_state_settle(x->m, s, &ok, err));
    if (ok) {
        *out = s;
        s = NULL;
    }
done:
    pl_mini_state_free(s);
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    optional x = { .m = m, .from = from };
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i]->n_in;
    x.places = pl_calloc(n + 1, sizeof(*x.places));
    if (x.places == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++)
            if (node->in[k] != NULL && can_go(node, k)) x.places[x.n_places++] = (place){ i, k };
    }
    pl_reduce r = { .m = m, .n = x.n_places, .build = build, .ctx = &x };
    const pl_status st = r.n == 0 ? PL_OK : pl_reduce_run(&r, out, err);
    pl_free(x.places);
    return st;
}

const pl_strategy pl_strategy_optional = {
    .name = "Remove optional inputs", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_ATTRS, .run = run
};
