/* Pairing, metadata and measuring. sync_trace.c finds where divergence begins. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "blame/spread.h"
#include "blame/sync_int.h"
#include "ops/bound.h"
#include "pair/effective.h"
#include "pair/layout.h"
#include "session/detail.h"
#include "store/blob.h"
#include "store/recording_pieces.h"

enum { SHARED_BYTES = 4 << 20, UNKNOWN_BYTES = 1 << 20, WALK_MAX = 64 };

typedef pl_sync_work work;
typedef pl_syncing syncing;

static const char *keep(pl_session *s, const char *text, pl_status *st, pl_err *err) {
    if (*text == '\0') return "";
    const char *copy = pl_arena_strdup(s->arena, text);
    if (copy == NULL && *st == PL_OK) *st = pl_fail_memory(err, strlen(text));
    return copy == NULL ? "" : copy;
}

/* ---- metadata ---- */

static void fill_side(pl_side *side, const pl_record *r, const char *key) {
    side->present = true;
    side->dtype = r->has_shape ? r->dtype : PL_UNDEFINED;
    side->rank = r->has_shape ? r->rank : 0;
    memcpy(side->dims, r->dims, sizeof side->dims);
    memcpy(side->strides, r->strides, sizeof side->strides);
    side->offset = r->offset;
    side->has_hash = r->has_hash;
    side->hash = r->hash;
    side->flags = r->flags;
    side->key = key;
}

static void fill_from_tensor(pl_side *side, const pl_tensor *t) {
    if (side->dtype != PL_UNDEFINED) return;
    side->dtype = t->dtype;
    side->rank = t->rank;
    memcpy(side->dims, t->dims, sizeof side->dims);
    memcpy(side->strides, t->strides, sizeof side->strides);
}

static bool same_dims(const pl_side *a, const pl_side *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]) == 0;
}

/* Decides whether they can be measured as they are. Writes why not, or what differs. */
static void compare_metadata(const pl_sync_point *p, char *why, size_t n_why) {
    char x[160], y[160];
    why[0] = '\0';
    if (!same_dims(&p->a, &p->b)) {
        snprintf(why, n_why, "shape %s, reference %s",
                 pl_dims_describe(p->a.rank, p->a.dims, x, sizeof x),
                 pl_dims_describe(p->b.rank, p->b.dims, y, sizeof y));
    } else if (p->a.dtype != p->b.dtype) {
        snprintf(why, n_why, "dtype %s, reference %s", pl_dtype_name(p->a.dtype),
                 pl_dtype_name(p->b.dtype));
    }
}

/* ---- one pair ---- */

static void judge_structural(work *w, const char *why) {
    w->judged.pair_class = PL_PAIR_STRUCTURAL;
    w->judged.colour = PL_RED;
    w->point->facts.structural = true;
    snprintf(w->judged.reason, sizeof w->judged.reason, "%s", why);
}

/* Elements were not recorded: hashes only show whether all bits agree. */
static void judge_by_hash(work *w) {
    const pl_sync_point *p = w->point;
    const pl_stats *x = &w->a->stats, *y = &w->b->stats;
    char why[400];
    w->judged.colour = PL_NO_COLOUR;
    compare_metadata(p, why, sizeof why);
    if (w->a->has_shape && w->b->has_shape && !same_dims(&p->a, &p->b)) {
        judge_structural(w, why);
    } else if (p->a.has_hash && p->b.has_hash && p->a.dtype == p->b.dtype &&
               pl_hash128_equal(p->a.hash, p->b.hash)) {
        w->point->facts.exact = true;
        w->judged.pair_class = PL_PAIR_EXACT;
        w->judged.colour = PL_GREEN;
    } else if (w->a->has_stats && w->b->has_stats &&
               (x->n_nan != y->n_nan || x->n_inf != y->n_inf)) {
        w->point->facts.nonfinite = true;
        w->judged.pair_class = PL_PAIR_NONFINITE;
        w->judged.colour = PL_RED;
        snprintf(w->judged.reason, sizeof w->judged.reason,
                 "recorded without elements: %lld NaN and %lld Inf, reference %lld and %lld",
                 (long long)x->n_nan, (long long)x->n_inf, (long long)y->n_nan,
                 (long long)y->n_inf);
    } else {
        w->point->facts.compared = false;
        snprintf(w->judged.reason, sizeof w->judged.reason,
                 "recorded without elements, and the hashes differ");
        if (w->a->has_stats && w->b->has_stats)
            snprintf(w->judged.reason, sizeof w->judged.reason,
                     "recorded without elements, and the hashes differ: min %.6g, max %.6g, mean "
                     "%.6g; reference %.6g, %.6g, %.6g",
                     x->min, x->max, x->mean, y->min, y->max, y->mean);
    }
}

