/* Gradients of convolutions and pools: windows that read, and the same windows that write back. */
#include <string.h>

#include "ops/convolve.h"
#include "ops/fused.h"
#include "ops/grad_nn.h"

/* ---- windows ---- */

/* Size of a dim, or -1. */
static int64_t size_of(const pl_value *x, int d) {
    const pl_type *t = x->type;
    if (t == NULL || !t->has_rank || d >= t->rank || !pl_dim_known(t->dims[d])) return -1;
    return t->dims[d].value;
}

enum { ANY_SIZE = 1 << 20 };

/* The window of the node over x with this kernel. Sizes must be known, but along axes that are read
 * in steps of 1: there the rest does not depend on them, and any size stands for all. */
static bool window_of(pl_grad *c, const pl_value *x, const pl_value *w, pl_window *win) {
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

static int64_t span(const pl_window *w, int d) {
    return (w->kernel[d] - 1) * w->dilation[d] + 1;
}

/* Sums what windows read back to where they read it from: dy (N, G.., out…) through weights. */
static pl_value *conv_back(pl_grad *c, pl_value *dy, pl_value *w, const pl_window *win,
                           int64_t groups) {
    int64_t pads[2 * PL_RANK_MAX] = { 0 }, more[PL_RANK_MAX] = { 0 };
    const size_t n = (size_t)win->n;
    bool any = false;
    for (int d = 0; d < win->n; d++) {
        /* What is cut off at the end, or what no window has read. */
        const int64_t full = (win->out[d] - 1) * win->stride[d] + span(win, d);
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

/* (N, C, …) as (C / groups, groups * N, …): samples become what is summed over. */
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

/* dL/dw of a convolution of x whose results have the gradient dy: where both are swapped, strides
 * and dilations are too. */
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
    if ((wants(c, 0) || wants(c, 1)) && !window_of(c, x, w, &win)) return c->st;
    if (wants(c, 0)) c->dx[0] = conv_back(c, dy, w, &win, groups);
    if (wants(c, 1)) c->dx[1] = weights_grad(c, x, dy, &win, groups);
    if (wants(c, 2)) c->dx[2] = bias_grad(c, dy);
    return c->st;
}

/* The window of a transposed convolution, seen as the convolution that reads y and gives x. */
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
            const int64_t full = (win.out[d] - 1) * win.stride[d] + span(&win, d);
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

static pl_value *fused_activation(pl_grad *c, pl_value *x) {
    const pl_string name = pl_attr_string(c->node, "activation");
    char word[24];
    double params[2] = { 0, 0 };
    if (c->st != PL_OK || name.n_bytes == 0) return x;
    const size_t n = name.n_bytes < sizeof(word) - 1 ? name.n_bytes : sizeof(word) - 1;
    memcpy(word, name.data, n);
    word[n] = '\0';
    c->st = pl_fused_params(c->node, params, c->err);
    return pl_g_activate(c, word, params[0], params[1], x);
}

/* `op` of the first inputs with the node's attributes that it knows. */
static pl_value *plain_node(pl_grad *c, const char *op, size_t n_in, const char *const *names,
                            size_t n_names) {
    pl_attr attrs[8];
    size_t n = 0;
    for (size_t i = 0; i < n_names && n < 8; i++) {
        const pl_attr *a = pl_node_attr(c->node, names[i]);
        if (a != NULL) attrs[n++] = *a;
    }
    while (n_in > 2 && (n_in > c->node->n_in || c->node->in[n_in - 1] == NULL))
        n_in--;
    return pl_g_op(c, op, c->node->in, n_in, attrs, n);
}

pl_status pl_fused_conv_grad(pl_grad *c) {
    static const char *const names[] = { "auto_pad",     "dilations", "group",
                                         "kernel_shape", "pads",      "strides" };
    const size_t mark = pl_g_mark(c);
    pl_value *y = plain_node(c, "Conv", 3, names, 6);
    if (c->node->n_in > 3 && c->node->in[3] != NULL) y = pl_g_add(c, y, c->node->in[3]);
    y = fused_activation(c, y);
    return pl_g_expanded(c, mark, &y);
}

pl_status pl_fused_gemm_grad(pl_grad *c) {
    static const char *const names[] = { "alpha", "beta", "transA", "transB" };
    const size_t mark = pl_g_mark(c);
    pl_value *y = fused_activation(c, plain_node(c, "Gemm", 3, names, 4));
    return pl_g_expanded(c, mark, &y);
}

/* past_state (or zeros) and the input in one row, convolved channel by channel. */
pl_status pl_causal_conv_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *w = node->in[1];
    const bool past = node->n_in > 3 && node->in[3] != NULL;
    const bool bias = node->n_in > 2 && node->in[2] != NULL;
    const int64_t k = pl_g_dim(c, w, 2), channels = pl_g_dim(c, w, 0);
    const size_t mark = pl_g_mark(c);
    if (past) {
        x = pl_g_concat(c, (pl_value *[]){ node->in[3], x }, 2, 2);
    } else if (k > 1) {
        const int64_t pads[6] = { 0, 0, k - 1, 0, 0, 0 };
        x = pl_g2(c, "Pad", x, pl_g_ints(c, pads, 6));
    }
    pl_value *in[3] = { x, w, bias ? node->in[2] : NULL };
    const pl_attr group = PL_G_INT("group", channels);
    pl_value *y[2] = { pl_g_op(c, "Conv", in, bias ? 3 : 2, &group, 1), NULL };
    if (pl_attr_string_is(node, "activation", "silu") ||
        pl_attr_string_is(node, "activation", "swish"))
        y[0] = pl_g_activate(c, "Swish", 0, 0, y[0]);
    if (node->n_out > 1 && node->out[1] != NULL && c->dy[1] != NULL)
        y[1] = pl_g_cut(c, x, 2, pl_g_dim(c, node->in[0], 2), INT64_MAX);
    return pl_g_expanded(c, mark, y);
}

/* Blocks cut out of the image where they were added: a gather with a list of places. */
pl_status pl_col2im_grad(pl_grad *c) {
    const pl_tensor *image = pl_g_known(c->node->in[1]), *block = pl_g_known(c->node->in[2]);
    pl_value *x = c->node->in[0], *dy = c->dy[0];
    if (image == NULL || block == NULL)
        return pl_g_fail(c, "needs image_shape and block_shape to be constants");
    pl_window w = { 0 };
    const int n = (int)image->n_elements;
    int64_t cells = 1;
    c->st = pl_window_read(c->node, n, &w, c->err);
    for (int d = 0; d < n && c->st == PL_OK; d++) {
        w.kernel[d] = pl_tensor_get_i64(block, d);
        c->st = pl_window_place(c->node, &w, d, pl_tensor_get_i64(image, d), c->err);
        cells *= w.in[d];
    }
    if (c->st != PL_OK) return c->st;
    const int64_t taps = pl_window_taps(&w), n_out = pl_window_cells(&w);
    int64_t tap[PL_RANK_MAX] = { 0 };
    pl_g_table places;
    if (!pl_g_table_new(c, &places, 1, (const int64_t[]){ taps * n_out })) return c->st;
    for (int64_t t = 0; t < taps; t++) {
        int64_t cell[PL_RANK_MAX] = { 0 };
        for (int64_t o = 0; o < n_out; o++) {
            int64_t at = 0;
            /* One zero stands behind the image for what lies outside. */
            places.data[t * n_out + o] = (double)(pl_window_at(&w, cell, tap, &at) ? at : cells);
            (void)pl_window_next(w.n, w.out, cell);
        }
        (void)pl_window_next(w.n, w.kernel, tap);
    }
    pl_value *flat = pl_g_reshape(c, dy, (const int64_t[]){ 0, 0, -1 }, 3);
    flat = pl_g2(c, "Pad", flat, pl_g_ints(c, (const int64_t[]){ 0, 0, 0, 0, 0, 1 }, 6));
    pl_value *in[2] = { flat, pl_g_table_value(c, &places, PL_I64) };
    const pl_attr axis = PL_G_INT("axis", 2);
    c->dx[0] = pl_g_reshape_like(c, pl_g_op(c, "Gather", in, 2, &axis, 1), x);
    return c->st;
}

/* ---- average and Lp pools ---- */

/* Sums g, one number for each window, back to where the windows have read. */
static pl_value *spread(pl_grad *c, pl_value *g, const pl_value *x, const pl_window *win) {
    const int64_t channels = pl_g_dim(c, x, 1);
    int64_t dims[PL_RANK_MAX] = { channels, 1 };
    pl_g_table ones;
    for (int d = 0; d < win->n; d++)
        dims[d + 2] = win->kernel[d];
    if (!pl_g_table_new(c, &ones, win->n + 2, dims)) return NULL;
    for (int64_t i = 0; i < ones.n; i++)
        ones.data[i] = 1;
    return conv_back(c, g, pl_g_table_value(c, &ones, x->type->dtype), win, channels);
}

pl_status pl_average_pool_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const bool pad = c->node->def->since >= 7 && pl_attr_int(c->node, "count_include_pad") != 0;
    pl_window win;
    int64_t dims[PL_RANK_MAX] = { 1, 1 }, cell[PL_RANK_MAX] = { 0 };
    if (!window_of(c, x, NULL, &win)) return c->st;
    for (int d = 0; d < win.n; d++)
        dims[d + 2] = win.out[d];
    pl_g_table counts;
    if (!pl_g_table_new(c, &counts, win.n + 2, dims)) return c->st;
    for (int64_t i = 0; i < counts.n; i++) {
        counts.data[i] = 1;
        for (int d = 0; d < win.n; d++) {
            int64_t first = 0, last = 0;
            pl_window_taps_in(&win, d, cell[d], pad ? -win.pad_begin[d] : 0,
                              win.in[d] + (pad ? win.pad_end[d] : 0), &first, &last);
            counts.data[i] *= (double)(last > first ? last - first : 1);
        }
        (void)pl_window_next(win.n, win.out, cell);
    }
    pl_value *g = pl_g_div(c, c->dy[0], pl_g_table_value(c, &counts, x->type->dtype));
    c->dx[0] = spread(c, g, x, &win);
    return c->st;
}

