#include "flows/analyze/quant_mistakes.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/op.h"
#include "passes/keep_float.h"
#include "passes/quant_pairs.h"

enum { NODES_MAX = 256 };
/* Error that clipping alone may cause, relative to a value's size: the limit of int8 outputs. */
static const double CLIPPED = 0.1;
/* A weight is within half a step of its code; with room for other rounding modes. */
static const double STEPS = 1.0, LEFT = 0.75;

typedef struct look {
    pl_analysis *x;
    const pl_mixed *m;
    const pl_layer *layer;
    const pl_node *nodes[NODES_MAX];
    size_t n_nodes;
    pl_mistake *out;
} look;

static const pl_tensor *constant_of(const pl_value *given) {
    const pl_value *v = pl_value_behind(given);
    return v != NULL && v->producer == NULL && !v->is_input ? v->init : NULL;
}

static void gather(look *l, const pl_node *node) {
    if (node == NULL || l->n_nodes == NODES_MAX) return;
    for (size_t i = 0; i < l->n_nodes; i++)
        if (l->nodes[i] == node) return;
    l->nodes[l->n_nodes++] = node;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != NULL && !l->m->known[node->in[i]->id]) gather(l, node->in[i]->producer);
}

static pl_status found(look *l, const char *kind, const char *evidence, pl_err *err) {
    if (evidence == NULL) return pl_fail_memory(err, 1);
    if (l->out->kind == NULL) *l->out = (pl_mistake){ kind, evidence };
    return PL_OK;
}

/* ---- parameters of both ends ---- */

static bool differ(const pl_value *x, const pl_value *y, double *a, double *b) {
    const pl_tensor *p = constant_of(x), *q = constant_of(y);
    if (x == y || p == NULL || q == NULL || p->n_elements != q->n_elements) return false;
    for (int64_t i = 0; i < p->n_elements; i++) {
        *a = pl_tensor_get_f64(p, i);
        *b = pl_tensor_get_f64(q, i);
        if (fabs(*a - *b) > 1e-6 * fabs(*a)) return true;
    }
    return false;
}

static double zero_of(const pl_value *v) {
    const pl_tensor *t = constant_of(v);
    return t == NULL || t->n_elements == 0 ? 0 : pl_tensor_get_f64(t, 0);
}

/* Compares the parameters that codes were made with and those they are read with. */
static pl_status compare_ends(look *l, const pl_value *codes, const pl_value *scale,
                              const pl_value *zero, pl_err *err) {
    pl_value *made_scale = NULL, *made_zero = NULL;
    double a = 0, b = 0;
    if (codes->producer == NULL || !pl_codes_parameters(codes, &made_scale, &made_zero))
        return PL_OK;
    if (scale != NULL && differ(made_scale, scale, &a, &b))
        return found(l, "wrong scale",
                     pl_arena_printf(l->x->arena,
                                     "'%s' is quantised with scale %.6g and dequantised with %.6g",
                                     codes->name, a, b),
                     err);
    const bool fixed = (made_zero == NULL || constant_of(made_zero) != NULL) &&
                       (zero == NULL || constant_of(zero) != NULL);
    if (!fixed || zero_of(made_zero) == zero_of(zero)) return PL_OK;
    return found(l, "wrong zero point",
                 pl_arena_printf(l->x->arena,
                                 "'%s' is quantised with zero point %g and dequantised with %g",
                                 codes->name, zero_of(made_zero), zero_of(zero)),
                 err);
}

/* The input of an operator on codes whose port is called NAME_scale, NAME_zero_point. */
static const pl_value *port_of(const pl_node *node, int slot, const char *what) {
    const char *name = node->def->in[slot].name;
    const size_t n = strlen(name);
    for (uint32_t i = 0; i < node->n_in && node->def->in[i].name != NULL; i++) {
        const char *port = node->def->in[i].name;
        if (strncmp(port, name, n) == 0 && strcmp(port + n, what) == 0) return node->in[i];
    }
    return NULL;
}

/* ---- clipping ---- */

