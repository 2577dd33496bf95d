/* The record flow, for other flows: selecting values, names of bodies, a run on eager or on any
 * backend. */
#ifndef PL_RECORD_H
#define PL_RECORD_H

#include <plumb.h>
#include <regex.h>

#include "backends/backend.h"
#include "base/progress.h"
#include "flows/api.h"
#include "graph/graph.h"
#include "interp/dont_care.h"
#include "interp/interp.h"
#include "store/recorder.h"
#include "store/recording.h"

/* Lists as in plumb_record_options. */
typedef struct pl_record_filter {
    regex_t *names;
    size_t n_names;
    const char *const *ops;
    size_t n_ops;
    const char *const *modules;
    size_t n_modules;
} pl_record_filter;

pl_status pl_record_filter_init(pl_record_filter *filter, const char *const *names, size_t n_names,
                                pl_err *err);
void pl_record_filter_release(pl_record_filter *filter);
/* node == NULL: an input of the model, which matches no list of ops or modules. */
bool pl_record_filter_fits(const pl_record_filter *filter, const char *value, const pl_node *node,
                           const char *module);

/* A recording in progress. */
typedef struct pl_record_job {
    plumb_model *m;
    pl_model *model;
    const plumb_record_options *options;
    const pl_recording *inputs_from; /* take inputs from this recording; or NULL */
    pl_record_filter filter;
    pl_recorder *recorder;
    pl_arena *scratch; /* of one value */
    pl_pool *pool;
    pl_datum **in, **out;
    pl_progress progress;
    double seconds;
    size_t n_records, n_inputs_taken;
    uint64_t n_bytes;
    /* eager, in this process */
    int64_t *calls; /* by value id: number of calls */
    pl_interp *interp;
    /* any other backend, guarded */
    pl_backend *backend;
    pl_program *program;
    pl_arena *names;
    pl_strmap by_name, seen; /* values of the main graph; names that were recorded */
    pl_dont_care left_out;   /* elements that operators leave undefined: they are zeros */
    const char *mode;        /* how it was recorded; "" */
    bool observer_effect;
    size_t n_unknown; /* values with names that the model does not have */
    plumb_record_info info;
    pl_buf notes; /* one line each */
} pl_record_job;

/* Records to options->output. Release in any case. A failed backend is in r->backend. */
pl_status pl_record_run(pl_record_job *r, pl_err *err);
void pl_record_release(pl_record_job *r);
/* record_backend.c */
pl_status pl_record_backend_prepare(pl_record_job *r, pl_err *err);
pl_status pl_record_backend_run(pl_record_job *r, pl_err *err);
bool pl_record_is_eager(const plumb_record_options *options);

/* "LOOP/body" for a value inside the body of the node that produces LOOP; "" for the main graph.
 * The text is in the arena; NULL when out of memory. */
const char *pl_record_graph_path(const pl_graph *graph, pl_arena *arena);

#endif
