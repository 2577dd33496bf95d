/* plumb analyze MODEL: which operation is to blame. */
#include <stdio.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_analyze;

static bool read_options(const pl_args *args, plumb_analyze_options *o, plumb_error *err) {
    long long limit = 0;
    if (!pl_cli_inputs(args, &o->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "limit", 20, 0, 1000000000, &limit, err) ||
        !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &o->format, err)) {
        return false;
    }
    o->limit = (size_t)limit;
    o->reference = pl_args_value(args, "reference");
    o->reference_model = pl_args_value(args, "reference-model");
    o->save = pl_args_value(args, "save");
    o->reuse = pl_args_value(args, "reuse");
    o->skip_determinism = pl_args_flag(args, "skip-determinism");
    o->skip_gold = pl_args_flag(args, "skip-gold");
    o->skip_search = pl_args_flag(args, "skip-search");
    o->rollup = pl_args_value(args, "by");
    o->map = pl_args_value(args, "map");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    o->bisect = pl_args_flag(args, "bisect");
    o->amp = pl_args_value(args, "amp");
    o->advise_out = pl_args_value(args, "advise-out");
    o->advise = pl_args_flag(args, "advise") || o->advise_out != NULL;
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    o->metric = pl_args_value(args, "metric");
    o->colour = o->format == NULL && isatty(STDOUT_FILENO);
    return true;
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_analyze_options options = { 0 };
    pl_cli_spec spec = { 0 };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    int code = 0;
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &err) || !pl_cli_backend(args, &spec, &err) ||
        !pl_cli_repro_read(args, 2, &repro, &err) ||
        !pl_cli_repro_context(args, &options.inputs, &options.threads, &err)) {
        goto done;
    }
    options.backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    options.output = pl_args_value(args, "output");
    if (options.output == NULL) options.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    pl_cli_warn_faults(args, options.backend, model);
    bar = pl_cli_bar_new(&progress);
    options.progress = &progress;
    pl_cli_repro_before(&repro, args, model, &options.inputs, options.backend);
    st = plumb_analyze(model, &options, &code, &text, &err);
done:
    pl_cli_bar_free(bar);
    /* That A or B failed is a result of an analysis. */
    if (st == PLUMB_OK && code == 3) err.status = PLUMB_E_BACKEND;
    const bool failed = st != PLUMB_OK || code == 3, wrong = st == PLUMB_OK && code == 1;
    code = st != PLUMB_OK ? pl_command_fail(args, &err) : pl_command_print_take(args, text, code);
    if (failed || wrong) {
        pl_cli_repro_after(&repro, args, model, &options.inputs, options.backend, &err, wrong);
    }
    plumb_model_close(model);
    pl_cli_spec_release(&spec);
    pl_cli_inputs_release(&options.inputs);
    return code;
}

static const pl_option options[] = {
    { 0, "reference", "SPEC|FILE", "B: a backend (default eager), a recording, or a model" },
    { 0, "reference-model", "FILE", "another model for B, run on --reference" },
    { 'o', "output", "DIR", "the session folder (default plumb-out/NAME-TIME)" },
    { 0, "save", "WHAT", "tensors in the session: all (default below 2 GB), suspects or none" },
    PL_OPTIONS_BACKEND,
    PL_OPTION_INJECT,
    PL_OPTIONS_INPUTS,
    { 0, "reuse", "DIR", "take A from this session instead of running it" },
    { 0, "skip-determinism", NULL, "do not check that A, B and gold repeat themselves" },
    { 0, "skip-gold", NULL, "no fp64 run: no propagated error, no effect on the outputs" },
    { 0, "skip-search", NULL, "do not run parts of the model to find what fails or hides" },
    { 0, "bisect", NULL, "also find the level, optimiser or pass that does it" },
    { 0, "amp", "TYPE", "analyze the model under autocast: fp16 or bf16" },
    { 0, "advise", NULL, "also find the fewest fp16, bf16 or int8 nodes to raise to float32" },
    { 0, "advise-out", "FILE", "write the model with these nodes raised (implies --advise)" },
    { 0, "profile", "NAME", "rule for outputs: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same()" },
    { 0, "tol", "X", "how far an output may be off without a culprit (default 1e-4 of its size)" },
    { 0, "metric", "NAME", "that colours and sorts (default psnr)" },
    { 0, "limit", "N", "rows of the table (default 20, 0 = all)" },
    { 0, "map", "FILE", "which value of A is which of a recording or another model" },
    { 0, "baseline", "FILE", "accepted divergences: only new ones fail" },
    { 0, "write-baseline", "FILE", "accept what diverges now" },
    { 0, "by", "KEY", "roll up by module, op or dtype after the table" },
    { 0, "format", "NAME", "json, csv, md, junit, github, sarif or model-explorer" },
    PL_OPTIONS_REPRO,
    PL_OPTION_DEBUG_DIR,
    PL_OPTION_THREADS,
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_analyze = {
    .name = "analyze",
    .usage = "MODEL --backend SPEC [options]",
    .summary = "find the operation that is to blame",
    .details = "Runs MODEL on the backend under test and on a reference, records every value that "
               "the\n"
               "backend materialises, replays each one in fp64 on the backend's own values, and\n"
               "names the operations that are further off than rounding can explain.\n"
               "Exit code: 0 agrees, 1 diverged or non-deterministic, 2 bad usage or bad input,\n"
               "3 a backend failed, 4 disk or memory.",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
