/* Delta debugging: removes nodes, feeds their outputs with recorded values, and keeps values
 * computed for them as outputs.
 *
 * Truncating the suffix could not remove the last node. If its neighbour is needed, too, the
 * failure needs a connected piece: then the nodes before that piece are removed first. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_fast.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

enum { FEW = 24, PATIENCE = 3 };

typedef struct delta {
    pl_mini *m;
    const pl_mini_state *from;
} delta;

static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const delta *d = ctx;
    return pl_mini_cut(d->m, d->from, keep, out, err);
}

static pl_status ask(void *ctx, const bool *keep, bool *fails, pl_err *err) {
    const delta *d = ctx;
    return pl_mini_ask_nodes(d->m, d->from, keep, fails, err);
}

static pl_status reduce(pl_mini *m, const pl_mini_state *from, bool first_matters, size_t patience,
                        bool *gave_up, pl_mini_state **best, pl_err *err) {
    delta d = { m, from };
    pl_reduce r = { .m = m,
                    .n = from->model->graph->n_nodes,
                    .first_matters = first_matters,
                    .last_matters = true,
                    .patience = patience,
                    .build = build,
                    .ask = ask,
                    .ctx = &d };
    const pl_status st = r.n < 2 ? PL_OK : pl_reduce_run(&r, best, err);
    *gave_up = r.gave_up;
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    bool gave_up = false;
    const pl_status st = reduce(m, from, false, 1, &gave_up, out, err);
    if (st != PL_OK || !gave_up) return st;
    PL_TRY(pl_mini_truncate(m, *out == NULL ? from : *out, false, out, err));
    const pl_mini_state *base = *out == NULL ? from : *out;
    const size_t patience = base->model->graph->n_nodes <= FEW ? 0 : PATIENCE;
    return reduce(m, base, true, patience, &gave_up, out, err);
}

const pl_strategy pl_strategy_delta = {
    .name = "Delta debugging", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
