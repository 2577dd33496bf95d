/* plumb run MODEL: run it and write its outputs. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_run;

static bool wants_output(const pl_args *args, plumb_error *err, bool *out) {
    const char *save = pl_args_value(args, "save");
    *out = save == NULL || strcmp(save, "none") != 0;
    if (save == NULL || strcmp(save, "none") == 0 || strcmp(save, "all") == 0) return true;
    err->status = PLUMB_E_USAGE;
    snprintf(err->message, sizeof(err->message), "--save is '%s', expected all or none", save);
    return false;
}

static bool read_options(const pl_args *args, plumb_run_options *o, plumb_error *err) {
    long long threads = 0, repeat = 1;
    if (!pl_cli_inputs(args, &o->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, err) ||
        !pl_args_int(args, "threads", 0, 0, 4096, &threads, err) ||
        !pl_args_int(args, "repeat", 1, 1, 1000000, &repeat, err)) {
        return false;
    }
    o->threads = (int)threads;
    o->repeat = (int)repeat;
    o->fp64 = pl_args_flag(args, "fp64");
    o->profile = pl_args_flag(args, "profile-nodes");
    o->save_as = pl_args_value(args, "save-as");
    o->format = pl_args_format(args);
    return true;
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_run_options options = { 0 };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_spec spec = { 0 };
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    bool save = true;
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &err) || !pl_cli_repro_read(args, 2, &repro, &err) ||
        !wants_output(args, &err, &save) || !pl_cli_backend(args, &spec, &err)) {
        goto done;
    }
    options.backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    options.output = pl_args_value(args, "output");
    if (options.output == NULL && save) options.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    bar = pl_cli_bar_new(&progress);
    options.progress = &progress;
    pl_cli_repro_before(&repro, args, model, &options.inputs, options.backend);
    st = plumb_run(model, &options, &text, &err);
done:
    pl_cli_bar_free(bar);
    int code = st == PLUMB_OK ? pl_command_print_take(args, text, 0) : pl_command_fail(args, &err);
    if (st != PLUMB_OK) {
        pl_cli_repro_after(&repro, args, model, &options.inputs, options.backend, &err, false);
    }
    plumb_model_close(model);
    pl_cli_inputs_release(&options.inputs);
    if (st == PLUMB_OK) pl_cli_spec_explain(&spec, options.format == PLUMB_JSON);
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
    .summary = "run a model on a backend and write its outputs",
    .details = "Inputs that are not given are generated: floats near N(0,1), integers 0 to 9; they "
               "depend\n"
               "only on the seed, the input's number and the element's number.\n"
               "Exit code: 0 ran, 2 bad usage or bad input, 3 the backend failed,\n"
               "4 disk or memory.",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
