/* Simplify weights: ones, one value, small integers, zeros. */
#include "flows/minify/search/mini_data.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    return pl_mini_simplify_slots(m, from, true, out, err);
}

const pl_strategy pl_strategy_weights = {
    .name = "Simplify weights", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_COMPLEX, .run = run
};
