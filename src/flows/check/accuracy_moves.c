/* The second check of the gate: is the output at a discontinuity, or is ONNX ambiguous? */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "blame/spread.h"
#include "flows/check/accuracy.h"
#include "interp/interp.h"
#include "metric/overflow.h"
#include "ops/op.h"

/* Relative size of a random perturbation: the rounding errors of a few layers, of some, of many. It
 * hits a discontinuity sooner or later; a smooth function moves by no more than the
 * perturbation. */
static double move_size(pl_precision precision, size_t k) {
    const double least = precision <= PL_PRECISION_F32   ? 0x1p-20
                         : precision == PL_PRECISION_F16 ? 0x1p-11
                                                         : 0x1p-8;
    return ldexp(least, 2 * (int)k);
}

static pl_status move_input(const pl_accuracy_moves *m, const pl_datum *d, size_t input, size_t k,
                            pl_datum **out, pl_err *err) {
    const bool is_float = d->kind == PL_TYPE_TENSOR && pl_dtype_is_float(d->tensor->dtype);
    if (!is_float) {
        *out = pl_datum_ref(d);
        return PL_OK;
    }
    pl_tensor *wide = NULL, *t = NULL;
    PL_TRY(pl_tensor_cast(d->tensor, PL_F64, &wide, err));
    double *x = wide->data;
    const pl_accuracy *a = m->accuracy;
    const double size = move_size(a->flips ? a->floats : a->precision, k);
    for (int64_t i = 0; i < wide->n_elements; i++)
        x[i] *= 1 + size * (2 * pl_rng_uniform_at(77 + k, input, (uint64_t)i) - 1);
    const pl_status st = pl_tensor_cast(wide, d->tensor->dtype, &t, err); /* the type is checked */
    pl_tensor_unref(wide);
    return st == PL_OK ? pl_datum_of_tensor_take(t, out, err) : st;
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++)
        pl_datum_unref(data[i]);
    pl_free(data);
}

static pl_status run(pl_accuracy_moves *m, pl_datum *const *in, bool fp64, bool otherwise,
                     pl_datum ***out, pl_err *err) {
    const pl_interp_options options = { .pool = m->accuracy->pool,
                                        .fp64 = fp64,
                                        .otherwise = otherwise,
                                        .any_shape = true,
                                        .seed = m->seed };
    pl_interp *interp = NULL;
    *out = pl_calloc(m->model->graph->n_outputs + 1, sizeof(pl_datum *));
    if (*out == NULL) return pl_fail_memory(err, m->model->graph->n_outputs);
    pl_status st = pl_interp_new(m->model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, in, *out, err);
    pl_interp_free(interp);
    return st;
}

static pl_status run_moved(pl_accuracy_moves *m, size_t k, pl_err *err) {
    const pl_graph *graph = m->model->graph;
    pl_datum **in = pl_calloc(graph->n_inputs + 1, sizeof(pl_datum *));
    pl_status st = in == NULL ? pl_fail_memory(err, graph->n_inputs) : PL_OK;
    for (size_t i = 0; in != NULL && i < graph->n_inputs && st == PL_OK; i++)
        if (m->in[i] != NULL) st = move_input(m, m->in[i], i, k, &in[i], err);
    if (m->tell != NULL) m->tell(m->ctx, k, PL_ACCURACY_MOVES);
    if (st == PL_OK) st = run(m, in, true, false, &m->moved[k], err);
    drop(in, graph->n_inputs);
    return st;
}

static pl_status settle_open(pl_accuracy_moves *m, size_t i, const pl_datum *res,
                             pl_accuracy_check *check, pl_err *err) {
    pl_accuracy_check again;
    if (!pl_model_has_flag(m->model, PL_OP_OPEN)) return PL_OK;
    for (int k = 0; k < 2; k++) {
        pl_err trouble = PL_ERR_INIT; /* if the other reading cannot run, there is no excuse */
        if (m->other[k] == NULL &&
            run(m, m->in, k == 1, true, &m->other[k], &trouble) == PL_E_MEMORY)
            return pl_fail_memory(err, 1);
    }
    if (m->other[0][i] == NULL || (m->other[1][i] == NULL && m->gold[i] != NULL)) return PL_OK;
    PL_TRY(pl_accuracy_compare(m->accuracy, m->other[0][i], res, m->other[1][i], &again, err));
    if (!again.same) return PL_OK;
    *check = again;
    check->rule = "open";
    return PL_OK;
}

