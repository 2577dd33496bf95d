/* Gradients of operators that only move elements; most are operators of the same kind. */

#include "base/size.h"
#include "ops/grad_index.h"

/* ---- helpers ---- */

pl_attr pl_g_same_int(const pl_grad *c, const char *name) {
    return PL_G_INT(name, pl_attr_int(c->node, name));
}

/* Range came with opset 11; before that the positions are a constant. */
static pl_value *constant_positions(pl_grad *c, const pl_value *x) {
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL;
    if (!pl_g_is_concrete(x)) (void)pl_g_fail(c, "needs opset 11 or the shape of '%s'", x->name);
    if (c->st != PL_OK) return NULL;
    for (int d = 0; d < x->type->rank; d++)
        dims[d] = x->type->dims[d].value;
    c->st = pl_tensor_new(PL_I64, x->type->rank, dims, &t, c->err);
    for (int64_t i = 0; c->st == PL_OK && i < t->n_elements; i++)
        ((pl_i64 *)t->data)[i] = i;
    return c->st == PL_OK ? pl_g_tensor_take(c, t) : NULL;
}

pl_value *pl_g_positions(pl_grad *c, pl_value *x) {
    if (c->st != PL_OK) return NULL;
    if (pl_g_opset(c) < 11) return constant_positions(c, x);
    pl_value *n = pl_g1(c, "Size", x);
    pl_value *all = pl_g3(c, "Range", pl_g_int(c, 0), n, pl_g_int(c, 1));
    return pl_g_reshape_like(c, all, x);
}

pl_value *pl_g_one_hot(pl_grad *c, pl_value *indices, int64_t n, pl_dtype dtype) {
    pl_tensor *values = NULL;
    if (c->st != PL_OK) return NULL;
    if (pl_g_opset(c) < 9) {
        (void)pl_g_fail(c, "needs opset 9");
        return NULL;
    }
    c->st = pl_tensor_new(dtype, 1, (const int64_t[]){ 2 }, &values, c->err);
    if (c->st != PL_OK) return NULL;
    pl_store_f64(dtype, (const double[]){ 0, 1 }, values->data, 2);
    if (pl_g_opset(c) < 11) { /* negative indices do not count from the end */
        pl_value *below = pl_g2(c, "Less", indices, pl_g_number(c, indices, 0));
        pl_value *up = pl_g_add(c, indices, pl_g_number(c, indices, (double)n));
        indices = pl_g3(c, "Where", below, up, indices);
    }
    return pl_g3(c, "OneHot", indices, pl_g_int(c, n), pl_g_tensor_take(c, values));
}

/* Scatters that add came with opset 16: before, a product with one-hot rows, for which the sizes
 * must be known and not be large. */
static pl_value *put_back_product(pl_grad *c, pl_value *x, pl_value *positions, pl_value *g) {
    static const int64_t flat[1] = { -1 }, row[2] = { 1, -1 };
    enum { LARGEST = 1 << 26 };
    int64_t n = 1;
    if (c->st != PL_OK) return NULL;
    bool fits = pl_g_is_concrete(x);
    for (int d = 0; fits && d < x->type->rank; d++)
        fits = pl_i64_mul(n, x->type->dims[d].value, &n) && n <= LARGEST;
    if (!fits) {
        (void)pl_g_fail(c, "needs opset 16, the model has %d", pl_g_opset(c));
        return NULL;
    }
    pl_value *hot = pl_g_one_hot(c, pl_g_reshape(c, positions, flat, 1), n, x->type->dtype);
    pl_value *put = pl_g2(c, "MatMul", pl_g_reshape(c, g, row, 2), hot);
    return pl_g_reshape_like(c, put, x);
}

pl_value *pl_g_put_back(pl_grad *c, pl_value *x, pl_value *positions, pl_value *g, bool unique) {
    static const int64_t flat[1] = { -1 };
    if (c->st == PL_OK && pl_g_opset(c) < (unique ? 11 : 16))
        return put_back_product(c, x, positions, g);
    pl_value *zeros = pl_g_zeros_like(c, pl_g_reshape(c, x, flat, 1));
    pl_value *in[3] = { zeros, pl_g_reshape(c, positions, flat, 1), pl_g_reshape(c, g, flat, 1) };
    const pl_attr attrs[2] = { PL_G_INT("axis", 0), PL_G_STRING("reduction", "add") };
    pl_value *put = pl_g_op(c, "ScatterElements", in, 3, attrs, unique ? 1 : 2);
    return pl_g_reshape_like(c, put, x);
}

/* ---- views ---- */

