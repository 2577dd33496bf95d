/* The generate flow: sides, steps, and the pass over them. */
#include "flows/steps/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/rng.h"
#include "base/size.h"
#include "flows/check/accuracy.h"
#include "flows/inputs.h"
#include "flows/outputs.h"
#include "flows/prepare.h"
#include "flows/two_sides.h"

enum { DEFAULT_PROMPT = 4, MAX_STEPS = 1000000, MAX_PROMPT = 10000000 };

void pl_steps_drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

/* ---- sides ---- */

/* Compiles for any shape if the backend can: every step has different shapes. */
static char *spec_for_steps(const char *spec) {
    size_t n;
    const char *name = pl_spec_name(spec, &n);
    for (size_t i = 0; pl_backend_rows[i] != NULL; i++) {
        const plumb_backend *row = pl_backend_rows[i];
        if (strlen(row->name) != n || strncmp(row->name, name, n) != 0) continue;
        for (size_t k = 0; k < row->n_options; k++) {
            if (strcmp(row->options[k].key, "shapes") != 0 || strstr(spec, "shapes=") != NULL)
                continue;
            pl_buf text = PL_BUF_INIT;
            pl_buf_printf(&text, "%s%sshapes=symbolic", spec, spec[n] == ':' ? "," : ":");
            return pl_buf_take(&text);
        }
    }
    return pl_strdup(spec);
}

static pl_status side_open(const pl_steps *s, pl_steps_side *side, bool record, pl_err *err) {
    const plumb_generate_options *o = s->o;
    const pl_graph *g = side->model->graph;
    pl_backend_options backend = pl_backend_options_for(side->spec, o->timeout, o->memory_limit);
    backend.progress = o->progress;
    backend.sandbox = o->sandbox;
    backend.readable = &side->file;
    backend.n_readable = 1;
    const pl_compile_options compile = { .file = side->file,
                                         .seed = o->inputs->seed,
                                         .threads = o->threads,
                                         .any_shape = true,
                                         .record = record };
    side->state = pl_calloc(g->n_inputs + 1, sizeof(*side->state));
    side->in = pl_calloc(g->n_inputs + 1, sizeof(*side->in));
    side->out = pl_calloc(g->n_outputs + 1, sizeof(*side->out));
    if (side->state == NULL || side->in == NULL || side->out == NULL)
        return pl_fail_memory(err, g->n_inputs);
    PL_TRY(pl_backend_open(side->spec, &backend, &side->backend, err));
    return pl_program_new(side->backend, side->model, &compile, &side->program, err);
}

static void side_release(pl_steps_side *side) {
    if (side->model != NULL) {
        pl_side_drop_state(side);
        pl_steps_drop(side->in, side->model->graph->n_inputs);
        pl_steps_drop(side->out, side->model->graph->n_outputs);
    }
    pl_free(side->state);
    pl_free(side->in);
    pl_free(side->out);
    pl_program_free(side->program);
    pl_backend_close(side->backend);
    pl_feed_release(&side->feed);
    pl_free(side->spec);
    *side = (pl_steps_side){ 0 };
}

pl_status pl_side_step(pl_steps_side *side, const pl_feed_window *w, size_t step,
                       pl_datum *const *state, pl_err *err) {
    const pl_graph *g = side->model->graph;
    pl_steps_drop(side->in, g->n_inputs);
    pl_steps_drop(side->out, g->n_outputs);
    PL_TRY(pl_feed_make(&side->feed, w, step, state, side->in, err));
    const pl_status st = pl_program_run(side->program, side->in, side->out, err);
    return st == PL_OK ? PL_OK : pl_err_wrap(err, st, "step %zu", step);
}

void pl_side_keep_state(pl_steps_side *side) {
    for (size_t i = 0; i < side->model->graph->n_inputs; i++) {
        const size_t from = side->feed.in[i].state;
        if (from == SIZE_MAX || side->out[from] == NULL) continue;
        pl_datum_unref(side->state[i]);
        side->state[i] = pl_datum_ref(side->out[from]);
    }
}

void pl_side_drop_state(pl_steps_side *side) {
    pl_steps_drop(side->state, side->model->graph->n_inputs);
}

/* ---- prepare ---- */

