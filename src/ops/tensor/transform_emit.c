/* Emission of operators that move elements to positions known at compile time: views, Concat, and
 * loads where no view is possible. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/tensor/transform_rules.h"

pl_status pl_emit_transpose_rule(pl_emit *c) {
    int perm[PL_EMIT_RANK_MAX];
    size_t n = 0;
    const int rank = pl_emit_rank(c, 0);
    const int64_t *given = pl_attr_ints(c->node, "perm", &n);
    for (int d = 0; d < rank; d++)
        perm[d] = given != NULL && n == (size_t)rank ? (int)given[d] : rank - 1 - d;
    return pl_emit_out(c, 0, pl_emit_transpose(c, pl_emit_in(c, 0), perm));
}

/* Starts, axes and steps are attributes before opset 10, then constant inputs; the size comes from
 * the shape rule. */
static const char *slice_list(const pl_emit *c, int i, const char *name, int64_t *out, size_t *n) {
    *n = 0;
    if (c->node->def->in[1].name == NULL) {
        const int64_t *given = name == NULL ? NULL : pl_attr_ints(c->node, name, n);
        if (*n > PL_EMIT_RANK_MAX) return "too many";
        for (size_t k = 0; k < *n; k++)
            out[k] = given[k];
        return NULL;
    }
    if (!pl_emit_has(c, i)) return NULL;
    return pl_emit_ints(c, i, out, n) ? NULL : "starts, axes or steps are not constant";
}

pl_status pl_emit_slice_rule(pl_emit *c) {
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, steps[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX];
    int64_t start[PL_EMIT_RANK_MAX], axes[PL_EMIT_RANK_MAX], step[PL_EMIT_RANK_MAX];
    size_t n = 0, n_axes = 0, n_steps = 0;
    const int rank = pl_emit_rank(c, 0);
    const char *wrong = slice_list(c, 1, "starts", start, &n);
    if (wrong == NULL) wrong = slice_list(c, 3, "axes", axes, &n_axes);
    if (wrong == NULL) wrong = slice_list(c, 4, NULL, step, &n_steps);
    if (wrong != NULL) return pl_emit_decline(c, wrong);
    pl_emit_out_dims(c, 0, dims);
    for (int d = 0; d < rank; d++)
        steps[d] = 1;
    for (size_t i = 0; i < n; i++) {
        const int axis = n_axes > 0 ? pl_emit_axis(axes[i], rank) : (int)i;
        const int64_t size = pl_emit_dim(c, 0, axis), by = n_steps > 0 ? step[i] : 1;
        const int64_t last = by > 0 ? size : size - 1;
        int64_t at = start[i] < 0 ? start[i] + size : start[i];
        if (at < 0) at = 0;
        if (at > last) at = last;
        starts[axis] = at;
        steps[axis] = by;
        /* Must stay inside the tensor, whatever was computed above. */
        const int64_t end = at + (dims[axis] - 1) * by;
        if (at >= size || end < 0 || end >= size) return pl_emit_decline(c, "unsupported slice");
    }
    return pl_emit_out(c, 0, pl_emit_slice(c, pl_emit_in(c, 0), starts, steps, dims));
}

pl_status pl_emit_split_rule(pl_emit *c) {
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, dims[PL_EMIT_RANK_MAX];
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), pl_emit_rank(c, 0));
    const pl_ref x = pl_emit_in(c, 0);
    for (int i = 0; i < c->n_out; i++) {
        if (!pl_emit_wants(c, i)) return pl_emit_decline(c, "an output is left out");
        pl_emit_out_dims(c, i, dims);
        if (starts[axis] + dims[axis] > pl_emit_dim(c, 0, axis)) {
            return pl_emit_decline(c, "unsupported split");
        }
        PL_TRY(pl_emit_out(c, i, pl_emit_slice(c, x, starts, NULL, dims)));
        starts[axis] += dims[axis];
    }
    return PL_OK;
}

