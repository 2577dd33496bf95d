/* Private to flows/minify: one run of the minifier. The parts have headers of their own, in
 * search/, oracle/, strategy/ and repro/. */
#ifndef PL_MINIFY_INT_H
#define PL_MINIFY_INT_H

#include <plumb.h>

#include "base/threads.h"
#include "flows/check/accuracy.h"
#include "flows/minify/oracle/signature.h"
#include "flows/minify/search/mini_state.h"

typedef struct pl_oracle pl_oracle;       /* oracle/oracle.h */
typedef struct pl_ahead pl_ahead;         /* search/mini_ahead.h */
typedef struct pl_mini_fast pl_mini_fast; /* search/mini_fast.h */

/* The cause of the failure; NULL reason = not requested. The arena owns the strings. */
typedef struct pl_mini_pass {
    const char *level, *pass, *reason;
} pl_mini_pass;

struct pl_mini {
    const plumb_minify_options *options;
    pl_pool *pool;
    pl_accuracy accuracy; /* the rule for outputs */
    pl_oracle *oracle;
    pl_ahead *ahead;
    pl_mini_state *best;
    bool with_data; /* candidates need data for their inputs */
    bool one_minimal;
    bool resumed; /* from a checkpoint: n_nodes_before and the original's signature are known */
    size_t n_nodes_before;
    char blamed[256];          /* blamed value; "" */
    const char **blamed_group; /* values of the group */
    size_t n_blamed_group;
    pl_arena *arena;
    char *work;        /* temporary folder of the queries */
    char *checkpoints; /* folder; NULL = none */
    double started;
    double cpu_seconds; /* of this process, from the first query to the last */
    double last_checkpoint;
    const pl_model *original; /* as given */
    plumb_context recorded;   /* what was done to the model, now or when the repro was made */
    pl_mini_fast *fast;
    size_t n_accepted;   /* successes so far */
    pl_mini_state *good; /* the last candidate that passed; kept when asked for */
    char *remains;       /* of the original's weights, in words; in the arena; NULL = not asked */
    pl_signature found;  /* what the final model shows */
    pl_mini_pass pass;   /* of the backend */
};

void pl_mini_log(pl_mini *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
pl_status pl_mini_run(pl_mini *m, pl_mini_state *start_take, pl_err *err);
/* Fills m->pass if requested (minify_bisect.c). */
pl_status pl_mini_bisect(pl_mini *m, pl_err *err);

#endif
