/* What low precision does to each node alone: fp64 from the inputs, and the node at the model's own
 * precision on the same values. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/analyze/advise_int.h"
#include "interp/raise.h"
#include "interp/replay.h"
#include "ops/op.h"
#include "passes/quant_pairs.h"

enum { BLOCK = 1024 };

typedef struct survey {
    pl_advising *x;
    const pl_analysis *sample;
    size_t number;                  /* of the sample */
    size_t special;                 /* only unit special - 1 is lowered; 0 = measure all */
    pl_replay *gold, *low, *bounds; /* of base, low, base */
} survey;

static bool is_constant(const pl_value *value) {
    return value->producer == NULL && value->init != NULL && !value->is_input;
}

/* Does every reader of the codes dequantise them? Then the value before them represents the
 * pair. */
static bool is_pair(const pl_advising *x, const pl_node *quantize) {
    const pl_graph *graph = x->base->graph;
    const pl_value *codes = quantize->out[0];
    bool any = false;
    if (!x->pairs || codes == NULL || codes->is_output || is_constant(quantize->in[0]))
        return false;
    for (size_t i = quantize->index + 1; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_in; k++) {
            if (node->in[k] != codes) continue;
            if (!pl_node_is_dequantize(node) || pl_quant_pair_source(node->out[0]) == NULL)
                return false;
            any = true;
        }
    }
    return any;
}

/* ---- one node at low precision ---- */

