/* plumb record MODEL: run it and save every intermediate. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/args.h"

extern const pl_command pl_command_record;

static bool read_options(const pl_args *args, plumb_record_options *o, plumb_inputs *inputs,
                         plumb_error *err) {
    plumb_record_options_init(o);
    o->inputs = inputs;
    if (!pl_cli_inputs(args, inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_threads(args, &o->threads, err)) {
        return false;
    }
    o->fp64 = pl_args_flag(args, "fp64");
    o->stats_only = pl_args_flag(args, "stats-only");
    o->names = pl_args_all(args, "name", &o->n_names);
    o->ops = pl_args_all(args, "op", &o->n_ops);
    o->modules = pl_args_all(args, "module", &o->n_modules);
    return (o->names != NULL && o->ops != NULL && o->modules != NULL) || pl_args_no_memory(err);
}

static void free_array(const char *const *array) {
    free((void *)(uintptr_t)array);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_record_options options;
    plumb_inputs inputs;
    plumb_write_options write;
    plumb_record_result *result = NULL;
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    pl_cli_spec spec = { 0 };
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    pl_args_write(args, &write);
    if (!read_options(args, &options, &inputs, &err) || !pl_cli_repro_read(args, 2, &repro, &err) ||
        !pl_cli_repro_context(args, &inputs, &options.threads, &err) ||
        !pl_cli_backend(args, &spec, &err)) {
        goto done;
    }
    options.backend = spec.text;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    st = PLUMB_E_USAGE;
    if (!pl_cli_check_faults(args, options.backend, model, &err)) goto done;
    options.output = pl_args_value(args, "output");
    if (options.output == NULL) {
        pl_cli_default_output(args->positional[0], ".safetensors", output, sizeof(output));
        mkdir("plumb-out", 0777); /* errors are reported when the file is created */
        options.output = output;
    }
    bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    pl_cli_repro_before(&repro, args, model, &inputs, options.backend);
    st = plumb_record(model, &options, &result, &err);
    if (st == PLUMB_OK) st = plumb_record_result_write(result, &write, &text, &err);
done:
    plumb_record_result_free(result);
    pl_cli_bar_free(bar);
    const int failed = st == PLUMB_OK ? 0 : pl_command_fail(args, &err);
    if (st != PLUMB_OK) {
        pl_cli_repro_after(&repro, args, model, &inputs, options.backend, &err, false);
    }
    if (st == PLUMB_OK) pl_cli_spec_explain(&spec, write.format != NULL);
    pl_cli_spec_release(&spec);
    plumb_model_close(model);
    pl_cli_inputs_release(&inputs);
    free_array(options.names);
    free_array(options.ops);
    free_array(options.modules);
    return st != PLUMB_OK ? failed : pl_command_print_take(args, text, 0);
}

static const pl_option options[] = {
    { 'o', "output", "FILE", "output file (default plumb-out/NAME-TIME.safetensors)" },
    PL_OPTIONS_INPUTS,
    { 0, "name", "REGEX", "only values whose name matches (POSIX extended regex; repeatable)" },
    { 0, "op", "TYPE", "only outputs of this operator (repeatable)" },
    { 0, "module", "NAME", "only this module and its submodules (repeatable)" },
    { 0, "stats-only", NULL, "record hashes and statistics, no tensors" },
    { 0, "fp64", NULL, "run in double precision" },
    PL_OPTIONS_BACKEND,
    PL_OPTIONS_JIT,
    PL_OPTIONS_REPRO,
    PL_OPTION_THREADS,
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_record = {
    .name = "record",
    .usage = "MODEL [options]",
    .summary = "run a model and save every intermediate value",
    .details = "The recording is a safetensors file with a tensor for each value, inputs\n"
               "included; its metadata describes the graph and the machine. Values are written\n"
               "as they are computed. A value computed several times, in a loop, is recorded\n"
               "as NAME, NAME#1, NAME#2, … An existing file is not overwritten. A\n"
               "backend other than eager runs behind plumb-guard. Its values are recorded\nunder "
               "the model's names; if recording changes the outputs, plumb says so and\nrecords "
               "less intrusively.\n"
               "Exit code: 0 recorded, 2 bad usage or bad input, 3 the backend failed, 4 disk\n"
               "or memory.",
    .examples = "  plumb record model.onnx -o gold.safetensors --fp64\n"
                "  plumb record model.onnx --backend ort --op Conv\n"
                "  plumb record model.onnx --stats-only\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
