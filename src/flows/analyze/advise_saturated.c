/* The remedy for products that the CPU clips at 16 bits: the same model with unsigned weights. It
 * is verified by running it on the backend under test and replaying every operation: none may be
 * blamed for clipping any more. The distance of the outputs from the reference is reported but
 * decides nothing: codes that flip at a tie move them as much. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/advise.h"
#include "flows/convert.h"
#include "graph/edit.h"
#include "interp/interp.h"
#include "passes/unsigned_weights.h"
#include "session/advice.h"

static const char KIND[] = "saturated products";

static size_t count_saturated(const pl_blame_entry *blame, size_t n) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += strncmp(blame[i].kind, KIND, sizeof(KIND) - 1) == 0;
    return found;
}

bool pl_advise_is_saturated(const pl_session *s) {
    return count_saturated(s->blame, s->n_blame) > 0;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static pl_status measure(const pl_analysis *x, pl_datum *const *a, pl_datum *const *r,
                         double *worst, pl_err *err) {
    for (size_t i = 0; i < x->model->graph->n_outputs; i++) {
        pl_accumulators acc;
        if (a[i] == NULL || r[i] == NULL || a[i]->kind != PL_TYPE_TENSOR ||
            r[i]->kind != PL_TYPE_TENSOR || !pl_tensor_same_shape(a[i]->tensor, r[i]->tensor))
            continue;
        PL_TRY(pl_accumulate(x->pool, a[i]->tensor, r[i]->tensor, &acc, err));
        const double off = acc.nonfinite_index >= 0 ? (double)INFINITY
                           : acc.sum_rr > 0         ? sqrt(acc.sum_sq / acc.sum_rr)
                           : acc.sum_sq > 0         ? (double)INFINITY
                                                    : 0;
        *worst = fmax(*worst, off);
    }
    return PL_OK;
}

typedef struct trial {
    const pl_analysis *x; /* the sample */
    pl_backend *backend;  /* shared by all samples */
    pl_datum **want;      /* expected outputs */
    double before, after; /* error of the worst output over all samples, relative to its size */
    size_t n_clipped, n_blamed;
} trial;

/* Records the model on the backend and replays it. */
static pl_status look(trial *t, pl_model *model, pl_err *err) {
    const pl_analysis *x = t->x;
    pl_side_options options = pl_analysis_side(x, x->a.options.spec, "advice");
    pl_side_run run = { .model = NULL };
    pl_blame found = { .arena = NULL };
    const pl_blame_options blame = { .pool = x->pool, .seed = x->inputs->seed, .skip_gold = true };
    options.backend = t->backend;
    options.file = NULL;
    pl_status st = pl_side_run_init(&run, model, &options, err);
    if (st == PL_OK) st = pl_side_run_plain(&run, x->in, err);
    if (st == PL_OK) st = pl_side_run_record(&run, x->in, err);
    if (st == PL_OK) st = measure(x, run.plain, t->want, &t->after, err);
    if (st == PL_OK) {
        const pl_run_data a = pl_side_run_data(&run);
        st = pl_blame_run(model, x->in, &a, NULL, &blame, &found, err);
    }
    if (st == PL_OK) {
        t->n_clipped += count_saturated(found.groups, found.n_groups);
        t->n_blamed += found.n_groups;
    }
    pl_blame_release(&found);
    pl_side_run_release(&run);
    return st;
}

static pl_status try_sample(trial *t, pl_model *remedy, pl_err *err) {
    const pl_analysis *x = t->x;
    const size_t n = x->model->graph->n_outputs;
    const pl_interp_options options = { .pool = x->pool,
                                        .seed = x->inputs->seed,
                                        .any_shape = true };
    pl_interp *interp = NULL;
    t->want = pl_calloc(n + 1, sizeof(pl_datum *));
    pl_status st = t->want == NULL ? pl_fail_memory(err, n) : PL_OK;
    if (st == PL_OK) st = pl_interp_new(x->model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, x->in, t->want, err);
    if (st == PL_OK) st = measure(x, x->a.plain, t->want, &t->before, err);
    if (st == PL_OK) st = look(t, remedy, err);
    pl_interp_free(interp);
    drop(t->want, n);
    t->want = NULL;
    return st;
}

static pl_status try_it(pl_analysis *of, size_t n_samples, pl_model *remedy, trial *t,
                        pl_err *err) {
    t->backend = of[0].a.backend;
    for (size_t i = 0; i < n_samples; i++) {
        t->x = &of[i];
        PL_TRY(try_sample(t, remedy, err));
    }
    return PL_OK;
}

/* ---- the advice ---- */

static pl_status give(pl_analysis *x, const trial *t, size_t n_samples, size_t n_changed,
                      pl_model *remedy, const char *out, pl_err *err) {
    const plumb_convert_options convert = { .size = sizeof(convert) };
    pl_advice *a = pl_arena_array(x->arena, 1, sizeof(*a));
    if (a == NULL) return pl_fail_memory(err, 1);
    pl_advice_init(a);
    a->precision = "int8";
    a->by = KIND;
    a->met = a->unsigned_weights = true;
    a->n_nodes = n_changed;
    a->n_queries = n_samples;
    a->before = t->before;
    a->after = t->after;
    a->reason = pl_arena_printf(
        x->arena,
        "unsigned weights (uint8, the same numbers) avoid the %s: run on this CPU with %zu "
        "sample%s, no product is clipped, and the outputs are off by %.3g of their size from what "
        "the model says, instead of %.3g; or quantise with reduced range, or use a CPU with VNNI",
        KIND, n_samples, n_samples == 1 ? "" : "s", t->after, t->before);
    if (a->reason == NULL) return pl_fail_memory(err, 1);
    x->session->advice = a;
    if (out == NULL) return PL_OK;
    a->model = pl_analysis_keep(x, out);
    return pl_convert(remedy, out, &convert, err);
}

pl_status pl_advise_saturated(pl_analysis *of, size_t n_samples, const char *out, bool *helps,
                              pl_err *err) {
    pl_analysis *x = &of[0];
    pl_model *remedy = NULL;
    pl_err trouble = PL_ERR_INIT;
    size_t n = 0;
    trial t = { .x = x };
    *helps = false;
    pl_status st = pl_model_copy(x->model, &remedy, &trouble);
    if (st == PL_OK) st = pl_model_unsigned_weights(remedy, &n, &trouble);
    if (st == PL_OK && n > 0) st = try_it(of, n_samples, remedy, &t, &trouble);
    const size_t others =
        x->session->n_blame - count_saturated(x->session->blame, x->session->n_blame);
    if (st == PL_E_MEMORY) {
        *err = trouble;
    } else if (st != PL_OK || n == 0) { /* the backend cannot run it: no such advice */
        st = pl_analysis_note(x, err, "unsigned weights, the remedy for %s, cannot be tried: %s",
                              KIND, n == 0 ? "no int8 weights to change" : trouble.message);
    } else if (t.n_clipped == 0 && t.n_blamed <= others * n_samples) {
        *helps = true;
        st = give(x, &t, n_samples, n, remedy, out, err);
    } else {
        st = pl_analysis_note(x, err,
                              "unsigned weights do not help against %s: %zu operations are still "
                              "blamed for it, and %zu for something else",
                              KIND, t.n_clipped, t.n_blamed - t.n_clipped);
    }
    pl_model_free(remedy);
    return st;
}
