/* plumb run MODEL: run it and write its outputs. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_run;

static bool wants_output(const pl_args *args, plumb_error *err, bool *out) {
    const char *save = pl_args_value(args, "save");
    *out = save == NULL || strcmp(save, "none") != 0;
    if (save == NULL || strcmp(save, "none") == 0 || strcmp(save, "all") == 0) return true;
    return pl_args_fail(err, PLUMB_E_USAGE, "--save is '%s', expected all or none", save);
}

static bool read_options(const pl_args *args, plumb_run_options *o, plumb_error *err) {
    long long repeat = 1;
    if (!pl_cli_inputs(args, &o->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "repeat", 1, 1, 1000000, &repeat, err)) {
        return false;
    }
    o->repeat = (int)repeat;
    o->fp64 = pl_args_flag(args, "fp64");
    o->profile = pl_args_flag(args, "profile-nodes");
    o->save_as = pl_args_value(args, "save-as");
    o->format = pl_args_format(args);
    return true;
}

/* Whether the run is checked or transformed; plain runs stay plain. */
static bool read_check(const pl_args *args, plumb_check_options *o, bool *checked,
                       plumb_error *err) {
    long long runs = 1;
    plumb_context context = { 0 };
    const bool strict = pl_args_flag(args, "strict-accuracy");
    const bool accuracy = pl_args_flag(args, "accuracy") || strict;
    if (accuracy && pl_args_flag(args, "no-accuracy"))
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--accuracy and --no-accuracy contradict each other");
    if (!pl_args_int(args, "runs", o->run.repeat, 1, 1000, &runs, err) ||
        !pl_cli_context(args, &context, err) || !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &o->format, err)) {
        return false;
    }
    o->mode = strict ? PLUMB_CHECK_STRICT : accuracy ? PLUMB_CHECK_ACCURACY : PLUMB_CHECK_NONE;
    o->run.repeat = (int)runs;
    o->eval = context.eval;
    o->amp = context.amp;
    o->reference_amp = pl_args_flag(args, "reference-amp");
    o->reference = pl_args_value(args, "reference");
    o->reference_model = pl_args_value(args, "reference-model");
    o->backward = context.backward;
    o->loss_output = context.loss_output;
    o->random_gradients = context.random_gradients;
    o->grad_seed = context.grad_seed;
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    *checked = accuracy || o->eval || o->amp != NULL || o->backward || o->format != NULL;
    if (o->format != NULL && strcmp(o->format, "json") == 0 && !accuracy && !o->eval &&
        o->amp == NULL && !o->backward) {
        o->run.format = PLUMB_JSON;
        *checked = false;
    }
    if (*checked && (o->run.fp64 || o->run.profile))
        return pl_args_fail(err, PLUMB_E_USAGE, "--fp64 and --profile-nodes are of plain runs");
    return true;
}

static int finish_checked(const pl_args *args, const plumb_check_result *result, char *text) {
    const int code = pl_command_print_take(args, text, result->exit_code);
    if (result->error[0] != '\0')
        fprintf(stderr, "plumb %s: %s\n", args->command->name, result->error);
    return code;
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_check_options check = { 0 };
    plumb_run_options *options = &check.run;
    plumb_check_result result = { 0 };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_spec spec = { 0 };
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    bool save = true, checked = false;
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, options, &err) || !read_check(args, &check, &checked, &err) ||
        !pl_cli_repro_read(args, 2, &repro, &err) || !wants_output(args, &err, &save) ||
        !pl_cli_repro_context(args, &options->inputs, &options->threads, &err) ||
        !pl_cli_backend(args, &spec, &err)) {
        goto done;
    }
    options->backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    options->output = pl_args_value(args, "output");
    if (options->output == NULL && save && check.mode == PLUMB_CHECK_NONE) options->output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    pl_cli_warn_faults(args, options->backend, model);
    bar = pl_cli_bar_new(&progress);
    options->progress = &progress;
    pl_cli_repro_before(&repro, args, model, &options->inputs, options->backend);
    st = checked ? plumb_run_checked(model, &check, &result, &text, &err)
                 : plumb_run(model, options, &text, &err);
