/* The remedy for products that the CPU saturates at 16 bits: the same model with unsigned weights,
 * run on the backend under test and compared with the expected outputs. */
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
/* Relative to an output's size: allows a flipped code at a tie. Saturation costs much more. */
static const double LIMIT = 0.02;

bool pl_advise_is_saturated(const pl_session *s) {
    for (size_t i = 0; i < s->n_blame; i++)
        if (strncmp(s->blame[i].kind, KIND, sizeof(KIND) - 1) == 0) return true;
    return false;
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

/* Runs one sample on the backend: how far are its outputs from the expected ones? */
static pl_status off_by(const pl_analysis *x, pl_model *model, double *worst, pl_err *err) {
    const size_t n = x->model->graph->n_outputs;
    const pl_interp_options options = { .pool = x->pool,
                                        .seed = x->inputs->seed,
                                        .any_shape = true };
    const pl_compile_options compile = { .seed = x->inputs->seed,
                                         .threads = x->options->threads,
                                         .any_shape = true };
    pl_interp *interp = NULL;
    pl_program *program = NULL;
    pl_datum **want = pl_calloc(n + 1, sizeof(pl_datum *));
    pl_datum **got = pl_calloc(n + 1, sizeof(pl_datum *));
    pl_status st = want == NULL || got == NULL ? pl_fail_memory(err, n) : PL_OK;
    if (st == PL_OK) st = pl_interp_new(x->model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, x->in, want, err);
    if (st == PL_OK) st = pl_program_new(x->a.backend, model, &compile, &program, err);
    if (st == PL_OK) st = pl_program_run(program, x->in, got, err);
    if (st == PL_OK) st = measure(x, got, want, worst, err);
    pl_program_free(program);
    pl_interp_free(interp);
    drop(want, n);
    drop(got, n);
    return st;
}

static pl_status try_it(pl_analysis *of, size_t n_samples, pl_model *remedy, pl_advice *a,
                        pl_err *err) {
    a->before = a->after = 0;
    for (size_t i = 0; i < n_samples; i++) {
        if (i > 0) { /* one backend for all */
            pl_backend *own = of[i].a.backend;
            of[i].a.backend = of[0].a.backend;
            pl_status st = off_by(&of[i], of[i].model, &a->before, err);
            if (st == PL_OK) st = off_by(&of[i], remedy, &a->after, err);
            of[i].a.backend = own;
            PL_TRY(st);
        } else {
            PL_TRY(off_by(&of[0], of[0].model, &a->before, err));
            PL_TRY(off_by(&of[0], remedy, &a->after, err));
        }
        a->n_queries += 2;
    }
    return PL_OK;
}

pl_status pl_advise_saturated(pl_analysis *of, size_t n_samples, const pl_advise_options *options,
                              bool *done, pl_err *err) {
    const plumb_convert_options convert = { .size = sizeof(convert) };
    pl_analysis *x = &of[0];
    pl_model *remedy = NULL;
    pl_err trouble = PL_ERR_INIT;
    size_t n = 0;
    pl_advice *a = pl_arena_array(x->arena, 1, sizeof(*a));
    *done = false;
    if (a == NULL) return pl_fail_memory(err, 1);
    pl_advice_init(a);
    pl_status st = pl_model_copy(x->model, &remedy, &trouble);
    if (st == PL_OK) st = pl_model_unsigned_weights(remedy, &n, &trouble);
    if (st == PL_OK && n > 0) st = try_it(of, n_samples, remedy, a, &trouble);
    if (st == PL_E_MEMORY) {
        *err = trouble;
    } else if (st != PL_OK || n == 0) { /* the backend cannot run it: no such advice */
        st = pl_analysis_note(x, err, "unsigned weights, the remedy for %s, cannot be tried: %s",
                              KIND, n == 0 ? "no int8 weights to change" : trouble.message);
    } else if (a->after < a->before && a->after <= LIMIT) {
        a->precision = "int8";
        a->by = KIND;
        a->met = true;
        a->n_nodes = n;
        a->reason = pl_arena_printf(
            x->arena,
            "unsigned weights (uint8, the same numbers) avoid the %s: the outputs are then off by "
            "%.3g of their size instead of %.3g, on %zu sample%s of this CPU; or quantise with "
            "reduced range, or use a CPU with VNNI",
            KIND, a->after, a->before, n_samples, n_samples == 1 ? "" : "s");
        if (a->reason == NULL) st = pl_fail_memory(err, 1);
        if (st == PL_OK && options->out != NULL) {
            st = pl_convert(remedy, options->out, &convert, err);
            a->model = pl_analysis_keep(x, options->out);
        }
        x->session->advice = a;
        *done = true;
    } else {
        st = pl_analysis_note(x, err,
                              "unsigned weights do not help against %s: off by %.3g, was %.3g",
                              KIND, a->after, a->before);
    }
    pl_model_free(remedy);
    return st;
}
