/* Gradients of convolutions: the same windows that were read are written back. */
#include "ops/nn/convolve_grad.h"

#include "ops/lib/fused.h"
#include "ops/lib/grad_nn.h"
#include "ops/nn/convolve_rules.h"
#include "ops/nn/convolve_transpose.h"

/* ---- windows ---- */

/* Size of a dim, or -1. */
static int64_t size_of(const pl_value *x, int d) {
    const pl_type *t = x->type;
    if (t == NULL || !t->has_rank || d >= t->rank || !pl_dim_known(t->dims[d])) return -1;
    return t->dims[d].value;
}

enum { ANY_SIZE = 1 << 20 };

bool pl_g_window(pl_grad *c, const pl_value *x, const pl_value *w, pl_window *win) {
    const int n = pl_g_rank(c, x) - 2;
    *win = (pl_window){ 0 };
    if (c->st != PL_OK || n < 1) return false;
    c->st = pl_window_read(c->node, n, win, c->err);
    for (int d = 0; d < n && c->st == PL_OK; d++) {
        if (w != NULL) win->kernel[d] = pl_g_dim(c, w, d + 2);
        const bool open = size_of(x, d + 2) < 0 && win->stride[d] == 1 && w != NULL;
        const int64_t in = open ? ANY_SIZE : pl_g_dim(c, x, d + 2);
        if (c->st == PL_OK) c->st = pl_window_place(c->node, win, d, in, c->err);
    }
    return c->st == PL_OK;
}

int64_t pl_g_window_span(const pl_window *w, int d) {
    return (w->kernel[d] - 1) * w->dilation[d] + 1;
}

pl_value *pl_g_conv_back(pl_grad *c, pl_value *dy, pl_value *w, const pl_window *win,
                         int64_t groups) {
    int64_t pads[2 * PL_RANK_MAX] = { 0 }, more[PL_RANK_MAX] = { 0 };
    const size_t n = (size_t)win->n;
    bool any = false;
    for (int d = 0; d < win->n; d++) {
        /* rest > 0: cut off at the end; rest < 0: read by no window. */
        const int64_t full = (win->out[d] - 1) * win->stride[d] + pl_g_window_span(win, d);
        const int64_t rest = full - win->pad_begin[d] - win->in[d];
        pads[d] = win->pad_begin[d];
        pads[n + (size_t)d] = rest > 0 ? rest : 0;
        more[d] = rest < 0 ? -rest : 0;
        any = any || more[d] > 0;
    }
    const pl_attr attrs[] = { PL_G_INT("group", groups), PL_G_INTS("strides", win->stride, n),
                              PL_G_INTS("dilations", win->dilation, n),
                              PL_G_INTS("pads", pads, 2 * n),
                              PL_G_INTS("output_padding", more, n) };
    pl_value *in[2] = { dy, w };
    return pl_g_op(c, "ConvTranspose", in, 2, attrs, any ? 5 : 4);
}

/* (N, C, …) to (C / groups, groups * N, …), so that the convolution sums over samples. */
static pl_value *by_channel(pl_grad *c, pl_value *x, int64_t groups) {
    const int rank = pl_g_rank(c, x);
    int64_t perm[PL_RANK_MAX + 1], dims[PL_RANK_MAX + 1] = { 0 };
    if (c->st != PL_OK) return NULL;
    for (int d = 0; d < rank; d++)
        perm[d] = d < 2 ? 1 - d : d;
    if (groups == 1) return pl_g_transpose(c, x, perm, (size_t)rank);
    const int64_t channels = pl_g_dim(c, x, 1);
    dims[1] = groups;
    dims[2] = channels / groups;
    for (int d = 2; d < rank; d++)
        dims[d + 1] = pl_g_dim(c, x, d);
    x = pl_g_reshape(c, x, dims, (size_t)rank + 1); /* N, groups, C / groups, … */
    for (int d = 0; d <= rank; d++)
        perm[d] = d < 3 ? 2 - d : d;
    x = pl_g_transpose(c, x, perm, (size_t)rank + 1);
    int64_t flat[PL_RANK_MAX] = { channels / groups, -1 };
    for (int d = 2; d < rank; d++)
        flat[d] = dims[d + 1];
    return pl_g_reshape(c, x, flat, (size_t)rank);
}

