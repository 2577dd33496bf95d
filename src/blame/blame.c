/* The blame pass: gold and replay in parallel, node by node. Each recorded value is judged as it
 * comes and then replaces its replay. */
#include "blame/blame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "blame/blame_int.h"
#include "blame/kind.h"
#include "interp/raise.h"
#include "ops/bound.h"
#include "ops/op.h"
#include "pair/layout.h"

/* How much worse than the reference's own error a value must be to count as inherited. */
#define INHERITED_RATIO 10.0
/* How much the relative error must grow within one segment to say that the op amplified it. */
#define AMPLIFIED_RATIO 100.0
/* Steps of a node from which on a second run costs (some 10 ms). */
#define LARGE_WORK 0x1p24

static const pl_tensor *tensor_of(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

pl_dtype pl_blaming_native(const pl_blaming *j, const pl_value *value, const pl_tensor *held) {
    (void)j;
    const pl_type *type = value->type;
    if (type != NULL && type->kind == PL_TYPE_TENSOR && type->dtype != PL_UNDEFINED) {
        return type->dtype;
    }
    return held->dtype;
}

pl_status pl_blaming_get(const pl_blaming *j, const pl_value *value, pl_datum **out, pl_err *err) {
    const pl_judgement *v = &j->out->of[value->id];
    pl_tensor *dense = NULL, *viewed = NULL;
    pl_datum *held = NULL;
    PL_TRY(j->a->get(j->a->ctx, value, &held, err));
    *out = held;
    if (v->view == NULL || tensor_of(held) == NULL) return PL_OK;
    *out = NULL;
    pl_status st = pl_tensor_contiguous(held->tensor, &dense, err);
    if (st == PL_OK) st = pl_tensor_reshape(dense, v->view_rank, v->view, &viewed, err);
    if (st == PL_OK && v->layout != NULL) {
        pl_tensor *turned = NULL, *like = NULL;
        st = pl_layout_apply(v->layout, viewed, dense, &like, &turned, err);
        pl_tensor_unref(viewed);
        pl_tensor_unref(like);
        viewed = turned;
    }
    if (st == PL_OK) {
        st = pl_datum_of_tensor_take(viewed, out, err);
    } else {
        pl_tensor_unref(viewed);
    }
    pl_tensor_unref(dense);
    pl_datum_unref(held);
    return st;
}

/* ---- distances ---- */

enum { BLOCK = 1024, LANES = 8 };

typedef struct distance_part { /* of one block */
    double sum, sum_y;
    int64_t n, n_apart;
} distance_part;

typedef struct distance_job {
    const pl_tensor *x, *y;
    distance_part *parts;
} distance_job;

/* Where every number is finite the sums are; lanes, so that the compiler may use vectors. */
static bool distance_finite(const double *a, const double *b, distance_part *p) {
    double sum[LANES] = { 0 }, sum_y[LANES] = { 0 };
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const double off = a[i + l] - b[i + l];
            sum[l] += off * off;
            sum_y[l] += b[i + l] * b[i + l];
        }
    for (int l = 0; l < LANES; l++) {
        p->sum += sum[l];
        p->sum_y += sum_y[l];
    }
    p->n = BLOCK;
    return isfinite(p->sum) && isfinite(p->sum_y);
}

static void distance_any(const double *a, const double *b, size_t n, distance_part *p) {
    for (size_t i = 0; i < n; i++) {
        if (isfinite(a[i]) && isfinite(b[i])) {
            p->sum += (a[i] - b[i]) * (a[i] - b[i]);
            p->sum_y += b[i] * b[i];
            p->n++;
        } else if (isfinite(a[i]) != isfinite(b[i]) || isnan(a[i]) != isnan(b[i])) {
            p->n_apart++;
        }
    }
}

static void distance_block(void *ctx, int64_t begin, int64_t end) {
    const distance_job *j = ctx;
    double a[BLOCK], b[BLOCK];
    const size_t x_size = pl_dtype_bytes(j->x->dtype), y_size = pl_dtype_bytes(j->y->dtype);
    for (int64_t at = begin; at < end; at += BLOCK) {
        const size_t m = (size_t)(end - at < BLOCK ? end - at : BLOCK);
        distance_part p = { 0 };
        pl_load_f64(j->x->dtype, (const char *)j->x->data + (size_t)at * x_size, a, m);
        pl_load_f64(j->y->dtype, (const char *)j->y->data + (size_t)at * y_size, b, m);
        if (m < BLOCK || !distance_finite(a, b, &p)) {
            p = (distance_part){ 0 };
            distance_any(a, b, m, &p);
        }
        j->parts[at / BLOCK] = p;
    }
}