pl_status pl_global_average_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *dy = c->dy[0];
    c->dx[0] = pl_g_expand_like(c, pl_g_shared(c, dy, x, c->node->out[0]), x);
    return c->st;
}

static double p_of(const pl_node *node) {
    return node->def->until == 1 ? pl_attr_float(node, "p") : (double)pl_attr_int(node, "p");
}

/* dy y^(1-p), 0 where y is: there x is 0 too. */
static pl_value *by_norm(pl_grad *c, double p) {
    if (p == 1) return c->dy[0];
    pl_value *y = c->node->out[0], *zero = pl_g_number(c, y, 0);
    pl_value *is_zero = pl_g_equal(c, y, zero);
    pl_value *safe = pl_g3(c, "Where", is_zero, pl_g_number(c, y, 1), y);
    pl_value *g = pl_g_mul(c, c->dy[0], pl_g2(c, "Pow", safe, pl_g_number(c, y, 1 - p)));
    return pl_g3(c, "Where", is_zero, zero, g);
}

/* sign(x) |x|^(p-1) */
static pl_value *slope(pl_grad *c, pl_value *x, double p) {
    if (p == 2) return x;
    pl_value *sign = pl_g1(c, "Sign", x);
    if (p == 1) return sign;
    return pl_g_mul(c, sign, pl_g2(c, "Pow", pl_g1(c, "Abs", x), pl_g_number(c, x, p - 1)));
}

