/* Sets the element type that each node computes in. For src/passes, and for flows that raise single
 * nodes.
 *
 * One rule per node gives the type of its float inputs. Casts are inserted where a value has
 * another type, and shared by all readers that need the same one. Constants are converted once.
 * Casts of the model that become redundant are bypassed. Values keep their names. Bodies of control
 * flow are retyped inside; their inputs and outputs keep their types, as do sequences and
 * optionals. Only float32, float16 and bfloat16 change; doubles do not. */
#ifndef PL_RETYPE_H
#define PL_RETYPE_H

#include "passes/changes.h"

typedef enum pl_compute_rule {
    PL_COMPUTE_KEEP = 1, /* the type of its inputs; those that must agree follow the first */
    PL_COMPUTE_LOW,      /* in options->type */
    PL_COMPUTE_FP32,
    PL_COMPUTE_WIDEST,   /* widest of its inputs; scalars do not count, as in PyTorch's promotion */
    PL_COMPUTE_ORIGINAL, /* as in the model, except with `everywhere` */
    PL_COMPUTE_NATIVE    /* as in the model, always */
} pl_compute_rule;

typedef struct pl_retype_options {
    pl_dtype type; /* for PL_COMPUTE_LOW */
    pl_compute_rule (*rule)(void *ctx, const pl_node *node);
    void *ctx;
    bool everywhere; /* inputs, outputs, bodies, sequences and Casts become `type` as well */
} pl_retype_options;

/* Changes the model in place; resolves and infers it again. Linear in nodes and edges. */
pl_status pl_model_retype(pl_model *model, const pl_retype_options *options, pl_changes *changes,
                          pl_err *err);

#endif
