/* Gradients of DFT and STFT: inverse transforms. */
#include "ops/lib/grad_nn.h"
#include "ops/signal/signal_rules.h"

static pl_value *input(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in ? c->node->in[i] : NULL;
}

typedef struct dft {
    pl_grad *c;
    int rank;
    int64_t axis, n;
} dft;

/* Transforms x (complex) along the axis; inverse transforms are not divided by n. */
static pl_value *transform(const dft *d, pl_value *x, bool inverse, bool onesided) {
    pl_grad *c = d->c;
    const bool as_input = pl_g_opset(c) >= 20;
    const pl_attr attrs[3] = { PL_G_INT("inverse", inverse), PL_G_INT("onesided", onesided),
                               PL_G_INT("axis", d->axis) };
    pl_value *in[3] = { x, NULL, as_input ? pl_g_int(c, d->axis) : NULL };
    pl_value *y = pl_g_op(c, "DFT", in, as_input ? 3 : 1, attrs, as_input ? 2 : 3);
    return inverse ? pl_g_scaled(c, y, (double)d->n) : y;
}

/* Pads x with zeros, or crops it, to `want` along the axis. */
static pl_value *fit(const dft *d, pl_value *x, int64_t have, int64_t want) {
    pl_grad *c = d->c;
    int64_t pads[2 * PL_RANK_MAX] = { 0 };
    if (have == want) return x;
    if (have > want) return pl_g_cut(c, x, d->axis, 0, want);
    pads[d->rank + d->axis] = want - have;
    return pl_g2(c, "Pad", x, pl_g_ints(c, pads, 2 * (size_t)d->rank));
}

/* c_k / n: all bins but the first and the middle count twice. */
static pl_value *half_weights(const dft *d, const pl_value *like, int64_t bins) {
    int64_t dims[PL_RANK_MAX];
    pl_g_table t;
    for (int i = 0; i < d->rank; i++)
        dims[i] = i == d->axis ? bins : 1;
    if (!pl_g_table_new(d->c, &t, d->rank, dims)) return NULL;
    for (int64_t k = 0; k < bins; k++)
        t.data[k] = (k == 0 || 2 * k == d->n ? 1.0 : 2 * k < d->n ? 2.0 : 0.0) / (double)d->n;
    return pl_g_table_value(d->c, &t, like->type->dtype);
}

/* The adjoint of F is n times the inverse; that of the inverse is F / n. */
pl_status pl_dft_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *g = c->dy[0];
    dft d = { .c = c, .rank = pl_g_rank(c, x) };
    if (c->st != PL_OK) return c->st;
    const bool inverse = pl_attr_int(node, "inverse") != 0;
    const bool onesided = pl_attr_int(node, "onesided") != 0;
    const pl_tensor *length = pl_g_known(input(c, 1)), *axis = pl_g_known(input(c, 2));
    if ((input(c, 1) != NULL && length == NULL) || (input(c, 2) != NULL && axis == NULL))
        return pl_g_fail(c, "needs dft_length and axis to be constants");
    d.axis = axis != NULL       ? pl_tensor_get_i64(axis, 0)
             : node->opset < 20 ? pl_attr_int(node, "axis")
                                : -2;
    if (d.axis < 0) d.axis += d.rank;
    const int64_t have = pl_g_dim(c, x, (int)d.axis), parts = pl_g_dim(c, x, d.rank - 1);
    const int64_t out = pl_g_dim(c, node->out[0], (int)d.axis);
    if (c->st != PL_OK) return c->st;
    d.n = length != NULL ? pl_tensor_get_i64(length, 0) : inverse && onesided ? out : have;
    if (inverse && onesided) { /* from half a spectrum to real numbers */
        const int64_t bins = d.n / 2 + 1;
        g = transform(&d, g, false, true);
        g = pl_g_mul(c, g, half_weights(&d, x, bins));
        g = fit(&d, g, bins, have);
    } else {
        g = transform(&d, fit(&d, g, out, d.n), !inverse, false);
        if (inverse) g = pl_g_scaled(c, g, 1 / (double)d.n);
        g = fit(&d, g, d.n, have);
    }
    c->dx[0] = parts == 1 ? pl_g_cut(c, g, d.rank - 1, 0, 1) : g;
    return c->st;
}

/* The forward pass gathers frames, applies the window and transforms. */
pl_status pl_stft_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *window = input(c, 2);
    const pl_tensor *step = pl_g_known(node->in[1]), *length = pl_g_known(input(c, 3));
    const int rank = pl_g_rank(c, x);
    if (step == NULL || (input(c, 3) != NULL && length == NULL))
        return pl_g_fail(c, "needs frame_step and frame_length to be constants");
    const int64_t samples = pl_g_dim(c, x, 1), hop = pl_tensor_get_i64(step, 0);
    const int64_t whole = window != NULL ? pl_g_dim(c, window, 0) : samples;
    const int64_t n = length != NULL ? pl_tensor_get_i64(length, 0) : whole;
    if (c->st != PL_OK) return c->st;
    if (n > samples || hop < 1) return pl_g_fail(c, "is not supported for these frames");
    const int64_t frames = (samples - n) / hop + 1, axis = 2;
    pl_g_table places;
    if (!pl_g_table_new(c, &places, 2, (const int64_t[]){ frames, n })) return c->st;
    for (int64_t i = 0; i < frames * n; i++) {
        const int64_t place = i / n * hop + i % n;
        places.data[i] = (double)place;
    }
    const size_t mark = pl_g_mark(c);
    pl_value *in[2] = { x, pl_g_table_value(c, &places, PL_I64) };
    const pl_attr at = PL_G_INT("axis", 1);
    if (rank == 2) in[0] = pl_g_unsqueeze(c, x, &axis, 1);
    pl_value *rows = pl_g_op(c, "Gather", in, 2, &at, 1); /* batch, frames, n, parts */
    if (window != NULL) {
        dft d = { .c = c, .rank = 1, .axis = 0, .n = n };
        pl_value *w = fit(&d, window, whole, n);
        rows = pl_g_mul(c, rows, pl_g_reshape(c, w, (const int64_t[]){ n, 1 }, 2));
    }
    dft d = { .c = c, .rank = 4, .axis = 2, .n = n };
    pl_value *y = transform(&d, rows, false, pl_attr_int(node, "onesided") != 0);
    return pl_g_expanded(c, mark, &y);
}
