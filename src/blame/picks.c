/* Operators that select elements (ArgMax, TopK): two results are equally right if the selected
 * elements are. The input is the replay's, with its bound. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"

typedef struct keyed {
    double key;
    int64_t index;
} keyed;

typedef struct picks {
    const pl_f64 *x, *e; /* the input and its bound (NULL = exact) */
    const pl_tensor *a, *d;
    int64_t outer, n, k, inner; /* input [outer, n, inner], output [outer, k, inner] */
    keyed *places; /* in any order: those of a, then those of d at one place, sorted; else NULL */
    bool *taken;   /* n of them, false between uses */
} picks;

/* Indices along the axis must be in range and, for one position, distinct. */
static bool in_range(const picks *p, int64_t o, int64_t i) {
    bool good = true;
    int64_t n = 0;
    for (; n < p->k && good; n++) {
        const int64_t index = pl_tensor_get_i64(p->a, (o * p->k + n) * p->inner + i);
        good = index >= 0 && index < p->n && !p->taken[index];
        if (good) p->taken[index] = true;
    }
    if (!good) return false; /* no second check */
    for (int64_t t = 0; t < n; t++)
        p->taken[pl_tensor_get_i64(p->a, (o * p->k + t) * p->inner + i)] = false;
    return true;
}

static bool as_good(const picks *p, int64_t o, int64_t t, int64_t i) {
    const int64_t at = (o * p->k + t) * p->inner + i;
    const int64_t ia = p->places == NULL ? pl_tensor_get_i64(p->a, at) : p->places[t].index;
    const int64_t id = p->places == NULL ? pl_tensor_get_i64(p->d, at) : p->places[p->k + t].index;
    if (ia == id) return true;
    const int64_t xa = (o * p->n + ia) * p->inner + i, xd = (o * p->n + id) * p->inner + i;
    const double slack = p->e == NULL ? 0 : PL_Q_CULPRIT * (p->e[xa] + p->e[xd]);
    return p->x[xa] == p->x[xd] || fabs(p->x[xa] - p->x[xd]) <= slack ||
           (isnan(p->x[xa]) && isnan(p->x[xd]));
}

/* With NaN among them the order is undefined. */
static bool has_nan(const picks *p, int64_t o, int64_t i) {
    for (int64_t t = 0; t < p->n; t++)
        if (isnan(p->x[(o * p->n + t) * p->inner + i])) return true;
    return false;
}

/* True for selected values, which are compared as usual; indices are not. */
static bool is_values(const pl_value *value) {
    return pl_node_has_flag(value->producer, PL_OP_ANY_ORDER) && value == value->producer->out[0];
}

/* Does the output have the input's shape except for the axis (kept, dropped, or k long)? */
static bool layout(picks *p, const pl_tensor *x, int axis) {
    p->outer = p->inner = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < axis) p->outer *= x->dims[d];
        if (d > axis) p->inner *= x->dims[d];
    }
    p->n = x->dims[axis];
    const int64_t rest = p->outer * p->inner;
    if (rest == 0 || p->a->n_elements % rest != 0) return false;
    p->k = p->a->n_elements / rest;
    return p->k >= 1 && p->k <= p->n;
}

static bool in_any_order(const pl_value *value) {
    const pl_node *node = value->producer;
    return pl_node_has_flag(node, PL_OP_ANY_ORDER) && pl_attr_int(node, "sorted") == 0;
}

static int larger_first(const void *x, const void *y) {
    const keyed *p = x, *q = y;
    if (isnan(p->key) || isnan(q->key))
        return (isnan(p->key) != 0) - (isnan(q->key) != 0); /* NaN at the end */
    if (p->key != q->key) return p->key > q->key ? -1 : 1;
    return (p->index > q->index) - (p->index < q->index);
}

