/* Sync points of an analysis: what was compared, and the verdict on each and on the whole. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/count.h"
#include "flows/analyze/analyze_int.h"
#include "flows/analyze/marking.h"
#include "flows/analyze/quant_mistakes.h"
#include "ops/bound.h"
#include "ops/op.h"
#include "pair/effective.h"
#include "session/verdict.h"

enum { RANDOM_DEPTH = 200 };

/* ---- sync points ---- */

static void fill_side(pl_side *side, const pl_datum *d, const pl_hash128 *hash) {
    pl_side_describe(side, d);
    side->has_hash = side->present;
    if (side->present) side->hash = *hash;
}

static void compare_metadata(pl_analysis *x, pl_sync_point *p) {
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

static pl_status measure(pl_analysis *x, pl_sync_point *p, const pl_datum *a, const pl_datum *b,
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
    const pl_value *own = p->replayed == NULL ? NULL : x->pairs.a[p->replayed->id];
    if (x->precision != NULL && own != NULL)
        p->precision = pl_precision_coarser(p->precision, x->precision[own->id]);
    p->limits_from = pl_precision_name(p->precision);
    if (metric != NULL) {
        p->colour = pl_judge_colour(
            pl_metric_colour(metric, &p->acc, p->precision, &p->limits), &p->acc,
            p->replayed == NULL ? 0 : pl_value_absolute_error(p->replayed, PL_UNDEFINED));
    }
    return PL_OK;
}

static pl_status judge_torch(pl_analysis *x, pl_sync_point *p, const pl_datum *a, const pl_datum *b,
                             const pl_datum *gold, pl_err *err) {
    pl_accuracy_check check;
    if (x->accuracy.profile != PL_PROFILE_TORCH || b == NULL) return PL_OK;
    PL_TRY(pl_accuracy_compare(&x->accuracy, b, a, gold, &check, err));
    if (check.same) return PL_OK;
    p->reason = pl_analysis_keep(x, check.why);
    pl_buf_printf(x->lines, "DIVERGED at %s: %s\n", p->value, check.why);
    if (x->session->first_divergence == NULL) x->session->first_divergence = p->value;
    if (p->is_output) p->facts.rule = PL_FACT_NO;
    return PL_OK;
}

/* Values after unrecorded random numbers differ in every run. */
static bool is_random(const pl_analysis *x, const pl_value *value, int depth) {
    const pl_node *node = value->producer;
    if (node == NULL || depth > RANDOM_DEPTH) return false;
    if (pl_node_is_random(node)) return true;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *in = node->in[i];
        if (in == NULL || (in->producer != NULL && pl_analysis_a_has((void *)(uintptr_t)x, in) &&
                           !pl_node_is_random(in->producer)))
            continue;
        if (is_random(x, in, depth + 1)) return true;
    }
    return false;
}

/* An output that could not be replayed is still compared with that of the reference. */
static pl_status judge_unreplayed(pl_analysis *x, pl_sync_point *p, const pl_value *value,
                                  const pl_datum *a, const pl_datum *b, pl_err *err) {
    pl_accuracy_check check;
    if (!p->is_output || b == NULL || p->facts.rule != PL_FACT_UNKNOWN ||
        !x->blame.of[value->id].facts.unreplayed)
        return PL_OK;
    PL_TRY(pl_accuracy_compare(&x->accuracy, b, a, NULL, &check, err));
    if (check.same) {
        p->facts.rule = PL_FACT_YES;
    } else if (!is_random(x, value, 0)) {
        p->facts.rule = PL_FACT_NO;
        p->reason = pl_analysis_keep(x, check.why);
    }
    return PL_OK;
}

static pl_status add_point(pl_analysis *x, pl_sync_point **out, pl_err *err) {
    pl_session *s = x->session;
    if (!PL_ARENA_ROOM(x->arena, s->points, s->n_points, &x->points_capacity)) {
        return pl_fail_memory(err, s->n_points);
    }
    *out = &s->points[s->n_points++];
    pl_sync_point_init(*out);
    return PL_OK;
}

