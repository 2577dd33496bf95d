/* Gradients of GridSample and AffineGrid. */
#include "ops/image/image_rules.h"
#include "ops/lib/grad_nn.h"

/* ---- GridSample ---- */

enum { TAPS_MAX = 4 };

typedef struct grid {
    pl_grad *c;
    int taps;     /* 1 nearest, 2 linear, 4 cubic */
    char padding; /* 'z'eros, 'b'order, 'r'eflection */
    bool align;
    pl_value *index[PL_RANK_MAX][TAPS_MAX], *weight[PL_RANK_MAX][TAPS_MAX]; /* (N, P) */
} grid;

static pl_value *number(const grid *g, pl_value *like, double x) {
    return pl_g_number(g->c, like, x);
}

static pl_value * not(pl_grad * c, pl_value *x) {
    return pl_g1(c, "Not", x);
}

/* Reflects x at low and high until it is in range. */
static pl_value *reflect(const grid *g, pl_value *x, double low, double high) {
    pl_grad *c = g->c;
    const double range = high - low;
    if (range <= 0) return pl_g_plus(c, pl_g_scaled(c, x, 0), low);
    pl_value *below = pl_g2(c, "Less", x, number(g, x, low));
    pl_value *above = pl_g2(c, "Greater", x, number(g, x, high));
    pl_value *over =
        pl_g3(c, "Where", below, pl_g_sub(c, number(g, x, low), x), pl_g_plus(c, x, -high));
    pl_value *times = pl_g1(c, "Floor", pl_g_scaled(c, over, 1 / range));
    pl_value *rest = pl_g_sub(c, over, pl_g_scaled(c, times, range));
    pl_value *half = pl_g1(c, "Floor", pl_g_scaled(c, times, 0.5));
    pl_value *odd =
        pl_g2(c, "Greater", pl_g_sub(c, times, pl_g_scaled(c, half, 2)), number(g, x, 0.5));
    pl_value *from_low = pl_g2(c, "Xor", below, odd);
    pl_value *moved =
        pl_g3(c, "Where", from_low, pl_g_plus(c, rest, low), pl_g_sub(c, number(g, x, high), rest));
    return pl_g3(c, "Where", pl_g2(c, "Or", below, above), moved, x);
}

static void cubic_weights(const grid *g, pl_value *t, pl_value **w) {
    const double a = -0.75;
    pl_grad *c = g->c;
    pl_value *rest = pl_g_sub(c, number(g, t, 1), t);
    for (int k = 0; k < 4; k++) {
        /* Distance to the tap, within [0, 1] for the inner two and [1, 2] for the outer. */
        pl_value *d = k == 0   ? pl_g_plus(c, t, 1)
                      : k == 1 ? t
                      : k == 2 ? rest
                               : pl_g_plus(c, rest, 1);
        pl_value *d2 = pl_g_mul(c, d, d);
        if (k == 1 || k == 2) {
            w[k] =
                pl_g_plus(c, pl_g_mul(c, pl_g_plus(c, pl_g_scaled(c, d, a + 2), -(a + 3)), d2), 1);
        } else {
            pl_value *cube = pl_g_scaled(c, pl_g_mul(c, d2, d), a);
            pl_value *rest_of = pl_g_add(c, pl_g_scaled(c, d2, -5 * a), pl_g_scaled(c, d, 8 * a));
            w[k] = pl_g_plus(c, pl_g_add(c, cube, rest_of), -4 * a);
        }
    }
}

/* Taps of an axis of `n` cells at coordinates in [-1, 1], computed as in the kernel. */
static void taps_of(grid *g, int axis, pl_value *place, int64_t n) {
    pl_grad *c = g->c;
    const double size = (double)n, low = g->align ? 0 : -0.5, high = size - 1 - low;
    pl_value *x = g->align ? pl_g_scaled(c, pl_g_plus(c, place, 1), (size - 1) / 2)
                           : pl_g_plus(c, pl_g_scaled(c, pl_g_plus(c, place, 1), size / 2), -0.5);
    if (g->taps == 1) x = pl_g1(c, "Round", x);
    if (g->padding == 'r') x = reflect(g, x, low, high);
    if (g->padding == 'b') {
        pl_value *below = pl_g2(c, "Less", x, number(g, x, low));
        pl_value *above = pl_g2(c, "Greater", x, number(g, x, high));
        x = pl_g3(c, "Where", below, number(g, x, 0), x);
        x = pl_g3(c, "Where", above, number(g, x, size - 1), x);
    }
    pl_value *at = pl_g1(c, "Floor", x), *t = pl_g_sub(c, x, at);
    if (g->taps == 2) {
        g->weight[axis][0] = pl_g_sub(c, number(g, t, 1), t);
        g->weight[axis][1] = t;
    } else if (g->taps == 4) {
        cubic_weights(g, t, g->weight[axis]);
    }
    for (int k = 0; k < g->taps; k++) {
        pl_value *i = pl_g_plus(c, at, k - (g->taps == 4 ? 1 : 0));
        if (g->padding == 'z') {
            pl_value *out = pl_g2(c, "Or", pl_g2(c, "Less", i, number(g, i, 0)),
                                  pl_g2(c, "Greater", i, number(g, i, size - 1)));
            pl_value *w = g->taps == 1 ? pl_g_plus(c, pl_g_scaled(c, t, 0), 1) : g->weight[axis][k];
            g->weight[axis][k] = pl_g_keep(c, not(c, out), w);
        } else if (g->padding == 'r') {
            i = reflect(g, i, low, high);
        }
        i = pl_g2(c, "Max", i, number(g, i, 0));
        g->index[axis][k] = pl_g2(c, "Min", i, number(g, i, size - 1));
    }
}

