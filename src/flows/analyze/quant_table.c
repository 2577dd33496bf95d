/* The cost of quantisation, layer by layer: each one quantised alone, and each one alone in
 * float. */
#include "flows/analyze/quant_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/mixed.h"
#include "flows/analyze/quant_mistakes.h"

/* Two runs per layer; layers beyond this are not measured. */
enum { MEASURED_MAX = 256 };

static double improves(const pl_metric *metric, double from, double to) {
    if (metric == NULL) return (double)NAN;
    return metric->direction == PL_HIGHER_IS_BETTER ? to - from : from - to;
}

static pl_status name_row(pl_analysis *x, const pl_layer *layer, pl_quant_row *row, pl_err *err) {
    const pl_node *node = layer->value->producer; /* the float model's: Conv, not its last Mul */
    pl_origin origin;
    PL_TRY(pl_node_origin(node, x->arena, &origin, err));
    *row = (pl_quant_row){ .node = pl_analysis_keep(x, node->name),
                           .op = pl_analysis_keep(x, node->op),
                           .value = pl_analysis_keep(x, layer->own->name),
                           .module = origin.module,
                           .alone = (double)NAN,
                           .share = (double)NAN,
                           .cumulative = (double)NAN,
                           .kept = (double)NAN,
                           .gain = (double)NAN,
                           .top1_gain = (double)NAN,
                           .kind = "",
                           .evidence = "" };
    return PL_OK;
}

static pl_status measure_row(pl_mixed *m, size_t i, const pl_mixed_score *base, bool *keep,
                             pl_quant_row *row, pl_err *err) {
    pl_mixed_score s;
    memset(keep, 0, m->n_layers * sizeof(bool));
    keep[i] = true;
    PL_TRY(pl_mixed_try(m, keep, &s, err));
    if (s.ran) {
        row->kept = s.error[PL_PART_SEARCH];
        row->gain = improves(m->metric, base->metric[PL_PART_SEARCH], s.metric[PL_PART_SEARCH]);
        row->top1_gain = s.top1[PL_PART_SEARCH] - base->top1[PL_PART_SEARCH];
    } else {
        PL_TRY(pl_analysis_note(&m->of[0], err, "layer '%s' cannot be kept in float: %s",
                                row->value, s.why));
    }
    for (size_t k = 0; k < m->n_layers; k++)
        keep[k] = k != i;
    PL_TRY(pl_mixed_try(m, keep, &s, err));
    if (s.ran) row->alone = s.error[PL_PART_SEARCH];
    return PL_OK;
}

static int by_share(const void *x, const void *y) {
    const pl_quant_row *a = x, *b = y;
    const double p = isnan(a->alone) ? -1 : a->alone, q = isnan(b->alone) ? -1 : b->alone;
    if (p != q) return p > q ? -1 : 1;
    const double g = isnan(a->gain) ? 0 : a->gain, h = isnan(b->gain) ? 0 : b->gain;
    return g != h ? (g > h ? -1 : 1) : strcmp(a->value, b->value);
}

static void fill_shares(pl_quantisation *q) {
    double sum = 0, so_far = 0;
    qsort(q->rows, q->n_rows, sizeof(*q->rows), by_share);
    for (size_t i = 0; i < q->n_rows; i++)
        if (isfinite(q->rows[i].alone)) sum += q->rows[i].alone * q->rows[i].alone;
    for (size_t i = 0; i < q->n_rows && sum > 0; i++) {
        pl_quant_row *r = &q->rows[i];
        if (!isfinite(r->alone)) continue;
        r->share = r->alone * r->alone / sum;
        so_far += r->share;
        r->cumulative = so_far;
    }
}

/* eager or, if that cannot run the model, the backend under test. */
static pl_status find_base(pl_mixed *m, const bool *keep, pl_backend *usual, pl_mixed_score *base,
                           pl_err *err) {
    m->backend = m->quick;
    PL_TRY(pl_mixed_try(m, keep, base, err));
    if (base->ran || usual == m->quick) return PL_OK;
    m->backend = usual;
    return pl_mixed_try(m, keep, base, err);
}

static pl_status fill(pl_mixed *m, pl_quantisation *q, pl_err *err) {
    pl_analysis *x = &m->of[0];
    pl_backend *usual = m->backend;
    pl_mixed_score base;
    bool *keep = pl_calloc(m->n_layers + 1, sizeof(bool));
    pl_status st = PL_OK;
    if (keep == NULL) return pl_fail_memory(err, m->n_layers);
    PL_TRY_GOTO(done, st, find_base(m, keep, usual, &base, err));
    if (!base.ran) {
        q->note = pl_analysis_keep(x, base.why);
        goto done;
    }
    q->error = base.error[PL_PART_SEARCH];
    q->value = base.metric[PL_PART_SEARCH];
    q->top1 = base.top1[PL_PART_SEARCH];
    for (size_t i = 0; i < m->n_layers; i++) {
        PL_TRY_GOTO(done, st, name_row(x, &m->layers[i], &q->rows[i], err));
        for (size_t s = 0; s < m->n_samples && m->of[s].mistakes != NULL; s++) {
            const pl_mistake *found = &m->of[s].mistakes[m->layers[i].value->id];
            if (found->kind == NULL) continue;
            q->rows[i].kind = found->kind;
            q->rows[i].evidence = pl_analysis_keep(x, found->evidence);
            break;
        }
        q->n_rows++;
        if (i >= MEASURED_MAX) continue;
        PL_TRY_GOTO(done, st, measure_row(m, i, &base, keep, &q->rows[i], err));
        PL_TRY_GOTO(
            done, st,
            pl_progress_step(&x->progress, "layers", (int64_t)i + 1, (int64_t)m->n_layers, err));
    }
    fill_shares(q);
done:
    m->backend = usual;
    pl_free(keep);
    return st;
}

double pl_quant_limit(const pl_analysis *x) {
    if (!isnan(x->accuracy.tol)) return x->accuracy.tol;
    bool flips = false;
    pl_precision floats;
    return pl_accuracy_floor(pl_model_precision(x->model, &flips, &floats));
}

pl_status pl_quant_table(pl_mixed *m, const char *why, pl_err *err) {
    pl_analysis *x = &m->of[0];
    if (m->n_layers == 0 && why == NULL) return PL_OK;
    pl_quantisation *q = pl_arena_array(x->arena, 1, sizeof(*q));
    if (q == NULL) return pl_fail_memory(err, 1);
    *q = (pl_quantisation){
        .metric = x->session->metric,
        .unit = m->metric == NULL || m->metric->unit[0] == '=' ? "" : m->metric->unit,
        .error = (double)NAN,
        .value = (double)NAN,
        .top1 = (double)NAN,
        .limit = pl_quant_limit(x),
        .float_weights = !m->made,
        .note = why == NULL ? "" : why,
    };
    q->rows = pl_arena_array(x->arena, m->n_layers + 1, sizeof(pl_quant_row));
    if (q->rows == NULL) return pl_fail_memory(err, m->n_layers);
    x->session->quant = q;
    if (m->n_layers == 0) return PL_OK;
    PL_TRY(fill(m, q, err));
    return pl_analysis_timed(x, "layers", err);
}