static pl_status fill_names(pl_analysis *x, pl_sync_point *p, const pl_value *value, pl_err *err) {
    const pl_node *node = value->producer;
    pl_origin origin;
    PL_TRY(pl_node_origin(node, x->arena, &origin, err));
    p->value = pl_analysis_keep(x, value->name);
    p->node = pl_analysis_keep(x, node->name);
    p->op = pl_analysis_keep(x, node->op);
    p->module = origin.module;
    p->source = origin.file;
    if (origin.line > 0) {
        const char *source = pl_arena_printf(x->arena, "%s:%d", origin.file, origin.line);
        if (source != NULL) p->source = source;
    }
    p->is_output = value->is_output;
    return PL_OK;
}

/* "a" for the first sample, "a1", "a2" for the others. */
static const char *index_of(const pl_analysis *x, const char *side, char *out, size_t n) {
    snprintf(out, n, "%s", side);
    if (x->sample > 0) snprintf(out, n, "%s%zu", side, x->sample);
    return out;
}

/* Keeps the replay of a culprit: the debugger shows A against it. */
pl_status pl_analysis_culprit(void *ctx, const pl_value *value, const pl_tensor *replay,
                              const pl_tensor *bound, pl_err *err) {
    pl_analysis *x = ctx;
    char index[32];
    const char *blob = NULL, *name = x->pairs.a[value->id]->name;
    if (x->folder == NULL || !(x->keep_all || x->keep_suspects)) return PL_OK;
    PL_TRY(pl_session_folder_put(x->folder, index_of(x, "replay", index, sizeof(index)), name,
                                 replay, x->arena, &blob, err));
    if (bound == NULL) return PL_OK;
    return pl_session_folder_put(x->folder, index_of(x, "bound", index, sizeof(index)), name, bound,
                                 x->arena, &blob, err);
}

/* With `suspects`, outputs that agree are kept only if they are small: the logits of a long prompt
 * and its cache are larger than all that is looked at. */
static bool is_worth_keeping(const pl_sync_point *p, pl_verdict verdict, const pl_datum *a) {
    enum { SMALL = 1 << 20 };
    const bool agrees = verdict == PL_VERDICT_SAME || verdict == PL_VERDICT_WITHIN;
    if (verdict == PL_VERDICT_CULPRIT || !p->is_output) return verdict == PL_VERDICT_CULPRIT;
    return !agrees || a->kind != PL_TYPE_TENSOR || pl_tensor_bytes(a->tensor) <= SMALL;
}

/* Stores tensors of the point in the session: all, or those of suspects and outputs. */
static pl_status keep_tensors(pl_analysis *x, pl_sync_point *p, const pl_value *value,
                              const pl_datum *a, const pl_datum *b, const pl_datum *gold,
                              pl_err *err) {
    const pl_verdict verdict = x->blame.of[value->id].verdict;
    const bool suspect = verdict == PL_VERDICT_CULPRIT;
    const bool kept = x->keep_all || (x->keep_suspects && is_worth_keeping(p, verdict, a));
    if (x->folder == NULL || !kept || a->kind != PL_TYPE_TENSOR) return PL_OK;
    char index[32];
    PL_TRY(pl_session_folder_put(x->folder, index_of(x, "a", index, sizeof(index)), p->value,
                                 a->tensor, x->arena, &p->a.blob, err));
    if (b != NULL && b->kind == PL_TYPE_TENSOR) {
        PL_TRY(pl_session_folder_put(x->folder, index_of(x, "b", index, sizeof(index)), p->value,
                                     b->tensor, x->arena, &p->b.blob, err));
    }
    if (!suspect || gold == NULL || gold->kind != PL_TYPE_TENSOR) return PL_OK;
    const char *blob = NULL;
    return pl_session_folder_put(x->folder, index_of(x, "gold", index, sizeof(index)), p->value,
                                 gold->tensor, x->arena, &blob, err);
}

