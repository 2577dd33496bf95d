/* Gradients of RoiAlign and MaxRoiPool: the forward pass is written in gathers and then
 * differentiated. Of equal largest elements the first one gets the gradient. Regions and batch
 * indices have no gradient (ONNX RoiAlign-16: not differentiable). */
#include "ops/image/region_grad.h"

#include <math.h>

#include "base/size.h"
#include "ops/image/region_rules.h"
#include "ops/lib/grad_nn.h"

static pl_value *line(pl_grad *c, int64_t n, pl_dtype dtype, double first, double step) {
    pl_g_table t;
    if (!pl_g_table_new(c, &t, 1, &n)) return NULL;
    for (int64_t i = 0; i < n; i++)
        t.data[i] = first + step * (double)i;
    return pl_g_table_value(c, &t, dtype);
}

/* Differentiates with respect to X only. */
static pl_status expanded(pl_grad *c, size_t mark, pl_value *y) {
    const bool wanted[3] = { c->wanted[0], false, false };
    pl_grad x_only = *c;
    x_only.wanted = wanted;
    c->st = pl_g_expanded(&x_only, mark, &y);
    return c->st;
}

/* First largest of the n elements along the last axis, keeping the axis with size 1. */
static pl_value *largest_of(pl_grad *c, pl_value *x, int64_t axis, int64_t n) {
    const pl_attr attrs[2] = { PL_G_INT("axis", axis), PL_G_INT("keepdims", 1) };
    pl_value *at = pl_g_op(c, "ArgMax", &x, 1, attrs, 2);
    pl_value *here = pl_g2(c, "Equal", at, line(c, n, PL_I64, 0, 1));
    return pl_g_reduce(c, "ReduceSum", pl_g_keep(c, here, x), &axis, 1, true);
}

/* ---- RoiAlign ---- */

/* Gathers `cells` from the image of each region: (regions, channels, outputs, each). */
static pl_value *gathered(pl_grad *c, pl_value *cells) {
    static const int64_t channels_last[3] = { 0, 2, 1 }, channels_second[4] = { 0, 3, 1, 2 };
    pl_value *x = c->node->in[0];
    const int64_t channels = pl_g_dim(c, x, 1), n = pl_g_dim(c, x, 2) * pl_g_dim(c, x, 3);
    const int64_t outputs = pl_g_dim(c, cells, 2), each = pl_g_dim(c, cells, 3), axes[2] = { 1, 2 };
    if (c->st != PL_OK) return NULL;
    pl_value *rows = pl_g_reshape(c, x, (const int64_t[]){ 0, channels, n }, 3);
    rows = pl_g_transpose(c, rows, channels_last, 3);
    rows = pl_g_reshape(c, rows, (const int64_t[]){ -1, channels }, 2); /* a row per cell */
    pl_value *image = pl_g_mul(c, c->node->in[2], pl_g_int(c, n));
    pl_value *at = pl_g_reshape(c, cells, (const int64_t[]){ -1, outputs, each }, 3);
    at = pl_g_add(c, at, pl_g_unsqueeze(c, image, axes, 2));
    return pl_g_transpose(c, pl_g2(c, "Gather", rows, at), channels_second, 4);
}

pl_status pl_roi_gather_grad(pl_grad *c, pl_value *cells, pl_value *weights, bool largest) {
    const int64_t last = 3;
    const int64_t each = pl_g_dim(c, cells, 3);
    const size_t mark = pl_g_mark(c);
    pl_value *v = pl_g_mul(c, gathered(c, cells), weights);
    v = largest ? largest_of(c, v, 3, each) : pl_g_reduce(c, "ReduceSum", v, &last, 1, true);
    return expanded(c, mark, pl_g_reshape_like(c, v, c->node->out[0]));
}

typedef struct open_axis { /* (regions, outputs * grid) each */
    pl_value *low, *high, *w_low, *w_high;
} open_axis;

