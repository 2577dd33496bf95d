/* Gradients of ONNX Runtime's fused operators, expanded into simple ones. */
#include <math.h>

#include "ops/lib/grad_nn.h"
#include "ops/lib/grad_norm.h"
#include "ops/microsoft/ms_fused_rules.h"

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

static double epsilon_of(const pl_grad *c) {
    return pl_attr_float(c->node, "epsilon");
}

static pl_value *gelu(pl_grad *c, pl_value *x) {
    pl_value *erf = pl_g1(c, "Erf", pl_g_scaled(c, x, 1 / sqrt(2.0)));
    return pl_g_mul(c, pl_g_scaled(c, x, 0.5), pl_g_plus(c, erf, 1));
}

static pl_value *with_bias(pl_grad *c, uint32_t i) {
    pl_value *b = input(c, i);
    return b == NULL ? c->node->in[0] : pl_g_add(c, c->node->in[0], b);
}

pl_status pl_ms_bias_add_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = pl_g_add(c, with_bias(c, 1), c->node->in[2]);
    return pl_g_expanded(c, mark, &y);
}

/* x without what was dropped; in training the mask says what was kept. */
static pl_value *dropped(pl_grad *c, pl_value *x, pl_value *ratio, pl_value *training) {
    const pl_node *node = c->node;
    const pl_tensor *mode = training == NULL ? NULL : pl_g_known(training);
    if (training == NULL || (mode != NULL && mode->n_elements == 1 && !pl_tensor_get_i64(mode, 0)))
        return x;
    pl_value *mask = node->n_out < 2 ? NULL : node->out[1];
    if (mask == NULL || mask->type == NULL || mask->type->dtype != PL_BOOL) {
        pl_g_fail(c, "needs its mask in training mode, one bool for each element");
        return NULL;
    }
    pl_value *one = pl_g_number(c, x, 1);
    ratio = ratio == NULL ? pl_g_number(c, x, 0.5) : pl_g_cast_like(c, ratio, x);
    pl_value *kept = pl_g_select(c, training, pl_g_sub(c, one, ratio), one);
    return pl_g_keep(c, mask, pl_g_div(c, x, kept));
}

pl_status pl_ms_bias_dropout_grad(pl_grad *c) {
    pl_value *y[2] = { NULL, NULL }, *residual = input(c, 2);
    const size_t mark = pl_g_mark(c);
    y[0] = dropped(c, with_bias(c, 1), input(c, 3), input(c, 4));
    if (residual != NULL) y[0] = pl_g_add(c, y[0], residual);
    return pl_g_expanded(c, mark, y);
}

pl_status pl_ms_bitmask_dropout_grad(pl_grad *c) {
    if (c->dy[0] == NULL) return PL_OK;
    pl_value *dx = dropped(c, c->dy[0], input(c, 1), input(c, 2));
    c->dx[0] = dx;
    return c->st;
}

pl_status pl_ms_gelu_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = gelu(c, with_bias(c, 1));
    return pl_g_expanded(c, mark, &y);
}

/* At least in float, as in the kernels: the cube of a float16 overflows early. */
static pl_status fast_gelu(pl_grad *c, size_t mark, pl_value *sum) {
    pl_value *x = pl_g_widened(c, sum), *cube = pl_g_mul(c, x, pl_g_mul(c, x, x));
    pl_value *inner = pl_g_add(c, x, pl_g_scaled(c, cube, 0.044715));
    pl_value *t = pl_g1(c, "Tanh", pl_g_scaled(c, inner, sqrt(2 / acos(-1.0))));
    pl_value *y = pl_g_mul(c, pl_g_scaled(c, x, 0.5), pl_g_plus(c, t, 1));
    y = pl_g_cast_like(c, y, c->node->in[0]);
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_ms_fast_gelu_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    return fast_gelu(c, mark, with_bias(c, 1));
}

pl_status pl_ms_gemm_fast_gelu_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *sum = pl_g2(c, "MatMul", c->node->in[0], c->node->in[1]), *bias = input(c, 2);
    return fast_gelu(c, mark, bias == NULL ? sum : pl_g_add(c, sum, bias));
}

pl_status pl_ms_bias_split_gelu_grad(pl_grad *c) {
    const int rank = pl_g_rank(c, c->node->in[0]);
    const int64_t n = rank < 1 ? 0 : pl_g_dim(c, c->node->in[0], rank - 1);
    if (c->st != PL_OK) return c->st;
    const size_t mark = pl_g_mark(c);
    pl_value *x = with_bias(c, 1);
    pl_value *left = pl_g_cut(c, x, rank - 1, 0, n / 2);
    pl_value *right = pl_g_cut(c, x, rank - 1, n / 2, n);
    pl_value *y = pl_g_mul(c, left, gelu(c, right));
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_ms_bias_softmax_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const size_t mark = pl_g_mark(c);
    pl_value *rows = pl_g1_int(c, "Flatten", with_bias(c, 1), "axis", pl_attr_int(c->node, "axis"));
    pl_value *y = pl_g_reshape_like(c, pl_g1_int(c, "Softmax", rows, "axis", 1), x);
    return pl_g_expanded(c, mark, &y);
}

