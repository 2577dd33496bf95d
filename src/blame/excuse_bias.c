/* A float bias between dequantised inputs: runtimes quantise it to int32 with the scale s_x s_w of
 * its layer, so it is off by up to half a step. If that scale is hidden in a segment that is to
 * blame, its value is unknown, and with it the step: then the bias is fitted to the run, channel by
 * channel. */
#include <math.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"

static const pl_node *producer_of(const pl_node *node, uint32_t i) {
    return i < node->n_in && node->in[i] != NULL ? node->in[i]->producer : NULL;
}

/* A node with a float bias between dequantised inputs: x, w from DequantizeLinear. */
bool pl_bias_is_quantised(const pl_node *node) {
    const pl_node *x = producer_of(node, 0), *w = producer_of(node, 1);
    if (node->n_in < 3 || node->in[2] == NULL || x == NULL || w == NULL) return false;
    if (pl_node_has_flag(producer_of(node, 2), PL_OP_DEQUANTIZE)) {
        return false; /* quantised in the model itself */
    }
    return pl_node_has_flag(x, PL_OP_DEQUANTIZE) && pl_node_has_flag(w, PL_OP_DEQUANTIZE);
}

/* The scale of a DequantizeLinear, from the replay or from the model; NULL when it is not
 * known. */
static const pl_tensor *scale_tensor(const pl_replay *r, const pl_node *dequantize) {
    const pl_value *scale = dequantize->n_in > 1 ? dequantize->in[1] : NULL;
    if (scale == NULL) return NULL;
    const pl_datum *d = pl_replay_get(r, scale);
    if (d != NULL && d->kind == PL_TYPE_TENSOR) return d->tensor;
    return scale->init;
}

/* Element i of a per-channel scale, or the single one; 0 when there is none. */
static double scale_at(const pl_tensor *scale, int64_t i, int64_t n) {
    if (scale == NULL || scale->n_elements == 0) return 0;
    return fabs(pl_tensor_get_f64(scale, scale->n_elements == n ? i : 0));
}

/* Scales outside the segment: computed from constants, or from the run's values. */
static pl_status fetch_scale(pl_blaming *j, pl_replay *r, const pl_node *dequantize, pl_err *err) {
    const pl_value *scale = dequantize->n_in > 1 ? dequantize->in[1] : NULL;
    pl_segment segment;
    if (scale == NULL || scale->init != NULL || pl_replay_get(r, scale) != NULL) return PL_OK;
    if (j->a->has(j->a->ctx, scale)) {
        const pl_segment alone = { .inputs = &scale, .n_inputs = 1 };
        return pl_blaming_put_edges(j, r, &alone, err);
    }
    PL_TRY(pl_segment_find(&j->segmenter, scale, j->out->arena, &segment, err));
    PL_TRY(pl_blaming_put_edges(j, r, &segment, err));
    for (size_t i = 0; i < segment.n_nodes; i++)
        PL_TRY(pl_replay_node(r, segment.nodes[i], err));
    return PL_OK;
}

/* b rounded to whole steps of s_x s_w, with a bound of one step where two are nearly equally
 * close. */
static pl_status quantise_bias(const pl_replay *r, const pl_node *node, const pl_tensor *bias,
                               pl_tensor **value, pl_tensor **bound, pl_err *err) {
    const pl_tensor *sx = scale_tensor(r, producer_of(node, 0));
    const pl_tensor *sw = scale_tensor(r, producer_of(node, 1));
    PL_TRY(pl_tensor_cast(bias, PL_F64, value, err));
    PL_TRY(pl_tensor_cast(bias, PL_F64, bound, err));
    double *b = (*value)->data, *e = (*bound)->data;
    const int64_t n = bias->n_elements;
    for (int64_t i = 0; i < n; i++) {
        const double step = scale_at(sx, 0, 1) * scale_at(sw, i, n), steps = b[i] / step;
        e[i] = 0;
        if (!(step > 0) || !(fabs(steps) < 0x1p31)) continue;
        const double away = 0.5 - fabs(steps - nearbyint(steps)), unsure = 0x1p-22 * fabs(steps);
        b[i] = nearbyint(steps) * step;
        e[i] = 0x1p-23 * fabs(b[i]) + (away <= unsure ? step : 0);
    }
    return PL_OK;
}

/* A bias that the runtime quantised to int32 with scale s_x s_w: its value is known. Called when
 * all inputs of the node are available. */
pl_status pl_bias_round(pl_blaming *j, pl_replay *r, const pl_node *node, pl_err *err) {
    const pl_value *bias = node->in[2];
    PL_TRY(fetch_scale(j, r, producer_of(node, 0), err));
    PL_TRY(fetch_scale(j, r, producer_of(node, 1), err));
    const pl_datum *there = pl_replay_get(r, bias);
    const pl_tensor *from = there == NULL                   ? bias->init
                            : there->kind == PL_TYPE_TENSOR ? there->tensor
                                                            : NULL;
    pl_tensor *value = NULL, *bound = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    if (from == NULL) return PL_OK;
    PL_TRY_GOTO(done, st, quantise_bias(r, node, from, &value, &bound, err));
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(pl_tensor_ref(value), &d, err));
    st = pl_replay_put(r, bias, d, bound, err);