/* Gold's inputs of `from` as inputs of `to`, converted to its types. */
static pl_status put_inputs(survey *s, const pl_node *from, const pl_node *to, pl_err *err) {
    for (uint32_t k = 0; k < to->n_in; k++) {
        const pl_value *value = to->in[k];
        if (value == NULL || is_constant(value) || pl_replay_get(s->low, value) != NULL) continue;
        const pl_datum *d = pl_replay_get(s->gold, from->in[k]);
        if (d == NULL) continue;
        pl_datum *lowered = pl_datum_ref(d);
        pl_status st = pl_datum_lower(pl_value_dtype(value, PL_F32), &lowered, err);
        if (st == PL_OK) st = pl_replay_put(s->low, value, lowered, NULL, err);
        pl_datum_unref(lowered);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status run_low(survey *s, const pl_node *node, pl_err *err) {
    const pl_node *twin = s->x->twins[node->index];
    pl_replay_clear_all(s->low);
    PL_TRY(put_inputs(s, node, twin, err));
    return pl_replay_node(s->low, twin, err);
}

/* Quantises and dequantises the value of a pair. */
static pl_status run_pair(survey *s, const pl_node *last, pl_err *err) {
    const pl_node *first = last->in[0]->producer;
    pl_datum *lowered = pl_datum_ref(pl_replay_get(s->gold, first->out[0]));
    pl_replay_clear_all(s->low);
    pl_status st = pl_datum_lower(pl_value_dtype(first->in[0], PL_F32), &lowered, err);
    if (st == PL_OK) st = pl_replay_put(s->low, first->in[0], lowered, NULL, err);
    pl_datum_unref(lowered);
    PL_TRY(st);
    PL_TRY(put_inputs(s, first, first, err));
    PL_TRY(pl_replay_node(s->low, first, err));
    PL_TRY(put_inputs(s, last, last, err));
    return pl_replay_node(s->low, last, err);
}

/* ---- measuring ---- */

static const pl_tensor *float_tensor(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR && pl_dtype_is_float(d->tensor->dtype) ? d->tensor
                                                                                         : NULL;
}

/* rms of a - r relative to r; infinite when one is not finite where the other is. */
static double relative(const pl_accumulators *acc) {
    if (acc->nonfinite_index >= 0) return (double)INFINITY;
    if (acc->n_finite == 0 || !(acc->sum_sq > 0)) return 0;
    return acc->sum_rr > 0 ? sqrt(acc->sum_sq / acc->sum_rr) : (double)INFINITY;
}

typedef struct counts {
    int64_t n, over, under, nonzero;
    double largest;
} counts;

/* Counts elements of gold `g` that the rounded ones `r` lose; `r` may have another type. */
static pl_status count_lost(const pl_tensor *g, const pl_tensor *r, counts *c, pl_err *err) {
    pl_tensor *gold = NULL, *rounded = NULL;
    double x[BLOCK], y[BLOCK];
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(g, &gold, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(r, &rounded, err));
    c->n += g->n_elements;
    for (int64_t at = 0; at < g->n_elements; at += BLOCK) {
        const size_t n = (size_t)(g->n_elements - at < BLOCK ? g->n_elements - at : BLOCK);
        const char *from_x = gold->data, *from_y = rounded->data;
        pl_load_f64(gold->dtype, from_x + (size_t)at * pl_dtype_bytes(gold->dtype), x, n);
        pl_load_f64(rounded->dtype, from_y + (size_t)at * pl_dtype_bytes(rounded->dtype), y, n);
        for (size_t i = 0; i < n; i++) {
            if (!isfinite(x[i])) continue;
            c->over += !isfinite(y[i]);
            c->nonzero += x[i] != 0;
            c->under += x[i] != 0 && y[i] == 0;
            c->largest = fmax(c->largest, fabs(x[i]));
        }
    }
done:
    pl_tensor_unref(gold);
    pl_tensor_unref(rounded);
    return st;
}

/* Codes at the end of their range whose value is more than half a step beyond it. */
static pl_status count_clipped(const pl_tensor *codes, const pl_tensor *g, const pl_tensor *back,
                               const pl_tensor *scale, int64_t *n, pl_err *err) {
    if (!pl_dtype_is_integer(codes->dtype)) return PL_OK;
    const double low = (double)pl_dtype_int_min(codes->dtype);
    const double high = (double)pl_dtype_int_max(codes->dtype);
    double step = 0;
    pl_tensor *gold = NULL;
    PL_TRY(pl_tensor_contiguous(g, &gold, err));
    for (int64_t i = 0; i < scale->n_elements; i++)
        step = fmax(step, fabs(pl_tensor_get_f64(scale, i)));
    for (int64_t i = 0; i < codes->n_elements && i < gold->n_elements; i++) {
        const double code = pl_tensor_get_f64(codes, i);
        if (code != low && code != high) continue;
        *n += fabs(pl_tensor_get_f64(gold, i) - pl_tensor_get_f64(back, i)) > 0.51 * step;
    }
    pl_tensor_unref(gold);
    return PL_OK;
}

static void note_unit(survey *s, pl_unit *u, double local, const counts *c) {
    if (c->n == 0 || (u->n > 0 && !(local > u->local))) return;
    u->local = local;
    u->sample = s->number;
    u->n = c->n;
    u->n_over = c->over;
    u->n_under = c->under;
    u->n_nonzero = c->nonzero;
    u->largest = c->largest;
}

/* Puts |x| u as the bound of an input: one rounding. */
static pl_status put_rounded(survey *s, const pl_value *value, pl_err *err) {
    const pl_datum *d = pl_replay_get(s->gold, value);
    const pl_tensor *t = float_tensor(d);
    pl_tensor *bound = NULL, *dense = NULL;
    pl_status st = PL_OK;
    if (d == NULL || is_constant(value)) return PL_OK;
    if (t != NULL && t->dtype == PL_F64) {
        const double u = pl_dtype_unit_roundoff(pl_value_dtype(value, PL_F32));
        PL_TRY_GOTO(done, st, pl_tensor_contiguous(t, &dense, err));
        PL_TRY_GOTO(done, st, pl_tensor_new(PL_F64, t->rank, t->dims, &bound, err));
        for (int64_t i = 0; i < t->n_elements; i++)
            ((double *)bound->data)[i] = u * fabs(((const double *)dense->data)[i]);
    }
    st = pl_replay_put(s->bounds, value, d, bound, err);
done:
    pl_tensor_unref(bound);
    pl_tensor_unref(dense);
    return st;
}

/* rms of the bound relative to the value. */
static pl_status relative_bound(const pl_tensor *e, const pl_tensor *d, double *out, pl_err *err) {
    pl_tensor *bound = NULL, *value = NULL;
    double sum_e = 0, sum_d = 0;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(e, &bound, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(d, &value, err));
    for (int64_t i = 0; i < value->n_elements; i++) {
        const double x = pl_tensor_get_f64(value, i), y = pl_tensor_get_f64(bound, i);
        if (!isfinite(x) || !isfinite(y)) continue;
        sum_d += x * x;
        sum_e += y * y;
    }
    *out = sum_d > 0 ? sqrt(sum_e / sum_d) : (double)NAN;
done:
    pl_tensor_unref(bound);
    pl_tensor_unref(value);
    return st;
}

/* How much of one rounding of each input appears in the result, relative to it; by the operator's
 * bound rule. */
static pl_status measure_condition(survey *s, const pl_node *node, pl_err *err) {
    pl_unit *unit = &s->x->units[node->index];
    pl_err ignored = PL_ERR_INIT;
    if ((node->def->flags & (PL_OP_VIEW | PL_OP_CAST)) != 0) return PL_OK;
    pl_replay_clear_all(s->bounds);
    for (uint32_t k = 0; k < node->n_in; k++)
        if (node->in[k] != NULL) PL_TRY(put_rounded(s, node->in[k], err));
    const pl_status st = pl_replay_node(s->bounds, node, &ignored);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 0);
    for (uint32_t k = 0; st == PL_OK && k < node->n_out; k++) {
        if (node->out[k] == NULL) continue;
        const pl_tensor *e = pl_replay_bound(s->bounds, node->out[k]);
        const pl_tensor *d = float_tensor(pl_replay_get(s->bounds, node->out[k]));
        double share = 0;
        if (e == NULL || d == NULL || !pl_tensor_same_shape(e, d)) continue;
        PL_TRY(relative_bound(e, d, &share, err));
        const double u = pl_dtype_unit_roundoff(pl_value_dtype(node->out[k], PL_F32));
        if (!isnan(share)) unit->condition = fmax(unit->condition, share / u);
    }
    return PL_OK;
}

static pl_status measure_node(survey *s, const pl_node *node, pl_err *err) {
    const pl_node *twin = s->x->twins[node->index];
    counts c = { 0 };
    double local = 0;
    pl_err ignored = PL_ERR_INIT; /* no kernel for the type: this node is unknown */
    const pl_status ran = run_low(s, node, &ignored);
    if (ran != PL_OK) return ran == PL_E_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
    for (uint32_t k = 0; k < node->n_out; k++) {
        if (node->out[k] == NULL || twin->out[k] == NULL) continue;
        const pl_tensor *g = float_tensor(pl_replay_get(s->gold, node->out[k]));
        const pl_tensor *low = float_tensor(pl_replay_get(s->low, twin->out[k]));
        pl_tensor *rounded = NULL;
        pl_accumulators acc;
        if (g == NULL || low == NULL || !pl_tensor_same_shape(g, low)) continue;
        PL_TRY(pl_accumulate(s->x->pool, low, g, &acc, err));
        local = fmax(local, relative(&acc));
        PL_TRY(pl_tensor_cast(g, low->dtype, &rounded, err));
        const pl_status st = count_lost(g, rounded, &c, err);
        pl_tensor_unref(rounded);
        PL_TRY(st);
        const int64_t born = acc.n_nan_a + acc.n_inf_a; /* arisen inside, or from its inputs */
        if (born > c.over) c.over = born;
    }
    note_unit(s, &s->x->units[node->index], local, &c);
    return measure_condition(s, node, err);
}

static pl_status measure_pair(survey *s, const pl_node *last, pl_err *err) {
    const pl_node *first = last->in[0]->producer;
    counts c = { 0 };
    pl_accumulators acc;
    const pl_tensor *g = float_tensor(pl_replay_get(s->gold, first->out[0]));
    PL_TRY(run_pair(s, last, err));
    const pl_tensor *back = float_tensor(pl_replay_get(s->low, last->out[0]));
    const pl_datum *codes = pl_replay_get(s->low, first->out[0]);
    if (g == NULL || back == NULL || codes == NULL || !pl_tensor_same_shape(g, back)) return PL_OK;
    PL_TRY(pl_accumulate(s->x->pool, back, g, &acc, err));
    PL_TRY(count_lost(g, back, &c, err));
    const pl_datum *scale = pl_replay_get(s->low, first->in[1]);
    const pl_tensor *steps = is_constant(first->in[1]) ? first->in[1]->init : float_tensor(scale);
    if (steps != NULL) PL_TRY(count_clipped(codes->tensor, g, back, steps, &c.over, err));
    note_unit(s, &s->x->units[s->x->owner[last->index] - 1], relative(&acc), &c);
    return PL_OK;
}

/* ---- walking ---- */

static pl_status put_low_outputs(survey *s, const pl_node *node, pl_err *err) {
    const pl_node *twin = s->x->twins[node->index];
    pl_err ignored = PL_ERR_INIT;
    const pl_status ran = run_low(s, node, &ignored);
    if (ran != PL_OK) return ran == PL_E_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
    for (uint32_t k = 0; k < node->n_out; k++) {
        const pl_datum *d = node->out[k] == NULL || twin->out[k] == NULL
                                ? NULL
                                : pl_replay_get(s->low, twin->out[k]);
        if (d != NULL) PL_TRY(pl_replay_put(s->gold, node->out[k], d, NULL, err));
    }
    return PL_OK;
}

static pl_status step(survey *s, const pl_node *node, pl_err *err) {
    pl_advising *x = s->x;
    if (pl_node_is_quantize(node) && is_pair(x, node)) {
        return pl_replay_put(s->gold, node->out[0], pl_replay_get(s->gold, node->in[0]), NULL, err);
    }
    const bool pair = x->pairs && pl_node_is_dequantize(node) &&
                      pl_quant_pair_source(node->out[0]) != NULL &&
                      is_pair(x, node->in[0]->producer);
    if (pair) {
        const size_t owner = x->owner[node->index];
        if (s->special == 0 && owner != 0) PL_TRY(measure_pair(s, node, err));
        const bool lowered = s->special != 0 && s->special == owner;
        if (lowered) PL_TRY(run_pair(s, node, err));
        const pl_datum *d =
            lowered ? pl_replay_get(s->low, node->out[0]) : pl_replay_get(s->gold, node->in[0]);
        return pl_replay_put(s->gold, node->out[0], d, NULL, err);
    }
    PL_TRY(pl_replay_node(s->gold, node, err));
    if (x->pairs || !x->units[node->index].can) return PL_OK;
    if (s->special == 0) return measure_node(s, node, err);
    return s->special == node->index + 1 ? put_low_outputs(s, node, err) : PL_OK;
}

static pl_status survey_init(survey *s, pl_err *err) {
    const pl_advising *x = s->x;
    const pl_graph *graph = x->base->graph;
    const uint64_t seed = s->sample->inputs->seed;
    const pl_replay_options gold = { .pool = x->pool, .seed = seed, .no_bounds = true };
    const pl_replay_options low = { .pool = x->pool, .seed = seed, .native = true, .fast = true };
    /* Excludes the rounding of long sums: only errors of the inputs count. */
    const pl_replay_options bounds = { .pool = x->pool, .seed = seed, .u_acc = 0x1p-53 };
    PL_TRY(pl_replay_new(x->base, &gold, &s->gold, err));
    PL_TRY(pl_replay_new(x->low, &low, &s->low, err));
    PL_TRY(pl_replay_new(x->base, &bounds, &s->bounds, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_datum *d = s->sample->in[i] == NULL ? NULL : pl_datum_ref(s->sample->in[i]);
        if (d == NULL && graph->inputs[i]->init != NULL) {
            PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref(graph->inputs[i]->init), &d, err));
        }
        if (d == NULL) continue;
        const pl_status st = pl_replay_put(s->gold, graph->inputs[i], d, NULL, err);
        pl_datum_unref(d);
        PL_TRY(st);
    }
    return PL_OK;
}