/* The data of the value in the run, else in the float model; NULL = neither is known. */
static pl_status data_of(look *l, const pl_value *v, pl_datum **out, pl_err *err) {
    const pl_analysis *x = l->x;
    const pl_run_data a = pl_side_run_data(&x->a), b = pl_side_run_data(&x->b);
    *out = NULL;
    for (size_t i = 0; i < x->model->graph->n_inputs; i++)
        if (x->model->graph->inputs[i] == v && x->in[i] != NULL) {
            *out = pl_datum_ref(x->in[i]);
            return PL_OK;
        }
    if (a.has(a.ctx, v)) return a.get(a.ctx, v, out, err);
    const pl_graph *floats = l->m->floats->graph;
    for (size_t i = 0; i < floats->n_values; i++) {
        const pl_value *f = floats->values[i];
        if (x->pairs.a[f->id] == v && b.has(b.ctx, f)) return b.get(b.ctx, f, out, err);
    }
    return PL_OK;
}

/* What a QuantizeLinear with these inputs clips; *out stays NULL when that is little. */
static pl_status say_clipping(pl_arena *arena, const pl_node *node, const pl_datum *d,
                              const char **out, pl_err *err) {
    const pl_value *scale = node->in[1], *zero = node->n_in > 2 ? node->in[2] : NULL;
    const pl_type *type = node->out[0]->type;
    const pl_dtype codes = type != NULL && type->kind == PL_TYPE_TENSOR ? type->dtype : PL_U8;
    const pl_tensor *s = constant_of(scale);
    if (d == NULL || d->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(d->tensor->dtype) ||
        s == NULL || s->n_elements != 1 || !pl_dtype_is_integer(codes))
        return PL_OK;
    const double step = pl_tensor_get_f64(s, 0), z = zero_of(zero);
    const double low = ((double)pl_dtype_int_min(codes) - z) * step;
    const double high = ((double)pl_dtype_int_max(codes) - z) * step;
    double beyond = 0, size = 0, least = (double)INFINITY, most = -(double)INFINITY;
    int64_t n = 0;
    for (int64_t i = 0; i < d->tensor->n_elements; i++) {
        const double v = pl_tensor_get_f64(d->tensor, i);
        if (!isfinite(v)) continue;
        const double over = v > high ? v - high : v < low ? low - v : 0;
        n += over > step / 2;
        beyond += over * over;
        size += v * v;
        least = fmin(least, v);
        most = fmax(most, v);
    }
    if (!(size > 0) || sqrt(beyond / size) <= CLIPPED) return PL_OK;
    *out = pl_arena_printf(arena,
                           "%lld of %lld elements of '%s' (%.4g to %.4g) lie beyond its codes "
                           "(%.4g to %.4g), which alone moves it by %.2g of its size",
                           (long long)n, (long long)d->tensor->n_elements, node->in[0]->name, least,
                           most, low, high, sqrt(beyond / size));
    return *out == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static bool has_fixed_scale(const pl_node *node) {
    return pl_node_is_quantize(node) && node->n_in >= 2 && node->in[0] != NULL &&
           (node->def->flags & PL_OP_FINDS_SCALE) == 0;
}

pl_status pl_quant_clip(void *ctx, const pl_value *value, const pl_datum *gold, pl_err *err) {
    pl_analysis *x = ctx;
    const pl_value *own = x->pairs.a[value->id];
    const pl_graph *graph = x->model->graph;
    if (x->reference_model == NULL || own == NULL || gold == NULL) return PL_OK;
    if (x->clipped == NULL) {
        const size_t n = (size_t)x->model->n_values + 1;
        x->clipped = pl_arena_array(x->arena, n, sizeof(char *));
        if (x->clipped == NULL) return pl_fail_memory(err, n);
        memset(x->clipped, 0, n * sizeof(char *));
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (has_fixed_scale(graph->nodes[i]) && graph->nodes[i]->in[0] == own)
            PL_TRY(say_clipping(x->arena, graph->nodes[i], gold, &x->clipped[own->id], err));
    return PL_OK;
}

/* ---- weights ---- */

typedef struct weights { /* codes of a constant */
    const char *name;
    const pl_tensor *q, *scale, *zero;
    int64_t channels, inner; /* along the axis of the scales; 1 when there is one scale */
} weights;

static double code_at(const weights *w, int64_t i, int64_t channel) {
    const double z = w->zero == NULL || w->zero->n_elements == 0 ? 0
                     : w->zero->n_elements == 1                  ? pl_tensor_get_f64(w->zero, 0)
                                                : pl_tensor_get_f64(w->zero, channel);
    return pl_tensor_get_f64(w->q, i) - z;
}

typedef struct fit { /* r = w / s - code, in steps */
    double n, sum, sum_sq, xx, xy, yy;
} fit;

static void fit_channel(const weights *w, const pl_tensor *t, bool turned, int64_t channel,
                        fit *f) {
    const double s = pl_tensor_get_f64(w->scale, w->scale->n_elements == 1 ? 0 : channel);
    const int64_t rows = turned ? w->q->dims[0] : 0, columns = turned ? w->q->dims[1] : 0;
    *f = (fit){ .n = 0 };
    for (int64_t i = 0; i < w->q->n_elements; i++) {
        if (i / w->inner % w->channels != channel) continue;
        const int64_t at = turned ? i % columns * rows + i / columns : i;
        const double x = code_at(w, i, channel), y = pl_tensor_get_f64(t, at) / s;
        f->n++;
        f->sum += y - x;
        f->sum_sq += (y - x) * (y - x);
        f->xx += x * x;
        f->xy += x * y;
        f->yy += y * y;
    }
}

static pl_status judge_fit(look *l, const weights *w, int64_t channel, const fit *f, pl_err *err) {
    const double mean = f->sum / f->n, rms = sqrt(f->sum_sq / f->n);
    const double spread = sqrt(fmax(0, f->sum_sq / f->n - mean * mean));
    const double c = f->xx > 0 ? f->xy / f->xx : 1;
    const double left = f->xx > 0 ? sqrt(fmax(0, f->yy - c * f->xy) / f->n) : rms;
    const double s = pl_tensor_get_f64(w->scale, w->scale->n_elements == 1 ? 0 : channel);
    if (f->n < 4 || rms <= STEPS) return PL_OK;
    if (spread <= LEFT && fabs(mean) > STEPS)
        return found(l, "wrong zero point",
                     pl_arena_printf(l->x->arena,
                                     "the codes of '%s' are %.3g off from the float weights",
                                     w->name, mean),
                     err);
    if (left <= fmax(LEFT, rms / 4) && fabs(c - 1) > 0.02)
        return found(l, "wrong scale",
                     pl_arena_printf(l->x->arena,
                                     "the scale of '%s' is %.4g, the float weights say %.4g",
                                     w->name, s, c * s),
                     err);
    return PL_OK;
}

/* The float constant that the layer is computed from, with the same dims or transposed. */
static const pl_tensor *float_weight(const look *l, const pl_value *v, const pl_tensor *q,
                                     bool *turned, int depth) {
    const pl_node *node = v->producer;
    for (uint32_t i = 0; node != NULL && i < node->n_in && depth < 8; i++) {
        const pl_value *in = node->in[i];
        const pl_tensor *t = constant_of(in);
        if (t != NULL && pl_dtype_is_float(t->dtype)) {
            *turned = t->rank == 2 && q->rank == 2 && !pl_tensor_same_shape(t, q);
            if (pl_tensor_same_shape(t, q)) return t;
            if (*turned && t->dims[0] == q->dims[1] && t->dims[1] == q->dims[0]) return t;
        } else if (in != NULL && l->m->counterpart[in->id] == NULL) {
            t = float_weight(l, in, q, turned, depth + 1);
            if (t != NULL) return t;
        }
    }
    return NULL;
}

static bool set_axis(weights *w, int64_t axis) {
    const int64_t n = w->scale->n_elements;
    w->channels = w->inner = 1;
    if (n == 1) return true;
    if (axis < 0) axis += w->q->rank;
    if (axis < 0 || axis >= w->q->rank || w->q->dims[axis] != n) return false;
    w->channels = n;
    for (int i = (int)axis + 1; i < w->q->rank; i++)
        w->inner *= w->q->dims[i];
    return true;
}

static pl_status look_at_weights(look *l, weights *w, int64_t axis, pl_err *err) {
    bool turned = false;
    const pl_tensor *t = float_weight(l, l->layer->value, w->q, &turned, 0);
    if (l->m->made || t == NULL || w->scale == NULL || !set_axis(w, axis)) return PL_OK;
    for (int64_t c = 0; c < w->channels && l->out->kind == NULL; c++) {
        fit f;
        fit_channel(w, t, turned, c, &f);
        if (f.n > 0) PL_TRY(judge_fit(l, w, c, &f, err));
    }
    return PL_OK;
}

/* ---- nodes ---- */

static pl_status look_at_quantise(look *l, const pl_node *node, pl_err *err) {
    pl_datum *d = NULL;
    const char *text = NULL;
    if (!has_fixed_scale(node)) return PL_OK;
    if (l->x->clipped != NULL) text = l->x->clipped[node->in[0]->id];
    if (text == NULL) {
        PL_TRY(data_of(l, node->in[0], &d, err));
        const pl_status st = say_clipping(l->x->arena, node, d, &text, err);
        pl_datum_unref(d);
        PL_TRY(st);
    }
    return text == NULL ? PL_OK : found(l, "clipped range", text, err);
}

static pl_status look_at_dequantise(look *l, const pl_node *node, pl_err *err) {
    const pl_value *zero = node->n_in > 2 ? node->in[2] : NULL;
    if (node->n_in < 2 || node->in[0] == NULL) return PL_OK;
    const pl_tensor *q = constant_of(node->in[0]);
    if (q == NULL) return compare_ends(l, node->in[0], node->in[1], zero, err);
    weights w = { node->in[0]->name, q, constant_of(node->in[1]), constant_of(zero), 1, 1 };
    return look_at_weights(l, &w,
                           pl_node_attr(node, "axis") == NULL ? 1 : pl_attr_int(node, "axis"), err);
}

static pl_status look_at_operator(look *l, const pl_node *node, pl_err *err) {
    for (int k = 0; k < 2 && node->def->plain->slots[k] >= 0; k++) {
        const int slot = node->def->plain->slots[k];
        const pl_value *codes = (uint32_t)slot < node->n_in ? node->in[slot] : NULL;
        if (codes == NULL) continue;
        const pl_value *scale = port_of(node, slot, "_scale"),
                       *zero = port_of(node, slot, "_zero_point");
        const pl_tensor *q = constant_of(codes);
        if (q == NULL) {
            PL_TRY(compare_ends(l, codes, scale, zero, err));
            continue;
        }
        weights w = { codes->name, q, constant_of(scale), constant_of(zero), 1, 1 };
        const int64_t axis = node->def->weights == PL_WEIGHTS_ROWS ? 0 : q->rank - 1;
        PL_TRY(look_at_weights(l, &w, axis, err));
    }
    return PL_OK;
}

pl_status pl_quant_mistake(pl_analysis *x, const pl_mixed *m, const pl_layer *layer,
                           pl_mistake *out, pl_err *err) {
    look l = { .x = x, .m = m, .layer = layer, .out = out };
    *out = (pl_mistake){ NULL, "" };
    gather(&l, layer->own->producer);
    for (size_t i = 0; i < l.n_nodes && out->kind == NULL; i++) {
        const pl_node *node = l.nodes[i];
        if (pl_node_is_quantize(node)) PL_TRY(look_at_quantise(&l, node, err));
        if (pl_node_is_dequantize(node)) PL_TRY(look_at_dequantise(&l, node, err));
        if (node->def != NULL && node->def->plain != NULL) PL_TRY(look_at_operator(&l, node, err));
    }
    return PL_OK;
}