/* Sorts the selections of a, then those of d, at one position by the elements they point to. */
static void sort_indices(const picks *p, int64_t o, int64_t i) {
    for (int which = 0; which < 2; which++) {
        keyed *place = p->places + which * p->k;
        for (int64_t t = 0; t < p->k; t++) {
            const int64_t from = (o * p->k + t) * p->inner + i;
            const int64_t index = pl_tensor_get_i64(which == 0 ? p->a : p->d, from);
            place[t] = (keyed){ p->x[(o * p->n + index) * p->inner + i], index };
        }
        qsort(place, (size_t)p->k, sizeof(keyed), larger_first);
    }
}

/* Sorts k numbers that are `step` apart, largest first. */
static void sort_lane(double *v, int64_t k, int64_t step, keyed *place) {
    for (int64_t t = 0; t < k; t++)
        place[t] = (keyed){ v[t * step], 0 };
    qsort(place, (size_t)k, sizeof(keyed), larger_first);
    for (int64_t t = 0; t < k; t++)
        v[t * step] = place[t].key;
}

pl_status pl_picks_sort(const pl_value *value, const pl_tensor *t, pl_tensor **out, pl_err *err) {
    *out = NULL;
    if (!in_any_order(value) || value != value->producer->out[0] || t->rank == 0) return PL_OK;
    int64_t axis = pl_attr_int(value->producer, "axis"), inner = 1;
    if (axis < 0) axis += t->rank;
    if (axis < 0 || axis >= t->rank) return PL_OK;
    for (int d = (int)axis + 1; d < t->rank; d++)
        inner *= t->dims[d];
    const int64_t k = t->dims[axis];
    keyed *place = pl_calloc((size_t)k + 1, sizeof(keyed));
    if (place == NULL) return pl_fail_memory(err, (size_t)k);
    const pl_status st = pl_tensor_cast(t, PL_F64, out, err);
    for (int64_t at = 0; st == PL_OK && at < t->n_elements; at += k * inner)
        for (int64_t i = 0; i < inner; i++)
            sort_lane((double *)(*out)->data + at + i, k, inner, place);
    pl_free(place);
    return st;
}

pl_status pl_picks_agree(pl_blaming *j, const pl_value *value, const pl_tensor *a, bool *agree,
                         pl_err *err) {
    const pl_node *node = value->producer;
    const pl_datum *in =
        node->n_in == 0 || node->in[0] == NULL ? NULL : pl_replay_get(j->local, node->in[0]);
    const pl_datum *replay = pl_replay_get(j->local, value);
    *agree = false;
    if (in == NULL || in->kind != PL_TYPE_TENSOR || replay == NULL ||
        replay->kind != PL_TYPE_TENSOR || in->tensor->rank == 0 || is_values(value)) {
        return PL_OK;
    }
    pl_tensor *x = NULL;
    PL_TRY(pl_tensor_cast(in->tensor, PL_F64, &x, err));
    const pl_tensor *bound = pl_replay_bound(j->local, node->in[0]);
    picks p = {
        .x = x->data, .e = bound == NULL ? NULL : bound->data, .a = a, .d = replay->tensor
    };
    int64_t axis = pl_attr_int(node, "axis");
    if (axis < 0) axis += x->rank;
    bool good = axis >= 0 && axis < x->rank && layout(&p, x, (int)axis);
    if (good) p.taken = pl_calloc((size_t)p.n, sizeof(bool));
    if (good && in_any_order(value)) p.places = pl_calloc((size_t)p.k * 2, sizeof(keyed));
    if (good && (p.taken == NULL || (p.places == NULL && in_any_order(value)))) {
        pl_free(p.taken);
        pl_free(p.places);
        pl_tensor_unref(x);
        return pl_fail_memory(err, (size_t)p.n);
    }
    for (int64_t o = 0; good && o < p.outer; o++) {
        for (int64_t i = 0; good && i < p.inner; i++) {
            good = in_range(&p, o, i);
            if (has_nan(&p, o, i)) continue;
            if (good && p.places != NULL) sort_indices(&p, o, i);
            for (int64_t t = 0; good && t < p.k; t++)
                good = as_good(&p, o, t, i);
        }
    }
    pl_free(p.taken);
    pl_free(p.places);
    pl_tensor_unref(x);
    *agree = good;
    return PL_OK;
}