/* rms of x - y and of y over the places where both are finite; NAN when they cannot be compared. */
static pl_status rms_between(pl_pool *pool, const pl_tensor *x, const pl_tensor *y,
                             double *distance, double *scale, pl_err *err) {
    *distance = (double)NAN;
    if (scale != NULL) *scale = (double)NAN;
    if (x == NULL || y == NULL || x->dtype == PL_STRING || y->dtype == PL_STRING ||
        !pl_tensor_same_shape(x, y) || x->n_elements == 0) {
        return PL_OK;
    }
    const int64_t n_parts = (x->n_elements + BLOCK - 1) / BLOCK;
    distance_job job = { x, y, pl_calloc((size_t)n_parts, sizeof(distance_part)) };
    if (job.parts == NULL) return pl_fail_memory(err, (size_t)n_parts);
    pl_pool_for(pool, x->n_elements, 16 * BLOCK, distance_block, &job);
    distance_part all = { 0 };
    for (int64_t i = 0; i < n_parts; i++) {
        all.sum += job.parts[i].sum;
        all.sum_y += job.parts[i].sum_y;
        all.n += job.parts[i].n;
        all.n_apart += job.parts[i].n_apart;
    }
    pl_free(job.parts);
    const double n = (double)all.n;
    *distance = all.n_apart > 0 ? (double)INFINITY : all.n == 0 ? 0 : sqrt(all.sum / n);
    if (scale != NULL) *scale = all.n == 0 ? 0 : sqrt(all.sum_y / n);
    return PL_OK;
}

/* ---- judging one value ---- */

static const char *or_empty(const char *s) { /* out of memory loses a reason, not the analysis */
    return s == NULL ? "" : s;
}

void pl_judgement_decide(pl_judgement *v) {
    v->verdict = pl_verdict_of_value(&v->facts);
}

pl_status pl_blaming_flag(pl_blaming *j, const pl_value *value, const pl_segment *segment,
                          const pl_tensor *a, const pl_tensor *d, pl_err *err) {
    if (!PL_ARRAY_ROOM(j->flagged, j->n_flagged, &j->flagged_capacity)) {
        return pl_fail_memory(err, j->n_flagged);
    }
    pl_flagged f = { .value = value, .segment = *segment };
    const size_t max_kept = j->options->max_effects == 0 ? 16 : j->options->max_effects;
    if (a != NULL && j->n_flagged < 4 * max_kept && pl_tensor_same_shape(a, d) &&
        a->dtype != PL_STRING) {
        PL_TRY(pl_tensor_cast(a, PL_F64, &f.shift, err));
        pl_tensor *back = NULL;
        const pl_status st = pl_tensor_cast(d, PL_F64, &back, err);
        if (st != PL_OK) {
            pl_tensor_unref(f.shift);
            return st;
        }
        double *x = f.shift->data;
        const double *y = back->data;
        for (int64_t i = 0; i < f.shift->n_elements; i++)
            x[i] = isfinite(x[i] - y[i]) || isnan(x[i]) || isinf(x[i]) ? x[i] - y[i] : 0;
        pl_tensor_unref(back);
    }
    size_t at = j->n_flagged++; /* in the order of the nodes; nearly always at the end */
    for (; at > 0 && j->flagged[at - 1].value->producer->index > value->producer->index; at--)
        j->flagged[at] = j->flagged[at - 1];
    j->flagged[at] = f;
    for (size_t i = 0; i < segment->n_nodes; i++)
        j->blamed[segment->nodes[i]->index] = true;
    return PL_OK;
}

