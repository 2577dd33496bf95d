/* One side of a comparison: compile, plain run, recorded run, second recorded run.
 *
 * Recorded values are kept in a spool, by value of the model. The backend may map its names to
 * values of the model; names that the model does not have are only counted. */
#ifndef PL_SIDE_RUN_H
#define PL_SIDE_RUN_H

#include "backends/backend.h"
#include "base/hash.h"
#include "base/progress.h"
#include "blame/blame.h"
#include "store/spool.h"

typedef struct pl_side_options {
    const char *spec;
    pl_backend *backend; /* already open, owned by the caller; NULL = spec is opened */
    pl_program *program; /* the model, compiled by `backend`, the caller's; NULL = compile */
    const char *file;    /* file with exactly this model; NULL = none */
    double timeout;
    uint64_t memory_limit;
    int sandbox; /* PLUMB_SANDBOX_* */
    uint64_t seed;
    int threads;
    const pl_arithmetic *arithmetic; /* precision profile; NULL = by where the nodes run */
    uint64_t spool_memory;           /* bytes kept in memory before the file */
    const pl_progress *progress;
    const char *phase; /* "A", "B": for progress */
    bool
        record_is_plain; /* plumb's own interpreter is the same with hooks: it needs no plain run */
} pl_side_options;

typedef struct pl_side_run {
    pl_model *model;
    pl_side_options options;
    pl_backend *backend;
    pl_program *program;
    pl_datum **plain; /* outputs of the plain run */
    pl_spool *spool;
    size_t *entry;     /* by value id: spool id + 1; 0 = not recorded */
    pl_hash128 *hash;  /* by value id */
    pl_strmap by_name; /* values of the main graph */
    plumb_record_info info;
    size_t mode;
    bool whole;                   /* all values fit into memory at once */
    bool marked;                  /* it exposes no values: they were marked as outputs */
    bool refused;                 /* only reason: the backend refuses models with more outputs */
    bool outputs_differ;          /* outputs are those of the recorded run, not of the plain one */
    bool observer_effect;         /* the first method of recording changed the outputs */
    size_t n_recorded, n_unknown; /* values of the model; names that it does not have */
    size_t flaky;                 /* 1 + the output that differed although recording asks nothing
                                     else of the backend than a plain run; 0 = none */
    const pl_value *unstable;     /* first value whose second run differed; NULL = none */
    char difference[160];         /* its tuples: "a != b" */
    char record_trouble[320];     /* recording failed where the plain run did not; "" */
    const pl_arithmetic *arithmetic;                 /* never NULL after a plain run */
    bool (*wants)(void *ctx, const pl_value *value); /* NULL = every value is kept */
    void *wants_ctx;
} pl_side_run;

/* Only tables and spool: for data from elsewhere. */
pl_status pl_side_run_prepare(pl_side_run *run, pl_model *model, const pl_side_options *options,
                              pl_err *err);
/* Puts a value as if it had been recorded. */
pl_status pl_side_run_put(pl_side_run *run, const pl_value *value, const pl_datum *d, pl_err *err);
/* Opens and compiles. A failure of the backend leaves its status and message in err. */
pl_status pl_side_run_init(pl_side_run *run, pl_model *model, const pl_side_options *options,
                           pl_err *err);
void pl_side_run_release(pl_side_run *run);
/* Frees the program, and what it holds of the model's weights; what was recorded stays. */
void pl_side_run_finish(pl_side_run *run);
pl_status pl_side_run_plain(pl_side_run *run, pl_datum *const *in, pl_err *err);
/* Records into the spool; the outputs of the plain run are always available. */
pl_status pl_side_run_record(pl_side_run *run, pl_datum *const *in, pl_err *err);
/* Records again and compares all metadata and hashes; sets `unstable`. */
pl_status pl_side_run_repeat(pl_side_run *run, pl_datum *const *in, pl_err *err);
/* For blame; `ctx` is the run. */
/* Does a runtime of others run on a CPU with arithmetic in float16? x86 has it, too, but no runtime
 * that adds in it was seen there. */
bool pl_side_run_adds_f16(const pl_side_run *run);
pl_run_data pl_side_run_data(const pl_side_run *run);

#endif
