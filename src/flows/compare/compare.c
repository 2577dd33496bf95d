/* The compare flow: open or record both sides, pair, measure, trace, baseline; then the session and
 * the table. */
#include "flows/compare/compare.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "backends/plugin_metrics.h"
#include "base/alloc.h"
#include "base/count.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/process.h"
#include "base/same_file.h"
#include "blame/sync.h"
#include "flows/analyze/quant_answer.h"
#include "flows/compare/compare_blame.h"
#include "flows/compare/compare_pieces.h"
#include "flows/compare/compare_routing.h"
#include "flows/compare/compare_side.h"
#include "flows/compare/compare_weights.h"
#include "flows/provenance.h"
#include "flows/two_sides.h"
#include "metric/same.h"
#include "session/baseline.h"
#include "session/lost_calls.h"
#include "session/session_write.h"
#include "session/verdict.h"

enum { MAX_TIMING = 8 };

typedef struct comparison {
    const plumb_compare_options *options;
    pl_compare_side side[2];
    pl_session *session;
    pl_pool *pool;
    pl_progress progress;
    pl_limits *limits;
    pl_baseline *baseline;
    pl_pair_map map;
    bool has_map;
    pl_plugin_metrics plugins;
    pl_sync_options sync;
    pl_pairing pairing;
    bool paired;
    pl_session_folder *folder;
    pl_buf notes;
    double started;
    pl_ranks *ranks; /* of an MPI job; NULL = alone */
    pl_pieces *pieces;
    bool told; /* the other ranks have been heard, or told why not */
} comparison;

static bool is_helper(const comparison *c) {
    return c->ranks != NULL && pl_ranks_rank(c->ranks) != 0;
}

static pl_status timed(comparison *c, const char *phase, pl_err *err) {
    pl_session *s = c->session;
    if (s->timing == NULL) s->timing = pl_arena_array(s->arena, MAX_TIMING, sizeof *s->timing);
    if (s->timing == NULL) return pl_fail_memory(err, 1);
    const double now = pl_api_seconds();
    if (s->n_timing < MAX_TIMING)
        s->timing[s->n_timing++] = (pl_timing_entry){ phase, now - c->started };
    c->started = now;
    return PL_OK;
}

/* ---- what was asked ---- */

static pl_status read_rule(comparison *c, pl_err *err) {
    const plumb_compare_options *o = c->options;
    pl_judge *j = &c->sync.judge;
    if (o->profile != NULL && !pl_profile_parse(o->profile, &j->profile))
        return pl_fail(err, PL_E_USAGE, "profile is '%s', expected plumb or torch", o->profile);
    if (o->same != NULL && j->profile != PL_PROFILE_TORCH)
        return pl_fail(err, PL_E_USAGE, "option 'same' requires option 'profile' torch");
    j->tol = o->has_tol ? o->tol : (double)NAN;
    pl_same_options_init(&j->same);
    if (o->has_tol) j->same.tol = o->tol;
    if (o->same != NULL) PL_TRY(pl_same_options_parse(o->same, &j->same, err));
    /* A plugin's metric only sorts; plumb's own give the colours. */
    const pl_metric *m = pl_metric_find(o->metric != NULL ? o->metric : "psnr");
    j->metric = m != NULL ? m : pl_metric_find("psnr");
    return PL_OK;
}

static const char *metric_at(const void *ctx, size_t i) {
    const comparison *c = ctx;
    if (i < pl_n_metrics) return pl_metrics[i].name;
    return i - pl_n_metrics < c->plugins.n_rows ? c->plugins.rows[i - pl_n_metrics]->name : NULL;
}

