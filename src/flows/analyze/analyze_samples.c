/* Several samples: one analysis each, and one session that keeps the worst of every value. */
#include <math.h>
#include <string.h>

#include "flows/analyze/analyze_int.h"
#include "session/verdict.h"

enum { NOTES_MAX = 64, COVER_MAX = 12 };

/* ---- merging ---- */

/* Larger is worse. */
static int severity(pl_verdict v) {
    static const int of[PL_VERDICT_COUNT] = {
        [PL_VERDICT_SAME] = 0,       [PL_VERDICT_WITHIN] = 1,           [PL_VERDICT_UNPAIRED] = 2,
        [PL_VERDICT_UNVERIFIED] = 3, [PL_VERDICT_INHERITED] = 4,        [PL_VERDICT_AMPLIFIED] = 5,
        [PL_VERDICT_MISMATCH] = 6,   [PL_VERDICT_NONDETERMINISTIC] = 7, [PL_VERDICT_CULPRIT] = 8,
    };
    return of[v];
}

static bool is_worse(const pl_sync_point *x, const pl_sync_point *y) {
    if (x->fails != y->fails) return x->fails;
    if (severity(x->verdict) != severity(y->verdict)) {
        return severity(x->verdict) > severity(y->verdict);
    }
    if (!isnan(x->q) && !isnan(y->q) && x->q != y->q) return x->q > y->q;
    return false;
}

static pl_status merge_points(pl_session *into, const pl_session *from, pl_err *err) {
    pl_strmap index = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    for (size_t i = 0; i < into->n_points && st == PL_OK; i++) {
        if (pl_strmap_put(&index, into->points[i].value, &into->points[i]) != 0) {
            st = pl_fail_memory(err, i);
        }
    }
    for (size_t i = 0; i < from->n_points && st == PL_OK; i++) {
        pl_sync_point *mine = pl_strmap_get(&index, from->points[i].value);
        if (mine == NULL) continue;
        const bool fails = mine->fails || from->points[i].fails;
        if (is_worse(&from->points[i], mine)) *mine = from->points[i];
        mine->fails = fails;
    }
    pl_strmap_release(&index);
    return st;
}

static bool same_group(const pl_blame_entry *x, const pl_blame_entry *y) {
    return strcmp(x->value, y->value) == 0;
}

/* `list` with one more number, first if it is the worst so far. */
static pl_status add_number(pl_arena *arena, const int64_t **list, size_t *n, int64_t number,
                            bool in_front, pl_err *err) {
    int64_t *all = pl_arena_array(arena, *n + 1, sizeof(int64_t));
    if (all == NULL) return pl_fail_memory(err, *n);
    if (*n > 0) memcpy(all + (in_front ? 1 : 0), *list, *n * sizeof(int64_t));
    all[in_front ? 0 : *n] = number;
    *list = all;
    ++*n;
    return PL_OK;
}

/* The union of the culprits, each with its worst sample; by score. */
static pl_status merge_blame(pl_session *into, const pl_session *from, size_t sample, pl_err *err) {
    pl_blame_entry *all =
        pl_arena_array(into->arena, into->n_blame + from->n_blame + 1, sizeof(pl_blame_entry));
    size_t n = into->n_blame;
    if (all == NULL) return pl_fail_memory(err, n);
    if (n > 0) memcpy(all, into->blame, n * sizeof(*all));
    for (size_t i = 0; sample == 1 && i < n; i++)
        PL_TRY(add_number(into->arena, &all[i].samples, &all[i].n_samples, 0, true, err));
    for (size_t i = 0; i < from->n_blame; i++) {
        size_t k = 0;
        while (k < n && !same_group(&all[k], &from->blame[i]))
            k++;
        const bool worse = k == n || from->blame[i].score > all[k].score;
        const pl_blame_entry known = k == n ? (pl_blame_entry){ 0 } : all[k];
        if (worse) all[k] = from->blame[i];
        all[k].samples = known.samples;
        all[k].n_samples = known.n_samples;
        PL_TRY(add_number(into->arena, &all[k].samples, &all[k].n_samples, (int64_t)sample, worse,
                          err));
        if (k == n) n++;
    }
    for (size_t i = 1; i < n; i++) { /* few */
        const pl_blame_entry e = all[i];
        size_t k = i;
        for (; k > 0 && all[k - 1].score < e.score; k--)
            all[k] = all[k - 1];
        all[k] = e;
    }
    into->blame = all;
    into->n_blame = n;
    return PL_OK;
}

static pl_status note_failing(pl_session *into, size_t sample, pl_err *err) {
    return add_number(into->arena, &into->failing_samples, &into->n_failing_samples,
                      (int64_t)sample, false, err);
}

/* Notes that only another sample has. */
static pl_status merge_notes(pl_session *into, const pl_session *from, pl_err *err) {
    const char **all = pl_arena_array(into->arena, NOTES_MAX, sizeof(*all)); /* room for more */
    size_t n = into->n_notes;
    if (all == NULL) return pl_fail_memory(err, n);
    if (n > 0) memcpy(all, into->notes, n * sizeof(*all));
    for (size_t i = 0; i < from->n_notes && n < NOTES_MAX; i++) {
        bool known = false;
        for (size_t k = 0; k < n && !known; k++)
            known = strcmp(all[k], from->notes[i]) == 0;
        if (!known) all[n++] = from->notes[i];
    }
    into->notes = all;
    into->n_notes = n;
    return PL_OK;
}