static void survey_release(survey *s) {
    pl_replay_free(s->gold);
    pl_replay_free(s->low);
    pl_replay_free(s->bounds);
}

static pl_status walk(survey *s, const char *phase, pl_err *err) {
    const pl_graph *graph = s->x->base->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        PL_TRY(step(s, graph->nodes[i], err));
        pl_replay_release_after(s->gold, graph->nodes[i]);
        if (phase == NULL) continue;
        PL_TRY(pl_progress_step(&s->sample->progress, phase, (int64_t)i + 1,
                                (int64_t)graph->n_nodes, err));
    }
    return PL_OK;
}

pl_status pl_advise_survey(pl_advising *x, pl_err *err) {
    pl_status st = PL_OK;
    for (size_t i = 0; i < x->n_samples && st == PL_OK; i++) {
        survey s = { .x = x, .sample = &x->of[i], .number = i };
        st = survey_init(&s, err);
        if (st == PL_OK) st = walk(&s, "advice: local error of each node", err);
        survey_release(&s);
    }
    return st;
}

static pl_status effect_of(const survey *plain, size_t unit, pl_err *err) {
    pl_advising *x = plain->x;
    survey one = { .x = x, .sample = plain->sample, .special = unit + 1 };
    const pl_graph *graph = x->base->graph;
    double effect = 0;
    pl_status st = survey_init(&one, err);
    if (st == PL_OK) st = walk(&one, NULL, err);
    for (size_t i = 0; i < graph->n_outputs && st == PL_OK; i++) {
        const pl_tensor *g = float_tensor(pl_replay_get(plain->gold, graph->outputs[i]));
        const pl_tensor *t = float_tensor(pl_replay_get(one.gold, graph->outputs[i]));
        pl_accumulators acc;
        if (g == NULL || t == NULL || !pl_tensor_same_shape(g, t)) continue;
        st = pl_accumulate(x->pool, t, g, &acc, err);
        if (st == PL_OK) effect = fmax(effect, relative(&acc));
    }
    if (st == PL_OK) x->units[unit].effect = effect;
    survey_release(&one);
    return st;
}

pl_status pl_advise_effects(pl_advising *x, const size_t *units, size_t n, pl_err *err) {
    pl_status st = PL_OK;
    int64_t n_done = 0;
    for (size_t k = 0; k < x->n_samples && st == PL_OK; k++) {
        survey plain = { .x = x, .sample = &x->of[k], .special = SIZE_MAX };
        bool ran = false;
        for (size_t i = 0; i < n && st == PL_OK; i++) {
            if (x->units[units[i]].sample != k) continue;
            if (!ran) st = survey_init(&plain, err);
            if (!ran && st == PL_OK) st = walk(&plain, NULL, err);
            ran = true;
            if (st == PL_OK) st = effect_of(&plain, units[i], err);
            if (st == PL_OK)
                st = pl_progress_step(&x->of[k].progress, "advice: effects", ++n_done, (int64_t)n,
                                      err);
        }
        survey_release(&plain);
    }
    return st;
}
