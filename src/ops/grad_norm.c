/* Gradients of normalisations and of ONNX Runtime's fused ones: written forward in means, roots and
 * products. */
#include <math.h>

#include "base/size.h"
#include "ops/grad_nn.h"
#include "ops/op_norm_int.h"

typedef struct normed {
    pl_value *y, *mean, *inverse; /* mean NULL for rms */
} normed;

/* (x - mean) / sqrt(var + epsilon) over the axes. The statistics are in float at least, as in the
 * kernels: squares overflow float16 from 256 on, and epsilon may be too small for it. */
static normed normalise(pl_grad *c, pl_value *x, const int64_t *axes, size_t n, double epsilon,
                        bool rms) {
    normed r = { NULL, NULL, NULL };
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

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

static pl_value *scaled_and_shifted(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias) {
    if (scale != NULL) x = pl_g_mul(c, x, scale);
    return bias != NULL ? pl_g_add(c, x, bias) : x;
}

static double epsilon_of(const pl_grad *c) {
    return pl_attr_float(c->node, "epsilon");
}

/* The one of the first n inputs whose type is widest: parameters may be wider than what they scale.
 */
static const pl_value *widest(const pl_grad *c, uint32_t n) {
    const pl_value *best = c->node->in[0];
    for (uint32_t i = 1; i < n; i++) {
        const pl_type *t = c->node->in[i]->type;
        if (t != NULL && pl_dtype_bytes(t->dtype) > pl_dtype_bytes(best->type->dtype))
            best = c->node->in[i];
    }
    return best;
}

/* Dims from `axis` on. */
static size_t axes_from(int rank, int64_t axis, int64_t *axes) {
    size_t n = 0;
    for (int64_t d = axis < 0 ? axis + rank : axis; d < rank; d++)
        axes[n++] = d;
    return n;
}

/* Output i has the type of the statistics, which may be wider than that of x. */
static pl_value *as_output(pl_grad *c, pl_value *x, uint32_t i) {
    if (i >= c->node->n_out || c->node->out[i] == NULL || c->dy[i] == NULL || x == NULL)
        return NULL;
    return pl_g_cast_like(c, x, c->node->out[i]);
}

static pl_status rows_grad(pl_grad *c, bool rms, uint32_t mean_out, uint32_t inverse_out) {
    pl_value *x = c->node->in[0], *y[4] = { NULL };
    int64_t axes[PL_RANK_MAX];
    const int rank = pl_g_rank(c, x);
    if (c->st != PL_OK) return c->st;
    const size_t n = axes_from(rank, pl_attr_int(c->node, "axis"), axes), mark = pl_g_mark(c);
    const normed r = normalise(c, x, axes, n, epsilon_of(c), rms);
    pl_value *hat = pl_g_cast_like(c, r.y, c->node->in[1]);
    y[0] = scaled_and_shifted(c, hat, c->node->in[1], input(c, 2));
    if (mean_out > 0) y[mean_out] = as_output(c, r.mean, mean_out);
    y[inverse_out] = as_output(c, r.inverse, inverse_out);
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
    if (n == 0) return pl_g_fail(c, "is not there for an input without spatial dims");
    const normed r = normalise(c, x, axes, n, epsilon_of(c), false);
    pl_value *y = scaled_and_shifted(c, r.y, pl_g_channels(c, c->node->in[1], rank),
                                     pl_g_channels(c, c->node->in[2], rank));
    return pl_g_expanded(c, mark, &y);
}

/* x (N, C, …) in groups of channels; scales one for each channel, or for each group. */
static pl_value *group_norm(pl_grad *c, pl_value *x, pl_value *scale, pl_value *bias,
                            int64_t groups, bool per_group) {
    const int rank = pl_g_rank(c, x);
    const int64_t dims[3] = { 0, groups, -1 }, axis = 2, one[2] = { -1, 1 };
    if (c->st != PL_OK) return NULL;
    pl_value *rows = pl_g_reshape(c, x, dims, 3);
    pl_value *y = normalise(c, rows, &axis, 1, epsilon_of(c), false).y;
    if (per_group) {
        y = scaled_and_shifted(c, y, pl_g_reshape(c, scale, one, 2), pl_g_reshape(c, bias, one, 2));
        return pl_g_reshape_like(c, y, x);
    }
    return scaled_and_shifted(c, pl_g_reshape_like(c, y, x), pl_g_channels(c, scale, rank),
                              pl_g_channels(c, bias, rank));
}

pl_status pl_group_norm_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = group_norm(c, c->node->in[0], c->node->in[1], c->node->in[2],
                             pl_attr_int(c->node, "num_groups"), c->node->opset < 21);
    return pl_g_expanded(c, mark, &y);
}