static const char *describe_culprit(pl_blaming *j, const pl_judgement *v, const pl_local_error *e,
                                    const pl_tensor *a, const pl_tensor *d) {
    char found[160], expected[160];
    if (e->kind == PL_LOCAL_SHAPE) {
        return pl_arena_printf(j->out->arena, "has shape %s, the model declares %s",
                               pl_dims_describe(a->rank, a->dims, found, sizeof(found)),
                               pl_dims_describe(d->rank, d->dims, expected, sizeof(expected)));
    }
    if (e->kind == PL_LOCAL_NONFINITE) {
        return pl_arena_printf(
            j->out->arena,
            "NaN or Inf in the value or its replay, but not both; %lld of %lld elements wrong",
            (long long)e->n_bad, (long long)e->n);
    }
    char times[60] = "far beyond its bound (> 1e6 times)";
    if (v->q <= 1e6) snprintf(times, sizeof(times), "%.3g times its bound", v->q);
    return pl_arena_printf(j->out->arena, "local error %s in %lld of %lld elements; inputs %s",
                           times, (long long)e->n_bad, (long long)e->n,
                           isnan(v->amplified) || v->amplified <= INHERITED_RATIO * v->local
                               ? "agree"
                               : "already wrong");
}

static pl_status make_culprit(pl_blaming *j, const pl_value *value, const pl_segment *segment,
                              pl_judgement *v, const pl_local_error *e, const pl_tensor *a,
                              const pl_tensor *d, pl_err *err) {
    pl_kind_fit kind = { "shape", "", "", NULL };
    bool done = false;
    PL_TRY(pl_blaming_shape_did_it(j, segment, value, a, v, &done, err));
    if (done) return PL_OK;
    v->facts.local = PL_FACT_NO;
    pl_judgement_decide(v);
    v->reason = or_empty(describe_culprit(j, v, e, a, d));
    if (e->kind != PL_LOCAL_SHAPE) {
        PL_TRY(pl_kind_of(a, d, pl_replay_bound(j->local, value), pl_blaming_native(j, value, a),
                          j->out->arena, &kind, err));
        PL_TRY(pl_kind_of_node(j, segment, value, a, d, &kind, err));
    }
    if (kind.remedy != NULL) {
        v->reason =
            or_empty(pl_arena_printf(j->out->arena, "%s; remedy: %s", v->reason, kind.remedy));
    }
    v->kind = *kind.text != '\0' ? kind.text : kind.kind;
    v->where = kind.where;
    return pl_blaming_flag(j, value, segment, a, d, err);
}

/* Nodes of the segment that do more than move elements. */
static size_t count_rounding(const pl_segment *segment) {
    size_t n = 0;
    for (size_t i = 0; i < segment->n_nodes; i++)
        n += segment->nodes[i]->n_in > 0 && segment->nodes[i]->def->bound != PL_BOUND_EXACT;
    return n;
}

/* A function of one element, alone, within its bound: what it adds is its own arithmetic. Its error
 * may exceed a small value many times, as where a runtime clamps the tail of Sigmoid, also if its
 * elements are moved before they are recorded. Sums have bounds too wide for this. */
static bool is_own_rounding(const pl_value *value, const pl_judgement *v,
                            const pl_segment *segment) {
    const pl_op_def *def = value->producer->def;
    if (v->q > 1 || def->bound == PL_BOUND_TODO) return false;
    if (segment->n_computing == 1 && (def->flags & PL_OP_ELEMENTWISE) != 0) return true;
    return count_rounding(segment) == 1 && pl_value_absolute_error(value, PL_UNDEFINED) > 0;
}

/* Moves the elements of such values, and of others that are near gold. */
static bool moves_own_rounding(const pl_blaming *j, const pl_judgement *v,
                               const pl_segment *segment, const pl_value *value) {
    bool any = false;
    if (segment->n_computing > 1 || v->q > 1 || value->producer->def->bound != PL_BOUND_EXACT)
        return false;
    for (size_t i = 0; i < segment->n_inputs; i++) {
        const pl_judgement *in = &j->out->of[segment->inputs[i]->id];
        if (in->judged && in->verdict != PL_VERDICT_SAME && in->verdict != PL_VERDICT_WITHIN)
            return false;
        any = any || in->own;
    }
    return any;
}