static pl_status open_reference(pl_steps *s, const char **spec, pl_err *err) {
    const plumb_generate_options *o = s->o;
    const char *path = o->reference_model;
    plumb_error trouble = { PLUMB_OK, "" };
    *spec = pl_backend_spec_or_default(o->reference);
    if (o->reference != NULL && (pl_path_has_suffix(o->reference, ".onnx") ||
                                 pl_path_has_suffix(o->reference, ".onnxtxt"))) {
        path = path == NULL ? o->reference : path;
        *spec = "eager";
    }
    if (path == NULL) return PL_OK;
    if (plumb_model_open(path, &s->reference_model, &trouble) != PLUMB_OK)
        return pl_fail(err, trouble.status, "%s", trouble.message);
    return pl_make_ready(s->reference_model->model, PL_READY_TYPED, &s->reference_model->edited,
                         err);
}

static pl_status match_sides(pl_steps *s, pl_err *err) {
    const pl_graph *a = s->a.model->graph, *b = s->b.model->graph;
    s->state_of_b = pl_calloc(b->n_inputs + 1, sizeof(size_t));
    s->output_of_b = pl_calloc(a->n_outputs + 1, sizeof(size_t));
    if (s->state_of_b == NULL || s->output_of_b == NULL) return pl_fail_memory(err, b->n_inputs);
    for (size_t i = 0; i < b->n_inputs; i++) {
        const size_t k = pl_ports_match(b->inputs, b->n_inputs, i, a->inputs, a->n_inputs);
        const bool is_state = s->b.feed.in[i].state != SIZE_MAX;
        s->state_of_b[i] = k != SIZE_MAX && s->a.feed.in[k].state != SIZE_MAX ? k : SIZE_MAX;
        if (is_state && s->state_of_b[i] == SIZE_MAX && s->shared)
            return pl_fail(
                err, PL_E_INVALID,
                "state '%s' of the reference has no counterpart; set option 'cache' to own",
                b->inputs[i]->name);
    }
    size_t n = 0;
    for (size_t i = 0; i < a->n_outputs; i++) {
        s->output_of_b[i] = pl_ports_match(a->outputs, a->n_outputs, i, b->outputs, b->n_outputs);
        n += s->output_of_b[i] != SIZE_MAX;
    }
    const size_t logits = s->a.feed.logits;
    if (n > 0 && (logits == SIZE_MAX || s->output_of_b[logits] != SIZE_MAX)) return PL_OK;
    return pl_fail(err, PL_E_INVALID,
                   "output '%s' has no counterpart in the reference, which has %s: rename it, "
                   "or name the output to compare with option 'logits'",
                   a->n_outputs == 0 ? "" : a->outputs[logits == SIZE_MAX ? 0 : logits]->name,
                   b->n_outputs == 0 ? "no output" : b->outputs[0]->name);
}

/* Small ids, which every vocabulary has; no two equal in a row. */
static void make_prompt(pl_steps *s) {
    for (size_t i = 0; i < s->n_prompt; i++)
        s->tokens[i] = s->o->prompt != NULL
                           ? s->o->prompt[i]
                           : 1 + (int64_t)(pl_rng_at(s->o->inputs->seed, 0, i) % 7);
}

static pl_status make_tables(pl_steps *s, pl_err *err) {
    const plumb_generate_options *o = s->o;
    if (o->steps < 0 || o->steps > MAX_STEPS || o->n_prompt > MAX_PROMPT || o->chunk < 0)
        return pl_fail(
            err, PL_E_USAGE, "%lld steps after %zu tokens in chunks of %lld; at most %d and %d",
            (long long)o->steps, o->n_prompt, (long long)o->chunk, MAX_STEPS, MAX_PROMPT);
    const bool spoken = s->a.feed.n_tokens > 0;
    s->n_prompt = !spoken ? 0 : o->prompt == NULL ? DEFAULT_PROMPT : o->n_prompt;
    if (spoken && s->n_prompt == 0) return pl_fail(err, PL_E_USAGE, "the prompt is empty");
    for (size_t i = 0; spoken && o->prompt != NULL && i < o->n_prompt; i++)
        if (o->prompt[i] < 0)
            return pl_fail(err, PL_E_USAGE, "token %lld of the prompt is negative",
                           (long long)o->prompt[i]);
    const size_t chunk = o->chunk == 0 || s->a.feed.n_states == 0 ? s->n_prompt : (size_t)o->chunk;
    s->n_chunks = s->n_prompt == 0 ? 0 : (s->n_prompt + chunk - 1) / chunk;
    s->max_steps = s->n_chunks + (size_t)o->steps;
    s->max_tokens = s->n_prompt + (size_t)o->steps + 1;
    if (s->max_steps == 0) return pl_fail(err, PL_E_USAGE, "no steps");
    s->tokens = pl_calloc(s->max_tokens, sizeof(*s->tokens));
    s->steps = pl_calloc(s->max_steps, sizeof(*s->steps));
    if (s->tokens == NULL || s->steps == NULL) return pl_fail_memory(err, s->max_tokens);
    make_prompt(s);
    s->n_tokens = s->n_prompt;
    return PL_OK;
}

