/* Removes all unused inputs at once. */
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    size_t n_dropped = 0;
    bool fails = false;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    const pl_status st = pl_mini_state_drop_unused(s, &n_dropped, err);
    if (st != PL_OK || n_dropped == 0) {
        pl_mini_state_free(s);
        return st;
    }
    return pl_mini_try_take(m, s, out, &fails, err);
}

const pl_strategy pl_strategy_unused = {
    .name = "Remove unused inputs", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_INPUTS, .run = run
};
