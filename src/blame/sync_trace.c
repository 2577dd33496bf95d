/* Finds where divergence begins.
 *
 * The segment of a bad value, back to the nearest compared values, shows what it was computed from.
 * Without a replay this is only circumstantial: if the inputs agree a hundred times better than the
 * value itself, it is a culprit, otherwise it is amplified. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/kind.h"
#include "blame/sync.h"
#include "pair/pair_graph.h"

enum { KINDS_MAX = 8, KIND_ELEMENTS_MAX = 1 << 20 };
#define GROWTH 100.0 /* growth of the relative error that no correct op has */

typedef struct trace {
    const pl_sync_side *side[PL_PAIR_SIDES];
    const pl_sync_options *options;
    pl_session *session;
    int of; /* side whose graph it is */
    pl_pair_graph graph;
    uint32_t *first; /* by value: its first point, or PL_PAIR_NONE */
    uint32_t *next;  /* by point: a further one of the same value */
    uint32_t *value; /* by point */
    uint32_t *stamp; /* by value: point + 1 that visited it */
    uint32_t *stack;
    double *relative; /* by point; NAN = not measured */
} trace;

/* ||d|| / ||r||, or infinite where that is undefined. */
static double relative_of(const pl_sync_point *p) {
    if (pl_sync_point_has_class(p) && p->pair_class >= PL_PAIR_NONFINITE) return (double)INFINITY;
    if (!p->measured) return (double)NAN;
    if (p->acc.sum_sq == 0) return p->acc.n_mismatch > 0 ? (double)INFINITY : 0;
    if (p->acc.sum_rr == 0) return (double)INFINITY;
    return ldexp(sqrt(p->acc.sum_sq) / sqrt(p->acc.sum_rr), (int)(p->acc.d_scale - p->acc.v_scale));
}

static bool was_compared(const pl_sync_point *p) {
    return pl_verdict_is_answer(p->verdict);
}

/* ---- the graph ---- */

static const pl_record *record_of(const trace *t, const pl_sync_point *p) {
    const char *key = t->of == 0 ? p->a.key : p->b.key;
    return key == NULL ? NULL : pl_recording_find(t->side[t->of]->recording, key);
}

static pl_status index_points(trace *t, pl_err *err) {
    const pl_session *s = t->session;
    const size_t n = (size_t)t->graph.n_values + 1;
    t->first = pl_calloc(n, sizeof *t->first);
    t->stamp = pl_calloc(n, sizeof *t->stamp);
    t->stack = pl_calloc(n, sizeof *t->stack);
    t->next = pl_calloc(s->n_points + 1, sizeof *t->next);
    t->value = pl_calloc(s->n_points + 1, sizeof *t->value);
    t->relative = pl_calloc(s->n_points + 1, sizeof *t->relative);
    if (t->first == NULL || t->stamp == NULL || t->stack == NULL || t->next == NULL ||
        t->value == NULL || t->relative == NULL || s->n_points >= PL_PAIR_NONE)
        return pl_fail_memory(err, n);
    for (size_t v = 0; v < n; v++)
        t->first[v] = PL_PAIR_NONE;
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_record *r = record_of(t, &s->points[i]);
        const uint32_t v = r == NULL || t->graph.n_values == 0
                               ? PL_PAIR_NONE
                               : pl_pair_graph_find(&t->graph, r->graph, r->value);
        t->value[i] = v;
        t->relative[i] = relative_of(&s->points[i]);
        t->next[i] = PL_PAIR_NONE;
        if (v == PL_PAIR_NONE || !was_compared(&s->points[i])) continue;
        t->next[i] = t->first[v];
        t->first[v] = (uint32_t)i;
    }
    return PL_OK;
}

static pl_status trace_init(trace *t, pl_arena *scratch, pl_err *err) {
    for (t->of = 0; t->of < PL_PAIR_SIDES; t->of++) {
        const pl_sync_side *side = t->side[t->of];
        pl_pair_side pair;
        PL_TRY(pl_pair_side_of_recording(side->recording, side->model, scratch, &pair, err));
        PL_TRY(pl_pair_graph_init(&t->graph, &pair, err));
        if (t->graph.n_nodes > 0 || t->of == PL_PAIR_SIDES - 1) break;
        pl_pair_graph_release(&t->graph);
    }
    return index_points(t, err);
}

