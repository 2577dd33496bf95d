/* The analyze flow: run A plainly and recorded; check that recording did not change it and that it
 * is deterministic; run B on the values that A has; run gold and the replay; pair, compare, blame;
 * then write the session and the table. */
#include "flows/analyze/analyze.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/blocks.h"
#include "base/clock.h"
#include "base/count.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/peak.h"
#include "base/process.h"
#include "flows/analyze/advise.h"
#include "flows/analyze/analyze_int.h"
#include "flows/analyze/quant_mistakes.h"
#include "flows/analyze/quant_table.h"
#include "flows/inputs.h"
#include "flows/inputs_doubt.h"
#include "flows/inputs_recorded.h"
#include "flows/model_transform.h"
#include "flows/prepare.h"
#include "flows/two_sides.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "kernels/cpu.h"
#include "ops/infer.h"
#include "session/verdict.h"

enum { SPOOL_MEMORY = 256 << 20, MANY_EFFECTS = 256, MAX_NOTES = 32, MAX_TIMING = 32 };
#define MAX_EFFECT_WORK 4e9 /* weights times runs */
#define SAVE_ALL_BELOW (UINT64_C(2) << 30)

/* ---- notes and times ---- */

pl_status pl_analysis_note(pl_analysis *x, pl_err *err, const char *format, ...) {
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pl_session *s = x->session;
    const char **notes = (const char **)(uintptr_t)s->notes;
    if (notes == NULL) notes = pl_arena_array(x->arena, MAX_NOTES, sizeof(char *));
    char *copy = pl_arena_strdup(x->arena, text);
    if (notes == NULL || copy == NULL) return pl_fail_memory(err, 1);
    s->notes = notes;
    if (s->n_notes < MAX_NOTES) notes[s->n_notes++] = copy;
    return PL_OK;
}

/* Ends a phase: its time since the last one ended. */
pl_status pl_analysis_timed(pl_analysis *x, const char *phase, pl_err *err) {
    pl_session *s = x->session;
    if (s->timing == NULL) {
        s->timing = pl_arena_array(x->arena, MAX_TIMING, sizeof(pl_timing_entry));
    }
    if (s->timing == NULL) return pl_fail_memory(err, 1);
    const double now = pl_api_seconds();
    if (s->n_timing < MAX_TIMING) {
        s->timing[s->n_timing++] = (pl_timing_entry){ phase, now - x->started };
    }
    x->started = now;
    return PL_OK;
}

static pl_status timed_side(pl_analysis *x, const char *phase, const char *side, pl_err *err) {
    const char *name = pl_arena_printf(x->arena, "%s %s", phase, side);
    return name == NULL ? pl_fail_memory(err, 1) : pl_analysis_timed(x, name, err);
}

const char *pl_analysis_keep(pl_analysis *x, const char *s) {
    const char *copy = pl_arena_strdup(x->arena, s == NULL ? "" : s);
    return copy == NULL ? "" : copy;
}

/* ---- prepare ---- */

static const char *backend_spec(const pl_analysis *x) {
    return pl_backend_spec_or_default(x->options->backend);
}

/* The backend spec of B, unless the reference is a file. */
static const char *reference_spec(const pl_analysis *x) {
    const char *given = x->options->reference;
    const bool is_file =
        x->recording != NULL || (x->reference_model != NULL && x->options->reference_model == NULL);
    return given == NULL || is_file ? "eager" : given;
}

static const char *arithmetic_at(const void *ctx, size_t i) {
    (void)ctx;
    return pl_arithmetics[i].name;
}

static pl_status find_arithmetic(pl_analysis *x, pl_err *err) {
    const char *name = x->options->precision_profile;
    pl_buf text = PL_BUF_INIT;
    if (name == NULL) return PL_OK;
    x->arithmetic = pl_arithmetic_find(name);
    if (x->arithmetic != NULL) return PL_OK;
    pl_nearest_put(&text, name, strlen(name), arithmetic_at, NULL);
    const pl_status st =
        pl_fail(err, PL_E_USAGE, "no precision profile '%s'%s", name, pl_buf_str(&text));
    pl_buf_release(&text);
    return st;
}