/* The value is close to its replay: is it close to gold, too? */
static void judge_inherited(pl_blaming *j, const pl_value *value, pl_judgement *v,
                            const pl_segment *segment, pl_dtype native) {
    const double u = pl_dtype_is_float(native) ? pl_dtype_unit_roundoff(native) : 0;
    const double floor_ = pl_dtype_is_float(native) ? 64 * u * v->scale : 0.5;
    const double reference = isnan(v->reference) ? 0 : v->reference;
    for (size_t i = 0; i < segment->n_inputs; i++)
        v->otherwise = v->otherwise || j->out->of[segment->inputs[i]->id].otherwise;
    if (v->otherwise) return; /* gold follows the first reading of ONNX, so it does not apply */
    const double limit = INHERITED_RATIO * fmax(reference, floor_);
    if (isnan(v->propagated) || v->propagated <= limit) return;
    v->own = (v->amplified <= limit && is_own_rounding(value, v, segment)) ||
             moves_own_rounding(j, v, segment, value);
    if (v->own) return;
    double worst_in = 0;
    for (size_t i = 0; i < segment->n_inputs; i++) {
        const pl_judgement *in = &j->out->of[segment->inputs[i]->id];
        if (in->judged && in->scale > 0 && isfinite(in->propagated)) {
            worst_in = fmax(worst_in, in->propagated / in->scale);
        }
    }
    const double here = v->scale > 0 ? v->propagated / v->scale : (double)INFINITY;
    v->facts.far = true;
    v->facts.grown = worst_in > 0 && here > AMPLIFIED_RATIO * worst_in;
    pl_judgement_decide(v);
    v->reason = or_empty(pl_arena_printf(
        j->out->arena,
        "off by %.3g (rms) from fp64, local error %.3g; inputs off by %.3g of their size",
        v->propagated, v->local, worst_in));
}

static pl_status measure_local(pl_blaming *j, const pl_value *value, const pl_tensor *a,
                               const pl_tensor *d, pl_local_error *e, pl_err *err) {
    pl_tensor *sa = NULL, *sd = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_picks_sort(value, a, &sa, err));
    PL_TRY_GOTO(done, st, pl_picks_sort(value, d, &sd, err));
    st = pl_local_error_measure(j->options->pool, sa == NULL ? a : sa, sd == NULL ? d : sd,
                                pl_replay_bound(j->local, value), pl_blaming_native(j, value, a), e,
                                err);
done:
    pl_tensor_unref(sa);
    pl_tensor_unref(sd);
    return st;
}

/* Inside the model the largest number of a type does for Inf; in an output it is another answer, if
 * B gives the Inf. */
static pl_status hold_limit(pl_blaming *j, const pl_value *value, const pl_tensor *b,
                            const pl_tensor *d, pl_judgement *v, pl_local_error *e, pl_err *err) {
    pl_local_error of_b;
    if (!value->is_output || e->n_limit == 0 || b == NULL) return PL_OK;
    PL_TRY(pl_local_error_measure(j->options->pool, b, d, pl_replay_bound(j->local, value),
                                  pl_blaming_native(j, value, b), &of_b, err));
    if (of_b.n_limit > 0 || of_b.kind != PL_LOCAL_MEASURED) return PL_OK;
    if (e->kind != PL_LOCAL_NONFINITE) e->worst = e->limit_at;
    e->kind = PL_LOCAL_NONFINITE;
    e->n_bad += e->n_limit;
    v->q = e->q = (double)INFINITY;
    v->excuse = "";
    return PL_OK;
}

/* B is a recording and may be of another computation: accept only as much of its error as rounding
 * explains. */
static void cap_reference(pl_judgement *v, pl_dtype native) {
    const double u = pl_dtype_is_float(native) ? pl_dtype_unit_roundoff(native) : 0;
    const double most = pl_dtype_is_float(native) ? 1024 * u * v->scale : 0.5;
    if (v->reference > most) v->reference = most;
}

