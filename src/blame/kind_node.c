/* Kinds that need the node and not only its output: swapped inputs, sums in low precision, and the
 * interval of inputs in which an element-wise operator goes wrong. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "blame/blame_int.h"
#include "ops/op.h"

/* The node that computes the value from recorded ones; NULL when there are several. */
static const pl_node *only_node(const pl_segment *segment, const pl_value *value) {
    return segment->n_computing == 1 ? value->producer : NULL;
}

/* Input i of the node; a new reference, NULL when it is not available. */
static pl_datum *input_of(const pl_blaming *j, const pl_node *node, uint32_t i) {
    const pl_value *in = i < node->n_in ? node->in[i] : NULL;
    const pl_datum *there = in == NULL ? NULL : pl_replay_get(j->local, in);
    pl_datum *d = NULL;
    if (there != NULL) return there->kind == PL_TYPE_TENSOR ? pl_datum_ref(there) : NULL;
    if (in == NULL || in->init == NULL) return NULL;
    return pl_datum_of_tensor_take(pl_tensor_ref(in->init), &d, NULL) == PL_OK ? d : NULL;
}

/* ---- swapped inputs ---- */

/* Replays the node with its first two inputs swapped. */
static pl_status try_swapped(pl_blaming *j, const pl_node *node, pl_datum *const in[2],
                             const pl_value *value, const pl_tensor *a, bool *yes, pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic };
    pl_replay *r = NULL;
    pl_err trouble = PL_ERR_INIT;
    pl_local_error e;
    pl_status st = pl_replay_new(j->model, &options, &r, err);
    for (uint32_t i = 0; i < node->n_in && st == PL_OK; i++) {
        pl_datum *other = i < 2 ? pl_datum_ref(in[1 - i]) : input_of(j, node, i);
        if (other != NULL) st = pl_replay_put(r, node->in[i], other, NULL, err);
        pl_datum_unref(other);
    }
    if (st == PL_OK && pl_replay_node(r, node, &trouble) == PL_OK) {
        const pl_datum *d = pl_replay_get(r, value);
        if (d != NULL && d->kind == PL_TYPE_TENSOR) {
            st = pl_local_error_measure(j->options->pool, a, d->tensor, pl_replay_bound(r, value),
                                        pl_blaming_native(j, value, a), &e, err);
            *yes = st == PL_OK && e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_CULPRIT;
        }
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

static pl_status find_swapped(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                              const pl_tensor *a, bool *yes, pl_err *err) {
    const pl_node *node = only_node(segment, value);
    *yes = false;
    if (node == NULL || node->n_in < 2 || node->in[0] == NULL || node->in[1] == NULL ||
        node->in[0] == node->in[1] || (node->def->flags & (PL_OP_COMMUTATIVE | PL_OP_CONTROL)) != 0)
        return PL_OK;
    pl_datum *in[2] = { input_of(j, node, 0), input_of(j, node, 1) };
    pl_status st = PL_OK;
    if (in[0] != NULL && in[1] != NULL && in[0]->tensor->dtype == in[1]->tensor->dtype &&
        in[0]->tensor->rank == in[1]->tensor->rank) {
        st = try_swapped(j, node, in, value, a, yes, err);
    }
    pl_datum_unref(in[0]);
    pl_datum_unref(in[1]);
    return st;
}

/* ---- low-precision sums ---- */

static bool has_sums(const pl_segment *segment) {
    for (size_t i = 0; i < segment->n_nodes; i++)
        if (pl_node_has_flag(segment->nodes[i], PL_OP_REDUCTION | PL_OP_SUMS)) return true;
    return false;
}

/* Would accumulators of unit roundoff u explain the value? */
static pl_status explained_by(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                              const pl_tensor *a, double u, bool *yes, pl_err *err) {
    const pl_replay_options options = { .pool = j->options->pool,
                                        .seed = j->options->seed,
                                        .arithmetic = j->a->arithmetic,
                                        .u_acc = u };
    pl_replay *r = NULL;
    pl_local_error e;
    pl_err trouble = PL_ERR_INIT;
    pl_status st = pl_replay_new(j->model, &options, &r, err);
    if (st == PL_OK) st = pl_blaming_put_edges(j, r, segment, err);
    bool ran = st == PL_OK;
    for (size_t i = 0; i < segment->n_nodes && ran; i++)
        ran = pl_replay_node(r, segment->nodes[i], &trouble) == PL_OK;
    const pl_datum *d = ran ? pl_replay_get(r, value) : NULL;
    if (d != NULL && d->kind == PL_TYPE_TENSOR) {
        st = pl_local_error_measure(j->options->pool, a, d->tensor, pl_replay_bound(r, value),
                                    pl_blaming_native(j, value, a), &e, err);
        *yes = st == PL_OK && e.kind == PL_LOCAL_MEASURED && e.q <= PL_Q_UNUSUAL;
    }
    pl_replay_free(r);
    return trouble.status == PL_E_MEMORY ? pl_fail_memory(err, 0) : st;
}

/* Does every element fit into the type, as after an accumulator of that type? */
static bool all_fit(const pl_tensor *a, pl_dtype type) {
    for (int64_t i = 0; i < a->n_elements; i++) {
        const double x = pl_tensor_get_f64(a, i);
        double back = 0;
        unsigned char packed[8];
        pl_store_f64(type, &x, packed, 1);
        pl_load_f64(type, packed, &back, 1);
        if (back != x) return false;
    }
    return true;
}

static pl_status name_sums(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                           const pl_tensor *a, pl_kind_fit *kind, pl_err *err) {
    static const pl_dtype types[] = { PL_F16, PL_BF16 };
    const pl_dtype native = pl_blaming_native(j, value, a);
    bool yes = false;
    if (!pl_dtype_is_float(native) || !has_sums(segment)) return PL_OK;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && !yes; i++) {
        const double u = pl_dtype_unit_roundoff(types[i]);
        if (u < pl_dtype_unit_roundoff(native) || !all_fit(a, types[i])) continue;
        PL_TRY(explained_by(j, segment, value, a, u, &yes, err));
        if (!yes) continue;
        const char *text = pl_arena_printf(j->out->arena, "low precision accumulation: %s",
                                           pl_dtype_name(types[i]));
        *kind = (pl_kind_fit){ "low precision accumulation", kind->where, text ? text : "", NULL };
    }
    return PL_OK;
}