static pl_status warn_model(pl_analysis *x, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    pl_status st = PL_OK;
    for (size_t i = 0; st == PL_OK && pl_op_warning(x->model, i, &text); i++) {
        st = pl_analysis_note(x, err, "%s", pl_buf_str(&text));
        pl_buf_release(&text);
    }
    pl_buf_release(&text);
    return st;
}

static pl_status prepare(pl_analysis *x, pl_err *err) {
    const plumb_analyze_options *o = x->options;
    const pl_graph *graph = x->model->graph;
    x->arena = x->session->arena;
    /* Operators unknown to plumb may be known to the backend. */
    const pl_ready level = pl_backend_is_own(backend_spec(x)) ? PL_READY_TYPED : PL_READY_KNOWN;
    PL_TRY(pl_make_ready(x->model, level, &x->m->edited, err));
    PL_TRY(find_arithmetic(x, err));
    x->pool = pl_pool_new(o->threads);
    x->in = pl_calloc(graph->n_inputs + 1, sizeof(pl_datum *));
    if (x->pool == NULL || x->in == NULL) return pl_fail_memory(err, 1);
    if (o->progress != NULL) x->progress = *o->progress;
    pl_accuracy_init(&x->accuracy);
    pl_same_options_init(&x->accuracy.same); /* PyTorch's analyze, not its repro */
    if (o->same != NULL) PL_TRY(pl_same_options_parse(o->same, &x->accuracy.same, err));
    x->accuracy.pool = x->pool;
    x->accuracy.strict = true;
    if (o->tol > 0) x->accuracy.tol = o->tol;
    const bool torch = o->profile != NULL && strcmp(o->profile, "torch") == 0;
    if (torch) x->accuracy.profile = PL_PROFILE_TORCH;
    if (o->profile != NULL && !torch && strcmp(o->profile, "plumb") != 0) {
        return pl_fail(err, PL_E_USAGE, "profile is '%s', expected plumb or torch", o->profile);
    }
    PL_TRY(pl_analysis_open_recording(x, err));
    PL_TRY(x->recording == NULL ? pl_inputs_make(x->model, x->inputs, x->in, err)
                                : pl_inputs_make_recorded(x->model, x->inputs, x->recording, false,
                                                          x->in, NULL, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (x->in[i] == NULL) continue;
        PL_TRY(pl_interp_check_input(graph->inputs[i], x->in[i], false, err));
    }
    PL_TRY(pl_analysis_open_reference(x, err));
    x->accuracy.precision =
        pl_model_precision(x->replayed, &x->accuracy.flips, &x->accuracy.floats);
    if (x->recording == NULL && o->reuse == NULL && !o->advise)
        PL_TRY(pl_two_sides_check(backend_spec(x), x->model, reference_spec(x), x->replayed, true,
                                  err));
    pl_session *s = x->session;
    pl_hash128 hash;
    char hex[PL_HASH128_HEX];
    PL_TRY(pl_model_hash(x->model, &hash, err));
    pl_hash128_hex(hash, hex);
    s->model_path = pl_analysis_keep(x, x->model->path);
    s->model_hash = pl_analysis_keep(x, hex);
    s->model_nodes = graph->n_nodes;
    PL_TRY(pl_analysis_hash_inputs(x, err));
    s->starved = pl_inputs_starve(graph, x->in);
    s->metric = pl_analysis_keep(x, o->metric == NULL ? "psnr" : o->metric);
    s->profile = torch ? "torch" : "plumb";
    s->tol = x->accuracy.tol;
    PL_TRY(pl_analysis_warn_inputs(x, err));
    PL_TRY(warn_model(x, err));
    PL_TRY(pl_analysis_diff(x, err));
    PL_TRY(pl_analysis_find_foreign(x, reference_spec(x), err));
    return pl_analysis_timed(x, "prepare", err);
}

/* ---- the runs ---- */

/* A failing backend is a result of the analysis, not an error. */
static pl_status side_failed(pl_analysis *x, pl_side_run *run, pl_side_info *info, const char *who,
                             const char *doing, const pl_err *trouble, pl_err *err) {
    if (trouble->status != PL_E_BACKEND && trouble->status != PL_E_TIMEOUT &&
        trouble->status != PL_E_UNSUPPORTED && trouble->status != PL_E_INVALID) {
        *err = *trouble;
        return trouble->status;
    }
    if (run->backend == NULL) { /* it could not even be opened: bad spec, missing library */
        *err = *trouble;
        return trouble->status;
    }
    const pl_failure *failure = pl_backend_failure(run->backend);
    info->failure = pl_analysis_keep(x, trouble->message);
    info->signal = failure != NULL && failure->happened ? failure->signal : 0;
    const char *reason =
        pl_arena_printf(x->arena, "%s failed to %s: %s", who, doing, trouble->message);
    pl_verdict_failed(x->session, reason == NULL ? "" : reason);
    return PL_OK;
}

static bool failed(const pl_analysis *x) {
    return x->session->outcome == PL_OUTCOME_FAILED;
}

pl_side_options pl_analysis_side(const pl_analysis *x, const char *spec, const char *phase) {
    const plumb_analyze_options *o = x->options;
    return (pl_side_options){ .spec = spec,
                              .file = pl_api_model_file(x->m),
                              .timeout = o->timeout,
                              .memory_limit = o->memory_limit,
                              .sandbox = o->sandbox,
                              .seed = x->inputs->seed,
                              .threads = o->threads,
                              .arithmetic = x->arithmetic,
                              .spool_memory = SPOOL_MEMORY,
                              .progress = &x->progress,
                              .phase = phase };
}

static void describe_side(pl_analysis *x, const pl_side_run *run, pl_side_info *info) {
    info->spec = pl_analysis_keep(x, run->options.spec);
    info->backend =
        run->backend == NULL ? info->spec : pl_analysis_keep(x, pl_backend_name(run->backend));
    info->version =
        run->backend == NULL ? "" : pl_analysis_keep(x, pl_backend_version(run->backend));
    if (run->backend != NULL) {
        char cpu[PL_CPU_TEXT];
        pl_cpu_features_text(pl_backend_cpu(run->backend), cpu, sizeof(cpu));
        info->cpu = pl_analysis_keep(x, cpu);
        info->sandbox = pl_backend_sandbox(run->backend);
        info->device = pl_analysis_keep(x, pl_backend_device(run->backend));
    }
}

/* Which node runs where. Optional: a backend may not know. */
static pl_status read_placement(pl_analysis *x, const pl_side_run *run, pl_side_info *info,
                                pl_err *err) {
    const char *text = "";
    pl_err trouble = PL_ERR_INIT;
    pl_status st = pl_program_placement(run->program, &text, &trouble);
    if (st == PL_OK) st = pl_placement_parse(text, x->arena, &info->placement, &trouble);
    if (st == PL_OK || st == PL_E_MEMORY) return st;
    return pl_analysis_note(x, err, "where the nodes ran is not known: %.300s", trouble.message);
}

static pl_status say_unstable(pl_analysis *x, const pl_side_run *run, const char *who,
                              pl_err *err) {
    if (run->unstable == NULL) return PL_OK;
    pl_buf_printf(x->lines, "NONDETERMINISTIC %s at %s (%s)\n", who, run->unstable->name,
                  run->difference);
    const pl_node *random = pl_random_source(run->unstable);
    const char *reason =
        random == NULL
            ? pl_arena_printf(x->arena,
                              "%s returned a different '%s' when run again on the same inputs", who,
                              run->unstable->name)
            : pl_arena_printf(
                  x->arena,
                  "%s returned a different '%s' when run again on the same inputs: %s '%s' "
                  "draws random numbers (give it a seed, or evaluate Dropout as in inference)",
                  who, run->unstable->name, random->op, pl_node_label(random));
    if (reason == NULL) return pl_fail_memory(err, 1);
    pl_verdict_unstable(x->session, pl_analysis_keep(x, run->unstable->name), reason);
    return PL_OK;
}

/* Starts a step of one side and shows its name in the progress bar. */
static pl_status begin(pl_analysis *x, pl_side_run *run, const char *before, const char *name,
                       const char *after, pl_err *err) {
    const char *phase = pl_arena_printf(x->arena, "%s %s%s", before, name, after);
    if (phase == NULL) return pl_fail_memory(err, 1);
    run->options.phase = phase;
    return pl_progress_step(&x->progress, phase, 0, 0, err);
}

/* Weights that were read (hashed) stay in the file, and not in memory beside the copies that A
 * makes of them. */
static void forget_weights(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_values; i++)
        if (model->graph->values[i]->init != NULL) pl_tensor_forget(model->graph->values[i]->init);
}

