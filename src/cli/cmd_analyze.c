/* plumb analyze MODEL: which operation is to blame. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_analyze;

static bool read_options(const pl_args *args, plumb_analyze_options *o, plumb_inputs *inputs,
                         plumb_write_options *write, plumb_error *err) {
    long long limit = 0;
    plumb_analyze_options_init(o);
    plumb_write_options_init(write);
    o->inputs = inputs;
    if (!pl_cli_inputs(args, inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "limit", 20, 0, 1000000000, &limit, err) ||
        !pl_args_double(args, "tol", 0, &o->tol, err) ||
        !pl_args_format_name(args, &write->format, err)) {
        return false;
    }
    write->limit = (size_t)limit;
    o->reference = pl_args_value(args, "reference");
    o->reference_model = pl_args_value(args, "reference-model");
    o->save = pl_args_value(args, "save");
    o->reuse = pl_args_value(args, "reuse");
    o->skip_determinism = pl_args_flag(args, "skip-determinism");
    o->skip_gold = pl_args_flag(args, "skip-gold");
    o->skip_search = pl_args_flag(args, "skip-search");
    o->pack = pl_args_flag(args, "pack");
    write->rollup = pl_args_value(args, "by");
    o->map = pl_args_value(args, "map");
    o->baseline = pl_args_value(args, "baseline");
    o->write_baseline = pl_args_value(args, "write-baseline");
    o->bisect = pl_args_flag(args, "bisect");
    o->amp = pl_args_value(args, "amp");
    o->advise_out = pl_args_value(args, "advise-out");
    o->advise_metric = pl_args_value(args, "advise-metric");
    o->advise = pl_args_flag(args, "advise") || o->advise_out != NULL || o->advise_metric != NULL;
    o->profile = pl_args_value(args, "profile");
    o->precision_profile = pl_args_value(args, "precision-profile");
    o->same = pl_args_value(args, "same");
    if (o->same != NULL && (o->profile == NULL || strcmp(o->profile, "torch") != 0))
        return pl_args_fail(err, PLUMB_E_USAGE, "--same requires --profile torch");
    o->metric = write->metric = pl_args_value(args, "metric");
    write->style = pl_cli_style();
    return true;
}

static void print_word(const char *word, FILE *to) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, to);
        return;
    }
    putc('\'', to);
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            fputs("'\\''", to);
        } else {
            putc(*word, to);
        }
    }
    putc('\'', to);
}

/* Includes the options that the failure may depend on. */
static void print_minify(const pl_args *args, FILE *to) {
    static const char *const kept[] = { "backend", "inject", "input",   "inputs",  "seed",
                                        "range",   "fill",   "dim",     "amp",     "function",
                                        "from",    "to",     "timeout", "threads", "memory-limit",
                                        "sandbox", "bisect" };
    fputs("; plumb minify ", to);
    print_word(args->positional[0], to);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        const char *value;
        for (size_t k = 0; (value = pl_args_nth(args, kept[i], k)) != NULL; k++) {
            fprintf(to, " --%s%s", kept[i], value[0] == '\0' ? "" : " ");
            if (value[0] != '\0') print_word(value, to);
        }
    }
}

/* The runtime computes what the model says: minify would find nothing that fails. */
static bool is_by_model(const plumb_session *session) {
    plumb_session_summary s = { .size = sizeof s };
    return session != NULL && plumb_session_get(session, &s) && strcmp(s.at_fault, "model") == 0;
}

/* Prints the session's path and the next commands; on standard error if standard output is a
 * document. */
static void print_next(const pl_args *args, const char *session, bool runtime_fails,
                       bool document) {
    FILE *to = document ? stderr : stdout;
    if (document && pl_args_flag(args, "quiet")) return;
    fprintf(to, "session: %s\nnext: plumb view ", session);
    print_word(session, to);
    fputs("; plumb report ", to);
    print_word(session, to);
    fputs(" -o report.html", to);
    if (runtime_fails) print_minify(args, to);
    putc('\n', to);
}

static bool is_document(const plumb_write_options *write) {
    return write->format != NULL && strcmp(write->format, "text") != 0;
}

