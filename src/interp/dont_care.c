/* Finds the elements that mean nothing: three replays side by side. */
#include "interp/dont_care.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "interp/replay.h"
#include "ops/undefined.h"

enum { TRIES = 2, MAX_PORTS = 64 };

typedef struct finder {
    pl_model *model;
    pl_datum *const *in;
    pl_replay *base, *other[TRIES];
    pl_dont_care *found;
    pl_err *err;
} finder;

static const pl_tensor *tensor_of(const pl_datum *d) {
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

static bool is_tainted(const finder *f, const pl_value *value) {
    return value != NULL && f->found->of[value->id].n > 0;
}

/* ---- may there be any? ---- */

static const pl_tensor *known(const finder *f, const pl_value *value) {
    if (value == NULL) return NULL;
    const pl_tensor *t = tensor_of(pl_replay_get(f->base, value));
    return t == NULL ? value->init : t;
}

/* Adds what the value is computed from to `needed`. False when that has bodies. */
static bool need(const finder *f, const pl_value *value, bool *needed, const pl_node **stack) {
    size_t n = 0;
    const pl_graph *graph = f->model->graph;
    if (value == NULL || value->producer == NULL || value->producer->graph != graph) return true;
    if (!needed[value->producer->index]) {
        needed[value->producer->index] = true;
        stack[n++] = value->producer;
    }
    while (n > 0) {
        const pl_node *node = stack[--n];
        if (pl_node_has_body(node)) return false;
        for (uint32_t i = 0; i < node->n_in; i++) {
            const pl_node *before = node->in[i] == NULL ? NULL : node->in[i]->producer;
            if (before == NULL || needed[before->index]) continue;
            needed[before->index] = true;
            stack[n++] = before;
        }
    }
    return true;
}

static bool asks_for(const pl_node *node, uint32_t i) {
    const pl_port *ports = node->def->in;
    for (uint32_t k = 0; ports[k].name != NULL; k++)
        if (k == i) return (ports[k].flags & (PL_PORT_LAST | PL_PORT_TOTAL | PL_PORT_OFFSETS)) != 0;
    return false;
}

static bool node_may(const finder *f, const pl_node *node) {
    const pl_tensor *in[MAX_PORTS] = { NULL };
    if (node->def->undefined == NULL) return false;
    if (node->n_in > MAX_PORTS) return true;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = known(f, node->in[i]);
    const pl_undefined c = {
        .node = node, .n_in = (int)node->n_in, .n_out = (int)node->n_out, .in = in
    };
    return node->def->undefined->may(&c);
}

static pl_status put_inputs(finder *f, pl_err *err) {
    const pl_graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (f->in[i] != NULL) PL_TRY(pl_replay_put(f->base, graph->inputs[i], f->in[i], NULL, err));
    return PL_OK;
}

static bool has_rule(const pl_graph *graph) {
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->def != NULL && graph->nodes[i]->def->undefined != NULL) return true;
    return false;
}

/* Runs what the lengths are computed from, and asks. */
static bool any_may(finder *f, bool *needed, const pl_node **stack) {
    const pl_graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (node->def == NULL || node->def->undefined == NULL) continue;
        for (uint32_t k = 0; k < node->n_in; k++)
            if (asks_for(node, k) && !need(f, node->in[k], needed, stack)) return true;
    }
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (needed[i] && pl_replay_node(f->base, graph->nodes[i], NULL) != PL_OK) return true;
    for (size_t i = 0; i < graph->n_nodes; i++)
        if (graph->nodes[i]->def != NULL && node_may(f, graph->nodes[i])) return true;
    return false;
}

/* ---- one node ---- */