/* One side: compile, plain run, recorded run, second recorded run. */
static pl_status run_side(pl_analysis *x, pl_side_run *run, pl_side_info *info, const char *spec,
                          const char *who, const char *name, pl_err *err) {
    const bool is_a = run == &x->a;
    pl_model *model = is_a ? x->model : x->replayed;
    pl_datum *const *in = is_a ? x->in : x->replayed_in;
    pl_side_options options = pl_analysis_side(x, spec, name);
    options.record_is_plain = !is_a;
    if (is_a && x->lender != NULL) {
        options.backend = x->lender->backend;
        options.program = x->lender->program;
    }
    if (!is_a && x->reference_model != NULL) options.file = pl_api_model_file(x->reference_model);
    pl_err trouble = PL_ERR_INIT;
    const char *doing = "compile";
    PL_TRY(begin(x, run, "compiling", name, "", err));
    if (is_a) forget_weights(model);
    pl_status st = pl_side_run_init(run, model, &options, &trouble);
    run->wants = is_a ? NULL : pl_analysis_a_has;
    run->wants_ctx = x;
    describe_side(x, run, info);
    if (st == PL_OK) {
        PL_TRY(timed_side(x, "compile", name, err));
        PL_TRY(begin(x, run, "running", name, "", err));
        doing = "run";
        st = pl_side_run_plain(run, in, &trouble);
    }
    if (st == PL_OK) {
        PL_TRY(timed_side(x, "run", name, err));
        PL_TRY(begin(x, run, "recording", name, "", err));
        doing = "record";
        st = pl_side_run_record(run, in, &trouble);
    }
    if (st == PL_OK && !x->options->skip_determinism) {
        PL_TRY(timed_side(x, "record", name, err));
        PL_TRY(begin(x, run, "checking that", name, " is deterministic (run 2)", err));
        doing = "run again";
        st = pl_side_run_repeat(run, in, &trouble);
    }
    if (st != PL_OK) return side_failed(x, run, info, who, doing, &trouble, err);
    PL_TRY(read_placement(x, run, info, err));
    if (is_a) {
        info->precision_profile = run->arithmetic->name;
        if (run->arithmetic->storage > 0 && x->accuracy.precision < PL_PRECISION_F16)
            x->accuracy.precision = PL_PRECISION_F16;
    }
    const char *last = x->options->skip_determinism ? "record" : "determinism";
    PL_TRY(timed_side(x, last, name, err));
    return say_unstable(x, run, name, err);
}

