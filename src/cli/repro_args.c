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
            return pl_args_fail(err, PLUMB_E_USAGE,
                                "PLUMB_REPRO_LEVEL is '%.100s', expected 0 to 4", from);
        }
        level = from[0] - '0';
    }
    if (!pl_args_int(args, "repro-level", level, 0, 4, &level, err)) return false;
    out->level = (int)level;
    return true;
}

bool pl_cli_repro_context(const pl_args *args, plumb_inputs *inputs, int *threads,
                          plumb_error *err) {
    plumb_repro_info info = { .size = sizeof(info) };
    plumb_error trouble = { 0 };
    const plumb_status st = plumb_repro_read(args->positional[0], &info, &trouble);
    if (st == PLUMB_E_NOT_FOUND) return true; /* a model */
    if (st != PLUMB_OK) {
        *err = trouble;
        return false;
    }
    if (!pl_args_flag(args, "seed")) inputs->seed = info.seed;
    if (!pl_args_flag(args, "threads")) *threads = info.threads;
    return true;
}

bool pl_cli_context(const pl_args *args, plumb_context *out, plumb_error *err) {
    long long grad_seed = 0;
    const bool accuracy =
        pl_args_flag(args, "accuracy") ||
        (pl_args_flag(args, "strict-accuracy") && strcmp(args->command->name, "minify") != 0);
    if (pl_args_flag(args, "eval") && pl_args_flag(args, "no-eval"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--eval and --no-eval cannot be combined");
    plumb_context_init(out);
    out->eval = pl_args_flag(args, "eval") || (accuracy && !pl_args_flag(args, "no-eval"));
    out->amp = pl_args_value(args, "amp");
    out->backward = pl_args_flag(args, "backward");
    out->loss_output = pl_args_value(args, "loss-output");
    out->random_gradients = pl_args_flag(args, "grad-seed");
    if (!pl_args_int(args, "grad-seed", 0, 0, INT64_MAX, &grad_seed, err)) return false;
    out->grad_seed = (uint64_t)grad_seed;
    if (out->backward || (out->loss_output == NULL && !out->random_gradients)) return true;
    return pl_args_fail(err, PLUMB_E_USAGE, "--loss-output and --grad-seed require --backward");
}

static void dump(const pl_cli_repro *repro, const pl_args *args, const plumb_model *model,
                 const plumb_inputs *inputs, const char *backend, const plumb_error *failure) {
    char *text = NULL;
    plumb_error err = { 0 };
    double timeout = 0;
    int threads = 0;
    plumb_context context;
    plumb_repro_options options;
    double tol = 0;
    const bool strict = pl_args_flag(args, "strict-accuracy");
    const bool accuracy = pl_args_flag(args, "accuracy") || strict;
    plumb_context_init(&context);
    plumb_repro_options_init(&options);
    (void)pl_cli_context(args, &context, &err); /* the command has reported the error */
    if (!accuracy || !pl_args_double(args, "tol", 0, &tol, &err)) tol = 0;
    options.level = repro->level;
    options.inputs = inputs;
    options.backend = backend;
    options.debug_dir = pl_args_value(args, "debug-dir");
    options.no_data = pl_args_flag(args, "no-data");
    options.error = failure == NULL ? NULL : failure->message;
    options.timeout = pl_args_double(args, "timeout", 0, &timeout, &err) ? timeout : 0;
    options.threads = pl_cli_threads(args, &threads, &err) ? threads : 0;
    options.context = &context;
    options.accuracy = accuracy;
    options.strict = strict;
    options.profile = accuracy ? pl_args_value(args, "profile") : NULL;
    options.same = accuracy ? pl_args_value(args, "same") : NULL;
    options.tol = tol;
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
