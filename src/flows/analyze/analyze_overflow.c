/* NaN and Inf that both sides have and fp64 does not: the model overflows its own types. */
#include "flows/analyze/analyze_int.h"
#include "metric/overflow.h"
#include "ops/op.h"
#include "session/verdict.h"

void pl_analysis_judge_overflow(pl_sync_point *p, const pl_datum *a, const pl_datum *gold) {
    if (gold == NULL || a->kind != PL_TYPE_TENSOR || gold->kind != PL_TYPE_TENSOR) return;
    if (!p->measured || p->acc.n_finite == p->acc.n || p->pair_class == PL_PAIR_NONFINITE) return;
    p->overflowed = pl_overflow_count(a->tensor, gold->tensor, p->is_output) > 0;
}

pl_status pl_analysis_trace_overflow(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_sync_point *first = NULL;
    bool output = false;
    for (size_t i = 0; i < s->n_points; i++) {
        output = output || (s->points[i].overflowed && s->points[i].is_output);
        if (s->points[i].overflowed && first == NULL) first = &s->points[i];
    }
    /* A Cast is meant to round, so its Inf is what the model asks for. The backend may not show
     * it. */
    const pl_value *born = first == NULL ? NULL : first->replayed;
    if (output && x->replayed == x->model) {
        const pl_accuracy_moves moves = {
            .accuracy = &x->accuracy, .model = x->model, .in = x->in, .seed = x->inputs->seed
        };
        const pl_value *hidden = NULL;
        PL_TRY(pl_accuracy_birth(&moves, &hidden, err));
        if (hidden != NULL) born = hidden;
    }
    if (born != NULL && pl_node_has_flag(born->producer, PL_OP_CAST)) output = false;
    for (size_t i = 0; i < s->n_points; i++) {
        pl_sync_point *p = &s->points[i];
        if (!p->overflowed) continue;
        p->overflowed = output; /* a mask of -Inf inside is harmless */
        if (!output) continue;
        p->facts.rule = PL_FACT_NO;
        if (p != first) p->facts.bad_inputs = PL_FACT_YES;
        p->reason =
            pl_arena_printf(x->arena,
                            "NaN or Inf in %lld of %lld elements that are finite in fp64; the "
                            "reference has them too: '%s' (%s) is the first to overflow %s",
                            (long long)(p->acc.n - p->acc.n_finite), (long long)p->acc.n,
                            first->value, first->op, pl_dtype_name(first->a.dtype));
        if (p->reason == NULL) return pl_fail_memory(err, 1);
    }
    return PL_OK;
}
