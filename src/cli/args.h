/* Inside src/cli only: parsing, help, and the options that commands share. */
#ifndef PL_ARGS_H
#define PL_ARGS_H

#include "cli/command.h"

/* argv[0] is the command's name. Strings are borrowed from argv. False: see *err. */
bool pl_args_parse(const pl_command *command, int argc, char **argv, pl_args *out, bool *help,
                   plumb_error *err);
void pl_args_release(pl_args *args);
void pl_args_help(const pl_command *command);

/* Rows for tables of options. */
#define PL_OPTION_JSON                                                                             \
    { 0, "json", NULL, "one JSON document on standard output" }
#define PL_OPTION_DIM                                                                              \
    { 0, "dim", "NAME=N", "size of a symbolic dim (repeatable; else 1)" }
#define PL_OPTION_THREADS                                                                          \
    { 0, "threads", "N", "threads of plumb's own pool (default: all)" }
#define PL_OPTIONS_BACKEND                                                                         \
    { 0, "backend", "SPEC", "what runs it (default eager); see plumb backends" },                  \
        { 0, "timeout", "SECONDS", "end a compile or run that takes longer (not eager)" }, {       \
        0, "memory-limit", "MB", "end a backend that uses more (not eager)"                        \
    }
bool pl_cli_threads(const pl_args *args, int *out, plumb_error *err);
/* --timeout and --memory-limit. */
bool pl_cli_limits(const pl_args *args, double *timeout, uint64_t *memory_limit, plumb_error *err);
/* Options of the compiler (jit); without --backend they choose it. */
#define PL_OPTION_INJECT                                                                           \
    { 0, "inject", "KIND@OP[:N]", "jit: plant a fault (repeatable)" }
#define PL_OPTIONS_JIT                                                                             \
    PL_OPTION_INJECT, { 0, "explain", NULL, "jit: list every graph break and its reason" },        \
        { 0, "debug-dir", "DIR", "jit: leave graphs, schedule, C and compiler log in DIR" }, {     \
        0, "fresh-cache", NULL, "jit: compile again, whatever the cache holds"                     \
    }
typedef struct pl_cli_spec {
    char *text; /* NULL = the command's default */
    bool explains;
    char explain[64]; /* a temporary file; "" = none */
} pl_cli_spec;
/* --backend and PL_OPTIONS_JIT, or PL_OPTION_INJECT alone, as one spec. Release either way. */
bool pl_cli_backend(const pl_args *args, pl_cli_spec *out, plumb_error *err);
/* Warns of planted faults that no node of the model has. Not where nodes are made (--backward,
 * --amp). */
void pl_cli_warn_faults(const pl_args *args, const char *backend, const plumb_model *model);
void pl_cli_spec_explain(const pl_cli_spec *spec, bool json); /* prints it, when asked for */
void pl_cli_spec_release(pl_cli_spec *spec);
/* Repro levels. */
#define PL_OPTIONS_REPRO                                                                           \
    { 0, "repro-level", "N", "0 off, 1-2 checkpoint on error (default 2), 3 always, 4 accuracy" }, \
    {                                                                                              \
        0, "no-data", NULL, "checkpoints without the inputs"                                       \
    }
#define PL_OPTION_DEBUG_DIR                                                                        \
    { 0, "debug-dir", "DIR", "where checkpoints go (default plumb-debug)" }
typedef struct pl_cli_repro {
    int level;
    bool before; /* it was written already */
} pl_cli_repro;
/* --repro-level, else $PLUMB_REPRO_LEVEL, else `otherwise`. */
bool pl_cli_repro_read(const pl_args *args, int otherwise, pl_cli_repro *out, plumb_error *err);
/* MODEL may be a repro: its seed and threads stand in for what was not given. */
bool pl_cli_repro_context(const pl_args *args, plumb_inputs *inputs, int *threads,
                          plumb_error *err);
/* --eval, --amp, --backward, … as the command has them. */
bool pl_cli_context(const pl_args *args, plumb_context *out, plumb_error *err);
/* Level 3, before anything runs; messages go to stderr. */
void pl_cli_repro_before(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                         const plumb_inputs *inputs, const char *backend);
/* After a failure that was told already. `wrong`: it ran, but the result is wrong (level 4). */
void pl_cli_repro_after(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                        const plumb_inputs *inputs, const char *backend, const plumb_error *err,
                        bool wrong);
#define PL_OPTIONS_PART                                                                            \
    { 0, "function", "NAME", "only this model-local function" },                                   \
        { 0, "from", "VALUES", "only what follows these values (comma-separated)" }, {             \
        0, "to", "VALUES", "only what leads to these values (comma-separated)"                     \
    }
#define PL_OPTIONS_END                                                                             \
    { 0, NULL, NULL, NULL }

/* Inputs of a run: the options, and what they say. Arrays are released by pl_cli_inputs_release. */
#define PL_OPTIONS_INPUTS                                                                          \
    { 'i', "input", "NAME=FILE", "an input: npy, npz, TensorProto or safetensors (repeatable)" },  \
        { 0, "inputs", "PATH", "a file or folder with several inputs (ONNX test data set)" },      \
        { 0, "seed", "N", "seed of generated inputs and random operators (default 0)" },           \
        { 0, "range", "NAME=LO:HI", "range of a generated input (repeatable)" },                   \
        { 0, "fill", "KIND", "zeros, ones or random (default random)" }, PL_OPTION_DIM
bool pl_cli_inputs(const pl_args *args, plumb_inputs *out, plumb_error *err);
void pl_cli_inputs_release(plumb_inputs *inputs);

/* plumb-out/NAME-TIME and a suffix, where a command writes when it is not told (DESIGN section 2).
 */
void pl_cli_default_output(const char *model, const char *suffix, char *out, size_t n_out);

/* The progress bar of a command: drawn on a terminal only. */
typedef struct pl_cli_bar pl_cli_bar;
pl_cli_bar *pl_cli_bar_new(plumb_progress *progress); /* fills *progress; NULL is fine to free */
void pl_cli_bar_free(pl_cli_bar *bar);                /* removes the line */

#endif