static pl_status mark_own(finder *f, const pl_node *node, pl_ranges *of) {
    const pl_tensor *in[MAX_PORTS] = { NULL }, *out[MAX_PORTS] = { NULL };
    if (node->def->undefined == NULL || node->n_in > MAX_PORTS || node->n_out > MAX_PORTS)
        return PL_OK;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = known(f, node->in[i]);
    for (uint32_t i = 0; i < node->n_out; i++)
        out[i] = known(f, node->out[i]);
    pl_undefined c = { .node = node,
                       .n_in = (int)node->n_in,
                       .n_out = (int)node->n_out,
                       .in = in,
                       .out = out,
                       .of = of,
                       .err = f->err };
    return node->def->undefined->mark(&c);
}

/* 0 and -0 are one number: a mask makes either. */
static bool same_element(pl_dtype dtype, const char *p, const char *q, size_t size) {
    double x = 0, y = 0;
    if (memcmp(p, q, size) == 0) return true;
    if (!pl_dtype_is_float(dtype)) return false;
    pl_load_f64(dtype, p, &x, 1);
    pl_load_f64(dtype, q, &y, 1);
    return x == y || (isnan(x) && isnan(y));
}

/* Elements where x and y differ; all of them if they are not alike. */
static pl_status mark_changed(const pl_tensor *x, const pl_tensor *y, pl_ranges *of, pl_err *err) {
    pl_tensor *a = NULL, *b = NULL;
    pl_status st = PL_OK;
    if (x->dtype == PL_STRING) return PL_OK;
    if (!pl_tensor_same_shape(x, y) || x->dtype != y->dtype)
        return pl_ranges_add(of, 0, x->n_elements, err);
    const size_t size = pl_dtype_bytes(x->dtype);
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(x, &a, err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(y, &b, err));
    const char *p = a->data, *q = b->data;
    for (int64_t i = 0; i < x->n_elements && st == PL_OK; i++)
        if (!same_element(x->dtype, p + (size_t)i * size, q + (size_t)i * size, size))
            st = pl_ranges_add(of, i, i + 1, err);
done:
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    return st;
}

/* Runs the node on other data. *ran is false where that fails (an index that is out of range). */
static pl_status run_other(finder *f, const pl_node *node, pl_replay *r, bool *ran) {
    for (uint32_t i = 0; i < node->n_in; i++) {
        const pl_value *value = node->in[i];
        if (value == NULL || pl_replay_get(r, value) != NULL) continue;
        const pl_datum *d = pl_replay_get(f->base, value);
        if (d != NULL) PL_TRY(pl_replay_put(r, value, d, NULL, f->err));
    }
    pl_err trouble = PL_ERR_INIT;
    const pl_status st = pl_replay_node(r, node, &trouble);
    *ran = st == PL_OK;
    return st == PL_E_MEMORY ? pl_fail_memory(f->err, 1) : PL_OK;
}

/* The only input that is not constant, of an operator that works by element: what a Relu cuts to 0
 * in all three runs depends on its input nevertheless. */
static const pl_value *followed(const finder *f, const pl_node *node) {
    const pl_value *only = NULL;
    if ((node->def->flags & (PL_OP_ELEMENTWISE | PL_OP_VIEW)) == 0) return NULL;
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == NULL || node->in[i]->init != NULL) continue;
        if ((node->def->flags & PL_OP_VIEW) != 0 && i > 0) continue; /* the shape */
        if (only != NULL) return NULL;
        only = node->in[i];
    }
    return is_tainted(f, only) ? only : NULL;
}

/* Adds `more` to *to. */
static pl_status join_into(pl_ranges *to, const pl_ranges *more, pl_err *err) {
    pl_ranges joined = { NULL, 0, 0 };
    const pl_status st = pl_ranges_join(to, more, &joined, err);
    pl_ranges_release(to);
    *to = joined;
    return st;
}

static pl_status mark_following(finder *f, const pl_node *node, pl_ranges *of) {
    const pl_value *from = followed(f, node);
    const pl_tensor *x = from == NULL ? NULL : known(f, from), *y = NULL;
    if (node->n_out > 0) y = known(f, node->out[0]);
    if (x == NULL || y == NULL || x->n_elements != y->n_elements) return PL_OK;
    if ((node->def->flags & PL_OP_VIEW) == 0 && !pl_tensor_same_shape(x, y)) return PL_OK;
    return join_into(&of[0], &f->found->of[from->id], f->err);
}

