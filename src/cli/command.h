/* A command is one file with one row: name, summary, options, function. A command parses, calls the
 * library through plumb.h, and prints. */
#ifndef PL_COMMAND_H
#define PL_COMMAND_H

#include <plumb.h>
#include <stdbool.h>
#include <stddef.h>

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
    const char *examples;            /* three lines, each "  plumb …\n" */
    const pl_option *options;        /* ends with a row without a name */
    size_t min_args, max_args;       /* positional; SIZE_MAX = no limit */
    int (*run)(const pl_args *args); /* returns the exit code */
} pl_command;

typedef struct pl_given {
    const pl_option *option;
    const char *value; /* NULL for a flag */
} pl_given;

/* Parsed arguments: positional ones in order, options in the order given. */
struct pl_args {
    const pl_command *command;
    const char *const *positional;
    size_t n_positional;
    pl_given *given;
    size_t n_given;
    bool wants_json; /* --json or --format json, even if parsing failed before it */
    bool *printed;   /* set when something was printed on standard output; may be NULL */
};

bool pl_args_flag(const pl_args *args, const char *name);
/* The last value given; NULL when not given. */
const char *pl_args_value(const pl_args *args, const char *name);
/* k-th value of a repeatable option; NULL past the end. */
const char *pl_args_nth(const pl_args *args, const char *name, size_t k);
/* All values of a repeatable option. The array is the caller's (free), the strings argv's. */
const char **pl_args_all(const pl_args *args, const char *name, size_t *n);
/* Numbers: `otherwise` when not given. A wrong one is an error message in *err and false. */
bool pl_args_int(const pl_args *args, const char *name, long long otherwise, long long min,
                 long long max, long long *out, plumb_error *err);
bool pl_args_double(const pl_args *args, const char *name, double otherwise, double *out,
                    plumb_error *err);
/* Sets *err and returns false. */
bool pl_args_fail(plumb_error *err, plumb_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool pl_args_no_memory(plumb_error *err);
/* --json or not. */
plumb_format pl_args_format(const pl_args *args);
/* The same as options for plumb_X_write. */
void pl_args_write(const pl_args *args, plumb_write_options *out);
/* --format, or "json" for --json; NULL when neither is given. Two that differ are an error. */
bool pl_args_format_name(const pl_args *args, const char **out, plumb_error *err);

/* Opens MODEL and applies --function, --from, --to where the command has them. */
plumb_status pl_args_open_model(const pl_args *args, const char *path, plumb_model **out,
                                plumb_error *err);

/* Prints "plumb COMMAND: message" on stderr and returns the exit code of the error. */
int pl_command_fail(const pl_args *args, const plumb_error *err);
/* Prints text to stdout and frees it. Returns `code`, or 4 with a message when it cannot be
 * written: write errors are reported. */
int pl_command_print_take(const pl_args *args, char *text, int code);
/* One more line after it: "LABEL: VALUE". */
int pl_command_print_line(const pl_args *args, int code, const char *label, const char *value);

#endif
