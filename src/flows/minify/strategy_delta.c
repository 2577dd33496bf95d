/* Delta debugging: leaves out nodes, feeds what they made with the recorded values, and keeps what
 * was made for them as outputs. */
#include "flows/minify/minify_int.h"

typedef struct delta {
    pl_mini *m;
    const pl_mini_state *from;
} delta;

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const delta *d = ctx;
    return pl_mini_cut(d->m, d->from, keep, out, err);
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    delta d = { m, from };
    /* The last node is one that truncating the suffix did not get rid of. */
    pl_reduce r = { .m = m,
                    .n = from->model->graph->n_nodes,
                    .last_matters = true,
                    .build = build,
                    .ctx = &d };
    const pl_status st = r.n < 2 ? PL_OK : pl_reduce_run(&r, err);
    *out = r.best;
    r.best = NULL;
    pl_reduce_release(&r);
    return st;
}

const pl_strategy pl_strategy_delta = { .name = "Delta debugging",
                                        .stage = PL_STAGE_STRUCTURE,
                                        .goal = PL_GOAL_NODES,
                                        .run = run };