static pl_status judge_tensor(pl_blaming *j, const pl_value *value, const pl_tensor *a,
                              const pl_tensor *b, const pl_tensor *gold, const pl_tensor *d,
                              pl_judgement *v, pl_err *err) {
    const pl_dtype native = pl_blaming_native(j, value, a);
    pl_local_error e;
    pl_segment segment;
    PL_TRY(measure_local(j, value, a, d, &e, err));
    PL_TRY(pl_segment_find(&j->segmenter, value, j->out->arena, &segment, err));
    j->out->n_replayed++;
    j->out->n_single += segment.n_computing == 1;
    if (e.q > PL_Q_CULPRIT && (value->producer->def->flags & PL_OP_PICKS) != 0 &&
        pl_dtype_is_integer(a->dtype) && e.kind == PL_LOCAL_MEASURED) {
        bool agree = false;
        PL_TRY(pl_picks_agree(j, value, a, &agree, err));
        if (agree) {
            e.q = 0;
            v->excuse = "picked a different element of equal value";
        }
    }
    if (e.kind == PL_LOCAL_SHAPE)
        PL_TRY(pl_excuse_shape(j, &segment, value, a, &e, &v->excuse, err));
    v->q = e.q;
    if (e.q > PL_Q_UNUSUAL && e.kind != PL_LOCAL_SHAPE) {
        PL_TRY(pl_excuse_try(j, &segment, value, a, &e, &v->q_ref, &v->excuse, err));
        v->q = e.q / fmax(1, isnan(v->q_ref) ? 1 : v->q_ref);
        v->otherwise = v->excuse == pl_excuse_otherwise;
    }
    if (v->q <= PL_Q_CULPRIT) PL_TRY(hold_limit(j, value, b, d, v, &e, err));
    v->local_class = e.kind;
    v->local = e.rms;
    v->n_bad = e.n_bad;
    pl_pool *pool = j->options->pool;
    PL_TRY(rms_between(pool, a, gold, &v->propagated, &v->scale, err));
    PL_TRY(rms_between(pool, d, gold, &v->amplified, NULL, err));
    PL_TRY(rms_between(pool, b, gold, &v->reference, NULL, err));
    if (j->options->b_is_truth) cap_reference(v, native);
    if (v->q > PL_Q_CULPRIT) return make_culprit(j, value, &segment, v, &e, a, d, err);
    v->facts = (pl_value_facts){ .paired = true, .local = PL_FACT_YES };
    pl_judgement_decide(v);
    judge_inherited(j, value, v, &segment, native);
    return PL_OK;
}

static void unverified(pl_blaming *j, pl_judgement *v, const char *why) {
    v->facts = (pl_value_facts){ .unreplayed = true };
    pl_judgement_decide(v);
    v->reason = or_empty(pl_arena_strdup(j->out->arena, why));
    j->out->n_unreplayed++;
    if (*j->out->first_unreplayed == '\0') j->out->first_unreplayed = v->reason;
}

/* One of the tensors of a value with those elements that mean nothing taken from its replay, so
 * that they are equal on all sides. *out is a new reference, or NULL. */
static pl_status level(const pl_ranges *nothing, const pl_tensor *t, const pl_tensor *d,
                       pl_tensor **out, pl_err *err) {
    *out = NULL;
    if (t == NULL) return PL_OK;
    if (nothing != NULL) return pl_ranges_replace(nothing, t, d, out, err);
    *out = pl_tensor_ref(t);
    return PL_OK;
}

static pl_status judge_leveled(pl_blaming *j, const pl_value *value, const pl_tensor *a,
                               const pl_tensor *b, const pl_tensor *d, pl_judgement *v,
                               pl_err *err) {
    const pl_ranges *nothing = pl_dont_care_of(&j->dont_care, value);
    pl_tensor *dense = NULL, *la = NULL, *lb = NULL, *lg = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(a, &dense, err));
    PL_TRY_GOTO(done, st, level(nothing, dense, d, &la, err));
    PL_TRY_GOTO(done, st, level(nothing, b, d, &lb, err));
    if (j->gold != NULL)
        PL_TRY_GOTO(done, st,
                    level(nothing, tensor_of(pl_replay_get(j->gold, value)), d, &lg, err));
    st = judge_tensor(j, value, la, lb, lg, d, v, err);
done:
    pl_tensor_unref(dense);
    pl_tensor_unref(la);
    pl_tensor_unref(lb);
    pl_tensor_unref(lg);
    return st;
}

/* A value of which no element is defined cannot be judged. */
static void note_undefined(pl_blaming *j, const pl_value *value, const pl_datum *a,
                           pl_judgement *v) {
    const pl_ranges *nothing = pl_dont_care_of(&j->dont_care, value);
    if (nothing == NULL || tensor_of(a) == NULL) return;
    v->n_undefined = pl_ranges_count(nothing);
    if (v->n_undefined < a->tensor->n_elements) return;
    if (!v->facts.unreplayed)
        unverified(j, v, "every element depends on elements that an operator leaves undefined");
    v->facts.undefined = true;
}

