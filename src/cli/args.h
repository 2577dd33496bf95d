/* Private to src/cli: parsing, help, and shared options. */
#ifndef PL_ARGS_H
#define PL_ARGS_H

#include "cli/command.h"

/* argv[0] is the command's name. Strings are borrowed from argv. False: see *err. */
bool pl_args_parse(const pl_command *command, int argc, char **argv, pl_args *out, bool *help,
                   plumb_error *err);
/* False if an option has no effect without another one, or conflicts with it (needs.c). */
bool pl_args_check_needs(const pl_args *args, plumb_error *err);
void pl_args_release(pl_args *args);
/* Prints the error as a JSON document on standard output (fail.c). */
void pl_cli_fail_json(const char *command, plumb_status status, const char *message);
void pl_args_help(const pl_command *command);
/* Options of every command, unless it has its own of that name: -q, -v, -h. */
extern const pl_option pl_args_common[];
bool pl_args_has(const pl_command *command, const char *name);
/* -v, unless the command gives it a meaning of its own. */
bool pl_args_verbose(const pl_args *args);
/* How text is marked: with colours where standard output is a terminal that shows them and NO_COLOR
 * (no-color.org) is not set. */
const plumb_style *pl_cli_style(void);

/* Rows for tables of options. */
#define PL_OPTION_JSON                                                                             \
    { 0, "json", NULL, "one JSON document on standard output" }
#define PL_OPTION_DIM                                                                              \
    { 0, "dim", "NAME=N", "size of a symbolic dim, repeatable (default 1)" }
#define PL_OPTION_THREADS                                                                          \
    { 0, "threads", "N", "number of threads (default: all cores)" }
#define PL_OPTIONS_BACKEND                                                                         \
    { 0, "backend", "SPEC", "backend to run on (default eager); see plumb backends" },             \
        { 0, "timeout", "SECONDS", "stop a compile or run after this time (not eager)" },          \
        { 0, "memory-limit", "MB", "stop a backend that uses more memory (not eager)" }, {         \
        0, "sandbox", "on|off|require", "confine the backend under test (default on)"              \
    }
bool pl_cli_threads(const pl_args *args, int *out, plumb_error *err);
/* --timeout, --memory-limit and --sandbox. */
/* Did srun start several tasks without MPI? Each would do the whole work, into the same output. */
bool pl_cli_check_tasks(plumb_error *err);
/* Under MPICH's launcher: the rest runs in a child, and this returns its exit code, or 4 after
 * telling what it was working on when a signal ended it. -1: go on. */
int pl_cli_watch_rank(const pl_args *args, const char *output);
bool pl_cli_limits(const pl_args *args, double *timeout, uint64_t *memory_limit, int *sandbox,
                   plumb_error *err);
/* Options of the compiler (jit); without --backend they choose it. */
#define PL_OPTION_INJECT                                                                           \
    { 0, "inject", "KIND@OP[:N]", "jit: plant a fault (repeatable)" }
#define PL_OPTIONS_JIT                                                                             \
    PL_OPTION_INJECT, { 0, "explain", NULL, "jit: list every graph break and its reason" },        \
        { 0, "debug-dir", "DIR", "jit: write graphs, schedule, C and compiler log to DIR" }, {     \
        0, "fresh-cache", NULL, "jit: ignore the cache and compile again"                          \
    }
typedef struct pl_cli_spec {
    char *text; /* NULL = the command's default */
    bool explains;
    char folder[1000];  /* a temporary one; "" = none */
    char explain[1024]; /* a file in it */
} pl_cli_spec;
/* --backend and PL_OPTIONS_JIT, or PL_OPTION_INJECT alone, as one spec. Release either way. */
bool pl_cli_backend(const pl_args *args, pl_cli_spec *out, plumb_error *err);
/* False when an injected fault has no node in the model and would have no effect. Not checked when
 * nodes are added (--backward, --amp). */
bool pl_cli_check_faults(const pl_args *args, const char *backend, const plumb_model *model,
                         plumb_error *err);