/* ---- several backends ---- */

enum { BACKENDS_MAX = 64 };

static size_t read_backends(const pl_args *args, const char **out) {
    size_t n = 0;
    const char *spec;
    while (n < BACKENDS_MAX && (spec = pl_args_nth(args, "backend", n)) != NULL)
        out[n++] = spec;
    return n;
}

/* Options that make sense only for one backend. */
static bool check_many(const pl_args *args, plumb_error *err) {
    static const char *const single[] = { "inject",     "debug-dir",      "reuse",
                                          "baseline",   "bisect",         "advise",
                                          "advise-out", "write-baseline", "by" };
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++)
        if (pl_args_nth(args, single[i], 0) != NULL || pl_args_flag(args, single[i]))
            return pl_args_fail(err, PLUMB_E_USAGE, "--%s requires a single --backend", single[i]);
    return true;
}

static void print_next_many(const pl_args *args, const char *output, size_t n, bool document) {
    FILE *to = document ? stderr : stdout;
    if (document && pl_args_flag(args, "quiet")) return;
    fprintf(to, "sessions: %s/1 to %s/%zu; table: %s/many.json\nnext: plumb view ", output, output,
            n, output);
    for (size_t i = 0; i < 2; i++) {
        char first[512];
        snprintf(first, sizeof(first), "%s/1", output);
        print_word(first, to);
        fputs(i == 0 ? "; plumb report " : " -o report.html\n", to);
    }
}

static int run_many(const pl_args *args, const char *const *backends, size_t n) {
    plumb_error err = { 0 };
    plumb_analyze_options options;
    plumb_inputs inputs;
    plumb_write_options write;
    plumb_session *sessions[BACKENDS_MAX] = { NULL };
    const plumb_session *const *const read = (const plumb_session *const *)sessions;
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &inputs, &write, &err) || !check_many(args, &err)) goto done;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    options.output = pl_args_value(args, "output");
    if (options.output == NULL) options.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    st = plumb_write_check(&write, &err);
    if (st == PLUMB_OK) st = plumb_analyze_many(model, &options, backends, n, sessions, &err);
    if (st == PLUMB_OK) st = plumb_sessions_write(read, n, &write, &text, &err);
done:
    pl_cli_bar_free(bar);
    const int code = st != PLUMB_OK
                         ? pl_command_fail(args, &err)
                         : pl_command_print_take(args, text, plumb_sessions_exit_code(read, n));
    if (st == PLUMB_OK) print_next_many(args, options.output, n, is_document(&write));
    for (size_t i = 0; i < n; i++)
        plumb_session_free(sessions[i]);
    plumb_model_close(model);
    pl_cli_inputs_release(&inputs);
    return code;
}

static int run_one(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_analyze_options options;
    plumb_inputs inputs;
    plumb_write_options write;
    plumb_session *session = NULL;
    pl_cli_spec spec = { 0 };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    char *text = NULL;
    char output[512];
    int code = 0;
    pl_cli_repro repro = { 0 };
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &options, &inputs, &write, &err) ||
        !pl_cli_backend(args, &spec, &err) || !pl_cli_repro_read(args, 2, &repro, &err) ||
        !pl_cli_repro_context(args, &inputs, &options.threads, &err)) {
        goto done;
    }
    options.backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    options.output = pl_args_value(args, "output");
    if (options.output == NULL) options.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    st = PLUMB_E_USAGE;
    if (!pl_cli_check_faults(args, options.backend, model, &err)) goto done;
    bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    pl_cli_repro_before(&repro, args, model, &inputs, options.backend);
    st = plumb_write_check(&write, &err);
    if (st == PLUMB_OK) st = plumb_analyze(model, &options, &session, &err);
    if (st == PLUMB_OK) st = plumb_session_write(session, &write, &text, &err);
    code = plumb_session_exit_code(session);