static pl_status check_metric(const comparison *c, pl_err *err) {
    const char *name = c->options->metric;
    if (name == NULL || pl_metric_find(name) != NULL) return PL_OK;
    for (size_t i = 0; i < c->plugins.n_rows; i++)
        if (strcmp(c->plugins.rows[i]->name, name) == 0) return PL_OK;
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, name, strlen(name), metric_at, c);
    const pl_status st = pl_fail(err, PL_E_USAGE, "no metric '%s'%s", name, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

/* Checks all options before the long work starts. */
static pl_status prepare(comparison *c, pl_err *err) {
    const plumb_compare_options *o = c->options;
    PL_TRY(read_rule(c, err));
    for (size_t i = 0; i < o->n_plugins; i++)
        PL_TRY(pl_plugin_metrics_load(&c->plugins, o->plugins[i], err));
    PL_TRY(check_metric(c, err));
    if (o->limits != NULL) PL_TRY(pl_limits_open(o->limits, &c->limits, err));
    if (o->baseline != NULL) PL_TRY(pl_baseline_open(o->baseline, &c->baseline, err));
    if (o->map != NULL) {
        PL_TRY(pl_pair_map_open(o->map, &c->map, err));
        c->has_map = true;
    }
    /* With ranks, the launcher decides how many CPUs are busy. */
    c->pool = pl_pool_new(c->ranks != NULL && o->threads == 0 ? 1 : o->threads);
    if (c->pool == NULL) return pl_fail_memory(err, 1);
    if (o->progress != NULL) c->progress = *o->progress;
    c->sync.judge.limits = c->limits;
    c->sync.pair = (pl_pair_options)PL_PAIR_OPTIONS_INIT;
    c->sync.pair.map = c->has_map ? &c->map : NULL;
    c->sync.pair.keep_views = o->keep_views != 0;
    c->sync.pair.strict = o->strict_pairs != 0;
    c->sync.pool = c->pool;
    c->sync.progress = &c->progress;
    c->sync.user_metrics = c->plugins.rows;
    c->sync.n_user_metrics = c->plugins.n_rows;
    c->sync.details = o->details;
    c->sync.n_details = o->n_details;
    c->sync.probe = o->output != NULL;
    c->sync.ranks = c->ranks;
    if (o->output != NULL && !is_helper(c))
        PL_TRY(pl_session_folder_new(o->output, &c->folder, err));
    return pl_session_new(&c->session, err);
}

/* ---- sides ---- */

static pl_status record_side(comparison *c, int i, pl_err *err) {
    const plumb_compare_options *o = c->options;
    const bool both = c->side[0].is_model && c->side[1].is_model;
    const plumb_record_options record = { .inputs = o->inputs,
                                          .backend = i == 1 && both ? o->reference : o->backend,
                                          .timeout = o->timeout,
                                          .memory_limit = o->memory_limit,
                                          .sandbox = o->sandbox,
                                          .threads = o->threads,
                                          .progress = o->progress };
    return pl_compare_side_record(&c->side[i], &record, c->side[1 - i].recording, &c->notes, err);
}

static pl_status take_weights(comparison *c, pl_err *err) {
    const char *path = c->options->weights;
    const int i = c->side[0].is_model ? 0 : 1;
    if (path == NULL) return PL_OK;
    if (!c->has_map) PL_TRY(pl_pair_map_new(&c->map, err));
    c->has_map = true;
    c->sync.pair.map = &c->map;
    return pl_compare_take_weights(&c->side[i], c->side[1 - i].recording, i, path, &c->map,
                                   &c->notes, err);
}

/* Rejects options for running a model if there is no model to run. */
static pl_status check_options(const comparison *c, pl_err *err) {
    const plumb_compare_options *o = c->options;
    const plumb_inputs *in = o->inputs;
    const bool one = c->side[0].is_model || c->side[1].is_model;
    const char *unused = NULL;
    if (o->reference != NULL && !(c->side[0].is_model && c->side[1].is_model))
        return pl_fail(err, PL_E_USAGE, "option 'reference' requires a model on both sides");
    if (o->weights != NULL && c->side[0].is_model == c->side[1].is_model)
        return pl_fail(err, PL_E_USAGE, "option 'weights' requires a recording and a model");
    if (one) return PL_OK;
    if (in->n_files + in->n_samples > 0) unused = "input";
    if (in->n_sets > 0) unused = "inputs";
    if (in->n_dims > 0) unused = "dim";
    if (in->n_ranges > 0) unused = "range";
    if (in->fill != PLUMB_FILL_RANDOM) unused = "fill";
    if (in->seed != 0) unused = "seed";
    if (o->backend != NULL) unused = "backend";
    if (unused == NULL) return PL_OK;
    return pl_fail(err, PL_E_USAGE, "option '%s' requires a model; A and B are recordings", unused);
}

/* Comparing a computation with itself would always agree. */
static pl_status check_sides(const comparison *c, pl_err *err) {
    const plumb_compare_options *o = c->options;
    if (!c->side[0].is_model && !c->side[1].is_model &&
        pl_same_file(c->side[0].path, c->side[1].path))
        return pl_fail(err, PL_E_USAGE,
                       "'%s' and '%s' are one file, so there is nothing to compare",
                       c->side[0].path, c->side[1].path);
    if (!c->side[0].is_model || !c->side[1].is_model) return PL_OK;
    return pl_two_sides_check(pl_backend_spec_or_default(o->backend), c->side[0].model->model,
                              pl_backend_spec_or_default(o->reference), c->side[1].model->model,
                              true, err);
}

/* Raw element files take type and shape from the value of the same name. */
static void retype(pl_compare_side *raw, const pl_compare_side *by) {
    for (size_t i = 0; i < by->recording->n_records; i++) {
        const pl_record *r = &by->recording->records[i];
        if (r->has_shape) pl_recording_retype(raw->recording, r->key, r->dtype, r->rank, r->dims);
    }
}

/* The ranks tell each other what they see, also when this one has failed. */
static pl_status open_pieces(comparison *c, const char *const paths[2], pl_status st, pl_err *err) {
    pl_err why = PL_ERR_INIT;
    if (c->ranks == NULL) return st;
    if (st != PL_OK && err != NULL) why = *err;
    st = pl_pieces_open(c->ranks, paths, c->side, &c->progress, st, &why, &c->pieces, err);
    c->told = st != PL_OK;
    return st;
}

static pl_status open_sides(comparison *c, const char *a, const char *b, pl_err *err) {
    if (c->side[0].recording == NULL) PL_TRY(pl_compare_side_open(&c->side[0], a, err));
    if (c->side[1].recording == NULL) PL_TRY(pl_compare_side_open(&c->side[1], b, err));
    PL_TRY(timed(c, "open", err));
    PL_TRY(check_options(c, err));
    PL_TRY(check_sides(c, err));
    PL_TRY(take_weights(c, err));
    for (int i = 0; i < 2; i++)
        if (c->side[i].is_model) PL_TRY(record_side(c, i, err));
    if (c->side[0].is_model || c->side[1].is_model) PL_TRY(timed(c, "record", err));
    retype(&c->side[0], &c->side[1]);
    retype(&c->side[1], &c->side[0]);
    for (int i = 0; c->has_map && i < 2; i++)
        PL_TRY(pl_pair_map_expand(&c->map, i, c->side[i].recording, err));
    PL_TRY(pl_compare_side_describe(&c->side[0], c->session, &c->session->a, err));
    return pl_compare_side_describe(&c->side[1], c->session, &c->session->b, err);
}

/* ---- comparing ---- */

static pl_status check_paired(const comparison *c, pl_err *err) {
    const pl_pairing *p = &c->pairing;
    if (p->n_pairs > 0) return PL_OK;
    return pl_fail(err, PL_E_INVALID,
                   "nothing could be paired: %zu value%s in '%s', %zu in '%s'%s%s",
                   c->side[0].recording->n_records, pl_plural(c->side[0].recording->n_records),
                   c->side[0].path, c->side[1].recording->n_records, c->side[1].path,
                   p->n_unpaired_a > 0 ? ", the first: " : "",
                   p->n_unpaired_a > 0 ? p->unpaired_a[0].reason : "");
}

static pl_status write_map(const comparison *c, const pl_sync_side *a, const pl_sync_side *b,
                           pl_err *err) {
    pl_arena *arena = pl_arena_new();
    pl_pair_side sides[2];
    pl_buf text = PL_BUF_INIT;
    pl_status st = arena == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) st = pl_pair_side_of_recording(a->recording, a->model, arena, &sides[0], err);
    if (st == PL_OK) st = pl_pair_side_of_recording(b->recording, b->model, arena, &sides[1], err);
    if (st == PL_OK) st = pl_pair_map_print(&c->pairing, &sides[0], &sides[1], &text, err);
    if (st == PL_OK) st = pl_file_write(c->options->export_map, text.data, text.n_bytes, err);
    pl_buf_release(&text);
    pl_arena_free(arena);
    return st;
}

