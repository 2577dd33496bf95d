/* plumb minify MODEL: the smallest model that still fails. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"

extern const pl_command pl_command_minify;

static void print_line(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "%s\n", line);
}

typedef struct given { /* data behind the options */
    plumb_inputs inputs;
    plumb_context context;
} given;

static bool read_options(const pl_args *args, plumb_minify_options *o, given *g, plumb_error *err) {
    long long queries = 0, code = 0, jobs = 0;
    plumb_minify_options_init(o);
    o->inputs = &g->inputs;
    o->context = &g->context;
    if (!pl_cli_inputs(args, &g->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_context(args, &g->context, err) || !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "jobs", 0, 1, 4096, &jobs, err) ||
        !pl_args_int(args, "max-queries", 0, 0, INT64_MAX, &queries, err) ||
        !pl_args_int(args, "fail-code", -1, 0, 255, &code, err) ||
        !pl_args_double(args, "max-time", 0, &o->max_time, err)) {
        return false;
    }
    o->jobs = (int)jobs;
    o->max_queries = (size_t)queries;
    o->fail_code = (int)code;
    o->check = pl_args_value(args, "check");
    o->fail_regex = pl_args_value(args, "fail-regex");
    o->check_str = pl_args_value(args, "check-str");
    o->signature = pl_args_value(args, "signature");
    o->checkpoints = pl_args_value(args, "checkpoints");
    o->good = pl_args_value(args, "good");
    o->accuracy = pl_args_flag(args, "accuracy");
    o->strict = pl_args_flag(args, "strict-accuracy");
    o->profile = pl_args_value(args, "profile");
    o->same = pl_args_value(args, "same");
    if (!pl_args_double(args, "tol", 0, &o->tol, err)) return false;
    if (!o->accuracy && (o->profile != NULL || o->same != NULL || o->tol > 0)) {
        return pl_args_fail(err, PLUMB_E_USAGE, "--profile, --same and --tol require --accuracy");
    }
    if (o->same != NULL && (o->profile == NULL || strcmp(o->profile, "torch") != 0)) {
        return pl_args_fail(err, PLUMB_E_USAGE, "--same requires --profile torch");
    }
    o->strip_weights = pl_args_flag(args, "strip-weights");
    o->stable_output = pl_args_flag(args, "stable-output");
    o->zip = pl_args_flag(args, "zip");
    o->pack = pl_args_flag(args, "pack");
    o->bisect = pl_args_flag(args, "bisect");
    o->keep_other = pl_args_flag(args, "keep-other");
    o->trust = pl_args_flag(args, "trust");
    o->output = pl_args_value(args, "output");
    if (!pl_args_flag(args, "quiet")) o->log = print_line;
    return true;
}

/* The smallest checkpoint, DIR/NODES[-k], the newest of equals; *out is empty when a run was
 * stopped before its first. */
static bool find_checkpoint(const char *dir, char *out, size_t n_out, plumb_error *err) {
    long best = -1, best_k = -1;
    DIR *stream = opendir(dir);
    const struct dirent *entry;
    out[0] = '\0';
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        char *end = NULL;
        const long nodes = strtol(entry->d_name, &end, 10);
        const long k = *end == '-' ? strtol(end + 1, &end, 10) : 0;
        if (end == entry->d_name || *end != '\0' || nodes < 1) continue;
        if (best >= 0 && (nodes > best || (nodes == best && k < best_k))) continue;
        best = nodes;
        best_k = k;
        snprintf(out, n_out, "%s/%s", dir, entry->d_name);
    }
    if (stream == NULL)
        return pl_args_fail(err, PLUMB_E_NOT_FOUND, "no checkpoint found in '%.500s'", dir);
    closedir(stream);
    return true;
}

static int run_model(const pl_args *args) {
    plumb_error err = { 0 };
    plumb_minify_options options;
    plumb_write_options write;
    given g;
    plumb_repro *repro = NULL;
    plumb_repro_summary found = { .size = sizeof(found) };
    plumb_model *model = NULL;
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    pl_cli_spec spec = { 0 };
    char *text = NULL;
    char output[4096], signature[4096];
    const bool query = pl_args_flag(args, "query");
    plumb_status st = PLUMB_E_USAGE;
    pl_args_write(args, &write);
    if (!read_options(args, &options, &g, &err)) goto done;
    if (!pl_cli_backend(args, &spec, &err)) goto done;
    options.backend = spec.text;
    snprintf(signature, sizeof(signature), "%s/repro.json", args->positional[0]);
    if (options.signature == NULL && access(signature, R_OK) == 0) options.signature = signature;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    if (!(query && options.signature != NULL) &&
        !pl_cli_check_faults(args, options.backend, model, &err)) {
        st = PLUMB_E_USAGE;
        goto done;
    }
    bar = pl_cli_bar_of(args, &progress);
    options.progress = &progress;
    if (query) {
        options.log = NULL;
        st = plumb_minify_query(model, &options, &repro, &err);
    } else {
        if (options.output == NULL) {
            pl_cli_default_output(args->positional[0], "", output, sizeof(output));
            options.output = output;
        }
        st = plumb_minify(model, &options, &repro, &err);
    }
    if (st == PLUMB_OK) st = plumb_repro_write(repro, &write, &text, &err);
    (void)plumb_repro_get(repro, &found);
done:
    plumb_repro_free(repro);
    pl_cli_bar_free(bar);
    plumb_model_close(model);
    pl_cli_spec_release(&spec);
    pl_cli_inputs_release(&g.inputs);
    if (st != PLUMB_OK) return pl_command_fail(args, &err);
    return pl_command_print_take(args, text, query && found.fails ? 1 : 0);
}