/* Notes the effect of recording on A. */
static pl_status say_disturbed(pl_analysis *x, pl_err *err) {
    const pl_side_run *a = &x->a;
    const char *const *modes = pl_backend_record_modes(a->backend);
    const char *spec = pl_backend_spec(a->backend), *note = "";
    if (a->observer_effect && a->unstable != NULL) { /* it is unstable without recording, too */
        x->session->observer_effect = false;
        return PL_OK;
    }
    x->session->observer_effect = a->observer_effect;
    if (a->outputs_differ) {
        note = pl_arena_printf(
            x->arena, "recording changed the outputs of %s; the verdict is about the recorded run",
            spec);
    } else if (a->info.differs) {
        note = pl_arena_printf(
            x->arena,
            "every way to record changed the outputs of %s; only its outputs were compared", spec);
    } else if (a->observer_effect && a->marked) {
        note = "marking values as outputs changes what this backend computes";
    } else if (a->observer_effect && modes != NULL && modes[0] != NULL) {
        note = pl_arena_printf(x->arena,
                               "recording in mode '%s' changed the outputs; mode '%s' does not",
                               modes[0], modes[a->mode]);
    }
    if (note == NULL) return pl_fail_memory(err, 1);
    x->session->observer_note = note;
    return PL_OK;
}

