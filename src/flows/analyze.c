/* The analyze flow: run A plainly and recorded, check that looking did not disturb it and that it
 * repeats itself, run B on the values that A has, gold and replay side by side, pair, compare,
 * blame; then the session and the table. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "compare/session_print.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "flows/side_run.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "metric/same.h"
#include "ops/infer.h"
#include "passes/backward.h"

enum { SPOOL_MEMORY = 256 << 20, MAX_NOTES = 32, MAX_TIMING = 32 };
#define OUTPUT_TOL 1e-4 /* of an output's size: below this no output fails without a culprit */

typedef struct analysis {
    plumb_model *m;
    pl_model *model;
    const plumb_analyze_options *options;
    pl_session *session;
    pl_arena *arena; /* the session's */
    pl_pool *pool;
    pl_datum **in;
    pl_side_run a, b;
    pl_blame blame;
    pl_progress progress;
    plumb_same_options same;
    bool torch;
    double started;
    size_t points_capacity;
    pl_buf *lines; /* NONDETERMINISTIC and DIVERGED lines, as PyTorch's analyze prints them */
} analysis;

/* ---- notes and times ---- */

static pl_status note(analysis *x, pl_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static pl_status note(analysis *x, pl_err *err, const char *format, ...) {
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
static pl_status timed(analysis *x, const char *phase, pl_err *err) {
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

static pl_status timed_side(analysis *x, const char *phase, const char *side, pl_err *err) {
    const char *name = pl_arena_printf(x->arena, "%s %s", phase, side);
    return name == NULL ? pl_fail_memory(err, 1) : timed(x, name, err);
}

static const char *keep(analysis *x, const char *s) {
    const char *copy = pl_arena_strdup(x->arena, s == NULL ? "" : s);
    return copy == NULL ? "" : copy;
}

/* ---- prepare ---- */

static pl_status prepare(analysis *x, pl_err *err) {
    const plumb_analyze_options *o = x->options;
    const pl_graph *graph = x->model->graph;
    const size_t n_nodes = graph->n_nodes;
    PL_TRY(pl_session_new(&x->session, err));
    x->arena = x->session->arena;
    PL_TRY(pl_lower_gradient(x->model, err));
    if (graph->n_nodes != n_nodes) x->m->edited = true;
    PL_TRY(pl_ops_resolve(x->model, err));
    PL_TRY(pl_model_infer(x->model, NULL, err));
    x->pool = pl_pool_new(o->threads);
    x->in = pl_calloc(graph->n_inputs + 1, sizeof(pl_datum *));
    if (x->pool == NULL || x->in == NULL) return pl_fail_memory(err, 1);
    if (o->progress != NULL) x->progress = (pl_progress){ o->progress->update, o->progress->ctx };
    pl_same_options_init(&x->same);
    if (o->same != NULL) PL_TRY(pl_same_options_parse(o->same, &x->same, err));
    x->torch = o->profile != NULL && strcmp(o->profile, "torch") == 0;
    if (o->profile != NULL && !x->torch && strcmp(o->profile, "plumb") != 0) {
        return pl_fail(err, PL_E_USAGE, "profile is '%s', expected plumb or torch", o->profile);
    }
    PL_TRY(pl_inputs_make(x->model, &o->inputs, x->in, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        if (x->in[i] == NULL) continue;
        PL_TRY(pl_interp_check_input(graph->inputs[i], x->in[i], false, err));
    }
    pl_session *s = x->session;
    pl_hash128 hash;
    char hex[PL_HASH128_HEX];
    PL_TRY(pl_model_hash(x->model, &hash, err));
    pl_hash128_hex(hash, hex);
    s->model_path = keep(x, x->model->path);
    s->model_hash = keep(x, hex);
    s->model_nodes = graph->n_nodes;
    s->metric = keep(x, o->metric == NULL ? "psnr" : o->metric);
    s->profile = x->torch ? "torch" : "plumb";
    s->tol = o->tol > 0 ? o->tol : (double)NAN;
    return timed(x, "prepare", err);
}

/* ---- the runs ---- */

/* A backend that fails is a result of the analysis, not of the program. */
static pl_status side_failed(analysis *x, pl_side_run *run, pl_side_info *info, const char *who,
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
    info->failure = keep(x, trouble->message);
    info->signal = failure != NULL && failure->happened ? failure->signal : 0;
    x->session->outcome = PL_OUTCOME_FAILED;
    const char *reason =
        pl_arena_printf(x->arena, "%s failed to %s: %s", who, doing, trouble->message);
    x->session->reason = reason == NULL ? "" : reason;
    return PL_OK;
}

static bool failed(const analysis *x) {
    return x->session->outcome == PL_OUTCOME_FAILED;
}

static pl_side_options side_options(const analysis *x, const char *spec, const char *phase) {
    const plumb_analyze_options *o = x->options;
    return (pl_side_options){ .spec = spec,
                              .file = pl_api_model_file(x->m),
                              .guarded = strncmp(spec, "eager", 5) != 0,
                              .timeout = o->timeout,
                              .memory_limit = o->memory_limit,
                              .seed = o->inputs.seed,
                              .threads = o->threads,
                              .spool_memory = SPOOL_MEMORY,
                              .progress = &x->progress,
                              .phase = phase };
}

static void describe_side(analysis *x, const pl_side_run *run, pl_side_info *info) {
    info->spec = keep(x, run->options.spec);
    info->backend = run->backend == NULL ? info->spec : keep(x, pl_backend_name(run->backend));
    info->version = run->backend == NULL ? "" : keep(x, pl_backend_version(run->backend));
}

static pl_status say_unstable(analysis *x, const pl_side_run *run, const char *who, pl_err *err) {
    if (run->unstable == NULL) return PL_OK;
    pl_buf_printf(x->lines, "NONDETERMINISTIC %s at %s (%s)\n", who, run->unstable->name,
                  run->difference);
    if (x->session->outcome != PL_OUTCOME_NONDETERMINISTIC) {
        x->session->outcome = PL_OUTCOME_NONDETERMINISTIC;
        const char *reason =
            pl_arena_printf(x->arena, "%s gives another '%s' in a second run on the same inputs",
                            who, run->unstable->name);
        if (reason == NULL) return pl_fail_memory(err, 1);
        x->session->reason = reason;
        x->session->first_divergence = keep(x, run->unstable->name);
    }
    return PL_OK;
}

/* Compile, plain run, recorded run, the same again: of one side. */
static pl_status run_side(analysis *x, pl_side_run *run, pl_side_info *info, const char *spec,
                          const char *who, const char *name, pl_err *err) {
    const pl_side_options options = side_options(x, spec, name);
    pl_err trouble = PL_ERR_INIT;
    const char *doing = "compile";
    const pl_side_run *like = run->like;
    pl_status st = pl_side_run_init(run, x->model, &options, &trouble);
    run->like = like;
    describe_side(x, run, info);
    if (st == PL_OK) {
        PL_TRY(timed_side(x, "compile", name, err));
        doing = "run";
        st = pl_side_run_plain(run, x->in, &trouble);
    }
    if (st == PL_OK) {
        PL_TRY(timed_side(x, "run", name, err));
        doing = "record";
        st = pl_side_run_record(run, x->in, &trouble);
    }
    if (st == PL_OK && !x->options->skip_determinism) {
        PL_TRY(timed_side(x, "record", name, err));
        doing = "run again";
        st = pl_side_run_repeat(run, x->in, &trouble);
    }
    if (st != PL_OK) return side_failed(x, run, info, who, doing, &trouble, err);
    const char *last = x->options->skip_determinism ? "record" : "determinism";
    PL_TRY(timed_side(x, last, name, err));
    return say_unstable(x, run, name, err);
}

static pl_status say_observer(analysis *x, pl_err *err) {
    const pl_side_run *a = &x->a;
    const char *const *modes = pl_backend_record_modes(a->backend);
    x->session->observer_effect = a->observer_effect;
    if (a->info.differs) {
        PL_TRY(note(x, err,
                    "no way to record left the outputs of %s as they are: only its outputs "
                    "are known",
                    pl_backend_spec(a->backend)));
    } else if (a->observer_effect && modes != NULL) {
        PL_TRY(note(x, err, "recording in mode '%s' changed the outputs; mode '%s' does not",
                    modes[0], modes[a->mode]));
    }
    if (modes == NULL || modes[0] == NULL) {
        PL_TRY(note(x, err, "%s shows no intermediate values: only its outputs are known",
                    pl_backend_spec(a->backend)));
    }
    if (a->info.n_hidden > 0) {
        PL_TRY(note(x, err, "%zu values in bodies of If, Loop or Scan were not seen",
                    a->info.n_hidden));
    }
    if (a->info.n_disturbed > 0) {
        PL_TRY(note(x, err, "%zu values were not looked at: looking changes the outputs",
                    a->info.n_disturbed));
    }
    if (a->n_unknown > 0) {
        PL_TRY(note(x, err, "%zu values of the graph that %s executes have no name in the model",
                    a->n_unknown, pl_backend_name(a->backend)));
    }
    return PL_OK;
}

/* ---- sync points ---- */

static void fill_side(pl_side *side, const pl_datum *d, const pl_hash128 *hash) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return;
    const pl_tensor *t = d->tensor;
    side->present = true;
    side->dtype = t->dtype;
    side->rank = t->rank;
    memcpy(side->dims, t->dims, sizeof(side->dims));
    memcpy(side->strides, t->strides, sizeof(side->strides));
    side->has_hash = true;
    side->hash = *hash;
}

static void compare_metadata(analysis *x, pl_sync_point *p) {
    p->metadata_match = true;
    if (!p->a.present || !p->b.present) return;
    char found[80], expected[80];
    const char *why = NULL;
    if (p->a.rank != p->b.rank ||
        memcmp(p->a.dims, p->b.dims, (size_t)p->a.rank * sizeof(int64_t)) != 0) {
        why = pl_arena_printf(x->arena, "shape %s, reference %s",
                              pl_dims_describe(p->a.rank, p->a.dims, found, sizeof(found)),
                              pl_dims_describe(p->b.rank, p->b.dims, expected, sizeof(expected)));
    } else if (p->a.dtype != p->b.dtype) {
        why = pl_arena_printf(x->arena, "dtype %s, reference %s", pl_dtype_name(p->a.dtype),
                              pl_dtype_name(p->b.dtype));
    }
    if (why == NULL) return;
    p->metadata_match = false;
    p->metadata_reason = why;
}

static pl_status measure(analysis *x, pl_sync_point *p, const pl_datum *a, const pl_datum *b,
                         pl_err *err) {
    const pl_metric *metric = pl_metric_find(x->session->metric);
    if (a->kind != PL_TYPE_TENSOR || b == NULL || b->kind != PL_TYPE_TENSOR) return PL_OK;
    if (!pl_tensor_same_shape(a->tensor, b->tensor) ||
        (a->tensor->dtype == PL_STRING) != (b->tensor->dtype == PL_STRING)) {
        p->pair_class = PL_PAIR_STRUCTURAL;
        p->colour = PL_RED;
        return PL_OK;
    }
    PL_TRY(pl_accumulate(x->pool, a->tensor, b->tensor, &p->acc, err));
    p->measured = true;
    p->pair_class = pl_accumulators_class(&p->acc);
    p->precision = pl_precision_of(a->tensor->dtype, b->tensor->dtype);
    p->limits_from = pl_precision_name(p->precision);
    if (metric != NULL) {
        p->colour = pl_metric_colour(metric, &p->acc, p->precision, &p->limits);
    }
    return PL_OK;
}

static pl_status judge_torch(analysis *x, pl_sync_point *p, const pl_datum *a, const pl_datum *b,
                             const pl_datum *gold, pl_err *err) {
    pl_same_result same;
    if (!x->torch || b == NULL) return PL_OK;
    PL_TRY(pl_same(b, a, gold, &x->same, &same, err));
    if (same.verdict == PL_SAME_YES) return PL_OK;
    p->reason = keep(x, same.why);
    pl_buf_printf(x->lines, "DIVERGED at %s: %s\n", p->value, same.why);
    if (x->session->first_divergence == NULL) x->session->first_divergence = p->value;
    if (p->is_output) p->verdict = PL_VERDICT_MISMATCH; /* settled with the judgement later */
    return PL_OK;
}

static pl_status add_point(analysis *x, pl_sync_point **out, pl_err *err) {
    pl_session *s = x->session;
    if (s->n_points == x->points_capacity) {
        const size_t capacity = x->points_capacity == 0 ? 256 : 2 * x->points_capacity;
        pl_sync_point *grown = pl_arena_array(x->arena, capacity, sizeof(pl_sync_point));
        if (grown == NULL) return pl_fail_memory(err, capacity);
        if (s->n_points > 0) memcpy(grown, s->points, s->n_points * sizeof(*grown));
        s->points = grown;
        x->points_capacity = capacity;
    }
    *out = &s->points[s->n_points++];
    pl_sync_point_init(*out);
    return PL_OK;
}

static pl_status fill_names(analysis *x, pl_sync_point *p, const pl_value *value, pl_err *err) {
    const pl_node *node = value->producer;
    pl_origin origin;
    PL_TRY(pl_node_origin(node, x->arena, &origin, err));
    p->value = keep(x, value->name);
    p->node = keep(x, node->name);
    p->op = keep(x, node->op);
    p->module = origin.module;
    p->source = origin.file;
    if (origin.line > 0) {
        const char *source = pl_arena_printf(x->arena, "%s:%d", origin.file, origin.line);
        if (source != NULL) p->source = source;
    }
    p->is_output = value->is_output;
    return PL_OK;
}

/* Called for each value that A has, judged already, in the order of the model. */
static pl_status on_judged(void *ctx, const pl_value *value, const pl_datum *a, const pl_datum *b,
                           const pl_datum *gold, pl_err *err) {
    analysis *x = ctx;
    pl_sync_point *p = NULL;
    PL_TRY(add_point(x, &p, err));
    PL_TRY(fill_names(x, p, value, err));
    fill_side(&p->a, a, &x->a.hash[value->id]);
    if (b != NULL) {
        fill_side(&p->b, b, &x->b.hash[value->id]);
        p->counterpart = p->value;
        p->paired_by = "name";
        p->relation = "1:1";
        p->confidence = 1;
    }
    compare_metadata(x, p);
    PL_TRY(measure(x, p, a, b, err));
    return judge_torch(x, p, a, b, gold, err);
}

/* ---- verdicts ---- */

static void settle_point(analysis *x, pl_sync_point *p, const pl_judgement *v, bool has_b) {
    p->propagated = v->propagated;
    p->local = v->local;
    p->amplified = v->amplified;
    p->q = v->q;
    p->excuse = keep(x, v->excuse);
    if (*v->reason != '\0') p->reason = keep(x, v->reason);
    if (x->torch && p->verdict == PL_VERDICT_MISMATCH && v->verdict == PL_VERDICT_WITHIN) return;
    p->verdict = v->verdict;
    if (p->verdict == PL_VERDICT_WITHIN && p->measured && p->pair_class == PL_PAIR_EXACT) {
        p->verdict = PL_VERDICT_SAME;
    }
    if (p->verdict == PL_VERDICT_WITHIN && !has_b) p->verdict = PL_VERDICT_UNPAIRED;
}

/* An output that inherited more than the reference's own error, and more than the tolerance. */
static bool output_fails(const analysis *x, const pl_sync_point *p, const pl_judgement *v) {
    const double tol = isnan(x->session->tol) ? OUTPUT_TOL : x->session->tol;
    if (x->torch) return p->verdict == PL_VERDICT_MISMATCH;
    if (p->pair_class == PL_PAIR_STRUCTURAL && p->a.present && p->b.present) return true;
    if (x->options->skip_gold) {
        const double size =
            p->measured && p->acc.n_finite > 0 ? sqrt(p->acc.sum_rr / (double)p->acc.n_finite) : 0;
        const double off =
            p->measured && p->acc.n_finite > 0 ? sqrt(p->acc.sum_sq / (double)p->acc.n_finite) : 0;
        return p->pair_class == PL_PAIR_NONFINITE || off > tol * size;
    }
    if (p->verdict != PL_VERDICT_INHERITED && p->verdict != PL_VERDICT_AMPLIFIED) return false;
    return !(v->propagated <= tol * v->scale);
}

static pl_status settle(analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_sync_point *failing = NULL;
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        const pl_value *value = pl_strmap_get(&x->a.by_name, p->value);
        const pl_judgement *v = &x->blame.of[value->id];
        settle_point(x, p, v, x->b.entry[value->id] != 0);
        if (p->verdict == PL_VERDICT_CULPRIT) {
            /* The headline names the first. */
            if (!x->torch && s->first_divergence != NULL) {
                pl_buf_printf(x->lines, "DIVERGED at %s: %s\n", p->value, p->reason);
            }
            if (s->first_divergence == NULL) s->first_divergence = p->value;
        }
        if (p->is_output && failing == NULL && output_fails(x, p, v)) failing = p;
    }
    s->blame = x->blame.groups;
    s->n_blame = x->blame.n_groups;
    s->n_replayed = x->blame.n_replayed;
    s->n_unreplayed = x->blame.n_unreplayed;
    s->single_node_share =
        x->blame.n_replayed > 0 ? (double)x->blame.n_single / (double)x->blame.n_replayed : 0;
    if (x->blame.n_without_rule > 0) {
        PL_TRY(note(x, err, "%zu replayed nodes have no error bound of their own",
                    x->blame.n_without_rule));
    }
    if (x->blame.n_unreplayed > 0) {
        PL_TRY(note(x, err, "%zu values could not be replayed: %s", x->blame.n_unreplayed,
                    x->blame.first_unreplayed));
    }
    const char *reason = "";
    if (s->outcome == PL_OUTCOME_NONDETERMINISTIC) return PL_OK;
    if (s->n_blame > 0) {
        s->outcome = PL_OUTCOME_DIVERGED;
        reason = pl_arena_printf(x->arena, "%s that makes '%s': %s", s->blame[0].op,
                                 s->blame[0].value, s->blame[0].reason);
    } else if (failing != NULL) {
        s->outcome = PL_OUTCOME_DIVERGED;
        if (s->first_divergence == NULL) s->first_divergence = failing->value;
        reason = pl_arena_printf(x->arena,
                                 "output '%s' differs and no operation is to blame: amplified "
                                 "rounding (%s)",
                                 failing->value, failing->reason);
    }
    s->reason = reason == NULL ? "" : reason;
    return PL_OK;
}

/* Gold again: the same bits, or the reference is not to be trusted. */

static pl_status check_gold(analysis *x, pl_err *err) {
    const pl_replay_options options = { .pool = x->pool,
                                        .seed = x->options->inputs.seed,
                                        .no_bounds = true };
    const pl_graph *graph = x->model->graph;
    pl_replay *r = NULL;
    pl_status st = pl_replay_new(x->model, &options, &r, err);
    for (size_t i = 0; i < graph->n_inputs && st == PL_OK; i++)
        if (x->in[i] != NULL) st = pl_replay_put(r, graph->inputs[i], x->in[i], NULL, err);
    for (size_t i = 0; i < graph->n_nodes && st == PL_OK; i++) {
        const pl_node *node = graph->nodes[i];
        pl_err ignored = PL_ERR_INIT;
        if (pl_node_is_random(node) || pl_replay_node(r, node, &ignored) != PL_OK) break;
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_datum *d = node->out[k] == NULL ? NULL : pl_replay_get(r, node->out[k]);
            if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->dtype == PL_STRING) continue;
            const pl_hash128 hash = pl_hash128_of(d->tensor->data, pl_tensor_bytes(d->tensor));
            const pl_hash128 *first = &x->blame.gold_hash[node->out[k]->id];
            if (hash.low == first->low && hash.high == first->high) continue;
            pl_buf_printf(x->lines, "NONDETERMINISTIC FLOAT64 at %s (hash)\n", node->out[k]->name);
            x->session->outcome = PL_OUTCOME_NONDETERMINISTIC;
            x->session->reason = "the fp64 run does not repeat itself";
            goto done;
        }
        pl_replay_release_after(r, node);
        pl_progress_update(&x->progress, "gold again", (int64_t)i + 1, (int64_t)graph->n_nodes);
    }
done:
    pl_replay_free(r);
    return st;
}

