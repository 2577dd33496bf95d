/* Normalisations as means, roots and products, for gradients of operators that contain one. */
#include "ops/lib/grad_norm.h"

pl_g_normed pl_g_normalise(pl_grad *c, pl_value *x, const int64_t *axes, size_t n, double epsilon,
                           bool rms) {
    pl_g_normed r = { NULL, NULL, NULL };
    pl_value *d = pl_g_widened(c, x);
    if (!rms) {
        r.mean = pl_g_reduce(c, "ReduceMean", d, axes, n, true);
        d = pl_g_sub(c, d, r.mean);
    }
    pl_value *var = pl_g_reduce(c, "ReduceMean", pl_g_mul(c, d, d), axes, n, true);
    r.inverse = pl_g1(c, "Reciprocal", pl_g1(c, "Sqrt", pl_g_plus(c, var, epsilon)));
    r.y = pl_g_cast_like(c, pl_g_mul(c, d, r.inverse), x);
    return r;
}

pl_value *pl_g_scale_shift(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias) {
    if (scale != NULL) x = pl_g_mul(c, x, scale);
    return bias != NULL ? pl_g_add(c, x, bias) : x;
}

const pl_value *pl_g_widest(const pl_grad *c, uint32_t n) {
    const pl_value *best = c->node->in[0];
    for (uint32_t i = 1; i < n; i++) {
        const pl_type *t = c->node->in[i]->type;
        if (t != NULL && pl_dtype_bytes(t->dtype) > pl_dtype_bytes(best->type->dtype))
            best = c->node->in[i];
    }
    return best;
}

pl_value *pl_g_as_output(pl_grad *c, pl_value *x, uint32_t i) {
    if (i >= c->node->n_out || c->node->out[i] == NULL || c->dy[i] == NULL || x == NULL)
        return NULL;
    return pl_g_cast_like(c, x, c->node->out[i]);
}

static double epsilon_of(const pl_grad *c) {
    return pl_attr_float(c->node, "epsilon");
}

pl_value *pl_g_group_norm(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias, int64_t groups,
                          bool per_group) {
    const int rank = pl_g_rank(c, x);
    const int64_t dims[3] = { 0, groups, -1 }, axis = 2, one[2] = { -1, 1 };
    if (c->st != PL_OK) return NULL;
    pl_value *rows = pl_g_reshape(c, x, dims, 3);
    pl_value *y = pl_g_normalise(c, rows, &axis, 1, epsilon_of(c), false).y;
    if (per_group) {
        y = pl_g_scale_shift(c, y, pl_g_reshape(c, scale, one, 2), pl_g_reshape(c, bias, one, 2));
        return pl_g_reshape_like(c, y, x);
    }
    return pl_g_scale_shift(c, pl_g_reshape_like(c, y, x), pl_g_channels(c, scale, rank),
                            pl_g_channels(c, bias, rank));
}