done:
    pl_cli_bar_free(bar);
    const bool by_model = is_by_model(session);
    plumb_session_free(session);
    /* A failure of A or B is a result of the analysis. */
    if (st == PLUMB_OK && code == 3) err.status = PLUMB_E_BACKEND;
    const bool failed = st != PLUMB_OK || code == 3, wrong = st == PLUMB_OK && code == 1;
    code = st != PLUMB_OK ? pl_command_fail(args, &err) : pl_command_print_take(args, text, code);
    if (st == PLUMB_OK)
        print_next(args, options.output, failed || (wrong && !by_model), is_document(&write));
    if (failed || wrong) {
        pl_cli_repro_after(&repro, args, model, &inputs, options.backend, &err, wrong);
    }
    plumb_model_close(model);
    pl_cli_spec_release(&spec);
    pl_cli_inputs_release(&inputs);
    return code;
}

static int run(const pl_args *args) {
    const char *backends[BACKENDS_MAX];
    const size_t n = read_backends(args, backends);
    return n > 1 ? run_many(args, backends, n) : run_one(args);
}

static const pl_option options[] = {
    { 0, "reference", "SPEC|FILE",
      "the reference B: a backend (default eager), a recording or a model" },
    { 0, "reference-model", "FILE", "run this model on --reference as B" },
    { 'o', "output", "DIR", "session directory (default plumb-out/NAME-TIME)" },
    { 0, "save", "WHAT", "tensors to save: all (default below 2 GB), suspects or none" },
    { 0, "pack", NULL, "copy large weights into the session (else it names their file)" },
    PL_OPTIONS_BACKEND,
    PL_OPTION_INJECT,
    PL_OPTIONS_INPUTS,
    { 0, "reuse", "DIR", "take A from this session instead of running it" },
    { 0, "skip-determinism", NULL, "do not check that A, B and the fp64 run are deterministic" },
    { 0, "skip-gold", NULL, "skip the fp64 run: no propagated error, no effect on the outputs" },
    { 0, "skip-search", NULL, "do not run parts of the model to locate a failure" },
    { 0, "bisect", NULL, "also find the optimisation level or pass that causes it" },
    { 0, "amp", "TYPE", "analyze the model under autocast: fp16 or bf16" },
    { 0, "advise", NULL,
      "also find the fewest fp16 or bf16 nodes, or int8 layers, that need float32" },
    { 0, "advise-out", "FILE", "write the model with these in float32 (implies --advise)" },
    { 0, "advise-metric", "NAME",
      "choose int8 layers by top1 (agreement with the float model) or metric (default)" },
    { 0, "profile", "NAME", "rule for outputs: plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "options of PyTorch's same()" },
    { 0, "precision-profile", "NAME",
      "what A's arithmetic may do: ieee, wgsl, wgsl-f16, f16-storage (default: by A's device)" },
    { 0, "tol", "X",
      "tolerance for outputs when no operation is to blame (default 1e-4 of their size)" },
    { 0, "metric", "NAME", "metric used for colours and sorting (default psnr)" },
    { 0, "limit", "N", "rows of the table (default 20, 0 = all)" },
    { 0, "map", "FILE", "map from values of A to those of a recording or another model" },
    { 0, "baseline", "FILE", "accepted divergences; only new ones fail" },
    { 0, "write-baseline", "FILE", "accept the current divergences and write them to FILE" },
    { 0, "by", "KEY", "also group the table by module, op or dtype" },
    { 0, "format", "NAME", "json, csv, md, junit, github, sarif, model-explorer" },
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
    .summary = "find the operation to blame",
    .details =
        "Runs MODEL on the backend under test and on a reference, records every value\nthat "
        "the backend materialises, replays each one in fp64 on the backend's own\nvalues, "
        "and names the operations whose error is larger than rounding can\nexplain. --backend "
        "may be given several times: one table, a column for each.\nExit "
        "code: 0 agree, 1 diverged or non-deterministic, 2 bad usage or bad input,\n3 a "
        "backend failed, 4 disk or memory.",
    .examples = "  plumb analyze model.onnx --backend ort --bisect -o session\n"
                "  plumb analyze int8.onnx --backend ort --reference float.onnx\n"
                "  plumb analyze model.onnx --backend ort --backend ort:providers=WebGPU\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
