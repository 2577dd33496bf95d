/* Several samples: one analysis each, and one session that keeps the worst of every value. */
#include <math.h>
#include <string.h>

#include "flows/analyze_int.h"

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
        if (mine != NULL && is_worse(&from->points[i], mine)) *mine = from->points[i];
    }
    pl_strmap_release(&index);
    return st;
}

static bool same_group(const pl_blame_entry *x, const pl_blame_entry *y) {
    return strcmp(x->value, y->value) == 0;
}

/* The union of the culprits, each with its worst sample; by score. */
static pl_status merge_blame(pl_session *into, const pl_session *from, pl_err *err) {
    pl_blame_entry *all =
        pl_arena_array(into->arena, into->n_blame + from->n_blame + 1, sizeof(pl_blame_entry));
    size_t n = into->n_blame;
    if (all == NULL) return pl_fail_memory(err, n);
    if (n > 0) memcpy(all, into->blame, n * sizeof(*all));
    for (size_t i = 0; i < from->n_blame; i++) {
        size_t k = 0;
        while (k < n && !same_group(&all[k], &from->blame[i]))
            k++;
        if (k == n) {
            all[n++] = from->blame[i];
        } else if (from->blame[i].score > all[k].score) {
            all[k] = from->blame[i];
        }
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
    int64_t *all = pl_arena_array(into->arena, into->n_failing_samples + 1, sizeof(int64_t));
    if (all == NULL) return pl_fail_memory(err, 1);
    if (into->n_failing_samples > 0) {
        memcpy(all, into->failing_samples, into->n_failing_samples * sizeof(int64_t));
    }
    all[into->n_failing_samples++] = (int64_t)sample;
    into->failing_samples = all;
    return PL_OK;
}

pl_status pl_analysis_merge(pl_session *into, const pl_session *from, size_t sample, pl_err *err) {
    if (sample == 1 && into->outcome != PL_OUTCOME_AGREE) PL_TRY(note_failing(into, 0, err));
    if (from->outcome != PL_OUTCOME_AGREE) PL_TRY(note_failing(into, sample, err));
    PL_TRY(merge_points(into, from, err));
    PL_TRY(merge_blame(into, from, err));
    if (from->outcome > into->outcome) {
        into->outcome = from->outcome;
        into->reason = from->reason;
    }
    if (into->first_divergence == NULL) into->first_divergence = from->first_divergence;
    into->observer_effect = into->observer_effect || from->observer_effect;
    into->n_replayed += from->n_replayed;
    into->n_unreplayed += from->n_unreplayed;
    for (size_t i = 0; i < into->n_timing && i < from->n_timing; i++) {
        if (strcmp(into->timing[i].phase, from->timing[i].phase) != 0) break;
        into->timing[i].seconds += from->timing[i].seconds;
    }
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
                                "input '%s' is the same number everywhere: faults of place "
                                "(transposed, shifted) cannot show",
                                graph->inputs[i]->name));
    }
    return PL_OK;
}