static pl_status blame(analysis *x, pl_err *err) {
    const pl_run_data a = pl_side_run_data(&x->a), b = pl_side_run_data(&x->b);
    const pl_blame_options options = { .pool = x->pool,
                                       .seed = x->options->inputs.seed,
                                       .skip_gold = x->options->skip_gold != 0,
                                       .visit = on_judged,
                                       .visit_ctx = x,
                                       .progress = &x->progress };
    PL_TRY(pl_blame_run(x->model, x->in, &a, &b, &options, &x->blame, err));
    PL_TRY(timed(x, "gold, replay and blame", err));
    if (!x->options->skip_gold && !x->options->skip_determinism) {
        PL_TRY(check_gold(x, err));
        PL_TRY(timed(x, "gold again", err));
    }
    return settle(x, err);
}

static pl_status run_all(analysis *x, pl_err *err) {
    const plumb_analyze_options *o = x->options;
    const char *a = o->backend == NULL ? "eager" : o->backend;
    const char *b = o->reference == NULL ? "eager" : o->reference;
    PL_TRY(prepare(x, err));
    PL_TRY(run_side(x, &x->a, &x->session->a, a, "the backend under test", "A", err));
    if (failed(x)) return PL_OK;
    PL_TRY(say_observer(x, err));
    x->b.like = &x->a;
    PL_TRY(run_side(x, &x->b, &x->session->b, b, "the reference", "B", err));
    if (failed(x)) return PL_OK;
    return blame(x, err);
}

