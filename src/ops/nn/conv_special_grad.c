/* Gradients of DeformConv (samples at shifted positions as columns, then a product),
 * CausalConvWithState and Col2Im. */
#include "ops/lib/grad_nn.h"
#include "ops/nn/conv_special_rules.h"

enum { X, W, OFFSET, BIAS, MASK };

typedef struct deform {
    pl_grad *c;
    pl_window win;
    int64_t n_taps, cells, groups, offset_groups, channels, outputs;
    pl_value *offset, *mask; /* (N, rows, cells); mask may be NULL */
    pl_value *like;          /* (N, channels of an offset group, cells) */
} deform;

static bool read_deform(deform *s) {
    pl_grad *c = s->c;
    const pl_node *node = c->node;
    pl_window *w = &s->win;
    const int n = pl_g_rank(c, node->in[X]) - 2;
    if (c->st != PL_OK || n < 1) return false;
    c->st = pl_window_read(node, n, w, c->err);
    for (int d = 0; d < n && c->st == PL_OK; d++) {
        w->kernel[d] = pl_g_dim(c, node->in[W], d + 2);
        const int64_t in = pl_g_dim(c, node->in[X], d + 2);
        if (c->st == PL_OK) c->st = pl_window_place(node, w, d, in, c->err);
    }
    s->groups = pl_attr_int(node, "group");
    s->offset_groups = pl_attr_int(node, "offset_group");
    s->channels = pl_g_dim(c, node->in[X], 1);
    s->outputs = pl_g_dim(c, node->in[W], 0);
    if (c->st != PL_OK) return false;
    s->n_taps = pl_window_taps(w);
    s->cells = pl_window_cells(w);
    return true;
}

/* Row `row` of (N, rows, cells), as (N, 1, cells). */
static pl_value *row_of(const deform *s, pl_value *x, int64_t row) {
    return pl_g_cut(s->c, x, 1, row, row + 1);
}

/* Position of tap `tap` of every cell along axis d before the shift, (1, 1, cells). */
static pl_value *base_of(const deform *s, int d, const int64_t *tap) {
    const pl_window *w = &s->win;
    int64_t cell[PL_RANK_MAX] = { 0 };
    pl_g_table t;
    if (!pl_g_table_new(s->c, &t, 3, (const int64_t[]){ 1, 1, s->cells })) return NULL;
    for (int64_t i = 0; i < s->cells; i++) {
        t.data[i] = (double)(cell[d] * w->stride[d] - w->pad_begin[d] + tap[d] * w->dilation[d]);
        (void)pl_window_next(w->n, w->out, cell);
    }
    return pl_g_table_value(s->c, &t, s->offset->type->dtype);
}

typedef struct place { /* of one axis */
    pl_value *low, *part;
} place;

/* Interpolates: the sum over the corners around a position of weight times element. */
static pl_value *sample(const deform *s, pl_value *image, const place *at) {
    pl_grad *c = s->c;
    const pl_window *w = &s->win;
    pl_value *sum = NULL;
    for (unsigned corner = 0; corner < 1u << w->n && c->st == PL_OK; corner++) {
        pl_value *weight = NULL, *offset = NULL;
        for (int d = 0; d < w->n; d++) {
            const bool up = (corner >> d & 1) != 0;
            const double last = (double)w->in[d] - 1;
            pl_value *i = pl_g_plus(c, at[d].low, up ? 1 : 0), *zero = pl_g_number(c, i, 0);
            pl_value *part =
                up ? at[d].part : pl_g_sub(c, pl_g_number(c, at[d].part, 1), at[d].part);
            pl_value *outside = pl_g2(c, "Or", pl_g2(c, "Less", i, zero),
                                      pl_g2(c, "Greater", i, pl_g_number(c, i, last)));
            part = pl_g_keep(c, pl_g1(c, "Not", outside), part);
            i = pl_g2(c, "Min", pl_g2(c, "Max", i, zero), pl_g_number(c, i, last));
            weight = weight == NULL ? part : pl_g_mul(c, weight, part);
            i = pl_g_cast(c, i, PL_I64);
            offset = offset == NULL ? i : pl_g_add(c, pl_g_scaled(c, offset, (double)w->in[d]), i);
        }
        pl_value *in[2] = { image, pl_g_expand_like(c, offset, s->like) };
        const pl_attr axis = PL_G_INT("axis", 2);
        pl_value *v = pl_g_op(c, "GatherElements", in, 2, &axis, 1);
        v = pl_g_mul(c, v, pl_g_cast_like(c, weight, image));
        sum = sum == NULL ? v : pl_g_add(c, sum, v);
    }
    return sum;
}

