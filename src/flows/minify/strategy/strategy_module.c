/* By module: removes whole modules of the source program, then their parts. Only worth its queries
 * while many nodes are left: a single needed node is found by bisection anyway. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_fast.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

enum { MANY = 16, DEPTHS = 4 };

typedef struct modules {
    pl_mini *m;
    const pl_mini_state *from;
    size_t *of; /* module number by node */
    size_t n_modules;
} modules;

/* Nodes that stay with these modules; the caller frees. NULL: no memory. */
static bool *nodes_of(const modules *x, const bool *keep) {
    const size_t n = x->from->model->graph->n_nodes;
    bool *nodes = pl_calloc(n + 1, sizeof(bool));
    for (size_t i = 0; nodes != NULL && i < n; i++)
        nodes[i] = keep[x->of[i]];
    return nodes;
}

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const modules *x = ctx;
    bool *nodes = nodes_of(x, keep);
    if (nodes == NULL) return pl_fail_memory(err, x->from->model->graph->n_nodes);
    const pl_status st = pl_mini_cut(x->m, x->from, nodes, out, err);
    pl_free(nodes);
    return st;
}

static pl_status ask(void *ctx, const bool *keep, bool *fails, pl_err *err) {
    const modules *x = ctx;
    bool *nodes = nodes_of(x, keep);
    if (nodes == NULL) return pl_fail_memory(err, x->from->model->graph->n_nodes);
    const pl_status st = pl_mini_ask_nodes(x->m, x->from, nodes, fails, err);
    pl_free(nodes);
    return st;
}

/* Length of the first `depth` parts of a module path. */
static size_t prefix_of(const char *module, int depth) {
    size_t n = 0;
    for (; module[n] != '\0'; n++)
        if ((module[n] == '.' || module[n] == '/') && --depth == 0) break;
    return n;
}

static pl_status number(modules *x, int depth, pl_arena *arena, pl_err *err) {
    const pl_graph *graph = x->from->model->graph;
    pl_strmap seen = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    x->n_modules = 0;
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        pl_origin origin;
        st = pl_node_origin(graph->nodes[i], arena, &origin, err);
        if (st != PL_OK) break;
        const size_t n = prefix_of(origin.module, depth);
        const uintptr_t found = (uintptr_t)pl_strmap_get_n(&seen, origin.module, n);
        x->of[i] = found != 0 ? found - 1 : x->n_modules;
        if (found != 0) continue;
        x->n_modules++;
        if (pl_strmap_put_n(&seen, origin.module, n, (void *)(uintptr_t)x->n_modules) != 0) {
            st = pl_fail_memory(err, n);
        }
    }
    pl_strmap_release(&seen);
    return st;
}

static pl_status run_depth(pl_mini *m, const pl_mini_state *from, int depth, pl_mini_state **best,
                           pl_err *err) {
    modules x = { .m = m, .from = from };
    pl_reduce r = { .m = m, .build = build, .ask = ask, .ctx = &x };
    pl_arena *arena = pl_arena_new();
    x.of = pl_calloc(from->model->graph->n_nodes + 1, sizeof(size_t));
    pl_status st =
        arena == NULL || x.of == NULL ? pl_fail_memory(err, 1) : number(&x, depth, arena, err);
    r.n = x.n_modules;
    if (st == PL_OK && r.n > 1 && r.n < from->model->graph->n_nodes)
        st = pl_reduce_run(&r, best, err);
    pl_free(x.of);
    pl_arena_free(arena);
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    for (int depth = 1; depth <= DEPTHS; depth++) {
        const pl_mini_state *base = *out == NULL ? from : *out;
        pl_mini_state *best = NULL;
        if (base->model->graph->n_nodes < MANY) break;
        const pl_status st = run_depth(m, base, depth, &best, err);
        if (best != NULL) {
            pl_mini_state_free(*out);
            *out = best;
        }
        PL_TRY(st);
    }
    return PL_OK;
}

const pl_strategy pl_strategy_module = {
    .name = "By module", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
