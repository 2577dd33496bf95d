/* A command is one file with one row: name, one-line summary, options, and what to do. */
#ifndef PL_COMMAND_H
#define PL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct pl_option {
    char letter;       /* 0 = none */
    const char *name;  /* "input" for --input */
    const char *value; /* "NAME=FILE"; NULL = a flag */
    const char *help;
} pl_option;

typedef struct pl_args pl_args;

typedef struct pl_command {
    const char *name;
    const char *usage;               /* "MODEL [options]" */
    const char *summary;             /* one line */
    const char *details;             /* paragraphs for --help; NULL = none */
    const pl_option *options;        /* ends with a row without a name */
    size_t min_args, max_args;       /* positional; max 0 = no limit */
    int (*run)(const pl_args *args); /* returns the exit code */
} pl_command;

/* Parsed arguments: positional ones in order, options by name (given once or often). */
struct pl_args {
    const pl_command *command;
    const char *const *positional;
    size_t n_positional;
    struct pl_given {
        const pl_option *option;
        const char *value; /* NULL for a flag */
    } * given;
    size_t n_given;
};

bool pl_args_flag(const pl_args *args, const char *name);
/* The last value given; NULL when not given. */
const char *pl_args_value(const pl_args *args, const char *name);
/* k-th value of a repeatable option; NULL past the end. */
const char *pl_args_nth(const pl_args *args, const char *name, size_t k);
/* Numbers: `otherwise` when not given; not a number or out of range is PL_E_USAGE. */
pl_status pl_args_int(const pl_args *args, const char *name, long long otherwise, long long min,
                      long long max, long long *out, pl_err *err);
pl_status pl_args_double(const pl_args *args, const char *name, double otherwise, double *out,
                         pl_err *err);

/* Prints "plumb COMMAND: message" on stderr and returns the exit code of the status. */
int pl_command_fail(const pl_args *args, const pl_err *err);

/* Prints to stdout with a check: a closed pipe or full disk is an error, not silence. */
pl_status pl_print(const char *data, size_t n, pl_err *err);

#endif
