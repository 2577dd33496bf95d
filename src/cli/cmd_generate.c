/* plumb generate MODEL: many steps with state, and the first that goes wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

extern const pl_command pl_command_generate;

/* A file, or the ids themselves. */
static bool read_ids(const char *option, const char *text, int64_t **ids, size_t *n,
                     plumb_error *err) {
    plumb_error trouble = { 0 };
    if (text == NULL || plumb_ids_read(text, ids, n, &trouble) == PLUMB_OK) return true;
    return pl_args_fail(err, trouble.status, "--%s: %.900s", option, trouble.message);
}

typedef struct given {
    plumb_generate_options o;
    plumb_inputs inputs;
    plumb_write_options write;
    int64_t *prompt, *forced;
    size_t n_prompt, n_forced;
} given;

static bool read_options(const pl_args *args, given *g, plumb_error *err) {
    plumb_generate_options *o = &g->o;
    long long steps = 0, chunk = 0, save_step = 0;
    plumb_generate_options_init(o);
    pl_args_write(args, &g->write);
    o->inputs = &g->inputs;
    const char *force = pl_args_value(args, "force");
    const bool is_word = force == NULL || strcmp(force, "reference") == 0 ||
                         strcmp(force, "a") == 0 || strcmp(force, "none") == 0;
    if (!pl_cli_inputs(args, &g->inputs, err) ||
        !pl_cli_limits(args, &o->timeout, &o->memory_limit, &o->sandbox, err) ||
        !pl_cli_threads(args, &o->threads, err) ||
        !pl_args_int(args, "steps", 16, 0, 1000000, &steps, err) ||
        !pl_args_int(args, "chunk", 0, 0, 1000000000, &chunk, err) ||
        !pl_args_int(args, "save-step", -1, 0, 1000000, &save_step, err) ||
        !read_ids("prompt-ids", pl_args_value(args, "prompt-ids"), &g->prompt, &g->n_prompt, err) ||
        !read_ids("force", is_word ? NULL : force, &g->forced, &g->n_forced, err))
        return false;
    o->steps = steps;
    o->chunk = chunk;
    o->save_step = save_step;
    o->prompt = g->prompt;
    o->n_prompt = g->n_prompt;
    o->force = is_word ? force : NULL;
    o->forced = g->forced;
    o->n_forced = g->n_forced;
    if (g->n_forced > 0 && !pl_args_flag(args, "steps")) o->steps = (int64_t)g->n_forced;
    o->reference = pl_args_value(args, "reference");
    o->reference_model = pl_args_value(args, "reference-model");
    o->sample = pl_args_value(args, "sample");
    o->cache = pl_args_value(args, "cache");
    o->logits = pl_args_value(args, "logits");
    o->skip_analysis = pl_args_flag(args, "skip-analysis");
    o->save = pl_args_value(args, "save");
    o->self_test = pl_args_value(args, "self-test");
    o->states = pl_args_all(args, "state", &o->n_states);
    o->feeds = pl_args_all(args, "feed", &o->n_feeds);
    return (o->states != NULL && o->feeds != NULL) || pl_args_no_memory(err);
}

static void release(given *g) {
    plumb_free(g->prompt);
    plumb_free(g->forced);
    free((void *)(uintptr_t)g->o.states);
    free((void *)(uintptr_t)g->o.feeds);
    pl_cli_inputs_release(&g->inputs);
}

/* Where the result is, and what to type next. */
static void print_next(const plumb_generation *x, const char *output) {
    int64_t step = -1;
    plumb_generation_summary s = { .size = sizeof(s) };
    if (!plumb_generation_get(x, &s) || s.n_analyses == 0) return;
    (void)plumb_generation_session(x, 0, &step);
    if (s.first_divergent_step >= 0) step = s.first_divergent_step;
    printf("session: %s/step-%lld\nnext: plumb view %s/step-%lld\n", output, (long long)step,
           output, (long long)step);
}