static pl_status say_observer(pl_analysis *x, pl_err *err) {
    const pl_side_run *a = &x->a;
    PL_TRY(say_disturbed(x, err));
    if (*a->record_trouble != '\0') {
        PL_TRY(pl_analysis_note(
            x, err, "only the outputs were compared: the model runs, but recording it failed (%s)",
            a->record_trouble));
    }
    if (a->marked) {
        PL_TRY(
            pl_analysis_note(x, err,
                             "%s exposes no intermediate values: plumb marked %zu as outputs, in "
                             "%zu run%s; the model's outputs did not change",
                             pl_backend_spec(a->backend), a->info.n_seen, a->info.n_runs,
                             pl_plural(a->info.n_runs)));
    }
    if (a->info.n_hidden > 0) {
        PL_TRY(pl_analysis_note(x, err,
                                "not recorded: %zu value%s in the bodies of If, Loop or Scan",
                                a->info.n_hidden, pl_plural(a->info.n_hidden)));
    }
    if (a->info.n_disturbed > 0) {
        PL_TRY(pl_analysis_note(x, err, "not recorded: %zu value%s, because %s",
                                a->info.n_disturbed, pl_plural(a->info.n_disturbed),
                                a->refused ? "the backend rejects models with these outputs"
                                           : "recording changes the outputs"));
    }
    if (a->n_unknown > 0) {
        PL_TRY(pl_analysis_note(
            x, err, "without a name in the model: %zu value%s of the graph that %s executes",
            a->n_unknown, pl_plural(a->n_unknown), pl_backend_name(a->backend)));
    }
    return PL_OK;
}

/* Every value of gold, before it is freed. */
static pl_status on_gold(void *ctx, const pl_value *value, const pl_datum *gold, pl_err *err) {
    return pl_analysis_reach(ctx, value, gold, err);
}

/* The same bits again, or the reference cannot be trusted. */
static void say_gold(pl_analysis *x) {
    const pl_value *unstable = x->blame.gold_unstable;
    if (unstable == NULL) return;
    pl_buf_printf(x->lines, "NONDETERMINISTIC FLOAT64 at %s (hash)\n", unstable->name);
    pl_verdict_unstable(x->session, NULL, "the fp64 run is not deterministic");
}

/* A quantised decoder against its float source: every layer is off, and the effect of each ranks
 * them. An effect costs a run in fp64; large models get the usual few. */
static size_t effects_of(const pl_analysis *x) {
    const pl_graph *g = x->replayed->graph;
    double weights = 0;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i]->init != NULL) weights += (double)g->values[i]->init->n_elements;
    return weights * (double)MANY_EFFECTS < MAX_EFFECT_WORK ? MANY_EFFECTS : 0;
}

static bool is_quantised_decoder(const pl_analysis *x) {
    const pl_value *logits = pl_graph_find(x->replayed->graph, "logits");
    return x->reference_model != NULL && logits != NULL && logits->is_output &&
           pl_model_has_flag(x->model, PL_OP_LEVELS | PL_OP_DEQUANTIZE) &&
           !pl_model_has_flag(x->replayed, PL_OP_LEVELS | PL_OP_DEQUANTIZE);
}

static pl_status blame(pl_analysis *x, pl_err *err) {
    /* By default everything is kept if it is small enough. */
    if (x->options->save == NULL) x->keep_all = 2 * pl_spool_bytes(x->a.spool) < SAVE_ALL_BELOW;
    const pl_run_data a = pl_analysis_run_data(x, &x->a), b = pl_analysis_reference_data(x);
    const bool quantised = is_quantised_decoder(x);
    const pl_blame_options options = { .pool = x->pool,
                                       .max_effects = quantised ? effects_of(x) : 0,
                                       .by_logits = quantised,
                                       .seed = x->inputs->seed,
                                       .skip_gold = x->options->skip_gold != 0,
                                       .b_is_truth = x->recording != NULL,
                                       .gold_twice = !x->options->skip_determinism,
                                       .culprit = pl_analysis_culprit,
                                       .visit = pl_analysis_judged,
                                       .gold = x->options->skip_determinism ? NULL : on_gold,
                                       .unseen = x->recording != NULL         ? pl_analysis_unseen
                                                 : x->reference_model != NULL ? pl_quant_clip
                                                                              : NULL,
                                       .visit_ctx = x,
                                       .progress = &x->progress };
    pl_model *judged = x->lowered != NULL ? x->lowered : x->replayed;
    pl_datum *const *in = x->lowered != NULL ? x->lowered_in : x->replayed_in;
    PL_TRY(pl_blame_run(judged, in, &a, &b, &options, &x->blame, err));
    PL_TRY(pl_analysis_timed(x, "fp64 run, replay and blame", err));
    say_gold(x);
    PL_TRY(pl_analysis_name_members(x, err));
    PL_TRY(pl_analysis_quantised(x, err));
    PL_TRY(pl_analysis_settle(x, err));
    PL_TRY(pl_analysis_routing(x, err));
    pl_analysis_drop_outputs(x);
    return PL_OK;
}