static pl_status measure_user(const syncing *s, work *w, const pl_tensor *a, const pl_tensor *r,
                              pl_err *err) {
    const pl_sync_options *o = s->options;
    for (size_t i = 0; i < o->n_user_metrics; i++) {
        w->user[i] = (double)NAN;
        const plumb_status st = o->user_metrics[i]->value(
            plumb_host_get(), (const plumb_tensor *)a, (const plumb_tensor *)r, &w->user[i], err);
        if (st != PLUMB_OK)
            return pl_err_wrap(err, st, "metric '%s' of '%s'", o->user_metrics[i]->name,
                               w->point->value);
    }
    return PL_OK;
}

/* Are these the right elements in another order? */
static pl_status tell_order(work *w, const pl_tensor *a, const pl_tensor *b, pl_err *err) {
    pl_layout layout;
    const size_t n = strlen(w->judged.reason);
    PL_TRY(pl_layout_find(a, b, &layout, err));
    if (*layout.text != '\0' && layout.error < 1e-3 && layout.second > 3 * layout.error)
        snprintf(w->judged.reason + n, sizeof w->judged.reason - n, "; fits as %s", layout.text);
    return PL_OK;
}

static pl_status measure_tensors(const syncing *s, pl_pool *pool, work *w, const pl_tensor *a,
                                 const pl_tensor *b, pl_err *err) {
    const pl_sync_point *p = w->point;
    char why[400];
    const pl_judge_pair pair = { .value = p->value,
                                 .op = p->op,
                                 .precision = pl_precision_coarser(
                                     pl_precision_of(a->dtype, b->dtype), p->precision),
                                 .dtype = a->dtype,
                                 .step = w->step,
                                 .absolute = w->absolute,
                                 .rounded = w->rounded };
    if (!pl_tensor_same_shape(a, b) || !pl_judge_types_fit(a->dtype, b->dtype)) {
        compare_metadata(p, why, sizeof why);
        judge_structural(w, why);
        return PL_OK;
    }
    pl_err trouble = PL_ERR_INIT;
    const pl_judge *judge = &s->options->judge;
    const pl_status st =
        w->shared ? pl_judge_measured(judge, pool, &pair, a, b, &w->acc, &w->judged, &trouble)
                  : pl_judge_tensors(judge, pool, &pair, a, b, &w->judged, &trouble);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 0);
    if (st != PL_OK && a->data == NULL) return PL_E_NOT_FOUND; /* measure_away */
    if (st != PL_OK) { /* the rule does not apply to this value; judge the others */
        w->point->facts.compared = false;
        snprintf(w->judged.reason, sizeof w->judged.reason, "profile %s cannot compare it: %.300s",
                 pl_profile_name(s->options->judge.profile), trouble.message);
        w->judged.colour = PL_NO_COLOUR;
        return PL_OK;
    }
    w->point->facts.exact = w->judged.pair_class == PL_PAIR_EXACT;
    w->point->facts.rule = pl_fact_of(!w->judged.rule_fails);
    const pl_accumulators *acc = &w->judged.acc;
    if (acc->n > 0 && acc->n_both_nan == acc->n && !w->judged.rule_fails) { /* no evidence */
        w->point->facts.exact = false;
        w->point->facts.rule = PL_FACT_UNKNOWN;
        snprintf(w->judged.reason, sizeof w->judged.reason, "every element is NaN on both sides");
    }
    if (w->judged.rule_fails && *w->layout == '\0') {
        if (a->data == NULL) return PL_E_NOT_FOUND;
        PL_TRY(tell_order(w, a, b, err));
    }
    w->point->precision = pair.precision;
    w->done = true;
    if (w->wants_detail)
        PL_TRY(pl_detail_find(pool, a, b, s->session->arena, &w->point->detail, err));
    return w->user == NULL ? PL_OK : measure_user(s, w, a, b, err);
}

