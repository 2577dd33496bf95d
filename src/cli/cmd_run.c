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

typedef struct given { /* all settings; the options point to each other */
    plumb_inputs inputs;
    plumb_run_options run;
    plumb_context context;
    plumb_check_options check;
    plumb_write_options write;
    bool checked;
} given;

static bool read_options(const pl_args *args, given *g, plumb_error *err) {
    long long repeat = 1;
    plumb_run_options *o = &g->run;
    plumb_run_options_init(o);
    plumb_check_options_init(&g->check);
    o->inputs = &g->inputs;
    g->check.run = o;
    g->check.context = &g->context;
    pl_args_write(args, &g->write);
    if (!pl_cli_inputs(args, &g->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "repeat", 1, 1, 1000000, &repeat, err)) {
        return false;
    }
    o->repeat = (int)repeat;
    o->fp64 = pl_args_flag(args, "fp64");
    o->profile = pl_args_flag(args, "profile-nodes");
    o->save_as = pl_args_value(args, "save-as");
    return true;
}

/* Is the run checked or transformed? Otherwise it is a plain run. */
static bool read_check(const pl_args *args, given *g, plumb_error *err) {
    long long runs = 1;
    plumb_check_options *o = &g->check;
    const bool strict = pl_args_flag(args, "strict-accuracy");
    const bool accuracy = pl_args_flag(args, "accuracy") || strict;
    if (accuracy && pl_args_flag(args, "no-accuracy"))
        return pl_args_fail(err, PLUMB_E_USAGE, "--accuracy and --no-accuracy cannot be combined");
    if (!pl_args_int(args, "runs", g->run.repeat, 1, 1000, &runs, err) ||
        !pl_cli_context(args, &g->context, err) || !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &g->write.format, err)) {
        return false;
    }
    o->mode = strict ? PLUMB_CHECK_STRICT : accuracy ? PLUMB_CHECK_ACCURACY : PLUMB_CHECK_NONE;
    g->run.repeat = (int)runs;
    o->reference_amp = pl_args_flag(args, "reference-amp");
    o->reference = pl_args_value(args, "reference");
    o->reference_model = pl_args_value(args, "reference-model");
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    if (o->same != NULL && (o->profile == NULL || strcmp(o->profile, "torch") != 0))
        return pl_args_fail(err, PLUMB_E_USAGE, "--same requires --profile torch");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    const bool changed = g->context.eval || g->context.amp != NULL || g->context.backward;
    const bool json = g->write.format != NULL && strcmp(g->write.format, "json") == 0;
    g->checked = accuracy || changed || (g->write.format != NULL && !json);
    if (g->checked && (g->run.fp64 || g->run.profile))
        return pl_args_fail(err, PLUMB_E_USAGE,
                            "--fp64 and --profile-nodes cannot be combined with --accuracy");
    return true;
}

/* Runs it and prints the result; *code is 1 or 3 if the check fails. */
static plumb_status run_checked(const pl_args *args, plumb_model *model, const given *g, int *code,
                                plumb_error *err) {
    plumb_check_result *result = NULL;
    char *text = NULL;
    plumb_status st = plumb_write_check(&g->write, err);
    if (st == PLUMB_OK) st = plumb_check(model, &g->check, &result, err);
    if (st == PLUMB_OK) st = plumb_check_result_write(result, &g->write, &text, err);
    pl_cli_bar_clear(g->run.progress);
    if (st == PLUMB_OK) {
        *code = pl_command_print_take(args, text, plumb_check_result_exit_code(result));
        const char *error = plumb_check_result_error(result);
        if (error[0] != '\0') fprintf(stderr, "plumb %s: %s\n", args->command->name, error);
    }
    plumb_check_result_free(result);
    return st;
}

