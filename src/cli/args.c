/* Parsing of arguments with getopt_long, from the command's own table of options. */
#include "cli/args.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool pl_args_fail(plumb_error *err, plumb_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    err->status = status;
    vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return false;
}

bool pl_args_no_memory(plumb_error *err) {
    return pl_args_fail(err, PLUMB_E_MEMORY, "out of memory");
}

const pl_option pl_args_common[] = {
    { 'q', "quiet", NULL, "no progress, notes or warnings on standard error" },
    { 'v', "verbose", NULL, "print the time and the exit code on standard error" },
    { 'h', "help", NULL, "show this help" },
    { 0, NULL, NULL, NULL },
};
enum { N_COMMON = sizeof(pl_args_common) / sizeof(pl_args_common[0]) - 1 };

bool pl_args_has(const pl_command *command, const char *name) {
    for (const pl_option *o = command->options; o->name != NULL; o++)
        if (strcmp(o->name, name) == 0) return true;
    return false;
}

static size_t count_options(const pl_command *command) {
    size_t n = 0;
    while (command->options[n].name != NULL)
        n++;
    return n;
}

/* getopt's two forms of the table: letters ("o:") and long options whose val is 256 + index. */
static void fill_getopt(const pl_command *command, struct option *longs, char *letters) {
    const size_t n = count_options(command);
    size_t at = 0;
    letters[at++] = ':';
    for (size_t i = 0; i < n; i++) {
        const pl_option *o = &command->options[i];
        longs[i] = (struct option){ o->name, o->value == NULL ? no_argument : required_argument,
                                    NULL, (int)(256 + i) };
        if (o->letter == 0) continue;
        letters[at++] = o->letter;
        if (o->value != NULL) letters[at++] = ':';
    }
    size_t n_longs = n;
    for (size_t i = 0; i < N_COMMON; i++) { /* unless the command gives it a meaning of its own */
        const pl_option *o = &pl_args_common[i];
        if (pl_args_has(command, o->name)) continue;
        letters[at++] = o->letter;
        longs[n_longs++] = (struct option){ o->name, no_argument, NULL, o->letter };
    }
    letters[at] = '\0';
    longs[n_longs] = (struct option){ 0 };
}

static const pl_option *option_of(const pl_command *command, int code) {
    if (code >= 256) return &command->options[code - 256];
    for (const pl_option *o = command->options; o->name != NULL; o++) {
        if (o->letter != 0 && o->letter == code) return o;
    }
    for (size_t i = 0; i < N_COMMON; i++)
        if (pl_args_common[i].letter == code) return &pl_args_common[i];
    return NULL;
}

static bool note(pl_args *args, const pl_option *option, const char *value, plumb_error *err) {
    pl_given *grown = realloc(args->given, (args->n_given + 1) * sizeof(*grown));
    if (grown == NULL) return pl_args_no_memory(err);
    args->given = grown;
    args->given[args->n_given++] = (pl_given){ option, value };
    return true;
}

enum { OPTIONS_MAX = 128 };

static bool fail_option(const pl_command *command, const char *given, plumb_error *err) {
    const char *names[OPTIONS_MAX], *near = NULL;
    char word[100];
    size_t n = 0;
    for (; n < OPTIONS_MAX && command->options[n].name != NULL; n++)
        names[n] = command->options[n].name;
    for (size_t i = 0; i < N_COMMON && n < OPTIONS_MAX; i++)
        names[n++] = pl_args_common[i].name;
    const char *at = given + strspn(given, "-");
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, "="), at);
    if (given[0] == '-' && given[1] == '-') near = plumb_nearest(word, names, n);
    if (near != NULL)
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "unknown option '%s'; did you mean '--%s'? plumb %s --help lists them",
                            given, near, command->name);
    return pl_args_fail(err, PLUMB_E_USAGE, "unknown option '%s'; usage: plumb %s %s", given,
                        command->name, command->usage);
}

static bool parse_options(pl_args *args, int argc, char **argv, const struct option *longs,
                          const char *letters, bool *help, plumb_error *err) {
    optind = 0; /* GNU: start afresh */
    opterr = 0;
    for (;;) {
        const int code = getopt_long(argc, argv, letters, longs, NULL);
        if (code == -1) return true;
        if (code == 'h') {
            *help = true;
        } else if (code == ':') {
            return pl_args_fail(err, PLUMB_E_USAGE, "option '%s' requires a value",
                                argv[optind - 1]);
        } else if (code == '?') {
            return fail_option(args->command, argv[optind - 1], err);
        } else if (!note(args, option_of(args->command, code), optarg, err)) {
            return false;
        }
    }
}

static bool check_count(const pl_args *args, plumb_error *err) {
    const pl_command *command = args->command;
    if (args->n_positional < command->min_args) {
        return pl_args_fail(err, PLUMB_E_USAGE, "missing argument; usage: plumb %s %s",
                            command->name, command->usage);
    }
    if (args->n_positional > command->max_args) {
        return pl_args_fail(err, PLUMB_E_USAGE, "unexpected argument '%s'; usage: plumb %s %s",
                            args->positional[command->max_args], command->name, command->usage);
    }
    return true;
}

bool pl_args_parse(const pl_command *command, int argc, char **argv, pl_args *out, bool *help,
                   plumb_error *err) {
    const size_t n = count_options(command);
    struct option *longs = calloc(n + N_COMMON + 1, sizeof(*longs));
    char *letters = calloc(2 * n + N_COMMON + 2, 1);
    bool ok = longs != NULL && letters != NULL;
    *out = (pl_args){ .command = command };
    *help = false;
    if (!ok) {
        pl_args_no_memory(err);
    } else {
        fill_getopt(command, longs, letters);
        ok = parse_options(out, argc, argv, longs, letters, help, err);
    }
    if (ok) {
        out->n_positional = (size_t)(argc - optind);
        out->positional = (const char *const *)(argv + optind);
        ok = *help || check_count(out, err);
    }
    free(longs);
    free(letters);
    return ok;
}

