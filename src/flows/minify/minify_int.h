/* Inside src/flows: what the minifier's parts share.
 *
 * A state is a model with data for its inputs. A candidate is a state that a strategy made from the
 * best one so far; the oracle says whether it fails in the same way. Any subset of the nodes of a
 * state is a candidate: what it needs from nodes that are gone is fed with the recorded value, and
 * what it made for them becomes an output. */
#ifndef PL_MINIFY_INT_H
#define PL_MINIFY_INT_H

#include <plumb.h>

#include "base/hash.h"
#include "base/threads.h"
#include "flows/check/accuracy.h"
#include "flows/minify/oracle/signature.h"
#include "graph/graph.h"
#include "store/spool.h"
#include "tensor/datum.h"

typedef struct pl_mini pl_mini;
typedef struct pl_oracle pl_oracle;

/* ---- values: recorded data by name, shared by states (mini_values.c) ---- */

typedef struct pl_mini_values pl_mini_values;
pl_status pl_mini_values_new(pl_mini_values **out, pl_err *err);
pl_mini_values *pl_mini_values_ref(pl_mini_values *values);
void pl_mini_values_unref(pl_mini_values *values); /* NULL is fine */
pl_status pl_mini_values_put(pl_mini_values *values, const char *name, const pl_datum *d,
                             pl_err *err);
bool pl_mini_values_has(const pl_mini_values *values, const char *name);
pl_status pl_mini_values_get(const pl_mini_values *values, const char *name, pl_datum **out,
                             pl_err *err); /* a new reference; NULL when it is not there */

/* ---- states (mini_state.c, mini_cut.c) ---- */

typedef struct pl_mini_state {
    pl_model *model;        /* resolved; inner types as far as they are known */
    pl_datum **in;          /* by input; NULL where there is none */
    pl_mini_values *values; /* of its inner values; NULL = not known any more */
    uint64_t serial;        /* given when it is asked for the first time: it does not change then */
    const char *file;       /* that holds exactly this model; NULL = none. Lives with the caller */
} pl_mini_state;

typedef struct pl_measure { /* of a state: what gets smaller */
    size_t n_nodes;         /* bodies included */
    size_t n_inputs, n_outputs;
    int64_t n_elements;  /* of inputs and weights */
    size_t n_attrs;      /* attributes and optional inputs that are not left out */
    int64_t n_complex;   /* of pl_mini_count_complex; only counted when they matter */
    int64_t n_original;  /* values of the original's weights; only counted when they matter */
    int64_t n_odd_types; /* inputs and weights of float types other than float32 */
} pl_measure;

/* Takes the model and the data. */
pl_status pl_mini_state_new_take(pl_model *model, pl_datum **in, pl_mini_state **out, pl_err *err);
void pl_mini_state_free(pl_mini_state *state); /* NULL is fine */
/* A copy to be changed; it shares tensors and values. */
pl_status pl_mini_state_copy(const pl_mini_state *from, pl_mini_state **out, pl_err *err);
void pl_mini_state_measure(const pl_mini_state *state, pl_measure *out);
/* Elements of inputs and weights that are neither 0 nor 1 nor like the one before. */
int64_t pl_mini_count_complex(const pl_mini_state *state);
/* Element-wise work done: inner types are forgotten and inferred again, inputs get the types of
 * their data. *ok false: the shapes contradict each other. */
pl_status pl_mini_state_settle(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);
/* Input i becomes a weight with the data that it has. */
pl_status pl_mini_state_freeze(pl_mini_state *state, size_t i, pl_err *err);
void pl_mini_state_drop_input(pl_mini_state *state, size_t i);
/* Removes inputs that nothing uses; *n_dropped counts. */
pl_status pl_mini_state_drop_unused(pl_mini_state *state, size_t *n_dropped, pl_err *err);
/* Runs the reference and remembers every value. False: it cannot run. */
pl_status pl_mini_state_evaluate(pl_mini *m, pl_mini_state *state, bool *ok, pl_err *err);

/* The nodes with keep[index]. *out is NULL when there is no such model (no node, no data). */
pl_status pl_mini_cut(pl_mini *m, const pl_mini_state *from, const bool *keep, pl_mini_state **out,
                      pl_err *err);
