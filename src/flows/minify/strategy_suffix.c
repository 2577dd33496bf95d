/* Truncate suffix: the shortest prefix of the nodes that fails. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    const size_t n = from->model->graph->n_nodes;
    size_t low = 0, high = n; /* high fails, low does not */
    pl_status st = PL_OK;
    bool *keep = pl_calloc(n + 1, sizeof(bool));
    if (keep == NULL) return pl_fail_memory(err, n);
    while (high - low > 1 && st == PL_OK) {
        const size_t middle = low + (high - low) / 2;
        bool fails = false;
        memset(keep, 0, n);
        memset(keep, 1, middle);
        st = pl_mini_ask_nodes(m, from, keep, &fails, err);
        if (st == PL_OK) *(fails ? &high : &low) = middle;
    }
    memset(keep, 0, n);
    memset(keep, 1, high);
    if (high < n) {
        const pl_status built = pl_mini_cut(m, from, keep, out, st == PL_OK ? err : NULL);
        if (st == PL_OK) st = built;
    }
    pl_free(keep);
    return st;
}

const pl_strategy pl_strategy_suffix = {
    .name = "Truncate suffix", .stage = PL_STAGE_STRUCTURE, .goal = PL_GOAL_NODES, .run = run
};
