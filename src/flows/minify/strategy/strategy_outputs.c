/* Removes outputs: keeps as few as show the failure, and drops what only the others needed. */
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

typedef struct outputs {
    pl_mini *m;
    const pl_mini_state *from;
} outputs;

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const outputs *x = ctx;
    return pl_mini_cut_outputs(x->m, x->from, keep, out, err);
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    outputs x = { m, from };
    pl_reduce r = { .m = m, .n = from->model->graph->n_outputs, .build = build, .ctx = &x };
    return r.n < 2 ? PL_OK : pl_reduce_run(&r, out, err);
}

const pl_strategy pl_strategy_outputs = {
    .name = "Remove outputs", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_OUTPUTS, .run = run
};