/* Only the outputs with keep[i], and what they need. */
pl_status pl_mini_cut_outputs(pl_mini *m, const pl_mini_state *from, const bool *keep,
                              pl_mini_state **out, pl_err *err);
/* Replaces nodes without keep[index] by one of their inputs of the same type (mini_bypass.c). */
pl_status pl_mini_bypass(pl_mini *m, const pl_mini_state *from, const bool *keep,
                         pl_mini_state **out, pl_err *err);
bool pl_mini_can_bypass(const pl_node *node);
/* The input that can stand for a node's only output; NULL = none. */
pl_value *pl_mini_stand_in(const pl_node *node);
/* Uses of values become uses of instead[id], where that is not NULL; bodies too. `ctx` is the
 * array. Outputs of the main graph are moved by the second. */
pl_status pl_mini_redirect(void *ctx, pl_graph *graph, pl_err *err);
/* An output becomes that of what stands for it, unless that is an input or an output already. */
void pl_mini_move_outputs(pl_graph *graph, pl_value *const *instead);

/* ---- writing (mini_write.c) ---- */

/* The model's bytes with large weights left to `weights` (a file beside it; NULL: all inside), and
 * what it is known by. Tensors are hashed once. */
typedef struct pl_mini_weights pl_mini_weights;
pl_status pl_mini_weights_new(pl_mini_weights **out, pl_err *err);
void pl_mini_weights_free(pl_mini_weights *weights);
pl_status pl_mini_weights_know_originals(pl_mini_weights *weights, const pl_mini_state *state,
                                         pl_err *err);
/* Bytes without large weights; *key covers weights and data too. */
pl_status pl_mini_state_bytes(const pl_mini_state *state, pl_mini_weights *weights, pl_buf *out,
                              pl_hash128 *key, pl_err *err);
/* What a state is known by when names do not matter: the canonical hash, data and backend. */
pl_status pl_mini_state_key(const pl_mini_state *state, pl_mini_weights *weights, const char *spec,
                            pl_hash128 *out, pl_err *err);
/* Puts the large weights back into bytes made above: those above a limit as references into
 * DIR/weights.bin, which gets what it lacks. */
pl_status pl_mini_weights_attach(pl_mini_weights *weights, const pl_mini_state *state,
                                 const char *dir, const pl_buf *bytes, pl_buf *out, pl_err *err);

/* Weights that lie in the original's own file are used there (mini_origin.c). */
#define PL_ORIGINAL_FILE "original.bin"
pl_status pl_mini_weights_use_file(pl_mini_weights *weights, const pl_mini_state *state,
                                   const char *dir, pl_err *err);
/* The tensor's bytes are those at `offset` of that file. */
pl_status pl_mini_weights_note(pl_mini_weights *weights, pl_tensor *tensor, int64_t offset,
                               size_t n_bytes, pl_err *err);
/* This process is a fork: what it adds goes to a file of its own. */
void pl_mini_weights_forked(pl_mini_weights *weights);

/* The same for some of a state's weights: those with used[value id]. */
pl_status pl_mini_weights_put_used(pl_mini_weights *weights, const pl_mini_state *state,
                                   const bool *used, const char *dir, pl_buf *out, pl_err *err);

/* The files that candidates refer to appear in to_dir, too. */
pl_status pl_mini_weights_link(const pl_mini_weights *weights, const char *from_dir,
                               const char *to_dir, pl_err *err);
/* What those are known by. */
pl_status pl_mini_weights_put_key(pl_mini_weights *weights, const pl_mini_state *state,
                                  const bool *used, pl_buf *key, pl_err *err);

/* ---- asking without building (mini_fast.c) ---- */

typedef struct pl_mini_fast pl_mini_fast;
void pl_mini_fast_free(pl_mini_fast *fast); /* NULL is fine */
/* *out NULL: subsets of this state must be built to be asked. It lives until another is asked for.
 */
pl_status pl_mini_fast_of(pl_mini *m, const pl_mini_state *from, pl_mini_fast **out, pl_err *err);
pl_status pl_mini_fast_ask(pl_mini *m, pl_mini_fast *fast, const bool *keep, bool *fails,
                           pl_err *err);
/* Asks for the nodes of keep[], by the quicker way that there is. */
pl_status pl_mini_ask_nodes(pl_mini *m, const pl_mini_state *from, const bool *keep, bool *fails,
                            pl_err *err);