pl_status pl_lp_pool_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const double p = p_of(c->node);
    pl_window win;
    if (!window_of(c, x, NULL, &win)) return c->st;
    c->dx[0] = pl_g_mul(c, slope(c, x, p), spread(c, by_norm(c, p), x, &win));
    return c->st;
}

pl_status pl_global_lp_grad(pl_grad *c) {
    const double p = p_of(c->node);
    c->dx[0] = pl_g_mul(c, slope(c, c->node->in[0], p), by_norm(c, p));
    return c->st;
}

/* ---- maximum ---- */

/* zeros with g added at the places in `index`. Before ScatterElements-16, which adds, the caller
 * sees to it that no place stands twice. */
static pl_value *scatter(pl_grad *c, pl_value *zeros, pl_value *index, pl_value *g, int64_t axis) {
    const pl_attr attrs[2] = { PL_G_INT("axis", axis), PL_G_STRING("reduction", "add") };
    pl_value *in[3] = { zeros, index, g };
    const int opset = pl_g_opset(c);
    if (opset < 9) {
        (void)pl_g_fail(c, "needs opset 9 (Scatter)");
        return NULL;
    }
    return pl_g_op(c, opset < 11 ? "Scatter" : "ScatterElements", in, 3, attrs,
                   opset >= 16 ? 2 : 1);
}

static pl_value *flat(pl_grad *c, pl_value *x) {
    return pl_g_reshape(c, x, (const int64_t[]){ -1 }, 1);
}

/* 1 for the windows of one class: every step-th along each axis, from `phase` on. */
static pl_value *class_of(pl_grad *c, const pl_window *win, const int64_t *phase,
                          const int64_t *step) {
    int64_t dims[PL_RANK_MAX] = { 1, 1 }, cell[PL_RANK_MAX] = { 0 };
    pl_g_table mask;
    for (int d = 0; d < win->n; d++)
        dims[d + 2] = win->out[d];
    if (!pl_g_table_new(c, &mask, win->n + 2, dims)) return NULL;
    for (int64_t i = 0; i < mask.n; i++) {
        bool in = true;
        for (int d = 0; d < win->n; d++)
            in = in && cell[d] % step[d] == phase[d];
        mask.data[i] = in;
        (void)pl_window_next(win->n, win->out, cell);
    }
    return pl_g_table_value(c, &mask, PL_BOOL);
}

