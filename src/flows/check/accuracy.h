/* "Does the candidate compute what the reference computes?": one predicate for run, analyze and
 * minify.
 *
 * Three runs of the same outputs: the reference, the candidate, and gold, the same graph in fp64,
 * to tell which is closer. Profile torch is PyTorch's same(). Profile plumb: kind, length, type and
 * shape first; then the positions of NaN and Inf. With gold, the candidate may be NOISE times as
 * far from it as the reference is, both by RMSE and by the largest element, plus a floor by
 * precision; an element that only this allows must be within its error bound. Without gold every
 * element must be within a tolerance of the reference, by precision. Sequences and optionals are
 * compared item by item; `path` is the position of the first difference. */
#ifndef PL_ACCURACY_H
#define PL_ACCURACY_H

#include <plumb.h>

#include "blame/blame.h"
#include "graph/graph.h"
#include "session/judge.h"
#include "session/verdict.h"
#include "tensor/datum.h"

typedef struct pl_accuracy {
    pl_profile profile;
    plumb_same_options same; /* torch */
    double tol;              /* plumb: |a - r| <= tol (|r| + rms(r)), instead of gold; NAN = gold.
                                By figures: of the output's size; NAN = 1e-4 */
    bool strict;             /* integers, bools and strings count and must be exact */
    bool any_float;          /* the element type may differ: one side runs in fp64 */
    bool flips;              /* quantised: a rounding difference may become a whole step */
    pl_precision precision;  /* best possible: effective precision of the model */
    pl_precision floats;     /* the same without codes, of its floats */
    double absolute;         /* what any element may be off by (pl_value_absolute_error) */
    pl_pool *pool;
} pl_accuracy;
/* plumb, tol by precision, PyTorch's repro options. */
void pl_accuracy_init(pl_accuracy *accuracy);

/* The rule as in commands and repro.json. */
typedef struct pl_accuracy_options {
    bool accuracy, strict;      /* accuracy: asked for (minify); strict: integers count */
    const char *profile, *same; /* NULL or "" = plumb, PyTorch's own */
    double tol;                 /* 0 = by the fp64 run */
} pl_accuracy_options;
pl_status pl_accuracy_read(const pl_accuracy_options *o, pl_accuracy *a, pl_err *err);

typedef struct pl_accuracy_check { /* of one output */
    bool same;
    bool ignored;                        /* not a float, and not strict */
    const char *rule;                    /* the deciding rule; static */
    char path[128];                      /* "" for the whole output */
    char why[300];                       /* "" when same */
    double ref_error, res_error;         /* RMSE against gold; NAN = not known */
    double allowed;                      /* limit of res_error; NAN = another rule decided */
    double multiplier, tol;              /* the parts of `allowed`, NAN */
    double res_largest, largest_allowed; /* the same of the largest element; NAN */
    bool model_wrong, runtime_right;     /* against a recording: what is at fault */
    int64_t n_undefined; /* elements that operators leave undefined, which are not compared */
    bool measured;       /* tensors of the same shape: acc is of the candidate against ref */
    pl_accumulators acc;
    pl_precision precision;
} pl_accuracy_check;

/* gold may be NULL. Only memory and usage fail. */
pl_status pl_accuracy_compare(const pl_accuracy *accuracy, const pl_datum *ref, const pl_datum *res,
                              const pl_datum *gold, pl_accuracy_check *out, pl_err *err);

/* The same question about an output that blame has judged (analyze, minify): does it fail by
 * itself? Unknown numbers are NAN. */
typedef pl_output_facts pl_accuracy_figures;
double pl_accuracy_output_tol(const pl_accuracy *accuracy);
bool pl_accuracy_output_fails(const pl_accuracy *accuracy, const pl_accuracy_figures *figures);

/* At a discontinuity (a gradient at a kink, a rounded code) a correct result may be on the other
 * side: `moved` is a second fp64 run on inputs perturbed by a few rounding errors. A check that
 * failed against gold passes, by the rule "unstable", when it is no further off than 4 times what
 * that moves it by. */