static pl_status judged(pl_analysis *x, const pl_value *value, const pl_datum *a, const pl_datum *b,
                        const pl_datum *gold, pl_err *err) {
    pl_sync_point *p = NULL;
    PL_TRY(add_point(x, &p, err));
    const pl_value *own = x->pairs.a[value->id];
    PL_TRY(fill_names(x, p, own, err));
    p->replayed = value;
    p->sample = (int64_t)x->sample;
    fill_side(&p->a, a, &x->a.hash[own->id]);
    if (b != NULL) {
        const pl_record *record =
            x->recording == NULL ? NULL : &x->recording->records[x->recorded[value->id] - 1];
        const pl_hash128 none = { 0, 0 };
        fill_side(&p->b, b,
                  record != NULL       ? &record->hash
                  : x->foreign != NULL ? &none
                                       : &x->b.hash[value->id]);
        if (record != NULL) {
            p->b.key = pl_analysis_keep(x, record->key);
            p->counterpart_op = pl_analysis_keep(x, record->op);
        }
        p->counterpart = record == NULL ? pl_analysis_keep(x, value->name) : p->b.key;
        p->paired_by = x->pairs.method[value->id];
        p->relation = x->pairs.relation[value->id];
        p->confidence = x->pairs.confidence[value->id];
    }
    PL_TRY(keep_tensors(x, p, value, a, b, gold, err));
    if (x->options->skip_gold || x->options->skip_determinism) { /* else checked by gold */
        PL_TRY(pl_analysis_reach(x, value, a, err));
    }
    if (x->recording == NULL) PL_TRY(pl_quant_clip(x, value, gold, err));
    compare_metadata(x, p);
    PL_TRY(measure(x, p, a, b, err));
    PL_TRY(pl_analysis_keep_output(x, value, a, x->recording != NULL ? gold : b, gold, err));
    PL_TRY(pl_analysis_see_choice(x, value, a, b, err));
    pl_analysis_judge_overflow(p, a, gold);
    PL_TRY(pl_analysis_judge_truth(x, p, a, b, gold, err));
    if (x->recording == NULL) PL_TRY(judge_torch(x, p, a, b, gold, err));
    return judge_unreplayed(x, p, value, a, x->foreign != NULL ? NULL : b, err);
}

/* Called for each value that A has, after it was judged, in the order of the model. */
pl_status pl_analysis_judged(void *ctx, const pl_value *value, const pl_datum *a, const pl_datum *b,
                             const pl_datum *gold, pl_err *err) {
    pl_analysis *x = ctx;
    pl_datum *made = NULL;
    if (x->foreign == NULL) return judged(x, value, a, b, gold, err);
    PL_TRY(pl_analysis_gold_as_b(a, gold, &made, err));
    const pl_status st = judged(x, value, a, made, gold, err);
    pl_datum_unref(made);
    return st;
}

pl_status pl_analysis_unseen(void *ctx, const pl_value *value, const pl_datum *gold, pl_err *err) {
    pl_analysis *x = ctx;
    const pl_run_data b = pl_analysis_reference_data(x);
    pl_sync_point judged, *p = NULL;
    pl_datum *recorded = NULL;
    if (!b.has(b.ctx, value)) return PL_OK;
    PL_TRY(b.get(b.ctx, value, &recorded, err));
    pl_sync_point_init(&judged);
    judged.replayed = value;
    pl_status st = pl_analysis_judge_truth(x, &judged, gold, recorded, gold, err);
    if (st == PL_OK && judged.facts.rule == PL_FACT_NO) st = add_point(x, &p, err);
    if (st == PL_OK && p != NULL) {
        *p = judged;
        st = fill_names(x, p, x->pairs.a[value->id], err);
        const pl_record *record = &x->recording->records[x->recorded[value->id] - 1];
        p->replayed = value;
        p->sample = (int64_t)x->sample;
        fill_side(&p->b, recorded, &record->hash);
        p->b.key = p->counterpart = pl_analysis_keep(x, record->key);
        p->counterpart_op = pl_analysis_keep(x, record->op);
        p->paired_by = x->pairs.method[value->id];
        p->relation = x->pairs.relation[value->id];
        p->confidence = x->pairs.confidence[value->id];
        p->metadata_match = true;
        if (st == PL_OK) st = measure(x, p, gold, recorded, err);
    }
    pl_datum_unref(recorded);
    return st;
}

/* ---- outputs that nothing computes ---- */

