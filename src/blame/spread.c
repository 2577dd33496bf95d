/* Runs in fp64 with noise of the size of rounding errors, and their distance from the run without
 * noise. */
#include "blame/spread.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "interp/replay.h"
#include "ops/grad.h"
#include "ops/op.h"

/* A correct value typically uses half of its bound. */
#define NOISE 0.5

typedef struct noisy {
    pl_model *model;
    pl_datum *const *in;
    const pl_arithmetic *arithmetic;
    uint64_t seed;
    size_t run; /* 0 = without noise */
} noisy;

static const pl_tensor *tensor_of(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

/* A code at a tie may become its neighbour; its bound is 1 there and 0 elsewhere. */
static double move_code(pl_dtype dtype, double x, double bound, double random) {
    const double low = dtype == PL_I8 ? -128 : 0;
    const double to = x + (random < -0.5 ? -bound : random > 0.5 ? bound : 0);
    return to < low || to > low + 255 ? x : to;
}

static void move_elements(const noisy *n, uint64_t stream, const double *bound, pl_tensor *t) {
    const size_t n_bytes = pl_dtype_bytes(t->dtype);
    for (int64_t i = 0; i < t->n_elements; i++) {
        char *at = (char *)t->data + (size_t)i * n_bytes;
        double x = 0;
        if (!(bound[i] > 0) || !isfinite(bound[i])) continue;
        const double random = 2 * pl_rng_uniform_at(n->seed, stream, (uint64_t)i) - 1;
        pl_load_f64(t->dtype, at, &x, 1);
        x = t->dtype == PL_F64 ? x + NOISE * bound[i] * random
                               : move_code(t->dtype, x, floor(bound[i]), random);
        pl_store_f64(t->dtype, &x, at, 1);
    }
}

/* Replaces the value by one with noise and without a bound: the next value gets only its own
 * noise. */
static pl_status disturb(const noisy *n, pl_replay *r, const pl_value *value, pl_err *err) {
    const pl_tensor *t = tensor_of(pl_replay_get(r, value)), *bound = pl_replay_bound(r, value);
    pl_tensor *moved = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    if (t == NULL) return PL_OK;
    const bool codes = t->dtype == PL_U8 || t->dtype == PL_I8;
    if (n->run == 0 || bound == NULL || (t->dtype != PL_F64 && !codes)) {
        d = pl_datum_ref(pl_replay_get(r, value));
    } else {
        const uint64_t stream = n->run * ((uint64_t)n->model->n_values + 1) + value->id;
        PL_TRY(pl_tensor_copy(t, &moved, err));
        move_elements(n, stream, bound->data, moved);
        PL_TRY(pl_datum_of_tensor_take(moved, &d, err));
    }
    st = pl_replay_put(r, value, d, NULL, err);
    pl_datum_unref(d);
    return st;
}

static pl_status run_noisy(const noisy *n, pl_pool *pool, pl_replay **out, pl_err *err) {
    const pl_replay_options options = {
        .pool = pool, .seed = n->seed, .arithmetic = n->arithmetic, .no_bounds = n->run == 0
    };
    const pl_graph *graph = n->model->graph;
    PL_TRY(pl_replay_new(n->model, &options, out, err));
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (n->in[i] != NULL) PL_TRY(pl_replay_put(*out, graph->inputs[i], n->in[i], NULL, err));
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        PL_TRY(pl_replay_node(*out, node, err));
        for (uint32_t k = 0; k < node->n_out; k++)
            if (node->out[k] != NULL) PL_TRY(disturb(n, *out, node->out[k], err));
        pl_replay_release_after(*out, node);
    }
    return PL_OK;
}

/* NAN when they cannot be compared. */
static pl_spread distance(const pl_tensor *x, const pl_tensor *y) {
    pl_spread d = { .rms = (double)NAN };
    double sum = 0;
    if (x == NULL || y == NULL || x->dtype == PL_STRING || !pl_tensor_same_shape(x, y) ||
        x->n_elements == 0) {
        return d;
    }
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double off = pl_tensor_get_f64(x, i) - pl_tensor_get_f64(y, i);
        d.n_changed += !(off == 0);
        if (!isfinite(off)) continue;
        d.largest = fmax(d.largest, fabs(off));
        sum += off * off;
    }
    d.rms = sqrt(sum / (double)x->n_elements);
    return d;
}

static void widen(pl_spread *s, const pl_spread *d) {
    if (!(d->rms <= s->rms)) s->rms = d->rms;
    if (d->largest > s->largest) s->largest = d->largest;
    if (d->n_changed > s->n_changed) s->n_changed = d->n_changed;
}

/* A constant weight, also reshaped or in a node; NULL when the value is computed. */
static const pl_tensor *weight_of(const pl_value *v) {
    while (v != NULL && v->init == NULL && pl_node_has_flag(v->producer, PL_OP_VIEW)) {
        v = v->producer->in[0];
    }
    return v != NULL && v->init != NULL ? v->init : pl_g_known(v);
}

double pl_code_step(const pl_value *output) {
    const pl_value *v = output;
    while (v->producer != NULL && (v->producer->def->flags & PL_OP_VIEW) != 0 &&
           v->producer->in[0] != NULL) {
        v = v->producer->in[0];
    }
    const pl_node *node = v->producer;
    if (v->type != NULL && v->type->kind == PL_TYPE_TENSOR && pl_dtype_is_integer(v->type->dtype)) {
        return 1;
    }
    if (node == NULL || !pl_node_has_flag(node, PL_OP_DEQUANTIZE)) return 0;
    const pl_tensor *scale = weight_of(node->in[1]);
    return scale == NULL ? 0 : pl_tensor_max_abs(scale);
}

pl_status pl_rounding_spread(pl_model *model, pl_datum *const *in, const pl_arithmetic *arithmetic,
                             pl_pool *pool, uint64_t seed, const pl_progress *progress,
                             pl_spread *spread, pl_err *err) {
    const pl_graph *graph = model->graph;
    pl_replay *plain = NULL;
    pl_err trouble = PL_ERR_INIT;
    noisy n = { .model = model, .in = in, .arithmetic = arithmetic, .seed = seed };
    for (size_t k = 0; k < graph->n_outputs; k++)
        spread[k] = (pl_spread){ .rms = (double)NAN };
    pl_status st = run_noisy(&n, pool, &plain, &trouble);
    for (n.run = 1; st == PL_OK && n.run <= PL_SPREAD_RUNS; n.run++) {
        pl_replay *r = NULL;
        st = run_noisy(&n, pool, &r, &trouble);
        for (size_t k = 0; st == PL_OK && k < graph->n_outputs; k++) {
            const pl_spread off = distance(tensor_of(pl_replay_get(r, graph->outputs[k])),
                                           tensor_of(pl_replay_get(plain, graph->outputs[k])));
            widen(&spread[k], &off);
        }
        pl_replay_free(r);
        if (st == PL_OK)
            st = pl_progress_step(progress, "spread", (int64_t)n.run, PL_SPREAD_RUNS, &trouble);
    }
    pl_replay_free(plain);
    /* An operator that cannot be replayed leaves the rest unknown. */
    if (trouble.status == PL_E_CANCELLED) return pl_fail(err, trouble.status, "cancelled");
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : PL_OK;
}