/* Windows that overlap may pick one element twice. Before opset 16, classes of windows that do not
 * overlap are scattered one after another; the others go to a cell behind the last. */
static pl_value *scatter_windows(pl_grad *c, pl_value *x, pl_value *index) {
    int64_t step[PL_RANK_MAX], phase[PL_RANK_MAX] = { 0 }, n_classes = 1;
    pl_value *zeros = pl_g_zeros_like(c, flat(c, x)), *dy = flat(c, c->dy[0]), *sum = NULL;
    pl_window window, *const win = &window;
    if (pl_g_opset(c) >= 16) return scatter(c, zeros, flat(c, index), dy, 0);
    if (!window_of(c, x, NULL, win)) return NULL;
    for (int d = 0; d < win->n; d++) {
        step[d] = (span(win, d) + win->stride[d] - 1) / win->stride[d];
        if (step[d] > win->out[d]) step[d] = win->out[d];
        n_classes *= step[d];
    }
    if (n_classes <= 1) return scatter(c, zeros, flat(c, index), dy, 0);
    const pl_value *like = x;
    pl_value *behind = pl_g_size(c, x, index);
    pl_value *one = pl_g_reshape(c, pl_g_number(c, like, 0), (const int64_t[]){ 1 }, 1);
    zeros = pl_g_concat(c, (pl_value *[]){ zeros, one }, 2, 0);
    for (int64_t k = 0; k < n_classes && c->st == PL_OK; k++) {
        pl_value *at = pl_g3(c, "Where", class_of(c, win, phase, step), index, behind);
        pl_value *part = scatter(c, zeros, flat(c, at), dy, 0);
        sum = sum == NULL ? part : pl_g_add(c, sum, part);
        (void)pl_window_next(win->n, step, phase);
    }
    return pl_g_cut(c, sum, 0, 0, -1);
}

pl_status pl_max_pool_grad(pl_grad *c) {
    static const char *const names[] = { "auto_pad",     "ceil_mode", "dilations",
                                         "kernel_shape", "pads",      "strides" };
    pl_value *x = c->node->in[0], *out[2] = { PL_G_WANTED, PL_G_WANTED };
    pl_attr attrs[6];
    size_t n = 0;
    if (c->dy[0] == NULL) return PL_OK;
    for (size_t i = 0; i < 6; i++) {
        const pl_attr *a = pl_node_attr(c->node, names[i]);
        if (a != NULL) attrs[n++] = *a;
    }
    /* The same pool again, with indices in the order of the elements. */
    PL_TRY(pl_g_ops(c, "MaxPool", "", &x, 1, attrs, n, out, 2));
    c->dx[0] = pl_g_reshape_like(c, scatter_windows(c, x, out[1]), x);
    return c->st;
}

pl_status pl_global_max_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const int64_t planes[3] = { 0, 0, -1 };
    pl_value *rows = pl_g_reshape(c, x, planes, 3), *dy = pl_g_reshape(c, c->dy[0], planes, 3);
    const pl_attr axis = PL_G_INT("axis", 2);
    pl_value *index = pl_g_op(c, "ArgMax", &rows, 1, &axis, 1);
    c->dx[0] = pl_g_reshape_like(c, scatter(c, pl_g_zeros_like(c, rows), index, dy, 2), x);
    return c->st;
}

pl_status pl_max_unpool_grad(pl_grad *c) {
    pl_value *x = c->node->in[0], *index = c->node->in[1], *dy = c->dy[0];
    pl_window win = { 0 };
    const int n = pl_g_rank(c, x) - 2;
    if (c->st != PL_OK) return c->st;
    PL_TRY(pl_window_read(c->node, n, &win, c->err));
    for (int d = 0; d < n && c->node->n_in > 2 && c->node->in[2] != NULL; d++) {
        const int64_t own = (pl_g_dim(c, x, d + 2) - 1) * win.stride[d] + win.kernel[d] -
                            win.pad_begin[d] - win.pad_end[d];
        if (c->st == PL_OK && own != pl_g_dim(c, dy, d + 2))
            return pl_g_fail(c, "is not there for an output_shape that adds cells");
    }
    pl_value *in[2] = { flat(c, dy), flat(c, index) };
    c->dx[0] = pl_g_reshape_like(c, pl_g_op(c, "Gather", in, 2, NULL, 0), x);
    return c->st;
}
