/* Outputs of quantised models: rounding flips codes, and later layers may amplify a flip.
 *
 * That alone does not make a run wrong. blame/spread.h measures how far rounding alone may move an
 * output from fp64: a run that is further away, and further than the reference, fails. If two
 * backends are compared, a difference of more than one step of an output's own codes is reported as
 * well, since the last rounding cannot cause it. */
#include <math.h>
#include <string.h>

#include "blame/spread.h"
#include "flows/analyze/analyze_int.h"
#include "session/verdict.h"

/* How many times the spread, or the reference's error, an output may be off. */
#define SPREAD_RATIO 2.0

static pl_status measure_spread(pl_analysis *x, pl_err *err) {
    if (x->spread != NULL) return PL_OK;
    x->spread = pl_arena_array(x->arena, x->replayed->graph->n_outputs + 1, sizeof(pl_spread));
    if (x->spread == NULL) return pl_fail_memory(err, x->replayed->graph->n_outputs);
    PL_TRY(pl_rounding_spread(x->replayed, x->replayed_in, x->a.arithmetic, x->pool,
                              x->inputs->seed, &x->progress, x->spread, err));
    return pl_analysis_timed(x, "spread", err);
}

static double spread_of(const pl_analysis *x, const pl_value *output) {
    const pl_graph *graph = x->replayed->graph;
    for (size_t i = 0; x->spread != NULL && i < graph->n_outputs; i++)
        if (graph->outputs[i] == output) return x->spread[i].rms;
    return (double)NAN;
}

pl_status pl_analysis_spread(pl_analysis *x, const pl_value *output, pl_spread *out, pl_err *err) {
    const pl_graph *graph = x->replayed->graph;
    *out = (pl_spread){ .rms = (double)NAN };
    PL_TRY(measure_spread(x, err));
    for (size_t i = 0; i < graph->n_outputs; i++)
        if (graph->outputs[i] == output) *out = x->spread[i];
    return PL_OK;
}

/* The reference is another backend, not the trusted eager. */
static bool is_pair(const pl_analysis *x) {
    const char *given = x->options->reference;
    return given != NULL && x->recording == NULL && x->reference_model == NULL &&
           pl_backend_is_guarded(given);
}

static double rms_apart(const pl_sync_point *p) {
    return p->measured && p->acc.n_finite > 0 ? sqrt(p->acc.sum_sq / (double)p->acc.n_finite) : 0;
}

/* Off by at most one code of the output itself, as from a tie in the last rounding. */
static bool is_one_step(const pl_sync_point *p) {
    const double step = pl_code_step(p->replayed);
    return step > 0 && p->measured && p->acc.max_abs <= 1.5 * step;
}

/* Two backends: further apart than one tie in the last rounding explains. */
static pl_status pair_fails(pl_analysis *x, const pl_sync_point *p, bool *fails, pl_err *err) {
    if (pl_code_step(p->replayed) > 0) {
        *fails = !is_one_step(p);
        return PL_OK;
    }
    PL_TRY(measure_spread(x, err));
    *fails = rms_apart(p) > SPREAD_RATIO * spread_of(x, p->replayed);
    return PL_OK;
}

pl_status pl_analysis_flips(pl_analysis *x, const pl_sync_point *p, const pl_judgement *v,
                            double tol, bool *fails, pl_err *err) {
    const double reference = isnan(v->reference) ? 0 : v->reference;
    *fails = false;
    if (!isnan(x->session->tol)) {
        *fails = pl_analysis_relative(p) > tol;
        return PL_OK;
    }
    if (p->measured && is_pair(x) && pl_analysis_relative(p) > tol) {
        PL_TRY(pair_fails(x, p, fails, err));
    }
    if (*fails || !(v->propagated > tol * v->scale) || v->propagated <= SPREAD_RATIO * reference ||
        is_one_step(p)) {
        return PL_OK;
    }
    PL_TRY(measure_spread(x, err));
    *fails = v->propagated > SPREAD_RATIO * fmax(reference, spread_of(x, p->replayed));
    return PL_OK;
}

pl_status pl_analysis_say_flips(pl_analysis *x, bool *said, pl_err *err) {
    const pl_sync_point *most = NULL;
    *said = false;
    for (size_t i = 0; x->accuracy.flips && i < x->session->n_points; i++) {
        const pl_sync_point *p = &x->session->points[i];
        if (!p->is_output || !(pl_analysis_relative(p) > 1e-3)) continue;
        if (most == NULL || pl_analysis_relative(p) > pl_analysis_relative(most)) most = p;
    }
    if (most == NULL) return PL_OK;
    *said = true;
    const pl_sync_point *born = pl_verdict_birth(x->session, most);
    const double spread = spread_of(x, most->replayed);
    const pl_judgement *v = &x->blame.of[most->replayed->id];
    if (isnan(spread)) {
        return pl_analysis_note(x, err,
                                "output '%s' differs from the reference by %.3g (%.2g of its size) "
                                "because quantised codes flip at rounding ties, first at '%s'",
                                most->value, most->acc.max_abs, pl_analysis_relative(most),
                                born->value);
    }
    return pl_analysis_note(x, err,
                            "output '%s' differs from the reference by %.3g (%.2g of its size); "
                            "rounding alone moves it by %.2g of its size; codes first flip at '%s'",
                            most->value, most->acc.max_abs, pl_analysis_relative(most),
                            v->scale > 0 ? spread / v->scale : spread, born->value);
}

pl_status pl_analysis_device(pl_analysis *x, pl_sync_point *p, const pl_judgement *v, bool *fails,
                             pl_err *err) {
    if (x->a.arithmetic == NULL || x->a.arithmetic == &pl_arithmetics[0] || !(v->propagated >= 0))
        return PL_OK;
    PL_TRY(measure_spread(x, err));
    const double spread = spread_of(x, p->replayed);
    if (!(v->propagated <= SPREAD_RATIO * spread)) return PL_OK;
    *fails = false;
    p->excuse = x->a.arithmetic->name;
    return pl_analysis_note(x, err,
                            "output '%s' is off by %.2g (rms); correct arithmetic of the precision "
                            "profile %s gives up to %.2g",
                            p->value, v->propagated, x->a.arithmetic->name, SPREAD_RATIO * spread);
}
