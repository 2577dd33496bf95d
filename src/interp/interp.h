/* The reference interpreter: runs a model node by node, in order, on plain kernels.
 *
 * One interpreter runs one model, one run at a time; the model must not change while it lives. The
 * hook sees every value as it appears; it is freed as soon as nothing needs it. Weights are used in
 * place. Under fp64 (gold) every float input, weight and attribute type becomes double. */
#ifndef PL_INTERP_H
#define PL_INTERP_H

#include "base/progress.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_interp pl_interp;

/* Called once for each value that a node produces (bodies: each time they run). The datum is
 * borrowed. A status other than PL_OK ends the run with it. */
typedef pl_status (*pl_interp_hook)(void *ctx, const pl_node *node, const pl_value *value,
                                    const pl_datum *datum, pl_err *err);

typedef struct pl_interp_options {
    pl_pool *pool; /* borrowed; NULL = one thread */
    /* Provider of products and convolutions (kernels/provider.h); NULL = the default. */
    const struct pl_provider *kernels;
    bool fp64;
    bool otherwise; /* where ONNX is ambiguous, take the other reading (pl_eval.otherwise) */
    uint64_t seed;  /* for random operators without a seed of their own */
    bool any_shape; /* input shapes may differ from those declared (test data does) */
    pl_interp_hook hook;
    void *hook_ctx;
    const pl_progress *progress;
    int64_t deadline_ns; /* pl_clock_ns; a run beyond it ends with PL_E_TIMEOUT. 0 = none */
    /* Time in nanoseconds per node of the main graph; NULL = not measured. */
    uint64_t *node_ns;
} pl_interp_options;

/* Resolves operators (pl_ops_resolve) and plans. The model is borrowed. */
pl_status pl_interp_new(pl_model *model, const pl_interp_options *options, pl_interp **out,
                        pl_err *err);
void pl_interp_free(pl_interp *interp);

/* Does the datum have the type and (unless any_shape) the shape that the input declares? */
pl_status pl_interp_check_input(const pl_value *value, const pl_datum *d, bool any_shape,
                                pl_err *err);

/* data[i] belongs to model->graph->inputs[i]; NULL takes the input's default (its initializer).
 * out[i] receives a new reference for model->graph->outputs[i]. Types and shapes of the inputs are
 * checked against the model's. */
pl_status pl_interp_run(pl_interp *interp, pl_datum *const *data, pl_datum **out, pl_err *err);

#endif