static void trace_release(trace *t) {
    pl_pair_graph_release(&t->graph);
    pl_free(t->first);
    pl_free(t->stamp);
    pl_free(t->stack);
    pl_free(t->next);
    pl_free(t->value);
    pl_free(t->relative);
}

/* ---- one bad value ---- */

typedef struct ancestry {
    bool known;      /* every input of the segment was compared */
    const char *bad; /* a compared one that diverges, or NULL */
    double relative; /* worst of those that agree */
    size_t n_ops, n_seen;
} ancestry;

static void look_at_points(const trace *t, uint32_t v, ancestry *out) {
    for (uint32_t i = t->first[v]; i != PL_PAIR_NONE; i = t->next[i]) {
        const pl_sync_point *p = &t->session->points[i];
        if (pl_sync_point_is_bad(p)) out->bad = p->value;
        if (t->relative[i] > out->relative) out->relative = t->relative[i];
    }
}

static ancestry find_ancestry(trace *t, size_t point) {
    const pl_pair_graph *g = &t->graph;
    const uint32_t stamp = (uint32_t)point + 1;
    ancestry out = { .known = true };
    size_t n = 0;
    t->stack[n++] = t->value[point];
    t->stamp[t->value[point]] = stamp;
    while (n > 0) {
        const uint32_t producer = g->values[t->stack[--n]].producer;
        if (producer == PL_PAIR_NONE) {
            out.known = false; /* an input of the model that was not compared */
            continue;
        }
        const pl_pg_node *node = &g->nodes[producer];
        out.n_ops++;
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t v = g->edges[node->in + k];
            if (v == PL_PAIR_NONE || t->stamp[v] == stamp) continue;
            t->stamp[v] = stamp;
            if (t->first[v] != PL_PAIR_NONE) {
                out.n_seen++;
                look_at_points(t, v, &out);
            } else if ((g->values[v].flags & PL_PG_FIXED) == 0) {
                t->stack[n++] = v;
            }
        }
    }
    return out;
}

static void judge_bad(trace *t, size_t i, pl_status *st, pl_err *err) {
    pl_session *s = t->session;
    pl_sync_point *p = &s->points[i];
    const char *more = NULL;
    if (t->value[i] == PL_PAIR_NONE) return;
    if (p->is_input || t->graph.values[t->value[i]].producer == PL_PAIR_NONE) {
        p->reason = pl_arena_printf(s->arena, "the runs had different inputs: %s", p->reason);
        if (p->reason == NULL) *st = pl_fail_memory(err, 1);
        return;
    }
    const ancestry from = find_ancestry(t, i);
    const double growth = t->relative[i] / fmax(from.relative, 0x1p-24);
    if (from.bad != NULL) {
        p->facts.bad_inputs = PL_FACT_YES;
        more = pl_arena_printf(s->arena, "'%s' diverges earlier", from.bad);
    } else if (!from.known) {
        more = pl_arena_printf(s->arena, "%s; not all of its inputs were compared", p->reason);
    } else if (growth >= GROWTH) {
        p->facts.bad_inputs = PL_FACT_NO;
        p->facts.grown = true;
        more = from.relative > 0 ? pl_arena_printf(s->arena, "%s; its inputs agree within %.2g",
                                                   p->reason, from.relative)
                                 : pl_arena_printf(s->arena, "%s; its inputs agree", p->reason);
    } else {
        p->facts.bad_inputs = PL_FACT_NO;
        more = pl_arena_printf(s->arena, "%s; its inputs are off by %.2g, its output by %.2g",
                               p->reason, from.relative, t->relative[i]);
    }
    if (more == NULL) {
        *st = pl_fail_memory(err, 1);
    } else {
        p->reason = more;
    }
}

/* ---- blame ---- */

/* The tolerance of each element as a bound for fitting the kind. */
static pl_status make_bound(const trace *t, const pl_sync_point *p, const pl_tensor *r,
                            pl_tensor **out, pl_err *err) {
    const double tol = pl_judge_tol(&t->options->judge, p->precision);
    const double rms = p->acc.n_finite > 0 ? sqrt(p->acc.sum_rr / (double)p->acc.n_finite) : 0;
    PL_TRY(pl_tensor_new(PL_F64, r->rank, r->dims, out, err));
    double *bound = (*out)->data;
    for (int64_t i = 0; i < r->n_elements; i++)
        bound[i] = tol * (fabs(((const double *)r->data)[i]) + (rms > 0 ? rms : 1));
    return PL_OK;
}