pl_status pl_emit_concat_rule(pl_emit *c) {
    enum { MANY = 32 };
    pl_ref refs[MANY];
    if (c->n_in > MANY) return pl_emit_decline(c, "many inputs");
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), pl_emit_rank(c, 0));
    for (int i = 0; i < c->n_in; i++) {
        refs[i] = pl_emit_in(c, i);
        if (refs[i] < 0) return pl_emit_decline(c, "an input is left out");
    }
    return pl_emit_out(c, 0, c->builder->concat(c, axis, c->n_in, refs));
}

pl_status pl_emit_concat_training(pl_emit *c) {
    return pl_emit_wants(c, 1) ? pl_emit_decline(c, "the sizes are requested")
                               : pl_emit_concat_rule(c);
}

/* ---- places computed from places ---- */

/* A border of one value: concatenates pieces, dim by dim. Negative borders crop. */
static pl_ref constant_border(pl_emit *c, pl_ref x, const int64_t *pads, pl_ref value) {
    int64_t dims[PL_EMIT_RANK_MAX] = { 0 }, starts[PL_EMIT_RANK_MAX] = { 0 };
    pl_dtype dtype;
    if (x < 0) return -1;
    const int rank = c->builder->dims(c, x, dims, &dtype);
    for (int d = 0; d < rank; d++) {
        const int64_t low = pads[d], high = pads[rank + d];
        starts[d] = low < 0 ? -low : 0;
        dims[d] += (low < 0 ? low : 0) + (high < 0 ? high : 0);
        if (dims[d] < 1) return -1;
    }
    x = pl_emit_slice(c, x, starts, NULL, dims);
    for (int d = 0; d < rank && x >= 0; d++) {
        const int64_t own = dims[d];
        pl_ref pieces[3];
        int n = 0;
        dims[d] = pads[d];
        if (pads[d] > 0) pieces[n++] = pl_emit_expand(c, value, rank, dims);
        pieces[n++] = x;
        dims[d] = pads[rank + d];
        if (pads[rank + d] > 0) pieces[n++] = pl_emit_expand(c, value, rank, dims);
        dims[d] = own + (pads[d] > 0 ? pads[d] : 0) + (pads[rank + d] > 0 ? pads[rank + d] : 0);
        for (int i = 0; i < n; i++)
            if (pieces[i] < 0) return -1;
        if (n > 1) x = c->builder->concat(c, d, n, pieces);
    }
    return x;
}

/* pads[d] and pads[rank + d] of every dim, which must be zeroed; false when they are unknown. */
static bool pads_of(pl_emit *c, int64_t *pads) {
    int64_t axes[PL_EMIT_RANK_MAX];
    size_t n = 0, n_axes = 0;
    const int rank = pl_emit_rank(c, 0);
    const int64_t *given = pl_attr_ints(c->node, c->node->opset < 2 ? "paddings" : "pads", &n);
    const pl_tensor *t = c->n_in > 1 ? c->in_tensor[1] : NULL;
    int64_t list[2 * PL_EMIT_RANK_MAX];
    if (c->node->opset >= 11) {
        if (t == NULL || t->n_elements > 2 * PL_EMIT_RANK_MAX) return false;
        n = (size_t)t->n_elements;
        pl_load_i64(t->dtype, t->data, list, n);
        given = list;
    }
    if (pl_emit_has(c, 3) && !pl_emit_ints(c, 3, axes, &n_axes)) return false;
    const size_t half = pl_emit_has(c, 3) ? n_axes : (size_t)rank;
    if (given == NULL || n != 2 * half) return false;
    for (size_t k = 0; k < half; k++) {
        const int d = pl_emit_has(c, 3) ? pl_emit_axis(axes[k], rank) : (int)k;
        pads[d] = given[k];
        pads[rank + d] = given[half + k];
    }
    return true;
}

