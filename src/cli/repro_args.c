/* Repro levels on the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

bool pl_cli_repro_read(const pl_args *args, int otherwise, pl_cli_repro *out, plumb_error *err) {
    const char *from = getenv("PLUMB_REPRO_LEVEL");
    long long level = otherwise;
    *out = (pl_cli_repro){ 0 };
    if (from != NULL && from[0] != '\0') {
        if (from[0] < '0' || from[0] > '4' || from[1] != '\0') {
            err->status = PLUMB_E_USAGE;
            snprintf(err->message, sizeof(err->message),
                     "PLUMB_REPRO_LEVEL is '%.100s', expected 0 to 4", from);
            return false;
        }
        level = from[0] - '0';
    }
    if (!pl_args_int(args, "repro-level", level, 0, 4, &level, err)) return false;
    out->level = (int)level;
    return true;
}

static void dump(const pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                 const plumb_inputs *inputs, const char *backend, const plumb_error *failure) {
    char *text = NULL;
    plumb_error err = { 0 };
    double timeout = 0;
    const plumb_repro_options options = {
        .level = repro->level,
        .inputs = *inputs,
        .backend = backend,
        .debug_dir = pl_args_value(args, "debug-dir"),
        .no_data = pl_args_flag(args, "no-data"),
        .error = failure == NULL ? NULL : failure->message,
        .timeout = pl_args_double(args, "timeout", 0, &timeout, &err) ? timeout : 0
    };
    if (plumb_repro_dump(model, &options, &text, &err) == PLUMB_OK) {
        fputs(text, stderr);
        plumb_free(text);
    } else {
        fprintf(stderr, "plumb %s: no checkpoint: %s\n", args->command->name, err.message);
    }
}

void pl_cli_repro_before(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                         const plumb_inputs *inputs, const char *backend) {
    if (repro->level != 3) return;
    dump(repro, args, model, inputs, backend, NULL);
    repro->before = true;
}

void pl_cli_repro_after(pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                        const plumb_inputs *inputs, const char *backend, const plumb_error *err,
                        bool wrong) {
    const bool failed = err->status == PLUMB_E_BACKEND || err->status == PLUMB_E_TIMEOUT;
    const bool wanted = wrong ? repro->level == 4 : failed && repro->level > 0;
    if (model == NULL || !wanted || repro->before) return;
    dump(repro, args, model, inputs, backend, err);
}
