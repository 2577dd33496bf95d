/* Shared by the gradients of operators that move elements. */
#include "ops/lib/grad_move.h"

#include "base/size.h"

pl_attr pl_g_same_int(const pl_grad *c, const char *name) {
    return PL_G_INT(name, pl_attr_int(c->node, name));
}

/* Range needs opset 11; before that the positions are a constant. */
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
    if (pl_g_opset(c) < 11) { /* negative indices need opset 11 */
        pl_value *below = pl_g2(c, "Less", indices, pl_g_number(c, indices, 0));
        pl_value *up = pl_g_add(c, indices, pl_g_number(c, indices, (double)n));
        indices = pl_g3(c, "Where", below, up, indices);
    }
    return pl_g3(c, "OneHot", indices, pl_g_int(c, n), pl_g_tensor_take(c, values));
}

/* Scatters that add need opset 16. Before, this is a product with one-hot rows, so sizes must be
 * known and small. */
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

pl_value *pl_g_pad(pl_grad *c, pl_value *x, const int64_t *before, const int64_t *behind,
                   int rank) {
    int64_t pads[2 * PL_RANK_MAX];
    bool any = false;
    if (c->st != PL_OK) return NULL;
    for (int d = 0; d < rank; d++) {
        pads[d] = before[d];
        pads[rank + d] = behind[d];
        any = any || before[d] != 0 || behind[d] != 0;
    }
    if (!any) return x;
    if (pl_g_opset(c) < 11) return pl_g1_ints(c, "Pad", x, "pads", pads, 2 * (size_t)rank);
    return pl_g2(c, "Pad", x, pl_g_ints(c, pads, 2 * (size_t)rank));
}
