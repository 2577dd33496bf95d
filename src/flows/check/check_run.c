/* The checked run: reference against itself, gold, candidate against reference. */
#include "flows/check/check_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/rng.h"
#include "flows/analyze/quant_answer.h"
#include "flows/inputs.h"
#include "flows/inputs_recorded.h"
#include "flows/outputs.h"
#include "flows/prepare.h"
#include "flows/two_sides.h"
#include "interp/interp.h"
#include "metric/same.h"
#include "ops/bound.h"
#include "ops/infer.h"
#include "session/baseline.h"
#include "session/verdict.h"

static void timed(pl_check_run *r, const char *phase) {
    const double now = pl_api_seconds();
    if (r->n_phases < PL_CHECK_MAX_PHASES)
        r->phases[r->n_phases++] = (pl_timing_entry){ phase, now - r->started };
    r->started = now;
}

static void tell(const pl_check_run *r, const char *phase, size_t done, size_t total) {
    pl_progress_update(r->options->run->progress, phase, (int64_t)done, (int64_t)total);
}

static pl_status step(const pl_check_run *r, const char *phase, size_t done, size_t total,
                      pl_err *err) {
    return pl_progress_step(r->options->run->progress, phase, (int64_t)done, (int64_t)total, err);
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

static void set_status(pl_check_run *r, const char *word, int code) {
    snprintf(r->status, sizeof(r->status), "%s", word);
    r->exit_code = code;
}

/* ---- options ---- */

static pl_status read_options(pl_check_run *r, pl_err *err) {
    const plumb_check_options *o = r->options;
    pl_accuracy *a = &r->accuracy;
    const pl_accuracy_options rule = { .accuracy = o->mode != PLUMB_CHECK_NONE,
                                       .strict = o->mode == PLUMB_CHECK_STRICT,
                                       .profile = o->profile,
                                       .same = o->same,
                                       .tol = o->tol };
    PL_TRY(pl_accuracy_read(&rule, a, err));
    r->spec = pl_backend_spec_or_default(o->run->backend);
    r->reference_spec = pl_backend_spec_or_default(o->reference);
    a->any_float =
        strstr(r->spec, "eager:fp64") != NULL || strstr(r->reference_spec, "eager:fp64") != NULL;
    r->n_runs = o->run->repeat > 1 ? (size_t)o->run->repeat : 1;
    r->pool = pl_pool_new(o->run->threads);
    a->pool = r->pool;
    return r->pool == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

/* ---- prepare ---- */

static pl_status open_reference(pl_check_run *r, pl_err *err) {
    const plumb_check_options *o = r->options;
    const char *path = o->reference_model;
    plumb_error trouble = { PLUMB_OK, "" };
    if (o->reference != NULL && (pl_path_has_suffix(o->reference, ".onnx") ||
                                 pl_path_has_suffix(o->reference, ".onnxtxt"))) {
        if (path == NULL) path = o->reference;
        r->reference_spec = "eager";
    } else if (o->reference != NULL && pl_path_exists(o->reference)) {
        return pl_recording_open(o->reference, &r->recording, err);
    }
    if (path == NULL) return PL_OK;
    if (plumb_model_open(path, &r->reference_model, &trouble) != PLUMB_OK)
        return pl_fail(err, trouble.status, "%s", trouble.message);
    return pl_make_ready(r->reference_model->model, PL_READY_RESOLVED, NULL, err);
}

/* Inputs for a different reference model. */
static pl_status match_inputs(const pl_check_run *r, pl_datum **in, pl_err *err) {
    const pl_graph *to = r->reference_model->model->graph, *from = r->m->model->graph;
    for (size_t i = 0; i < to->n_inputs; i++) {
        const size_t k = pl_ports_match(to->inputs, to->n_inputs, i, from->inputs, from->n_inputs);
        if (k != SIZE_MAX) in[i] = r->in[k];
        if (in[i] == NULL && to->inputs[i]->init == NULL)
            return pl_fail(
                err, PL_E_INVALID,
                "the reference model requires input '%s', which is missing from the model",
                to->inputs[i]->name);
    }
    return PL_OK;
}

static pl_status prepare_reference(pl_check_run *r, const pl_prepare_options *o, pl_err *err) {
    pl_prepare_options own = *o;
    const bool same_model = r->reference_model == NULL;
    const bool same_precision = r->options->context->amp == NULL || r->options->reference_amp;
    r->reference = &r->candidate;
    if (!same_precision) own.transform.amp = NULL;
    if (r->recording != NULL || (same_model && same_precision)) return PL_OK;
    r->reference = &r->other;
    if (same_model) return pl_prepare(r->m->model, r->in, &own, &r->other, err);
    const pl_model *model = r->reference_model->model;
    pl_datum **in = pl_calloc(model->graph->n_inputs + 1, sizeof(pl_datum *));
    if (in == NULL) return pl_fail_memory(err, model->graph->n_inputs);
    pl_status st = match_inputs(r, in, err);
    if (st == PL_OK) st = pl_prepare(model, in, &own, &r->other, err);
    pl_free(in);
    return st;
}

static pl_status match_outputs(pl_check_run *r, pl_err *err) {
    const pl_graph *a = r->candidate.model->graph, *b = r->reference->model->graph;
    size_t n_found = 0;
    for (size_t i = 0; i < r->n_out; i++) {
        const size_t k = pl_ports_match(a->outputs, r->n_out, i, b->outputs, r->n_ref);
        r->of[i] = k == SIZE_MAX ? 0 : k + 1;
        n_found += r->of[i] != 0;
    }
    if (n_found > 0 || r->n_out == 0) return PL_OK;
    return pl_fail(err, PL_E_INVALID, "the model and the reference have no output in common");
}

static pl_status allocate(pl_check_run *r, pl_err *err) {
    r->n_out = r->candidate.n_out;
    r->n_ref = r->reference->n_out;
    r->out = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->files = pl_calloc(r->n_out + 1, sizeof(char *));
    r->of = pl_calloc(r->n_out + 1, sizeof(size_t));
    r->checks = pl_calloc(r->n_out + 1, sizeof(*r->checks));
    r->ref = pl_calloc(r->n_ref + 1, sizeof(pl_datum *));
    r->gold = pl_calloc(r->n_ref + 1, sizeof(pl_datum *));
    const bool ok = r->out != NULL && r->files != NULL && r->of != NULL && r->checks != NULL &&
                    r->ref != NULL && r->gold != NULL;
    return ok ? PL_OK : pl_fail_memory(err, r->n_out);
}

static pl_status prepare(pl_check_run *r, pl_err *err) {
    const plumb_check_options *o = r->options;
    pl_graph *graph = r->m->model->graph;
    PL_TRY(pl_make_ready(r->m->model, PL_READY_TYPED, &r->m->edited, err));
    r->n_in = graph->n_inputs;
    r->in = pl_calloc(r->n_in + 1, sizeof(pl_datum *));
    if (r->in == NULL) return pl_fail_memory(err, graph->n_inputs);
    if (o->mode != PLUMB_CHECK_NONE) PL_TRY(open_reference(r, err));
    PL_TRY(r->recording == NULL ? pl_inputs_make(r->m->model, o->run->inputs, r->in, err)
                                : pl_inputs_make_recorded(r->m->model, o->run->inputs, r->recording,
                                                          false, r->in, NULL, err));
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (r->in[i] != NULL) PL_TRY(pl_interp_check_input(graph->inputs[i], r->in[i], false, err));
    const bool one_type = o->context->amp == NULL || o->reference_amp;
    if (o->mode != PLUMB_CHECK_NONE && r->recording == NULL && one_type)
        PL_TRY(pl_two_sides_check(
            r->spec, r->m->model, r->reference_spec,
            r->reference_model == NULL ? r->m->model : r->reference_model->model, true, err));
    const pl_prepare_options prepare = { .transform = { .eval = o->context->eval,
                                                        .amp = o->context->amp },
                                         .backward = o->context->backward != 0,
                                         .loss_output = o->context->loss_output,
                                         .random_gradients = o->context->random_gradients != 0,
                                         .grad_seed = o->context->grad_seed,
                                         .seed = o->run->inputs->seed,
                                         .pool = r->pool };
    PL_TRY(pl_prepare(r->m->model, r->in, &prepare, &r->candidate, err));
    PL_TRY(prepare_reference(r, &prepare, err));
    PL_TRY(allocate(r, err));
    PL_TRY(match_outputs(r, err));
    timed(r, "prepare");
    return PL_OK;
}

/* ---- running one side ---- */

typedef struct side {
    pl_backend *backend;
    pl_program *program;
    bool out_of_memory;
} side;

static pl_status side_open(const pl_check_run *r, const char *spec, const pl_prepared *p, side *s,
                           pl_err *err) {
    const plumb_run_options *o = r->options->run;
    pl_backend_options backend = pl_backend_options_for(spec, o->timeout, o->memory_limit);
    backend.progress = o->progress;
    backend.sandbox = o->sandbox;
    const pl_compile_options compile = { .seed = o->inputs->seed,
                                         .threads = o->threads,
                                         .any_shape = true }; /* a wrong shape is a finding */
    PL_TRY(pl_backend_open(spec, &backend, &s->backend, err));
    return pl_program_new(s->backend, p->model, &compile, &s->program, err);
}

static void side_close(side *s) {
    const pl_failure *failure = s->backend == NULL ? NULL : pl_backend_failure(s->backend);
    s->out_of_memory = failure != NULL && failure->happened && failure->out_of_memory;
    pl_program_free(s->program);
    pl_backend_close(s->backend);
    s->program = NULL;
    s->backend = NULL;
}

/* A failing backend is a result; an invalid spec, or trouble of plumb itself, is an error. */
static bool is_result(const side *s, pl_status st) {
    return s->backend != NULL && (st == PL_E_BACKEND || st == PL_E_TIMEOUT ||
                                  st == PL_E_UNSUPPORTED || st == PL_E_INVALID);
}

static pl_status failed(pl_check_run *r, side *s, const char *who, const char *word,
                        const char *word_memory, const pl_err *trouble, pl_err *err) {
    const bool result = is_result(s, trouble->status);
    side_close(s);
    if (!result) {
        *err = *trouble;
        return trouble->status;
    }
    const plumb_inputs *in = r->options->run->inputs;
    const bool bad_inputs = strncmp(word, "eager_1st", 9) == 0 && in->n_files + in->n_sets == 0 &&
                            !pl_backend_is_guarded(r->reference_spec) && !s->out_of_memory;
    if (bad_inputs)
        return pl_fail(err, PL_E_INVALID,
                       "the reference cannot run on the generated inputs (%s); set dimensions with "
                       "option 'dim' NAME=N and values with option 'range' NAME=LO:HI or option "
                       "'input' NAME=FILE",
                       trouble->message);
    set_status(r, s->out_of_memory ? word_memory : word, 3);
    pl_buf next = PL_BUF_INIT;
    pl_check_put_next(r, "minify", &next);
    snprintf(r->error, sizeof(r->error), "%s failed: %.600s%s%s", who, trouble->message,
             pl_buf_ok(&next) && next.n_bytes > 0 ? "; next: " : "", pl_buf_str(&next));
    pl_buf_release(&next);
    return PL_OK;
}

/* ---- the reference ---- */

static pl_status read_recording(pl_check_run *r, pl_err *err) {
    for (size_t i = 0; i < r->n_out; i++) {
        const char *name = r->candidate.model->graph->outputs[i]->name;
        const pl_record *record = pl_recording_find(r->recording, name);
        if (record == NULL) {
            r->of[i] = 0;
            continue;
        }
        PL_TRY(pl_recording_read_datum(r->recording, record, &r->ref[r->of[i] - 1], err));
    }
    timed(r, "reference");
    return PL_OK;
}

/* Runs it twice; the second run must give the same bits. */
static pl_status run_reference(pl_check_run *r, pl_err *err) {
    side s = { .backend = NULL };
    pl_err trouble = PL_ERR_INIT;
    pl_datum **again = pl_calloc(r->n_ref + 1, sizeof(pl_datum *));
    if (again == NULL) return pl_fail_memory(err, r->n_ref);
    pl_status st = step(r, "reference", 0, 2, err);
    if (st != PL_OK) goto done;
    st = side_open(r, r->reference_spec, r->reference, &s, &trouble);
    if (st == PL_OK) st = pl_program_run(s.program, r->reference->in, r->ref, &trouble);
    if (st != PL_OK) {
        st = failed(r, &s, "the reference", "eager_1st_run_fail", "eager_1st_run_OOM", &trouble,
                    err);
        goto done;
    }
    timed(r, "reference");
    PL_TRY_GOTO(done, st, step(r, "reference", 1, 2, err));
    st = pl_program_run(s.program, r->reference->in, again, &trouble);
    if (st != PL_OK) {
        st = failed(r, &s, "the second run of the reference", "eager_2nd_run_fail",
                    "eager_2nd_run_OOM", &trouble, err);
        goto done;
    }
    for (size_t i = 0; i < r->n_ref; i++) {
        if (pl_datum_identical(r->ref[i], again[i])) continue;
        set_status(r, "eager_two_runs_differ", 1);
        snprintf(r->error, sizeof(r->error),
                 "the reference %s is not deterministic: output '%s' differs in a second run on "
                 "the same inputs",
                 r->reference_spec, r->reference->model->graph->outputs[i]->name);
        break;
    }
    timed(r, "second reference run");
done:
    side_close(&s);
    drop(again, r->n_ref);
    pl_free(again);
    return st;
}

static pl_status run_gold(pl_check_run *r, pl_err *err) {
    const pl_interp_options options = { .pool = r->pool,
                                        .fp64 = true,
                                        .any_shape = true,
                                        .seed = r->options->run->inputs->seed,
                                        .progress = r->options->run->progress };
    pl_interp *interp = NULL;
    pl_err trouble = PL_ERR_INIT;
    PL_TRY(step(r, "fp64", 0, 1, err));
    pl_status st = pl_interp_new(r->reference->model, &options, &interp, &trouble);
    if (st == PL_OK) st = pl_interp_run(interp, r->reference->in, r->gold, &trouble);
    pl_interp_free(interp);
    timed(r, "fp64");
    if (st == PL_OK) return PL_OK;
    if (st == PL_E_CANCELLED) return pl_fail(err, st, "%s", trouble.message);
    drop(r->gold, r->n_ref);
    if (r->options->mode != PLUMB_CHECK_STRICT)
        return pl_fail(err, st,
                       "the fp64 run failed: %s; option 'strict-accuracy' does not need it",
                       trouble.message);
    snprintf(r->note, sizeof(r->note), "no fp64 run: %.200s", trouble.message);
    return PL_OK;
}

/* ---- the candidate ---- */

static void tell_moves(void *ctx, size_t done, size_t all) {
    tell(ctx, "second fp64 run", done, all);
}

/* By the effective precision of output i on both sides. */
static void set_precision(pl_check_run *r, size_t i, size_t k) {
    const pl_model *a = r->candidate.model, *b = r->reference->model;
    bool flips = false;
    pl_precision floats;
    const pl_precision own = pl_output_precision(a, a->graph->outputs[i], NULL, &flips, &floats);
    const pl_precision its =
        pl_output_precision(b, b->graph->outputs[k], NULL, &r->accuracy.flips, &r->accuracy.floats);
    r->accuracy.precision = own > its ? own : its;
    if (floats > r->accuracy.floats) r->accuracy.floats = floats;
    /* If only the candidate has codes (a quantised model against its float model), differences are
     * expected. */
    if (flips && !r->accuracy.flips) r->accuracy.floats = r->accuracy.precision;
    r->accuracy.flips = r->accuracy.flips || flips;
    r->accuracy.absolute = fmax(pl_value_absolute_error(a->graph->outputs[i], PL_UNDEFINED),
                                pl_value_absolute_error(b->graph->outputs[k], PL_UNDEFINED));
}

/* The recording is the truth; gold shows whether the model or the runtime is to blame. */
static pl_status compare_recorded(pl_check_run *r, size_t i, pl_accuracy_check *check,
                                  pl_err *err) {
    const pl_datum *ref = r->ref[r->of[i] - 1], *gold = r->gold[r->of[i] - 1];
    pl_accuracy_check model, runtime;
    pl_accuracy rule = r->accuracy;
    const size_t k = r->of[i] - 1;
    PL_TRY(pl_accuracy_recorded(&r->moves, k, ref, r->out[i], check, err));
    if (check->same || gold == NULL) return PL_OK;
    rule.any_float = true;
    r->moves.accuracy = &rule;
    PL_TRY(pl_accuracy_recorded(&r->moves, k, ref, gold, &model, err));
    PL_TRY(pl_accuracy_recorded(&r->moves, k, gold, r->out[i], &runtime, err));
    r->moves.accuracy = &r->accuracy;
    check->model_wrong = !model.same;
    check->runtime_right = runtime.same && !model.same;
    return PL_OK;
}

/* Nothing to compare: `rule` says why. */
static void leave_out(pl_accuracy_check *c, const char *rule) {
    memset(c, 0, sizeof(*c));
    c->rule = rule;
    c->same = c->ignored = true;
    c->ref_error = c->res_error = c->allowed = (double)NAN;
    c->tol = c->multiplier = (double)NAN;
    c->res_largest = c->largest_allowed = (double)NAN;
}

/* Elements of output i that were zeros on both sides, because operators leave them undefined. */
static int64_t count_undefined(const pl_check_run *r, size_t i) {
    const pl_ranges *nothing =
        pl_dont_care_of(&r->dont_care, r->candidate.model->graph->outputs[i]);
    return nothing == NULL ? 0 : pl_ranges_count(nothing);
}

static bool is_all_undefined(const pl_check_run *r, size_t i) {
    const pl_datum *d = r->out[i];
    const int64_t n = count_undefined(r, i);
    return n > 0 && d->kind == PL_TYPE_TENSOR && n >= d->tensor->n_elements;
}

static pl_status compare(pl_check_run *r, bool *all_same, pl_accuracy_check *checks, pl_err *err) {
    *all_same = true;
    r->moves.accuracy = &r->accuracy;
    r->moves.model = r->reference->model;
    r->moves.in = r->reference->in;
    r->moves.gold = r->gold;
    r->moves.seed = r->options->run->inputs->seed;
    pl_accuracy_take_results(&r->moves, r->on_cpu ? r->candidate.model : NULL, r->candidate.in,
                             r->out);
    r->moves.tell = tell_moves;
    r->moves.ctx = r;
    for (size_t i = 0; i < r->n_out; i++) {
        const size_t k = r->of[i];
        if (k == 0 || r->ref[k - 1] == NULL || r->out[i] == NULL) {
            leave_out(&checks[i], "not in the reference");
            continue;
        }
        if (is_all_undefined(r, i)) {
            leave_out(&checks[i], "undefined");
            checks[i].n_undefined = count_undefined(r, i);
            continue;
        }
        set_precision(r, i, k - 1);
        if (r->recording != NULL) {
            PL_TRY(compare_recorded(r, i, &checks[i], err));
            checks[i].n_undefined = count_undefined(r, i);
            *all_same = *all_same && checks[i].same;
            continue;
        }
        PL_TRY(pl_accuracy_compare(&r->accuracy, r->ref[k - 1], r->out[i], r->gold[k - 1],
                                   &checks[i], err));
        PL_TRY(pl_accuracy_settle(&r->moves, k - 1, r->out[i], &checks[i], err));
        PL_TRY(pl_accuracy_bound(&r->moves, i, k - 1, r->ref[k - 1], &checks[i], err));
        checks[i].n_undefined = count_undefined(r, i);
        *all_same = *all_same && checks[i].same;
    }
    return PL_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One compile and one run. *done is false when it failed, with the reason in the status. */
static pl_status run_once(pl_check_run *r, size_t k, double *seconds, bool *done, pl_err *err) {
    side s = { .backend = NULL };
    pl_err trouble = PL_ERR_INIT;
    *done = false;
    drop(r->out, r->n_out);
    pl_status st = side_open(r, r->spec, &r->candidate, &s, &trouble);
    if (st == PL_OK && k == 0) timed(r, "compile");
    if (st == PL_OK) {
        const double start = pl_api_seconds();
        st = pl_program_run(s.program, r->candidate.in, r->out, &trouble);
        *seconds = pl_api_seconds() - start;
    }
    if (st != PL_OK) return failed(r, &s, r->spec, "fail_to_run", "OOM", &trouble, err);
    r->on_cpu = pl_backend_device(s.backend)[0] == '\0';
    side_close(&s);
    *done = true;
    return PL_OK;
}

/* Keeps the checks of a failed run when most runs fail, of a passed one when most pass. */
static pl_status run_candidate(pl_check_run *r, pl_err *err) {
    const bool judged = r->options->mode != PLUMB_CHECK_NONE;
    double *seconds = pl_calloc(r->n_runs, sizeof(double));
    pl_accuracy_check *good = pl_calloc(r->n_out + 1, sizeof(*good));
    pl_accuracy_check *bad = pl_calloc(r->n_out + 1, sizeof(*bad));
    pl_status st =
        seconds == NULL || good == NULL || bad == NULL ? pl_fail_memory(err, r->n_out) : PL_OK;
    bool done = true;
    for (size_t k = 0; k < r->n_runs && st == PL_OK && done; k++) {
        bool same = true;
        st = step(r, "run", k, r->n_runs, err);
        if (st == PL_OK) st = run_once(r, k, &seconds[k], &done, err);
        if (st != PL_OK || !done || !judged) continue;
        if (k == 0) timed(r, "run");
        st = compare(r, &same, r->checks, err);
        memcpy(same ? good : bad, r->checks, (r->n_out + 1) * sizeof(*good));
        r->n_passed += same;
    }
    if (st == PL_OK && done) {
        r->first_ms = 1e3 * seconds[0];
        qsort(seconds, r->n_runs, sizeof(double), by_value);
        r->best_ms = 1e3 * seconds[0];
        r->median_ms = 1e3 * seconds[r->n_runs / 2];
        const bool pass = r->n_passed > r->n_runs / 2;
        if (judged) {
            set_status(r, pass ? "pass" : "fail_accuracy", pass ? 0 : 1);
            memcpy(r->checks, pass ? good : bad, (r->n_out + 1) * sizeof(*good));
        }
        timed(r, judged ? "compare" : "run");
    }
    pl_free(seconds);
    pl_free(good);
    pl_free(bad);
    return st;
}

/* ---- afterwards ---- */

static pl_status write_outputs(pl_check_run *r, pl_err *err) {
    const plumb_run_options *o = r->options->run;
    if (o->output == NULL || r->exit_code == 3) return PL_OK;
    pl_named_datum *items = pl_calloc(r->n_out + 1, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, r->n_out);
    pl_status st = PL_OK;
    for (size_t i = 0; i < r->n_out && st == PL_OK; i++) {
        items[i].name = pl_strdup(r->candidate.model->graph->outputs[i]->name);
        items[i].datum = r->out[i];
        if (items[i].name == NULL) st = pl_fail_memory(err, 1);
    }
    if (st == PL_OK) st = pl_outputs_write(o->output, o->save_as, items, r->n_out, r->files, err);
    for (size_t i = 0; i < r->n_out; i++)
        pl_free(items[i].name);
    pl_free(items);
    return st;
}

static size_t count_bad(const pl_session *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_points; i++)
        n += pl_sync_point_is_bad(&s->points[i]);
    return n;
}

/* A failing gate passes when everything that differs is accepted. */
static pl_status apply_baseline(pl_check_run *r, pl_err *err) {
    const plumb_check_options *o = r->options;
    pl_session *s = r->session;
    pl_baseline *baseline = NULL;
    size_t n_unused = 0;
    const size_t n_bad = count_bad(s);
    if (strcmp(r->status, "pass") != 0 && strcmp(r->status, "fail_accuracy") != 0) return PL_OK;
    if (o->baseline != NULL) {
        PL_TRY(pl_baseline_open(o->baseline, &baseline, err));
        const pl_status st = pl_baseline_apply(baseline, s, &n_unused, err);
        pl_baseline_free(baseline);
        PL_TRY(st);
    }
    if (o->write_baseline != NULL) {
        pl_buf text = PL_BUF_INIT;
        pl_baseline_put(s, &text);
        const pl_status st = pl_buf_ok(&text)
                                 ? pl_file_write(o->write_baseline, text.data, text.n_bytes, err)
                                 : pl_fail_memory(err, text.n_bytes);
        pl_buf_release(&text);
        PL_TRY(st);
        for (size_t i = 0; i < s->n_points; i++)
            if (pl_sync_point_is_bad(&s->points[i])) s->points[i].accepted = true;
    }
    if (n_bad == 0 || count_bad(s) > 0) return PL_OK;
    PL_TRY(pl_check_conclude(r, err));
    snprintf(r->note, sizeof(r->note), "%zu differing output%s accepted by the baseline", n_bad,
             pl_plural(n_bad));
    return PL_OK;
}

/* The status is the outcome of the session in PyTorch's words. */
pl_status pl_check_conclude(pl_check_run *r, pl_err *err) {
    const pl_session *s = r->session;
    const pl_claim claim = { .truth = r->recording != NULL, .agree = "every output agrees" };
    PL_TRY(pl_verdict_conclude(r->session, &claim, err));
    if (s->outcome == PL_OUTCOME_AGREE) set_status(r, "pass", 0);
    if (s->outcome == PL_OUTCOME_DIVERGED) set_status(r, "fail_accuracy", 1);
    if (s->outcome == PL_OUTCOME_INCONCLUSIVE) {
        set_status(r, "inconclusive", pl_outcome_exit_code(s->outcome));
        snprintf(r->error, sizeof(r->error), "no verdict: %s", s->reason);
    }
    return PL_OK;
}

/* A quantised model that fails against its float model: adds the cost of each layer. */
static pl_status weigh_layers(pl_check_run *r, pl_err *err) {
    const plumb_check_options *o = r->options;
    const pl_quant_question q = { .model = pl_api_model_file(r->m),
                                  .floats = pl_api_model_file(r->reference_model),
                                  .inputs = o->run->inputs,
                                  .threads = o->run->threads,
                                  .tol = o->tol };
    if (o->context->amp != NULL || r->backward) return PL_OK;
    return pl_quant_answer(&q, r->session, err);
}

static bool over(const pl_check_run *r) {
    return r->exit_code != 0;
}

pl_status pl_check_run_all(pl_check_run *r, pl_err *err) {
    r->started = pl_api_seconds();
    const bool judged = r->options->mode != PLUMB_CHECK_NONE;
    PL_TRY(read_options(r, err));
    PL_TRY(prepare(r, err));
    set_status(r, "ok", 0);
    if (judged && r->recording != NULL) PL_TRY(read_recording(r, err));
    if (judged && r->recording == NULL) PL_TRY(run_reference(r, err));
    if (judged && !over(r)) PL_TRY(run_gold(r, err));
    if (judged && !over(r))
        PL_TRY(pl_dont_care_find(r->candidate.model, r->candidate.in, r->options->run->threads,
                                 &r->dont_care, err));
    if (!over(r)) PL_TRY(run_candidate(r, err));
    PL_TRY(pl_check_fill_session(r, err));
    if (judged) PL_TRY(apply_baseline(r, err));
    if (strcmp(r->status, "fail_accuracy") == 0) {
        pl_check_put_error(r, r->error, sizeof(r->error));
        if (r->reference_model != NULL) PL_TRY(weigh_layers(r, err));
    }
    return write_outputs(r, err);
}

void pl_check_run_finish(pl_check_run *r) {
    if (r->session != NULL) r->session->n_timing = r->n_phases;
    drop(r->in, r->n_in);
    drop(r->ref, r->n_ref);
    drop(r->gold, r->n_ref);
    pl_accuracy_moves_release(&r->moves);
    r->moves.model = NULL;
    pl_prepared_release(&r->other);
    pl_recording_close(r->recording);
    plumb_model_close(r->reference_model);
    pl_pool_free(r->pool);
    r->recording = NULL;
    r->reference_model = NULL;
    r->pool = NULL;
    r->m = NULL;
    r->options = NULL;
    r->spec = r->reference_spec = "";
}

void pl_check_run_release(pl_check_run *r) {
    pl_check_run_finish(r);
    drop(r->out, r->n_out);
    for (size_t i = 0; r->files != NULL && i < r->n_out; i++)
        pl_free(r->files[i]);
    pl_free(r->in);
    pl_free(r->ref);
    pl_free(r->gold);
    pl_free(r->out);
    pl_free(r->files);
    pl_free(r->of);
    pl_free(r->checks);
    pl_dont_care_release(&r->dont_care);
    pl_prepared_release(&r->candidate);
    pl_session_free(r->session);
}
