/* Private to src/flows: shared by the parts of the analyze flow. */
#ifndef PL_ANALYZE_INT_H
#define PL_ANALYZE_INT_H

#include "flows/analyze/side_run.h"
#include "flows/api.h"
#include "flows/check/accuracy.h"
#include "metric/same.h"
#include "pair/pair.h"
#include "session/session.h"
#include "session/session_write.h"
#include "store/recording.h"

/* Values of B's model (the one that is replayed) and their counterparts in A's. For one model on
 * both sides every value is its own counterpart. */
typedef struct pl_counterparts {
    const pl_value **a; /* by value id of the replayed model; NULL = none */
    const char **method, **relation;
    double *confidence;
} pl_counterparts;

/* Outputs that may be needed again, by index in the replayed model; NULL where unknown. */
typedef struct pl_kept_outputs {
    pl_datum **a, **b, **gold;
    size_t n;
} pl_kept_outputs;

typedef struct pl_analysis {
    plumb_model *m;
    pl_model *model;    /* under test */
    pl_model *replayed; /* whose segments are replayed: the reference's, or `model` itself */
    /* `replayed` in the lower precision of the model under test, with the same values; NULL = it
     * has that already. Blame judges by it: what a float16 model rounds is no fault of its nodes.
     */
    pl_model *lowered;
    pl_datum **lowered_in;
    plumb_model *reference_model; /* owned; NULL = the same model */
    const plumb_analyze_options *options;
    const plumb_inputs *inputs; /* of this sample */
    size_t sample;
    pl_session *session;
    pl_arena *arena; /* the session's */
    pl_pool *pool;
    pl_datum **in;          /* of `model` */
    pl_datum **replayed_in; /* of `replayed`: those of `in`, in its types */
    pl_side_run a, b;
    bool alone;                /* the only sample: A's program serves no other */
    const pl_side_run *lender; /* of A's program, from an earlier sample; NULL = A compiles it */
    pl_recording *recording;   /* B is only a recording; NULL = it is a run */
    bool *foreign; /* by value id of `replayed`: comes from an operator that only A can run; NULL =
                      none does, or B can run it too */
    pl_pair_map map; /* the user's; arena NULL = none */
    pl_counterparts pairs;
    size_t *recorded; /* by value id of `replayed`: record + 1; NULL when B is a run */
    pl_blame blame;
    pl_blame own_blame;          /* of the quantised model alone, when B is its float model */
    struct pl_mistake *mistakes; /* by value id of `replayed`; NULL = the model is not quantised, or
                                    B is the same one */
    const char **clipped;        /* by value id of `model`: what its quantiser clips; or NULL */
    const char **differs;        /* by node of `replayed`: how it differs from the node of this name
                                    in `model`; NULL = one model */
    pl_precision *precision;     /* by value id of `model`: effective precision */
    pl_progress progress;
    const pl_arithmetic *arithmetic; /* requested precision profile; NULL = A's own */
    pl_accuracy accuracy;            /* rule for outputs; the same object as in run and minify */
    struct pl_spread *spread; /* by output of `replayed`, in the arena: what rounding does; NULL =
                                 not asked */
    bool *same_codes; /* by value id of `replayed`: the recording has the codes of gold; NULL = B is
                         a run */
    pl_kept_outputs outputs;        /* kept until the verdict */
    struct pl_seen_choice *choices; /* of experts, in the arena (analyze_routing.c) */
    size_t n_choices, choices_capacity;
    int routers; /* does an operator choose by scores? 1, -1; 0 = not asked yet */
    double started;
    size_t points_capacity;
    pl_session_folder *folder;    /* NULL = nothing is kept */
    bool keep_all, keep_suspects; /* whose tensors are kept */
    size_t n_unreached;           /* operators that the inputs do not exercise */
    const char *unreached;        /* the first of them */
    pl_buf *lines; /* NONDETERMINISTIC and DIVERGED lines, as PyTorch's analyze prints them */
} pl_analysis;