/* What the model passes on: an input, or a constant. NULL when it is unknown. */
static pl_status passed_on(const pl_analysis *x, const pl_value *value, pl_datum **out,
                           pl_err *err) {
    const pl_graph *graph = x->model->graph;
    *out = NULL;
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (graph->inputs[i] == value && x->in[i] != NULL) *out = pl_datum_ref(x->in[i]);
    if (*out != NULL || value->init == NULL) return PL_OK;
    return pl_datum_of_tensor_take(pl_tensor_ref(value->init), out, err);
}

static pl_status judge_passed(pl_analysis *x, const pl_value *value, const pl_datum *a,
                              const pl_datum *b, pl_err *err) {
    pl_sync_point *p = NULL;
    const pl_value *replayed = pl_graph_find(x->replayed->graph, value->name);
    if (replayed == NULL || replayed->producer != NULL) return PL_OK;
    PL_TRY(add_point(x, &p, err));
    p->value = p->counterpart = pl_analysis_keep(x, value->name);
    p->replayed = replayed;
    p->sample = (int64_t)x->sample;
    p->is_output = true;
    p->paired_by = "name";
    p->confidence = 1;
    pl_side_describe(&p->a, a);
    pl_side_describe(&p->b, b);
    compare_metadata(x, p);
    PL_TRY(measure(x, p, a, b, err));
    const bool exact = p->measured ? p->pair_class == PL_PAIR_EXACT : pl_datum_identical(a, b);
    const bool same = exact && p->metadata_match;
    p->facts.rule = pl_fact_of(same);
    p->facts.compared = p->measured;
    p->facts.exact = same;
    if (!same) p->reason = "the model passes this on as it is, and it came out as another one";
    return PL_OK;
}

static pl_status judge_all_passed(pl_analysis *x, pl_err *err) {
    const pl_graph *graph = x->model->graph;
    pl_status st = PL_OK;
    for (size_t i = 0; i < graph->n_outputs && st == PL_OK; i++) {
        const pl_value *value = graph->outputs[i];
        pl_datum *b = NULL;
        if (value->producer != NULL || x->a.plain == NULL || x->a.plain[i] == NULL) continue;
        st = passed_on(x, value, &b, err);
        if (st == PL_OK && b != NULL) st = judge_passed(x, value, x->a.plain[i], b, err);
        pl_datum_unref(b);
    }
    return st;
}

/* ---- verdicts ---- */

static void settle_point(pl_analysis *x, pl_sync_point *p, const pl_judgement *v, bool has_b) {
    if (!v->judged) { /* the run does not have it, or nothing computes it */
        p->facts.paired = has_b;
        pl_verdict_decide(p);
        return;
    }
    p->propagated = v->propagated;
    p->local = v->local;
    p->amplified = v->amplified;
    p->q = v->q;
    p->excuse = pl_analysis_keep(x, v->excuse);
    p->n_undefined = v->n_undefined;
    if (*v->reason != '\0' && (p->facts.rule != PL_FACT_NO || v->facts.far)) {
        p->reason = pl_analysis_keep(x, v->reason);
    }
    if (v->facts.local == PL_FACT_NO) p->reason = pl_analysis_keep(x, v->reason);
    const pl_value_facts pair = p->facts;
    p->facts = v->facts;
    p->facts.paired = has_b;
    p->facts.compared = p->measured;
    p->facts.exact = p->measured && p->pair_class == PL_PAIR_EXACT;
    p->facts.rule = pair.rule;
    p->facts.bad_inputs = pair.bad_inputs;
    pl_verdict_decide(p);
    pl_analysis_doubt_foreign(x, p);
}

/* rms of a - b relative to b; NAN when they were not measured. */
double pl_analysis_relative(const pl_sync_point *p) {
    if (!p->measured || p->acc.n_finite == 0 || !(p->acc.sum_rr > 0)) return (double)NAN;
    return sqrt(p->acc.sum_sq / p->acc.sum_rr);
}

