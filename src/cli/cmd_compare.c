/* plumb compare A B: where two recordings diverge. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_compare;

static bool read_numbers(const pl_args *args, plumb_compare_options *o, plumb_inputs *inputs,
                         plumb_write_options *write, plumb_error *err) {
    long long limit = 0;
    plumb_compare_options_init(o);
    plumb_write_options_init(write);
    o->inputs = inputs;
    if (!pl_cli_inputs(args, inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "limit", 20, 0, 1000000000, &limit, err) ||
        !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &write->format, err))
        return false;
    write->limit = (size_t)limit;
    o->has_tol = pl_args_value(args, "tol") != NULL;
    return true;
}

static bool read_options(const pl_args *args, plumb_compare_options *o, plumb_inputs *inputs,
                         plumb_write_options *write, plumb_error *err) {
    if (!read_numbers(args, o, inputs, write, err)) return false;
    o->reference = pl_args_value(args, "reference");
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    o->map = pl_args_value(args, "map");
    o->weights = pl_args_value(args, "weights");
    o->export_map = pl_args_value(args, "export-map");
    o->keep_views = pl_args_flag(args, "keep-views");
    o->strict_pairs = pl_args_flag(args, "strict-pairs");
    o->limits = pl_args_value(args, "limits");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    o->metric = write->metric = pl_args_value(args, "metric");
    write->sort = pl_args_value(args, "sort");
    write->style = pl_cli_style();
    o->pack = pl_args_flag(args, "pack");
    o->stable_output = pl_args_flag(args, "stable-output");
    o->mpi = 1;
    if (!pl_cli_check_tasks(err)) return false;
    o->plugins = pl_args_all(args, "plugin", &o->n_plugins);
    o->details = pl_args_all(args, "detail", &o->n_details);
    return (o->plugins != NULL && o->details != NULL) || pl_args_no_memory(err);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_compare_options options;
    plumb_inputs inputs;
    plumb_write_options write;
    plumb_session *session = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    pl_cli_spec spec = { 0 };
    char *text = NULL;
    char output[512];
    int code = 0;
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &inputs, &write, &err) ||
        !pl_cli_backend(args, &spec, &err)) {
        goto done;
    }
    options.backend = spec.text;
    options.output = pl_args_value(args, "output");
    const bool no_session = pl_args_flag(args, "no-session");
    if (no_session && (options.output != NULL || pl_args_flag(args, "pack"))) {
        pl_args_fail(&err, PLUMB_E_USAGE, "%s requires a session; remove --no-session",
                     options.output != NULL ? "--output" : "--pack");
        goto done;
    }
    if (options.output == NULL && !no_session) {
        pl_cli_default_output(args->positional[0], "", output, sizeof(output));
        options.output = output;
    }
    bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    st = plumb_write_check(&write, &err);
    if (st == PLUMB_OK)
        st = plumb_compare(args->positional[0], args->positional[1], &options, &session, &err);
    if (st == PLUMB_OK && session == NULL) goto done; /* a rank of MPI other than 0 */
    if (st == PLUMB_OK) st = plumb_session_write(session, &write, &text, &err);
    code = plumb_session_exit_code(session);
done:
    pl_cli_bar_free(bar);
    plumb_session_free(session);
    pl_cli_spec_release(&spec);
    pl_cli_inputs_release(&inputs);
    free((void *)(uintptr_t)options.plugins);
    free((void *)(uintptr_t)options.details);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    if (text == NULL) return 0;
    code = pl_command_print_take(args, text, code);
    if (options.output == NULL || (write.format != NULL && strcmp(write.format, "text") != 0))
        return code;
    code = pl_command_print_line(args, code, "session", options.output);
    char next[2 * sizeof(output) + 100];
    const int n = snprintf(next, sizeof(next), "plumb view %s; plumb report %s -o report.html",
                           options.output, options.output);
    if (n < 0 || (size_t)n >= sizeof(next)) return code;
    return pl_command_print_line(args, code, "next", next);
}

static const pl_option options[] = {
    { 'o', "output", "DIR", "session directory (default plumb-out/NAME-TIME)" },
    { 0, "no-session", NULL, "do not write a session" },
    { 0, "pack", NULL, "copy all tensors and weights into the session" },
    { 0, "stable-output", NULL, "leave out dates, times and memory" },
    { 0, "profile", "NAME", "rule for values: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same() (requires --profile torch)" },
    { 0, "tol", "X", "|a - r| <= X (|r| + rms(r)) for every element (default by precision)" },
    { 0, "metric", "NAME", "metric used for colours and sorting (default psnr)" },
    { 0, "sort", "HOW", "worst (default) or order" },
    { 0, "limit", "N", "rows of the table (default 20, 0 = all)" },
    { 0, "format", "NAME", "json, csv, md, junit, github, sarif, model-explorer" },
    { 0, "map", "FILE", "map from values of A to values of B" },
    { 0, "export-map", "FILE", "write the pairs found, to edit and pass to --map" },
    { 0, "weights", "FILE.gguf", "run the model on the weights that the recorded engine had" },
    { 0, "keep-views", NULL, "also compare outputs of Reshape and other views" },
    { 0, "strict-pairs", NULL, "use only certain pairs, not likely ones" },
    { 0, "limits", "FILE", "colour limits by value, op type, dtype or precision" },
    { 0, "baseline", "FILE", "accepted divergences; only new ones fail" },
    { 0, "write-baseline", "FILE", "accept the current divergences and write them to FILE" },
    { 0, "plugin", "FILE.so", "load metrics from a shared library (repeatable)" },
    { 0, "detail", "VALUE",
      "quantiles, argmax, top 5 and worst channels of this value (repeatable)" },
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
    .details = "A is under test, B the reference. Each is a recording (plumb's, safetensors,\n"
               "npz, .pt, GGUF, a folder of npy files, Polygraphy JSON) or a model (.onnx,\n"
               ".onnxtxt), which is run on --backend with the inputs of the other side.\n"
               "Under mpirun or srun --mpi the ranks share the values of two recordings.\n"
               "Exit code: 0 agree, 1 diverged, 2 bad usage, bad input or nothing could be\n"
               "paired, 3 a backend failed, 4 disk or memory.",
    .examples = "  plumb compare mine.safetensors reference.safetensors\n"
                "  plumb compare mine.safetensors model.onnx\n"
                "  plumb compare a.npz b.npz --map map.json --format md\n",
    .options = options,
    .min_args = 2,
    .max_args = 2,
    .run = run,
};
