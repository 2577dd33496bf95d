/* How close the outputs of a candidate are to the float model's. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/mixed.h"
#include "interp/interp.h"

/* One in HOLD is held back; with fewer than LEAST samples or rows, all are used. */
enum { HOLD = 4, LEAST_SAMPLES = 4, LEAST_ROWS = 8 };
static const double BEST_DECIBELS = 200; /* instead of infinity for an exact result */

/* ---- the target ---- */

static pl_status run_floats(const pl_mixed *m, const pl_analysis *a, pl_datum **out, pl_err *err) {
    const pl_interp_options options = { .pool = a->pool,
                                        .seed = a->inputs->seed,
                                        .any_shape = true };
    const pl_graph *from = m->floats->graph, *to = m->model->graph;
    pl_interp *interp = NULL;
    pl_datum **all = pl_calloc(from->n_outputs + 1, sizeof(pl_datum *));
    if (all == NULL) return pl_fail_memory(err, from->n_outputs);
    pl_status st = pl_interp_new(m->floats, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, m->made ? a->in : a->replayed_in, all, err);
    for (size_t i = 0; st == PL_OK && i < to->n_outputs; i++) {
        const pl_datum *d = i < from->n_outputs ? all[i] : NULL;
        for (size_t k = 0; k < from->n_outputs; k++)
            if (strcmp(from->outputs[k]->name, to->outputs[i]->name) == 0) d = all[k];
        out[i] = d == NULL ? NULL : pl_datum_ref(d);
    }
    for (size_t i = 0; i < from->n_outputs; i++)
        pl_datum_unref(all[i]);
    pl_free(all);
    pl_interp_free(interp);
    return st;
}

static const pl_tensor *float_tensor(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR && pl_dtype_is_float(d->tensor->dtype) ? d->tensor
                                                                                         : NULL;
}

/* Inputs and float outputs share their first dim: its rows count as samples. 0 = no. */
static int64_t rows_of(const pl_mixed *m) {
    int64_t n = 0;
    for (size_t i = 0; i < m->model->graph->n_inputs; i++) {
        const pl_datum *d = m->of[0].in[i];
        if (d == NULL || d->kind != PL_TYPE_TENSOR || d->tensor->rank == 0) continue;
        if (n != 0 && d->tensor->dims[0] != n) return 0;
        n = d->tensor->dims[0];
    }
    for (size_t i = 0; i < m->model->graph->n_outputs; i++) {
        const pl_tensor *t = float_tensor(m->target[0][i]);
        if (t != NULL && (t->rank == 0 || t->dims[0] != n)) return 0;
    }
    return n;
}

pl_status pl_mixed_make_target(pl_mixed *m, pl_err *err) {
    m->target = pl_calloc(m->n_samples + 1, sizeof(pl_datum **));
    if (m->target == NULL) return pl_fail_memory(err, m->n_samples);
    for (size_t s = 0; s < m->n_samples; s++) {
        m->target[s] = pl_calloc(m->model->graph->n_outputs + 1, sizeof(pl_datum *));
        if (m->target[s] == NULL) return pl_fail_memory(err, m->model->graph->n_outputs);
        PL_TRY(run_floats(m, &m->of[s], m->target[s], err));
    }
    m->n_rows = (int64_t)m->n_samples;
    if (m->n_samples >= LEAST_SAMPLES) {
        m->n_held = (int64_t)m->n_samples / HOLD;
    } else if (m->n_samples == 1 && rows_of(m) >= LEAST_ROWS) {
        m->by_rows = true;
        m->n_rows = rows_of(m);
        m->n_held = m->n_rows / HOLD;
    }
    m->n_rows -= m->n_held;
    return PL_OK;
}

/* ---- one sample ---- */

static bool is_held(int64_t number) {
    return number % HOLD == HOLD - 1;
}

/* The rows of one part; a new reference to t itself when it is not split. */
static pl_status rows_part(const pl_mixed *m, const pl_tensor *t, int part, pl_tensor **out,
                           pl_err *err) {
    pl_tensor *dense = NULL;
    PL_TRY(pl_tensor_contiguous(t, &dense, err));
    *out = dense;
    if (!m->by_rows) return PL_OK;
    int64_t dims[PL_RANK_MAX];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof(int64_t));
    dims[0] = part == PL_PART_HELD ? m->n_held : m->n_rows;
    const pl_status st = pl_tensor_new(t->dtype, t->rank, dims, out, err);
    if (st == PL_OK) {
        const size_t row = pl_tensor_bytes(dense) / (size_t)t->dims[0];
        char *to = (*out)->data;
        for (int64_t i = 0; i < t->dims[0]; i++) {
            if (is_held(i) != (part == PL_PART_HELD)) continue;
            memcpy(to, (const char *)dense->data + (size_t)i * row, row);
            to += row;
        }
    }
    pl_tensor_unref(dense);
    return st;
}

static int64_t largest_at(const double *x, int64_t n) {
    int64_t at = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return at;
}

/* log of the sum of exp(x[i]); x[i] minus this is a log-probability. Outputs that are probabilities
 * already are treated as small logits. */
static double log_sum_exp(const double *x, int64_t n) {
    const double top = x[largest_at(x, n)];
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    return top + log(sum);
}