/* (N, channels of the group, taps, cells) of one offset group. */
static pl_value *columns_of(deform *s, int64_t group) {
    pl_grad *c = s->c;
    const int64_t each = s->channels / s->offset_groups, axis = 2;
    const int n = s->win.n;
    int64_t tap[PL_RANK_MAX] = { 0 };
    pl_value **list = pl_arena_array(c->graph->model->arena, (size_t)s->n_taps, sizeof(pl_value *));
    if (list == NULL) {
        c->st = pl_fail_memory(c->err, (size_t)s->n_taps);
        return NULL;
    }
    pl_value *image = pl_g_reshape(c, c->node->in[X], (const int64_t[]){ 0, 0, -1 }, 3);
    if (s->offset_groups > 1) image = pl_g_cut(c, image, 1, group * each, (group + 1) * each);
    for (int64_t t = 0; t < s->n_taps && c->st == PL_OK; t++) {
        const int64_t row = group * s->n_taps + t;
        place at[PL_RANK_MAX];
        for (int d = 0; d < n; d++) {
            pl_value *x = pl_g_add(c, base_of(s, d, tap), row_of(s, s->offset, row * n + d));
            at[d].low = pl_g1(c, "Floor", x);
            at[d].part = pl_g_sub(c, x, at[d].low);
        }
        pl_value *v = sample(s, image, at);
        if (s->mask != NULL) v = pl_g_mul(c, v, row_of(s, s->mask, row));
        list[t] = pl_g_unsqueeze(c, v, &axis, 1);
        (void)pl_window_next(n, s->win.kernel, tap);
    }
    return s->n_taps == 1 ? list[0] : pl_g_concat(c, list, (size_t)s->n_taps, 2);
}

pl_status pl_deform_conv_grad(pl_grad *c) {
    static const int64_t rows[3] = { 0, 0, -1 };
    const pl_node *node = c->node;
    deform s = { .c = c };
    pl_value *all = NULL;
    if (!read_deform(&s)) return c->st;
    const int64_t each = s.channels / s.offset_groups;
    const bool mask = node->n_in > MASK && node->in[MASK] != NULL;
    const bool bias = node->n_in > BIAS && node->in[BIAS] != NULL;
    pl_g_table zeros; /* only its shape matters; the batch size comes from X */
    if (!pl_g_table_new(c, &zeros, 3, (const int64_t[]){ 1, 1, s.cells })) return c->st;
    pl_value *line = pl_g_table_value(c, &zeros, node->in[X]->type->dtype);
    pl_value *first = pl_g_cut(c, pl_g_reshape(c, node->in[X], rows, 3), 1, 0, each);
    first = pl_g_cut(c, first, 2, 0, 1); /* (N, each, 1) */
    s.like = pl_g_add(c, pl_g_scaled(c, first, 0), line);
    const size_t mark = pl_g_mark(c);
    s.offset = pl_g_reshape(c, pl_g_widened(c, node->in[OFFSET]), rows, 3);
    if (mask) s.mask = pl_g_reshape(c, node->in[MASK], rows, 3);
    if (c->st != PL_OK) return c->st;
    for (int64_t g = 0; g < s.offset_groups && c->st == PL_OK; g++) {
        pl_value *one = columns_of(&s, g);
        all = all == NULL ? one : pl_g_concat(c, (pl_value *[]){ all, one }, 2, 1);
    }
    const int64_t depth = s.channels / s.groups * s.n_taps;
    const int64_t split[4] = { 0, s.groups, depth, s.cells };
    const int64_t weights[3] = { s.groups, s.outputs / s.groups, depth };
    all = pl_g_reshape(c, all, split, 4);
    pl_value *w = pl_g_reshape(c, node->in[W], weights, 3);
    pl_value *y = pl_g_reshape_like(c, pl_g2(c, "MatMul", w, all), node->out[0]);
    if (bias) y = pl_g_add(c, y, pl_g_channels(c, node->in[BIAS], s.win.n + 2));
    return pl_g_expanded(c, mark, &y);
}

/* ---- CausalConv ---- */

/* Joins past_state (or zeros) and the input into one row and convolves it channel by channel. */
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

/* ---- Col2Im ---- */

/* Reads the blocks of the image back from where they were added: a gather with a list of
 * positions. */
pl_status pl_col2im_grad(pl_grad *c) {
    const pl_tensor *image = pl_g_known(c->node->in[1]), *block = pl_g_known(c->node->in[2]);
    pl_value *x = c->node->in[0], *dy = c->dy[0];
    if (image == NULL || block == NULL)
        return pl_g_fail(c, "needs image_shape and block_shape to be constants");
    if (image->n_elements != block->n_elements)
        return pl_g_fail(c, "needs image_shape and block_shape of one length");
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
            /* Positions outside the image read one zero appended after it. */
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