static pl_status find_kind(trace *t, const pl_sync_point *p, pl_blame_entry *b, pl_err *err) {
    const pl_record *ra = pl_recording_find(t->side[0]->recording, p->a.key);
    const pl_record *rb = pl_recording_find(t->side[1]->recording, p->b.key);
    pl_tensor *a = NULL, *r = NULL, *wide = NULL, *bound = NULL;
    pl_kind_fit fit = { "", "", "", NULL };
    pl_status st = PL_OK;
    if (ra == NULL || rb == NULL || *p->layout != '\0' || !p->measured ||
        p->acc.n > KIND_ELEMENTS_MAX || !pl_dtype_is_float(p->a.dtype) ||
        !pl_dtype_is_float(p->b.dtype))
        return PL_OK;
    PL_TRY_GOTO(done, st, pl_recording_read(t->side[0]->recording, ra, &a, err));
    PL_TRY_GOTO(done, st, pl_recording_read(t->side[1]->recording, rb, &r, err));
    PL_TRY_GOTO(done, st, pl_tensor_cast(r, PL_F64, &wide, err));
    PL_TRY_GOTO(done, st, make_bound(t, p, wide, &bound, err));
    PL_TRY_GOTO(done, st, pl_kind_of(a, wide, bound, a->dtype, t->session->arena, &fit, err));
    b->kind = fit.text[0] != '\0' ? fit.text : fit.kind;
    b->where = fit.where;
done:
    pl_tensor_unref(a);
    pl_tensor_unref(r);
    pl_tensor_unref(wide);
    pl_tensor_unref(bound);
    return st;
}

static int by_score(const void *x, const void *y) {
    const double a = ((const pl_blame_entry *)x)->score, b = ((const pl_blame_entry *)y)->score;
    return a > b ? -1 : a < b;
}

static pl_status blame(trace *t, pl_err *err) {
    pl_session *s = t->session;
    size_t n = 0;
    for (size_t i = 0; i < s->n_points; i++)
        n += s->points[i].verdict == PL_VERDICT_CULPRIT;
    s->blame = pl_arena_array(s->arena, n, sizeof *s->blame);
    if (s->blame == NULL) return pl_fail_memory(err, n);
    s->n_blame = 0;
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_sync_point *p = &s->points[i];
        if (p->verdict != PL_VERDICT_CULPRIT) continue;
        pl_blame_entry *b = &s->blame[s->n_blame++];
        *b = (pl_blame_entry){ .node = p->node,
                               .op = p->op,
                               .value = p->value,
                               .kind = "",
                               .where = "",
                               .q = (double)NAN,
                               .effect = (double)NAN,
                               .score = t->relative[i],
                               .reason = p->reason,
                               .module = p->module,
                               .source = p->source };
        if (s->n_blame <= KINDS_MAX) PL_TRY(find_kind(t, p, b, err));
    }
    if (n > 1) qsort(s->blame, n, sizeof *s->blame, by_score);
    return PL_OK;
}

pl_status pl_sync_trace(const pl_sync_side *a, const pl_sync_side *b,
                        const pl_sync_options *options, pl_session *session, pl_err *err) {
    trace t = { .side = { a, b }, .options = options, .session = session };
    pl_status st = PL_OK;
    pl_arena *scratch = pl_arena_new();
    if (scratch == NULL) return pl_fail_memory(err, 1);
    PL_TRY_GOTO(done, st, trace_init(&t, scratch, err));
    /* All are judged by the bad values found before, because one verdict depends on others. */
    for (size_t i = 0; i < session->n_points && st == PL_OK; i++)
        if (pl_sync_point_is_bad(&session->points[i])) judge_bad(&t, i, &st, err);
    for (size_t i = 0; i < session->n_points; i++)
        pl_verdict_decide(&session->points[i]);
    if (st == PL_OK) st = blame(&t, err);
done:
    trace_release(&t);
    pl_arena_free(scratch);
    return st;
}
