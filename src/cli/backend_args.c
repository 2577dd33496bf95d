/* Options of the compiler that commands take by name; they become items of the backend's spec. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "flows/api.h"
#include "flows/minify/planted.h"

/* Room for every character escaped. */
static char *append(char *to, const char *key, const char *value) {
    to += sprintf(to, "%s", key);
    for (const char *at = value; at != NULL && *at != '\0'; at++) {
        if (*at == ',' || *at == '\\') *to++ = '\\';
        *to++ = *at;
    }
    *to = '\0';
    return to;
}

static size_t room_for(const pl_args *args, const char *backend) {
    size_t n = strlen(backend) + 200;
    for (size_t i = 0; i < args->n_given; i++)
        n += args->given[i].value == NULL ? 0 : 2 * strlen(args->given[i].value) + 20;
    return n;
}

/* Commands without the compiler's other options leave checkpoints there, and nothing else. */
static const char *debug_dir_of(const pl_args *args, const char *backend) {
    bool is_jits = backend == NULL || strncmp(backend, "jit", 3) == 0, has_explain = false;
    for (const pl_option *o = args->command->options; o->name != NULL; o++)
        has_explain = has_explain || strcmp(o->name, "explain") == 0;
    return is_jits && has_explain ? pl_args_value(args, "debug-dir") : NULL;
}

bool pl_cli_backend(const pl_args *args, pl_cli_spec *out, plumb_error *err) {
    const char *backend = pl_args_value(args, "backend");
    const char *debug_dir = debug_dir_of(args, backend);
    const bool fresh = pl_args_flag(args, "fresh-cache");
    *out = (pl_cli_spec){ 0 };
    out->explains = pl_args_flag(args, "explain");
    const bool any =
        pl_args_nth(args, "inject", 0) != NULL || debug_dir != NULL || fresh || out->explains;
    if (!any && backend == NULL) return true;
    if (backend == NULL) backend = "jit";
    if (any && strncmp(backend, "jit", 3) != 0) {
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--inject, --explain and --fresh-cache are of the jit backend");
    }
    out->text = malloc(room_for(args, backend));
    if (out->text == NULL) return pl_args_no_memory(err);
    char *at = out->text + sprintf(out->text, "%s", backend);
    const char *separator = strchr(backend, ':') == NULL ? ":" : ",";
    const char *fault;
    for (size_t i = 0; (fault = pl_args_nth(args, "inject", i)) != NULL; i++) {
        at = append(append(at, separator, NULL), "inject=", fault);
        separator = ",";
    }
    if (debug_dir != NULL) {
        at = append(append(at, separator, NULL), "debug-dir=", debug_dir);
        separator = ",";
    }
    if (fresh) {
        at = append(append(at, separator, NULL), "fresh-cache", NULL);
        separator = ",";
    }
    if (!out->explains) return true;
    snprintf(out->explain, sizeof(out->explain), "/tmp/plumb-explain-XXXXXX");
    const int fd = mkstemp(out->explain);
    if (fd < 0) return pl_args_fail(err, PLUMB_E_IO, "cannot make a temporary file in /tmp");
    close(fd);
    append(append(at, separator, NULL), "explain=", out->explain);
    return true;
}

void pl_cli_warn_faults(const pl_args *args, const char *backend, const plumb_model *model) {
    pl_buf lines = PL_BUF_INIT;
    if (pl_args_flag(args, "backward") || pl_args_value(args, "amp") != NULL) return;
    pl_planted_misses(backend, model->model->graph, &lines);
    const char *text = pl_buf_ok(&lines) && lines.n_bytes > 0 ? lines.data : "";
    for (const char *at = text, *end; (end = strchr(at, '\n')) != NULL; at = end + 1)
        fprintf(stderr, "plumb %s: warning: %.*s\n", args->command->name, (int)(end - at), at);
    pl_buf_release(&lines);
}

void pl_cli_spec_explain(const pl_cli_spec *spec, bool json) {
    FILE *from = spec->explains ? fopen(spec->explain, "r") : NULL;
    char line[2048];
    while (from != NULL && fgets(line, sizeof(line), from) != NULL)
        fputs(line, json ? stderr : stdout);
    if (from != NULL) fclose(from);
}

void pl_cli_spec_release(pl_cli_spec *spec) {
    if (spec->explain[0] != '\0') unlink(spec->explain);
    free(spec->text);
}
