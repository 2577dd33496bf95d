/* Finds what makes a backend fail: the first node of the model with which it fails, and the level
 * or pass of the backend that causes it. */
#ifndef PL_BISECT_H
#define PL_BISECT_H

#include "base/arena.h"
#include "flows/analyze/side_run.h"

/* Where a backend fails (compile or run); `why` is its message. */
typedef struct pl_failing_node {
    const pl_node *node; /* NULL = not found: parts of the model do not fail */
    char why[PL_ERR_MESSAGE_MAX];
    size_t n_queries;
} pl_failing_node;
/* The last node of the shortest prefix on which the backend still fails. Only values at the end of
 * the prefix are outputs, so that the backend fuses as before. */
pl_status pl_bisect_failure(pl_model *model, pl_datum *const *in, const pl_side_options *options,
                            pl_failing_node *out, pl_err *err);

typedef struct pl_guilty_pass {
    const char *level;  /* lowest level that fails; "" = the backend has none, or at every level */
    const char *pass;   /* "A" or "A+B"; "" = no pass by name */
    const char *reason; /* one line */
    size_t n_queries;
} pl_guilty_pass;
/* Is the run with this spec bad? */
typedef pl_status (*pl_bad_fn)(void *ctx, const char *spec, bool *bad, pl_err *err);
/* Strings are in the arena. */
pl_status pl_bisect_passes(const char *spec, const char *const *levels, const char *const *passes,
                           pl_bad_fn bad, void *ctx, pl_arena *arena, pl_guilty_pass *out,
                           pl_err *err);

#endif
