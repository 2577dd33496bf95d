/* Inside src/passes, and for flows that raise single nodes: which element type each node computes
 * in.
 *
 * One rule per node says what its float inputs are brought to; Casts are inserted where a value has
 * another type, shared by all who want the same one. Constants are converted once. A Cast of the
 * model that has become redundant is passed by. Values keep their names. Bodies of control flow are
 * retyped inside; what goes in and out of them keeps its type, as do sequences and optionals.
 * float32, float16 and bfloat16 take part; doubles do not. */
#ifndef PL_RETYPE_H
#define PL_RETYPE_H

#include "passes/changes.h"

typedef enum pl_compute_rule {
    PL_COMPUTE_KEEP = 1, /* whatever comes; inputs that must agree follow the first */
    PL_COMPUTE_LOW,      /* in options->type */
    PL_COMPUTE_FP32,
    PL_COMPUTE_WIDEST,   /* of its inputs; scalars do not widen, as in PyTorch's promotion */
    PL_COMPUTE_ORIGINAL, /* as in the model; what is retyped everywhere is so here too */
    PL_COMPUTE_NATIVE    /* as in the model, whatever else happens */
} pl_compute_rule;

typedef struct pl_retype_options {
    pl_dtype type; /* of PL_COMPUTE_LOW */
    pl_compute_rule (*rule)(void *ctx, const pl_node *node);
    void *ctx;
    bool everywhere; /* inputs, outputs, bodies, sequences and Casts become `type` as well */
} pl_retype_options;

/* Changes the model in place; resolves and infers it again. Linear in nodes and edges. */
pl_status pl_model_retype(pl_model *model, const pl_retype_options *options, pl_changes *changes,
                          pl_err *err);

#endif