done:
    pl_cli_bar_free(bar);
    int code = st == PLUMB_OK ? finish_checked(args, &result, text) : pl_command_fail(args, &err);
    /* That the backend fails is a result of a check. */
    const bool wrong = st == PLUMB_OK && checked && code == 1;
    const bool failed = st != PLUMB_OK || (checked && code == 3);
    if (st == PLUMB_OK && failed) err.status = PLUMB_E_BACKEND;
    if (failed || wrong) {
        pl_cli_repro_after(&repro, args, model, &options->inputs, options->backend, &err, wrong);
    }
    plumb_model_close(model);
    pl_cli_inputs_release(&options->inputs);
    if (st == PLUMB_OK) pl_cli_spec_explain(&spec, options->format == PLUMB_JSON);
    pl_cli_spec_release(&spec);
    return code;
}

static const pl_option options[] = {
    PL_OPTIONS_INPUTS,
    { 'o', "output", "PATH",
      "folder, or FILE.npy|npz|pb|safetensors (default plumb-out/NAME-TIME)" },
    { 0, "save-as", "KIND", "files in a folder: npy (default) or pb" },
    { 0, "save", "WHAT", "all (default) or none: write no outputs" },
    { 0, "fp64", NULL, "run in double precision (gold)" },
    { 0, "repeat", "N", "run N times and time it" },
    { 0, "profile-nodes", NULL, "tell where the time goes" },
    { 0, "accuracy", NULL, "the reproducibility test: the backend must agree with the reference" },
    { 0, "strict-accuracy", NULL, "the same; outputs that are not floats count, exactly" },
    { 0, "no-accuracy", NULL, "only run (default)" },
    { 0, "reference", "SPEC|FILE",
      "what it must agree with: a backend (default eager), a recording, a model" },
    { 0, "reference-model", "FILE", "another model for the reference, run on --reference" },
    { 0, "runs", "N", "runs of the candidate; most of them must agree" },
    { 0, "eval", NULL, "training behaviour off (implied by --accuracy)" },
    { 0, "no-eval", NULL, "keep training behaviour under --accuracy" },
    { 0, "amp", "TYPE", "run under autocast: fp16 or bf16" },
    { 0, "reference-amp", NULL, "the reference runs under the same autocast" },
    { 0, "backward", NULL, "gradients of inputs and parameters, and updated buffers, too" },
    { 0, "loss-output", "NAME", "backward: the only output in the loss" },
    { 0, "grad-seed", "N", "backward: random output gradients" },
    { 0, "profile", "NAME", "rule: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same()" },
    { 0, "tol", "X", "plumb: |a - r| <= X (|r| + rms) instead of the fp64 run" },
    { 0, "baseline", "FILE", "accepted divergences: only new ones fail" },
    { 0, "write-baseline", "FILE", "accept what diverges now" },
    { 0, "format", "NAME", "json, junit, github, md, csv or sarif" },
    PL_OPTIONS_BACKEND,
    PL_OPTIONS_JIT,
    PL_OPTIONS_REPRO,
    PL_OPTION_THREADS,
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_run = {
    .name = "run",
    .usage = "MODEL [options]",
    .summary = "run a model on a backend, write its outputs, check them against a reference",
    .details =
        "Inputs that are not given are generated: floats near N(0,1), integers 0 to 9; they "
        "depend\n"
        "only on the seed, the input's number and the element's number.\n"
        "--accuracy: the reference is run twice, bit for bit; then an fp64 run as third "
        "opinion; then\n"
        "the backend. Outputs are written with -o only. A failing gate names the output, the "
        "rule, both\n"
        "errors and the next command.\n"
        "Exit code: 0 ran and agrees, 1 it does not agree, 2 bad usage or bad input,\n"
        "3 a backend failed, 4 disk or memory.",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