/* If eager cannot run on the generated inputs either, the inputs are bad, not the backend. */
static pl_status check_inputs(pl_analysis *x, const pl_side_run *run, pl_err *err) {
    const bool is_a = run == &x->a;
    if (x->recording != NULL) return PL_OK;
    return pl_inputs_doubt(is_a ? x->model : x->replayed, x->inputs, is_a ? x->in : x->replayed_in,
                           run->backend, x->pool,
                           pl_clock_ns() + PL_DOUBT_SECONDS * INT64_C(1000000000), err);
}

static pl_status run_all(pl_analysis *x, pl_err *err) {
    PL_TRY(prepare(x, err));
    if (x->options->reuse != NULL) {
        PL_TRY(pl_analysis_reuse(x, err));
    } else {
        PL_TRY(run_side(x, &x->a, &x->session->a, backend_spec(x), "the backend under test", "A",
                        err));
        if (failed(x)) {
            PL_TRY(check_inputs(x, &x->a, err));
            if (!x->options->skip_search) PL_TRY(pl_analysis_blame_failure(x, err));
            return pl_analysis_bisect(x, err);
        }
        PL_TRY(say_observer(x, err));
        if (x->alone) pl_side_run_finish(&x->a);
    }
    PL_TRY(pl_analysis_pair(x, err));
    if (x->recording == NULL && x->foreign == NULL) {
        PL_TRY(run_side(x, &x->b, &x->session->b, reference_spec(x), "the reference", "B", err));
        if (failed(x)) return check_inputs(x, &x->b, err);
    }
    PL_TRY(pl_analysis_find_precision(x, err));
    PL_TRY(blame(x, err));
    PL_TRY(pl_analysis_search_parts(x, err));
    return pl_analysis_bisect(x, err);
}

/* ---- the session folder ---- */

static pl_status open_folder(const plumb_analyze_options *o, pl_session_folder **out, pl_err *err) {
    if (o->save != NULL && strcmp(o->save, "all") != 0 && strcmp(o->save, "suspects") != 0 &&
        strcmp(o->save, "none") != 0) {
        return pl_fail(err, PL_E_USAGE, "save is '%s', expected all, suspects or none", o->save);
    }
    return o->output == NULL ? PL_OK : pl_session_folder_new(o->output, out, err);
}

static pl_status commit_folder(pl_session_folder **taken, const pl_analysis *x, pl_err *err) {
    pl_session_folder *folder = *taken;
    const pl_session *session = x->session;
    if (folder == NULL) return PL_OK;
    *taken = NULL;
    pl_status st = pl_session_folder_put_model(folder, x->model, x->options->pack, err);
    if (st == PL_OK && x->reference_model != NULL)
        st = pl_session_folder_put_reference(folder, x->replayed, x->options->pack, err);
    if (st != PL_OK) {
        pl_session_folder_abort_take(folder);
        return st;
    }
    return pl_session_folder_commit_take(folder, session, err);
}

static void analysis_release(pl_analysis *x) {
    for (size_t i = 0; x->in != NULL && i < x->model->graph->n_inputs; i++)
        pl_datum_unref(x->in[i]);
    pl_free(x->in);
    pl_side_run_release(&x->a);
    pl_side_run_release(&x->b);
    pl_analysis_drop_outputs(x);
    pl_analysis_drop_choices(x);
    pl_blame_release(&x->blame);
    pl_blame_release(&x->own_blame);
    pl_analysis_close_reference(x);
    pl_session_free(x->session);
    pl_pool_free(x->pool);
}