static int64_t count_nonzero(const pl_tensor *t) {
    double x[512];
    int64_t n = 0;
    for (int64_t at = 0; at < t->n_elements; at += 512) {
        const size_t m = (size_t)(t->n_elements - at < 512 ? t->n_elements - at : 512);
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * pl_dtype_bytes(t->dtype), x, m);
        for (size_t i = 0; i < m; i++)
            n += x[i] != 0;
    }
    return n;
}

/* A layout may drop padding, which is zero, but no other elements. */
static bool leaves_out_zeros(const pl_tensor *whole, const pl_tensor *part) {
    if (whole->n_elements <= part->n_elements || whole->dtype == PL_STRING) return true;
    return pl_tensor_is_contiguous(whole) && pl_tensor_is_contiguous(part) &&
           count_nonzero(whole) == count_nonzero(part);
}

static pl_status measure_layout(const syncing *s, pl_pool *pool, work *w, const pl_tensor *a,
                                const pl_tensor *b, pl_err *err) {
    pl_tensor *la = NULL, *lb = NULL;
    char why[400];
    pl_status st = pl_layout_apply(w->layout, a, b, &la, &lb, err);
    const bool is_part = pl_layout_is_part(w->layout); /* the other ranks have the rest */
    if (st == PL_OK && (is_part || (leaves_out_zeros(a, la) && leaves_out_zeros(b, lb)))) {
        st = measure_tensors(s, pool, w, la, lb, err);
    } else if (st == PL_OK) {
        compare_metadata(w->point, why, sizeof why);
        judge_structural(w, why);
    }
    pl_tensor_unref(la);
    pl_tensor_unref(lb);
    return st;
}

pl_status pl_sync_probe_side(pl_side *side, const pl_tensor *t, pl_err *err) {
    pl_dense dense;
    if (side->has_hash || t->dtype == PL_STRING) return PL_OK;
    PL_TRY(pl_dense_init(&dense, t, err));
    const pl_status st = pl_dense_probe(&dense, &side->probe, err);
    side->has_probe = st == PL_OK;
    pl_dense_release(&dense);
    return st;
}

static pl_status no_elements(const pl_record *r, const pl_record *shape, pl_tensor **out,
                             pl_err *err) {
    return pl_tensor_borrow(r->dtype, shape->rank, shape->dims, NULL, NULL, NULL, out, err);
}

/* From the accumulators alone, for tensors on other machines. *enough is false when the verdict
 * depends on elements: the tensors then travel. */
static pl_status measure_away(const syncing *s, pl_pool *pool, work *w, bool *enough, pl_err *err) {
    const bool torch = s->options->judge.profile == PL_PROFILE_TORCH;
    const bool whole = *w->layout == '\0', plain = whole || pl_layout_is_part(w->layout);
    const pl_record *kept =
        strncmp(w->layout, "a: ", 3) == 0 ? w->b : w->a; /* the other one is cut */
    pl_tensor *a = NULL, *b = NULL;
    *enough = false;
    if (!w->shared || !plain || torch || w->wants_detail || w->user != NULL) return PL_OK;
    pl_status st = no_elements(w->a, whole ? w->a : kept, &a, err);
    if (st == PL_OK) st = no_elements(w->b, whole ? w->b : kept, &b, err);
    if (st == PL_OK) st = measure_tensors(s, pool, w, a, b, err);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    *enough = st == PL_OK;
    return st == PL_E_NOT_FOUND ? PL_OK : st;
}

static pl_status measure(const syncing *s, pl_pool *pool, work *w, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    pl_status st = PL_OK;
    if (!w->a->has_data || !w->b->has_data) {
        judge_by_hash(w);
        return pl_sync_count_left_out(w, err);
    }
    if (w->away) {
        bool enough = false;
        PL_TRY(measure_away(s, pool, w, &enough, err));
        if (enough) return PL_OK;
    }
    PL_TRY_GOTO(done, st, pl_recording_read(s->side[0]->recording, w->a, &a, err));
    PL_TRY_GOTO(done, st, pl_recording_read(s->side[1]->recording, w->b, &b, err));
    if (!w->shared) {
        PL_TRY_GOTO(done, st, pl_recording_check_tensor(s->side[0]->recording, w->a, a, err));
        PL_TRY_GOTO(done, st, pl_recording_check_tensor(s->side[1]->recording, w->b, b, err));
    }
    fill_from_tensor(&w->point->a, a);
    fill_from_tensor(&w->point->b, b);
    if (s->options->probe && !w->shared) {
        PL_TRY_GOTO(done, st, pl_sync_probe_side(&w->point->a, a, err));
        PL_TRY_GOTO(done, st, pl_sync_probe_side(&w->point->b, b, err));
    }
    PL_TRY_GOTO(done, st, pl_sync_leave_out(w, &a, &b, err));
    st = *w->layout != '\0' ? measure_layout(s, pool, w, a, b, err)
                            : measure_tensors(s, pool, w, a, b, err);
    if (st == PL_OK) st = pl_sync_count_left_out(w, err);
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    pl_recording_forget(s->side[0]->recording, w->a);
    pl_recording_forget(s->side[1]->recording, w->b);
    return st;
}