/* ---- codes that flip ---- */

/* Two correct runs may be this many times the spread apart. */
static const double FLIPS = 4;

bool pl_accuracy_excuse_flips(const pl_accuracy *a, const pl_spread *spread, pl_accuracy_check *c) {
    const pl_accumulators *acc = &c->acc;
    if (isnan(spread->rms)) return false;
    if (c->same || !c->measured || acc->nonfinite_index >= 0) return true;
    const double rms = acc->n_finite > 0 ? sqrt(acc->sum_sq / (double)acc->n_finite) : 0;
    const double size = acc->n_finite > 0 ? sqrt(acc->sum_rr / (double)acc->n_finite) : 0;
    const double least = pl_accuracy_floor(a->floats) * (size > 0 ? size : 1);
    if (!(rms <= FLIPS * spread->rms + least)) return true;
    if (!(acc->max_abs <= FLIPS * spread->largest + 8 * least)) return true;
    const bool codes = strcmp(c->rule, "equality") == 0;
    if (codes && (a->strict || acc->n_mismatch > (int64_t)FLIPS * spread->n_changed)) return true;
    c->same = true;
    c->rule = "flips";
    snprintf(c->why, sizeof(c->why), "codes flip at rounding ties, which moves it by %.3g",
             spread->rms);
    return true;
}

static pl_status measure_spread(pl_accuracy_moves *m, pl_err *err) {
    const size_t n = m->model->graph->n_outputs;
    if (m->spread != NULL) return PL_OK;
    m->spread = pl_calloc(n + 1, sizeof(pl_spread));
    if (m->spread == NULL) return pl_fail_memory(err, n);
    if (m->tell != NULL) m->tell(m->ctx, 0, PL_ACCURACY_MOVES);
    return pl_rounding_spread(m->model, m->in, NULL, m->accuracy->pool, m->seed, NULL, m->spread,
                              err);
}

/* Does the rule for floats alone apply, or the coarse one because the spread is unknown? */
static bool asks_for_flips(const pl_accuracy *a) {
    return a->profile == PL_PROFILE_PLUMB && a->flips && isnan(a->tol) && a->floats < a->precision;
}

pl_status pl_accuracy_recorded(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                               const pl_datum *res, pl_accuracy_check *check, pl_err *err) {
    pl_accuracy fine = *m->accuracy;
    if (!asks_for_flips(m->accuracy))
        return pl_accuracy_compare(m->accuracy, ref, res, NULL, check, err);
    fine.precision = fine.floats;
    fine.flips = false;
    PL_TRY(pl_accuracy_compare(&fine, ref, res, NULL, check, err));
    if (check->same) return PL_OK;
    PL_TRY(measure_spread(m, err));
    if (pl_accuracy_excuse_flips(m->accuracy, &m->spread[i], check)) return PL_OK;
    return pl_accuracy_compare(m->accuracy, ref, res, NULL, check, err);
}

/* Against gold: `check` failed the limits for floats. */
static pl_status settle_flips(pl_accuracy_moves *m, size_t i, pl_accuracy_check *c, pl_err *err) {
    PL_TRY(measure_spread(m, err));
    const pl_spread *s = &m->spread[i];
    if (strcmp(c->rule, "equality") == 0) {
        const bool known = pl_accuracy_excuse_flips(m->accuracy, s, c);
        if (!known && !m->accuracy->strict && c->acc.max_abs <= 1) c->same = true;
        return PL_OK;
    }
    if (isnan(c->largest_allowed)) return PL_OK;
    const double wide = pl_accuracy_floor(m->accuracy->precision) * (c->tol > 0 ? c->tol : 0) /
                        pl_accuracy_floor(m->accuracy->floats);
    const bool unknown = isnan(s->rms);
    c->allowed += unknown ? wide : FLIPS * s->rms;
    c->largest_allowed += unknown ? 8 * wide : FLIPS * s->largest;
    if (!(c->res_error <= c->allowed) || !(c->res_largest <= c->largest_allowed)) return PL_OK;
    c->same = true;
    c->rule = "flips";
    snprintf(c->why, sizeof(c->why), "codes flip at rounding ties, which moves it by %.3g",
             unknown ? wide : s->rms);
    return PL_OK;
}