pl_status pl_accuracy_excuse(const pl_accuracy *accuracy, const pl_datum *gold,
                             const pl_datum *moved, pl_accuracy_check *check, pl_err *err);

/* That second check for the outputs of one run, and another for ambiguities of ONNX: a check that
 * fits the other reading passes by the rule "open". Both runs are made only when needed. */
struct pl_spread;
enum { PL_ACCURACY_MOVES = 3 };
typedef struct pl_accuracy_moves { /* zeroed except for borrowed fields */
    const pl_accuracy *accuracy;
    pl_model *model;       /* of the reference */
    pl_datum *const *in;   /* by its inputs */
    pl_datum *const *gold; /* by its outputs; NULL entries = not known */
    uint64_t seed;
    void (*tell)(void *ctx, size_t done, size_t all); /* NULL */
    void *ctx;
    pl_datum **moved[PL_ACCURACY_MOVES];
    pl_datum **other[2];      /* the other reading: at the model's precision, in fp64 */
    struct pl_spread *spread; /* by output: effect of rounding alone */
    pl_model *own;            /* of the candidate, if it ran on a CPU; or NULL */
    pl_datum *const *own_in;  /* its inputs */
    pl_datum *const *res;     /* its outputs */
    bool judged;              /* bounds were computed */
    pl_blame bounds;          /* of these outputs */
} pl_accuracy_moves;
/* Excuses the check of the reference's output i, of which the candidate has `res`, at a
 * discontinuity or an ambiguity. */
pl_status pl_accuracy_settle(pl_accuracy_moves *m, size_t i, const pl_datum *res,
                             pl_accuracy_check *check, pl_err *err);
/* Sets what the candidate ran, and its outputs; NULL: bounds are not asked for. */
void pl_accuracy_take_results(pl_accuracy_moves *m, pl_model *own, pl_datum *const *in,
                              pl_datum *const *res);
/* Fails the check of the candidate's output i, which is k of the reference, although it passed: if
 * rounding in its own model on these very inputs cannot explain an element. A replay with bounds is
 * made only when the check is in doubt. */
pl_status pl_accuracy_bound(pl_accuracy_moves *m, size_t i, size_t k, const pl_datum *ref,
                            pl_accuracy_check *check, pl_err *err);
/* pl_accuracy_settle for an output that failed by its figures; check->same = it is excused. The
 * gate's own excuses are held to the limit of the figures. */
pl_status pl_accuracy_settle_figures(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                                     const pl_datum *res, const pl_accuracy_figures *figures,
                                     pl_accuracy_check *check, pl_err *err);
/* The first value of the model's own run that is NaN or Inf and finite in fp64; NULL when it is not
 * known. Runs it twice. */
pl_status pl_accuracy_birth(const pl_accuracy_moves *m, const pl_value **out, pl_err *err);
void pl_accuracy_moves_release(pl_accuracy_moves *m);

/* Relative to an output's rms: the error that is always acceptable at this precision. */
double pl_accuracy_floor(pl_precision precision);

/* Effective precision of this model: the coarsest of its float types, or its integer codes. */
pl_precision pl_model_precision(const pl_model *model, bool *flips, pl_precision *floats);
/* The same for this output; NULL = all of them. `known` (by value id, or NULL): values that are the
 * same on both sides, so nothing before them counts. */
pl_precision pl_output_precision(const pl_model *model, const pl_value *output, const bool *known,
                                 bool *flips, pl_precision *floats);
/* Compares a recording with a run of this output, like pl_accuracy_compare without gold, but
 * flipped codes excuse no more than `m` measures. */
pl_status pl_accuracy_recorded(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                               const pl_datum *res, pl_accuracy_check *check, pl_err *err);
/* For a failed check of two runs: passes it by the rule "flips" if rounding alone moves the output
 * as far. False when `spread` is unknown. */
bool pl_accuracy_excuse_flips(const pl_accuracy *a, const struct pl_spread *spread,
                              pl_accuracy_check *check);

#endif