/* State of one call: one analysis for each sample, merged into the first. */
typedef struct analyses {
    pl_arena *arena;
    pl_analysis *of;
    size_t n;
    pl_session_folder *folder;
    pl_buf lines;
    pl_model *original; /* before autocast; NULL = the model itself */
    pl_node **twins;    /* of `original`'s nodes, by index */
    pl_peak *peak;
} analyses;

/* Autocast changes the model; the original is kept for the advice. */
static pl_status transform(analyses *all, plumb_model *m, const plumb_analyze_options *o,
                           pl_err *err) {
    const plumb_transform_options options = { .amp = o->amp };
    if (o->advise_out != NULL && pl_path_exists(o->advise_out)) { /* checked before the long work */
        return pl_fail(err, PL_E_EXISTS, "'%s' already exists", o->advise_out);
    }
    if (o->amp == NULL) return PL_OK;
    PL_TRY(pl_make_ready(m->model, PL_READY_LOWERED, &m->edited, err));
    const pl_graph *graph = m->model->graph;
    const size_t n = graph->n_nodes;
    PL_TRY(pl_model_copy(m->model, &all->original, err));
    PL_TRY(pl_make_ready(all->original, PL_READY_TYPED, NULL, err));
    all->twins = pl_arena_array(all->arena, n + 1, sizeof(pl_node *));
    if (all->twins == NULL) return pl_fail_memory(err, n);
    if (n > 0) memcpy(all->twins, graph->nodes, n * sizeof(pl_node *));
    m->edited = true;
    return pl_transform(m->model, &options, NULL, err);
}

static pl_status advise(analyses *all, const plumb_analyze_options *o, pl_err *err) {
    const pl_advise_options options = {
        .original = all->original, .twins = all->twins, .amp = o->amp, .out = o->advise_out
    };
    if (!o->advise) return PL_OK;
    all->of[0].started = pl_api_seconds();
    return pl_advise(all->of, all->n, &options, err);
}

/* The cost of quantisation and, if asked for, what to do about it. */
static pl_status weigh_layers(analyses *all, const plumb_analyze_options *o, pl_err *err) {
    pl_analysis *first = &all->of[0];
    const char *why = NULL;
    pl_mixed mixed;
    if (failed(first) || (o->skip_search && !o->advise) || o->amp != NULL)
        return advise(all, o, err);
    first->started = pl_api_seconds();
    pl_status st = pl_mixed_open(&mixed, all->of, all->n, &why, err);
    if (st == PL_OK) st = pl_quant_table(&mixed, why, err);
    const pl_quantisation *q = first->session->quant;
    const bool layers = q != NULL && q->n_rows > 0;
    /* With a float model there is more to gain than avoiding clipped products: choose layers,
     * too. */
    const bool more = layers && first->reference_model != NULL;
    if (st == PL_OK && o->advise && pl_advise_is_saturated(first->session))
        st = pl_advise_saturated(all->of, all->n, more ? NULL : o->advise_out,
                                 &mixed.unsigned_weights, err);
    if (mixed.unsigned_weights && !more) {
        st = st == PL_OK ? pl_analysis_timed(first, "advice", err) : st;
    } else if (st == PL_OK && o->advise && layers) {
        const pl_advise_options options = { .out = o->advise_out };
        st = pl_advise_layers(&mixed, &options, err);
    } else if (st == PL_OK) {
        st = advise(all, o, err);
    }
    pl_mixed_close(&mixed);
    return st;
}

static const char *metric_at(const void *ctx, size_t i) {
    (void)ctx;
    return i < pl_n_metrics ? pl_metrics[i].name : NULL;
}