/* Drops accepted entries from the blame list. */
static void drop_accepted_blame(pl_session *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_blame; i++) {
        bool accepted = false;
        for (size_t k = 0; k < s->n_points; k++)
            accepted = accepted || (s->points[k].accepted &&
                                    strcmp(s->points[k].value, s->blame[i].value) == 0);
        if (!accepted) s->blame[n++] = s->blame[i];
    }
    s->n_blame = n;
}

static pl_status apply_baseline(comparison *c, pl_err *err) {
    const char *path = c->options->write_baseline;
    pl_session *s = c->session;
    size_t n_unused = 0;
    if (c->baseline != NULL) {
        PL_TRY(pl_baseline_apply(c->baseline, s, &n_unused, err));
        if (n_unused > 0)
            pl_buf_printf(&c->notes, "no longer needed in the baseline: %zu value%s\n", n_unused,
                          pl_plural(n_unused));
    }
    if (path != NULL) {
        pl_buf text = PL_BUF_INIT;
        pl_baseline_put(s, &text);
        const pl_status st = pl_buf_ok(&text) ? pl_file_write(path, text.data, text.n_bytes, err)
                                              : pl_fail_memory(err, text.n_bytes);
        pl_buf_release(&text);
        PL_TRY(st);
        for (size_t i = 0; i < s->n_points; i++)
            if (pl_sync_point_is_bad(&s->points[i])) s->points[i].accepted = true;
    }
    drop_accepted_blame(s);
    return PL_OK;
}

