/* Does a candidate fail the same way? */
#ifndef PL_ORACLE_H
#define PL_ORACLE_H

#include "backends/backend.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/strmap.h"
#include "flows/check/accuracy.h"
#include "flows/minify/oracle/signature.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_write.h"

typedef struct pl_oracle pl_oracle;

typedef enum pl_answer {
    PL_ANSWER_PASSES,
    PL_ANSWER_FAILS,
    PL_ANSWER_OTHER,
    PL_ANSWER_INVALID
} pl_answer;

typedef struct pl_observed { /* what a run of a candidate showed */
    pl_signature *items;     /* most important first; empty: it passes */
    size_t n_items, capacity;
    bool invalid; /* cannot be judged: the reference fails or is not finite */
    char why[300];
} pl_observed;

typedef struct pl_other { /* another failure found on the way */
    pl_signature signature;
    size_t n_seen;
    pl_mini_state *state; /* the first state that showed it, if kept */
} pl_other;

typedef struct pl_oracle_row {
    const char *name;
    pl_status (*observe)(pl_oracle *oracle, pl_mini_state *state, pl_observed *out, pl_err *err);
    void (*release)(pl_oracle *oracle);
    /* For a model available as bytes; NULL = not supported. */
    pl_status (*observe_bytes)(pl_oracle *oracle, const pl_buf *model, pl_observed *out,
                               pl_err *err);
    /* Called after a fork: open connections belong to the parent. NULL = there are none. */
    void (*forked)(pl_oracle *oracle);
} pl_oracle_row;

struct pl_oracle {
    const pl_oracle_row *row;
    pl_mini *m;
    void *self;
    pl_signature target;
    pl_signature original; /* signature of the original model */
    /* If an If, Loop or Scan is to blame: operators of its bodies. One of them alone may show the
     * same failure; the first that does becomes the target. */
    const char **inner;
    size_t n_inner;
    const char *check_str;
    pl_mini_weights *weights;
    pl_buf bytes; /* of the last queried state, without large weights */
    uint64_t bytes_serial, last_serial;
    pl_hash128 key;
    pl_strmap cache; /* key in hex -> answer + 1 */
    pl_arena *arena;
    size_t n_queries; /* distinct candidates that were run */
    size_t n_runs;    /* with repetitions */
    size_t n_cached;
    size_t max_queries;        /* 0 = no limit */
    double deadline;           /* 0 = none */
    double oracle_seconds;     /* of the check's process or the backend */
    double oracle_cpu_seconds; /* that this process spent on starting it */
    pl_other *others;
    size_t n_others, others_capacity;
    bool keep_other;
};

pl_status pl_oracle_check_new(pl_mini *m, pl_oracle **out, pl_err *err);   /* oracle_check.c */
pl_status pl_oracle_backend_new(pl_mini *m, pl_oracle **out, pl_err *err); /* oracle_backend.c */
pl_status pl_oracle_new(pl_mini *m, const pl_oracle_row *row, void *self, pl_oracle **out,
                        pl_err *err);
void pl_oracle_free(pl_oracle *oracle); /* NULL is fine */
/* Runs the model and sets the target to its first signature. Counts as a query. */
pl_status pl_oracle_learn(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* The best model shows m->found. Is that an operator of the target's body? */
void pl_oracle_narrow(pl_oracle *oracle);
/* PL_E_LIMIT when the query or time limit is reached. */
pl_status pl_oracle_ask(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* The same for a candidate that is not built; `finish` makes its bytes if needed. */
typedef struct pl_bytes_question {
    pl_hash128 key;
    pl_status (*finish)(void *ctx, pl_buf *model, pl_err *err);
    void *ctx;
} pl_bytes_question;
pl_status pl_oracle_ask_bytes(pl_oracle *oracle, const pl_bytes_question *bytes, pl_answer *out,
                              pl_err *err);
/* Asks again to see whether the answer is stable. Not counted. */
pl_status pl_oracle_ask_again(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* Bytes of a state without its large weights: oracle->bytes, and oracle->key. */
pl_status pl_oracle_bytes(pl_oracle *oracle, pl_mini_state *state, pl_err *err);
pl_status pl_observed_add(pl_observed *o, const pl_signature *s, pl_err *err);
void pl_observed_release(pl_observed *o);
/* The predicate of a checked run (oracle_accuracy.c): its options, and the first wrong output; NULL
 * = none. */
pl_accuracy_options pl_mini_rule(const pl_mini *m);
pl_status pl_mini_wrong_output(pl_mini *m, const pl_mini_state *state, pl_datum *const *results,
                               const pl_value **out, pl_err *err);
/* Fails when no output has an element that could tell. */
pl_status pl_mini_check_answers(pl_mini *m, const pl_mini_state *state, pl_err *err);
/* Is output i, which failed by its figures, at a discontinuity (rule unstable)? */
pl_status pl_mini_jumps(pl_mini *m, const pl_mini_state *state, pl_datum *const *results, size_t i,
                        const pl_accuracy_figures *figures, bool *jumps, pl_err *err);
/* The backend that is open; NULL = none, as with a check (oracle_backend.c). */
const pl_backend *pl_oracle_backend(const pl_oracle *oracle);
/* The backend's spec for a candidate: planted faults follow their node (oracle_backend.c). */
pl_status pl_oracle_spec(pl_oracle *oracle, const pl_mini_state *state, pl_buf *out, pl_err *err);

#endif