static pl_status check_metric(const plumb_analyze_options *o, pl_err *err) {
    pl_buf hint = PL_BUF_INIT;
    if (o->advise_metric != NULL && strcmp(o->advise_metric, "top1") != 0 &&
        strcmp(o->advise_metric, "metric") != 0)
        return pl_fail(err, PL_E_USAGE, "advise metric is '%s', expected top1 or metric",
                       o->advise_metric);
    if (o->metric == NULL || pl_metric_find(o->metric) != NULL) return PL_OK;
    pl_nearest_put(&hint, o->metric, strlen(o->metric), metric_at, NULL);
    const pl_status st = pl_fail(err, PL_E_USAGE, "no metric '%s'%s", o->metric, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

/* The first sample's run of A, whose program serves the others: a device compiles its shaders once.
 * NULL if there is none, or a sample has broken it. */
static const pl_side_run *lender_of(const analyses *all, const plumb_inputs *first,
                                    const plumb_inputs *next) {
    if (next == first || next->seed != first->seed || all->of[0].a.program == NULL) return NULL;
    for (size_t i = 0; i + 1 < all->n; i++)
        if (failed(&all->of[i])) return NULL;
    return &all->of[0].a;
}

static pl_status run_samples(analyses *all, plumb_model *m, const plumb_analyze_options *o,
                             pl_err *err) {
    plumb_inputs *samples = NULL;
    size_t n = 0;
    PL_TRY(pl_inputs_samples(o->inputs, all->arena, &samples, &n, err));
    all->of = pl_arena_array(all->arena, n, sizeof(pl_analysis));
    if (all->of == NULL) return pl_fail_memory(err, n);
    PL_TRY(check_metric(o, err));
    PL_TRY(pl_analysis_check_baseline(o, err));
    PL_TRY(transform(all, m, o, err));
    PL_TRY(open_folder(o, &all->folder, err));
    for (size_t i = 0; i < n; i++) {
        pl_analysis *x = &all->of[all->n++];
        *x = (pl_analysis){ .m = m,
                            .model = m->model,
                            .options = o,
                            .inputs = &samples[i],
                            .sample = i,
                            .alone = n == 1,
                            .lender = lender_of(all, &samples[0], &samples[i]),
                            .folder = all->folder,
                            .keep_all = o->save == NULL || strcmp(o->save, "all") == 0,
                            .lines = &all->lines,
                            .started = pl_api_seconds() };
        x->keep_suspects = x->keep_all || strcmp(o->save, "suspects") == 0;
        PL_TRY(pl_session_new(&x->session, err));
        PL_TRY(run_all(x, err));
        if (i > 0) {
            PL_TRY(pl_analysis_merge(all->of[0].session, x->session, i, x->recording != NULL, err));
        }
        pl_side_run_release(&x->b); /* frees memory: there may be many samples */
        if (i > 0 && !o->advise) pl_side_run_release(&x->a);
    }
    pl_session *s = all->of[0].session;
    s->n_samples = n;
    PL_TRY(pl_analysis_cover(s, err));
    PL_TRY(weigh_layers(all, o, err));
    pl_side_run_release(&all->of[0].a); /* a child counts once it has ended */
    s->peak_rss = pl_peak_stop(all->peak);
    all->peak = NULL;
    PL_TRY(pl_analysis_accept(s, o, all->of[0].recording != NULL, &all->lines, err));
    return commit_folder(&all->folder, &all->of[0], err);
}

static pl_status copy_session(analyses *all, pl_session **out, pl_err *err) {
    pl_session *s = all->of[0].session;
    s->lines = pl_buf_str(&all->lines);
    return pl_buf_ok(&all->lines) ? pl_session_copy(s, out, err) : pl_fail_memory(err, 1);
}

pl_status pl_analyze(plumb_model *m, const plumb_analyze_options *options, pl_session **out,
                     pl_err *err) {
    analyses all = { .arena = pl_arena_new(), .lines = PL_BUF_INIT };
    pl_status st = all.arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
    pl_blocks_keep();
    all.peak = pl_peak_start();
    if (st == PL_OK) st = run_samples(&all, m, options, err);
    if (all.peak != NULL) (void)pl_peak_stop(all.peak);
    if (st == PL_OK) st = copy_session(&all, out, err);
    pl_buf_release(&all.lines);
    pl_session_folder_abort_take(all.folder);
    for (size_t i = 0; i < all.n; i++)
        analysis_release(&all.of[i]);
    pl_model_free(all.original);
    pl_arena_free(all.arena);
    pl_blocks_release();
    return st;
}
