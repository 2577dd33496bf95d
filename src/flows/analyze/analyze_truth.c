/* A recording as the reference is the truth. The model itself (gold) is compared with it, so that a
 * runtime that computes a wrong export correctly is not blamed, and a wrong export does not pass.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/spread.h"
#include "flows/analyze/analyze_int.h"
#include "ops/bound.h"
#include "session/lost_calls.h"
#include "session/verdict.h"

/* Codes that are the same in both have not flipped. */
static void keep_codes(pl_analysis *x, const pl_value *value, const pl_accuracy_check *check) {
    const bool codes = check->measured && check->precision >= PL_PRECISION_INT16;
    if (codes && check->acc.n_mismatch == 0) x->same_codes[value->id] = true;
}

/* An output after codes that differ may be off by what rounding alone does to it. */
static pl_status compare_with_truth(pl_analysis *x, const pl_sync_point *p, pl_accuracy *rule,
                                    const pl_datum *recorded, const pl_datum *of_model,
                                    pl_accuracy_check *check, pl_err *err) {
    pl_spread spread;
    if (x->same_codes == NULL) {
        x->same_codes = pl_arena_array(x->arena, (size_t)x->replayed->n_values + 1, sizeof(bool));
        if (x->same_codes == NULL) return pl_fail_memory(err, x->replayed->n_values);
    }
    rule->precision =
        pl_output_precision(x->replayed, p->replayed, x->same_codes, &rule->flips, &rule->floats);
    rule->absolute = pl_value_absolute_error(p->replayed, PL_UNDEFINED);
    const pl_precision coarse = rule->precision;
    if (p->is_output && rule->flips && isnan(rule->tol)) rule->precision = rule->floats;
    PL_TRY(pl_accuracy_compare(rule, recorded, of_model, NULL, check, err));
    keep_codes(x, p->replayed, check);
    if (check->same || rule->precision == coarse) return PL_OK;
    PL_TRY(pl_analysis_spread(x, p->replayed, &spread, err));
    if (pl_accuracy_excuse_flips(rule, &spread, check)) return PL_OK;
    rule->precision = coarse;
    return pl_accuracy_compare(rule, recorded, of_model, NULL, check, err);
}

/* Compares gold, or the run itself if there is none, with the recording. */
pl_status pl_analysis_judge_truth(pl_analysis *x, pl_sync_point *p, const pl_datum *a,
                                  const pl_datum *recorded, const pl_datum *gold, pl_err *err) {
    const pl_datum *of_model = gold != NULL ? gold : a;
    pl_accuracy rule = x->accuracy;
    pl_accuracy_check check;
    if (x->recording == NULL || recorded == NULL) return PL_OK;
    rule.any_float = true;
    rule.strict = true;
    PL_TRY(compare_with_truth(x, p, &rule, recorded, of_model, &check, err));
    p->facts.rule = pl_fact_of(check.same);
    if (check.same) return PL_OK;
    p->reason =
        pl_arena_printf(x->arena, "the model does not reproduce the recording: %s", check.why);
    return p->reason == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static bool any_tainted(const pl_node *node, const bool *tainted) {
    for (uint32_t i = 0; node != NULL && i < node->n_in; i++)
        if (node->in[i] != NULL && tainted[node->in[i]->id]) return true;
    return false;
}

/* Finds the first values that differ from the recording. */
pl_status pl_analysis_trace_truth(pl_analysis *x, pl_err *err) {
    pl_session *s = x->session;
    const pl_graph *graph = x->replayed->graph;
    bool output_differs = false;
    size_t n_differ = 0;
    const pl_sync_point *first = NULL;
    if (x->recording == NULL) return PL_OK;
    PL_TRY(pl_lost_calls_read(s, x->recording->exported, err));
    bool *tainted = pl_calloc((size_t)x->replayed->n_values + 1, sizeof(bool));
    pl_sync_point **of = pl_calloc((size_t)x->replayed->n_values + 1, sizeof(*of));
    if (tainted == NULL || of == NULL) {
        pl_free(tainted);
        pl_free(of);
        return pl_fail_memory(err, x->replayed->n_values);
    }
    for (size_t i = 0; i < s->n_points; i++)
        of[s->points[i].replayed->id] = &s->points[i];
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const bool before = any_tainted(node, tainted);
        for (uint32_t k = 0; k < node->n_out; k++) {
            if (node->out[k] == NULL) continue;
            pl_sync_point *p = of[node->out[k]->id];
            const pl_fact rule = p == NULL ? PL_FACT_UNKNOWN : p->facts.rule;
            tainted[node->out[k]->id] = rule == PL_FACT_UNKNOWN ? before : rule == PL_FACT_NO;
            if (rule != PL_FACT_NO) continue;
            if (before) p->facts.bad_inputs = PL_FACT_YES;
            p->model_wrong = !before;
            output_differs = output_differs || p->is_output;
            n_differ++;
            if (first == NULL) first = p;
        }
    }
    pl_free(tainted);
    pl_free(of);
    if (output_differs || n_differ == 0) return PL_OK;
    /* In the recording an intermediate name may mean something else; only the outputs count. */
    for (size_t i = 0; i < s->n_points; i++) {
        if (s->points[i].facts.rule == PL_FACT_NO) s->points[i].facts.rule = PL_FACT_UNKNOWN;
        s->points[i].model_wrong = false;
    }
    return pl_analysis_note(
        x, err,
        "the outputs agree with the recording, but %zu intermediate value%s not, first '%s'",
        n_differ, n_differ == 1 ? " does" : "s do", first->value);
}