void pl_cli_spec_explain(const pl_cli_spec *spec, bool json); /* prints it, when asked for */
void pl_cli_spec_release(pl_cli_spec *spec);
/* Repro levels. */
#define PL_OPTIONS_REPRO                                                                           \
    { 0, "repro-level", "N",                                                                       \
      "checkpoint: 0 never, 1-2 on error (default 2), 3 always, 4 when accuracy fails" },          \
    {                                                                                              \
        0, "no-data", NULL, "write checkpoints without inputs"                                     \
    }
#define PL_OPTION_DEBUG_DIR                                                                        \
    { 0, "debug-dir", "DIR", "directory for checkpoints (default plumb-debug)" }
typedef struct pl_cli_repro {
    int level;
    bool before; /* it has been written */
} pl_cli_repro;
/* --repro-level, else $PLUMB_REPRO_LEVEL, else `otherwise`. */
bool pl_cli_repro_read(const pl_args *args, int otherwise, pl_cli_repro *out, plumb_error *err);
/* MODEL may be a repro: its seed and threads are the defaults. */
bool pl_cli_repro_context(const pl_args *args, plumb_inputs *inputs, int *threads,
                          plumb_error *err);
/* --eval, --amp, --backward, … as the command has them. */
bool pl_cli_context(const pl_args *args, plumb_context *out, plumb_error *err);
/* Level 3, before anything runs; messages go to stderr. */
void pl_cli_repro_before(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                         const plumb_inputs *inputs, const char *backend);
/* After a failure that was reported. `wrong`: it ran, but the result is wrong (level 4). */
void pl_cli_repro_after(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                        const plumb_inputs *inputs, const char *backend, const plumb_error *err,
                        bool wrong);
#define PL_OPTIONS_PART                                                                            \
    { 0, "function", "NAME", "use only this model-local function" },                               \
        { 0, "from", "VALUES", "use only the part after these values (comma-separated)" }, {       \
        0, "to", "VALUES", "use only the part before these values (comma-separated)"               \
    }
#define PL_OPTIONS_END                                                                             \
    { 0, NULL, NULL, NULL }

/* Inputs of a run: the options, and reading them. pl_cli_inputs_release releases the arrays. */
#define PL_OPTIONS_INPUTS                                                                          \
    { 'i', "input", "NAME=FILE",                                                                   \
      "read an input from npy, npz, TensorProto or safetensors (repeatable)" },                    \
        { 0, "inputs", "PATH",                                                                     \
          "read several inputs from a file or directory, such as an ONNX test data set" },         \
        { 0, "seed", "N", "seed of generated inputs and random operators (default 0)" },           \
        { 0, "range", "NAME=LO:HI", "range of a generated input (repeatable)" },                   \
        { 0, "fill", "KIND", "generate zeros, ones or random values (default random)" },           \
        PL_OPTION_DIM
bool pl_cli_inputs(const pl_args *args, plumb_inputs *out, plumb_error *err);
void pl_cli_inputs_release(plumb_inputs *inputs);

/* A new folder in $TMPDIR, private to this user. *err may be NULL; then out is "". */
bool pl_cli_folder_new(const char *purpose, char *out, size_t n_out, plumb_error *err);
/* plumb-out/NAME-TIME and a suffix: the default output of a command. */
void pl_cli_default_output(const char *model, const char *suffix, char *out, size_t n_out);

/* The progress bar of a command: drawn on a terminal; elsewhere, one line every half minute. */
typedef struct pl_cli_bar pl_cli_bar;
/* Fills *progress; NULL is fine to free. pl_cli_bar_of: none with -q. */
pl_cli_bar *pl_cli_bar_new(plumb_progress *progress);
pl_cli_bar *pl_cli_bar_of(const pl_args *args, plumb_progress *progress);
void pl_cli_bar_free(pl_cli_bar *bar);                 /* removes the line */
void pl_cli_bar_clear(const plumb_progress *progress); /* before printing; it may go on */

#endif
