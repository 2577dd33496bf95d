/* Minify by accuracy: a candidate must also fail the predicate of a checked run
 * (flows/check/accuracy.h), so that the two never disagree. */
#include <math.h>

#include "base/alloc.h"
#include "flows/inputs.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/oracle.h"
#include "flows/minify/search/mini_state.h"
#include "interp/dont_care.h"
#include "interp/interp.h"
#include "ops/bound.h"

/* NULL entries if the run did not finish. */
static pl_status run_reference(pl_mini *m, const pl_mini_state *s, bool fp64, pl_datum ***out,
                               pl_err *err) {
    const size_t n = s->model->graph->n_outputs;
    const pl_interp_options options = {
        .pool = m->pool, .seed = m->options->inputs->seed, .fp64 = fp64, .any_shape = true
    };
    pl_interp *interp = NULL;
    *out = pl_calloc(n + 1, sizeof(pl_datum *));
    if (*out == NULL) return pl_fail_memory(err, n);
    pl_status st = pl_interp_new(s->model, &options, &interp, NULL);
    if (st == PL_OK) st = pl_interp_run(interp, s->in, *out, NULL);
    pl_interp_free(interp);
    return st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

pl_accuracy_options pl_mini_rule(const pl_mini *m) {
    const plumb_minify_options *o = m->options;
    return (pl_accuracy_options){ .accuracy = o->accuracy != 0,
                                  .strict = o->strict != 0,
                                  .profile = o->profile,
                                  .same = o->same,
                                  .tol = o->tol };
}

pl_status pl_mini_wrong_output(pl_mini *m, const pl_mini_state *s, pl_datum *const *res,
                               const pl_value **out, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    pl_datum **ref = NULL, **gold = NULL;
    pl_accuracy accuracy = m->accuracy;
    pl_accuracy_moves moves = { .accuracy = &accuracy,
                                .model = s->model,
                                .in = s->in,
                                .seed = m->options->inputs->seed,
                                .own = s->model,
                                .own_in = s->in,
                                .res = res };
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY_GOTO(done, st, run_reference(m, s, false, &ref, err));
    PL_TRY_GOTO(done, st, run_reference(m, s, true, &gold, err));
    moves.gold = gold;
    for (size_t i = 0; i < graph->n_outputs && *out == NULL; i++) {
        pl_accuracy_check check;
        if (ref[i] == NULL || res[i] == NULL) continue;
        accuracy.precision = pl_output_precision(s->model, graph->outputs[i], NULL, &accuracy.flips,
                                                 &accuracy.floats);
        accuracy.absolute = pl_value_absolute_error(graph->outputs[i], PL_UNDEFINED);
        PL_TRY_GOTO(done, st, pl_accuracy_compare(&accuracy, ref[i], res[i], gold[i], &check, err));
        PL_TRY_GOTO(done, st, pl_accuracy_settle(&moves, i, res[i], &check, err));
        PL_TRY_GOTO(done, st, pl_accuracy_bound(&moves, i, i, ref[i], &check, err));
        if (!check.same) *out = graph->outputs[i];
    }
done:
    pl_accuracy_moves_release(&moves);
    drop(ref, graph->n_outputs);
    drop(gold, graph->n_outputs);
    return st;
}

static bool is_nan_throughout(const pl_tensor *t) {
    for (int64_t i = 0; i < t->n_elements; i++)
        if (!isnan(pl_tensor_get_f64(t, i))) return false;
    return true;
}

/* Inputs that cannot show much: the answers must be looked at. */
static bool are_poor(const pl_graph *graph, pl_datum *const *in) {
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_tensor *t = in[i] == NULL || in[i]->kind != PL_TYPE_TENSOR ? NULL : in[i]->tensor;
        for (int64_t k = 0; t != NULL && pl_dtype_is_float(t->dtype) && k < t->n_elements; k++)
            if (!isfinite(pl_tensor_get_f64(t, k))) return true;
    }
    return pl_inputs_starve(graph, in);
}

/* Has it an element that means something? */
static bool counts(const pl_dont_care *found, const pl_value *value, const pl_datum *d) {
    const pl_ranges *nothing = pl_dont_care_of(found, value);
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return true;
    if (pl_dtype_is_float(d->tensor->dtype) && is_nan_throughout(d->tensor)) return false;
    return (nothing == NULL ? 0 : pl_ranges_count(nothing)) < d->tensor->n_elements;
}

pl_status pl_mini_check_answers(pl_mini *m, const pl_mini_state *s, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    pl_dont_care found = { NULL, 0 };
    pl_datum **ref = NULL;
    bool any = graph->n_outputs == 0;
    pl_status st = pl_dont_care_find(s->model, s->in, pl_pool_threads(m->pool), &found, err);
    if (st == PL_OK && found.of == NULL && !are_poor(graph, s->in)) return PL_OK;
    if (st == PL_OK) st = run_reference(m, s, false, &ref, err);
    for (size_t i = 0; st == PL_OK && i < graph->n_outputs; i++)
        any = any || counts(&found, graph->outputs[i], ref[i]);
    drop(ref, graph->n_outputs);
    pl_dont_care_release(&found);
    if (st != PL_OK || any) return st;
    return pl_fail(err, PL_E_INVALID,
                   "no output has an element that means something, so nothing was compared");
}

pl_status pl_mini_jumps(pl_mini *m, const pl_mini_state *s, pl_datum *const *res, size_t i,
                        const pl_accuracy_figures *figures, bool *jumps, pl_err *err) {
    const size_t n = s->model->graph->n_outputs;
    pl_datum **ref = NULL, **gold = NULL;
    pl_accuracy accuracy = m->accuracy;
    pl_accuracy_moves moves = {
        .accuracy = &accuracy, .model = s->model, .in = s->in, .seed = m->options->inputs->seed
    };
    pl_accuracy_check check = { .same = false };
    pl_status st = PL_OK;
    accuracy.precision = pl_output_precision(s->model, s->model->graph->outputs[i], NULL,
                                             &accuracy.flips, &accuracy.floats);
    accuracy.absolute = pl_value_absolute_error(s->model->graph->outputs[i], PL_UNDEFINED);
    PL_TRY_GOTO(done, st, run_reference(m, s, false, &ref, err));
    PL_TRY_GOTO(done, st, run_reference(m, s, true, &gold, err));
    moves.gold = gold;
    if (ref[i] != NULL && res[i] != NULL && gold[i] != NULL)
        st = pl_accuracy_settle_figures(&moves, i, ref[i], res[i], figures, &check, err);
done:
    *jumps = check.same;
    pl_accuracy_moves_release(&moves);
    drop(ref, n);
    drop(gold, n);
    return st;
}