static int64_t peak_rss(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static void release(analysis *x) {
    for (size_t i = 0; x->in != NULL && i < x->model->graph->n_inputs; i++)
        pl_datum_unref(x->in[i]);
    pl_free(x->in);
    pl_side_run_release(&x->a);
    pl_side_run_release(&x->b);
    pl_blame_release(&x->blame);
    pl_session_free(x->session);
    pl_pool_free(x->pool);
}

plumb_status plumb_analyze(plumb_model *m, const plumb_analyze_options *options, int *exit_code,
                           char **text, plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_buf out = PL_BUF_INIT, lines = PL_BUF_INIT;
    analysis x = { .m = m, .model = m->model, .options = options, .lines = &lines };
    const pl_session_print_options print = { .format = options->format,
                                             .metric = options->metric,
                                             .limit = options->limit,
                                             .colour = options->colour != 0 };
    pl_status st = PL_OK;
    x.started = pl_api_seconds();
    PL_TRY_GOTO(done, st, pl_session_print_check(&print, &err));
    PL_TRY_GOTO(done, st, run_all(&x, &err));
    x.session->peak_rss = peak_rss();
    *exit_code = pl_outcome_exit_code(x.session->outcome);
    if (print.format == NULL || strcmp(print.format, "text") == 0) {
        pl_buf_append(&out, lines.data, lines.n_bytes);
    }
    PL_TRY_GOTO(done, st, pl_session_print(x.session, &print, &out, &err));
    st = pl_api_text_take(&out, text, &err);
done:
    pl_buf_release(&out);
    pl_buf_release(&lines);
    release(&x);
    return pl_api_return(st, &err, error);
}