static int run(const pl_args *args) {
    plumb_error err = { 0 };
    given g = { .o = { 0 } };
    plumb_generation *result = NULL;
    plumb_model *model = NULL;
    pl_cli_spec spec = { 0 };
    plumb_progress progress;
    pl_cli_bar *bar = NULL;
    char output[512], *text = NULL;
    plumb_generation_summary s = { .size = sizeof(s) };
    const bool explain = pl_args_flag(args, "explain-inputs");
    plumb_status st = PLUMB_E_USAGE;
    if (!read_options(args, &g, &err) || !pl_cli_backend(args, &spec, &err)) goto done;
    g.o.backend = spec.text;
    pl_cli_default_output(args->positional[0], "", output, sizeof(output));
    g.o.output = pl_args_value(args, "output");
    if (g.o.output == NULL) g.o.output = output;
    st = pl_args_open_model(args, args->positional[0], &model, &err);
    if (st != PLUMB_OK) goto done;
    st = PLUMB_E_USAGE;
    if (!pl_cli_check_faults(args, g.o.backend, model, &err)) goto done;
    bar = pl_cli_bar_of(args, &progress);
    g.o.progress = &progress;
    if (explain) {
        st = plumb_generate_explain(model, &g.o, pl_args_format(args), &text, &err);
        goto done;
    }
    st = plumb_generate(model, &g.o, &result, &err);
    if (st == PLUMB_OK) st = plumb_generation_write(result, &g.write, &text, &err);
    (void)plumb_generation_get(result, &s);
done:
    pl_cli_bar_free(bar);
    int code = st != PLUMB_OK ? pl_command_fail(args, &err)
                              : pl_command_print_take(args, text, explain ? 0 : s.exit_code);
    if (st == PLUMB_OK && !explain && pl_args_format(args) == PLUMB_TEXT)
        print_next(result, g.o.output);
    plumb_generation_free(result);
    plumb_model_close(model);
    pl_cli_spec_release(&spec);
    release(&g);
    return code;
}

static const pl_option options[] = {
    { 0, "prompt-ids", "IDS|FILE",
      "token ids of the prompt: 1,2,3 or a text file (default 4 ids)" },
    { 0, "steps", "N", "steps after the prompt (default 16)" },
    { 0, "reference", "SPEC|FILE", "the reference B: a backend (default eager) or a model" },
    { 0, "reference-model", "FILE", "run this model on --reference as B" },
    { 0, "force", "WHO|FILE",
      "who chooses tokens: reference (default), a, none (each side for itself), or ids from FILE" },
    { 0, "sample", "RULE",
      "how tokens are chosen: greedy (default), or temperature=T,top-k=K,top-p=P,seed=S" },
    { 0, "cache", "shared|own", "both sides get A's state (default), or each its own" },
    { 0, "chunk", "N", "tokens of the prompt in one step (default all)" },
    { 0, "state", "OUTPUT:INPUT", "output fed back to an input, '*' allowed (repeatable)" },
    { 0, "feed", "INPUT=RULE", "what an input gets; see --explain-inputs (repeatable)" },
    { 0, "logits", "NAME", "the output that holds the logits" },
    { 0, "explain-inputs", NULL, "print what each input gets, and stop" },
    { 0, "self-test", "NAMES",
      "no reference: check A against itself: all, prefill, chunks, batch, padding, cache, "
      "left-padding" },
    { 0, "skip-analysis", NULL, "compare outputs and state only" },
    { 0, "save-step", "N", "write A's inputs of this step to DIR/feed-N, for analyze and minify" },
    { 'o', "output", "DIR", "directory for the sessions (default plumb-out/NAME-TIME)" },
    { 0, "save", "WHAT", "tensors in the sessions: all, suspects (default) or none" },
    PL_OPTIONS_BACKEND,
    PL_OPTION_INJECT,
    PL_OPTIONS_INPUTS,
    PL_OPTION_THREADS,
    PL_OPTION_JSON,
    PL_OPTIONS_END,
};

const pl_command pl_command_generate = {
    .name = "generate",
    .usage = "MODEL --backend SPEC [options]",
    .summary = "find the first step of a decoder that goes wrong",
    .details = "Runs a model with state (KV cache, RNN state) over many steps on the backend\n"
               "under test and on a reference, compares logits and state at each step, and\n"
               "analyses the first step that differs, the one before it and the worst. Masks,\n"
               "positions, cache lengths and state are fed by rules (--explain-inputs).\n"
               "Exit code: 0 agree, 1 diverged, 2 bad usage, bad input or nothing to say,\n"
               "3 a backend failed, 4 disk or memory.",
    .examples = "  plumb generate model.onnx --backend ort --prompt-ids 1,15043,3186\n"
                "  plumb generate bad.onnx --backend ort --reference good.onnx --force ids.txt\n"
                "  plumb generate model.onnx --backend ort --self-test all\n",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
