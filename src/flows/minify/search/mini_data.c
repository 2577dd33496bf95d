/* Tensors of a state: finding, slicing, simplifying them. */
#include "flows/minify/search/mini_data.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "flows/minify/search/mini_reduce.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_values.h"

pl_status pl_mini_slots(const pl_mini_state *s, pl_slot **out, size_t *n_out, pl_err *err) {
    const pl_graph *graph = s->model->graph;
    size_t n = 0;
    pl_slot *slots = pl_calloc(graph->n_inputs + graph->n_values + 1, sizeof(*slots));
    if (slots == NULL) return pl_fail_memory(err, graph->n_values);
    for (size_t i = 0; i < graph->n_inputs; i++)
        slots[n++] = (pl_slot){ graph->inputs[i], i };
    for (size_t i = 0; i < graph->n_values; i++) {
        pl_value *v = graph->values[i];
        if (v->init != NULL && !v->is_input) slots[n++] = (pl_slot){ v, SIZE_MAX };
    }
    *out = slots;
    *n_out = n;
    return PL_OK;
}

pl_tensor *pl_slot_tensor(const pl_mini_state *s, const pl_slot *slot) {
    if (slot->input == SIZE_MAX) return slot->value->init;
    const pl_datum *d = s->in[slot->input];
    return d != NULL && d->kind == PL_TYPE_TENSOR ? d->tensor : NULL;
}

pl_status pl_slot_set_take(pl_mini_state *s, const pl_slot *slot, pl_tensor *t, pl_err *err) {
    pl_dim dims[PL_RANK_MAX];
    pl_status st = PL_OK;
    for (int i = 0; i < t->rank; i++)
        dims[i] = pl_dim_of(t->dims[i]);
    if (slot->value->type != NULL || slot->input != SIZE_MAX) {
        slot->value->type = pl_type_tensor(s->model->arena, t->dtype, t->rank, dims);
        if (slot->value->type == NULL) st = pl_fail_memory(err, sizeof(pl_type));
    }
    if (st == PL_OK && slot->input == SIZE_MAX) {
        st = pl_value_set_init(slot->value, t, err);
        pl_tensor_unref(t);
        return st;
    }
    pl_datum *d = NULL;
    if (st != PL_OK) {
        pl_tensor_unref(t);
        return st;
    }
    PL_TRY(pl_datum_of_tensor_take(t, &d, err));
    pl_datum_unref(s->in[slot->input]);
    s->in[slot->input] = d;
    return PL_OK;
}

pl_status pl_mini_slice(const pl_tensor *t, int axis, int64_t begin, int64_t count, pl_tensor **out,
                        pl_err *err) {
    pl_tensor *view = NULL;
    int64_t dims[PL_RANK_MAX] = { 0 };
    memcpy(dims, t->dims, sizeof(dims));
    dims[axis] = count;
    PL_TRY(pl_tensor_view(t, t->rank, dims, t->strides, begin * t->strides[axis], &view, err));
    /* A copy, so that the rest can be freed. */
    const pl_status st = pl_tensor_copy(view, out, err);
    pl_tensor_unref(view);
    return st;
}

/* ---- simple elements ---- */

static double simple_of(double x, double first, pl_simple how) {
    switch (how) {
    case PL_SIMPLE_ONE: return 1;
    case PL_SIMPLE_ZERO: return 0;
    case PL_SIMPLE_FIRST: return first;
    case PL_SIMPLE_ROUND: return x > 4 ? 4 : x < -4 ? -4 : isnan(x) ? x : rint(x);
    }
    return x;
}

pl_status pl_mini_simplify(const pl_tensor *t, pl_simple how, pl_tensor **out, pl_err *err) {
    pl_tensor *dense = NULL, *made = NULL;
    const pl_dtype_class class = pl_dtype_class_of(t->dtype);
    *out = NULL;
    if (t->n_elements == 0 || class == PL_CLASS_STRING || class == PL_CLASS_COMPLEX) return PL_OK;
    PL_TRY(pl_tensor_contiguous(t, &dense, err));
    const size_t n = (size_t)t->n_elements;
    double *x = pl_malloc(n * sizeof(*x));
    pl_status st = x == NULL ? pl_fail_memory(err, n * sizeof(*x))
                             : pl_tensor_new(t->dtype, t->rank, t->dims, &made, err);
    if (st == PL_OK) {
        pl_load_f64(t->dtype, dense->data, x, n);
        const double first = x[0];
        for (size_t i = 0; i < n; i++)
            x[i] = simple_of(x[i], first, how);
        pl_store_f64(t->dtype, x, made->data, n);
        if (pl_tensor_identical(made, dense)) {
            pl_tensor_unref(made);
            made = NULL;
        }
        *out = made;
    }
    pl_free(x);
    pl_tensor_unref(dense);
    return st;
}