static pl_status read_words(pl_steps *s, pl_err *err) {
    const plumb_generate_options *o = s->o;
    const char *cache = o->cache == NULL ? "shared" : o->cache;
    const char *force = o->force == NULL ? "reference" : o->force;
    s->shared = strcmp(cache, "shared") == 0;
    s->ran_own = !s->shared;
    if (!s->shared && strcmp(cache, "own") != 0)
        return pl_fail(err, PL_E_USAGE, "cache is '%s', expected shared or own", cache);
    if (strcmp(force, "reference") != 0 && strcmp(force, "a") != 0 && strcmp(force, "none") != 0)
        return pl_fail(err, PL_E_USAGE, "force is '%s', expected reference, a or none", force);
    for (size_t i = 0; i < o->n_forced; i++)
        if (o->forced == NULL || o->forced[i] < 0)
            return pl_fail(err, PL_E_USAGE, "token %zu to force is negative", i);
    return PL_OK;
}

static pl_status keep_names(pl_steps *s, pl_err *err) {
    const pl_graph *g = s->m->model->graph;
    s->outputs = pl_calloc(g->n_outputs + 1, sizeof(*s->outputs));
    for (size_t i = 0; s->outputs != NULL && i < g->n_outputs; i++, s->n_outputs++)
        if ((s->outputs[i] = pl_strdup(g->outputs[i]->name)) == NULL) break;
    return s->outputs == NULL || s->n_outputs < g->n_outputs ? pl_fail_memory(err, g->n_outputs)
                                                             : PL_OK;
}

pl_status pl_steps_prepare(pl_steps *s, bool alone, pl_err *err) {
    const char *spec_b = NULL, *spec_a = pl_backend_spec_or_default(s->o->backend);
    PL_TRY(read_words(s, err));
    PL_TRY(pl_sample_rule_read(s->o->sample, &s->sample, err));
    PL_TRY(pl_make_ready(s->m->model, PL_READY_TYPED, &s->m->edited, err));
    s->pool = pl_pool_new(s->o->threads);
    s->a = (pl_steps_side){ .who = "the backend under test",
                            .spec = spec_for_steps(spec_a),
                            .model = s->m->model,
                            .file = pl_api_model_file(s->m) };
    if (s->pool == NULL || s->a.spec == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_feed_init(&s->a.feed, s->a.model, s->o, err));
    PL_TRY(make_tables(s, err));
    s->model_path = pl_strdup(s->m->model->path);
    s->spec_a = pl_strdup(spec_a);
    PL_TRY(keep_names(s, err));
    if (s->model_path == NULL || s->spec_a == NULL) return pl_fail_memory(err, 1);
    if (alone) return side_open(s, &s->a, true, err);
    PL_TRY(open_reference(s, &spec_b, err));
    plumb_model *other = s->reference_model == NULL ? s->m : s->reference_model;
    PL_TRY(pl_two_sides_check(spec_a, s->m->model, spec_b, other->model, true, err));
    s->b = (pl_steps_side){ .who = "the reference",
                            .spec = spec_for_steps(spec_b),
                            .model = other->model,
                            .file = pl_api_model_file(other) };
    s->spec_b = pl_strdup(spec_b);
    if (s->b.spec == NULL || s->spec_b == NULL) return pl_fail_memory(err, 1);
    PL_TRY(pl_feed_init(&s->b.feed, s->b.model, s->o, err));
    PL_TRY(match_sides(s, err));
    PL_TRY(pl_progress_step(s->o->progress, "compiling A", 0, 0, err));
    PL_TRY(side_open(s, &s->a, false, err));
    PL_TRY(pl_progress_step(s->o->progress, "compiling B", 0, 0, err));
    return side_open(s, &s->b, false, err);
}

