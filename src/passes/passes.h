/* The table of passes over whole models, by name.
 *
 * A pass is one file with one row, listed in passes.def. Callers run it by name; what it requires
 * is prepared for it. */
#ifndef PL_PASSES_H
#define PL_PASSES_H

#include "ops/infer.h"
#include "passes/changes.h"

typedef enum pl_pass_need {
    PL_PASS_AS_IT_IS, /* nothing, or it prepares the model itself */
    PL_PASS_RESOLVED, /* every node knows its operator */
} pl_pass_need;

typedef struct pl_pass_job {
    pl_model *model;               /* changed in place, unless the pass makes a new one */
    const char *value;             /* one of the row's values; NULL = none given */
    const bool *nodes;             /* by index in the main graph: selected nodes; NULL = none */
    const pl_infer_options *infer; /* sizes of symbolic dims; may be NULL */
    pl_changes *changes;           /* may be NULL */
    pl_model *made;                /* result: a new model, owned by the caller; NULL = in place */
} pl_pass_job;

typedef struct pl_pass {
    const char *name;
    const char *summary;       /* one line for users */
    const char *const *values; /* accepted values, ended by NULL; NULL = takes none */
    pl_pass_need needs;
    bool takes_nodes; /* works on selected nodes */
    pl_status (*run)(pl_pass_job *job, pl_err *err);
} pl_pass;

extern const pl_pass *const pl_passes[]; /* ended by NULL, in the order of passes.def */

/* NULL if not found. */
const pl_pass *pl_pass_find(const char *name);
/* Checks the value, prepares what the pass requires, and runs it. Unknown names and values are
 * PL_E_USAGE. */
pl_status pl_pass_run(const char *name, pl_pass_job *job, pl_err *err);
/* In place, without a value. */
pl_status pl_pass_apply(const char *name, pl_model *model, pl_err *err);

#endif