/* ---- the oracle (oracle.c) ---- */

typedef enum pl_answer {
    PL_ANSWER_PASSES,
    PL_ANSWER_FAILS,
    PL_ANSWER_OTHER,
    PL_ANSWER_INVALID
} pl_answer;

typedef struct pl_observed { /* what a run of a candidate showed */
    pl_signature *items;     /* most important first; empty: it passes */
    size_t n_items;
    bool invalid; /* it cannot be asked: the reference fails or is not finite */
    char why[300];
} pl_observed;

typedef struct pl_other { /* a failure that was met on the way */
    pl_signature signature;
    size_t n_seen;
    pl_mini_state *state; /* the first that showed it, when --keep-other */
} pl_other;

typedef struct pl_oracle_row {
    const char *name;
    pl_status (*observe)(pl_oracle *oracle, pl_mini_state *state, pl_observed *out, pl_err *err);
    void (*release)(pl_oracle *oracle);
    /* Tests a model given as bytes; NULL = not supported. */
    pl_status (*observe_bytes)(pl_oracle *oracle, const pl_buf *model, pl_observed *out,
                               pl_err *err);
    /* This process is a fork now: what is open is the other's. NULL = nothing is. */
    void (*forked)(pl_oracle *oracle);
} pl_oracle_row;