/* ---- windows ---- */

pl_feed_window pl_steps_window(const pl_steps *s, const pl_steps_side *side, size_t step) {
    pl_feed_window w = { .batch = 1, .n = 1, .past = (int64_t)step };
    if (s->n_prompt == 0) return w;
    const size_t chunk = (s->n_prompt + s->n_chunks - 1) / s->n_chunks;
    const size_t told = s->o == NULL || s->o->chunk == 0 ? chunk : (size_t)s->o->chunk;
    size_t from = step < s->n_chunks ? step * told : s->n_prompt + (step - s->n_chunks);
    size_t to = step + 1 < s->n_chunks ? (step + 1) * told
                : step < s->n_chunks   ? s->n_prompt
                                       : from + 1;
    if (side->feed.n_states == 0) from = 0; /* no state: it gets the whole sequence each time */
    w.tokens = s->tokens + from;
    w.n = (int64_t)(to - from);
    w.past = (int64_t)from;
    return w;
}

/* ---- measuring ---- */

pl_status pl_step_measure(pl_pool *pool, const pl_datum *x, const pl_datum *y,
                          pl_step_distance *out, pl_err *err) {
    pl_accumulators acc;
    *out = (pl_step_distance){ 0 };
    if (x == NULL || y == NULL || x->kind != PL_TYPE_TENSOR || y->kind != PL_TYPE_TENSOR ||
        !pl_tensor_same_shape(x->tensor, y->tensor) ||
        !pl_judge_types_fit(x->tensor->dtype, y->tensor->dtype)) {
        out->structural = true;
        return PL_OK;
    }
    PL_TRY(pl_accumulate(pool, x->tensor, y->tensor, &acc, err));
    const double rms =
        acc.n_finite > 0 ? ldexp(sqrt(acc.sum_rr / (double)acc.n_finite), (int)acc.v_scale) : 0;
    out->scale = rms > 0 ? rms : acc.max_abs > 0 ? acc.max_abs : 1;
    out->rms = pl_measure_rmse(&acc) / out->scale;
    out->largest = acc.max_abs / out->scale;
    out->nonfinite = acc.nonfinite_index >= 0 || acc.n_both_nan > 0;
    const pl_precision p = pl_precision_of(x->tensor->dtype, y->tensor->dtype);
    out->floor = pl_accuracy_floor(p);
    return PL_OK;
}

double pl_step_score(const pl_step_distance *d) {
    if (d->structural || d->nonfinite) return (double)INFINITY;
    if (d->floor == 0) return d->largest > 0 ? (double)INFINITY : 0;
    const double rms = d->rms / d->floor, largest = d->largest / (8 * d->floor);
    return rms > largest ? rms : largest;
}

/* The last row of the logits as doubles. */
static pl_status last_row(const pl_datum *d, double **out, int64_t *n, pl_err *err) {
    pl_tensor *c = NULL;
    *out = NULL;
    *n = 0;
    if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->rank < 1 || d->tensor->n_elements == 0)
        return PL_OK;
    const int64_t size = d->tensor->dims[d->tensor->rank - 1];
    PL_TRY(pl_tensor_contiguous(d->tensor, &c, err));
    *out = pl_calloc((size_t)size, sizeof(**out));
    if (*out != NULL) {
        const size_t off = (size_t)(c->n_elements - size) * pl_dtype_bytes(c->dtype);
        pl_load_f64(c->dtype, (const char *)c->data + off, *out, (size_t)size);
        *n = size;
    }
    pl_tensor_unref(c);
    return *out == NULL ? pl_fail_memory(err, (size_t)size) : PL_OK;
}

