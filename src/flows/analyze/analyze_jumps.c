/* The gate's second check (accuracy.h) for outputs that fail without a culprit: at a discontinuity,
 * rounding alone moves an output as far. */
#include "base/alloc.h"
#include "flows/analyze/analyze_int.h"

/* Index of the output in `replayed`; n_outputs when it is not one. */
static size_t output_at(const pl_analysis *x, const pl_value *value) {
    const pl_graph *graph = x->replayed->graph;
    size_t i = 0;
    while (i < graph->n_outputs && graph->outputs[i] != value)
        i++;
    return i;
}

pl_status pl_analysis_keep_output(pl_analysis *x, const pl_value *value, const pl_datum *a,
                                  const pl_datum *b, const pl_datum *gold, pl_err *err) {
    const size_t n = x->replayed->graph->n_outputs, i = output_at(x, value);
    pl_kept_outputs *k = &x->outputs;
    if (i == n || a == NULL || b == NULL || gold == NULL) return PL_OK;
    if (k->a == NULL) {
        k->a = pl_arena_array(x->arena, n, sizeof(pl_datum *));
        k->b = pl_arena_array(x->arena, n, sizeof(pl_datum *));
        k->gold = pl_arena_array(x->arena, n, sizeof(pl_datum *));
        k->n = k->a == NULL || k->b == NULL || k->gold == NULL ? 0 : n;
        if (k->n == 0) return pl_fail_memory(err, n);
    }
    if (k->a[i] != NULL) return PL_OK;
    k->a[i] = pl_datum_ref(a);
    k->b[i] = pl_datum_ref(b);
    k->gold[i] = pl_datum_ref(gold);
    return PL_OK;
}

static void tell_moves(void *ctx, size_t done, size_t all) {
    pl_progress_update(ctx, "second fp64 run", (int64_t)done, (int64_t)all);
}

pl_status pl_analysis_excuse(pl_analysis *x, pl_sync_point *p, const pl_accuracy_figures *figures,
                             bool *fails, pl_err *err) {
    const size_t i = output_at(x, p->replayed);
    const pl_kept_outputs *k = &x->outputs;
    pl_accuracy_check check;
    if (i >= k->n || k->a[i] == NULL) return PL_OK;
    pl_accuracy_moves moves = { .accuracy = &x->accuracy,
                                .model = x->replayed,
                                .in = x->replayed_in,
                                .gold = k->gold,
                                .seed = x->inputs->seed,
                                .tell = tell_moves,
                                .ctx = &x->progress };
    const pl_status st =
        pl_accuracy_settle_figures(&moves, i, k->b[i], k->a[i], figures, &check, err);
    pl_accuracy_moves_release(&moves);
    if (st != PL_OK || !check.same) return st;
    *fails = false;
    p->excuse = check.rule;
    PL_TRY(pl_analysis_note(x, err, "output '%s' is off by %.3g (%.2g of its size) but %s: %s",
                            p->value, p->acc.max_abs, pl_analysis_relative(p), check.rule,
                            check.why));
    return pl_analysis_timed(x, "second check", err);
}

void pl_analysis_drop_outputs(pl_analysis *x) {
    pl_kept_outputs *k = &x->outputs;
    for (size_t i = 0; i < k->n; i++) {
        pl_datum_unref(k->a[i]);
        pl_datum_unref(k->b[i]);
        pl_datum_unref(k->gold[i]);
    }
    k->n = 0;
}
