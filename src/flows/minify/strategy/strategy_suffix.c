/* Truncate suffix: the shortest prefix of the nodes that fails. */
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    return pl_mini_truncate(m, from, true, out, err);
}

const pl_strategy pl_strategy_suffix = {
    .name = "Truncate suffix", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