/* An index at a tie, a code between two: no more may differ than rounding moves. */
static pl_status excuse_codes(const pl_datum *gold, const pl_datum *moved, pl_accuracy_check *c,
                              pl_err *err) {
    pl_accumulators acc;
    if (gold == NULL || moved == NULL || gold->kind != PL_TYPE_TENSOR ||
        moved->kind != PL_TYPE_TENSOR || gold->tensor->dtype != moved->tensor->dtype ||
        !pl_tensor_same_shape(gold->tensor, moved->tensor))
        return PL_OK;
    PL_TRY(pl_accumulate(NULL, moved->tensor, gold->tensor, &acc, err));
    const bool narrow = pl_dtype_bits(gold->tensor->dtype) <= 8;
    if (c->acc.n_mismatch > 4 * acc.n_mismatch) return PL_OK;
    if (narrow && c->acc.max_abs > 4 * acc.max_abs) return PL_OK;
    c->same = true;
    c->rule = "unstable";
    snprintf(c->why, sizeof(c->why), "rounding of the inputs changes %lld of its elements",
             (long long)acc.n_mismatch);
    return PL_OK;
}

/* ---- where NaN and Inf come from ---- */

typedef struct birth {
    pl_datum **native; /* by value id; only those with NaN or Inf */
    size_t n_values;
    bool fp64; /* the second run */
    const pl_value *first;
} birth;

static bool has_nonfinite(const pl_tensor *t) {
    double x[512];
    if (!pl_dtype_is_float(t->dtype) || !pl_tensor_is_contiguous(t)) return false;
    for (int64_t at = 0; at < t->n_elements; at += 512) {
        const size_t n = (size_t)(t->n_elements - at < 512 ? t->n_elements - at : 512);
        pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * pl_dtype_bytes(t->dtype), x, n);
        for (size_t i = 0; i < n; i++)
            if (!isfinite(x[i])) return true;
    }
    return false;
}

static pl_status see(void *ctx, const pl_node *node, const pl_value *value, const pl_datum *datum,
                     pl_err *err) {
    birth *b = ctx;
    (void)node;
    (void)err;
    if (datum->kind != PL_TYPE_TENSOR || value->id >= b->n_values) return PL_OK;
    pl_datum **kept = &b->native[value->id];
    if (!b->fp64 && *kept == NULL && has_nonfinite(datum->tensor)) *kept = pl_datum_ref(datum);
    if (b->fp64 && b->first == NULL && *kept != NULL &&
        pl_overflow_count((*kept)->tensor, datum->tensor, false) > 0)
        b->first = value;
    return PL_OK;
}

pl_status pl_accuracy_birth(const pl_accuracy_moves *m, const pl_value **out, pl_err *err) {
    const pl_graph *graph = m->model->graph;
    birth b = { .n_values = m->model->n_values };
    pl_datum **made = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
    b.native = pl_calloc(b.n_values + 1, sizeof(pl_datum *));
    pl_status st = made == NULL || b.native == NULL ? pl_fail_memory(err, b.n_values) : PL_OK;
    for (int k = 0; k < 2 && st == PL_OK; k++) {
        const pl_interp_options options = { .pool = m->accuracy->pool,
                                            .fp64 = k == 1,
                                            .any_shape = true,
                                            .seed = m->seed,
                                            .hook = see,
                                            .hook_ctx = &b };
        pl_interp *interp = NULL;
        pl_err trouble = PL_ERR_INIT; /* if it fails now, there is no excuse */
        b.fp64 = k == 1;
        st = pl_interp_new(m->model, &options, &interp, &trouble);
        if (st == PL_OK) st = pl_interp_run(interp, m->in, made, &trouble);
        pl_interp_free(interp);
        for (size_t i = 0; i < graph->n_outputs; i++) {
            pl_datum_unref(made[i]);
            made[i] = NULL;
        }
        st = st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
    }
    drop(b.native, b.n_values);
    pl_free(made);
    *out = b.first;
    return st;
}

