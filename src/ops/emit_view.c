/* Emission of operators that move elements: views of what is there, and Concat. */
#include <string.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

static void out_dims(const pl_emit *c, int i, int64_t *dims) {
    for (int d = 0; d < c->out[i]->rank; d++)
        dims[d] = c->out[i]->dims[d].value;
}

/* Reshape, Flatten, Squeeze, Unsqueeze: the shape rule knows. */
pl_status pl_emit_same_elements(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_reshape(c, pl_emit_in(c, 0), c->out[0]->rank, dims));
}

pl_status pl_emit_expand_rule(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    out_dims(c, 0, dims);
    return pl_emit_out(c, 0, pl_emit_expand(c, pl_emit_in(c, 0), c->out[0]->rank, dims));
}

pl_status pl_emit_transpose_rule(pl_emit *c) {
    int perm[PL_EMIT_RANK_MAX];
    size_t n = 0;
    const int rank = pl_emit_rank(c, 0);
    const int64_t *given = pl_attr_ints(c->node, "perm", &n);
    for (int d = 0; d < rank; d++)
        perm[d] = given != NULL && n == (size_t)rank ? (int)given[d] : rank - 1 - d;
    return pl_emit_out(c, 0, pl_emit_transpose(c, pl_emit_in(c, 0), perm));
}

/* Slice-10 and later, with constant starts, axes and steps; the size is the shape rule's. */
pl_status pl_emit_slice_rule(pl_emit *c) {
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, steps[PL_EMIT_RANK_MAX], dims[PL_EMIT_RANK_MAX];
    int64_t start[PL_EMIT_RANK_MAX], axes[PL_EMIT_RANK_MAX], step[PL_EMIT_RANK_MAX];
    size_t n = 0, n_axes = 0, n_steps = 0;
    const int rank = pl_emit_rank(c, 0);
    if (c->node->opset < 10) return pl_emit_decline(c, "Slice before opset 10");
    if (!pl_emit_ints(c, 1, start, &n)) return pl_emit_decline(c, "starts are not constant");
    if (pl_emit_has(c, 3) && !pl_emit_ints(c, 3, axes, &n_axes)) {
        return pl_emit_decline(c, "axes are not constant");
    }
    if (pl_emit_has(c, 4) && !pl_emit_ints(c, 4, step, &n_steps)) {
        return pl_emit_decline(c, "steps are not constant");
    }
    out_dims(c, 0, dims);
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
        /* Never out of the tensor, whatever was computed above. */
        const int64_t end = at + (dims[axis] - 1) * by;
        if (at >= size || end < 0 || end >= size) return pl_emit_decline(c, "an odd slice");
    }
    return pl_emit_out(c, 0, pl_emit_slice(c, pl_emit_in(c, 0), starts, steps, dims));
}

pl_status pl_emit_split_rule(pl_emit *c) {
    int64_t starts[PL_EMIT_RANK_MAX] = { 0 }, dims[PL_EMIT_RANK_MAX];
    const int axis = pl_emit_axis(pl_attr_int(c->node, "axis"), pl_emit_rank(c, 0));
    const pl_ref x = pl_emit_in(c, 0);
    for (int i = 0; i < c->n_out; i++) {
        if (!pl_emit_wants(c, i)) return pl_emit_decline(c, "an output is left out");
        out_dims(c, i, dims);
        if (starts[axis] + dims[axis] > pl_emit_dim(c, 0, axis)) {
            return pl_emit_decline(c, "an odd split");
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

/* Dropout outside training: the input; the mask is declined. */
pl_status pl_emit_dropout(pl_emit *c) {
    if (pl_node_is_random(c->node)) return pl_emit_decline(c, "random");
    if (pl_emit_wants(c, 1)) return pl_emit_decline(c, "the mask is wanted");
    return pl_emit_identity(c);
}
