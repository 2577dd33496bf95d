/* The third check of the gate: can rounding explain every element?
 *
 * The limits of accuracy.c are relative to the rms of an output, so that an error in a small
 * element hides behind large ones; and rounding of the inputs may move an output further than a
 * correct computation on these very inputs can. Blame knows better: a bound for every element. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame/blame.h"
#include "flows/check/accuracy.h"

/* Worth a closer look: an element that is off by more than this many floors of its own size, and
 * by more than this many times what the reference is off by, there and at a quarter of the
 * elements. A sum that cancels is small and off by the first, but not by the second. Clean runs of
 * retinaface on ONNX Runtime exceed 16 times the median, and not 64 times. */
static const double OWN_SIZE = 100;
static const double OWN_SIZE_MAX = 0.03;
static const double REFERENCE = 128;
enum { SAMPLES = 2048 };

typedef struct trio {
    pl_tensor *res, *ref, *gold; /* contiguous */
} trio;

static void load(const pl_tensor *t, int64_t at, double *to, size_t n) {
    pl_load_f64(t->dtype, (const char *)t->data + (size_t)at * pl_dtype_bytes(t->dtype), to, n);
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower quartile of the reference's errors, of evenly spread elements: an output may hold
 * values of several sizes. */
static double usual_error(const trio *t) {
    double off[SAMPLES];
    const int64_t n = t->gold->n_elements, step = (n + SAMPLES - 1) / SAMPLES;
    size_t k = 0;
    for (int64_t at = 0; at < n && k < SAMPLES; at += step) {
        double r, g;
        load(t->ref, at, &r, 1);
        load(t->gold, at, &g, 1);
        if (isfinite(r) && isfinite(g)) off[k++] = fabs(r - g);
    }
    qsort(off, k, sizeof(*off), by_size);
    return k == 0 ? 0 : off[k / 4];
}

static bool has_coarse_element(const trio *t, double relative) {
    enum { RUN = 512 };
    double a[RUN], r[RUN], g[RUN];
    const double usual = usual_error(t);
    for (int64_t at = 0; at < t->gold->n_elements; at += RUN) {
        const int64_t left = t->gold->n_elements - at;
        const size_t n = (size_t)(left < RUN ? left : RUN);
        load(t->res, at, a, n);
        load(t->ref, at, r, n);
        load(t->gold, at, g, n);
        for (size_t i = 0; i < n; i++) {
            const double off = fabs(a[i] - g[i]), its = fmax(usual, fabs(r[i] - g[i]));
            if (off > relative * fabs(g[i]) && off > REFERENCE * its) return true;
        }
    }
    return false;
}

static const pl_tensor *floats_of(const pl_datum *d) {
    if (d == NULL || d->kind != PL_TYPE_TENSOR) return NULL;
    const pl_dtype dtype = d->tensor->dtype;
    return pl_dtype_is_float(dtype) && pl_dtype_bits(dtype) >= 8 ? d->tensor : NULL;
}

static pl_status is_in_doubt(const pl_datum *res, const pl_datum *ref, const pl_datum *gold,
                             const pl_accuracy_check *c, bool *doubt, pl_err *err) {
    const pl_tensor *a = floats_of(res), *r = floats_of(ref), *g = floats_of(gold);
    trio t = { 0 };
    *doubt = c->same && strcmp(c->rule, "unstable") == 0;
    if (*doubt || !c->same || strcmp(c->rule, "rmse") != 0) return PL_OK;
    if (a == NULL || r == NULL || g == NULL || !pl_tensor_same_shape(a, g) ||
        !pl_tensor_same_shape(r, g))
        return PL_OK;
    pl_status st = pl_tensor_contiguous(a, &t.res, err);
    if (st == PL_OK) st = pl_tensor_contiguous(r, &t.ref, err);
    if (st == PL_OK) st = pl_tensor_contiguous(g, &t.gold, err);
    const double relative = fmin(OWN_SIZE * pl_accuracy_floor(c->precision), OWN_SIZE_MAX);
    if (st == PL_OK) *doubt = has_coarse_element(&t, relative);
    pl_tensor_unref(t.res);
    pl_tensor_unref(t.ref);
    pl_tensor_unref(t.gold);
    return st;
}

void pl_accuracy_take_results(pl_accuracy_moves *m, pl_model *own, pl_datum *const *in,
                              pl_datum *const *res) {
    m->own = own;
    m->own_in = in;
    m->res = res;
    m->judged = false;
    pl_blame_release(&m->bounds);
    m->bounds = (pl_blame){ 0 };
}

/* ---- the outputs as a recording ---- */

static size_t output_of(const pl_accuracy_moves *m, const pl_value *value) {
    const pl_graph *graph = m->own->graph;
    size_t i = 0;
    while (i < graph->n_outputs && graph->outputs[i] != value)
        i++;
    return i;
}

static bool has(void *ctx, const pl_value *value) {
    const pl_accuracy_moves *m = ctx;
    const size_t i = output_of(m, value);
    return i < m->own->graph->n_outputs && m->res[i] != NULL;
}

static pl_status get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const pl_accuracy_moves *m = ctx;
    (void)err;
    *out = pl_datum_ref(m->res[output_of(m, value)]);
    return PL_OK;
}

static pl_status judge(pl_accuracy_moves *m, pl_err *err) {
    const pl_run_data a = { .has = has, .get = get, .ctx = m };
    const pl_blame_options options = { .pool = m->accuracy->pool,
                                       .seed = m->seed,
                                       .skip_gold = true };
    pl_err trouble = PL_ERR_INIT; /* what cannot be replayed has no bound */
    m->judged = true;
    const pl_status st = pl_blame_run(m->own, m->own_in, &a, NULL, &options, &m->bounds, &trouble);
    return st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_accuracy_bound(pl_accuracy_moves *m, size_t i, size_t k, const pl_datum *ref,
                            pl_accuracy_check *check, pl_err *err) {
    bool doubt = false;
    const bool asked = m->accuracy->profile == PL_PROFILE_PLUMB && isnan(m->accuracy->tol);
    if (m->own == NULL || !asked || m->gold[k] == NULL) return PL_OK;
    PL_TRY(is_in_doubt(m->res[i], ref, m->gold[k], check, &doubt, err));
    if (!doubt) return PL_OK;
    if (!m->judged) PL_TRY(judge(m, err));
    if (m->bounds.of == NULL) return PL_OK;
    const pl_judgement *v = &m->bounds.of[m->own->graph->outputs[i]->id];
    if (!v->judged || v->verdict != PL_VERDICT_CULPRIT) return PL_OK;
    check->same = false;
    check->rule = "bound";
    snprintf(check->why, sizeof(check->why), "%.*s", (int)sizeof(check->why) - 1, v->reason);
    return PL_OK;
}