struct pl_oracle {
    const pl_oracle_row *row;
    pl_mini *m;
    void *self;
    pl_signature target;
    pl_signature original; /* what the model as it was given showed */
    /* When an If, Loop or Scan is to blame: operators of its bodies. One of them alone shows the
     * same failure; the first that does becomes the target. */
    const char **inner;
    size_t n_inner;
    const char *check_str;
    pl_mini_weights *weights;
    pl_buf bytes; /* of the state asked last, without large weights */
    uint64_t bytes_serial, last_serial;
    pl_hash128 key;
    pl_strmap cache; /* key in hex -> answer + 1 */
    pl_arena *arena;
    size_t n_queries; /* distinct candidates that were run */
    size_t n_runs;    /* with repetitions */
    size_t n_cached;
    size_t max_queries;        /* 0 = no limit */
    double deadline;           /* 0 = none */
    double oracle_seconds;     /* of what is under test: the check's process, the backend */
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
/* What does the model as it is show? Sets the target to the first signature. Counts as a query. */
pl_status pl_oracle_learn(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* The best model shows m->found. Was that an operator of the target's body? */
void pl_oracle_narrow(pl_oracle *oracle);
/* PL_E_LIMIT when the query or time limit is reached. */
pl_status pl_oracle_ask(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* The same for a candidate that is not built; `finish` makes its bytes when they are needed. */
typedef struct pl_bytes_question {
    pl_hash128 key;
    pl_status (*finish)(void *ctx, pl_buf *model, pl_err *err);
    void *ctx;
} pl_bytes_question;
pl_status pl_oracle_ask_bytes(pl_oracle *oracle, const pl_bytes_question *bytes, pl_answer *out,
                              pl_err *err);
/* Asked anew: is the answer stable? Not counted. */
pl_status pl_oracle_ask_again(pl_oracle *oracle, pl_mini_state *state, pl_answer *out, pl_err *err);
/* Bytes of a state without its large weights: oracle->bytes, and oracle->key. */
pl_status pl_oracle_bytes(pl_oracle *oracle, pl_mini_state *state, pl_err *err);
pl_status pl_observed_add(pl_observed *o, const pl_signature *s, pl_err *err);
void pl_observed_release(pl_observed *o);
/* The predicate of run --accuracy (oracle_accuracy.c): its options, and the first output that it
 * calls wrong; NULL = none. */
pl_accuracy_options pl_mini_rule(const pl_mini *m);
pl_status pl_mini_wrong_output(pl_mini *m, const pl_mini_state *state, pl_datum *const *results,
                               const pl_value **out, pl_err *err);
/* Does output i, which failed by its figures, lie where its function jumps (rule unstable)? */
pl_status pl_mini_jumps(pl_mini *m, const pl_mini_state *state, pl_datum *const *results, size_t i,
                        const pl_accuracy_figures *figures, bool *jumps, pl_err *err);
/* The backend's spec for a candidate: planted faults follow their node (oracle_backend.c). */
pl_status pl_oracle_spec(pl_oracle *oracle, const pl_mini_state *state, pl_buf *out, pl_err *err);

/* ---- looking ahead (mini_ahead.c) ---- */

typedef struct pl_ahead pl_ahead;
typedef struct pl_report { /* an answer with what was seen */
    pl_hash128 key;
    pl_answer answer;
    pl_signature seen; /* of FAILS and OTHER */
    double seconds;
} pl_report;

/* jobs: questions that may be worked on at the same time; 1 = no looking ahead. */
pl_status pl_ahead_new(pl_mini *m, int jobs, pl_ahead **out, pl_err *err);
void pl_ahead_stop(pl_ahead *ahead); /* ends all scouts and sends no more */
void pl_ahead_free(pl_ahead *ahead); /* NULL is fine, here and in all of these */
bool pl_ahead_is_scout(const pl_ahead *ahead);
void pl_ahead_counts(const pl_ahead *ahead, size_t *n_sent, size_t *n_used);
/* Called with a question at hand. This returns in the scouts, too: there *fails is the answer that
 * they take for granted. */
void pl_ahead_send(pl_ahead *ahead, bool *fails);
/* The same for a repetition, whose answer is taken to be the same. */
void pl_ahead_send_again(pl_ahead *ahead);
/* The answer of the scout that has arrived here; false = there is none. Waits for it. */
bool pl_ahead_receive(pl_ahead *ahead, pl_hash128 key, pl_report *out);
/* The answer is known: who went another way is ended. seconds 0 = not measured. */
void pl_ahead_settle(pl_ahead *ahead, bool fails, double seconds);
void pl_ahead_settle_again(pl_ahead *ahead, bool fails);
/* What is asked from now on is another question: scouts cannot know it. */
void pl_ahead_recall(pl_ahead *ahead);
/* In a scout: the next answer to take for granted; false = this question is the one to report. */
bool pl_ahead_assume(pl_ahead *ahead, bool *fails);
/* In a scout: says it and ends the process; NULL = there is nothing to say. */
void pl_ahead_report(pl_ahead *ahead, const pl_report *report) __attribute__((noreturn));

/* ---- strategies ---- */

typedef enum pl_stage {
    PL_STAGE_GUESS,     /* once, at the start: blame names the place */
    PL_STAGE_STRUCTURE, /* nodes, inputs, outputs */
    PL_STAGE_DETAIL,    /* attributes, shapes, data */
    PL_STAGE_PROOF      /* one by one */
} pl_stage;

/* What must get smaller for a success to be one. */
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
    const char *name; /* PyTorch's where the strategy is the same */
    pl_stage stage;
    pl_goal goal;
    bool needs_data, needs_blame;
    /* *out NULL: found nothing. Every candidate that it returns was answered with FAILS. */
    pl_status (*run)(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err);
} pl_strategy;

#define PL_STRATEGY(name) extern const pl_strategy pl_strategy_##name;
#include "flows/minify/strategy/strategies.def"
#undef PL_STRATEGY

/* ---- data (mini_data.c) ---- */

/* A tensor of a state: an input's data, or a weight. */
typedef struct pl_slot {
    pl_value *value;
    size_t input; /* index; SIZE_MAX = a weight */
} pl_slot;
pl_status pl_mini_slots(const pl_mini_state *state, pl_slot **out, size_t *n_out, pl_err *err);
/* NULL when there is no tensor. */
pl_tensor *pl_slot_tensor(const pl_mini_state *state, const pl_slot *slot);
/* Takes the tensor; an input also gets its type. */
pl_status pl_slot_set_take(pl_mini_state *state, const pl_slot *slot, pl_tensor *t, pl_err *err);
/* `count` entries of an axis from `begin` on; contiguous. */
pl_status pl_mini_slice(const pl_tensor *t, int axis, int64_t begin, int64_t count, pl_tensor **out,
                        pl_err *err);
typedef enum pl_simple {
    PL_SIMPLE_ONE,
    PL_SIMPLE_ZERO,
    PL_SIMPLE_FIRST,
    PL_SIMPLE_ROUND
} pl_simple;
/* The same shape with simpler elements; *out NULL when nothing would change. */
pl_status pl_mini_simplify(const pl_tensor *t, pl_simple how, pl_tensor **out, pl_err *err);
/* Inputs or weights, all at once and one by one, by the four rules above and with zeros. */
pl_status pl_mini_simplify_slots(pl_mini *m, const pl_mini_state *from, bool weights,
                                 pl_mini_state **out, pl_err *err);

/* ---- finding a small subset (mini_reduce.c) ---- */

typedef struct pl_reduce {
    pl_mini *m;
    size_t n;                         /* items */
    bool first_matters, last_matters; /* that is known: these items stay */
    size_t patience; /* gives up after so many items in a row that matter; 0 = never */
    bool gave_up;
    /* A candidate with the items of keep[]; *out NULL: there is none. */
    pl_status (*build)(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err);
    /* The question without the building, where that is quicker; NULL = there is no such way. */
    pl_status (*ask)(void *ctx, const bool *keep, bool *fails, pl_err *err);
    void *ctx;
    pl_mini_state *best; /* while it runs: the smallest that fails, */
    bool *keep;          /* and its items */
} pl_reduce;
/* Leaves out as many items as it can; few items that matter cost about log2(n) queries each. What
 * is found replaces *best, which stays as it is when every item matters. */
pl_status pl_reduce_run(pl_reduce *r, pl_mini_state **best, pl_err *err);
/* The shortest prefix (or suffix) of the nodes that fails, by halving; replaces *best likewise. */
pl_status pl_mini_truncate(pl_mini *m, const pl_mini_state *from, bool prefix, pl_mini_state **best,
                           pl_err *err);
/* Asks; takes the candidate. FAILS: *best is replaced by it. */
pl_status pl_mini_try_take(pl_mini *m, pl_mini_state *candidate, pl_mini_state **best, bool *fails,
                           pl_err *err);

/* ---- the whole (minify.c) ---- */

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
    char blamed[256];          /* value that blame names; "" */
    const char **blamed_group; /* values of the group */
    size_t n_blamed_group;
    pl_arena *arena;
    char *work;        /* temporary folder of the queries */
    char *checkpoints; /* folder; NULL = none */
    double started;
    double cpu_seconds; /* of this process, from the first query to the last */
    double last_checkpoint;
    const pl_model *original; /* as it was given */
    plumb_context recorded;   /* what was done to the model, now or when the repro was made */
    pl_mini_fast *fast;
    size_t n_accepted;   /* successes so far */
    pl_mini_state *good; /* the last candidate that passed; kept when asked for */
    char *remains;       /* of the original's weights, in words; in the arena; NULL = not asked */
    pl_signature found;  /* what the final model shows */
};

/* The temporary folder; what runs that were killed have left is removed (mini_work.c). */
pl_status pl_mini_work_open(pl_mini *m, pl_err *err);
void pl_mini_work_close(pl_mini *m);
double pl_mini_cpu_seconds(void);
/* Of --max-time; at least a millisecond, 1e9 without it. */
double pl_mini_seconds_left(const pl_mini *m);
/* When a run of the reference must end that may take so long, in pl_clock_ns. */
int64_t pl_mini_deadline(const pl_mini *m, double seconds);
void pl_mini_log(pl_mini *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* How many values of the original's weights are still there, and in words (strategy_strip.c). */
pl_status pl_mini_count_original(const pl_mini *m, const pl_mini_state *state, int64_t *out,
                                 pl_err *err);
pl_status pl_mini_describe_remains(pl_mini *m, pl_err *err);
/* Writes the best state so far, named by its node count (checkpoint.c). */
pl_status pl_mini_checkpoint(pl_mini *m, pl_err *err);
/* A run that begins anew must not mix its checkpoints with another's: PL_E_EXISTS. */
pl_status pl_mini_checkpoints_check(const pl_mini *m, pl_err *err);
/* All checkpoints of the folder, and the folder when nothing else is in it. */
void pl_mini_checkpoints_remove(const pl_mini *m);
/* What every repro of this run says (repro.h); spec is its backend's, and lives as long. */
struct pl_repro pl_mini_repro(const pl_mini *m, const pl_mini_state *state, const pl_buf *spec);
pl_status pl_mini_run(pl_mini *m, pl_mini_state *start_take, pl_err *err);

#endif
