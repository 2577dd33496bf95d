/* Parsing of arguments with getopt_long, from the command's own table of options. */
#include "cli/args.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

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
    letters[at] = '\0';
    longs[n] = (struct option){ "help", no_argument, NULL, 'h' };
    longs[n + 1] = (struct option){ 0 };
}

static const pl_option *option_of(const pl_command *command, int code) {
    if (code >= 256) return &command->options[code - 256];
    for (const pl_option *o = command->options; o->name != NULL; o++) {
        if (o->letter != 0 && o->letter == code) return o;
    }
    return NULL;
}

static pl_status note(pl_args *args, const pl_option *option, const char *value, pl_err *err) {
    void *grown = pl_realloc_array(args->given, args->n_given + 1, sizeof(*args->given));
    if (grown == NULL) return pl_fail_memory(err, sizeof(*args->given));
    args->given = grown;
    args->given[args->n_given].option = option;
    args->given[args->n_given].value = value;
    args->n_given++;
    return PL_OK;
}

static pl_status parse_options(pl_args *args, int argc, char **argv, const struct option *longs,
                               const char *letters, bool *help, pl_err *err) {
    optind = 0; /* GNU: start afresh */
    opterr = 0;
    for (;;) {
        const int shown = optind > 0 ? optind : 1;
        const int code = getopt_long(argc, argv, letters, longs, NULL);
        if (code == -1) return PL_OK;
        if (code == 'h') {
            *help = true;
        } else if (code == ':') {
            return pl_fail(err, PL_E_USAGE, "option '%s' needs a value", argv[optind - 1]);
        } else if (code == '?') {
            return pl_fail(err, PL_E_USAGE, "unknown option '%s'; see plumb %s --help", argv[shown],
                           args->command->name);
        } else {
            PL_TRY(note(args, option_of(args->command, code), optarg, err));
        }
    }
}

pl_status pl_args_parse(const pl_command *command, int argc, char **argv, pl_args *out, bool *help,
                        pl_err *err) {
    const size_t n = count_options(command);
    struct option *longs = pl_calloc(n + 2, sizeof(*longs));
    char *letters = pl_calloc(2 * n + 2, 1);
    pl_status st = PL_OK;
    *out = (pl_args){ .command = command };
    *help = false;
    if (longs == NULL || letters == NULL) {
        st = pl_fail_memory(err, n);
        goto done;
    }
    fill_getopt(command, longs, letters);
    PL_TRY_GOTO(done, st, parse_options(out, argc, argv, longs, letters, help, err));
    out->n_positional = (size_t)(argc - optind);
    out->positional = (const char *const *)(argv + optind);
    if (*help) goto done;
    if (out->n_positional < command->min_args) {
        st = pl_fail(err, PL_E_USAGE, "missing argument; usage: plumb %s %s", command->name,
                     command->usage);
    } else if (command->max_args > 0 && out->n_positional > command->max_args) {
        st = pl_fail(err, PL_E_USAGE, "unexpected argument '%s'; usage: plumb %s %s",
                     out->positional[command->max_args], command->name, command->usage);
    }
done:
    pl_free(longs);
    pl_free(letters);
    return st;
}

void pl_args_release(pl_args *args) {
    pl_free(args->given);
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
    for (size_t k = 0;; k++) {
        const char *value = pl_args_nth(args, name, k);
        if (value == NULL) return last;
        last = value;
    }
}

pl_status pl_args_int(const pl_args *args, const char *name, long long otherwise, long long min,
                      long long max, long long *out, pl_err *err) {
    const char *text = pl_args_value(args, name);
    *out = otherwise;
    if (text == NULL) return PL_OK;
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *out >= min && *out <= max) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "--%s is '%s', expected a whole number from %lld to %lld", name,
                   text, min, max);
}

pl_status pl_args_double(const pl_args *args, const char *name, double otherwise, double *out,
                         pl_err *err) {
    const char *text = pl_args_value(args, name);
    *out = otherwise;
    if (text == NULL) return PL_OK;
    char *end = NULL;
    *out = strtod(text, &end);
    if (end != text && *end == '\0' && *out >= 0) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "--%s is '%s', expected a number that is not negative", name,
                   text);
}

int pl_command_fail(const pl_args *args, const pl_err *err) {
    fprintf(stderr, "plumb %s: %s\n", args->command->name, err->message);
    return pl_status_exit_code(err->status);
}

pl_status pl_print(const char *data, size_t n, pl_err *err) {
    if (fwrite(data, 1, n, stdout) == n && fflush(stdout) == 0) return PL_OK;
    return pl_fail(err, PL_E_IO, "standard output: %s", strerror(errno));
}

static void print_option(const pl_option *o) {
    char left[80];
    snprintf(left, sizeof(left), "%s%c%s--%s%s%s", o->letter ? "-" : "",
             o->letter ? o->letter : ' ', o->letter ? ", " : "   ", o->name,
             o->value != NULL ? " " : "", o->value != NULL ? o->value : "");
    printf("  %-28s %s\n", left, o->help);
}

void pl_args_help(const pl_command *command) {
    printf("plumb %s %s\n\n%s.\n", command->name, command->usage, command->summary);
    if (command->details != NULL) printf("\n%s\n", command->details);
    printf("\nOptions:\n");
    for (const pl_option *o = command->options; o->name != NULL; o++)
        print_option(o);
    printf("  %-28s %s\n", "    --help", "show this");
}
