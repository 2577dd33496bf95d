/* Gradient of BatchNormalization. */
#include <math.h>

#include "ops/lib/grad_nn.h"
#include "ops/lib/grad_norm.h"
#include "ops/nn/batch_norm_rules.h"
#include "ops/nn/norm_int.h"

static double epsilon_of(const pl_grad *c) {
    return pl_attr_float(c->node, "epsilon");
}

/* 0.9, not 0.89999998: attributes are floats, and 1 - momentum would lose eight digits. */
static double meant(double attr) {
    const double shorter = rint(attr * 1e6) / 1e6;
    return (float)shorter == (float)attr ? shorter : attr;
}

static pl_value *running(pl_grad *c, pl_value *old, pl_value *now, double momentum) {
    pl_value *flat = pl_g_reshape(c, now, (const int64_t[]){ -1 }, 1);
    return pl_g_add(c, pl_g_scaled(c, old, momentum), pl_g_scaled(c, flat, 1 - momentum));
}

pl_status pl_batch_norm_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *y[5] = { NULL };
    const int rank = pl_g_rank(c, x);
    int64_t axes[PL_RANK_MAX] = { 0 };
    if (c->st != PL_OK) return c->st;
    if (node->opset < 9 && pl_attr_int(node, "spatial") == 0)
        return pl_g_fail(c, "is not supported for spatial=0");
    if (rank < 2) return pl_g_fail(c, "is not supported for an input of rank %d", rank);
    const size_t mark = pl_g_mark(c);
    const pl_value *wide = pl_g_widest(c, 5);
    pl_value *in[5];
    for (int i = 0; i < 5; i++)
        in[i] = pl_g_widened(c, pl_g_cast_like(c, node->in[i], wide));
    x = in[0];
    pl_value *mean = pl_g_channels(c, in[3], rank), *var = pl_g_channels(c, in[4], rank);
    if (pl_batch_norm_is_training(node)) {
        for (int d = 2; d < rank; d++)
            axes[d - 1] = d;
        mean = pl_g_reduce(c, "ReduceMean", x, axes, (size_t)rank - 1, true);
        pl_value *d = pl_g_sub(c, x, mean);
        var = pl_g_reduce(c, "ReduceMean", pl_g_mul(c, d, d), axes, (size_t)rank - 1, true);
        if (node->opset < 14 && node->n_out > 3)
            return pl_g_fail(c, "is not supported for saved_mean");
        const double momentum = meant(pl_attr_float(node, "momentum"));
        for (uint32_t i = 1; i < 3; i++) {
            if (i < node->n_out && node->out[i] != NULL && c->dy[i] != NULL)
                y[i] = pl_g_as_output(c, running(c, in[i + 2], i == 1 ? mean : var, momentum), i);
        }
    }
    pl_value *root = pl_g1(c, "Sqrt", pl_g_plus(c, var, epsilon_of(c)));
    pl_value *hat = pl_g_div(c, pl_g_sub(c, x, mean), root);
    hat = pl_g_scale_shift(c, hat, pl_g_channels(c, in[1], rank), pl_g_channels(c, in[2], rank));
    y[0] = pl_g_cast_like(c, hat, node->in[0]);
    return pl_g_expanded(c, mark, y);
}