/* Kullback-Leibler divergence of softmax(a) from softmax(r). */
static double divergence(const double *a, const double *r, int64_t n) {
    const double all_a = log_sum_exp(a, n), all_r = log_sum_exp(r, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double p = exp(r[i] - all_r);
        if (p > 0) sum += p * ((r[i] - all_r) - (a[i] - all_a));
    }
    return isnan(sum) ? (double)INFINITY : sum;
}

/* For rows along the last axis: the share whose largest element is at the same index, and the mean
 * divergence of their probabilities. */
static pl_status agreement(const pl_tensor *a, const pl_tensor *r, double *top1, double *apart,
                           pl_err *err) {
    const int64_t width = r->rank == 0 ? 1 : r->dims[r->rank - 1];
    double sum = 0;
    *top1 = *apart = (double)NAN;
    if (r->rank < 2 || width < 2 || r->n_elements == 0) return PL_OK;
    double *x = pl_calloc((size_t)width * 2, sizeof(double));
    if (x == NULL) return pl_fail_memory(err, (size_t)width);
    int64_t n_same = 0;
    for (int64_t at = 0; at < r->n_elements; at += width) {
        const size_t from_a = (size_t)at * pl_dtype_bytes(a->dtype);
        const size_t from_r = (size_t)at * pl_dtype_bytes(r->dtype);
        pl_load_f64(a->dtype, (const char *)a->data + from_a, x, (size_t)width);
        pl_load_f64(r->dtype, (const char *)r->data + from_r, x + width, (size_t)width);
        n_same += largest_at(x, width) == largest_at(x + width, width);
        sum += divergence(x, x + width, width);
    }
    const int64_t n_rows = r->n_elements / width;
    *top1 = (double)n_same / (double)n_rows;
    *apart = sum / (double)n_rows;
    pl_free(x);
    return PL_OK;
}

typedef struct measured { /* one part of one sample: the worst of its outputs */
    bool any;
    double square, metric, top1, apart;
} measured;

static pl_status measure_output(const pl_mixed *m, const pl_tensor *a, const pl_tensor *r,
                                measured *w, pl_err *err) {
    pl_accumulators acc;
    PL_TRY(pl_accumulate(m->of[0].pool, a, r, &acc, err));
    const bool apart = acc.nonfinite_index >= 0;
    const double square = apart            ? (double)INFINITY
                          : acc.sum_rr > 0 ? acc.sum_sq / acc.sum_rr
                          : acc.sum_sq > 0 ? (double)INFINITY
                                           : 0;
    double value = m->metric == NULL ? (double)NAN : m->metric->value(&acc);
    if (value > BEST_DECIBELS) value = BEST_DECIBELS;
    const bool higher = m->metric != NULL && m->metric->direction == PL_HIGHER_IS_BETTER;
    if (!w->any || square > w->square) w->square = square;
    if (!w->any || (higher ? value < w->metric : value > w->metric)) w->metric = value;
    if (!w->any) PL_TRY(agreement(a, r, &w->top1, &w->apart, err));
    w->any = true;
    return PL_OK;
}

static pl_status measure_part(const pl_mixed *m, size_t sample, pl_datum *const *out, int part,
                              measured *w, pl_err *err) {
    *w = (measured){ .any = false };
    for (size_t i = 0; i < m->model->graph->n_outputs; i++) {
        const pl_tensor *r = float_tensor(m->target[sample][i]), *a = float_tensor(out[i]);
        pl_tensor *pa = NULL, *pr = NULL;
        if (r == NULL || a == NULL || !pl_tensor_same_shape(a, r)) continue;
        pl_status st = rows_part(m, a, part, &pa, err);
        if (st == PL_OK) st = rows_part(m, r, part, &pr, err);
        if (st == PL_OK) st = measure_output(m, pa, pr, w, err);
        pl_tensor_unref(pa);
        pl_tensor_unref(pr);
        PL_TRY(st);
    }
    return PL_OK;
}

void pl_mixed_score_begin(pl_mixed_score *s) {
    *s = (pl_mixed_score){ .ran = false };
}

pl_status pl_mixed_measure(const pl_mixed *m, size_t sample, pl_datum *const *out,
                           pl_mixed_score *sum, pl_err *err) {
    for (int part = 0; part < PL_PART_COUNT; part++) {
        const bool held = part == PL_PART_HELD;
        measured w;
        if (held && m->n_held == 0) continue;
        if (!m->by_rows && m->n_held > 0 && is_held((int64_t)sample) != held) continue;
        PL_TRY(measure_part(m, sample, out, part, &w, err));
        sum->error[part] += w.any ? w.square : (double)NAN;
        sum->metric[part] += w.any ? w.metric : (double)NAN;
        sum->top1[part] += w.any ? w.top1 : (double)NAN;
        sum->apart[part] += w.any ? w.apart : (double)NAN;
    }
    return PL_OK;
}

void pl_mixed_score_end(const pl_mixed *m, pl_mixed_score *s) {
    for (int part = 0; part < PL_PART_COUNT; part++) {
        const int64_t rows = part == PL_PART_HELD ? m->n_held : m->n_rows;
        const double n = m->by_rows ? 1 : (double)rows;
        const bool none = rows == 0;
        s->error[part] = none ? (double)NAN : sqrt(s->error[part] / n);
        s->metric[part] = none ? (double)NAN : s->metric[part] / n;
        s->top1[part] = none ? (double)NAN : s->top1[part] / n;
        s->apart[part] = none ? (double)NAN : s->apart[part] / n;
    }
}