/* With a model, explains divergences by replaying. */
static pl_status replay(comparison *c, pl_err *err) {
    const pl_session *s = c->session;
    size_t n_bad = 0;
    PL_TRY(pl_compare_routing(c->side, c->session, err));
    for (size_t i = 0; i < s->n_points; i++)
        n_bad += pl_sync_point_is_bad(&s->points[i]) && !s->points[i].is_input;
    /* Rounding to 8 bits has a wide tolerance; what is left with the engine's own weights has not.
     */
    if (n_bad == 0 && c->options->weights == NULL) return PL_OK;
    if (!c->side[0].is_model && !c->side[1].is_model) return PL_OK;
    return pl_compare_blame(c->side, c->side[0].is_model ? 0 : 1, c->pool, c->options->inputs->seed,
                            &c->progress, c->session, &c->notes, err);
}

/* A run of a model against a recording: if the run computed correctly and the recording differs,
 * the model is at fault. */
static bool is_truth(const comparison *c) {
    return c->side[0].is_model && !c->side[1].is_model;
}

static pl_status trace_truth(comparison *c, pl_err *err) {
    pl_session *s = c->session;
    if (is_truth(c)) PL_TRY(pl_lost_calls_read(s, c->side[1].recording->exported, err));
    for (size_t i = 0; is_truth(c) && i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        if (!pl_sync_point_is_bad(p) || p->is_input || p->facts.local != PL_FACT_YES ||
            p->facts.bad_inputs == PL_FACT_YES)
            continue;
        p->model_wrong = true;
        p->facts.bad_inputs = PL_FACT_UNKNOWN;
        pl_verdict_decide(p);
        p->reason =
            pl_arena_printf(s->arena, "the model does not reproduce the recording: %s", p->reason);
        if (p->reason == NULL) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

static pl_status conclude(comparison *c, pl_err *err) {
    const pl_claim claim = {
        .every_value = true,
        .truth = is_truth(c),
        .only_claimed = true,
        .advice = "option 'export-map' lists the candidates, option 'map' pairs by hand",
    };
    return pl_verdict_conclude(c->session, &claim, err);
}

static pl_status check_details(const comparison *c, pl_err *err) {
    const pl_session *s = c->session;
    for (size_t i = 0; i < c->options->n_details; i++) {
        size_t k = 0;
        while (k < s->n_points && (strcmp(s->points[k].value, c->options->details[i]) != 0 ||
                                   s->points[k].verdict == PL_VERDICT_UNPAIRED))
            k++;
        if (k == s->n_points)
            return pl_fail(err, PL_E_NOT_FOUND, "A has no paired value '%s'",
                           c->options->details[i]);
    }
    return PL_OK;
}

static pl_status compare(comparison *c, pl_err *err) {
    const pl_sync_side a = { c->side[0].recording,
                             c->side[0].is_model ? c->side[0].model->model : NULL };
    const pl_sync_side b = { c->side[1].recording,
                             c->side[1].is_model ? c->side[1].model->model : NULL };
    c->told = true;
    PL_TRY(pl_sync_compare(&a, &b, &c->sync, c->session, &c->pairing, err));
    c->paired = true;
    if (is_helper(c)) return PL_OK;
    PL_TRY(check_paired(c, err));
    PL_TRY(timed(c, "compare", err));
    PL_TRY(pl_sync_trace(&a, &b, &c->sync, c->session, err));
    PL_TRY(replay(c, err));
    PL_TRY(trace_truth(c, err));
    PL_TRY(check_details(c, err));
    if (c->options->export_map != NULL) PL_TRY(write_map(c, &a, &b, err));
    PL_TRY(apply_baseline(c, err));
    PL_TRY(conclude(c, err));
    return timed(c, "trace", err);
}

/* ---- the session ---- */

static bool is_code(pl_dtype type) {
    return type == PL_U8 || type == PL_I8;
}

/* On two machines, a note lists the CPU features that can explain different numbers. The first
 * value that differs is the smallest one: what follows may have grown. */
static void note_cpus(comparison *c) {
    char line[900];
    const pl_session *s = c->session;
    const pl_sync_point *first = NULL;
    pl_cpu_difference of = { .relative = 0 };
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        of.codes = of.codes || is_code(p->a.dtype) || is_code(p->b.dtype);
        if (first == NULL && p->measured && p->verdict != PL_VERDICT_SAME && !p->is_input)
            first = p;
    }
    if (first == NULL) return;
    if (first->acc.sum_sq > 0)
        of.relative =
            first->acc.sum_rr > 0 ? sqrt(first->acc.sum_sq / first->acc.sum_rr) : (double)INFINITY;
    pl_buf_puts(&c->notes, pl_provenance_compare_cpus(s->a.cpu, s->b.cpu, &of, line, sizeof(line)));
}

static pl_status put_notes(comparison *c, pl_err *err) {
    pl_session *s = c->session;
    size_t n = 0;
    for (const char *p = pl_buf_str(&c->notes); *p != '\0'; p++)
        n += *p == '\n';
    const char **notes = pl_arena_array(s->arena, n, sizeof *notes);
    if (notes == NULL || !pl_buf_ok(&c->notes)) return pl_fail_memory(err, n);
    const char *line = pl_buf_str(&c->notes);
    for (size_t i = 0; i < n; i++) {
        const size_t length = strcspn(line, "\n");
        notes[i] = pl_arena_strndup(s->arena, line, length);
        if (notes[i] == NULL) return pl_fail_memory(err, length);
        line += length + 1;
    }
    s->notes = notes;
    s->n_notes = n;
    return PL_OK;
}

/* A recording made on the fly is deleted afterwards, so its tensors go to the store. */
static pl_status pack(comparison *c, int i, pl_err *err) {
    pl_session *s = c->session;
    const pl_recording *rec = c->side[i].recording;
    for (size_t k = 0; k < s->n_points; k++) {
        pl_side *side = i == 0 ? &s->points[k].a : &s->points[k].b;
        const pl_record *r = side->key == NULL ? NULL : pl_recording_find(rec, side->key);
        pl_tensor *t = NULL;
        if (r == NULL || !r->has_data) continue;
        PL_TRY(pl_recording_read(rec, r, &t, err));
        const pl_status st = pl_session_folder_put(c->folder, i == 0 ? "a" : "b", side->key, t,
                                                   s->arena, &side->blob, err);
        pl_tensor_unref(t);
        pl_recording_forget(rec, r);
        PL_TRY(st);
        PL_TRY(pl_progress_step(&c->progress, "pack", (int64_t)k + 1, (int64_t)s->n_points, err));
    }
    return PL_OK;
}

static pl_status write_session(comparison *c, pl_err *err) {
    const bool whole = c->options->pack != 0;
    if (c->folder == NULL) return PL_OK;
    for (int i = 0; i < 2; i++) {
        if (c->options->pack || c->side[i].is_model) PL_TRY(pack(c, i, err));
    }
    for (int i = 0; i < 2; i++) {
        if (!c->side[i].is_model) continue;
        PL_TRY(pl_session_folder_put_model(c->folder, c->side[i].model->model, whole, err));
        break;
    }
    if (c->side[0].is_model && c->side[1].is_model)
        PL_TRY(pl_session_folder_put_reference(c->folder, c->side[1].model->model, whole, err));
    pl_session_folder *folder = c->folder;
    c->folder = NULL;
    return pl_session_folder_commit_take(folder, c->session, err);
}

static void put_time(pl_session *s) {
    char stamp[40];
    struct tm utc;
    const time_t now = time(NULL);
    gmtime_r(&now, &utc);
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
    const char *copy = pl_arena_strdup(s->arena, stamp);
    if (copy != NULL) s->created = copy;
    s->peak_rss = pl_process_peak_bytes();
}

/* Two models, one of them quantised: adds the cost of each layer. */
static pl_status weigh_layers(comparison *c, pl_err *err) {
    const plumb_compare_options *o = c->options;
    const pl_quant_question q = { .model = c->side[0].path,
                                  .floats = c->side[1].path,
                                  .inputs = o->inputs,
                                  .metric = o->metric,
                                  .threads = o->threads,
                                  .tol = o->has_tol ? o->tol : 0 };
    if (!c->side[0].is_model || !c->side[1].is_model) return PL_OK;
    return pl_quant_answer(&q, c->session, err);
}

static pl_status run(comparison *c, const char *a, const char *b, pl_err *err) {
    const char *const paths[2] = { a, b };
    PL_TRY(open_pieces(c, paths, prepare(c, err), err));
    PL_TRY(open_sides(c, a, b, err));
    PL_TRY(compare(c, err));
    if (is_helper(c)) return PL_OK;
    PL_TRY(weigh_layers(c, err));
    note_cpus(c);
    PL_TRY(put_notes(c, err));
    if (!c->options->stable_output) put_time(c->session);
    if (c->options->stable_output) c->session->n_timing = 0;
    return write_session(c, err);
}

static void release(comparison *c) {
    pl_session_folder_abort_take(c->folder);
    if (c->paired) pl_pairing_release(&c->pairing);
    pl_session_free(c->session);
    pl_compare_side_release(&c->side[0]);
    pl_compare_side_release(&c->side[1]);
    pl_pieces_free(c->pieces);
    if (c->has_map) pl_pair_map_release(&c->map);
    pl_limits_free(c->limits);
    pl_baseline_free(c->baseline);
    pl_plugin_metrics_release(&c->plugins);
    pl_pool_free(c->pool);
    pl_buf_release(&c->notes);
}

/* A rank that failed has told rank 0, which reports it: one message, not one for each rank. */
static pl_status leave_ranks(comparison *c, pl_status st, const pl_err *err) {
    if (st != PL_OK && !c->told) pl_sync_give_up(c->ranks, &c->progress, st, err);
    const bool helper = is_helper(c);
    pl_pieces_end(c->pieces);
    pl_ranks_leave(c->ranks, st != PL_E_CANCELLED);
    c->ranks = NULL;
    return helper && st != PL_E_CANCELLED ? PL_OK : st;
}

/* Running a model needs processes, which MPI does not support. */
static pl_status join_ranks(comparison *c, const char *a, const char *b, pl_err *err) {
    pl_launcher launcher;
    if (!c->options->mpi || !pl_launcher_find(&launcher)) return PL_OK;
    if (pl_compare_is_model(a) || pl_compare_is_model(b))
        return pl_fail(err, PL_E_USAGE,
                       "'%s' is a model; several ranks compare only recordings: make one with "
                       "plumb record first",
                       pl_compare_is_model(a) ? a : b);
    return pl_ranks_join(&launcher, &c->ranks, err);
}

pl_status pl_compare(const char *a, const char *b, const plumb_compare_options *options,
                     pl_session **out, pl_err *err) {
    comparison c = { .options = options };
    pl_err trouble = PL_ERR_INIT;
    c.started = pl_api_seconds();
    *out = NULL;
    PL_TRY(join_ranks(&c, a, b, err));
    const bool helper = is_helper(&c);
    pl_status st = run(&c, a, b, &trouble);
    if (st == PL_OK && !helper) st = pl_session_copy(c.session, out, &trouble);
    if (st != PL_OK && err != NULL) *err = trouble;
    if (c.ranks != NULL) st = leave_ranks(&c, st, &trouble);
    release(&c);
    return st;
}
