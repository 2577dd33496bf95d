/* The run flow: a model on a backend; its outputs and times. */
#ifndef PL_RUN_H
#define PL_RUN_H

#include "backends/placement.h"
#include "base/buf.h"
#include "flows/api.h"
#include "tensor/datum.h"

typedef struct pl_run_node { /* time of one node, in the last run */
    const char *value, *op;  /* value: NULL when it has no output */
    double seconds;
} pl_run_node;

typedef struct pl_run_result { /* strings and arrays are in the arena */
    pl_arena *arena;
    size_t n_out;
    const char **names;
    pl_datum **out;
    char **files; /* NULL = not written; own strings */
    double load, first, best, median;
    double submit, wait; /* of the last run; 0 if the backend does not tell them apart */
    size_t n_runs;
    pl_run_node *nodes; /* NULL = not asked for */
    size_t n_nodes;
    const char *device;     /* "" = the CPU */
    const char *warnings;   /* about the model, one line each; "" = none */
    pl_placement placement; /* which node ran where */
} pl_run_result;

/* Shares only tensors with the model. */
pl_status pl_run(plumb_model *m, const plumb_run_options *options, pl_run_result **out,
                 pl_err *err);
void pl_run_result_free(pl_run_result *result); /* NULL is fine */

/* run_print.c */
void pl_run_put_json(const pl_run_result *result, pl_buf *out);
void pl_run_put_text(const pl_run_result *result, pl_buf *out);

#endif
