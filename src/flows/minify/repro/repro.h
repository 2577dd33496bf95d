/* The repro folder (docs/minify.md): a model that fails, its inputs, expected and observed outputs,
 * and the commands; written completely or not at all. */
#ifndef PL_REPRO_H
#define PL_REPRO_H

#include <plumb.h>

#include "base/buf.h"
#include "flows/check/accuracy.h"
#include "flows/minify/oracle/signature.h"
#include "graph/graph.h"
#include "tensor/datum.h"

typedef struct pl_repro {
    pl_model *model;
    pl_datum *const *in;            /* by input; NULL entries have no data */
    const char *backend;            /* spec; NULL = a check */
    const char *check, *fail_regex; /* the user's own oracle; NULL = none */
    int fail_code;                  /* -1 = any non-zero */
    const char *check_str;          /* must be in the error message; NULL = a similar message */
    const char *command;            /* default of run.sh: "run", "minify", "analyze" or "query" */
    const char *source;             /* the model it comes from; "" */
    const pl_signature *signature;  /* signature of the model; NULL = not known */
    const pl_signature *original;   /* signature of the original; NULL = the same */
    const pl_signature *target;     /* for a checkpoint: what a resumed run looks for; NULL */
    size_t n_nodes_before, n_queries;
    bool minified, one_minimal;
    bool stable;  /* without versions, CPU and times */
    bool light;   /* for a checkpoint: only model, inputs, repro.json and run.sh */
    bool pack;    /* with its weights, however large */
    bool no_data; /* shapes and types only: inputs are generated again */
    uint64_t seed;
    double timeout;
    uint64_t memory_limit; /* bytes; 0 = none */
    int sandbox; /* PLUMB_SANDBOX_*. In run.sh, not in repro.json: a stranger cannot lift it */
    int threads;
    bool eval, backward;      /* what was done to the model before */
    const char *amp;          /* "", "fp16", "bf16" */
    pl_accuracy_options rule; /* when its outputs are wrong; .accuracy false = by blame alone */
    /* Level or pass of the backend that causes it, and the reason; NULL = not requested. */
    const char *bisect_level, *bisect_pass, *bisect_reason;
    const char *remains; /* JSON of what is left of the original's weights; NULL = not asked */
    /* Filled by pl_repro_observe. */
    pl_datum **expected, **observed; /* by output; NULL arrays = none */
    char error[600];                 /* error of the backend instead of outputs; "" */
    char version[64];                /* of the backend */
    /* Filled by pl_repro_verify. */
    bool verified;
    char outcome[400];
} pl_repro;

/* Has the folder all weights, or does the model name files that have them? */
bool pl_repro_is_whole(const pl_repro *r);
/* Runs the reference and the backend once, for expected and observed outputs. A failure of either
 * is noted, not an error. */
pl_status pl_repro_observe(pl_repro *r, pl_err *err);
/* Data of observe. */
void pl_repro_release(pl_repro *r);
/* Writes everything to a new folder beside `dir` (the caller renames or removes it). *notes (one
 * line each) and the README list what could not be packed. */
pl_status pl_repro_stage(const pl_repro *r, const char *dir, pl_buf *notes, char **temporary,
                         pl_err *err);
/* The same, and gives it its name. */
pl_status pl_repro_write(const pl_repro *r, const char *dir, pl_buf *notes, pl_err *err);
/* Verifies the written files in a new process (`program` minify --query DIR) and writes the result
 * to repro.json. */
pl_status pl_repro_verify(pl_repro *r, const char *program, const char *dir, pl_err *err);
pl_status pl_repro_zip(const char *dir, const char *path, pl_err *err);

/* Texts of the folder (repro_text.c, repro_scripts.c). */
void pl_repro_put_json(const pl_repro *r, pl_buf *out);
void pl_repro_put_readme(const pl_repro *r, const char *model_text, const char *notes, pl_buf *out);
void pl_repro_put_run(const pl_repro *r, pl_buf *out);
/* A check for a shell in which plumb_model and plumb_dir are set: they replace {model} and {dir}
 * and stay one word whatever their content, also inside quotes (oracle_check.c). */
void pl_check_put_command(pl_buf *out, const char *command);
bool pl_repro_is_ort(const pl_repro *r);
typedef enum pl_script { PL_SCRIPT_PYTHON, PL_SCRIPT_NODE, PL_SCRIPT_C } pl_script;
pl_status pl_repro_put_script(const pl_repro *r, pl_script which, pl_buf *out, pl_err *err);

/* Contents of a repro.json; strings are in the arena, "" when missing. */
typedef struct pl_repro_info {
    const char *backend, *check;
    pl_signature signature, target, original;
    bool has_signature, has_target, has_original;
    size_t n_nodes_before; /* 0 = not known */
    uint64_t seed;
    int threads;
    double timeout;
    uint64_t memory_limit;
    bool eval, backward;
    const char *amp;
    int fail_code;
    const char *fail_regex, *check_str;
    pl_accuracy_options rule;
} pl_repro_info;
pl_status pl_repro_read_info(const char *path, pl_arena *arena, pl_repro_info *out, pl_err *err);

#endif