/* Shows a judged value. Elements that mean nothing are zeros on every side. */
static pl_status show_value(pl_blaming *j, const pl_value *value, const pl_datum *a,
                            const pl_datum *b, pl_err *err) {
    pl_datum *all[3] = { pl_datum_ref(a), b == NULL ? NULL : pl_datum_ref(b), NULL };
    const pl_datum *gold = j->gold == NULL ? NULL : pl_replay_get(j->gold, value);
    pl_status st = PL_OK;
    if (gold != NULL) all[2] = pl_datum_ref(gold);
    for (int i = 0; i < 3 && st == PL_OK; i++)
        if (all[i] != NULL) st = pl_dont_care_hide(&j->dont_care, value, &all[i], err);
    if (st == PL_OK)
        st = j->options->visit(j->options->visit_ctx, value, all[0], all[1], all[2], err);
    for (int i = 0; i < 3; i++)
        pl_datum_unref(all[i]);
    return st;
}

static pl_status show_culprit(pl_blaming *j, const pl_value *value, const pl_tensor *d,
                              pl_err *err) {
    const pl_ranges *nothing = pl_dont_care_of(&j->dont_care, value);
    pl_tensor *shown = NULL;
    PL_TRY(level(nothing, d, NULL, &shown, err));
    const pl_status st = j->options->culprit(j->options->visit_ctx, value, shown,
                                             pl_replay_bound(j->local, value), err);
    pl_tensor_unref(shown);
    return st;
}

/* Judges a recorded value and uses it instead of its replay from then on. `why` is set when there
 * is no replay. */
static pl_status judge_value(pl_blaming *j, const pl_value *value, const char *why, pl_err *err) {
    pl_datum *a = NULL, *b = NULL;
    pl_judgement *v = &j->out->of[value->id];
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, j->a->get(j->a->ctx, value, &a, err));
    if (j->b != NULL && j->b->has(j->b->ctx, value)) {
        PL_TRY_GOTO(done, st, j->b->get(j->b->ctx, value, &b, err));
    }
    *v = (pl_judgement){ .judged = true,
                         .q = (double)NAN,
                         .q_ref = (double)NAN,
                         .local = (double)NAN,
                         .propagated = (double)NAN,
                         .amplified = (double)NAN,
                         .reference = (double)NAN,
                         .scale = (double)NAN,
                         .excuse = "",
                         .reason = "",
                         .kind = "",
                         .where = "" };
    const pl_datum *d = why == NULL ? pl_replay_get(j->local, value) : NULL;
    if (why != NULL) {
        unverified(j, v, why);
    } else if (d == NULL) {
        unverified(j, v, "the replay returned nothing");
    } else if (tensor_of(a) == NULL || tensor_of(d) == NULL) {
        unverified(j, v, "a sequence or optional has no error bound");
    } else if (pl_dtype_class_of(a->tensor->dtype) == PL_CLASS_COMPLEX) {
        unverified(j, v, "complex numbers have no error bound");
    } else {
        v->fallback = (value->producer->def->flags & PL_OP_NO_FP64) != 0;
        PL_TRY_GOTO(done, st, pl_blaming_view(j, value, &a, d->tensor, v, err));
        st = judge_leveled(j, value, a->tensor, tensor_of(b), d->tensor, v, err);
        if (st == PL_OK && v->verdict == PL_VERDICT_CULPRIT && j->options->culprit != NULL)
            st = show_culprit(j, value, d->tensor, err);
    }
    note_undefined(j, value, a, v);
    if (st == PL_OK && j->options->visit != NULL) st = show_value(j, value, a, b, err);
    /* Later nodes used the run's value, unless its shape makes that impossible. */
    const bool usable = v->local_class != PL_LOCAL_SHAPE || why != NULL || d == NULL;
    if (st == PL_OK && usable) st = pl_replay_put(j->local, value, a, NULL, err);
done:
    pl_datum_unref(a);
    pl_datum_unref(b);
    return st;
}

/* ---- the pass ---- */

static bool inputs_missing(const pl_blaming *j, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] != NULL && j->missing[node->in[i]->id]) return true;
    }
    return false;
}

