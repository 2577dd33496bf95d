/* Truncate suffix: the shortest prefix of the nodes that fails. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"

static pl_status ask_prefix(pl_mini *m, const pl_mini_state *from, bool *keep, size_t n,
                            pl_mini_state **best, bool *fails, pl_err *err) {
    pl_mini_state *candidate = NULL;
    *fails = false;
    memset(keep, 0, from->model->graph->n_nodes);
    memset(keep, 1, n);
    PL_TRY(pl_mini_cut(m, from, keep, &candidate, err));
    return candidate == NULL ? PL_OK : pl_mini_try_take(m, candidate, best, fails, err);
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    size_t low = 0, high = from->model->graph->n_nodes; /* high fails, low does not */
    pl_status st = PL_OK;
    bool *keep = pl_calloc(high + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, high);
    while (high - low > 1 && st == PL_OK) {
        const size_t middle = low + (high - low) / 2;
        bool fails = false;
        st = ask_prefix(m, from, keep, middle, out, &fails, err);
        *(fails ? &high : &low) = middle;
    }
    pl_free(keep);
    return st;
}

const pl_strategy pl_strategy_suffix = {
    .name = "Truncate suffix", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