/* analyze.c */
pl_status pl_analysis_note(pl_analysis *x, pl_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
pl_status pl_analysis_timed(pl_analysis *x, const char *phase, pl_err *err);
const char *pl_analysis_keep(pl_analysis *x, const char *s); /* a copy in the arena; never NULL */
pl_side_options pl_analysis_side(const pl_analysis *x, const char *spec, const char *phase);

/* analyze_reference.c: what B is, and how its values correspond to A's */
pl_status pl_analysis_open_recording(pl_analysis *x, pl_err *err);
pl_status pl_analysis_open_reference(pl_analysis *x, pl_err *err);
pl_status pl_analysis_lower_reference(pl_analysis *x, pl_err *err); /* analyze_lowered.c */
void pl_analysis_release_lowered(pl_analysis *x);
pl_status pl_analysis_pair(pl_analysis *x, pl_err *err);
void pl_analysis_close_reference(pl_analysis *x);
/* Data by value of `replayed`: of a run of `model` (NULL when out of memory: then `get` fails), and
 * of the reference. */
pl_run_data pl_analysis_run_data(pl_analysis *x, const pl_side_run *run);
pl_run_data pl_analysis_reference_data(pl_analysis *x);
bool pl_analysis_a_has(void *ctx, const pl_value *value); /* ctx: the analysis */

/* analyze_diff.c: what differs between the two models before they run */
pl_status pl_analysis_diff(pl_analysis *x, pl_err *err);
pl_status pl_analysis_name_members(pl_analysis *x, pl_err *err);

/* analyze_foreign.c: operators that only the backend under test can run */
pl_status pl_analysis_find_foreign(pl_analysis *x, const char *reference, pl_err *err);
/* An output that comes from one has nothing independent of A to compare with. */
void pl_analysis_doubt_foreign(pl_analysis *x, pl_sync_point *p);
/* gold converted as B would have it, a new reference; NULL when there is none. */
pl_status pl_analysis_gold_as_b(const pl_datum *a, const pl_datum *gold, pl_datum **out,
                                pl_err *err);

/* analyze_points.c: sync points and verdicts */
pl_status pl_analysis_culprit(void *ctx, const pl_value *value, const pl_tensor *replay,
                              const pl_tensor *bound, pl_err *err);
pl_status pl_analysis_judged(void *ctx, const pl_value *value, const pl_datum *a, const pl_datum *b,
                             const pl_datum *gold, pl_err *err);
/* A value of the model that only gold and the recording have: a point when they differ. */
pl_status pl_analysis_unseen(void *ctx, const pl_value *value, const pl_datum *gold, pl_err *err);
pl_status pl_analysis_settle(pl_analysis *x, pl_err *err);
/* rms of a - b relative to b; NAN when they were not measured. */
double pl_analysis_relative(const pl_sync_point *p);
/* The outcome of a session, also after samples were merged or a baseline was applied. `truth`: the
 * reference is a recording. */
pl_status pl_analysis_conclude(pl_session *s, bool truth, pl_err *err);

/* analyze_truth.c: a recording that is the reference is the truth */
pl_status pl_analysis_judge_truth(pl_analysis *x, pl_sync_point *p, const pl_datum *a,
                                  const pl_datum *recorded, const pl_datum *gold, pl_err *err);
pl_status pl_analysis_trace_truth(pl_analysis *x, pl_err *err);

/* analyze_routing.c: chosen experts */
pl_status pl_analysis_see_choice(pl_analysis *x, const pl_value *value, const pl_datum *a,
                                 const pl_datum *b, pl_err *err);
pl_status pl_analysis_routing(pl_analysis *x, pl_err *err);
void pl_analysis_drop_choices(pl_analysis *x);

/* analyze_overflow.c: NaN and Inf on both sides where fp64 is finite */
void pl_analysis_judge_overflow(pl_sync_point *p, const pl_datum *a, const pl_datum *gold);
pl_status pl_analysis_trace_overflow(pl_analysis *x, pl_err *err);

/* analyze_flips.c: outputs of models whose values go through codes of few bits */
/* Effect of rounding alone on this output; measured on first use. */
pl_status pl_analysis_spread(pl_analysis *x, const pl_value *output, struct pl_spread *out,
                             pl_err *err);
/* Is the output further off than flipped codes explain? tol: relative to its size; below it nothing
 * fails. */
pl_status pl_analysis_flips(pl_analysis *x, const pl_sync_point *p, const pl_judgement *v,
                            double tol, bool *fails, pl_err *err);
/* For an output that fails without a culprit: clears *fails when the precision profile of A
 * explains it. */
pl_status pl_analysis_device(pl_analysis *x, pl_sync_point *p, const pl_judgement *v, bool *fails,
                             pl_err *err);
/* Adds a note on outputs that differ but do not fail; *said when there are some. */
pl_status pl_analysis_say_flips(pl_analysis *x, bool *said, pl_err *err);

/* analyze_quant.c: a quantised model against its float model */
pl_status pl_analysis_quantised(pl_analysis *x, pl_err *err);
pl_status pl_analysis_find_precision(pl_analysis *x, pl_err *err);

/* analyze_jumps.c: outputs at discontinuities, by the rule "unstable" of the gate */
pl_status pl_analysis_keep_output(pl_analysis *x, const pl_value *value, const pl_datum *a,
                                  const pl_datum *b, const pl_datum *gold, pl_err *err);
/* For an output that fails by its figures: clears *fails when rounding of the inputs moves it as
 * far. */
pl_status pl_analysis_excuse(pl_analysis *x, pl_sync_point *p, const pl_accuracy_figures *figures,
                             bool *fails, pl_err *err);
void pl_analysis_drop_outputs(pl_analysis *x);

/* analyze_samples.c: several samples to one session, which keeps the worst of each */
pl_status pl_analysis_merge(pl_session *into, const pl_session *from, size_t sample, bool truth,
                            pl_err *err);
/* Inputs that can hide a fault: constant, or all zero. */
pl_status pl_analysis_warn_inputs(pl_analysis *x, pl_err *err);

/* The fewest samples that show every culprit, and the worst sample of each; after the last
 * merge. */
pl_status pl_analysis_cover(pl_session *session, pl_err *err);

/* analyze_reach.c: random inputs that do not exercise a Clip or a Relu */
pl_status pl_analysis_reach(pl_analysis *x, const pl_value *value, const pl_datum *d, pl_err *err);
pl_status pl_analysis_say_reach(pl_analysis *x, pl_err *err);

/* analyze_reuse.c: A's values from an earlier session instead of a run */
pl_status pl_analysis_reuse(pl_analysis *x, pl_err *err);
/* Sets the session's inputs_hash. */
pl_status pl_analysis_hash_inputs(pl_analysis *x, pl_err *err);

/* analyze_baseline.c: accepted divergences do not fail; their `lines` are dropped */
pl_status pl_analysis_check_baseline(const plumb_analyze_options *o, pl_err *err);
pl_status pl_analysis_accept(pl_session *s, const plumb_analyze_options *o, bool truth,
                             pl_buf *lines, pl_err *err);

/* analyze_search.c: finds the cause */
pl_status pl_analysis_blame_failure(pl_analysis *x, pl_err *err);
pl_status pl_analysis_bisect(pl_analysis *x, pl_err *err);
/* For a backend without intermediate values: runs parts of the model on it, the rest on the
 * reference. */
pl_status pl_analysis_search_parts(pl_analysis *x, pl_err *err);

#endif