/* NULL when the node was replayed, else why not. A message lives in *err's buffer. */
static const char *replay_one(pl_blaming *j, const pl_node *node, pl_err *why) {
    if (pl_node_is_random(node)) return "random operators are not replayed";
    if (inputs_missing(j, node)) return "an operation before it could not be replayed";
    if (pl_replay_node(j->local, node, why) == PL_OK) return NULL;
    return why->message;
}

static double elements_of(const pl_replay *r, const pl_value *value) {
    const pl_tensor *t = value == NULL ? NULL : tensor_of(pl_replay_get(r, value));
    if (t == NULL && value != NULL) t = value->init;
    return t == NULL ? 1 : (double)t->n_elements;
}

/* About how many steps a node takes: products of a sum, else a few for each element. */
static double work_of(const pl_blaming *j, const pl_node *node) {
    enum { STEPS = 4 };
    double n = 0;
    for (uint32_t i = 0; i < node->n_out; i++)
        n += elements_of(j->gold, node->out[i]);
    if ((node->def->flags & PL_OP_SUMS) == 0 || node->n_in < 2) return (double)STEPS * n;
    return sqrt(n * elements_of(j->gold, node->in[0]) * elements_of(j->gold, node->in[1]));
}

/* Weights that a node makes of integers (ConstantOfShape): nothing is rounded there. */
static bool makes_constants(const pl_blaming *j, const pl_node *node) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *in = node->in[i];
        const pl_tensor *t = in == NULL ? NULL : tensor_of(pl_replay_get(j->gold, in));
        if (in != NULL && t == NULL) t = in->init;
        if (in != NULL && (t == NULL || !pl_dtype_is_integer(t->dtype))) return false;
    }
    return node->n_in > 0;
}

/* Is this node of gold run again? All small ones are, and the first large one of each operator:
 * kernels write blocks of their outputs and own no state, so that one shows what all would. */
static pl_status gold_repeats(pl_blaming *j, const pl_node *node, bool *repeats, pl_err *err) {
    *repeats = j->options->gold_twice && j->out->gold_unstable == NULL;
    if (!*repeats || work_of(j, node) < LARGE_WORK) return PL_OK;
    *repeats = !makes_constants(j, node);
    for (size_t i = 0; i < j->n_repeated && *repeats; i++)
        *repeats = j->repeated[i] != node->def;
    if (!*repeats) return PL_OK;
    if (!PL_ARRAY_ROOM(j->repeated, j->n_repeated, &j->repeated_capacity))
        return pl_fail_memory(err, j->n_repeated);
    j->repeated[j->n_repeated++] = node->def;
    return PL_OK;
}

static pl_status repeat_gold(pl_blaming *j, const pl_node *node, pl_err *err) {
    bool repeats = false;
    PL_TRY(gold_repeats(j, node, &repeats, err));
    return repeats ? pl_replay_again(j->gold, node, &j->out->gold_unstable, err) : PL_OK;
}

static pl_status gold_one(pl_blaming *j, const pl_node *node, pl_err *err) {
    if (j->gold == NULL) return PL_OK;
    pl_err ignored = PL_ERR_INIT;
    const bool random = pl_node_is_random(node);
    const pl_status st = random ? PL_E_INVALID : pl_replay_node(j->gold, node, &ignored);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 0);
    if (st == PL_OK) PL_TRY(repeat_gold(j, node, err));
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_value *value = node->out[i];
        if (value == NULL) continue;
        if (st != PL_OK && j->a->has(j->a->ctx, value)) {
            /* Random, or without an fp64 form: gold continues with the run's value. */
            pl_datum *a = NULL;
            PL_TRY(j->a->get(j->a->ctx, value, &a, err));
            const pl_status put = pl_replay_put(j->gold, value, a, NULL, err);
            pl_datum_unref(a);
            PL_TRY(put);
        }
        const pl_datum *d = pl_replay_get(j->gold, value);
        if (d != NULL && j->options->gold != NULL)
            PL_TRY(j->options->gold(j->options->visit_ctx, value, d, err));
    }
    return PL_OK;
}

