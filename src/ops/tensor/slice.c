/* Slice in all its versions, and CenterCropPad. */
#include <string.h>

#include "base/size.h"
#include "ops/lib/content.h"
#include "ops/lib/move.h"
#include "ops/tensor/transform_rules.h"

/* ---- Slice ---- */

/* Start or end of a slice along one axis; an unknown one may still be a symbol. */
typedef struct bound {
    bool known;
    pl_dim at;
} bound;
typedef struct cut {
    bound start, end, step;
} cut;
typedef struct cuts {
    bool any_axis; /* which axes are sliced is unknown: every dim is unknown */
    bool is_cut[PL_RANK_MAX];
    cut at[PL_RANK_MAX];
} cuts;

/* Clamps as NumPy does. `dim` is known. Returns the length; *start and *step are then safe to
 * use. */
static int64_t clamp_cut(int64_t dim, int64_t *start, int64_t end, int64_t *step) {
    int64_t from = *start < 0 ? *start + dim : *start;
    int64_t to = end < 0 ? end + dim : end;
    int64_t n;
    if (*step > 0) {
        from = pl_i64_min(pl_i64_max(from, 0), dim);
        to = pl_i64_min(pl_i64_max(to, 0), dim);
        n = to > from ? (to - from - 1) / *step + 1 : 0;
    } else {
        from = pl_i64_min(pl_i64_max(from, -1), dim - 1);
        to = pl_i64_min(pl_i64_max(to, -1), dim - 1);
        const uint64_t back = 0 - (uint64_t)*step; /* INT64_MIN cannot be negated */
        n = from > to ? (int64_t)((uint64_t)(from - to - 1) / back) + 1 : 0;
    }
    if (n <= 1) *step = 1;
    *start = n == 0 ? 0 : from;
    return n;
}

static bound bound_of(const pl_content *content, size_t k, size_t n, int64_t otherwise) {
    if (content == NULL) return (bound){ otherwise >= 0, pl_dim_of(otherwise) };
    if (k >= n) return (bound){ false, PL_DIM_UNKNOWN };
    return (bound){ content->known[k], content->dims[k] };
}

/* Slice-1: everything in attributes. */
static pl_status cuts_from_attrs(pl_infer *c, int rank, cuts *out) {
    size_t n_starts, n_ends;
    const int64_t *starts = pl_attr_ints(c->node, "starts", &n_starts);
    const int64_t *ends = pl_attr_ints(c->node, "ends", &n_ends);
    pl_axes axes;
    PL_TRY(pl_axes_read(c, "axes", -1, rank, true, &axes));
    const size_t n = axes.present ? axes.n : n_starts;
    if (n_starts != n || n_ends != n || n > (size_t)rank) {
        return pl_infer_fail(c, "%zu starts, %zu ends, %zu axes", n_starts, n_ends, n);
    }
    for (size_t k = 0; k < n; k++) {
        const int d = axes.present ? axes.axis[k] : (int)k;
        out->is_cut[d] = true;
        out->at[d] = (cut){ { true, { starts[k], NULL } },
                            { true, { ends[k], NULL } },
                            { true, { 1, NULL } } };
    }
    return PL_OK;
}

static pl_status check_counts(const pl_infer *c, const pl_content *const *lists, size_t n) {
    static const char *const names[] = { "starts", "ends", "axes", "steps" };
    for (int i = 0; i < 4; i++) {
        if (lists[i] != NULL && lists[i]->n != n) {
            return pl_infer_fail(c, "%s has %zu elements, expected %zu like starts", names[i],
                                 lists[i]->n, n);
        }
        if (lists[i] == NULL && c->concrete && pl_infer_has(c, 1 + i)) {
            return pl_infer_fail(c, "%s is not a list of integers", names[i]);
        }
    }
    return PL_OK;
}