/* Does the output fail by itself, by the accuracy rule or by flipped codes? */
static pl_status output_fails(pl_analysis *x, pl_sync_point *p, const pl_judgement *v, bool *fails,
                              pl_err *err) {
    const bool off_zero = p->measured && !(p->acc.sum_rr > 0) && p->acc.sum_sq > 0;
    const bool no_gold = x->options->skip_gold != 0;
    const pl_accuracy_figures figures = {
        .structural = p->pair_class == PL_PAIR_STRUCTURAL && p->a.present && p->b.present,
        .nonfinite = p->pair_class == PL_PAIR_NONFINITE,
        .inherited = p->verdict == PL_VERDICT_INHERITED || p->verdict == PL_VERDICT_AMPLIFIED,
        .no_gold = no_gold,
        .overflowed = p->overflowed,
        .by_rule = x->accuracy.profile == PL_PROFILE_TORCH && x->recording == NULL,
        .rule = x->recording == NULL ? p->facts.rule : PL_FACT_UNKNOWN,
        .error = v->propagated,
        .scale = v->scale,
        .relative = off_zero && no_gold ? (double)INFINITY : pl_analysis_relative(p),
    };
    bool flips = false;
    pl_precision floats;
    pl_output_precision(x->replayed, p->replayed, NULL, &flips, &floats);
    const double limit = x->session->quant_limit;
    if (!isnan(limit) && !figures.by_rule && figures.rule != PL_FACT_NO) {
        const double off = no_gold || !(v->scale > 0) ? figures.relative : v->propagated / v->scale;
        *fails = figures.structural || figures.nonfinite || figures.overflowed || !(off <= limit);
    } else if (figures.by_rule || figures.overflowed || figures.rule == PL_FACT_NO) {
        *fails = pl_accuracy_output_fails(&x->accuracy, &figures);
    } else if (flips && !figures.structural && !no_gold) {
        return pl_analysis_flips(x, p, v, pl_accuracy_output_tol(&x->accuracy), fails, err);
    } else if (no_gold && isnan(x->accuracy.tol) && !figures.structural && !figures.nonfinite) {
        /* Only the reference is available, which has rounding errors of its own. */
        const double limit_of_type = pl_accuracy_floor(floats);
        const double tol = fmax(pl_accuracy_output_tol(&x->accuracy), limit_of_type);
        *fails = figures.relative > tol;
    } else {
        *fails = pl_accuracy_output_fails(&x->accuracy, &figures);
        if (*fails && x->blame.n_groups == 0 && !figures.structural && !figures.nonfinite &&
            !no_gold)
            PL_TRY(pl_analysis_device(x, p, v, fails, err));
        if (*fails && x->blame.n_groups == 0) return pl_analysis_excuse(x, p, &figures, fails, err);
    }
    return PL_OK;
}

/* Translates blame to nodes of the model under test: groups consist of nodes of the replayed model.
 */
static pl_status name_blame(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    s->blame = x->blame.groups;
    s->n_blame = x->blame.n_groups;
    if (x->replayed == x->model) return PL_OK;
    for (size_t i = 0; i < s->n_blame; i++) {
        pl_blame_entry *e = &s->blame[i];
        const pl_value *value = pl_graph_find(x->replayed->graph, e->value);
        const pl_value *own = value == NULL ? NULL : x->pairs.a[value->id];
        if (own == NULL || own->producer == NULL) continue;
        pl_origin origin;
        PL_TRY(pl_node_origin(own->producer, x->arena, &origin, err));
        e->value = pl_analysis_keep(x, own->name);
        e->node = pl_analysis_keep(x, own->producer->name);
        e->op = pl_analysis_keep(x, own->producer->op);
        if (*origin.module != '\0') e->module = origin.module;
    }
    return PL_OK;
}

/* Where NaN or Inf first appears in A and not in B. */
static pl_status say_nonfinite(pl_analysis *x, pl_err *err) {
    for (size_t i = 0; i < x->session->n_points; i++) {
        const pl_sync_point *p = &x->session->points[i];
        if (!p->measured || p->pair_class != PL_PAIR_NONFINITE) continue;
        const int64_t n = p->acc.n_nan_a + p->acc.n_inf_a;
        if (n == 0) continue;
        return pl_analysis_note(x, err, "%s first appears at '%s' (%s), %lld element%s; %s",
                                p->acc.n_nan_a > 0 ? "NaN" : "Inf", p->value, p->op, (long long)n,
                                pl_plural((uint64_t)n),
                                p->verdict == PL_VERDICT_CULPRIT ? "its inputs do not explain it"
                                                                 : "its inputs explain it");
    }
    return PL_OK;
}

