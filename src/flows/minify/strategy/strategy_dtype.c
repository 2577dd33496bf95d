/* Simplify types: every float type becomes float32. */
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_data.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/strategy/strategy.h"

static bool is_odd(pl_dtype dtype) {
    return dtype == PL_F16 || dtype == PL_BF16 || dtype == PL_F64;
}

/* Cast's `to`, and other attributes that name a type. */
static void change_attrs(pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            pl_attr *a = &node->attrs[k];
            const bool names_type = strcmp(a->name, "to") == 0 || strcmp(a->name, "dtype") == 0;
            if (names_type && a->type == PL_ATTR_INT && a->i > 0 && a->i < 32 &&
                is_odd((pl_dtype)a->i)) {
                a->i = PL_F32;
            }
        }
    }
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    pl_mini_state *s = NULL;
    pl_slot *slots = NULL;
    size_t n = 0;
    bool any = false, ok = false, fails = false;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_status st = pl_mini_slots(s, &slots, &n, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        const pl_tensor *t = pl_slot_tensor(s, &slots[i]);
        pl_tensor *made = NULL;
        if (t == NULL || !is_odd(t->dtype)) continue;
        any = true;
        st = pl_tensor_cast(t, PL_F32, &made, err);
        if (st == PL_OK) st = pl_slot_set_take(s, &slots[i], made, err);
    }
    pl_free(slots);
    if (st == PL_OK && any) {
        change_attrs(s->model->graph);
        st = pl_mini_state_settle(m, s, &ok, err);
    }
    if (st != PL_OK || !any || !ok) {
        pl_mini_state_free(s);
        return st;
    }
    return pl_mini_try_take(m, s, out, &fails, err);
}

const pl_strategy pl_strategy_dtype = { .name = "Simplify types",
                                        .stage = PL_STAGE_DETAIL,
                                        .goal = PL_GOAL_TYPES,
                                        .needs_data = true,
                                        .run = run };