/* A border that reflects, repeats the edge or wraps around. */
static pl_ref copied_border(pl_emit *c, const int64_t *pads, const int64_t *dims) {
    pl_ref at[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    const bool edge = pl_attr_string_is(c->node, "mode", "edge");
    const bool wrap = pl_attr_string_is(c->node, "mode", "wrap");
    for (int d = 0; d < rank; d++) {
        char expr[200];
        const int64_t low = pads[d], high = pads[rank + d], crop = low < 0 ? -low : 0;
        const long long n = pl_emit_dim(c, 0, d) - crop + (high < 0 ? high : 0);
        const long long first = low > 0 ? low : 0, from = crop;
        at[d] = pl_emit_iota(c, rank, d, dims[d]);
        if (low == 0 && high == 0) continue;
        if (n < 1) return -1;
        if (edge) {
            snprintf(expr, sizeof(expr), "px_edge($0 - %lld, %lld) + %lld", first, n, from);
        } else if (wrap) {
            snprintf(expr, sizeof(expr), "px_mod_i($0 - %lld, %lld) + %lld", first, n, from);
        } else {
            snprintf(expr, sizeof(expr), "px_reflect($0 - %lld, %lld) + %lld", first, n, from);
        }
        at[d] = pl_emit_map1(c, PL_I64, expr, at[d]);
    }
    return pl_emit_load(c, pl_emit_in(c, 0), pl_emit_place(c, at));
}

pl_status pl_emit_pad(pl_emit *c) {
    int64_t pads[2 * PL_EMIT_RANK_MAX] = { 0 }, dims[PL_EMIT_RANK_MAX] = { 0 };
    const pl_dtype dtype = c->in[0]->dtype;
    if (pl_emit_rank(c, 0) == 0) return pl_emit_identity(c);
    if (!pads_of(c, pads)) return pl_emit_decline(c, "pads are not constant");
    pl_emit_out_dims(c, 0, dims);
    if (!pl_attr_string_is(c->node, "mode", "constant")) {
        return pl_emit_out(c, 0, copied_border(c, pads, dims));
    }
    if (pl_emit_has(c, 2) && pl_emit_elements(c->in[2]) != 1) {
        return pl_emit_decline(c, "unsupported value");
    }
    const double number = c->node->opset < 11 ? pl_attr_float(c->node, "value") : 0;
    const pl_ref value = pl_emit_has(c, 2) ? pl_emit_scalar(c, pl_emit_in(c, 2))
                                           : pl_emit_constant(c, dtype, number);
    return pl_emit_out(c, 0, constant_border(c, pl_emit_in(c, 0), pads, value));
}

/* CenterCropPad-18: half of the difference before, rounded down, the rest behind. */
pl_status pl_emit_center_crop_pad(pl_emit *c) {
    int64_t pads[2 * PL_EMIT_RANK_MAX] = { 0 }, dims[PL_EMIT_RANK_MAX] = { 0 };
    const int rank = pl_emit_rank(c, 0);
    pl_emit_out_dims(c, 0, dims);
    for (int d = 0; d < rank; d++) {
        const int64_t n = pl_emit_dim(c, 0, d), more = dims[d] - n;
        pads[d] = more >= 0 ? more / 2 : -(-more / 2);
        pads[rank + d] = more - pads[d];
    }
    const pl_ref zero = pl_emit_constant(c, c->in[0]->dtype, 0);
    return pl_emit_out(c, 0, constant_border(c, pl_emit_in(c, 0), pads, zero));
}

/* ---- blocks ---- */

static pl_ref turned(pl_emit *c, const int64_t *split, const int *perm) {
    int64_t dims[PL_EMIT_RANK_MAX];
    const pl_ref x = pl_emit_reshape(c, pl_emit_in(c, 0), 6, split);
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_reshape(c, pl_emit_transpose(c, x, perm), 4, dims);
}

pl_status pl_emit_depth_to_space(pl_emit *c) {
    static const int dcr[] = { 0, 3, 4, 1, 5, 2 }, crd[] = { 0, 1, 4, 2, 5, 3 };
    int64_t d[PL_EMIT_RANK_MAX];
    const int64_t b = pl_attr_int(c->node, "blocksize");
    const bool rows_first = pl_attr_string_is(c->node, "mode", "CRD");
    pl_emit_in_dims(c, 0, d);
    const int64_t by_depth[] = { d[0], b, b, d[1] / (b * b), d[2], d[3] };
    const int64_t by_rows[] = { d[0], d[1] / (b * b), b, b, d[2], d[3] };
    return pl_emit_out(c, 0, turned(c, rows_first ? by_rows : by_depth, rows_first ? crd : dcr));
}

pl_status pl_emit_space_to_depth(pl_emit *c) {
    static const int perm[] = { 0, 3, 5, 1, 2, 4 };
    int64_t d[PL_EMIT_RANK_MAX];
    const int64_t b = pl_attr_int(c->node, "blocksize");
    pl_emit_in_dims(c, 0, d);
    const int64_t split[] = { d[0], d[1], d[2] / b, b, d[3] / b, b };
    return pl_emit_out(c, 0, turned(c, split, perm));
}

/* ---- triangles, sequences ---- */

pl_status pl_emit_trilu(pl_emit *c) {
    const int rank = pl_emit_rank(c, 0);
    if (rank < 2) return pl_emit_decline(c, "no matrix");
    const bool upper = pl_attr_int(c->node, "upper") != 0;
    const pl_ref row = pl_emit_iota(c, rank, rank - 2, pl_emit_dim(c, 0, rank - 2));
    const pl_ref column = pl_emit_iota(c, rank, rank - 1, pl_emit_dim(c, 0, rank - 1));
    const pl_ref k =
        pl_emit_has(c, 1) ? pl_emit_scalar(c, pl_emit_in(c, 1)) : pl_emit_constant(c, PL_I64, 0);
    const pl_ref args[] = { pl_emit_in(c, 0), row, column, k };
    return pl_emit_out(c, 0,
                       pl_emit_map(c, c->out[0]->dtype,
                                   upper ? "$2 - $1 >= $3 ? $0 : 0" : "$2 - $1 <= $3 ? $0 : 0", 4,
                                   args));
}

pl_status pl_emit_reverse_sequence(pl_emit *c) {
    char expr[80];
    int64_t strides[PL_EMIT_RANK_MAX];
    const int rank = pl_emit_rank(c, 0);
    const int batch = (int)pl_attr_int(c->node, "batch_axis"), time = 1 - batch;
    if (rank < 2 || batch < 0 || batch > 1) return pl_emit_decline(c, "unsupported axes");
    if (pl_emit_elements(c->in[1]) != pl_emit_dim(c, 0, batch)) {
        return pl_emit_decline(c, "not one length for each of the batch");
    }
    pl_emit_strides(c, 0, strides);
    snprintf(expr, sizeof(expr), "px_within($0, 0, %lld, $F)", (long long)pl_emit_dim(c, 0, time));
    pl_ref length = pl_emit_along(c, pl_emit_in(c, 1), rank, batch);
    length = pl_emit_map1(c, PL_I64, expr, length);
    const pl_ref t = pl_emit_iota(c, rank, time, pl_emit_dim(c, 0, time));
    const pl_ref from = pl_emit_map2(c, PL_I64, "$0 < $1 ? $1 - 1 - $0 : $0", t, length);
    pl_ref at = pl_emit_add_part(c, -1, from, strides[time]);
    for (int d = 0; d < rank; d++) {
        if (d == time) continue;
        at = pl_emit_add_part(c, at, pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d)), strides[d]);
    }
    return pl_emit_out(c, 0, pl_emit_load(c, pl_emit_in(c, 0), at));
}
