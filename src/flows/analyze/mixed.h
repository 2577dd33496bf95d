/* Mixed-precision candidates of a quantised model: its layers, the model with some of them kept in
 * float, and how close its outputs are to the float model's.
 *
 * The float model is the reference where that is a model; else the model itself without its pairs
 * of QuantizeLinear and DequantizeLinear (then the weights stay as they were rounded). Every figure
 * is measured: the candidate is compiled and run on the samples of the analysis. Some samples are
 * held back and not used for choosing. */
#ifndef PL_MIXED_H
#define PL_MIXED_H

#include "flows/analyze/analyze_int.h"

enum { PL_PART_SEARCH, PL_PART_HELD, PL_PART_COUNT };

typedef struct pl_mixed_score { /* of one candidate; NAN = not known */
    bool ran;
    char why[200];                /* why it did not run */
    double error[PL_PART_COUNT];  /* rms of the outputs' error relative to their size */
    double metric[PL_PART_COUNT]; /* the user's, of the worst output; mean over samples */
    double top1[PL_PART_COUNT];   /* share of rows with the float model's largest element */
    double apart[PL_PART_COUNT];  /* mean over rows: divergence of the class probabilities */
} pl_mixed_score;

typedef struct pl_layer {  /* a value that is quantised since the nearest values before it */
    const pl_value *value; /* of `floats` */
    const pl_value *own;   /* its counterpart */
} pl_layer;

typedef struct pl_mixed {
    pl_analysis *of; /* one for each sample */
    size_t n_samples;
    pl_model *model; /* under test */
    pl_model *floats;
    bool made;                /* `floats` was derived from the model and is freed */
    const char **counterpart; /* by value id of `floats`: name in the model; NULL */
    bool *known;              /* by value id of the model: it has a counterpart */
    bool *through;            /* by value id of `floats`: rounds as the layers around it do */
    pl_layer *layers;
    size_t n_layers;
    pl_backend *backend; /* runs the candidates; A's own, unless it compiles slowly */
    pl_backend *quick;   /* eager: measures the layers */
    pl_datum ***target;  /* by sample, by output of the model: the float model's */
    const pl_metric *metric;
    int64_t n_rows, n_held; /* rows or samples for the search, and held back */
    bool by_rows;           /* rows of a batch are held back, not whole samples */
    bool unsigned_weights;  /* candidates get uint8 weights: this CPU clips int8 ones */
    size_t n_runs;
} pl_mixed;

/* Only finds the float model and the layers; runs nothing. m->n_layers is 0 when the model is not
 * quantised, or there is no float model for it (*why, static, or NULL). */
pl_status pl_mixed_find(pl_mixed *m, pl_analysis *of, size_t n_samples, const char **why,
                        pl_err *err);
/* And prepares everything to run candidates. */
pl_status pl_mixed_open(pl_mixed *m, pl_analysis *of, size_t n_samples, const char **why,
                        pl_err *err);
void pl_mixed_close(pl_mixed *m);

/* keep: by layer. The model is the caller's. */
pl_status pl_mixed_model(const pl_mixed *m, const bool *keep, pl_model **out, pl_err *err);
/* Runs it on every sample. If it cannot be made or run, that is a result (out->ran). */
pl_status pl_mixed_try(pl_mixed *m, const bool *keep, pl_mixed_score *out, pl_err *err);
pl_status pl_mixed_try_model(pl_mixed *m, pl_model *model, pl_mixed_score *out, pl_err *err);

/* mixed_score.c */
pl_status pl_mixed_make_target(pl_mixed *m, pl_err *err);
pl_status pl_mixed_measure(const pl_mixed *m, size_t sample, pl_datum *const *out,
                           pl_mixed_score *sum, pl_err *err);
void pl_mixed_score_begin(pl_mixed_score *s);
void pl_mixed_score_end(const pl_mixed *m, pl_mixed_score *s);

#endif
