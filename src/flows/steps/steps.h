/* The generate flow: many steps with state on two sides.
 *
 * First a pass that compares the logits, the state and the other outputs of each step, nothing
 * recorded; then the whole analysis of a few steps: the first that differs, the one before it, the
 * worst. In the pass both sides get A's state ("shared"), so that a step differs only by its own
 * computation, or each uses its own. The pass only selects steps: an operation is blamed, or
 * cleared, only by an analysis. */
#ifndef PL_STEPS_H
#define PL_STEPS_H

#include "backends/backend.h"
#include "base/threads.h"
#include "flows/api.h"
#include "flows/steps/feed.h"
#include "flows/steps/sample.h"
#include "metric/logits.h"
#include "session/session.h"

typedef struct pl_step {
    int64_t past, n; /* tokens before it, and in it */
    int64_t token;   /* fed next; -1 = none */
    int64_t choice_a, choice_b;
    bool has_logits;
    double logits[PL_N_LOGIT_METRICS]; /* of the last row */
    double error, largest; /* of logits and other outputs: rms and largest difference, of the rms */
    double state_error;    /* NAN = no state */
    size_t state;          /* the worst: an output of the model; SIZE_MAX */
    double score;          /* how far beyond what its precision explains; > 1 is suspicious */
    bool state_suspect;
    bool flip, tie;
    size_t analysis; /* SIZE_MAX = not analysed */
} pl_step;

typedef struct pl_steps_side {
    const char *who; /* "the backend under test", "the reference" */
    char *spec;      /* owned */
    pl_model *model;
    const char *file;
    pl_feed feed;
    pl_backend *backend;
    pl_program *program;
    pl_datum **state; /* by input; NULL = not yet */
    pl_datum **in, **out;
} pl_steps_side;

typedef struct pl_checkpoint { /* A's state before a step */
    size_t step;
    pl_datum **state;
} pl_checkpoint;

typedef struct pl_step_analysis {
    size_t step;
    pl_session *session;
    char *folder; /* NULL = not written */
} pl_step_analysis;

enum { PL_MAX_CHECKPOINTS = 16, PL_MAX_ANALYSES = 24 };

typedef struct pl_self_check { /* a rule for one side (self_test.c) */
    const char *name, *status;
    char reason[400];
    double error, bound;
    char *node, *op, *value; /* NULL = none */
} pl_self_check;
enum { PL_MAX_SELF_CHECKS = 8 };

typedef struct pl_steps {
    plumb_model *m;
    const plumb_generate_options *o; /* NULL after the flow */
    plumb_model *reference_model;    /* NULL = the same model */
    pl_pool *pool;
    pl_steps_side a, b;
    size_t *state_of_b;  /* by B's input: A's input of that state; SIZE_MAX */
    size_t *output_of_b; /* by A's output: B's; SIZE_MAX */
    bool shared;
    pl_sample_rule sample;
    int64_t *tokens; /* prompt and generated tokens */
    size_t n_prompt, n_tokens, max_tokens;
    size_t n_chunks; /* steps of the prompt */
    pl_step *steps;
    size_t n_steps, max_steps;
    pl_checkpoint checkpoints[PL_MAX_CHECKPOINTS];
    size_t n_checkpoints, stride;
    pl_step_analysis analyses[PL_MAX_ANALYSES];
    size_t n_analyses;
    pl_self_check checks[PL_MAX_SELF_CHECKS];
    size_t n_checks;
    /* result */
    pl_outcome outcome;
    char reason[600];
    size_t first_divergent; /* SIZE_MAX = none */
    size_t parted;          /* own state: the first step whose outputs differ; SIZE_MAX */
    const char *carried_by;
    char **outputs; /* names */
    size_t n_outputs;
    char *feed_folder; /* of save_step; NULL */
    char *model_path, *spec_a, *spec_b, *version_a, *version_b;
    bool ran_own; /* own state was used */
} pl_steps;

/* Release even on failure. Afterwards model and options are no longer needed. */
pl_status pl_steps_run(pl_steps *s, pl_err *err);
void pl_steps_release(pl_steps *s);

/* ---- between the files of this folder ---- */
pl_status pl_steps_prepare(pl_steps *s, bool alone, pl_err *err);
pl_feed_window pl_steps_window(const pl_steps *s, const pl_steps_side *side, size_t step);
/* One run of a side on `state` (by its input; NULL = the first step). in and out of the side hold
 * the result. */
pl_status pl_side_step(pl_steps_side *side, const pl_feed_window *w, size_t step,
                       pl_datum *const *state, pl_err *err);
void pl_side_keep_state(pl_steps_side *side); /* its outputs become the state */
void pl_side_drop_state(pl_steps_side *side);
void pl_steps_drop(pl_datum **data, size_t n);
/* One pass over at most `limit` steps. */
pl_status pl_steps_pass(pl_steps *s, size_t limit, pl_err *err);
/* How far x is from y (rms and largest difference, of y's rms), and what rounding explains. */
typedef struct pl_step_distance {
    double rms, largest, floor, scale;
    bool structural, nonfinite;
} pl_step_distance;
pl_status pl_step_measure(pl_pool *pool, const pl_datum *x, const pl_datum *y,
                          pl_step_distance *out, pl_err *err);
double pl_step_score(const pl_step_distance *d); /* > 1 is suspect */
/* Brings A to a step, from the nearest checkpoint, without recording: a->in is its feed. */
pl_status pl_steps_rewind(pl_steps *s, size_t step, pl_err *err);
/* Selects the steps to analyse, and concludes from the analyses. */
pl_status pl_steps_search(pl_steps *s, pl_err *err);
pl_status pl_steps_self_tests(pl_steps *s, pl_err *err);
const char *pl_self_test_name(size_t i);  /* NULL beyond the last */
int64_t pl_steps_layer(const char *name); /* "model.layers.3.attn" is 3; -1 = none */
const pl_blame_entry *pl_steps_culprit(const pl_steps *s); /* of the first divergent step; NULL */
int64_t pl_steps_first_flip(const pl_steps *s);            /* -1 */
double pl_steps_perplexity(const pl_steps *s, int metric); /* NAN = no logits */
pl_status pl_steps_print(const pl_steps *s, const char *format, pl_buf *out, pl_err *err);

#endif
