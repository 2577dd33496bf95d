/* Gradients of normalisations, expanded into means, roots and products. */
#include "base/size.h"
#include "ops/lib/grad_nn.h"
#include "ops/lib/grad_norm.h"
#include "ops/nn/norm_int.h"
#include "ops/nn/norm_rules.h"

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

static double epsilon_of(const pl_grad *c) {
    return pl_attr_float(c->node, "epsilon");
}

/* Dims from `axis` on. */
static size_t axes_from(int rank, int64_t axis, int64_t *axes) {
    size_t n = 0;
    for (int64_t d = axis < 0 ? axis + rank : axis; d < rank; d++)
        axes[n++] = d;
    return n;
}

static pl_status rows_grad(pl_grad *c, bool rms, uint32_t mean_out, uint32_t inverse_out) {
    pl_value *x = c->node->in[0], *y[4] = { NULL };
    int64_t axes[PL_RANK_MAX];
    const int rank = pl_g_rank(c, x);
    if (c->st != PL_OK) return c->st;
    const size_t n = axes_from(rank, pl_attr_int(c->node, "axis"), axes), mark = pl_g_mark(c);
    const pl_g_normed r = pl_g_normalise(c, x, axes, n, epsilon_of(c), rms);
    pl_value *hat = pl_g_cast_like(c, r.y, c->node->in[1]);
    y[0] = pl_g_scale_shift(c, hat, c->node->in[1], input(c, 2));
    if (mean_out > 0) y[mean_out] = pl_g_as_output(c, r.mean, mean_out);
    y[inverse_out] = pl_g_as_output(c, r.inverse, inverse_out);
    return pl_g_expanded(c, mark, y);
}

pl_status pl_layer_norm_grad(pl_grad *c) {
    return rows_grad(c, false, 1, 2);
}
pl_status pl_rms_norm_grad(pl_grad *c) {
    return rows_grad(c, true, 0, 1);
}

pl_status pl_instance_norm_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    int64_t axes[PL_RANK_MAX];
    const int rank = pl_g_rank(c, x);
    if (c->st != PL_OK) return c->st;
    const size_t n = axes_from(rank, 2, axes), mark = pl_g_mark(c);
    if (n == 0) return pl_g_fail(c, "is not supported for an input without spatial dims");
    const pl_g_normed r = pl_g_normalise(c, x, axes, n, epsilon_of(c), false);
    pl_value *y = pl_g_scale_shift(c, r.y, pl_g_channels(c, c->node->in[1], rank),
                                   pl_g_channels(c, c->node->in[2], rank));
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_group_norm_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = pl_g_group_norm(c, c->node->in[0], c->node->in[1], c->node->in[2],
                                  pl_attr_int(c->node, "num_groups"), c->node->opset < 21);
    return pl_g_expanded(c, mark, &y);
}

/* ---- Lp, LRN, mean and variance ---- */

/* Where the norm is 0 the row stays 0. */
pl_status pl_lp_norm_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int64_t axis = pl_attr_int(c->node, "axis");
    const size_t mark = pl_g_mark(c);
    const bool first = pl_attr_int(c->node, "p") == 1;
    pl_value *norm = pl_g_reduce(c, first ? "ReduceL1" : "ReduceL2", x, &axis, 1, true);
    pl_value *is_zero = pl_g_equal(c, norm, pl_g_number(c, x, 0));
    pl_value *safe = pl_g3(c, "Where", is_zero, pl_g_number(c, x, 1), norm);
    pl_value *y = pl_g_div(c, x, safe);
    return pl_g_expanded(c, mark, &y);
}

/* The sum over neighbouring channels is a product with a band matrix. */
pl_status pl_lrn_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int64_t size = pl_attr_int(c->node, "size"), channels = pl_g_dim(c, x, 1);
    const double alpha = pl_attr_float(c->node, "alpha") / (double)size;
    pl_g_table band;
    if (c->st != PL_OK || !pl_g_table_new(c, &band, 2, (const int64_t[]){ channels, channels }))
        return c->st;
    for (int64_t i = 0; i < channels; i++) {
        const int64_t first = pl_i64_max(0, i - (size - 1) / 2);
        const int64_t last = pl_i64_min(channels - 1, i + size / 2);
        for (int64_t k = first; k <= last; k++)
            band.data[i * channels + k] = alpha;
    }
    const size_t mark = pl_g_mark(c);
    pl_value *rows = pl_g_reshape(c, pl_g_widened(c, x), (const int64_t[]){ 0, 0, -1 }, 3);
    pl_value *sums = pl_g_table_value(c, &band, c->st == PL_OK ? rows->type->dtype : PL_F32);
    pl_value *t = pl_g2(c, "MatMul", sums, pl_g_mul(c, rows, rows));
    t = pl_g_plus(c, t, pl_attr_float(c->node, "bias"));
    pl_value *root = pl_g2(c, "Pow", t, pl_g_number(c, t, -pl_attr_float(c->node, "beta")));
    pl_value *y = pl_g_reshape_like(c, pl_g_cast_like(c, pl_g_mul(c, rows, root), x), x);
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_mvn_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int rank = pl_g_rank(c, x);
    int64_t axes[PL_RANK_MAX];
    size_t n = 0;
    if (c->st != PL_OK) return c->st;
    const uint32_t set = pl_mvn_axes(c->node, rank);
    for (int d = 0; d < rank; d++)
        if ((set >> d & 1) != 0) axes[n++] = d;
    if (n == 0) return c->st; /* every element is its own mean */
    const size_t mark = pl_g_mark(c);
    pl_value *wide = pl_g_widened(c, x);
    pl_value *d = pl_g_sub(c, wide, pl_g_reduce(c, "ReduceMean", wide, axes, n, true)), *y = d;
    if (c->node->opset >= 9 || pl_attr_int(c->node, "normalize_variance") != 0) {
        pl_value *var = pl_g_reduce(c, "ReduceMean", pl_g_mul(c, d, d), axes, n, true);
        /* Avoids the root of 0, whose slope is infinite: where all elements are equal, d is 0 and
         * the term vanishes. */
        pl_value *zero = pl_g_number(c, var, 0), *none = pl_g_equal(c, var, zero);
        pl_value *root = pl_g1(c, "Sqrt", pl_g3(c, "Where", none, pl_g_number(c, var, 1), var));
        y = pl_g_div(c, d, pl_g_plus(c, pl_g3(c, "Where", none, zero, root), 1e-9));
    }
    y = pl_g_cast_like(c, y, x);
    return pl_g_expanded(c, mark, &y);
}