/* The next token: the forced one, else that of the chosen side by the rule of sampling. */
static pl_status next_token(const pl_steps *s, const pl_logit_pair *p, int64_t *token,
                            pl_err *err) {
    const size_t at = s->n_tokens - s->n_prompt;
    if (s->o->forced != NULL) {
        *token = at < s->o->n_forced ? s->o->forced[at] : -1;
        return PL_OK;
    }
    const bool by_a = s->o->force != NULL && strcmp(s->o->force, "a") == 0;
    *token = by_a ? p->a_best : p->r_best;
    if (!s->sample.draws) return PL_OK;
    return pl_sample_token(&s->sample, by_a ? p->a : p->r, p->n, (int64_t)s->n_tokens, token, err);
}

static pl_status measure_logits(pl_steps *s, pl_step *step, bool last_of_prompt,
                                const pl_step_distance *far, pl_err *err) {
    double *a = NULL, *b = NULL;
    int64_t n_a = 0, n_b = 0;
    pl_logit_pair p;
    const size_t at = s->a.feed.logits;
    step->token = step->choice_a = step->choice_b = -1;
    if (at == SIZE_MAX || s->output_of_b[at] == SIZE_MAX) return PL_OK;
    pl_status st = last_row(s->a.out[at], &a, &n_a, err);
    if (st == PL_OK) st = last_row(s->b.out[s->output_of_b[at]], &b, &n_b, err);
    if (st == PL_OK && n_a > 0 && n_a == n_b) {
        st = pl_logit_pair_init(&p, a, b, n_a, -1, err);
        if (st == PL_OK && last_of_prompt) st = next_token(s, &p, &step->token, err);
        if (st == PL_OK) st = pl_logit_pair_init(&p, a, b, n_a, step->token, err);
        for (size_t k = 0; st == PL_OK && k < PL_N_LOGIT_METRICS; k++)
            step->logits[k] = pl_logit_metrics[k].value(&p);
        step->has_logits = true;
        step->choice_a = p.a_best;
        step->choice_b = p.r_best;
        step->flip = p.broken || p.a_best != p.r_best;
        /* both logits may be off by what rounding explains */
        step->tie = step->flip && !p.broken &&
                    step->logits[PL_LOGIT_margin] <= 2 * 8 * far->floor * far->scale;
    }
    pl_free(a);
    pl_free(b);
    return st;
}

/* ---- one step on both sides ---- */

static void take_worst(double *worst, double x) {
    if (!(x <= *worst)) *worst = x;
}

static pl_status measure_step(pl_steps *s, pl_step *step, bool speaks, pl_err *err) {
    pl_step_distance logits = { 0 };
    step->state_error = (double)NAN;
    for (size_t i = 0; i < s->a.model->graph->n_outputs; i++) {
        pl_step_distance d;
        const bool is_state = s->a.feed.is_state[i];
        if (s->output_of_b[i] == SIZE_MAX) continue;
        PL_TRY(pl_step_measure(s->pool, s->a.out[i], s->b.out[s->output_of_b[i]], &d, err));
        const double score = pl_step_score(&d);
        const double rms = d.structural || d.nonfinite ? (double)INFINITY : d.rms;
        take_worst(&step->score, score);
        if (i == s->a.feed.logits) logits = d;
        if (is_state && !(rms <= step->state_error)) {
            step->state_error = rms;
            step->state = i;
        }
        if (is_state && score > 1) step->state_suspect = true;
        if (!is_state) take_worst(&step->error, rms);
        if (!is_state) take_worst(&step->largest, d.largest);
    }
    return measure_logits(s, step, speaks, &logits, err);
}

static pl_status run_b(pl_steps *s, size_t step, bool shared, pl_err *err) {
    const pl_feed_window w = pl_steps_window(s, &s->b, step);
    const pl_graph *g = s->b.model->graph;
    if (!shared) return pl_side_step(&s->b, &w, step, s->b.state, err);
    pl_status st = PL_OK;
    pl_datum **state = pl_calloc(g->n_inputs + 1, sizeof(*state));
    if (state == NULL) return pl_fail_memory(err, g->n_inputs);
    for (size_t i = 0; st == PL_OK && i < g->n_inputs; i++) /* A's, in the types of B */
        if (s->state_of_b[i] != SIZE_MAX && s->a.in[s->state_of_b[i]] != NULL)
            st = pl_input_as(g->inputs[i], s->a.in[s->state_of_b[i]], &state[i], err);
    if (st == PL_OK) st = pl_side_step(&s->b, &w, step, state, err);
    pl_steps_drop(state, g->n_inputs);
    pl_free(state);
    return st;
}

