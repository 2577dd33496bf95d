/* Strip weights: replaces remaining values of the original by a pattern of small numbers, if the
 * failure stays. Only on request: replacing noise by noise does not make a model simpler. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_values.h"
#include "flows/minify/strategy/strategy.h"
#include "ops/op.h"

static int ascending(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Small integers and halves, which the pattern below consists of. */
static bool tells_nothing(double x) {
    return x >= -4 && x <= 4 && 2 * x <= (double)(int)(2 * x) && 2 * x >= (double)(int)(2 * x);
}

static pl_status as_doubles(const pl_tensor *t, double **out, pl_err *err) {
    pl_tensor *dense = NULL;
    double *x = pl_malloc(((size_t)t->n_elements + 1) * sizeof(*x));
    if (x == NULL) return pl_fail_memory(err, (size_t)t->n_elements);
    const pl_status st = pl_tensor_contiguous(t, &dense, err);
    if (st == PL_OK) pl_load_f64(t->dtype, dense->data, x, (size_t)t->n_elements);
    pl_tensor_unref(dense);
    if (st != PL_OK) pl_free(x);
    if (st == PL_OK) *out = x;
    return st;
}

static bool countable(const pl_tensor *t) {
    const pl_dtype_class class = pl_dtype_class_of(t->dtype);
    return class != PL_CLASS_STRING && class != PL_CLASS_COMPLEX;
}

/* Counts the values of the original's tensor of that name that are in t. */
static pl_status count_common(const pl_tensor *t, const pl_tensor *before, int64_t *out,
                              pl_err *err) {
    double *now = NULL, *then = NULL;
    if (!countable(before)) return PL_OK;
    PL_TRY(as_doubles(t, &now, err));
    const pl_status st = as_doubles(before, &then, err);
    if (st == PL_OK) {
        const size_t n = (size_t)before->n_elements;
        qsort(then, n, sizeof(double), ascending);
        for (int64_t i = 0; i < t->n_elements; i++) {
            if (tells_nothing(now[i])) continue;
            *out += bsearch(&now[i], then, n, sizeof(double), ascending) != NULL;
        }
    }
    pl_free(now);
    pl_free(then);
    return st;
}

static pl_status count_telling(const pl_tensor *t, int64_t *out, pl_err *err) {
    double *now = NULL;
    PL_TRY(as_doubles(t, &now, err));
    for (int64_t i = 0; i < t->n_elements; i++)
        *out += !tells_nothing(now[i]);
    pl_free(now);
    return PL_OK;
}

/* Elements of a constant that come from the original; small numbers do not count. What the original
 * computed from its weights (a Transpose, a DequantizeLinear), and everything in bodies, counts
 * fully. */
static pl_status count_left(const pl_mini *m, const char *name, const pl_tensor *t, int64_t *out,
                            pl_err *err) {
    const pl_value *before = pl_graph_find(m->original->graph, name);
    *out = 0;
    if (!countable(t)) return PL_OK;
    if (before == NULL) { /* in a body, or made by a strategy */
        return pl_dtype_is_float(t->dtype) || t->n_elements > 1 ? count_telling(t, out, err)
                                                                : PL_OK;
    }
    const pl_tensor *same = before->init;
    if (same == NULL && pl_node_has_flag(before->producer, PL_OP_CONSTANT))
        same = pl_attr_tensor(before->producer, "value");
    if (same != NULL) return count_common(t, same, out, err);
    return before->producer != NULL ? count_telling(t, out, err) : PL_OK;
}

static bool is_weight(const pl_value *v) {
    return v->init != NULL && !v->is_input;
}

/* What remains in everything that may hold weights: initializers, constants, bodies. */
typedef struct left {
    const pl_mini *m;
    int64_t n;
    pl_buf *text; /* NULL = only count */
} left;

static pl_status add_left(left *x, const char *name, const pl_tensor *t, pl_err *err) {
    int64_t n = 0;
    PL_TRY(count_left(x->m, name, t, &n, err));
    x->n += n;
    if (n == 0 || x->text == NULL) return PL_OK;
    pl_buf_printf(x->text, "%s%lld of %lld values of '%s' are original",
                  x->text->n_bytes == 0 ? "" : ", ", (long long)n, (long long)t->n_elements, name);
    return PL_OK;
}