/* ---- the interval of inputs ---- */

typedef struct interval {
    double low, high;
    int64_t n_bad, n_inside; /* elements, and good ones between low and high */
} interval;

static bool find_interval(const double *x, const pl_tensor *a, const pl_tensor *d, const double *e,
                          pl_dtype native, interval *out) {
    *out = (interval){ (double)INFINITY, -(double)INFINITY, 0, 0 };
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < a->n_elements; i++) {
            const double p = pl_tensor_get_f64(a, i), q = pl_tensor_get_f64(d, i);
            const double slack = PL_Q_CULPRIT * pl_local_scale(q, e == NULL ? 0 : e[i], native);
            const bool bad = !(fabs(p - q) <= slack) && !(isnan(p) && isnan(q)) && p != q;
            if (pass == 0 && bad && !isnan(x[i])) {
                out->low = fmin(out->low, x[i]);
                out->high = fmax(out->high, x[i]);
                out->n_bad++;
            }
            if (pass == 1) out->n_inside += !bad && x[i] >= out->low && x[i] <= out->high;
        }
    }
    return out->n_bad >= 2 && out->n_bad < a->n_elements && 20 * out->n_inside <= out->n_bad;
}

/* Reported only if it separates the wrong elements from the right ones. */
static pl_status name_interval(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                               const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind,
                               pl_err *err) {
    const pl_node *node = only_node(segment, value);
    const pl_tensor *bound = pl_replay_bound(j->local, value);
    pl_tensor *x = NULL;
    interval found;
    if (node == NULL || (node->def->flags & PL_OP_ELEMENTWISE) == 0 ||
        !pl_dtype_is_float(pl_blaming_native(j, value, a))) {
        return PL_OK;
    }
    pl_datum *in = input_of(j, node, 0);
    if (in == NULL || !pl_tensor_same_shape(in->tensor, d) || in->tensor->dtype == PL_STRING ||
        a->dtype == PL_STRING || pl_dtype_class_of(in->tensor->dtype) == PL_CLASS_COMPLEX) {
        pl_datum_unref(in);
        return PL_OK;
    }
    const pl_status st = pl_tensor_cast(in->tensor, PL_F64, &x, err);
    if (st == PL_OK && find_interval(x->data, a, d, bound == NULL ? NULL : bound->data,
                                     pl_blaming_native(j, value, a), &found)) {
        const char *where = pl_arena_printf(j->out->arena, "%s; for inputs from %.6g to %.6g",
                                            kind->where, found.low, found.high);
        if (where != NULL) kind->where = where;
    }
    pl_tensor_unref(x);
    pl_datum_unref(in);
    return st;
}

pl_status pl_kind_of_node(pl_blaming *j, const pl_segment *segment, const pl_value *value,
                          const pl_tensor *a, const pl_tensor *d, pl_kind_fit *kind, pl_err *err) {
    bool swapped = false;
    PL_TRY(pl_kind_saturated(j, segment, value, a, d, kind, err));
    PL_TRY(pl_kind_rows(j, segment, value, a, kind, err));
    if (kind->remedy == NULL) PL_TRY(pl_kind_hardware(j, segment, value, a, kind, err));
    if (kind->remedy != NULL) return PL_OK;
    const char *before = kind->text;
    PL_TRY(pl_kind_attention(j, segment, value, a, d, kind, err));
    if (kind->text != before) return PL_OK;
    const bool open = strcmp(kind->kind, "other") == 0;
    if (open || strcmp(kind->kind, "linear") == 0 || strcmp(kind->kind, "permuted") == 0) {
        PL_TRY(find_swapped(j, segment, value, a, &swapped, err));
    }
    if (swapped) *kind = (pl_kind_fit){ "swapped inputs", kind->where, "swapped inputs", NULL };
    if (open && !swapped) PL_TRY(name_sums(j, segment, value, a, kind, err));
    return name_interval(j, segment, value, a, d, kind, err);
}