done:
    pl_datum_unref(d);
    pl_tensor_unref(value);
    pl_tensor_unref(bound);
    return st;
}

/* ---- a bias rounded with an unknown step ---- */

static bool is_to_blame(const pl_blaming *j, const pl_node *node) {
    return node != NULL && j->blamed[node->index];
}

/* Is the scale of this DequantizeLinear hidden, and it or what computes it to blame? */
static bool has_bad_scale(const pl_blaming *j, const pl_node *dequantize) {
    const pl_value *scale = dequantize->n_in > 1 ? dequantize->in[1] : NULL;
    if (scale == NULL || j->a->has(j->a->ctx, scale)) return false;
    return is_to_blame(j, dequantize) || is_to_blame(j, scale->producer);
}

const pl_node *pl_bias_misled(const pl_blaming *j, const pl_segment *segment) {
    for (size_t i = 0; i < segment->n_nodes; i++) {
        const pl_node *node = segment->nodes[i];
        if (!pl_bias_is_quantised(node) || node->in[2]->init == NULL) continue;
        if (has_bad_scale(j, producer_of(node, 0)) || has_bad_scale(j, producer_of(node, 1)))
            return node;
    }
    return NULL;
}

static pl_status replay_with(pl_blaming *j, const pl_segment *segment, const pl_node *node,
                             const pl_tensor *bias, pl_replay **out, pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic };
    pl_datum *d = NULL;
    PL_TRY(pl_replay_new(j->model, &options, out, err));
    PL_TRY(pl_blaming_put_edges(j, *out, segment, err));
    PL_TRY(pl_datum_of_tensor_take(pl_tensor_ref((pl_tensor *)(uintptr_t)bias), &d, err));
    const pl_status st = pl_replay_put(*out, node->in[2], d, NULL, err);
    pl_datum_unref(d);
    PL_TRY(st);
    for (size_t i = 0; i < segment->n_nodes; i++)
        PL_TRY(pl_replay_node(*out, segment->nodes[i], err));
    return PL_OK;
}

/* The mean of a - d over the elements of a channel (axis 1) that no Relu has clipped on either
 * side; over those that differ if there are none. A single element fits any bias and so proves
 * none: 0. */
static double offset_of(const pl_tensor *a, const pl_tensor *d, int64_t channel) {
    const int64_t n_channels = a->dims[1], each = a->n_elements / (a->dims[0] * n_channels);
    double open = 0, other = 0, n_open = 0, n_other = 0;
    for (int64_t n = 0; n < a->dims[0]; n++) {
        for (int64_t i = 0; i < each; i++) {
            const int64_t at = (n * n_channels + channel) * each + i;
            const double x = pl_tensor_get_f64(a, at), y = pl_tensor_get_f64(d, at);
            if (x != 0 && y != 0) {
                open += x - y;
                n_open++;
            } else if (x != y) {
                other += x - y;
                n_other++;
            }
        }
    }
    if (n_open + n_other < 2) return 0;
    return n_open > 0 ? open / n_open : other / n_other;
}

/* Moves each element of the bias by the offset of its channel, to at most |b| from the model's b:
 * rounding to whole steps never moves it further. */
static void move_bias(const pl_tensor *a, const pl_tensor *d, const pl_tensor *model,
                      pl_tensor *bias) {
    double *b = bias->data;
    for (int64_t c = 0; c < bias->n_elements; c++) {
        const double own = pl_tensor_get_f64(model, c), far = fabs(own) * (1 + 0x1p-20);
        const double moved = b[c] + offset_of(a, d, c);
        b[c] = isfinite(moved) ? fmin(fmax(moved, own - far), own + far) : own;
    }
}

pl_status pl_bias_replay_fitted(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                                const pl_tensor *a, pl_replay **out, pl_err *err) {
    enum { ROUNDS = 4 }; /* a Relu hides a part of the offset at first */
    const pl_node *node = pl_bias_misled(j, segment);
    const pl_tensor *model = node->in[2]->init;
    pl_tensor *bias = NULL;
    pl_status st = pl_tensor_cast(model, PL_F64, &bias, err);
    for (int k = 0; k <= ROUNDS && st == PL_OK; k++) {
        pl_replay_free(*out);
        *out = NULL;
        st = replay_with(j, segment, node, bias, out, err);
        const pl_datum *d = st == PL_OK ? pl_replay_get(*out, value) : NULL;
        if (k == ROUNDS || d == NULL) break;
        if (d->kind != PL_TYPE_TENSOR || !pl_tensor_same_shape(a, d->tensor) || a->rank < 2 ||
            a->dims[1] != bias->n_elements || a->n_elements == 0)
            break; /* no channels to fit */
        move_bias(a, d->tensor, model, bias);
    }
    pl_tensor_unref(bias);
    return st;
}