static pl_status cuts_from_inputs(pl_infer *c, int rank, cuts *out) {
    const pl_content *lists[4];
    for (int i = 0; i < 4; i++)
        lists[i] = pl_content_of(c, 1 + i);
    const pl_content *longest = NULL;
    for (int i = 3; i >= 0; i--) {
        if (lists[i] != NULL) longest = lists[i];
    }
    out->any_axis = longest == NULL || (pl_infer_has(c, 3) && lists[2] == NULL);
    if (longest == NULL) return c->concrete ? pl_infer_fail(c, "no starts") : PL_OK;
    const size_t n = longest->n;
    PL_TRY(check_counts(c, lists, n));
    if (out->any_axis) return PL_OK;
    pl_axes axes;
    PL_TRY(pl_axes_read(c, NULL, 3, rank, true, &axes));
    out->any_axis = !axes.known;
    if (!axes.known) return PL_OK;
    if (n > (size_t)rank) return pl_infer_fail(c, "%zu starts for rank %d", n, rank);
    for (size_t k = 0; k < n; k++) {
        const int d = axes.present ? axes.axis[k] : (int)k;
        out->is_cut[d] = true;
        out->at[d].start = bound_of(lists[0], k, n, -1);
        out->at[d].end = bound_of(lists[1], k, n, -1);
        out->at[d].step =
            pl_infer_has(c, 4) ? bound_of(lists[3], k, n, -1) : (bound){ true, pl_dim_of(1) };
        if (out->at[d].step.known && out->at[d].step.at.value == 0) {
            return pl_infer_fail(c, "the step of axis %d is 0", d);
        }
    }
    return PL_OK;
}

static pl_status cuts_read(pl_infer *c, int rank, cuts *out) {
    memset(out, 0, sizeof(*out));
    const bool by_attr = pl_node_attr(c->node, "starts") != NULL;
    return by_attr ? cuts_from_attrs(c, rank, out) : cuts_from_inputs(c, rank, out);
}

static pl_dim cut_dim(pl_dim dim, const cut *at) {
    const bool whole_step = at->step.known && at->step.at.value == 1;
    const bool from_0 = at->start.known && at->start.at.value == 0;
    if (at->start.known && at->end.known && at->step.known && pl_dim_known(dim)) {
        int64_t start = at->start.at.value, step = at->step.at.value;
        return pl_dim_of(clamp_cut(dim.value, &start, at->end.at.value, &step));
    }
    if (!whole_step || !from_0 || pl_dim_known(dim)) return PL_DIM_UNKNOWN;
    /* From 0 to "the end", as exporters write it, or to the dim's own symbol. */
    if (at->end.known && at->end.at.value >= INT32_MAX) return dim;
    if (!at->end.known && at->end.at.name != NULL) {
        const pl_dim symbol = { -1, at->end.at.name };
        if (pl_dim_equal(dim, symbol)) return dim;
    }
    return PL_DIM_UNKNOWN;
}

/* Slice of a shape: the content of the result. */
static pl_status slice_content(pl_infer *c, const cuts *all) {
    const pl_content *x = c->concrete ? NULL : pl_content_of(c, 0);
    if (x == NULL || x->rank != 1 || x->n > PL_CONTENT_MAX) return PL_OK;
    const cut *at = &all->at[0];
    int64_t start = 0, step = 1, n = (int64_t)x->n;
    if (all->is_cut[0]) {
        if (!at->start.known || !at->end.known || !at->step.known) return PL_OK;
        start = at->start.at.value;
        step = at->step.at.value;
        n = clamp_cut((int64_t)x->n, &start, at->end.at.value, &step);
    }
    pl_dim dims[PL_CONTENT_MAX];
    bool known[PL_CONTENT_MAX];
    for (int64_t k = 0; k < n; k++) {
        dims[k] = x->dims[start + k * step];
        known[k] = x->known[start + k * step];
    }
    return pl_content_set(c, 0, 1, (size_t)n, dims, known);
}

pl_status pl_slice_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    cuts all;
    PL_TRY(cuts_read(c, rank, &all));
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++) {
        dims[d] = c->in[0]->dims[d];
        if (all.is_cut[d]) dims[d] = cut_dim(dims[d], &all.at[d]);
        if (all.any_axis) dims[d] = PL_DIM_UNKNOWN;
    }
    PL_TRY(pl_infer_set(c, 0, dtype, rank, dims));
    return all.any_axis ? PL_OK : slice_content(c, &all);
}

/* Start, end and step for every axis of the real input. The shape rule has checked the lists. */
typedef struct span {
    int64_t start, end, step;
} span;