/* The gradient of an optional is that of the tensor in it. */
pl_status pl_grad_view(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const pl_type *type = x->type;
    if (!c->wanted[0] || c->dy[0] == NULL) return c->st;
    if (type != NULL && type->kind != PL_TYPE_TENSOR) {
        if (type->kind == PL_TYPE_SEQUENCE)
            return pl_g_fail(c, "gradients of sequences are not there");
        c->dx[0] = c->dy[0];
        return c->st;
    }
    const bool same = type != NULL && c->dy[0]->type != NULL && pl_type_equal(type, c->dy[0]->type);
    c->dx[0] = same ? c->dy[0] : pl_g_reshape_like(c, c->dy[0], x);
    return c->st;
}

pl_status pl_grad_expand(pl_grad *c) {
    return pl_g_give(c, 0, c->dy[0]);
}

/* y as [r0, d0, r1, d1, …], summed over the repeats. */
pl_status pl_grad_tile(pl_grad *c) {
    static const int64_t one[1] = { 1 }, flat[1] = { -1 };
    pl_value *x = c->node->in[0];
    const int rank = pl_g_rank(c, x);
    int64_t axes[PL_RANK_MAX];
    if (rank < 0) return c->st;
    if (c->node->n_in != 2) return pl_g_fail(c, "Tile-1 has no gradient; use Tile-6");
    if (rank == 0) {
        c->dx[0] = c->dy[0];
        return c->st;
    }
    for (int d = 0; d < rank; d++)
        axes[d] = 2 * d;
    pl_value *pairs[2] = { pl_g_unsqueeze(c, c->node->in[1], one, 1),
                           pl_g_unsqueeze(c, pl_g_shape(c, x), one, 1) };
    pl_value *dims = pl_g_reshape(c, pl_g_concat(c, pairs, 2, 1), flat, 1);
    pl_value *apart = pl_g2(c, "Reshape", c->dy[0], dims);
    pl_value *sum = pl_g_reduce(c, "ReduceSum", apart, axes, (size_t)rank, false);
    c->dx[0] = pl_g_reshape_like(c, sum, x);
    return c->st;
}

/* ---- joining and cutting ---- */

/* How many elements input i has along the axis, as int64[1]. */
static pl_value *extent(pl_grad *c, pl_value *x, int axis) {
    const int64_t at = axis;
    if (c->st != PL_OK) return NULL;
    if (pl_dim_known(x->type->dims[axis])) return pl_g_ints(c, &x->type->dims[axis].value, 1);
    return pl_g2(c, "Gather", pl_g_shape(c, x), pl_g_ints(c, &at, 1));
}

pl_status pl_grad_concat(pl_grad *c) {
    const uint32_t n = c->node->n_in;
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t axis = pl_attr_int(c->node, "axis"), *sizes = NULL;
    pl_arena *arena = c->graph->model->arena;
    if (rank < 0) return c->st;
    if (axis < 0) axis += rank;
    pl_value **parts = pl_arena_array(arena, n, sizeof(*parts));
    sizes = pl_arena_array(arena, n, sizeof(*sizes));
    if (parts == NULL || sizes == NULL) return pl_fail_memory(c->err, n);
    bool known = true;
    for (uint32_t i = 0; i < n; i++) {
        if (pl_g_rank(c, c->node->in[i]) != rank) return c->st;
        const pl_dim dim = c->node->in[i]->type->dims[axis];
        known = known && pl_dim_known(dim);
        sizes[i] = dim.value;
        parts[i] = PL_G_WANTED;
    }
    const pl_attr attrs[2] = { PL_G_INT("axis", axis), PL_G_INTS("split", sizes, n) };
    if (pl_g_opset(c) < 13) {
        if (!known) return pl_g_fail(c, "needs opset 13 or known shapes");
        PL_TRY(pl_g_ops(c, "Split", "", &c->dy[0], 1, attrs, 2, parts, n));
    } else {
        pl_value **each = pl_arena_array(arena, n, sizeof(*each));
        if (each == NULL) return pl_fail_memory(c->err, n);
        for (uint32_t i = 0; !known && i < n; i++)
            each[i] = extent(c, c->node->in[i], (int)axis);
        pl_value *in[2] = { c->dy[0], known ? pl_g_ints(c, sizes, n) : pl_g_concat(c, each, n, 0) };
        if (c->st == PL_OK) PL_TRY(pl_g_ops(c, "Split", "", in, 2, attrs, 1, parts, n));
    }
    for (uint32_t i = 0; c->st == PL_OK && i < n; i++)
        if (c->wanted[i]) c->dx[i] = parts[i];
    return c->st;
}

