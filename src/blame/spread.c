/* Runs in fp64 with noise of the size of rounding, and how far they end from the one without. */
#include "blame/spread.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "interp/replay.h"
#include "ops/op.h"

/* Of its bound a correct value uses about half. */
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

/* The value moved by its noise stands in for it, with no bound: the next one gets its own only. */
static pl_status disturb(const noisy *n, pl_replay *r, const pl_value *value, pl_err *err) {
    const pl_tensor *t = tensor_of(pl_replay_get(r, value)), *bound = pl_replay_bound(r, value);
    pl_tensor *moved = NULL;
    pl_datum *d = NULL;
    pl_status st = PL_OK;
    if (t == NULL) return PL_OK;
    if (n->run == 0 || bound == NULL || t->dtype != PL_F64) {
        d = pl_datum_ref(pl_replay_get(r, value));
    } else {
        PL_TRY(pl_tensor_copy(t, &moved, err));
        double *x = moved->data;
        const double *e = bound->data;
        const uint64_t stream = n->run * ((uint64_t)n->model->n_values + 1) + value->id;
        for (int64_t i = 0; i < moved->n_elements; i++) {
            if (!(e[i] > 0) || !isfinite(e[i])) continue;
            x[i] += NOISE * e[i] * (2 * pl_rng_uniform_at(n->seed, stream, (uint64_t)i) - 1);
        }
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
static double distance(const pl_tensor *x, const pl_tensor *y) {
    double sum = 0;
    if (x == NULL || y == NULL || x->dtype == PL_STRING || !pl_tensor_same_shape(x, y) ||
        x->n_elements == 0) {
        return (double)NAN;
    }
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double off = pl_tensor_get_f64(x, i) - pl_tensor_get_f64(y, i);
        if (isfinite(off)) sum += off * off;
    }
    return sqrt(sum / (double)x->n_elements);
}

pl_status pl_rounding_spread(pl_model *model, pl_datum *const *in, const pl_arithmetic *arithmetic,
                             pl_pool *pool, uint64_t seed, const pl_progress *progress,
                             double *spread, pl_err *err) {
    const pl_graph *graph = model->graph;
    pl_replay *plain = NULL;
    pl_err trouble = PL_ERR_INIT;
    noisy n = { .model = model, .in = in, .arithmetic = arithmetic, .seed = seed };
    for (size_t k = 0; k < graph->n_outputs; k++)
        spread[k] = (double)NAN;
    pl_status st = run_noisy(&n, pool, &plain, &trouble);
    for (n.run = 1; st == PL_OK && n.run <= PL_SPREAD_RUNS; n.run++) {
        pl_replay *r = NULL;
        st = run_noisy(&n, pool, &r, &trouble);
        for (size_t k = 0; st == PL_OK && k < graph->n_outputs; k++) {
            const double off = distance(tensor_of(pl_replay_get(r, graph->outputs[k])),
                                        tensor_of(pl_replay_get(plain, graph->outputs[k])));
            if (!(off <= spread[k])) spread[k] = off;
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