/* dL/dw: a convolution of x with dy, in which strides and dilations change places. */
static pl_value *weights_grad(pl_grad *c, pl_value *x, pl_value *dy, const pl_window *win,
                              int64_t groups) {
    const size_t n = (size_t)win->n;
    int64_t pads[2 * PL_RANK_MAX] = { 0 }, swap[PL_RANK_MAX], starts[PL_RANK_MAX] = { 0 },
                     axes[PL_RANK_MAX];
    bool longer = false;
    for (int d = 0; d < win->n; d++) {
        const int64_t need =
            (win->kernel[d] - 1) * win->dilation[d] + (win->out[d] - 1) * win->stride[d] + 1;
        const int64_t end = need - win->in[d] - win->pad_begin[d];
        pads[d] = win->pad_begin[d];
        pads[n + (size_t)d] = end > 0 ? end : 0;
        longer = longer || end < 0;
        axes[d] = d + 2;
    }
    const pl_attr attrs[] = { PL_G_INT("group", groups), PL_G_INTS("strides", win->dilation, n),
                              PL_G_INTS("dilations", win->stride, n),
                              PL_G_INTS("pads", pads, 2 * n) };
    pl_value *in[2] = { by_channel(c, x, groups), by_channel(c, dy, 1) };
    pl_value *y = pl_g_op(c, "Conv", in, 2, attrs, 4);
    if (longer) y = pl_g_slice(c, y, starts, win->kernel, axes, n);
    for (int d = 0; d < win->n + 2; d++)
        swap[d] = d < 2 ? 1 - d : d;
    return pl_g_transpose(c, y, swap, n + 2);
}

static pl_value *bias_grad(pl_grad *c, pl_value *dy) {
    const int rank = pl_g_rank(c, dy);
    int64_t axes[PL_RANK_MAX] = { 0 };
    for (int d = 2; d < rank; d++)
        axes[d - 1] = d;
    return pl_g_reduce(c, "ReduceSum", dy, axes, (size_t)rank - 1, false);
}

static bool wants(const pl_grad *c, uint32_t i) {
    return i < c->node->n_in && c->node->in[i] != NULL && c->wanted[i];
}

pl_status pl_conv_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *w = c->node->in[1], *dy = c->dy[0];
    const int64_t groups = pl_attr_int(c->node, "group");
    pl_window win;
    if ((wants(c, 0) || wants(c, 1)) && !pl_g_window(c, x, w, &win)) return c->st;
    if (wants(c, 0)) c->dx[0] = pl_g_conv_back(c, dy, w, &win, groups);
    if (wants(c, 1)) c->dx[1] = weights_grad(c, x, dy, &win, groups);
    if (wants(c, 2)) c->dx[2] = bias_grad(c, dy);
    return c->st;
}

/* The window of a transposed convolution as that of the convolution from y to x. */
static bool transposed_window(pl_grad *c, const pl_value *x, const pl_value *w, pl_window *win) {
    const int n = pl_g_rank(c, x) - 2;
    pl_tensor tx = { .rank = n + 2 }, tw = { .rank = n + 2 };
    if (c->st != PL_OK || n < 1) return false;
    for (int d = 0; d < n + 2; d++) {
        tw.dims[d] = d < 1 ? 1 : pl_g_dim(c, w, d);
        tx.dims[d] = d < 2 ? 1 : pl_g_dim(c, x, d);
    }
    const pl_eval eval = { .node = c->node, .err = c->err };
    if (c->st == PL_OK) c->st = pl_conv_transpose_window(&eval, &tx, &tw, win);
    for (int d = 0; d < n && c->st == PL_OK; d++) {
        const int64_t in = win->in[d];
        win->in[d] = win->out[d];
        win->out[d] = in;
    }
    return c->st == PL_OK;
}