static bool wanted(const pl_slot *slot, bool weights) {
    return (slot->input == SIZE_MAX) == weights;
}

/* Applies a rule to the slots in `touch`; *changed tells whether anything changed. */
static pl_status apply(const pl_mini_state *from, const bool *touch, bool weights, pl_simple how,
                       pl_mini_state **out, pl_err *err) {
    pl_slot *slots = NULL;
    size_t n = 0, item = 0;
    bool changed = false;
    pl_mini_state *s = NULL;
    *out = NULL;
    PL_TRY(pl_mini_state_copy(from, &s, err));
    pl_status st = pl_mini_slots(s, &slots, &n, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        const pl_tensor *t = pl_slot_tensor(s, &slots[i]);
        pl_tensor *made = NULL;
        if (!wanted(&slots[i], weights)) continue;
        if (!touch[item++] || t == NULL) continue;
        st = pl_mini_simplify(t, how, &made, err);
        if (st != PL_OK || made == NULL) continue;
        changed = true;
        st = pl_slot_set_take(s, &slots[i], made, err);
    }
    pl_free(slots);
    if (st == PL_OK && changed) {
        pl_mini_values_unref(s->values);
        s->values = NULL;
        *out = s;
        s = NULL;
    }
    pl_mini_state_free(s);
    return st;
}

static size_t count_slots(const pl_mini_state *s, bool weights) {
    const pl_graph *graph = s->model->graph;
    size_t n = 0;
    if (!weights) return graph->n_inputs;
    for (size_t i = 0; i < graph->n_values; i++)
        n += graph->values[i]->init != NULL && !graph->values[i]->is_input;
    return n;
}

/* Is the candidate simpler? A rule that only replaces noise by noise is not worth a query. */
static bool simpler(const pl_mini_state *from, const pl_mini_state *candidate) {
    return pl_mini_count_complex(candidate) < pl_mini_count_complex(from);
}

static pl_status try_rule(pl_mini *m, const pl_mini_state *from, const bool *touch, bool weights,
                          pl_simple how, pl_mini_state **best, bool *fails, pl_err *err) {
    pl_mini_state *candidate = NULL;
    *fails = false;
    PL_TRY(apply(from, touch, weights, how, &candidate, err));
    if (candidate == NULL) return PL_OK;
    if (!simpler(from, candidate)) {
        pl_mini_state_free(candidate);
        return PL_OK;
    }
    return pl_mini_try_take(m, candidate, best, fails, err);
}

pl_status pl_mini_simplify_slots(pl_mini *m, const pl_mini_state *from, bool weights,
                                 pl_mini_state **out, pl_err *err) {
    static const pl_simple rules[] = { PL_SIMPLE_ONE, PL_SIMPLE_FIRST, PL_SIMPLE_ROUND,
                                       PL_SIMPLE_ZERO };
    enum { N_RULES = sizeof(rules) / sizeof(rules[0]) };
    const size_t n = count_slots(from, weights);
    bool fails = false;
    pl_status st = PL_OK;
    bool *touch = pl_calloc(n + 1, sizeof(bool));
    if (touch == NULL) return pl_fail_memory(err, n);
    memset(touch, 1, n);
    for (int r = 0; r < N_RULES && n > 0 && !fails && st == PL_OK; r++)
        st = try_rule(m, from, touch, weights, rules[r], out, &fails, err);
    /* Simplified together they may not be as simple as each one could be. */
    for (size_t i = 0; i < n && n > 1 && st == PL_OK; i++) {
        bool one = false;
        memset(touch, 0, n);
        touch[i] = true;
        for (int r = 0; r < N_RULES && !one && st == PL_OK; r++) {
            pl_mini_state *best = NULL;
            st =
                try_rule(m, *out == NULL ? from : *out, touch, weights, rules[r], &best, &one, err);
            if (best == NULL) continue;
            pl_mini_state_free(*out);
            *out = best;
        }
    }
    pl_free(touch);
    return st;
}
