/* plumb compare A B: where two recordings diverge. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_compare;

static bool read_numbers(const pl_args *args, plumb_compare_options *o, plumb_error *err) {
    long long limit = 0;
    if (!pl_cli_inputs(args, &o->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "limit", 20, 0, 1000000000, &limit, err) ||
        !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &o->format, err))
        return false;
    o->limit = (size_t)limit;
    o->has_tol = pl_args_value(args, "tol") != NULL;
    return true;
}

static bool read_options(const pl_args *args, plumb_compare_options *o, plumb_error *err) {
    if (!read_numbers(args, o, err)) return false;
    o->reference = pl_args_value(args, "reference");
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    o->map = pl_args_value(args, "map");
    o->export_map = pl_args_value(args, "export-map");
    o->keep_views = pl_args_flag(args, "keep-views");
    o->limits = pl_args_value(args, "limits");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    o->metric = pl_args_value(args, "metric");
    o->sort = pl_args_value(args, "sort");
    o->colour = o->format == NULL && isatty(STDOUT_FILENO);
    o->pack = pl_args_flag(args, "pack");
    o->plugins = pl_args_all(args, "plugin", &o->n_plugins);
    o->details = pl_args_all(args, "detail", &o->n_details);
    return (o->plugins != NULL && o->details != NULL) || pl_args_no_memory(err);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_compare_options options = { 0 };
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    pl_cli_spec spec = { 0 };
    char *text = NULL;
    char output[512];
    int code = 0;
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &err) || !pl_cli_backend(args, &spec, &err)) goto done;
    options.backend = spec.text;
    options.output = pl_args_value(args, "output");
    const bool no_session = pl_args_flag(args, "no-session");
    if (no_session && (options.output != NULL || pl_args_flag(args, "pack"))) {
        pl_args_fail(&err, PLUMB_E_USAGE, "--no-session with %s: there would be no session",
                     options.output != NULL ? "--output" : "--pack");
        goto done;
    }
    if (options.output == NULL && !no_session) {
        pl_cli_default_output(args->positional[0], "", output, sizeof(output));
        options.output = output;
    }
    bar = pl_cli_bar_new(&progress);
    options.progress = &progress;
    st = plumb_compare(args->positional[0], args->positional[1], &options, &code, &text, &err);
done:
    pl_cli_bar_free(bar);
    pl_cli_spec_release(&spec);
    pl_cli_inputs_release(&options.inputs);
    free((void *)(uintptr_t)options.plugins);
    free((void *)(uintptr_t)options.details);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, code);
}

static const pl_option options[] = {
    { 'o', "output", "DIR", "the session folder (default plumb-out/NAME-TIME)" },
    { 0, "no-session", NULL, "write no session" },
    { 0, "pack", NULL, "keep all tensors in the session, so that it stands for itself" },
    { 0, "profile", "NAME", "rule for values: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same() (profile torch)" },
    { 0, "tol", "X", "|a - r| <= X (|r| + rms(r)) for every element (default by precision)" },
    { 0, "metric", "NAME", "that colours and sorts (default psnr)" },
    { 0, "sort", "HOW", "worst (default) or order" },
    { 0, "limit", "N", "rows of the table (default 20, 0 = all)" },
    { 0, "format", "NAME", "json, csv, md, junit, github, sarif or model-explorer" },
    { 0, "map", "FILE", "which value of A is which of B" },
    { 0, "export-map", "FILE", "write what was paired, to be edited and used with --map" },
    { 0, "keep-views", NULL, "compare outputs of Reshape and the like, too" },
    { 0, "limits", "FILE", "colour limits by value, op type, dtype or precision" },
    { 0, "baseline", "FILE", "accepted divergences: only new ones fail" },
    { 0, "write-baseline", "FILE", "accept what diverges now" },
    { 0, "plugin", "FILE.so", "a library with metrics of its own (repeatable)" },
    { 0, "detail", "VALUE", "quantiles, argmax, top 5 and worst channels of it (repeatable)" },
    { 0, "reference", "SPEC", "backend of B when both are models (default eager)" },
    PL_OPTIONS_BACKEND,
    PL_OPTIONS_JIT,
    PL_OPTIONS_INPUTS,
    PL_OPTION_THREADS,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_compare = {
    .name = "compare",
    .usage = "A B [options]",
    .summary = "compare two recordings, or a model and a recording",
    .details =
        "A is under test, B the reference. Each is a recording (plumb's, safetensors, npz, a\n"
        "folder of npy files, Polygraphy JSON) or a model (.onnx, .onnxtxt), which is run on\n"
        "--backend with the inputs that the other side holds.\n"
        "Exit code: 0 agrees, 1 diverged, 2 bad usage, bad input or nothing could be paired,\n"
        "3 a backend failed, 4 disk or memory.",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