/* ---- BatchNormalization ---- */

/* 0.9, not 0.89999998: attributes are floats, and 1 - momentum would lose eight digits of what was
 * meant. */
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
        return pl_g_fail(c, "is not there for spatial=0");
    if (rank < 2) return pl_g_fail(c, "is not there for an input of rank %d", rank);
    const size_t mark = pl_g_mark(c);
    const pl_value *wide = widest(c, 5);
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
        if (node->opset < 14 && node->n_out > 3) return pl_g_fail(c, "is not there for saved_mean");
        const double momentum = meant(pl_attr_float(node, "momentum"));
        for (uint32_t i = 1; i < 3; i++) {
            if (i < node->n_out && node->out[i] != NULL && c->dy[i] != NULL)
                y[i] = as_output(c, running(c, in[i + 2], i == 1 ? mean : var, momentum), i);
        }
    }
    pl_value *root = pl_g1(c, "Sqrt", pl_g_plus(c, var, epsilon_of(c)));
    pl_value *hat = pl_g_div(c, pl_g_sub(c, x, mean), root);
    hat = scaled_and_shifted(c, hat, pl_g_channels(c, in[1], rank), pl_g_channels(c, in[2], rank));
    y[0] = pl_g_cast_like(c, hat, node->in[0]);
    return pl_g_expanded(c, mark, y);
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
        /* The root of 0 is left out: where all are equal d is 0, and so is its part. */
        pl_value *zero = pl_g_number(c, var, 0), *none = pl_g_equal(c, var, zero);
        pl_value *root = pl_g1(c, "Sqrt", pl_g3(c, "Where", none, pl_g_number(c, var, 1), var));
        y = pl_g_div(c, d, pl_g_plus(c, pl_g3(c, "Where", none, zero, root), 1e-9));
    }
    y = pl_g_cast_like(c, y, x);
    return pl_g_expanded(c, mark, &y);
}

/* ---- com.microsoft ---- */

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

pl_status pl_ms_gelu_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *y = gelu(c, with_bias(c, 1));
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_ms_fast_gelu_grad(pl_grad *c) {
    const size_t mark = pl_g_mark(c);
    pl_value *x = pl_g_widened(c, with_bias(c, 1)), *cube = pl_g_mul(c, x, pl_g_mul(c, x, x));
    pl_value *inner = pl_g_add(c, x, pl_g_scaled(c, cube, 0.044715));
    pl_value *t = pl_g1(c, "Tanh", pl_g_scaled(c, inner, sqrt(2 / acos(-1.0))));
    pl_value *y = pl_g_mul(c, pl_g_scaled(c, x, 0.5), pl_g_plus(c, t, 1));
    y = pl_g_cast_like(c, y, c->node->in[0]);
    return pl_g_expanded(c, mark, &y);
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
    const normed r = normalise(c, sum, &axis, 1, epsilon_of(c), rms);
    y[0] = scaled_and_shifted(c, r.y, c->node->in[2], beta > 0 ? input(c, beta) : NULL);
    y[1] = as_output(c, r.mean, 1);
    y[2] = as_output(c, r.inverse, 2);
    y[3] = as_output(c, sum, 3);
    return pl_g_expanded(c, mark, y);
}

pl_status pl_ms_skip_layer_norm_grad(pl_grad *c) {
    return skip_norm_grad(c, false, 3, 4);
}
pl_status pl_ms_skip_rms_norm_grad(pl_grad *c) {
    return skip_norm_grad(c, true, 0, 3);
}

/* Rows of three tables, added and normalised. */
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
    const normed r = normalise(c, sum, &axis, 1, epsilon_of(c), false);
    y[0] = scaled_and_shifted(c, r.y, node->in[5], node->in[6]);
    y[2] = as_output(c, sum, 2);
    return pl_g_expanded(c, mark, y);
}

/* Channels in front for the norm, and back. */
static pl_value *ms_group(pl_grad *c, pl_value *x) {
    const pl_value *wide = widest(c, 3);
    const int rank = pl_g_rank(c, x);
    const bool last = pl_attr_int(c->node, "channels_last") != 0;
    int64_t there[PL_RANK_MAX] = { 0 }, back[PL_RANK_MAX] = { 0 };
    for (int d = 1; d < rank; d++) {
        there[d] = d == 1 ? rank - 1 : d - 1;
        back[d] = d == rank - 1 ? 1 : d + 1;
    }
    if (last) x = pl_g_transpose(c, x, there, (size_t)rank);
    pl_value *y =
        group_norm(c, pl_g_cast_like(c, x, wide), pl_g_cast_like(c, c->node->in[1], wide),
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
    y[1] = as_output(c, sum, 1);
    return pl_g_expanded(c, mark, y);
}
