/* "Does the candidate compute what the reference computes?": one predicate for run, analyze and
 * minify.
 *
 * Three runs of the same outputs: the reference, the candidate, and gold, the same graph in fp64,
 * to tell which is closer. Profile torch is PyTorch's same(). Profile plumb: kind, length, type and
 * shape first; then the places of NaN and Inf; then, with gold at hand, the candidate may be NOISE
 * times as far from it as the reference is, both by RMSE and by the largest element, and a floor by
 * precision; without gold every element is within a tolerance by precision of the reference.
 * Sequences and optionals are walked; `path` tells where the first difference is. */
#ifndef PL_ACCURACY_H
#define PL_ACCURACY_H

#include <plumb.h>

#include "graph/graph.h"
#include "session/judge.h"
#include "session/verdict.h"
#include "tensor/datum.h"

typedef struct pl_accuracy {
    pl_profile profile;
    plumb_same_options same; /* torch */
    double tol;              /* plumb: |a - r| <= tol (|r| + rms(r)), instead of gold; NAN = gold.
                                By figures: of the output's size; NAN = 1e-4 */
    bool strict;             /* integers, bools and strings count, and exactly */
    bool any_float;          /* the element type may differ: one side runs in fp64 */
    bool flips;              /* quantised: a rounding difference may become a whole step */
    pl_precision precision;  /* at best: what the model goes through */
    pl_precision floats;     /* the same without codes: what its floats go through */
    pl_pool *pool;
} pl_accuracy;
/* plumb, tol by precision, PyTorch's repro options. */
void pl_accuracy_init(pl_accuracy *accuracy);

/* The rule as commands and repro.json have it. */
typedef struct pl_accuracy_options {
    bool accuracy, strict;      /* asked for at all (minify); integers count */
    const char *profile, *same; /* NULL or "" = plumb, PyTorch's own */
    double tol;                 /* 0 = by the fp64 run */
} pl_accuracy_options;
pl_status pl_accuracy_read(const pl_accuracy_options *o, pl_accuracy *a, pl_err *err);

typedef struct pl_accuracy_check { /* of one output */
    bool same;
    bool ignored;                        /* not a float, and not strict */
    const char *rule;                    /* that decided; static */
    char path[128];                      /* "" for the whole output */
    char why[300];                       /* "" when same */
    double ref_error, res_error;         /* RMSE against gold; NAN = not known */
    double allowed;                      /* what res_error may be; NAN = another rule decided */
    double multiplier, tol;              /* that make up `allowed`, NAN */
    double res_largest, largest_allowed; /* the same of the largest element; NAN */
    bool model_wrong, runtime_right;     /* against a recording: whose fault it is */
    bool measured; /* tensors of the same shape: acc is of the candidate against ref */
    pl_accumulators acc;
    pl_precision precision;
} pl_accuracy_check;

/* gold may be NULL. Only memory and usage fail. */
pl_status pl_accuracy_compare(const pl_accuracy *accuracy, const pl_datum *ref, const pl_datum *res,
                              const pl_datum *gold, pl_accuracy_check *out, pl_err *err);

/* The same question about an output that blame has judged already (analyze, minify): it fails by
 * itself, independent of blame. Numbers that are not known are NAN. */
typedef pl_output_facts pl_accuracy_figures;
double pl_accuracy_output_tol(const pl_accuracy *accuracy);
bool pl_accuracy_output_fails(const pl_accuracy *accuracy, const pl_accuracy_figures *figures);

/* A function that jumps (a gradient at a kink, a rounded code) may land on the other side although
 * nothing is wrong: `moved` is a second fp64 run on inputs perturbed by a few rounding errors. A
 * check that failed against gold passes, by the rule "unstable", when it is no further off than 4
 * times what that moves it by. */
pl_status pl_accuracy_excuse(const pl_accuracy *accuracy, const pl_datum *gold,
                             const pl_datum *moved, pl_accuracy_check *check, pl_err *err);

/* That second check, for the outputs of one run, and another at what ONNX leaves open: a check that
 * fits its other reading passes by the rule "open". Both runs are made when they are needed. */
struct pl_spread;
enum { PL_ACCURACY_MOVES = 3 };
typedef struct pl_accuracy_moves { /* zeroed but for what is borrowed */
    const pl_accuracy *accuracy;
    pl_model *model;       /* of the reference */
    pl_datum *const *in;   /* by its inputs */
    pl_datum *const *gold; /* by its outputs; NULL entries = not known */
    uint64_t seed;
    void (*tell)(void *ctx, size_t done, size_t all); /* NULL */
    void *ctx;
    pl_datum **moved[PL_ACCURACY_MOVES];
    pl_datum **other[2];      /* the other reading: as the model says, in fp64 */
    struct pl_spread *spread; /* by output: what rounding alone does to it */
} pl_accuracy_moves;
/* Excuses the check of the reference's output i, which the candidate has as `res`, where the
 * function jumps or has two readings. */
pl_status pl_accuracy_settle(pl_accuracy_moves *m, size_t i, const pl_datum *res,
                             pl_accuracy_check *check, pl_err *err);
/* The same for an output that failed by its figures: check->same = it is excused. What the gate
 * itself lets pass is held to the limit of the figures. */
pl_status pl_accuracy_settle_figures(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                                     const pl_datum *res, const pl_accuracy_figures *figures,
                                     pl_accuracy_check *check, pl_err *err);
/* The first value of the model's own run that is NaN or Inf and finite in fp64; NULL when it is not
 * known. Runs it twice. */
pl_status pl_accuracy_birth(const pl_accuracy_moves *m, const pl_value **out, pl_err *err);
void pl_accuracy_moves_release(pl_accuracy_moves *m);

/* Of an output's rms: the error that is always acceptable at this precision. */
double pl_accuracy_floor(pl_precision precision);

/* What values of this model go through: the coarsest of its float types, or its integer codes. */
pl_precision pl_model_precision(const pl_model *model, bool *flips, pl_precision *floats);
/* The same of what this output is made of; NULL = all of it. `known` (by value id, or NULL): values
 * that are the same on both sides, so that nothing before them counts. */
pl_precision pl_output_precision(const pl_model *model, const pl_value *output, const bool *known,
                                 bool *flips, pl_precision *floats);
/* A recording against a run, both of this output: as pl_accuracy_compare without gold, but codes
 * that flip excuse no more than `m` measures. */
pl_status pl_accuracy_recorded(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                               const pl_datum *res, pl_accuracy_check *check, pl_err *err);
/* Passes a check of two runs that failed, by the rule "flips", when rounding alone moves the output
 * as far. False when `spread` cannot say. */
bool pl_accuracy_excuse_flips(const pl_accuracy *a, const struct pl_spread *spread,
                              pl_accuracy_check *check);

#endif