pl_status pl_grad_split(pl_grad *c) {
    const uint32_t n = c->node->n_out;
    pl_value **parts = pl_arena_array(c->graph->model->arena, n, sizeof(*parts));
    if (parts == NULL) return pl_fail_memory(c->err, n);
    if (!c->wanted[0]) return c->st;
    for (uint32_t i = 0; i < n; i++) {
        if (c->dy[i] == NULL && c->node->out[i] == NULL)
            return pl_g_fail(c, "needs output %u, which has no name", i);
        parts[i] = c->dy[i] != NULL ? c->dy[i] : pl_g_zeros_like(c, c->node->out[i]);
    }
    c->dx[0] = pl_g_concat(c, parts, n, pl_attr_int(c->node, "axis"));
    return c->st;
}

/* ---- permutations ---- */

pl_status pl_grad_transpose(pl_grad *c) {
    const int rank = pl_g_rank(c, c->node->in[0]);
    int64_t inverse[PL_RANK_MAX];
    size_t n = 0;
    const int64_t *perm = pl_attr_ints(c->node, "perm", &n);
    if (rank < 0) return c->st;
    for (int d = 0; d < rank; d++) {
        const int64_t from = perm == NULL ? rank - 1 - d : perm[d];
        inverse[from < 0 ? from + rank : from] = d;
    }
    c->dx[0] = pl_g_transpose(c, c->dy[0], inverse, (size_t)rank);
    return c->st;
}

pl_status pl_grad_trilu(pl_grad *c) {
    pl_value *in[2] = { c->dy[0], c->node->n_in > 1 ? c->node->in[1] : NULL };
    const pl_attr upper = pl_g_same_int(c, "upper");
    c->dx[0] = pl_g_op(c, "Trilu", in, in[1] == NULL ? 1 : 2, &upper, 1);
    return c->st;
}

pl_status pl_grad_reverse_sequence(pl_grad *c) {
    const pl_attr attrs[2] = { pl_g_same_int(c, "batch_axis"), pl_g_same_int(c, "time_axis") };
    pl_value *in[2] = { c->dy[0], c->node->in[1] };
    c->dx[0] = pl_g_op(c, "ReverseSequence", in, 2, attrs, 2);
    return c->st;
}

pl_status pl_grad_space_to_depth(pl_grad *c) {
    const pl_attr size = pl_g_same_int(c, "blocksize");
    c->dx[0] = pl_g_op(c, "DepthToSpace", &c->dy[0], 1, &size, 1); /* DCR, the default */
    return c->st;
}

/* CRD: x is [n, C, b, b, h, w], y is [n, C, h, b, w, b]. */
pl_status pl_grad_depth_to_space(pl_grad *c) {
    static const int64_t perm[6] = { 0, 1, 3, 5, 2, 4 };
    const pl_attr size = pl_g_same_int(c, "blocksize");
    pl_value *x = c->node->in[0];
    if (!pl_attr_string_is(c->node, "mode", "CRD")) {
        c->dx[0] = pl_g_op(c, "SpaceToDepth", &c->dy[0], 1, &size, 1);
        return c->st;
    }
    const int64_t dims[6] = { 0, 0, pl_g_dim(c, x, 2), size.i, pl_g_dim(c, x, 3), size.i };
    if (c->st != PL_OK) return c->st;
    pl_value *apart = pl_g_reshape(c, c->dy[0], dims, 6);
    c->dx[0] = pl_g_reshape_like(c, pl_g_transpose(c, apart, perm, 6), x);
    return c->st;
}

/* Back to the size of x: what was cut off is zero, what was added is cut off. Both halve the
 * difference in the same way. */
pl_status pl_grad_center_crop_pad(pl_grad *c) {
    size_t n = 0;
    const int64_t *axes = pl_attr_ints(c->node, "axes", &n);
    pl_value *shape = pl_g_shape(c, c->node->in[0]);
    if (n > 0) {
        int64_t at[PL_RANK_MAX];
        const int rank = pl_g_rank(c, c->node->in[0]);
        for (size_t i = 0; i < n && i < PL_RANK_MAX; i++)
            at[i] = axes[i] < 0 ? axes[i] + rank : axes[i];
        shape = pl_g2(c, "Gather", shape, pl_g_ints(c, at, n));
    }
    pl_value *in[2] = { c->dy[0], shape };
    const pl_attr attr = PL_G_INTS("axes", axes, n);
    c->dx[0] = pl_g_op(c, "CenterCropPad", in, 2, &attr, n > 0 ? 1 : 0);
    return c->st;
}