/* Product of the weights, and the offset, of one combination of taps. A NULL weight is 1. */
static void combine(const grid *g, int axes, const int64_t *dims, int choice, pl_value **weight,
                    pl_value **offset) {
    pl_grad *c = g->c;
    *weight = *offset = NULL;
    for (int d = 0; d < axes; d++) {
        const int k = choice % g->taps;
        choice /= g->taps;
        pl_value *w = g->weight[d][k], *i = pl_g_cast(c, g->index[d][k], PL_I64);
        *offset = *offset == NULL ? i : pl_g_add(c, pl_g_scaled(c, *offset, (double)dims[d]), i);
        if (w != NULL) *weight = *weight == NULL ? w : pl_g_mul(c, *weight, w);
    }
}

static void grid_read(grid *g) {
    const pl_node *node = g->c->node;
    g->taps = 2;
    if (pl_attr_string_is(node, "mode", "nearest")) g->taps = 1;
    if (pl_attr_string_is(node, "mode", "cubic") || pl_attr_string_is(node, "mode", "bicubic"))
        g->taps = 4;
    g->padding = pl_attr_string_is(node, "padding_mode", "border")       ? 'b'
                 : pl_attr_string_is(node, "padding_mode", "reflection") ? 'r'
                                                                         : 'z';
    g->align = pl_attr_int(node, "align_corners") != 0;
}

pl_status pl_grid_sample_grad(pl_grad *c) {
    static const int64_t rows[3] = { 0, 0, -1 };
    pl_value *x = c->node->in[0], *places = c->node->in[1], *y = NULL;
    const int axes = pl_g_rank(c, x) - 2;
    int64_t dims[PL_RANK_MAX];
    int n_choices = 1;
    grid g = { .c = c };
    if (c->st != PL_OK || axes < 1) return c->st;
    grid_read(&g);
    for (int d = 0; d < axes; d++) {
        dims[d] = pl_g_dim(c, x, d + 2);
        n_choices *= g.taps;
        if (n_choices > 256) return pl_g_fail(c, "is not supported for this many taps");
    }
    const int64_t flat[3] = { 0, -1, axes }, last = 2, middle = 1;
    pl_value *like = pl_g_reshape(c, c->dy[0], rows, 3); /* N, C, P */
    const size_t mark = pl_g_mark(c);
    pl_value *list = pl_g_reshape(c, pl_g_widened(c, places), flat, 3),
             *image = pl_g_reshape(c, x, rows, 3);
    for (int d = 0; d < axes && c->st == PL_OK; d++) { /* the grid lists the last axis first */
        pl_value *one = pl_g_cut(c, list, 2, axes - 1 - d, axes - d);
        taps_of(&g, d, pl_g_squeeze(c, one, &last, 1), dims[d]);
    }
    for (int i = 0; i < n_choices && c->st == PL_OK; i++) {
        pl_value *w = NULL, *at = NULL;
        combine(&g, axes, dims, i, &w, &at);
        at = pl_g_unsqueeze(c, at, &middle, 1);
        pl_value *in[2] = { image, pl_g_expand_like(c, at, like) };
        const pl_attr axis = PL_G_INT("axis", 2);
        pl_value *v = pl_g_op(c, "GatherElements", in, 2, &axis, 1);
        if (w != NULL) v = pl_g_mul(c, v, pl_g_cast_like(c, pl_g_unsqueeze(c, w, &middle, 1), x));
        y = y == NULL ? v : pl_g_add(c, y, v);
    }
    y = pl_g_reshape_like(c, y, c->node->out[0]);
    return pl_g_expanded(c, mark, &y);
}

/* ---- AffineGrid ---- */

/* The grid is a matrix of coordinates (x, y, z, 1) times theta transposed. */
pl_status pl_affine_grid_grad(pl_grad *c) {
    pl_value *theta = c->node->in[0];
    const pl_tensor *size = pl_g_known(c->node->in[1]);
    if (size == NULL) return pl_g_fail(c, "needs size to be a constant");
    if (size->n_elements != 4 && size->n_elements != 5)
        return pl_g_fail(c, "needs a size of 4 or 5 numbers");
    const int axes = size->n_elements == 5 ? 3 : 2;
    const bool align = pl_attr_int(c->node, "align_corners") != 0;
    int64_t points = 1, dims[3] = { 1, 1, 1 };
    for (int d = 0; d < axes; d++)
        dims[d] = pl_tensor_get_i64(size, d + 2);
    if (!pl_dims_product(axes, dims, &points))
        return pl_g_fail(c, "is not supported for these sizes");
    pl_g_table base;
    if (!pl_g_table_new(c, &base, 2, (const int64_t[]){ points, axes + 1 })) return c->st;
    for (int64_t p = 0; p < points; p++) {
        int64_t rest = p;
        for (int d = axes - 1; d >= 0; d--) {
            const double i = (double)(rest % dims[d]), n = (double)dims[d];
            const double at = !align ? (2 * i + 1) / n - 1 : n == 1 ? 0 : 2 * i / (n - 1) - 1;
            base.data[p * (axes + 1) + axes - 1 - d] = at;
            rest /= dims[d];
        }
        base.data[p * (axes + 1) + axes] = 1;
    }
    pl_value *places = pl_g_table_value(c, &base, theta->type->dtype);
    pl_value *g = pl_g_reshape(c, c->dy[0], (const int64_t[]){ 0, points, axes }, 3);
    c->dx[0] = pl_g2(c, "MatMul", pl_g_swap_last(c, g), places);
    return c->st;
}
