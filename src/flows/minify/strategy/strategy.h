/* A strategy is one file with one row, and one line in strategies.def. */
#ifndef PL_STRATEGY_H
#define PL_STRATEGY_H

#include "flows/minify/search/mini_state.h"

typedef enum pl_stage {
    PL_STAGE_GUESS,     /* once, at the start: starting from blame */
    PL_STAGE_STRUCTURE, /* nodes, inputs, outputs */
    PL_STAGE_DETAIL,    /* attributes, shapes, data */
    PL_STAGE_PROOF      /* one by one */
} pl_stage;

/* The measure that must get smaller. */
typedef enum pl_goal {
    PL_GOAL_NODES,
    PL_GOAL_INPUTS,
    PL_GOAL_OUTPUTS,
    PL_GOAL_ELEMENTS,
    PL_GOAL_ATTRS,
    PL_GOAL_COMPLEX,
    PL_GOAL_TYPES,
    PL_GOAL_ORIGINAL
} pl_goal;

typedef struct pl_strategy {
    const char *name; /* PyTorch's name if the strategy is the same */
    pl_stage stage;
    pl_goal goal;
    bool needs_data, needs_blame;
    /* *out NULL: found nothing. Every returned candidate was answered with FAILS. */
    pl_status (*run)(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err);
} pl_strategy;

#define PL_STRATEGY(name) extern const pl_strategy pl_strategy_##name;
#include "flows/minify/strategy/strategies.def"
#undef PL_STRATEGY

/* How many values of the original's weights remain, and as text (strategy_strip.c). */
pl_status pl_mini_count_original(const pl_mini *m, const pl_mini_state *state, int64_t *out,
                                 pl_err *err);
pl_status pl_mini_describe_remains(pl_mini *m, pl_err *err);

#endif
