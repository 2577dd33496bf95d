/* Strip weights: what is left of the original's values is replaced by a pattern of small numbers,
 * where the failure stays. Only when asked for: noise for noise is no simpler model. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/minify_int.h"

static int ascending(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static bool is_small_integer(double x) {
    return x >= -4 && x <= 4 && x <= (double)(int)x && x >= (double)(int)x;
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

/* Elements whose value occurs in the original weight of that name; small integers tell nothing. */
static pl_status count_left(const pl_mini *m, const pl_value *v, int64_t *out, pl_err *err) {
    const pl_value *before = pl_graph_find(m->original->graph, v->name);
    double *now = NULL, *then = NULL;
    *out = 0;
    if (before == NULL || before->init == NULL || !countable(v->init) || !countable(before->init)) {
        return PL_OK;
    }
    PL_TRY(as_doubles(v->init, &now, err));
    const pl_status st = as_doubles(before->init, &then, err);
    if (st == PL_OK) {
        const size_t n = (size_t)before->init->n_elements;
        qsort(then, n, sizeof(double), ascending);
        for (int64_t i = 0; i < v->init->n_elements; i++) {
            if (is_small_integer(now[i])) continue;
            *out += bsearch(&now[i], then, n, sizeof(double), ascending) != NULL;
        }
    }
    pl_free(now);
    pl_free(then);
    return st;
}

static bool is_weight(const pl_value *v) {
    return v->init != NULL && !v->is_input;
}

pl_status pl_mini_count_original(const pl_mini *m, const pl_mini_state *s, int64_t *out,
                                 pl_err *err) {
    const pl_graph *graph = s->model->graph;
    *out = 0;
    for (size_t i = 0; i < graph->n_values; i++) {
        int64_t n = 0;
        if (!is_weight(graph->values[i])) continue;
        PL_TRY(count_left(m, graph->values[i], &n, err));
        *out += n;
    }
    return PL_OK;
}

pl_status pl_mini_describe_remains(pl_mini *m, pl_err *err) {
    const pl_graph *graph = m->best->model->graph;
    pl_buf text = PL_BUF_INIT;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *v = graph->values[i];
        int64_t n = 0;
        if (!is_weight(v)) continue;
        const pl_status st = count_left(m, v, &n, err);
        if (st != PL_OK) {
            pl_buf_release(&text);
            return st;
        }
        if (n == 0) continue;
        pl_buf_printf(&text, "%s%lld of %lld values of '%s' are the original's",
                      text.n_bytes == 0 ? "" : ", ", (long long)n, (long long)v->init->n_elements,
                      v->name);
    }
    m->remains = pl_arena_strdup(m->arena, text.n_bytes == 0 ? "no value of them is left"
                                                             : pl_buf_str(&text));
    const bool ok = pl_buf_ok(&text) && m->remains != NULL;
    pl_buf_release(&text);
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

/* Items are the weights, in order; those without keep[] get the pattern. */
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
        int64_t left = 0;
        if (!is_weight(v)) continue;
        if (keep[item++]) continue;
        st = count_left(x->m, v, &left, err);
        if (st != PL_OK || left == 0) continue;
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
    int64_t left = 0;
    if (!m->options->strip_weights) return PL_OK;
    PL_TRY(pl_mini_count_original(m, from, &left, err));
    for (size_t i = 0; i < from->model->graph->n_values; i++)
        r.n += is_weight(from->model->graph->values[i]);
    return left == 0 || r.n == 0 ? PL_OK : pl_reduce_run(&r, out, err);
}

const pl_strategy pl_strategy_strip = {
    .name = "Strip weights", .stage = PL_STAGE_DETAIL, .goal = PL_GOAL_ORIGINAL, .run = run
};
