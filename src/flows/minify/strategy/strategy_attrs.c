/* Attributes to defaults: removes those that are not needed. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"
#include "ops/op.h"

typedef struct place { /* an attribute that can be removed */
    size_t node;
    const char *name;
} place;

typedef struct attrs {
    pl_mini *m;
    const pl_mini_state *from;
    place *places;
    size_t n_places;
} attrs;

static bool can_go(const pl_node *node, const pl_attr *a) {
    if (a->type == PL_ATTR_GRAPH || a->type == PL_ATTR_GRAPHS || node->def == NULL) return false;
    for (const pl_op_attr *d = node->def->attrs; d != NULL && d->name != NULL; d++)
        if (strcmp(d->name, a->name) == 0) return !d->required;
    return false;
}

static void remove_attr(pl_node *node, const char *name) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (strcmp(node->attrs[i].name, name) != 0) node->attrs[n++] = node->attrs[i];
    node->n_attrs = n;
}

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const attrs *x = ctx;
    pl_mini_state *s = NULL;
    bool ok = false;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(x->from, &s, err));
    for (size_t i = 0; i < x->n_places; i++)
        if (!keep[i]) remove_attr(s->model->graph->nodes[x->places[i].node], x->places[i].name);
    const pl_status st = pl_mini_state_settle(x->m, s, &ok, err);
    if (st == PL_OK && ok) {
        *out = s;
        s = NULL;
    }
    pl_mini_state_free(s);
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const pl_graph *graph = from->model->graph;
    attrs x = { .m = m, .from = from };
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += graph->nodes[i]->n_attrs;
    x.places = pl_calloc(n + 1, sizeof(*x.places));
    if (x.places == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_attrs; k++)
            if (can_go(node, &node->attrs[k]))
                x.places[x.n_places++] = (place){ i, node->attrs[k].name };
    }
    pl_reduce r = { .m = m, .n = x.n_places, .build = build, .ctx = &x };
    const pl_status st = r.n == 0 ? PL_OK : pl_reduce_run(&r, out, err);
    pl_free(x.places);
    return st;
}

const pl_strategy pl_strategy_attrs = {
    .name = "Attributes to defaults", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_ATTRS, .run = run
};