static pl_status add_graph(void *ctx, pl_graph *graph, pl_err *err) {
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        if (is_weight(v)) PL_TRY(add_left(ctx, v->name, v->init, err));
    }
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_attrs; k++) {
            const pl_attr *a = &node->attrs[k];
            const bool holds = a->type == PL_ATTR_TENSOR && a->tensor != NULL;
            if (holds && node->n_out > 0 && node->out[0] != NULL)
                PL_TRY(add_left(ctx, node->out[0]->name, a->tensor, err));
        }
        PL_TRY(pl_node_each_body(node, add_graph, ctx, err));
    }
    return PL_OK;
}

/* With gradients, parameters are inputs with their values as data. */
static pl_status add_state(left *x, const pl_mini_state *s, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    PL_TRY(add_graph(x, s->model->graph, err));
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const char *name = graph->inputs[i]->name;
        const pl_value *before = pl_graph_find(x->m->original->graph, name);
        if (before == NULL || before->init == NULL || s->in[i] == NULL || s->in[i]->tensor == NULL)
            continue;
        PL_TRY(add_left(x, name, s->in[i]->tensor, err));
    }
    return PL_OK;
}

pl_status pl_mini_count_original(const pl_mini *m, const pl_mini_state *s, int64_t *out,
                                 pl_err *err) {
    left x = { .m = m };
    const pl_status st = add_state(&x, s, err);
    *out = x.n;
    return st;
}

pl_status pl_mini_describe_remains(pl_mini *m, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    left x = { .m = m, .text = &text };
    const pl_status st = add_state(&x, m->best, err);
    m->remains = pl_arena_strdup(m->arena, text.n_bytes == 0 ? "none left" : pl_buf_str(&text));
    const bool ok = pl_buf_ok(&text) && m->remains != NULL;
    pl_buf_release(&text);
    if (st != PL_OK) return st;
    return ok ? PL_OK : pl_fail_memory(err, 1);
}

/* ---- the strategy ---- */

static pl_status pattern_of(const pl_tensor *t, pl_tensor **out, pl_err *err) {
    const size_t n = (size_t)t->n_elements;
    double *x = pl_malloc((n + 1) * sizeof(*x));
    if (x == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < n; i++)
        x[i] = (double)((int)((i * 7 + i / 5) % 5) - 2) * 0.5;
    const pl_status st = pl_tensor_new(t->dtype, t->rank, t->dims, out, err);
    if (st == PL_OK) pl_store_f64(t->dtype, x, (*out)->data, n);
    pl_free(x);
    return st;
}

typedef struct strip {
    pl_mini *m;
    const pl_mini_state *from;
} strip;

/* The items are the weights, in order; those without keep[] get the pattern. */
static pl_status build(void *ctx, const bool *keep, pl_mini_state **out, pl_err *err) {
    const strip *x = ctx;
    pl_mini_state *s = NULL;
    size_t item = 0;
    pl_status st = PL_OK;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(x->from, &s, err));
    pl_graph *graph = s->model->graph;
    for (size_t i = 0; i < graph->n_values && st == PL_OK; i++) {
        pl_value *v = graph->values[i];
        pl_tensor *made = NULL;
        int64_t n_left = 0;
        if (!is_weight(v)) continue;
        if (keep[item++]) continue;
        st = count_left(x->m, v->name, v->init, &n_left, err);
        if (st != PL_OK || n_left == 0) continue;
        st = pattern_of(v->init, &made, err);
        if (st == PL_OK) st = pl_value_set_init(v, made, err);
        pl_tensor_unref(made);
    }
    if (st == PL_OK) {
        pl_mini_values_unref(s->values);
        s->values = NULL;
        *out = s;
        s = NULL;
    }
    pl_mini_state_free(s);
    return st;
}

static pl_status run(pl_mini *m, const pl_mini_state *from, pl_mini_state **out, pl_err *err) {
    strip x = { m, from };
    pl_reduce r = { .m = m, .build = build, .ctx = &x };
    int64_t n_left = 0;
    if (!m->options->strip_weights) return PL_OK;
    PL_TRY(pl_mini_count_original(m, from, &n_left, err));
    for (size_t i = 0; i < from->model->graph->n_values; i++)
        r.n += is_weight(from->model->graph->values[i]);
    return n_left == 0 || r.n == 0 ? PL_OK : pl_reduce_run(&r, out, err);
}

const pl_strategy pl_strategy_strip = {
    .name = "Strip weights", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_ORIGINAL, .run = run
};