static pl_status skip_norm_grad(pl_grad *c, bool rms, uint32_t beta, uint32_t bias) {
    pl_value *x = c->node->in[0], *y[4] = { NULL };
    const int rank = pl_g_rank(c, x);
    const int64_t axis = rank - 1;
    if (c->st != PL_OK) return c->st;
    const size_t mark = pl_g_mark(c);
    pl_value *sum = pl_g_add(c, x, c->node->in[1]);
    if (input(c, bias) != NULL) sum = pl_g_add(c, sum, input(c, bias));
    const pl_g_normed r = pl_g_normalise(c, sum, &axis, 1, epsilon_of(c), rms);
    y[0] = pl_g_scale_shift(c, r.y, c->node->in[2], beta > 0 ? input(c, beta) : NULL);
    y[1] = pl_g_as_output(c, r.mean, 1);
    y[2] = pl_g_as_output(c, r.inverse, 2);
    y[3] = pl_g_as_output(c, sum, 3);
    return pl_g_expanded(c, mark, y);
}

pl_status pl_ms_skip_layer_norm_grad(pl_grad *c) {
    return skip_norm_grad(c, false, 3, 4);
}
pl_status pl_ms_skip_rms_norm_grad(pl_grad *c) {
    return skip_norm_grad(c, true, 0, 3);
}

/* Adds rows of three tables and normalises them. */
pl_status pl_ms_embed_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *y[3] = { NULL }, *segments = input(c, 1), *positions = input(c, 8);
    const int64_t axis = 2, length = pl_g_dim(c, node->in[0], 1);
    const size_t mark = pl_g_mark(c);
    pl_value *sum = pl_g2(c, "Gather", node->in[2], node->in[0]);
    pl_value *place = positions != NULL ? pl_g2(c, "Gather", node->in[3], positions)
                                        : pl_g_cut(c, node->in[3], 0, 0, length);
    sum = pl_g_add(c, sum, place);
    if (segments != NULL && input(c, 4) != NULL)
        sum = pl_g_add(c, sum, pl_g2(c, "Gather", node->in[4], segments));
    const pl_g_normed r = pl_g_normalise(c, sum, &axis, 1, epsilon_of(c), false);
    y[0] = pl_g_scale_shift(c, r.y, node->in[5], node->in[6]);
    y[2] = pl_g_as_output(c, sum, 2);
    return pl_g_expanded(c, mark, y);
}

/* Moves channels to the front for the normalisation, and back. */
static pl_value *ms_group(pl_grad *c, pl_value *x) {
    const pl_value *wide = pl_g_widest(c, 3);
    const int rank = pl_g_rank(c, x);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    int64_t there[PL_RANK_MAX] = { 0 }, back[PL_RANK_MAX] = { 0 };
    for (int d = 1; d < rank; d++) {
        there[d] = d == 1 ? rank - 1 : d - 1;
        back[d] = d == rank - 1 ? 1 : d + 1;
    }
    if (last) x = pl_g_transpose(c, x, there, (size_t)rank);
    pl_value *y = pl_g_group_norm(
        c, pl_g_cast_like(c, x, wide), pl_g_cast_like(c, c->node->in[1], wide),
        pl_g_cast_like(c, c->node->in[2], wide), pl_attr_int(c->node, "groups"), false);
    if (pl_attr_int(c->node, "activation") == 1) y = pl_g_activate(c, "Swish", 0, 0, y);
    y = pl_g_cast_like(c, y, c->node->in[0]);
    return last ? pl_g_transpose(c, y, back, (size_t)rank) : y;
}

pl_status pl_ms_group_norm_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = ms_group(c, c->node->in[0]);
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_ms_skip_group_norm_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *skip = c->node->in[3], *y[2] = { NULL, NULL };
    const int rank = pl_g_rank(c, x);
    int64_t dims[PL_RANK_MAX] = { 0 };
    if (c->st != PL_OK) return c->st;
    const size_t mark = pl_g_mark(c);
    if (pl_g_rank(c, skip) == 2 && rank > 2) { /* (N, C) */
        for (int d = 1; d < rank; d++)
            dims[d] = d == rank - 1 ? -1 : 1;
        skip = pl_g_reshape(c, skip, dims, (size_t)rank);
    }
    pl_value *sum = pl_g_add(c, x, skip);
    if (input(c, 4) != NULL) sum = pl_g_add(c, sum, input(c, 4));
    y[0] = ms_group(c, sum);
    y[1] = pl_g_as_output(c, sum, 1);
    return pl_g_expanded(c, mark, y);
}