/* Sample positions of an axis as graph nodes, as roi_samples in region.c computes them. */
static void open_samples(pl_grad *c, int64_t column, int64_t n_in, int64_t n_out, int64_t grid,
                         open_axis *a) {
    const pl_node *node = c->node;
    pl_value *rois = pl_g_widened(c, node->in[1]);
    const bool half = node->opset >= 16 &&
                      pl_attr_string_is(node, "coordinate_transformation_mode", "half_pixel");
    const double scale = pl_attr_float(node, "spatial_scale"), offset = half ? -0.5 : 0;
    const double step = 1 / (double)(n_out * grid);
    pl_value *from =
        pl_g_plus(c, pl_g_scaled(c, pl_g_cut(c, rois, 1, column, column + 1), scale), offset);
    pl_value *to = pl_g_cut(c, rois, 1, column + 2, column + 3);
    to = pl_g_plus(c, pl_g_scaled(c, to, scale), offset);
    pl_value *size = pl_g_sub(c, to, from);
    if (c->st != PL_OK) return;
    if (!half) size = pl_g2(c, "Max", size, pl_g_number(c, size, 1));
    pl_value *part = line(c, n_out * grid, size->type->dtype, step / 2, step);
    pl_value *at = pl_g_add(c, from, pl_g_mul(c, size, part));
    pl_value *outside = pl_g2(c, "Or", pl_g_below(c, at, -1), pl_g_above(c, at, (double)n_in));
    pl_value *zero = pl_g_number(c, at, 0), *end = pl_g_number(c, at, (double)(n_in - 1));
    at = pl_g3(c, "Where", pl_g2(c, "Or", outside, pl_g_below(c, at, 0)), zero, at);
    pl_value *low = pl_g2(c, "Min", pl_g1(c, "Floor", at), end);
    pl_value *high = pl_g2(c, "Min", pl_g_plus(c, low, 1), end);
    pl_value *last = pl_g_equal(c, low, end);
    a->w_high = pl_g3(c, "Where", last, zero, pl_g_sub(c, at, low));
    a->w_low = pl_g_sub(c, pl_g_number(c, at, 1), a->w_high);
    a->w_high = pl_g3(c, "Where", outside, zero, a->w_high);
    a->w_low = pl_g3(c, "Where", outside, zero, a->w_low);
    a->low = pl_g_cast(c, low, PL_I64);
    a->high = pl_g_cast(c, high, PL_I64);
}

/* Combines rows and columns with `op`: (regions, 1, outputs, grid * grid, 1). */
static pl_value *crossed(pl_grad *c, const char *op, pl_value *y, pl_value *x, const int64_t *n_out,
                         int64_t grid) {
    static const int64_t perm[5] = { 0, 1, 3, 2, 4 };
    const int64_t rows[5] = { 0, n_out[0], grid, 1, 1 }, columns[5] = { 0, 1, 1, n_out[1], grid };
    const int64_t flat[5] = { 0, 1, n_out[0] * n_out[1], grid * grid, 1 };
    y = pl_g_reshape(c, y, rows, 5);
    x = pl_g_reshape(c, x, columns, 5);
    return pl_g_reshape(c, pl_g_transpose(c, pl_g2(c, op, y, x), perm, 5), flat, 5);
}

pl_status pl_roi_align_open_grad(pl_grad *c) {
    const pl_node *node = c->node;
    pl_value *x = node->in[0], *cells[4] = { NULL }, *weights[4] = { NULL };
    const int64_t grid = pl_attr_int(node, "sampling_ratio");
    const int64_t n_out[2] = { pl_attr_int(node, "output_height"),
                               pl_attr_int(node, "output_width") };
    const int64_t n_in[2] = { pl_g_dim(c, x, 2), pl_g_dim(c, x, 3) };
    open_axis a[2] = { { .low = NULL }, { .low = NULL } };
    const bool largest = pl_attr_string_is(node, "mode", "max");
    if (c->st != PL_OK) return c->st;
    if (grid <= 0) return pl_g_fail(c, "needs rois to be constants when sampling_ratio is 0");
    int64_t n = 4; /* samples of a region */
    for (int d = 0; d < 2; d++)
        if (!pl_i64_mul(n, grid, &n) || !pl_i64_mul(n, n_out[d], &n))
            return pl_g_fail(c, "needs a constant that is too large");
    for (int d = 0; d < 2; d++)
        open_samples(c, 1 - d, n_in[d], n_out[d], grid, &a[d]);
    if (c->st != PL_OK) return c->st;
    pl_value *width = pl_g_int(c, n_in[1]);
    for (int k = 0; k < 4 && c->st == PL_OK; k++) {
        pl_value *row = pl_g_mul(c, (k & 2) != 0 ? a[0].high : a[0].low, width);
        cells[k] = crossed(c, "Add", row, (k & 1) != 0 ? a[1].high : a[1].low, n_out, grid);
        weights[k] = crossed(c, "Mul", (k & 2) != 0 ? a[0].w_high : a[0].w_low,
                             (k & 1) != 0 ? a[1].w_high : a[1].w_low, n_out, grid);
    }
    const int64_t flat[4] = { 0, 1, n_out[0] * n_out[1], 4 * grid * grid };
    pl_value *at = pl_g_reshape(c, pl_g_concat(c, cells, 4, 4), flat, 4);
    pl_value *w = pl_g_reshape(c, pl_g_concat(c, weights, 4, 4), flat, 4);
    w = pl_g_cast_like(c, w, x);
    if (!largest) w = pl_g_scaled(c, w, 1 / (double)(grid * grid));
    return pl_roi_gather_grad(c, at, w, largest);
}

/* ---- MaxRoiPool ---- */

/* Rounds halves away from zero; ONNX Round rounds them to even. */
static pl_value *rounded(pl_grad *c, pl_value *x) {
    pl_value *up = pl_g1(c, "Floor", pl_g_plus(c, pl_g1(c, "Abs", x), 0.5));
    return pl_g_cast(c, pl_g_mul(c, pl_g1(c, "Sign", x), up), PL_I64);
}