static pl_status mark_depending(finder *f, const pl_node *node, pl_ranges *of) {
    bool ran = false;
    for (int k = 0; k < TRIES; k++) {
        PL_TRY(run_other(f, node, f->other[k], &ran));
        for (uint32_t i = 0; i < node->n_out && ran; i++) {
            pl_ranges changed = { NULL, 0, 0 };
            if (node->out[i] == NULL) continue;
            const pl_tensor *x = tensor_of(pl_replay_get(f->base, node->out[i]));
            const pl_tensor *y = tensor_of(pl_replay_get(f->other[k], node->out[i]));
            if (x == NULL || y == NULL) continue;
            pl_status st = mark_changed(x, y, &changed, f->err);
            if (st == PL_OK) st = join_into(&of[i], &changed, f->err);
            pl_ranges_release(&changed);
            PL_TRY(st);
        }
    }
    return mark_following(f, node, of);
}

/* ---- other numbers ---- */

/* Numbers of the size of the tensor's own, each its own way off. */
static pl_status poisoned(const pl_tensor *t, const pl_ranges *r, uint64_t seed, pl_tensor **out,
                          pl_err *err) {
    pl_tensor *copy = NULL;
    PL_TRY(pl_tensor_copy(t, &copy, err));
    const double most = pl_tensor_max_abs(copy), size = most > 0 ? most : 1;
    const size_t bytes = pl_dtype_bytes(copy->dtype);
    for (size_t k = 0; k < r->n && pl_dtype_is_float(copy->dtype); k++)
        for (int64_t i = r->at[2 * k]; i < r->at[2 * k + 1] && i < copy->n_elements; i++) {
            double x = (pl_rng_uniform_at(seed, 7, (uint64_t)i) - 0.5) * size;
            x += x < 0 ? -size / 8 : size / 8;
            pl_store_f64(copy->dtype, &x, (char *)copy->data + (size_t)i * bytes, 1);
        }
    *out = copy;
    return PL_OK;
}

static pl_status poison(finder *f, const pl_value *value, const pl_ranges *own) {
    for (int k = 0; k < TRIES; k++) {
        const pl_datum *d = pl_replay_get(f->other[k], value);
        if (d == NULL) d = pl_replay_get(f->base, value);
        pl_tensor *t = NULL;
        pl_datum *made = NULL;
        if (tensor_of(d) == NULL) continue;
        PL_TRY(poisoned(d->tensor, own, 1 + (uint64_t)k, &t, f->err));
        PL_TRY(pl_datum_of_tensor_take(t, &made, f->err));
        const pl_status st = pl_replay_put(f->other[k], value, made, NULL, f->err);
        pl_datum_unref(made);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status settle_output(finder *f, const pl_value *value, pl_ranges *own,
                               pl_ranges *depends) {
    if (own->n > 0) PL_TRY(poison(f, value, own));
    return pl_ranges_join(own, depends, &f->found->of[value->id], f->err);
}

static pl_status visit(finder *f, const pl_node *node) {
    bool tainted = false;
    for (uint32_t i = 0; i < node->n_in; i++)
        tainted = tainted || is_tainted(f, node->in[i]);
    if (!tainted && node->def->undefined == NULL) return PL_OK;
    pl_ranges *own = pl_calloc(2 * (size_t)node->n_out + 1, sizeof(*own));
    if (own == NULL) return pl_fail_memory(f->err, node->n_out);
    pl_ranges *depends = own + node->n_out;
    pl_status st = mark_own(f, node, own);
    if (st == PL_OK && tainted) st = mark_depending(f, node, depends);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (st == PL_OK && node->out[i] != NULL)
            st = settle_output(f, node->out[i], &own[i], &depends[i]);
        pl_ranges_release(&own[i]);
        pl_ranges_release(&depends[i]);
    }
    pl_free(own);
    return st;
}

/* ---- all ---- */

static pl_status run_all(finder *f) {
    const pl_graph *graph = f->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        pl_err trouble = PL_ERR_INIT;
        const pl_node *node = graph->nodes[i];
        const pl_status st = pl_replay_node(f->base, node, &trouble);
        if (st == PL_E_MEMORY) return pl_fail_memory(f->err, 1);
        if (st != PL_OK) return PL_OK; /* what follows is compared as it is */
        PL_TRY(visit(f, node));
        pl_replay_release_after(f->base, node);
        for (int k = 0; k < TRIES; k++)
            pl_replay_release_after(f->other[k], node);
    }
    return PL_OK;
}