static plumb_status run_plainly(const pl_args *args, plumb_model *model, const given *g, int *code,
                                plumb_error *err) {
    plumb_run_result *result = NULL;
    char *text = NULL;
    plumb_status st = plumb_run(model, &g->run, &result, err);
    if (st == PLUMB_OK) st = plumb_run_result_write(result, &g->write, &text, err);
    pl_cli_bar_clear(g->run.progress);
    if (st == PLUMB_OK) *code = pl_command_print_take(args, text, 0);
    plumb_run_result_free(result);
    return st;
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    given g = { .checked = false };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_spec spec = { 0 };
    pl_cli_bar *bar = NULL;
    char output[512];
    bool save = true;
    int code = 0;
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &g, &err) || !read_check(args, &g, &err) ||
        !pl_cli_repro_read(args, 2, &repro, &err) || !wants_output(args, &err, &save) ||
        !pl_cli_repro_context(args, &g.inputs, &g.run.threads, &err) ||
        !pl_cli_backend(args, &spec, &err)) {
        goto done;
    }
    if (repro.level == 4 && g.check.mode == PLUMB_CHECK_NONE && pl_args_flag(args, "repro-level")) {
        pl_args_fail(&err, PLUMB_E_USAGE, "--repro-level 4 requires --accuracy");
        goto done;
    }
    g.run.backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    g.run.output = pl_args_value(args, "output");
    if (g.run.output == NULL && save && g.check.mode == PLUMB_CHECK_NONE) g.run.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    st = PLUMB_E_USAGE;
    if (!pl_cli_check_faults(args, g.run.backend, model, &err)) goto done;
    bar = pl_cli_bar_of(args, &progress);
    g.run.progress = &progress;
    pl_cli_repro_before(&repro, args, model, &g.inputs, g.run.backend);
    st = g.checked ? run_checked(args, model, &g, &code, &err)
                   : run_plainly(args, model, &g, &code, &err);
done:
    pl_cli_bar_free(bar);
    if (st != PLUMB_OK) code = pl_command_fail(args, &err);
    /* A failing backend is a result of a check. */
    const bool wrong = st == PLUMB_OK && g.checked && code == 1;
    const bool failed = st != PLUMB_OK || (g.checked && code == 3);
    if (st == PLUMB_OK && failed) err.status = PLUMB_E_BACKEND;
    if (failed || wrong) {
        pl_cli_repro_after(&repro, args, model, &g.inputs, g.run.backend, &err, wrong);
    }
    plumb_model_close(model);
    pl_cli_inputs_release(&g.inputs);
    const bool json = g.write.format != NULL && strcmp(g.write.format, "json") == 0;
    if (st == PLUMB_OK) pl_cli_spec_explain(&spec, json);
    pl_cli_spec_release(&spec);
    return code;
}

static const pl_option options[] = {
    PL_OPTIONS_INPUTS,
    { 'o', "output", "PATH",
      "directory, or FILE.npy|npz|pb|safetensors (default plumb-out/NAME-TIME)" },
    { 0, "save-as", "KIND", "file format in a directory: npy (default) or pb" },
    { 0, "save", "WHAT", "outputs to write: all (default) or none" },
    { 0, "fp64", NULL, "run in double precision" },
    { 0, "repeat", "N", "run N times and time it" },
    { 0, "profile-nodes", NULL, "print the time of each node" },
    { 0, "accuracy", NULL, "test that the backend agrees with the reference" },
    { 0, "strict-accuracy", NULL, "the same, and non-float outputs must be equal" },
    { 0, "no-accuracy", NULL, "only run (default)" },
    { 0, "reference", "SPEC|FILE",
      "the reference: a backend (default eager), a recording or a model" },
    { 0, "reference-model", "FILE", "run this model on --reference" },
    { 0, "runs", "N", "number of runs; most of them must agree" },
    { 0, "eval", NULL, "switch off training behaviour (implied by --accuracy)" },
    { 0, "no-eval", NULL, "keep training behaviour with --accuracy" },
    { 0, "amp", "TYPE", "run under autocast: fp16 or bf16" },
    { 0, "reference-amp", NULL, "run the reference under the same autocast" },
    { 0, "backward", NULL, "also compute gradients and updated buffers" },
    { 0, "loss-output", "NAME", "backward: the only output in the loss" },
    { 0, "grad-seed", "N", "backward: random output gradients" },
    { 0, "profile", "NAME", "rule for outputs: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same()" },
    { 0, "tol", "X", "plumb: |a - r| <= X (|r| + rms) instead of the fp64 run" },
    { 0, "baseline", "FILE", "accepted divergences; only new ones fail" },
    { 0, "write-baseline", "FILE", "accept the current divergences and write them to FILE" },
    { 0, "format", "NAME", "json, junit, github, md, csv, sarif" },
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
    .details = "Missing inputs are generated: floats near N(0,1), integers 0 to 9;\nthey depend "
               "only on the seed, the input's number and the element's number.\n--accuracy: the "
               "reference is run twice, bit for bit; then an fp64 run as third\nopinion; then the "
               "backend. Outputs are written with -o only. A failing gate\nnames the output, the "
               "rule, both errors and the next command.\nExit code: 0 agree, 1 diverged, 2 bad "
               "usage or bad input, 3 a\nbackend failed, 4 disk or memory.",
    .examples = "  plumb run model.onnx --seed 1 -o out\n"
                "  plumb run model.onnx --backend ort --input x=x.npy -o y.npz\n"
                "  plumb run model.onnx --backend ort --accuracy\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