/* ---- checkpoints ---- */

static void drop_checkpoint(pl_steps *s, size_t i) {
    pl_steps_drop(s->checkpoints[i].state, s->a.model->graph->n_inputs);
    pl_free(s->checkpoints[i].state);
    s->checkpoints[i] = s->checkpoints[--s->n_checkpoints];
}

/* A limited number of checkpoints, evenly spread: if there are too many, every second one is
 * dropped. */
static pl_status keep_checkpoint(pl_steps *s, size_t step, pl_err *err) {
    const size_t n = s->a.model->graph->n_inputs;
    if (s->stride == 0) s->stride = 1;
    if (step % s->stride != 0) return PL_OK;
    if (s->n_checkpoints == PL_MAX_CHECKPOINTS) {
        s->stride *= 2;
        for (size_t i = s->n_checkpoints; i-- > 0;)
            if (s->checkpoints[i].step % s->stride != 0) drop_checkpoint(s, i);
        if (step % s->stride != 0) return PL_OK;
    }
    pl_checkpoint *c = &s->checkpoints[s->n_checkpoints];
    *c = (pl_checkpoint){ step, pl_calloc(n + 1, sizeof(pl_datum *)) };
    if (c->state == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        if (s->a.state[i] != NULL) c->state[i] = pl_datum_ref(s->a.state[i]);
    s->n_checkpoints++;
    return PL_OK;
}

/* ---- the pass ---- */

pl_status pl_steps_pass(pl_steps *s, size_t limit, pl_err *err) {
    const bool free_run = s->o->force != NULL && strcmp(s->o->force, "none") == 0;
    while (s->n_checkpoints > 0)
        drop_checkpoint(s, 0);
    s->stride = 0;
    pl_side_drop_state(&s->a);
    pl_side_drop_state(&s->b);
    const size_t said = s->n_tokens; /* a second pass generates the same tokens */
    s->n_tokens = s->n_prompt;
    s->n_steps = 0;
    for (size_t k = 0; k < limit; k++) {
        pl_step *step = &s->steps[k];
        const size_t analysis = s->n_analyses > 0 ? step->analysis : SIZE_MAX;
        *step = (pl_step){ .analysis = analysis, .state = SIZE_MAX };
        PL_TRY(pl_progress_step(s->o->progress, "running steps", (int64_t)k, (int64_t)limit, err));
        const pl_feed_window w = pl_steps_window(s, &s->a, k);
        step->past = w.past;
        step->n = w.n;
        PL_TRY(keep_checkpoint(s, k, err));
        PL_TRY(pl_side_step(&s->a, &w, k, s->a.state, err));
        PL_TRY(run_b(s, k, s->shared, err));
        const bool speaks = k + 1 >= s->n_chunks && s->n_prompt > 0;
        PL_TRY(measure_step(s, step, speaks, err));
        pl_side_keep_state(&s->a);
        pl_side_keep_state(&s->b);
        s->n_steps = k + 1;
        if (speaks && s->n_tokens < said) step->token = s->tokens[s->n_tokens];
        if (speaks && step->token >= 0 && s->n_tokens < s->max_tokens)
            s->tokens[s->n_tokens++] = step->token;
        if (speaks && (step->token < 0 || (free_run && step->flip))) break;
    }
    pl_steps_drop(s->a.out, s->a.model->graph->n_outputs);
    return PL_OK;
}

/* ---- the whole ---- */

static pl_status save_feed(pl_steps *s, pl_err *err) {
    const plumb_generate_options *o = s->o;
    const pl_graph *g = s->a.model->graph;
    if (o->save_step < 0) return PL_OK;
    if (o->output == NULL || (size_t)o->save_step >= s->n_steps)
        return pl_fail(err, PL_E_USAGE, "option 'save-step' is %lld: %s", (long long)o->save_step,
                       o->output == NULL ? "requires an output folder" : "there is no such step");
    pl_buf path = PL_BUF_INIT;
    pl_named_datum *items = pl_calloc(g->n_inputs + 1, sizeof(*items));
    char **files = pl_calloc(g->n_inputs + 1, sizeof(*files));
    pl_buf_printf(&path, "%s/feed-%lld", o->output, (long long)o->save_step);
    pl_status st =
        items == NULL || files == NULL || !pl_buf_ok(&path) ? pl_fail_memory(err, 1) : PL_OK;
    size_t n = 0;
    if (st == PL_OK) st = pl_steps_rewind(s, (size_t)o->save_step, err);
    for (size_t i = 0; st == PL_OK && i < g->n_inputs; i++)
        if (s->a.in[i] != NULL)
            items[n++] = (pl_named_datum){ (char *)(uintptr_t)g->inputs[i]->name, s->a.in[i] };
    if (st == PL_OK) st = pl_outputs_write(pl_buf_str(&path), "pb", items, n, files, err);
    for (size_t i = 0; files != NULL && i < g->n_inputs; i++)
        pl_free(files[i]);
    if (st == PL_OK) s->feed_folder = pl_buf_take(&path);
    pl_buf_release(&path);
    pl_free(items);
    pl_free(files);
    return st;
}

/* A backend that fails is a result. */
static pl_status settle(pl_steps *s, pl_status st, const pl_err *trouble, pl_err *err) {
    if (st == PL_OK) return PL_OK;
    if ((st != PL_E_BACKEND && st != PL_E_TIMEOUT) || s->a.backend == NULL) {
        if (err != NULL) *err = *trouble;
        return st;
    }
    const bool a_failed =
        pl_backend_failure(s->a.backend) != NULL && pl_backend_failure(s->a.backend)->happened;
    s->outcome = PL_OUTCOME_FAILED;
    (void)snprintf(s->reason, sizeof(s->reason), "%s failed: %.480s",
                   a_failed ? s->a.who : "a backend", trouble->message);
    return PL_OK;
}

/* Releases everything that refers to the models. */
static void release_sides(pl_steps *s) {
    while (s->n_checkpoints > 0)
        drop_checkpoint(s, 0);
    side_release(&s->a);
    side_release(&s->b);
    plumb_model_close(s->reference_model);
    s->reference_model = NULL;
    s->m = NULL;
}

pl_status pl_steps_run(pl_steps *s, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    s->first_divergent = s->parted = SIZE_MAX;
    s->carried_by = "";
    s->outcome = PL_OUTCOME_INCONCLUSIVE;
    pl_status st;
    if (s->o->self_test != NULL) {
        st = pl_steps_prepare(s, true, &trouble);
        if (st == PL_OK) st = pl_steps_self_tests(s, &trouble);
    } else {
        st = pl_steps_prepare(s, false, &trouble);
        if (st == PL_OK) st = pl_steps_pass(s, s->max_steps, &trouble);
        if (st == PL_OK) st = pl_steps_search(s, &trouble);
        if (st == PL_OK) st = save_feed(s, &trouble);
    }
    st = settle(s, st, &trouble, err);
    if (s->a.backend != NULL) s->version_a = pl_strdup(pl_backend_version(s->a.backend));
    if (s->b.backend != NULL) s->version_b = pl_strdup(pl_backend_version(s->b.backend));
    release_sides(s);
    return st;
}

void pl_steps_release(pl_steps *s) {
    for (size_t i = 0; i < s->n_analyses; i++) {
        pl_session_free(s->analyses[i].session);
        pl_free(s->analyses[i].folder);
    }
    for (size_t i = 0; i < s->n_checks; i++) {
        pl_free(s->checks[i].node);
        pl_free(s->checks[i].op);
        pl_free(s->checks[i].value);
    }
    release_sides(s);
    pl_pool_free(s->pool);
    for (size_t i = 0; i < s->n_outputs; i++)
        pl_free(s->outputs[i]);
    pl_free(s->outputs);
    char *const texts[] = { s->feed_folder, s->model_path, s->spec_a,
                            s->spec_b,      s->version_a,  s->version_b };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        pl_free(texts[i]);
    pl_free(s->state_of_b);
    pl_free(s->output_of_b);
    pl_free(s->tokens);
    pl_free(s->steps);
}