pl_status pl_conv_transpose_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *w = c->node->in[1], *dy = c->dy[0];
    const int64_t groups = pl_attr_int(c->node, "group");
    pl_window win = { 0 };
    if ((wants(c, 0) || wants(c, 1)) && !transposed_window(c, x, w, &win)) return c->st;
    if (wants(c, 0)) {
        const size_t n = (size_t)win.n;
        int64_t pads[2 * PL_RANK_MAX] = { 0 }, starts[PL_RANK_MAX] = { 0 }, axes[PL_RANK_MAX];
        bool longer = false;
        for (int d = 0; d < win.n; d++) {
            const int64_t full = (win.out[d] - 1) * win.stride[d] + pl_g_window_span(&win, d);
            const int64_t end = full - win.in[d] - win.pad_begin[d];
            pads[d] = win.pad_begin[d];
            pads[n + (size_t)d] = end > 0 ? end : 0;
            longer = longer || -end >= win.stride[d];
            axes[d] = d + 2;
        }
        const pl_attr attrs[] = { PL_G_INT("group", groups), PL_G_INTS("strides", win.stride, n),
                                  PL_G_INTS("dilations", win.dilation, n),
                                  PL_G_INTS("pads", pads, 2 * n) };
        pl_value *in[2] = { dy, w };
        c->dx[0] = pl_g_op(c, "Conv", in, 2, attrs, 4);
        if (longer) c->dx[0] = pl_g_slice(c, c->dx[0], starts, win.out, axes, n);
    }
    if (wants(c, 1)) c->dx[1] = weights_grad(c, dy, x, &win, groups);
    if (wants(c, 2)) c->dx[2] = bias_grad(c, dy);
    return c->st;
}

/* ---- fused activations ---- */

pl_status pl_fused_conv_grad(pl_grad *c) {
    static const char *const names[] = { "auto_pad",     "dilations", "group",
                                         "kernel_shape", "pads",      "strides" };
    const size_t mark = pl_g_mark(c);
    pl_value *y = pl_fused_grad_plain(c, "Conv", 3, names, 6);
    if (c->node->n_in > 3 && c->node->in[3] != NULL) y = pl_g_add(c, y, c->node->in[3]);
    y = pl_fused_grad_activate(c, y);
    return pl_g_expanded(c, mark, &y);
}

/* ---- channels last ---- */

pl_status pl_nhwc_conv_grad(pl_grad *c) {
    static const char *const names[] = { "auto_pad",     "dilations", "group",
                                         "kernel_shape", "pads",      "strides" };
    const pl_node *node = c->node;
    const int rank = pl_g_rank(c, node->in[0]);
    int64_t there[PL_RANK_MAX] = { 0 }, back[PL_RANK_MAX] = { 0 };
    pl_attr attrs[6];
    size_t n = 0;
    if (c->st != PL_OK) return c->st;
    for (int d = 1; d < rank; d++) {
        there[d] = d == 1 ? rank - 1 : d - 1;
        back[d] = d == rank - 1 ? 1 : d + 1;
    }
    for (size_t i = 0; i < 6; i++) {
        const pl_attr *a = pl_node_attr(node, names[i]);
        if (a != NULL) attrs[n++] = *a;
    }
    const size_t mark = pl_g_mark(c);
    pl_value *in[3] = { pl_g_transpose(c, node->in[0], there, (size_t)rank), node->in[1],
                        node->n_in > 2 ? node->in[2] : NULL };
    pl_value *y = pl_g_op(c, "Conv", in, in[2] == NULL ? 2 : 3, attrs, n);
    y = pl_g_transpose(c, y, back, (size_t)rank);
    return pl_g_expanded(c, mark, &y);
}