void pl_args_release(pl_args *args) {
    free(args->given);
}

const char *pl_args_nth(const pl_args *args, const char *name, size_t k) {
    for (size_t i = 0; i < args->n_given; i++) {
        if (strcmp(args->given[i].option->name, name) == 0 && k-- == 0) {
            return args->given[i].value != NULL ? args->given[i].value : "";
        }
    }
    return NULL;
}

bool pl_args_flag(const pl_args *args, const char *name) {
    return pl_args_nth(args, name, 0) != NULL;
}

const char *pl_args_value(const pl_args *args, const char *name) {
    const char *last = NULL;
    for (size_t i = 0; i < args->n_given; i++) {
        if (strcmp(args->given[i].option->name, name) == 0) last = args->given[i].value;
    }
    return last;
}

const char **pl_args_all(const pl_args *args, const char *name, size_t *n) {
    const char **all = calloc(args->n_given + 1, sizeof(char *));
    *n = 0;
    for (size_t i = 0; all != NULL && i < args->n_given; i++) {
        if (strcmp(args->given[i].option->name, name) == 0) all[(*n)++] = args->given[i].value;
    }
    return all;
}

bool pl_args_int(const pl_args *args, const char *name, long long otherwise, long long min,
                 long long max, long long *out, plumb_error *err) {
    const char *text = pl_args_value(args, name);
    *out = otherwise;
    if (text == NULL) return true;
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *out >= min && *out <= max) return true;
    return pl_args_fail(err, PLUMB_E_USAGE, "--%s is '%s', expected an integer from %lld to %lld",
                        name, text, min, max);
}

bool pl_args_double(const pl_args *args, const char *name, double otherwise, double *out,
                    plumb_error *err) {
    const char *text = pl_args_value(args, name);
    *out = otherwise;
    if (text == NULL) return true;
    char *end = NULL;
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && *out >= 0) return true;
    return pl_args_fail(err, PLUMB_E_USAGE, "--%s is '%s', expected a non-negative number", name,
                        text);
}

bool pl_args_verbose(const pl_args *args) {
    return pl_args_flag(args, "verbose") && !pl_args_has(args->command, "verbose");
}

pl_cli_bar *pl_cli_bar_of(const pl_args *args, plumb_progress *progress) {
    *progress = (plumb_progress){ NULL, NULL };
    return pl_args_flag(args, "quiet") ? NULL : pl_cli_bar_new(progress);
}

const plumb_style *pl_cli_style(void) {
    static const plumb_style plain = { .size = sizeof(plain), .more = "--limit 0 shows all" };
    static const plumb_style coloured = { .size = sizeof(coloured),
                                          .agree = "\033[1;32m",
                                          .diverged = "\033[1;31m",
                                          .green = "\033[32m",
                                          .yellow = "\033[33m",
                                          .red = "\033[31m",
                                          .reset = "\033[0m",
                                          .more = "--limit 0 shows all" };
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    const bool has_colours = isatty(STDOUT_FILENO) && (no == NULL || *no == '\0') && term != NULL &&
                             strcmp(term, "dumb") != 0;
    return has_colours ? &coloured : &plain;
}

plumb_format pl_args_format(const pl_args *args) {
    return pl_args_flag(args, "json") ? PLUMB_JSON : PLUMB_TEXT;
}

bool pl_args_format_name(const pl_args *args, const char **out, plumb_error *err) {
    *out = pl_args_value(args, "format");
    if (pl_args_format(args) != PLUMB_JSON) return true;
    if (*out != NULL && strcmp(*out, "json") != 0)
        return pl_args_fail(err, PLUMB_E_USAGE, "--json and --format %s cannot be combined", *out);
    *out = "json";
    return true;
}

plumb_status pl_args_open_model(const pl_args *args, const char *path, plumb_model **out,
                                plumb_error *err) {
    const plumb_status st = plumb_model_open(path, out, err);
    if (st != PLUMB_OK) return st;
    const plumb_status cut =
        plumb_model_restrict(*out, pl_args_value(args, "function"), pl_args_value(args, "from"),
                             pl_args_value(args, "to"), err);
    if (cut == PLUMB_OK) return PLUMB_OK;
    plumb_model_close(*out);
    *out = NULL;
    return cut;
}

/* The reader closed the pipe (head): not an error. */
static int print_failed(const pl_args *args, int code) {
    if (errno == EPIPE) return code;
    fprintf(stderr, "plumb %s: standard output: %s\n", args->command->name, strerror(errno));
    return 4;
}

int pl_command_print_take(const pl_args *args, char *text, int code) {
    const size_t n = strlen(text);
    if (args->printed != NULL) *args->printed = true;
    const bool ok = fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0;
    plumb_free(text);
    if (ok) return code;
    return print_failed(args, code);
}

int pl_command_print_line(const pl_args *args, int code, const char *label, const char *value) {
    if (printf("%s: %s\n", label, value) >= 0 && fflush(stdout) == 0) return code;
    return print_failed(args, code);
}

void pl_args_write(const pl_args *args, plumb_write_options *out) {
    plumb_write_options_init(out);
    if (pl_args_format(args) == PLUMB_JSON) out->format = "json";
}
