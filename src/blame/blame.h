/* Blame: which values of a run were computed wrongly from the run's own inputs.
 *
 * One pass over the model in order. Gold runs in fp64 from the inputs; in parallel every value is
 * replayed in fp64 from the run's own values, with a bound on the rounding error. A value further
 * from its replay than PL_Q_CULPRIT bounds is a culprit; one that is close to its replay but far
 * from gold is inherited. Every node is replayed once; only live values are in memory. */
#ifndef PL_BLAME_H
#define PL_BLAME_H

#include "base/progress.h"
#include "base/threads.h"
#include "blame/local_error.h"
#include "graph/graph.h"
#include "ops/arithmetic.h"
#include "session/session.h"
#include "tensor/datum.h"

/* Data of a run, by value of the model. */
typedef struct pl_run_data {
    bool (*has)(void *ctx, const pl_value *value);
    /* A new reference. */
    pl_status (*get)(void *ctx, const pl_value *value, pl_datum **out, pl_err *err);
    void *ctx;
    /* The input of a node may have been another copy of a low-precision value than the recorded
     * one: the run has values that the model does not. */
    bool has_copies;
    /* May be NULL. The run is of another model, in which this value has another shape. */
    bool (*reshaped)(void *ctx, const pl_value *value);
    const pl_arithmetic *arithmetic; /* precision profile of the run; NULL = rounding only */
    bool adds_f16;                   /* kernels of its CPU may add float16 numbers in float16 */
} pl_run_data;

typedef struct pl_judgement { /* about one value of the main graph that the run has */
    bool judged;              /* the other fields are set */
    pl_value_facts facts;     /* facts from the replay, and the verdict from them alone */
    pl_verdict verdict;
    double q, q_ref;                     /* NAN = none */
    double local, propagated, amplified; /* rms; NAN = not known */
    double reference;                    /* rms of the reference run against gold */
    double scale;                        /* rms of gold */
    const char *excuse, *reason;         /* "" */
    bool own;                 /* far from gold by its own rounding, which its bound allows */
    bool otherwise;           /* it, or its inputs, follow another reading of ONNX than gold does */
    const char *kind, *where; /* of culprits; else "" */
    int64_t n_bad;
    int64_t n_undefined; /* elements that were not compared (interp/dont_care.h) */
    pl_local_class local_class;
    const int64_t *view; /* the model's dims, if the run has the right elements in other dims */
    int view_rank;
    const char *layout; /* how to convert to them (layout.h); NULL = elements are in order */
    bool fallback;      /* gold ran this operator at the model's own precision */
} pl_judgement;

/* Called for each recorded value after it was judged; b and gold are NULL where there is none. */
typedef pl_status (*pl_blame_visit)(void *ctx, const pl_value *value, const pl_datum *a,
                                    const pl_datum *b, const pl_datum *gold, pl_err *err);

/* Called for each value of gold that the run does not have. */
typedef pl_status (*pl_blame_unseen)(void *ctx, const pl_value *value, const pl_datum *gold,
                                     pl_err *err);

/* Called for each culprit before `visit`: its replay in fp64, and the error that rounding allows
 * for (NULL = none). */
typedef pl_status (*pl_blame_culprit)(void *ctx, const pl_value *value, const pl_tensor *replay,
                                      const pl_tensor *bound, pl_err *err);

typedef struct pl_blame_options {
    pl_pool *pool;
    uint64_t seed;
    bool skip_gold;     /* no propagated error, no effects */
    bool b_is_truth;    /* b is a recording: its distance from gold is not only rounding */
    bool gold_twice;    /* nodes of gold run again, and must give the same bits: see gold_repeats */
    size_t max_effects; /* groups whose effect is measured; 0 = 16 */
    bool by_logits;     /* of a decoder: effects are divergences of the output 'logits' alone */
    pl_blame_culprit culprit; /* may be NULL */
    pl_blame_visit visit;     /* may be NULL */
    pl_blame_unseen unseen;   /* may be NULL */
    pl_blame_unseen gold;     /* called for every value of gold; may be NULL */
    void *visit_ctx;
    const pl_progress *progress;
} pl_blame_options;

typedef struct pl_blame {
    pl_arena *arena;
    pl_judgement *of; /* by value id */
    pl_blame_entry *groups;
    size_t n_groups;
    size_t n_replayed, n_unreplayed; /* recorded values */
    size_t n_single;                 /* replayed ones whose segment is one node */
    size_t n_without_rule;           /* nodes without a bound rule of their own */
    const char *first_unreplayed;    /* why; "" */
    const pl_value *gold_unstable;   /* the first value of gold that did not repeat itself */
} pl_blame;

/* The model is resolved and inferred; in[] are its inputs. b may be NULL. */
pl_status pl_blame_run(pl_model *model, pl_datum *const *in, const pl_run_data *a,
                       const pl_run_data *b, const pl_blame_options *options, pl_blame *out,
                       pl_err *err);
void pl_blame_release(pl_blame *blame);

#endif