static int run(const pl_args *args) {
    char checkpoint[4096];
    const char *const resumed[] = { checkpoint };
    plumb_error err = { 0 };
    pl_args now = *args;
    const char *dir = pl_args_value(args, "resume");
    if (dir == NULL) return run_model(args);
    if (!find_checkpoint(dir, checkpoint, sizeof(checkpoint), &err)) {
        return pl_command_fail(args, &err);
    }
    if (checkpoint[0] == '\0') return run_model(args); /* from the beginning */
    now.positional = resumed; /* a checkpoint is a repro: model, inputs and signature */
    return run_model(&now);
}

static const pl_option options[] = {
    PL_OPTIONS_BACKEND,
    PL_OPTIONS_JIT,
    { 0, "check", "COMMAND",
      "your own check; a non-zero exit means failure ({model} or {dir} is replaced)" },
    { 0, "fail-code", "N", "with --check: only this exit code means failure" },
    { 0, "fail-regex", "RE", "with --check: matching output means failure" },
    { 0, "check-str", "TEXT", "text that the error message must contain" },
    { 0, "accuracy", NULL, "an output must fail the test of run --accuracy" },
    { 0, "strict-accuracy", NULL, "blame the first culprit even if it changes no output" },
    { 0, "profile", "NAME", "with --accuracy: rule plumb (default) or torch" },
    { 0, "same", "KEY=VALUE,…", "with --accuracy: options of PyTorch's same()" },
    { 0, "tol", "X", "with --accuracy: |a - r| <= X (|r| + rms) instead of the fp64 run" },
    { 0, "eval", NULL, "switch off training behaviour (implied by --accuracy)" },
    { 0, "no-eval", NULL, "keep training behaviour with --accuracy" },
    { 0, "amp", "TYPE", "minify the model under autocast: fp16 or bf16" },
    { 0, "backward", NULL, "minify the graph with gradients" },
    { 0, "loss-output", "NAME", "backward: the only output in the loss" },
    { 0, "grad-seed", "N", "backward: random output gradients" },
    { 0, "signature", "FILE", "look for the failure in this repro.json" },
    { 0, "trust", NULL, "allow the command, program or library named in repro.json" },
    { 0, "query", NULL, "only test whether it fails: exit code 1 yes, 0 no" },
    { 'j', "jobs", "N", "try N candidates in parallel (default: one per CPU)" },
    { 0, "max-queries", "N", "stop after N distinct candidates" },
    { 0, "max-time", "SECONDS", "stop after this time" },
    { 0, "checkpoints", "DIR", "directory for the best model after each step" },
    { 0, "resume", "DIR", "continue from the smallest checkpoint in DIR" },
    { 0, "good", "DIR", "also write the nearest model that passes" },
    { 0, "keep-other", NULL, "keep models that showed another failure" },
    { 0, "strip-weights", NULL, "replace weights that the failure does not need" },
    { 0, "bisect", NULL, "name the optimisation level or pass that causes it, in the repro too" },
    { 0, "stable-output", NULL, "leave out versions, CPU and times" },
    { 0, "pack", NULL, "copy weights above 256 MB into the repro, too (else it names their file)" },
    { 0, "zip", NULL, "also pack the repro into one file" },
    { 'o', "output", "DIR", "repro directory (default plumb-out/NAME-TIME)" },
    { 'q', "quiet", NULL, "do not print the log of strategies" },
    PL_OPTIONS_INPUTS,
    PL_OPTION_THREADS,
    PL_OPTIONS_PART,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_minify = {
    .name = "minify",
    .usage = "MODEL (--backend SPEC | --check COMMAND) [options]",
    .summary = "shrink a failing model; write a repro",
    .details = "Finds the smallest model that still fails in the same way, and writes it as a\n"
               "folder that anybody can run. The test is a backend against plumb's own\nreference, "
               "or your own command.\n"
               "Exit code: 0 the repro is written and verified, 2 bad usage, bad input, or a\n"
               "model that does not fail, 3 a backend failed, 4 disk or memory.",
    .examples = "  plumb minify model.onnx --backend ort -o repro\n"
                "  plumb minify model.onnx --backend ort --accuracy\n"
                "  plumb minify model.onnx --check './check.sh {model}'\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