static pl_status visit_node(pl_blaming *j, const pl_node *node, pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    PL_TRY(gold_one(j, node, err));
    const char *why = replay_one(j, node, &trouble);
    if (trouble.status == PL_E_MEMORY) return pl_fail(err, PL_E_MEMORY, "%s", trouble.message);
    for (uint32_t i = 0; i < node->n_out; i++) {
        const pl_value *value = node->out[i];
        if (value == NULL) continue;
        if (j->a->has(j->a->ctx, value)) {
            PL_TRY(judge_value(j, value, why, err));
        } else {
            j->missing[value->id] = why != NULL;
            const pl_datum *gold = j->gold == NULL ? NULL : pl_replay_get(j->gold, value);
            if (j->options->unseen != NULL && gold != NULL)
                PL_TRY(j->options->unseen(j->options->visit_ctx, value, gold, err));
        }
    }
    pl_replay_release_after(j->local, node);
    if (j->gold != NULL) pl_replay_release_after(j->gold, node);
    return PL_OK;
}

static pl_status put_inputs(pl_blaming *j, pl_err *err) {
    const pl_graph *graph = j->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_datum *raised = NULL; /* the same data for both: what follows from it is computed once */
        if (j->in[i] == NULL) continue;
        PL_TRY(pl_datum_raise(j->options->pool, j->in[i], &raised, err));
        pl_status st = pl_replay_put(j->local, graph->inputs[i], raised, NULL, err);
        if (st == PL_OK && j->gold != NULL)
            st = pl_replay_put(j->gold, graph->inputs[i], raised, NULL, err);
        pl_datum_unref(raised);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status judge_init(pl_blaming *j, pl_err *err) {
    pl_replay_options local = { .pool = j->options->pool,
                                .seed = j->options->seed,
                                .arithmetic = j->a->arithmetic };
    pl_replay_options gold = local;
    pl_blame *out = j->out;
    gold.no_bounds = true;
    out->arena = pl_arena_new();
    out->first_unreplayed = "";
    out->of = pl_calloc((size_t)j->model->n_values + 1, sizeof(pl_judgement));
    j->missing = pl_calloc((size_t)j->model->n_values + 1, sizeof(bool));
    j->blamed = pl_calloc(j->model->graph->n_nodes + 1, sizeof(bool));
    if (out->arena == NULL || out->of == NULL || j->missing == NULL || j->blamed == NULL) {
        return pl_fail_memory(err, j->model->n_values);
    }
    PL_TRY(pl_segmenter_init(&j->segmenter, j->model, j->a->has, j->a->ctx, err));
    if (!j->options->skip_gold) PL_TRY(pl_replay_new(j->model, &gold, &j->gold, err));
    local.ahead = j->gold;
    return pl_replay_new(j->model, &local, &j->local, err);
}

static void judge_release(pl_blaming *j) {
    for (size_t i = 0; i < j->n_flagged; i++)
        pl_tensor_unref(j->flagged[i].shift);
    pl_free(j->flagged);
    pl_free(j->missing);
    pl_free(j->blamed);
    pl_free(j->repeated);
    pl_segmenter_release(&j->segmenter);
    pl_replay_free(j->gold);
    pl_replay_free(j->local);
    pl_dont_care_release(&j->dont_care);
}

pl_status pl_blame_run(pl_model *model, pl_datum *const *in, const pl_run_data *a,
                       const pl_run_data *b, const pl_blame_options *options, pl_blame *out,
                       pl_err *err) {
    *out = (pl_blame){ .arena = NULL };
    pl_blaming j = { .model = model, .in = in, .a = a, .b = b, .options = options, .out = out };
    const pl_graph *graph = model->graph;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, judge_init(&j, err));
    PL_TRY_GOTO(done, st,
                pl_dont_care_find(model, in, pl_pool_threads(options->pool), &j.dont_care, err));
    PL_TRY_GOTO(done, st, put_inputs(&j, err));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        PL_TRY_GOTO(done, st, visit_node(&j, graph->nodes[i], err));
        PL_TRY_GOTO(done, st,
                    pl_progress_step(options->progress, "replay", (int64_t)i + 1,
                                     (int64_t)graph->n_nodes, err));
    }
    out->n_without_rule = pl_replay_without_rule(j.local);
    st = pl_blame_group(&j, err);
done:
    judge_release(&j);
    if (st != PL_OK) pl_blame_release(out);
    return st;
}

void pl_blame_release(pl_blame *blame) {
    pl_free(blame->of);
    pl_arena_free(blame->arena);
    *blame = (pl_blame){ .arena = NULL };
}