static pl_status search(finder *f, int threads) {
    pl_pool *pool = pl_pool_new(threads);
    const pl_replay_options options = { .pool = pool, .native = true, .fast = true };
    pl_status st = pool == NULL ? pl_fail_memory(f->err, 1) : PL_OK;
    pl_replay_free(f->base);
    f->base = NULL;
    if (st == PL_OK) st = pl_replay_new(f->model, &options, &f->base, f->err);
    for (int k = 0; k < TRIES && st == PL_OK; k++)
        st = pl_replay_new(f->model, &options, &f->other[k], f->err);
    if (st == PL_OK) st = put_inputs(f, f->err);
    if (st == PL_OK) st = run_all(f);
    pl_replay_free(f->base);
    for (int k = 0; k < TRIES; k++)
        pl_replay_free(f->other[k]);
    f->base = NULL;
    pl_pool_free(pool);
    return st;
}

pl_status pl_dont_care_find(pl_model *model, pl_datum *const *in, int threads, pl_dont_care *out,
                            pl_err *err) {
    const pl_replay_options options = { .native = true, .fast = true };
    const size_t n_nodes = model->graph->n_nodes;
    *out = (pl_dont_care){ NULL, 0 };
    if (!has_rule(model->graph)) return PL_OK;
    finder f = { .model = model, .in = in, .found = out, .err = err };
    bool *needed = pl_calloc(n_nodes + 1, sizeof(*needed));
    const pl_node **stack = pl_calloc(n_nodes + 1, sizeof(*stack));
    pl_status st = needed == NULL || stack == NULL ? pl_fail_memory(err, n_nodes) : PL_OK;
    if (st == PL_OK) st = pl_replay_new(model, &options, &f.base, err);
    if (st == PL_OK) st = put_inputs(&f, err);
    if (st == PL_OK && any_may(&f, needed, stack)) {
        out->n = model->n_values;
        out->of = pl_calloc(out->n + 1, sizeof(*out->of));
        st = out->of == NULL ? pl_fail_memory(err, out->n) : search(&f, threads);
    }
    pl_free(needed);
    pl_free(stack);
    pl_replay_free(f.base);
    if (st != PL_OK) pl_dont_care_release(out);
    return st;
}

void pl_dont_care_release(pl_dont_care *d) {
    for (size_t i = 0; d->of != NULL && i < d->n; i++)
        pl_ranges_release(&d->of[i]);
    pl_free(d->of);
    *d = (pl_dont_care){ NULL, 0 };
}

const pl_ranges *pl_dont_care_of(const pl_dont_care *d, const pl_value *value) {
    if (d->of == NULL || value == NULL || value->id >= d->n || d->of[value->id].n == 0) return NULL;
    return &d->of[value->id];
}

pl_status pl_dont_care_hide(const pl_dont_care *d, const pl_value *value, pl_datum **datum,
                            pl_err *err) {
    const pl_ranges *r = pl_dont_care_of(d, value);
    pl_tensor *t = NULL;
    pl_datum *hidden = NULL;
    if (r == NULL || tensor_of(*datum) == NULL) return PL_OK;
    PL_TRY(pl_ranges_replace(r, (*datum)->tensor, NULL, &t, err));
    PL_TRY(pl_datum_of_tensor_take(t, &hidden, err));
    pl_datum_unref(*datum);
    *datum = hidden;
    return PL_OK;
}