/* ---- all pairs ---- */

/* Threads take whole pairs, the largest first, so that none waits for another before the end. Only
 * a pair that would keep one thread busy alone is shared by all. */
static bool is_shared(const syncing *s, const work *w) {
    return w->n_bytes > s->n_bytes / (4 * pl_pool_threads(s->options->pool)) &&
           w->n_bytes >= SHARED_BYTES;
}

typedef struct whole_pass {
    syncing *s;
    work **works;
    pthread_t caller; /* the thread that reports progress */
} whole_pass;

/* Only the calling thread reports progress and checks for cancellation. */
static void report(syncing *s, work *w, bool may_show) {
    const int64_t done = atomic_fetch_add(&s->bytes_done, w->n_bytes) + w->n_bytes;
    if (!may_show || w->st != PL_OK) return;
    w->st =
        pl_progress_step(s->options->progress, "compare", done >> 10, s->n_bytes >> 10, &w->err);
    if (w->st != PL_OK) atomic_store(&s->cancelled, true);
}

static void measure_whole(void *ctx, int64_t begin, int64_t end) {
    const whole_pass *p = ctx;
    for (int64_t i = begin; i < end; i++) {
        work *w = p->works[i];
        if (atomic_load(&p->s->cancelled)) return;
        w->st = measure(p->s, NULL, w, &w->err);
        report(p->s, w, pthread_equal(p->caller, pthread_self()) != 0);
    }
}

