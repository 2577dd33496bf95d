/* Options of the compiler that commands take by name; they become items of the backend's spec. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/args.h"

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
    size_t n = strlen(backend) + 200 + 2 * sizeof(((pl_cli_spec *)NULL)->explain);
    for (size_t i = 0; i < args->n_given; i++)
        n += args->given[i].value == NULL ? 0 : 2 * strlen(args->given[i].value) + 20;
    return n;
}

/* Commands without the compiler's options only write checkpoints there. */
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
                            "--inject, --explain and --fresh-cache require --backend jit");
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
    if (!pl_cli_folder_new("explain", out->folder, sizeof(out->folder), err)) return false;
    snprintf(out->explain, sizeof(out->explain), "%s/explain", out->folder);
    append(append(at, separator, NULL), "explain=", out->explain);
    return true;
}

bool pl_cli_check_faults(const pl_args *args, const char *backend, const plumb_model *model,
                         plumb_error *err) {
    char *text = NULL;
    if (pl_args_flag(args, "backward") || pl_args_value(args, "amp") != NULL) return true;
    if (plumb_faults_missed(model, backend, &text, NULL) != PLUMB_OK) return true;
    const bool ok = text == NULL || text[0] == '\0';
    if (!ok) pl_args_fail(err, PLUMB_E_USAGE, "%.*s", (int)strcspn(text, "\n"), text);
    plumb_free(text);
    return ok;
}

void pl_cli_spec_explain(const pl_cli_spec *spec, bool json) {
    char text[8192];
    struct stat info;
    ssize_t n = 0;
    const int fd = spec->explains ? open(spec->explain, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0) return;
    const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    while (regular && (n = read(fd, text, sizeof(text))) > 0)
        (void)fwrite(text, 1, (size_t)n, json ? stderr : stdout);
    close(fd);
}

void pl_cli_spec_release(pl_cli_spec *spec) {
    if (spec->folder[0] != '\0') {
        (void)unlink(spec->explain);
        (void)rmdir(spec->folder);
    }
    free(spec->text);
}