static pl_status spans_read(pl_eval *c, span *spans) {
    const pl_tensor *x = pl_in(c, 0);
    size_t n, n_axes, n_steps, n_ends;
    const int64_t *starts = pl_attr_ints(c->node, "starts", &n);
    const int64_t *ends = pl_attr_ints(c->node, "ends", &n_ends);
    const int64_t *axes = pl_attr_ints(c->node, "axes", &n_axes);
    const int64_t *steps = NULL;
    if (pl_node_attr(c->node, "starts") == NULL) {
        starts = pl_in_ints(c, 1, &n);
        ends = pl_in_ints(c, 2, &n_ends);
        axes = pl_in_ints(c, 3, &n_axes);
        steps = pl_in_ints(c, 4, &n_steps);
        if (starts == NULL || ends == NULL || (axes == NULL && pl_has(c, 3)) ||
            (steps == NULL && pl_has(c, 4))) {
            return pl_eval_memory(c);
        }
    }
    for (int d = 0; d < x->rank; d++)
        spans[d] = (span){ 0, x->dims[d], 1 };
    for (size_t k = 0; k < n; k++) {
        const int64_t axis = axes == NULL ? (int64_t)k : axes[k];
        const int64_t d = axis < 0 ? axis + x->rank : axis;
        spans[d] = (span){ starts[k], ends[k], steps == NULL ? 1 : steps[k] };
    }
    return PL_OK;
}

pl_status pl_slice_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    if (y->n_elements == 0) return PL_OK;
    span spans[PL_RANK_MAX] = { { 0, 0, 0 } };
    PL_TRY(spans_read(c, spans));
    pl_move m = { .rank = x->rank };
    int64_t offset = 0;
    for (int d = 0; d < x->rank; d++) {
        m.dims[d] = clamp_cut(x->dims[d], &spans[d].start, spans[d].end, &spans[d].step);
        m.from[d] = x->strides[d] * spans[d].step;
        m.to[d] = y->strides[d];
        offset += spans[d].start * x->strides[d];
    }
    PL_TRY(pl_move_tensor(c, &m, x, offset, y, 0));
    return pl_own_strings(c, y);
}

/* ---- CenterCropPad ---- */

pl_status pl_center_crop_pad_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    if (rank < 0) return pl_infer_set_unranked(c, 0, dtype);
    pl_axes axes;
    PL_TRY(pl_axes_read(c, "axes", -1, rank, true, &axes));
    const size_t n = axes.present ? axes.n : (size_t)rank;
    const pl_content *shape = pl_content_of(c, 1);
    if ((shape == NULL && c->concrete) || (shape != NULL && shape->n != n)) {
        return pl_infer_fail(c, "the shape must have %zu elements, one for each axis", n);
    }
    pl_dim dims[PL_RANK_MAX];
    for (int d = 0; d < rank; d++)
        dims[d] = c->in[0]->dims[d];
    for (size_t k = 0; k < n; k++) {
        const int d = axes.present ? axes.axis[k] : (int)k;
        dims[d] = shape == NULL ? PL_DIM_UNKNOWN : shape->dims[k];
        if (shape != NULL && !shape->known[k]) dims[d].value = -1;
        if (shape != NULL && shape->known[k] && dims[d].value < 0) {
            return pl_infer_fail(c, "dim %d of the shape is %lld", d, (long long)dims[d].value);
        }
    }
    return pl_infer_set(c, 0, dtype, rank, dims);
}

pl_status pl_center_crop_pad_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0);
    pl_tensor *y = pl_out(c, 0);
    pl_move m = { .rank = x->rank };
    int64_t from = 0, to = 0;
    for (int d = 0; d < x->rank; d++) {
        const int64_t have = x->dims[d], want = y->dims[d];
        m.dims[d] = pl_i64_min(have, want);
        m.from[d] = x->strides[d];
        m.to[d] = y->strides[d];
        if (have > want) from += (have - want) / 2 * x->strides[d];
        if (want > have) to += (want - have) / 2 * y->strides[d];
    }
    memset(y->data, 0, pl_tensor_bytes(y));
    PL_TRY(pl_move_tensor(c, &m, x, from, y, to));
    return pl_own_strings(c, y);
}
