/* Gradients of the classic machine-learning operators. Trees are step functions with derivative
 * zero; classifiers and support vector machines are not supported. */
#include <math.h>

#include "ops/lib/grad_move.h"
#include "ops/ml/ml_rules.h"

/* Floats of an attribute as a constant of the type of `like`. */
static pl_value *floats(pl_grad *c, const float *v, int rank, const int64_t *dims,
                        const pl_value *like) {
    pl_tensor *t = NULL;
    if (c->st == PL_OK) c->st = pl_tensor_new(like->type->dtype, rank, dims, &t, c->err);
    if (c->st != PL_OK) return NULL;
    char *to = t->data;
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double x = (double)v[i];
        pl_store_f64(t->dtype, &x, to + (size_t)i * pl_dtype_bytes(t->dtype), 1);
    }
    return pl_g_tensor_take(c, t);
}

static pl_status give_like(pl_grad *c, int i, pl_value *g) {
    pl_value *x = c->node->in[i];
    c->dx[i] = pl_g_reshape_like(c, pl_g_cast_like(c, g, x), x);
    return c->st;
}

pl_status pl_grad_scaler(pl_grad *c) {
    size_t n = 0;
    const float *scale = pl_attr_floats(c->node, "scale", &n);
    const int64_t dims[1] = { (int64_t)n };
    if (!c->wanted[0]) return c->st;
    if (n == 0) return give_like(c, 0, c->dy[0]);
    return give_like(c, 0, pl_g_mul(c, c->dy[0], floats(c, scale, 1, dims, c->dy[0])));
}

/* y = x W^T + b, W [targets, columns]. */
pl_status pl_grad_linear_regressor(pl_grad *c) {
    size_t n = 0;
    const float *w = pl_attr_floats(c->node, "coefficients", &n);
    const int64_t targets = pl_attr_int(c->node, "targets");
    if (!c->wanted[0]) return c->st;
    if (!pl_attr_string_is(c->node, "post_transform", "NONE"))
        return pl_g_fail(c, "after a post_transform is not supported");
    if (targets < 1 || n % (size_t)targets != 0) return pl_g_fail(c, "needs its coefficients");
    const int64_t dims[2] = { targets, (int64_t)n / targets };
    return give_like(c, 0, pl_g2(c, "MatMul", c->dy[0], floats(c, w, 2, dims, c->dy[0])));
}

/* y = x / norm: dx = (dy - dnorm/dx * sum(dy y)) / norm. A row of zeros stays as it is. */
pl_status pl_grad_normalizer(pl_grad *c) {
    static const int64_t last[1] = { -1 };
    pl_value *x = c->node->in[0], *y = c->node->out[0], *dy = c->dy[0];
    const bool l1 = pl_attr_string_is(c->node, "norm", "L1");
    const bool l2 = pl_attr_string_is(c->node, "norm", "L2");
    if (!c->wanted[0]) return c->st;
    pl_value *wide = pl_g_cast_like(c, x, dy), *size = pl_g1(c, "Abs", wide);
    pl_value *norm = l1   ? pl_g_reduce(c, "ReduceL1", wide, last, 1, true)
                     : l2 ? pl_g_reduce(c, "ReduceL2", wide, last, 1, true)
                          : pl_g_reduce(c, "ReduceMax", size, last, 1, true);
    pl_value *slope = l2 ? y : pl_g1(c, "Sign", wide);
    if (!l1 && !l2) { /* only the largest element has a gradient */
        pl_value *rest = pl_g1(c, "Not", pl_g2(c, "Less", size, norm));
        slope = pl_g_mul(c, slope, pl_g_cast_like(c, rest, dy));
    }
    pl_value *sum = pl_g_reduce(c, "ReduceSum", pl_g_mul(c, dy, y), last, 1, true);
    pl_value *zero = pl_g_equal(c, norm, pl_g_number(c, norm, 0));
    pl_value *safe = pl_g3(c, "Where", zero, pl_g_number(c, norm, 1), norm);
    pl_value *dx = pl_g_div(c, pl_g_sub(c, dy, pl_g_mul(c, slope, sum)), safe);
    return give_like(c, 0, pl_g3(c, "Where", zero, dy, dx));
}

/* Replaced elements do not depend on x. */
pl_status pl_grad_imputer(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const double old = pl_attr_float(c->node, "replaced_value_float");
    if (!c->wanted[0]) return c->st;
    pl_value *replaced =
        isnan(old) ? pl_g1(c, "IsNaN", x) : pl_g_equal(c, x, pl_g_number(c, x, old));
    return give_like(c, 0, pl_g_keep(c, pl_g1(c, "Not", replaced), c->dy[0]));
}

/* Concatenated inputs: input i starts at column `at`; it may be truncated or padded. */
pl_status pl_grad_feature_vectorizer(pl_grad *c) {
    size_t n = 0;
    const int64_t *widths = pl_attr_ints(c->node, "inputdimensions", &n), one = 1;
    int64_t at = 0;
    for (uint32_t i = 0; i < c->node->n_in && c->st == PL_OK; i++) {
        const int rank = pl_g_rank(c, c->node->in[i]);
        const int64_t own = rank < 1 ? 0 : pl_g_dim(c, c->node->in[i], rank - 1);
        const int64_t width = widths != NULL && i < n ? widths[i] : own;
        const int64_t used = own < width ? own : width, end = at + used;
        if (c->wanted[i] && c->st == PL_OK) {
            const int64_t none[2] = { 0, 0 }, more[2] = { 0, own - used };
            pl_value *part = pl_g_slice(c, c->dy[0], &at, &end, &one, 1);
            (void)give_like(c, (int)i, pl_g_pad(c, part, none, more, 2));
        }
        at += width;
    }
    return c->st;
}

/* Columns selected by index: running the operator on element positions shows which. */
pl_status pl_grad_feature_extractor(pl_grad *c) {
    pl_value *in[2] = { NULL, c->node->in[1] }, *out[1] = { PL_G_WANTED };
    if (!c->wanted[0]) return c->st;
    in[0] = pl_g_positions(c, c->node->in[0]);
    if (c->st == PL_OK) c->st = pl_g_ops(c, c->node->op, c->node->domain, in, 2, NULL, 0, out, 1);
    if (c->st == PL_OK) c->dx[0] = pl_g_put_back(c, c->node->in[0], out[0], c->dy[0], false);
    return c->st;
}