/* A Cast is meant to round: Inf from one that leads to the output is what the model asks for. */
static pl_status settle_overflow(const pl_accuracy_moves *m, pl_accuracy_check *check,
                                 pl_err *err) {
    const pl_value *first = NULL;
    PL_TRY(pl_accuracy_birth(m, &first, err));
    if (first == NULL) return PL_OK;
    if (!pl_node_has_flag(first->producer, PL_OP_CAST)) {
        const size_t n = strlen(check->why);
        snprintf(check->why + n, sizeof(check->why) - n, " ('%.80s' first)", first->name);
        return PL_OK;
    }
    check->same = true;
    check->rule = "exact";
    snprintf(check->why, sizeof(check->why), "Inf of the Cast that makes '%.100s'", first->name);
    return PL_OK;
}

pl_status pl_accuracy_settle(pl_accuracy_moves *m, size_t i, const pl_datum *res,
                             pl_accuracy_check *check, pl_err *err) {
    if (check->same || m->accuracy->profile == PL_PROFILE_TORCH) return PL_OK;
    if (strcmp(check->rule, "overflow") == 0) return settle_overflow(m, check, err);
    PL_TRY(settle_open(m, i, res, check, err));
    const bool codes = strcmp(check->rule, "equality") == 0 && !m->accuracy->strict;
    if (!check->same && asks_for_flips(m->accuracy)) PL_TRY(settle_flips(m, i, check, err));
    if (check->same || (isnan(check->largest_allowed) && !codes)) return PL_OK;
    for (size_t k = 0; k < PL_ACCURACY_MOVES && !check->same; k++) {
        pl_err trouble = PL_ERR_INIT; /* may fail on such inputs: then there is no excuse */
        const pl_status st = m->moved[k] == NULL ? run_moved(m, k, &trouble) : PL_OK;
        if (st == PL_E_MEMORY) return pl_fail_memory(err, 1);
        if (st != PL_OK || m->moved[k][i] == NULL) continue;
        if (codes) PL_TRY(excuse_codes(m->gold[i], m->moved[k][i], check, err));
        PL_TRY(pl_accuracy_excuse(m->accuracy, m->gold[i], m->moved[k][i], check, err));
    }
    return PL_OK;
}

pl_status pl_accuracy_settle_figures(pl_accuracy_moves *m, size_t i, const pl_datum *ref,
                                     const pl_datum *res, const pl_accuracy_figures *figures,
                                     pl_accuracy_check *check, pl_err *err) {
    pl_accuracy accuracy = *m->accuracy;
    accuracy.any_float = true; /* a run may have wider values than the model declares */
    PL_TRY(pl_accuracy_compare(&accuracy, ref, res, m->gold[i], check, err));
    if (check->same && check->measured && pl_accumulators_class(&check->acc) == PL_PAIR_EXACT) {
        return PL_OK; /* equal to the reference, however far from fp64 (overflow, for example) */
    }
    if (check->same && !isnan(check->largest_allowed)) {
        check->allowed = pl_accuracy_output_tol(&accuracy) * figures->scale;
        check->largest_allowed = 8 * check->allowed;
    }
    check->same = false;
    return pl_accuracy_settle(m, i, res, check, err);
}

void pl_accuracy_moves_release(pl_accuracy_moves *m) {
    const size_t n = m->model == NULL ? 0 : m->model->graph->n_outputs;
    for (size_t k = 0; k < PL_ACCURACY_MOVES; k++)
        drop(m->moved[k], n);
    for (size_t k = 0; k < 2; k++)
        drop(m->other[k], n);
    pl_free(m->spread);
    m->spread = NULL;
    pl_accuracy_take_results(m, NULL, NULL, NULL);
    memset(m->moved, 0, sizeof(m->moved));
    memset(m->other, 0, sizeof(m->other));
}