/* Which cells of an axis each output covers: (regions, n_out, n_in). */
static pl_value *covered(pl_grad *c, int64_t column, int64_t n_in, int64_t n_out) {
    const double scale = pl_attr_float(c->node, "spatial_scale");
    const int64_t axis = 2;
    pl_value *rois = pl_g_widened(c, c->node->in[1]);
    pl_value *from = rounded(c, pl_g_scaled(c, pl_g_cut(c, rois, 1, column, column + 1), scale));
    pl_value *to = rounded(c, pl_g_scaled(c, pl_g_cut(c, rois, 1, column + 2, column + 3), scale));
    pl_value *size = pl_g_plus(c, pl_g_sub(c, to, from), 1), *one = pl_g_int(c, 1);
    /* Not Max, which takes integers only from opset 12 on. */
    size = pl_g3(c, "Where", pl_g2(c, "Less", size, one), one, size);
    pl_value *n = pl_g_int(c, n_out);
    pl_value *first = pl_g_mul(c, size, line(c, n_out, PL_I64, 0, 1)); /* regions, n_out */
    pl_value *end = pl_g_plus(c, pl_g_add(c, first, size), (double)(n_out - 1));
    first = pl_g_add(c, pl_g_div(c, first, n), from);
    end = pl_g_add(c, pl_g_div(c, end, n), from);
    pl_value *cell = line(c, n_in, PL_I64, 0, 1);
    pl_value *before = pl_g2(c, "Less", cell, pl_g_unsqueeze(c, first, &axis, 1));
    pl_value *within = pl_g2(c, "Less", cell, pl_g_unsqueeze(c, end, &axis, 1));
    return pl_g2(c, "And", within, pl_g1(c, "Not", before));
}

/* Columns first, then rows, so that ties go to the first element in the order of the image. */
pl_status pl_max_roi_pool_grad(pl_grad *c) {
    static const int64_t columns[2] = { 1, 2 }, rows[2] = { 1, 3 };
    static const int64_t perm[4] = { 0, 1, 3, 2 };
    pl_value *x = c->node->in[0], *rois = c->node->in[1];
    const int64_t height = pl_g_dim(c, x, 2), width = pl_g_dim(c, x, 3), axis = 3;
    size_t n = 0;
    const int64_t *shape = pl_attr_ints(c->node, "pooled_shape", &n);
    if (c->st != PL_OK || n != 2) return c->st;
    pl_value *in_row = covered(c, 2, height, shape[0]), *in_column = covered(c, 1, width, shape[1]);
    pl_value *batch = pl_g_cast(c, pl_g_cut(c, rois, 1, 0, 1), PL_I64);
    batch = pl_g_reshape(c, batch, (const int64_t[]){ -1 }, 1);
    pl_value *none = pl_g_number(c, x, (double)-INFINITY);
    const size_t mark = pl_g_mark(c);
    pl_value *v = pl_g2(c, "Gather", x, batch); /* regions, channels, height, width */
    v = pl_g_unsqueeze(c, v, &axis, 1);
    v = pl_g3(c, "Where", pl_g_unsqueeze(c, in_column, columns, 2), v, none);
    v = largest_of(c, v, 4, width); /* regions, channels, height, n_x, 1 */
    v = pl_g_transpose(c, pl_g_reshape(c, v, (const int64_t[]){ 0, 0, height, shape[1] }, 4), perm,
                       4);
    v = pl_g_unsqueeze(c, v, (const int64_t[]){ 2 }, 1); /* regions, channels, 1, n_x, height */
    v = pl_g3(c, "Where", pl_g_unsqueeze(c, in_row, rows, 2), v, none);
    v = largest_of(c, v, 4, height); /* regions, channels, n_y, n_x, 1 */
    /* An empty bin is 0, even if the image holds NaN. */
    const pl_attr cast = PL_G_INT("to", PL_I32);
    pl_value *y_any = pl_g_reduce(c, "ReduceMax", pl_g_op(c, "Cast", &in_row, 1, &cast, 1),
                                  (const int64_t[]){ 2 }, 1, true);
    pl_value *x_any = pl_g_reduce(c, "ReduceMax", pl_g_op(c, "Cast", &in_column, 1, &cast, 1),
                                  (const int64_t[]){ 2 }, 1, false);
    pl_value *any = pl_g_mul(c, y_any, pl_g_unsqueeze(c, x_any, (const int64_t[]){ 1 }, 1));
    any = pl_g_unsqueeze(c, pl_g_cast(c, any, PL_BOOL), (const int64_t[]){ 1 }, 1);
    v = pl_g_reshape_like(c, v, c->node->out[0]);
    v = pl_g3(c, "Where", any, v, pl_g_number(c, v, 0));
    return expanded(c, mark, v);
}