static int larger_first(const void *x, const void *y) {
    const work *a = *(work *const *)x, *b = *(work *const *)y;
    if (a->n_bytes != b->n_bytes) return a->n_bytes > b->n_bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

static pl_status run_works(syncing *s, pl_err *err) {
    size_t n = 0;
    work **whole = pl_calloc(s->n_works + 1, sizeof(work *));
    if (whole == NULL) return pl_fail_memory(err, s->n_works);
    for (size_t i = 0; i < s->n_works; i++) {
        work *w = &s->works[i];
        if (w->a == NULL || w->b == NULL) continue;
        if (w->user == NULL && !w->wants_detail && !is_shared(s, w) && !w->away) {
            whole[n++] = w;
            continue;
        }
        w->st = measure(s, s->options->pool, w, &w->err);
        if (w->st != PL_OK) break;
        report(s, w, true);
        if (w->st != PL_OK) break;
    }
    if (n > 1) qsort(whole, n, sizeof(work *), larger_first);
    whole_pass pass = { s, whole, pthread_self() };
    pl_pool_for(s->options->pool, (int64_t)n, 1, measure_whole, &pass);
    pl_free(whole);
    for (size_t i = 0; i < s->n_works; i++)
        if (s->works[i].st != PL_OK)
            return pl_fail(err, s->works[i].st, "%s", s->works[i].err.message);
    return PL_OK;
}

/* ---- values that were not recorded ---- */

static uint32_t value_of(const pl_pair_graph *g, const pl_record *r) {
    return g->n_values == 0 ? PL_PAIR_NONE : pl_pair_graph_find(g, r->graph, r->value);
}

/* The next recorded value after v: the one v was fused into. */
static const char *next_recorded(const pl_pair_graph *g, const pl_recording *rec, uint32_t v) {
    uint32_t queue[WALK_MAX];
    size_t n = 0;
    queue[n++] = v;
    for (size_t done = 0; done < n; done++) {
        for (uint32_t u = g->use_at[queue[done]]; u < g->use_at[queue[done] + 1]; u++) {
            const pl_pg_node *node = &g->nodes[g->uses[u].node];
            for (uint32_t k = 0; k < node->n_out; k++) {
                const uint32_t out = g->edges[node->out + k];
                if (out == PL_PAIR_NONE) continue;
                if (pl_recording_find(rec, g->values[out].name) != NULL) return g->values[out].name;
                if (n < WALK_MAX) queue[n++] = out;
            }
        }
    }
    return NULL;
}

/* The recording says why the model has no such value. */
static const char *why_unmapped(syncing *s, const pl_record *r, pl_status *st, pl_err *err) {
    return *r->unmapped == '\0' ? NULL : keep(s->session, r->unmapped, st, err);
}

/* For a value that the other side's graph has by name but its run did not record: backends keep
 * only what they materialise. NULL when that is not the reason. */
static const char *why_not_kept(syncing *s, int other, const pl_record *r, pl_status *st,
                                pl_err *err) {
    const pl_pair_graph *g = &s->graph[other];
    const pl_recording *rec = s->side[other]->recording;
    const uint32_t v = value_of(g, r);
    if (v == PL_PAIR_NONE) return why_unmapped(s, r, st, err);
    if (pl_recording_find(rec, r->key) != NULL) return NULL;
    const char *into = next_recorded(g, rec, v);
    const char *why =
        (g->values[v].flags & PL_PG_FIXED) != 0
            ? pl_arena_printf(s->session->arena, "constant folded by %s", other == 0 ? "A" : "B")
        : into != NULL
            ? pl_arena_printf(s->session->arena, "not materialised by %s: fused into '%s'",
                              other == 0 ? "A" : "B", into)
            : pl_arena_printf(s->session->arena, "not materialised by %s: folded or unused",
                              other == 0 ? "A" : "B");
    if (why == NULL) *st = pl_fail_memory(err, 1);
    return why;
}

/* ---- points ---- */

static int64_t bytes_of(const pl_record *r) {
    int64_t n = 0;
    if (!r->has_shape || !pl_dims_product(r->rank, r->dims, &n)) return UNKNOWN_BYTES;
    return n * (int64_t)pl_dtype_bytes(r->dtype);
}

static pl_status fill_names(syncing *s, pl_sync_point *p, const pl_pair_item *item,
                            const pl_pair_item *other, pl_err *err) {
    pl_session *session = s->session;
    pl_status st = PL_OK;
    p->value = keep(session, item->name, &st, err);
    const pl_record *r = pl_recording_find(s->side[0]->recording, item->name);
    const pl_record *q =
        other == NULL ? NULL : pl_recording_find(s->side[1]->recording, other->name);
    const bool from_b = (r == NULL || r->op[0] == '\0') && q != NULL;
    const pl_record *names = from_b ? q : r; /* the side that knows the op */
    if (names != NULL) {
        p->node = keep(session, names->node, &st, err);
        p->op = keep(session, names->op, &st, err);
        p->module = keep(session, names->module, &st, err);
    }
    if (r != NULL) fill_side(&p->a, r, keep(session, r->key, &st, err));
    if (q != NULL) {
        fill_side(&p->b, q, keep(session, q->key, &st, err));
        p->counterpart_op = keep(session, q->op, &st, err);
    }
    p->is_input = ((p->a.flags | p->b.flags) & PL_RECORD_INPUT) != 0;
    p->is_output = ((p->a.flags | p->b.flags) & PL_RECORD_OUTPUT) != 0;
    return st;
}

static pl_status add_pair(syncing *s, const pl_pair *pair, size_t at, pl_err *err) {
    pl_session *session = s->session;
    pl_sync_point *p = &session->points[at];
    pl_status st = PL_OK;
    const pl_pair_item *a = &s->pair_side[0].items[pair->a], *b = &s->pair_side[1].items[pair->b];
    PL_TRY(fill_names(s, p, a, b, err));
    p->counterpart = keep(session, b->name, &st, err);
    p->paired_by = keep(session, pair->method, &st, err);
    p->relation = keep(session, pair->relation, &st, err);
    p->layout = keep(session, pair->layout, &st, err);
    p->confidence = pair->confidence;
    p->precision = PL_PRECISION_F64;
    p->facts = (pl_value_facts){ .paired = true, .compared = true };
    work *w = &s->works[at];
    *w = (work){ .a = pl_recording_find(s->side[0]->recording, a->name),
                 .b = pl_recording_find(s->side[1]->recording, b->name),
                 .layout = p->layout,
                 .point = p };
    if (w->a == NULL || w->b == NULL)
        return pl_fail(err, PL_E_INTERNAL, "pair '%s' is missing from the recordings", a->name);
    for (size_t i = 0; i < s->options->n_details; i++)
        w->wants_detail = w->wants_detail || strcmp(s->options->details[i], p->value) == 0;
    w->away = !pl_recording_is_in_reach(s->side[0]->recording, w->a, 0) ||
              !pl_recording_is_in_reach(s->side[1]->recording, w->b, 0);
    w->n_bytes = bytes_of(w->a) + bytes_of(w->b);
    s->n_bytes += w->n_bytes;
    if (s->options->n_user_metrics > 0) {
        w->user = pl_arena_array(session->arena, s->options->n_user_metrics, sizeof(double));
        if (w->user == NULL) return pl_fail_memory(err, sizeof(double));
        for (size_t i = 0; i < s->options->n_user_metrics; i++)
            w->user[i] = (double)NAN;
        p->user_metrics = w->user;
    }
    return st;
}

static pl_status add_unpaired(syncing *s, const pl_unpaired *u, size_t at, pl_err *err) {
    pl_sync_point *p = &s->session->points[at];
    pl_status st = PL_OK;
    PL_TRY(fill_names(s, p, &s->pair_side[0].items[u->item], NULL, err));
    pl_verdict_decide(p);
    p->reason = keep(s->session, u->reason, &st, err);
    const pl_record *r = pl_recording_find(s->side[0]->recording, p->value);
    const char *why = u->expected || r == NULL ? NULL : why_not_kept(s, 1, r, &st, err);
    if (why != NULL) p->reason = why;
    s->works[at] = (work){ .point = p };
    return st;
}

/* Pairs and unpaired values, merged in the order of A's items. */
static pl_status add_points(syncing *s, const pl_pairing *pairing, pl_err *err) {
    pl_session *session = s->session;
    const size_t n = pairing->n_pairs + pairing->n_unpaired_a;
    session->points = pl_arena_array(session->arena, n, sizeof *session->points);
    s->works = pl_calloc(n + 1, sizeof *s->works);
    if (session->points == NULL || s->works == NULL) return pl_fail_memory(err, n);
    s->n_works = n;
    for (size_t i = 0, j = 0, at = 0; at < n; at++) {
        const bool is_pair =
            i < pairing->n_pairs &&
            (j == pairing->n_unpaired_a || pairing->pairs[i].a < pairing->unpaired_a[j].item);
        pl_sync_point_init(&session->points[at]);
        session->n_points = at + 1;
        PL_TRY(is_pair ? add_pair(s, &pairing->pairs[i], at, err)
                       : add_unpaired(s, &pairing->unpaired_a[j], at, err));
        i += is_pair;
        j += !is_pair;
    }
    return PL_OK;
}

static pl_status add_left_over(syncing *s, const pl_pairing *pairing, pl_err *err) {
    pl_session *session = s->session;
    pl_status st = PL_OK;
    session->left_b =
        pl_arena_array(session->arena, pairing->n_unpaired_b, sizeof *session->left_b);
    if (session->left_b == NULL) return pl_fail_memory(err, pairing->n_unpaired_b);
    for (size_t i = 0; i < pairing->n_unpaired_b; i++) {
        const pl_unpaired *u = &pairing->unpaired_b[i];
        const pl_pair_item *item = &s->pair_side[1].items[u->item];
        session->left_b[i] = (pl_left_over){ .value = keep(session, item->name, &st, err),
                                             .op = keep(session, item->op, &st, err),
                                             .reason = keep(session, u->reason, &st, err),
                                             .expected = u->expected,
                                             .is_output = (item->flags & PL_RECORD_OUTPUT) != 0 };
        const pl_record *r = pl_recording_find(s->side[1]->recording, item->name);
        const char *why = u->expected || r == NULL ? NULL : why_not_kept(s, 0, r, &st, err);
        if (why == NULL) continue;
        session->left_b[i].reason = why;
        session->left_b[i].expected =
            *r->unmapped == '\0' || strncmp(r->unmapped, "folded", 6) == 0;
    }
    session->n_left_b = pairing->n_unpaired_b;
    return st;
}

/* ---- effective precision ---- */

/* Do the graphs show that both sides have the same weights? */
static bool same_graph(const pl_sync_side *a, const pl_sync_side *b) {
    return a->recording->graph != NULL && b->recording->graph != NULL &&
           strcmp(a->recording->graph, b->recording->graph) == 0;
}

static uint32_t value_of_work(const syncing *s, int side, const work *w) {
    const pl_record *r = side == 0 ? w->a : w->b;
    return r == NULL ? PL_PAIR_NONE : value_of(&s->graph[side], r);
}

/* From the model, where there is one. */
static void allow_for_operator(const syncing *s, int side, work *w) {
    const pl_record *r = side == 0 ? w->a : w->b;
    const pl_model *model = s->side[side]->model;
    if (r == NULL || model == NULL || *r->graph != '\0' || !pl_dtype_is_float(r->dtype)) return;
    const pl_value *v = pl_graph_find(model->graph, r->value);
    if (v == NULL || v->producer == NULL) return;
    w->step = fmax(w->step, pl_code_step(v));
    w->absolute = fmax(w->absolute, pl_value_absolute_error(v, r->dtype));
}

/* again: values measured to have the same bits shield later ones from what was before them. */
static pl_status apply_precision(syncing *s, int side, bool count_weights, bool again,
                                 pl_err *err) {
    const pl_pair_graph *g = &s->graph[side];
    const pl_recording *rec = s->side[side]->recording;
    const size_t n = (size_t)g->n_values + 1;
    pl_dtype *dtype = pl_calloc(n, sizeof *dtype);
    pl_precision *of = pl_calloc(n, sizeof *of);
    bool *same = pl_calloc(n, sizeof *same), *rounded = pl_calloc(n, sizeof *rounded);
    const bool ok = dtype != NULL && of != NULL && same != NULL && rounded != NULL;
    for (size_t i = 0; ok && i < rec->n_records; i++) {
        const uint32_t v = value_of(g, &rec->records[i]);
        if (v != PL_PAIR_NONE && rec->records[i].has_shape) dtype[v] = rec->records[i].dtype;
    }
    for (size_t i = 0; ok && again && i < s->n_works; i++) {
        const uint32_t v = value_of_work(s, side, &s->works[i]);
        if (v != PL_PAIR_NONE) same[v] = s->works[i].point->facts.exact;
    }
    if (ok) pl_effective_find(g, dtype, same, count_weights, of);
    if (ok) pl_effective_rounded(g, dtype, same, rounded);
    for (size_t i = 0; ok && i < s->n_works; i++) {
        work *w = &s->works[i];
        const uint32_t v = value_of_work(s, side, w);
        if (v == PL_PAIR_NONE) continue;
        allow_for_operator(s, side, w);
        w->point->precision = pl_precision_coarser(w->point->precision, of[v]);
        w->rounded = w->rounded || rounded[v];
    }
    pl_free(dtype);
    pl_free(of);
    pl_free(same);
    pl_free(rounded);
    return ok ? PL_OK : pl_fail_memory(err, g->n_values);
}

static pl_status find_precision(syncing *s, bool again, pl_err *err) {
    const bool count_weights = !same_graph(s->side[0], s->side[1]);
    for (size_t i = 0; i < s->n_works; i++) {
        s->works[i].rounded = false;
        s->works[i].point->precision = PL_PRECISION_F64;
    }
    for (int i = 0; i < PL_PAIR_SIDES; i++)
        PL_TRY(apply_precision(s, i, count_weights, again, err));
    return PL_OK;
}

/* Codes excuse a float only if they may have flipped: a float whose codes are the same on both
 * sides is judged by its own type. */
static pl_status look_again(syncing *s, pl_err *err) {
    pl_precision *was = pl_calloc(s->n_works + 1, sizeof *was);
    bool *rounded = pl_calloc(s->n_works + 1, sizeof *rounded);
    pl_status st = was == NULL || rounded == NULL ? pl_fail_memory(err, s->n_works) : PL_OK;
    for (size_t i = 0; st == PL_OK && i < s->n_works; i++) {
        was[i] = s->works[i].point->precision;
        rounded[i] = s->works[i].rounded;
    }
    if (st == PL_OK) st = find_precision(s, true, err);
    for (size_t i = 0; st == PL_OK && i < s->n_works; i++) {
        work *w = &s->works[i];
        if (!w->done || w->judged.rule_fails || w->point->facts.exact) {
            w->point->precision = was[i]; /* precision it was judged by */
            continue;
        }
        const pl_precision now = pl_precision_coarser(
            pl_precision_of(w->point->a.dtype, w->point->b.dtype), w->point->precision);
        if (now == was[i] && w->rounded == rounded[i]) {
            w->point->precision = was[i];
        } else {
            st = measure(s, s->options->pool, w, err);
        }
    }
    pl_free(was);
    pl_free(rounded);
    return st;
}

/* ---- results ---- */

static pl_status settle(syncing *s, pl_err *err) {
    pl_status st = PL_OK;
    char why[400];
    for (size_t i = 0; i < s->n_works && st == PL_OK; i++) {
        work *w = &s->works[i];
        pl_sync_point *p = w->point;
        if (w->a == NULL) continue;
        compare_metadata(p, why, sizeof why);
        p->metadata_match = why[0] == '\0';
        p->metadata_reason = keep(s->session, why, &st, err);
        p->pair_class = w->judged.pair_class;
        p->colour = w->judged.colour;
        p->reason = keep(s->session, w->judged.reason, &st, err);
        p->measured = w->done;
        /* Inner values may have any layout in a backend; outputs have one shape. */
        if ((p->a.flags & p->b.flags & PL_RECORD_OUTPUT) != 0 && !same_dims(&p->a, &p->b)) {
            p->facts.structural = true;
            p->colour = PL_RED;
            p->reason = p->metadata_reason;
        }
        pl_verdict_decide(p);
        if (!w->done) continue;
        p->acc = w->judged.acc;
        p->limits = w->judged.limits;
        p->limits_from = keep(s->session, w->judged.limits_from, &st, err);
    }
    return st;
}

static pl_status fill_head(syncing *s, pl_err *err) {
    const pl_sync_options *o = s->options;
    pl_session *session = s->session;
    pl_status st = PL_OK;
    pl_user_metric *rows =
        pl_arena_array(session->arena, o->n_user_metrics, sizeof *session->user_metrics);
    if (rows == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < o->n_user_metrics; i++) {
        const plumb_metric *m = o->user_metrics[i];
        rows[i] = (pl_user_metric){ .name = keep(session, m->name, &st, err),
                                    .unit = keep(session, m->unit, &st, err),
                                    .direction = m->higher_is_better ? PL_HIGHER_IS_BETTER
                                                                     : PL_LOWER_IS_BETTER };
    }
    session->user_metrics = rows;
    session->n_user_metrics = o->n_user_metrics;
    session->metric = o->judge.metric->name;
    session->profile = pl_profile_name(o->judge.profile);
    session->tol = o->judge.profile == PL_PROFILE_TORCH ? o->judge.same.tol : o->judge.tol;
    return st;
}

pl_status pl_sync_compare(const pl_sync_side *a, const pl_sync_side *b,
                          const pl_sync_options *options, pl_session *session, pl_pairing *pairing,
                          pl_err *err) {
    syncing s = { .side = { a, b }, .options = options, .session = session };
    bool paired = false;
    pl_status st = PL_OK;
    s.scratch = pl_arena_new();
    if (s.scratch == NULL) return pl_fail_memory(err, 1);
    for (int i = 0; i < PL_PAIR_SIDES; i++)
        PL_TRY_GOTO(done, st,
                    pl_pair_side_of_recording(s.side[i]->recording, s.side[i]->model, s.scratch,
                                              &s.pair_side[i], err));
    PL_TRY_GOTO(done, st, pl_progress_step(options->progress, "pair", 0, 0, err));
    PL_TRY_GOTO(done, st,
                pl_pair_values(&s.pair_side[0], &s.pair_side[1], &options->pair, pairing, err));
    paired = true;
    for (int i = 0; i < PL_PAIR_SIDES; i++)
        PL_TRY_GOTO(done, st, pl_pair_graph_init(&s.graph[i], &s.pair_side[i], err));
    PL_TRY_GOTO(done, st, fill_head(&s, err));
    PL_TRY_GOTO(done, st, add_points(&s, pairing, err));
    PL_TRY_GOTO(done, st, add_left_over(&s, pairing, err));
    PL_TRY_GOTO(done, st, find_precision(&s, false, err));
    if (options->ranks != NULL) {
        PL_TRY_GOTO(done, st, pl_sync_share(&s, err));
        if (pl_ranks_rank(options->ranks) != 0) goto done;
    }
    PL_TRY_GOTO(done, st, run_works(&s, err));
    PL_TRY_GOTO(done, st, look_again(&s, err));
    st = settle(&s, err);
done:
    if (st != PL_OK && paired) pl_pairing_release(pairing);
    for (int i = 0; i < PL_PAIR_SIDES; i++)
        pl_pair_graph_release(&s.graph[i]);
    pl_free(s.works);
    pl_arena_free(s.scratch);
    return st;
}