/* Would the naive approach, marking all values as outputs, have shown this difference? */
static pl_status say_marking(pl_analysis *x, pl_err *err) {
    bool tried = false, disturbs = false;
    if (x->a.backend == NULL || pl_backend_levels(x->a.backend) == NULL) return PL_OK;
    PL_TRY(pl_mark_disturbs(&x->a, x->in, &tried, &disturbs, err));
    if (!tried || !disturbs) return PL_OK;
    x->session->observer_note = "marking every value as an output changes the outputs of this "
                                "backend, so it would hide the difference";
    return pl_analysis_note(x, err, "%s", x->session->observer_note);
}

static pl_status settle_points(pl_analysis *x, bool *any, pl_err *err) {
    pl_session *s = x->session;
    *any = false;
    PL_TRY(pl_analysis_trace_truth(x, err));
    PL_TRY(pl_analysis_trace_overflow(x, err));
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        const pl_judgement *v = &x->blame.of[p->replayed->id];
        settle_point(x, p, v, p->counterpart[0] != '\0');
        if (p->verdict == PL_VERDICT_CULPRIT) {
            /* The headline shows the first one. */
            if (x->accuracy.profile != PL_PROFILE_TORCH && s->first_divergence != NULL) {
                pl_buf_printf(x->lines, "DIVERGED at %s: %s\n", p->value, p->reason);
            }
            if (s->first_divergence == NULL) s->first_divergence = p->value;
        }
        if (p->is_output && !*any) PL_TRY(output_fails(x, p, v, &p->fails, err));
        *any = *any || p->fails;
    }
    return PL_OK;
}

static pl_status say_coverage(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_graph *graph = x->model->graph;
    s->n_replayed = x->blame.n_replayed;
    s->n_unreplayed = x->blame.n_unreplayed;
    s->single_node_share =
        x->blame.n_replayed > 0 ? (double)x->blame.n_single / (double)x->blame.n_replayed : 0;
    for (size_t i = 0; i < graph->n_outputs; i++)
        s->coverage.n_outputs +=
            graph->outputs[i]->producer != NULL || (x->a.plain != NULL && x->a.plain[i] != NULL);
    if (x->blame.n_without_rule > 0) {
        PL_TRY(pl_analysis_note(x, err, "without an error bound: %zu replayed node%s",
                                x->blame.n_without_rule, pl_plural(x->blame.n_without_rule)));
    }
    if (x->blame.n_unreplayed > 0) {
        PL_TRY(pl_analysis_note(x, err, "not replayed: %zu value%s (%s)", x->blame.n_unreplayed,
                                pl_plural(x->blame.n_unreplayed), x->blame.first_unreplayed));
    }
    return PL_OK;
}

pl_status pl_analysis_settle(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    bool failing = false;
    PL_TRY(judge_all_passed(x, err));
    PL_TRY(settle_points(x, &failing, err));
    PL_TRY(name_blame(x, err));
    PL_TRY(say_nonfinite(x, err));
    PL_TRY(pl_analysis_say_reach(x, err));
    PL_TRY(say_coverage(x, err));
    if (s->outcome == PL_OUTCOME_NONDETERMINISTIC) return PL_OK;
    bool look = failing && s->n_blame == 0;
    if (!failing && s->n_blame == 0) PL_TRY(pl_analysis_say_flips(x, &look, err));
    if (look) PL_TRY(say_marking(x, err));
    return pl_analysis_conclude(s, x->recording != NULL, err);
}

pl_status pl_analysis_conclude(pl_session *s, bool truth, pl_err *err) {
    const bool torch = strcmp(s->profile, "torch") == 0;
    const pl_claim claim = {
        .truth = truth,
        .agree = torch ? "all values are the same by PyTorch's rule"
                 : isnan(s->quant_limit)
                     ? "no operation is off by more than rounding explains"
                     : pl_arena_printf(s->arena,
                                       "the outputs are within %g of their size of the float "
                                       "model's, and no quantiser made a mistake",
                                       s->quant_limit),
        .first = torch && s->n_blame == 0 ? s->first_divergence : NULL,
    };
    return pl_verdict_conclude(s, &claim, err);
}
