/* Gradients of pools: the same windows that were read are written back. */
#include "ops/lib/grad_nn.h"
#include "ops/nn/convolve_grad.h"
#include "ops/nn/pool_rules.h"

/* ---- average and Lp ---- */

/* Adds g, one number per window, back to the elements that the window read. */
static pl_value *spread(pl_grad *c, pl_value *g, const pl_value *x, const pl_window *win) {
    const int64_t channels = pl_g_dim(c, x, 1);
    int64_t dims[PL_RANK_MAX] = { channels, 1 };
    pl_g_table ones;
    for (int d = 0; d < win->n; d++)
        dims[d + 2] = win->kernel[d];
    if (!pl_g_table_new(c, &ones, win->n + 2, dims)) return NULL;
    for (int64_t i = 0; i < ones.n; i++)
        ones.data[i] = 1;
    return pl_g_conv_back(c, g, pl_g_table_value(c, &ones, x->type->dtype), win, channels);
}

pl_status pl_average_pool_grad(pl_grad *c) {
    pl_value *x = c->node->in[0];
    const bool pad = c->node->def->since >= 7 && pl_attr_int(c->node, "count_include_pad") != 0;
    pl_window win;
    int64_t dims[PL_RANK_MAX] = { 1, 1 }, cell[PL_RANK_MAX] = { 0 };
    if (!pl_g_window(c, x, NULL, &win)) return c->st;
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

/* dy y^(1-p); 0 where y is 0, because x is 0 there, too. */
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
    if (!pl_g_window(c, x, NULL, &win)) return c->st;
    c->dx[0] = pl_g_mul(c, slope(c, x, p), spread(c, by_norm(c, p), x, &win));
    return c->st;
}

pl_status pl_global_lp_grad(pl_grad *c) {
    const double p = p_of(c->node);
    c->dx[0] = pl_g_mul(c, slope(c, c->node->in[0], p), by_norm(c, p));
    return c->st;
}

/* ---- maximum ---- */

/* Adds g to `zeros` at the positions in `index`. Before ScatterElements-16, which can add, the
 * caller must ensure that no position occurs twice. */
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

/* Mask of one class of windows: every step-th along each axis, starting at `phase`. */
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

/* Overlapping windows may select the same element. Before opset 16, classes of windows that do not
 * overlap are scattered one by one; windows of other classes write to a spare cell at the end. */
static pl_value *scatter_windows(pl_grad *c, pl_value *x, pl_value *index) {
    int64_t step[PL_RANK_MAX], phase[PL_RANK_MAX] = { 0 }, n_classes = 1;
    pl_value *zeros = pl_g_zeros_like(c, flat(c, x)), *dy = flat(c, c->dy[0]), *sum = NULL;
    pl_window window, *const win = &window;
    if (pl_g_opset(c) >= 16) return scatter(c, zeros, flat(c, index), dy, 0);
    if (!pl_g_window(c, x, NULL, win)) return NULL;
    for (int d = 0; d < win->n; d++) {
        step[d] = (pl_g_window_span(win, d) + win->stride[d] - 1) / win->stride[d];
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
    /* Runs the same pool again for row-major indices. */
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
            return pl_g_fail(c, "is not supported for an output_shape that adds cells");
    }
    pl_value *in[2] = { flat(c, dy), flat(c, index) };
    c->dx[0] = pl_g_reshape_like(c, pl_g_op(c, "Gather", in, 2, NULL, 0), x);
    return c->st;
}