static bool has_failed(const pl_session *s) {
    return s->outcome != PL_OUTCOME_AGREE && s->outcome != PL_OUTCOME_INCONCLUSIVE;
}

pl_status pl_analysis_merge(pl_session *into, const pl_session *from, size_t sample, bool truth,
                            pl_err *err) {
    if (sample == 1 && has_failed(into)) PL_TRY(note_failing(into, 0, err));
    if (has_failed(from)) PL_TRY(note_failing(into, sample, err));
    PL_TRY(merge_points(into, from, err));
    PL_TRY(merge_blame(into, from, sample, err));
    PL_TRY(merge_notes(into, from, err));
    if (from->outcome == PL_OUTCOME_FAILED) pl_verdict_failed(into, from->reason);
    if (from->outcome == PL_OUTCOME_NONDETERMINISTIC)
        pl_verdict_unstable(into, from->first_divergence, from->reason);
    if (into->first_divergence == NULL) into->first_divergence = from->first_divergence;
    into->starved = into->starved && from->starved;
    into->observer_effect = into->observer_effect || from->observer_effect;
    into->n_replayed += from->n_replayed;
    into->n_unreplayed += from->n_unreplayed;
    for (size_t i = 0; i < into->n_timing && i < from->n_timing; i++) {
        if (strcmp(into->timing[i].phase, from->timing[i].phase) != 0) break;
        into->timing[i].seconds += from->timing[i].seconds;
    }
    return pl_analysis_conclude(into, truth, err);
}

/* ---- the fewest samples ---- */

static bool shows(const pl_blame_entry *e, int64_t sample) {
    for (size_t i = 0; i < e->n_samples; i++)
        if (e->samples[i] == sample) return true;
    return false;
}

/* Culprits that these samples (bits of failing ones) do not show. */
static size_t count_hidden(const pl_session *s, uint32_t chosen) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_blame; i++) {
        bool shown = false;
        for (size_t k = 0; k < s->n_failing_samples && k < COVER_MAX && !shown; k++)
            shown = (chosen >> k & 1) != 0 && shows(&s->blame[i], s->failing_samples[k]);
        n += !shown;
    }
    return n;
}

static int count_bits(uint32_t x) {
    int n = 0;
    for (; x != 0; x &= x - 1)
        n++;
    return n;
}

pl_status pl_analysis_cover(pl_session *s, pl_err *err) {
    const size_t n = s->n_failing_samples < COVER_MAX ? s->n_failing_samples : COVER_MAX;
    uint32_t best = 0;
    if (s->n_failing_samples == 0 || s->n_samples < 2) return PL_OK;
    if (s->n_blame == 0) { /* no culprit: use the sample with the worst output */
        int64_t worst = s->failing_samples[0];
        double largest = -1;
        for (size_t i = 0; i < s->n_points; i++) {
            const pl_sync_point *p = &s->points[i];
            if (!p->is_output || !p->measured || !(p->acc.sum_rr > 0)) continue;
            if (p->acc.sum_sq / p->acc.sum_rr <= largest) continue;
            largest = p->acc.sum_sq / p->acc.sum_rr;
            worst = p->sample;
        }
        return add_number(s->arena, &s->cover, &s->n_cover, worst, false, err);
    }
    const size_t least = count_hidden(s, (uint32_t)((UINT64_C(1) << n) - 1));
    for (uint32_t chosen = 1; chosen < UINT32_C(1) << n; chosen++) {
        const bool fewer = best == 0 || count_bits(chosen) < count_bits(best);
        if (fewer && count_hidden(s, chosen) == least) best = chosen;
    }
    for (size_t k = 0; k < n; k++)
        if ((best >> k & 1) != 0)
            PL_TRY(add_number(s->arena, &s->cover, &s->n_cover, s->failing_samples[k], false, err));
    return PL_OK;
}

/* ---- inputs that hide faults ---- */

static bool is_constant(const pl_tensor *t) {
    const size_t size = pl_dtype_bytes(t->dtype);
    const char *data = t->data;
    for (int64_t i = 1; i < t->n_elements; i++)
        if (memcmp(data, data + (size_t)i * size, size) != 0) return false;
    return true;
}

pl_status pl_analysis_warn_inputs(pl_analysis *x, pl_err *err) {
    const pl_graph *graph = x->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_datum *d = x->in[i];
        if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->n_elements < 8 ||
            d->tensor->dtype == PL_STRING || !pl_dtype_is_float(d->tensor->dtype)) {
            continue;
        }
        if (!is_constant(d->tensor)) continue;
        PL_TRY(pl_analysis_note(x, err,
                                "all elements of input '%s' are equal: transposed or shifted "
                                "results cannot be detected",
                                graph->inputs[i]->name));
    }
    return PL_OK;
}
