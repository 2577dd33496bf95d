/* plumb test DIR…: run ONNX test folders. */
#include <stdio.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_test;

static bool read_options(const pl_args *args, plumb_test_options *o, plumb_error *err) {
    plumb_test_options_init(o);
    if (!pl_args_double(args, "rtol", 1e-3, &o->rtol, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_args_double(args, "atol", 1e-7, &o->atol, err) ||
        !pl_cli_threads(args, &o->threads, err)) {
        return false;
    }
    o->filter = pl_args_value(args, "filter");
    o->fp64 = pl_args_flag(args, "fp64");
    return true;
}

typedef struct failing {
    const pl_args *args;
    pl_cli_repro repro;
    const char *backend;
} failing;

/* Writes a checkpoint for a failed case: errors at level 1 and 2, wrong values at level 4. */
static void on_failed(failing *f, const char *path, const char *reason) {
    char set[4096];
    const char *const sets[] = { set };
    plumb_inputs inputs;
    plumb_inputs_init(&inputs);
    inputs.sets = sets;
    inputs.n_sets = 1;
    plumb_error err = { .status = PLUMB_E_BACKEND };
    plumb_model *model = NULL;
    const bool wrong = strncmp(reason, "difference", 10) == 0;
    snprintf(set, sizeof(set), "%s/test_data_set_0", path);
    if (f->repro.level == 0 || pl_args_open_model(f->args, path, &model, NULL) != PLUMB_OK) return;
    snprintf(err.message, sizeof(err.message), "%s", reason);
    f->repro.before = false;
    pl_cli_repro_after(&f->repro, f->args, model, &inputs, f->backend, &err, wrong);
    plumb_model_close(model);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_test_options options;
    plumb_write_options write;
    plumb_test_report *report = NULL;
    plumb_test_case one = { .size = sizeof(one) };
    plumb_progress progress;
    char *text = NULL;
    failing f = { .args = args };
    pl_cli_spec spec = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &err) || !pl_cli_backend(args, &spec, &err) ||
        !pl_cli_repro_read(args, 0, &f.repro, &err)) {
        goto done;
    }
    f.backend = options.backend = spec.text;
    pl_args_write(args, &write);
    write.verbose = pl_args_flag(args, "verbose");
    pl_cli_bar *bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    st = plumb_test(args->positional, args->n_positional, &options, &report, &err);
    if (st == PLUMB_OK) st = plumb_test_report_write(report, &write, &text, &err);
    pl_cli_bar_free(bar);
    for (size_t i = 0; plumb_test_report_case(report, i, &one); i++)
        if (strcmp(one.status, "fail") == 0) on_failed(&f, one.path, one.reason);
done:
    pl_cli_spec_release(&spec);
    const bool any_failed = plumb_test_report_failed(report) > 0;
    const bool none = plumb_test_report_passed(report) == 0 && !any_failed;
    plumb_test_report_free(report);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, any_failed ? 1 : none ? 2 : 0);
}

static const pl_option options[] = {
    { 0, "rtol", "X", "relative tolerance (default 1e-3)" },
    { 0, "atol", "X", "absolute tolerance (default 1e-7)" },
    { 'k', "filter", "TEXT", "only cases whose path contains TEXT" },
    { 0, "fp64", NULL, "run in double precision" },
    PL_OPTIONS_BACKEND,
    PL_OPTION_INJECT,
    PL_OPTIONS_REPRO,
    PL_OPTION_DEBUG_DIR,
    PL_OPTION_THREADS,
    { 'v', "verbose", NULL, "also list passing cases" },
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_test = {
    .name = "test",
    .usage = "DIR... [options]",
    .summary = "run ONNX test folders (model.onnx and test_data_set_*), also the light layout",
    .details =
        "Exit code: 0 no failure, 1 some case failed, 2 bad usage, no case found or all\nskipped.",
    .examples = "  plumb test node/test_relu\n"
                "  plumb test node --backend ort\n"
                "  plumb test node --filter conv --json\n",
    .options = options,
    .min_args = 1,
    .max_args = SIZE_MAX,
    .run = run,
};
