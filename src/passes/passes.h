/* The table of passes: what can be done to a whole model, by name.
 *
 * A pass is one file with one row; its name stands in passes.def. Whoever wants one asks for it by
 * name, and the table sees to what it needs. */
#ifndef PL_PASSES_H
#define PL_PASSES_H

#include "ops/infer.h"
#include "passes/changes.h"

typedef enum pl_pass_need {
    PL_PASS_AS_IT_IS, /* nothing, or it sees to it itself */
    PL_PASS_RESOLVED, /* every node knows its operator */
} pl_pass_need;

typedef struct pl_pass_job {
    pl_model *model;               /* changed in place, unless the pass makes another */
    const char *value;             /* one of the row's values; NULL = none given */
    const bool *nodes;             /* by index in the main graph: the chosen ones; NULL = none */
    const pl_infer_options *infer; /* sizes of symbolic dims; may be NULL */
    pl_changes *changes;           /* may be NULL */
    pl_model *made;                /* result: another model, the caller's; NULL = in place */
} pl_pass_job;

typedef struct pl_pass {
    const char *name;
    const char *summary;       /* one line for people */
    const char *const *values; /* that it takes, ended by NULL; NULL = it takes none */
    pl_pass_need needs;
    bool takes_nodes; /* works on chosen nodes */
    pl_status (*run)(pl_pass_job *job, pl_err *err);
} pl_pass;

extern const pl_pass *const pl_passes[]; /* ended by NULL, in the order of passes.def */

/* NULL = there is none of this name. */
const pl_pass *pl_pass_find(const char *name);
/* Checks the value, sees to what the pass needs, and runs it. Unknown names and values are
 * PL_E_USAGE. */
pl_status pl_pass_run(const char *name, pl_pass_job *job, pl_err *err);
/* In place, without a value. */
pl_status pl_pass_apply(const char *name, pl_model *model, pl_err *err);

#endif
