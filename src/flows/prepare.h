/* Prepares a model to be run and judged: eval mode, mixed precision, gradients, and its inputs.
 *
 * Gradients: the joint graph of the backward pass; parameters are inputs with their values as
 * defaults. Loss: each float output's sum/numel, averaged over the float outputs; so the incoming
 * gradient of an output is 1/(numel n). In training (no eval mode) updated statistics of
 * BatchNormalization are outputs as well. */
#ifndef PL_PREPARE_H
#define PL_PREPARE_H

#include <plumb.h>

#include "base/threads.h"
#include "passes/changes.h"
#include "tensor/datum.h"

/* Preparation that flows need, each level including the one before. */
typedef enum pl_ready {
    PL_READY_LOWERED,  /* the operator Gradient became nodes: for callers that resolve operators
                          themselves */
    PL_READY_RESOLVED, /* operators are resolved */
    PL_READY_TYPED,    /* and types are inferred as far as possible */
    PL_READY_KNOWN     /* the same; operators known only to backends are allowed (PL_OP_FOREIGN) */
} pl_ready;
/* In place. *edited (may be NULL) becomes true when the model differs from its file. */
pl_status pl_make_ready(pl_model *model, pl_ready level, bool *edited, pl_err *err);
/* pl_inputs_make, and checks each input against the model. */
pl_status pl_ready_inputs(const pl_model *model, const plumb_inputs *source, pl_datum **in,
                          pl_err *err);

typedef struct pl_prepare_options {
    plumb_transform_options transform;
    bool backward;
    const char *loss_output; /* the only output of the loss; NULL = every float one */
    bool random_gradients; /* near N(0,1)/numel instead of 1/numel: a constant hides permutations */
    uint64_t grad_seed;
    uint64_t seed; /* of random operators */
    pl_pool *pool;
} pl_prepare_options;

typedef enum pl_output_kind {
    PL_OUTPUT,
    PL_OUTPUT_BUFFER, /* updated statistics */
    PL_OUTPUT_INPUT_GRADIENT,
    PL_OUTPUT_PARAMETER_GRADIENT,
    PL_OUTPUT_BUFFER_GRADIENT /* of an initializer that is not trained: given statistics */
} pl_output_kind;
const char *pl_output_kind_name(pl_output_kind kind); /* "output", "buffer", "input gradient", … */

typedef struct pl_prepared {
    pl_model *model;   /* a copy */
    pl_model *forward; /* what the gradients were made of: `changes` points into it; NULL = none */
    pl_datum **in;     /* of `model`; given ones first */
    size_t n_in, n_out;
    pl_output_kind *kinds; /* by output */
    pl_changes changes;
    bool has_gradients;
    char note[200]; /* why there are none although requested; "" */
} pl_prepared;

/* in[i] belongs to input i of the model (NULL = its default); references are taken. Release also on
 * failure. */
pl_status pl_prepare(const pl_model *model, pl_datum *const *in, const pl_prepare_options *options,
                     pl_prepared *out, pl_err *err);
void pl_prepared_release(pl_prepared *prepared); /* all zero is fine */

bool pl_context_is_plain(const plumb_context *context); /* nothing to do */
/* pl_prepare by a context. PL_E_UNSUPPORTED if a gradient is not available. */
pl_status pl_context_prepare(const plumb_context *context, const pl_model *model,
                             pl_datum *const *in, uint64_t seed, pl_pool *pool, pl_prepared *out,
                             pl_err *err);

#endif
