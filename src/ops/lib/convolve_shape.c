/* Shapes of convolutions, and direct loops for any number of spatial dims. */
#include <string.h>

#include "base/size.h"
#include "ops/emit.h"
#include "ops/lib/convolve.h"

/* ---- shape rule ---- */

/* kernel_shape must agree with the weights; only one of them may be known. */
static pl_status kernel_of(const pl_infer *c, int w, pl_window *win) {
    const bool given = win->has_kernel;
    const int rank = pl_infer_rank(c, w);
    bool known = true;
    for (int d = 0; d < win->n; d++) {
        const pl_dim size = rank < 0 ? PL_DIM_UNKNOWN : pl_infer_dim(c, w, d + 2);
        if (!pl_dim_known(size)) {
            known = known && given;
            continue;
        }
        if (given && size.value != win->kernel[d]) {
            return pl_infer_fail(c, "kernel_shape[%d] is %lld, but the weights have %lld", d,
                                 (long long)win->kernel[d], (long long)size.value);
        }
        if (size.value < 1 || size.value > INT32_MAX) {
            return pl_infer_fail(c, "a kernel of %lld cells", (long long)size.value);
        }
        win->kernel[d] = size.value;
    }
    win->has_kernel = known;
    return PL_OK;
}

static pl_status check_channels(const pl_infer *c, int x, int w) {
    const int64_t group = pl_attr_int(c->node, "group");
    const pl_dim c_in = pl_infer_dim(c, x, 1), c_out = pl_infer_dim(c, w, 0);
    const pl_dim each = pl_infer_dim(c, w, 1);
    if (group < 1) return pl_infer_fail(c, "invalid group %lld", (long long)group);
    if (pl_dim_known(c_out) && c_out.value % group != 0) {
        return pl_infer_fail(c, "%lld output channels are not divisible by group %lld",
                             (long long)c_out.value, (long long)group);
    }
    int64_t expected = 0;
    if (!pl_dim_known(c_in) || !pl_dim_known(each)) return PL_OK;
    if (!pl_i64_mul(each.value, group, &expected) || expected != c_in.value) {
        return pl_infer_fail(c,
                             "the input has %lld channels, the weights %lld in each of %lld groups",
                             (long long)c_in.value, (long long)each.value, (long long)group);
    }
    return PL_OK;
}

pl_status pl_conv_check_bias(const pl_infer *c, int i, pl_dim channels) {
    const int rank = pl_infer_rank(c, i);
    if (rank < 0) return PL_OK;
    if (rank != 1) return pl_infer_fail(c, "input %d (bias) has rank %d, expected 1", i, rank);
    const pl_dim n = pl_infer_dim(c, i, 0);
    if (!pl_dim_known(n) || !pl_dim_known(channels) || n.value == channels.value) return PL_OK;
    return pl_infer_fail(c, "input %d (bias) has %lld values, expected %lld", i, (long long)n.value,
                         (long long)channels.value);
}

pl_status pl_conv_infer_shape(pl_infer *c, int x, int w, pl_dtype dtype) {
    const int rank_w = pl_infer_rank(c, w);
    int n = 0;
    pl_window win = { 0 };
    pl_dim out[PL_RANK_MAX];
    PL_TRY(pl_window_rank(c, x, &n));
    if (n < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank_w >= 0 && rank_w != n + 2) {
        return pl_infer_fail(c, "the weights have rank %d, the input %d", rank_w, n + 2);
    }
    PL_TRY(pl_window_read(c->node, n, &win, c->err));
    PL_TRY(kernel_of(c, w, &win));
    PL_TRY(check_channels(c, x, w));
    out[0] = pl_infer_dim(c, x, 0);
    out[1] = pl_infer_dim(c, w, 0);
    for (int d = 0; d < n; d++) {
        out[d + 2] = PL_DIM_UNKNOWN;
        if (!win.has_kernel) continue;
        PL_TRY(pl_window_dim(c->node, &win, d, pl_infer_dim(c, x, d + 2), &out[d + 2], c->err));
    }
    return pl_infer_set(c, 0, dtype, n + 2, out);
}

/* ---- on real tensors ---- */

pl_status pl_conv_window(const pl_eval *c, const pl_tensor *x, const pl_tensor *w, pl_window *out) {
    PL_TRY(pl_window_read(c->node, x->rank - 2, out, c->err));
    for (int d = 0; d < out->n; d++)
        out->kernel[d] = w->dims[d + 2];
    return pl_window_of(c, x, out);
}

pl_conv_shape pl_conv_shape_of(const pl_eval *c, const pl_window *win, const pl_tensor *x,
                               int64_t c_out, int64_t groups) {
    pl_conv_shape s = { .n_spatial = win->n,
                        .batch = x->dims[0],
                        .c_in = x->dims[1],
                        .c_out = c_out,
                        .groups = groups,
                        .by = c->kernels };
    for (int d = 0; d < win->n && d < 3; d++) {
        s.in[d] = win->in[d];
        s.out[d] = win->out[d];
        s.kernel[d] = win->kernel[d];
        s.stride[d] = win->stride[d];
        s.dilation[d] = win->dilation[d];
        s.pad_begin[d] = win->pad_begin[d];
    }
    return s;
}

/* ---- direct loops ---- */

typedef struct any_job {
    const pl_window *win;
    int64_t c_in, c_out, groups, n_in, n_out, n_taps;
    const pl_f64 *x, *w, *bias;
    pl_f64 *y;
    bool skips; /* padding is skipped, not read as zeros */
} any_job;

static any_job job_of(const pl_window *win, const pl_tensor *xt, int64_t c_out, int64_t groups,
                      const pl_f64 *x, const pl_f64 *w, const pl_f64 *bias, pl_f64 *y) {
    any_job j = { .win = win,
                  .c_in = xt->dims[1],
                  .c_out = c_out,
                  .groups = groups,
                  .n_in = 1,
                  .n_out = pl_window_cells(win),
                  .n_taps = pl_window_taps(win),
                  .x = x,
                  .w = w,
                  .bias = bias,
                  .y = y };
    for (int d = 0; d < win->n; d++)
        j.n_in *= win->in[d];
    return j;
}

/* One plane (batch item and output channel) at a time. */
static void conv_planes(void *ctx, int64_t begin, int64_t end) {
    const any_job *j = ctx;
    const int64_t each = j->c_in / j->groups, per_group = j->c_out / j->groups;
    for (int64_t p = begin; p < end; p++) {
        const int64_t item = p / j->c_out, oc = p % j->c_out;
        const pl_f64 *x = j->x + (item * j->c_in + oc / per_group * each) * j->n_in;
        const pl_f64 *w = j->w + oc * each * j->n_taps;
        pl_f64 *y = j->y + p * j->n_out;
        int64_t cell[PL_RANK_MAX] = { 0 };
        for (int64_t o = 0; o < j->n_out; o++) {
            double sum = 0;
            int64_t tap[PL_RANK_MAX] = { 0 }, at = 0;
            for (int64_t t = 0; t < j->n_taps; t++) {
                const bool inside = pl_window_at(j->win, cell, tap, &at);
                for (int64_t ic = 0; (inside || !j->skips) && ic < each; ic++)
                    sum += (inside ? x[ic * j->n_in + at] : 0) * w[ic * j->n_taps + t];
                (void)pl_window_next(j->win->n, j->win->kernel, tap);
            }
            y[o] = sum + (j->bias != NULL ? j->bias[oc] : 0);
            (void)pl_window_next(j->win->n, j->win->out, cell);
        }
    }
}

pl_status pl_conv_any(pl_eval *c, const pl_window *win, const pl_tensor *xt, int64_t c_out,
                      int64_t groups, const pl_f64 *x, const pl_f64 *w, const pl_f64 *bias,
                      pl_f64 *y) {
    any_job job = job_of(win, xt, c_out, groups, x, w, bias, y);
    job.skips = c->otherwise;
    pl_pool_for(c->pool, xt->dims[0] * c_out, 1, conv_planes, &job);
    return PL_OK;
}

/* Input cell i adds to output i * stride - pad + tap * dilation. `win` is that of the forward
 * convolution from y to x, so its cells are those of x. */
static void transpose_planes(void *ctx, int64_t begin, int64_t end) {
    const any_job *j = ctx;
    const int64_t each = j->c_in / j->groups, per_group = j->c_out / j->groups;
    for (int64_t p = begin; p < end; p++) {
        const int64_t item = p / j->c_out, oc = p % j->c_out, group = oc / per_group;
        const pl_f64 *x = j->x + (item * j->c_in + group * each) * j->n_out;
        pl_f64 *y = j->y + p * j->n_in;
        for (int64_t i = 0; i < j->n_in; i++)
            y[i] = j->bias != NULL ? j->bias[oc] : 0;
        int64_t cell[PL_RANK_MAX] = { 0 };
        for (int64_t o = 0; o < j->n_out; o++) {
            int64_t tap[PL_RANK_MAX] = { 0 }, at = 0;
            for (int64_t t = 0; t < j->n_taps; t++) {
                if (pl_window_at(j->win, cell, tap, &at)) {
                    for (int64_t ic = 0; ic < each; ic++) {
                        const pl_f64 *w =
                            j->w + ((group * each + ic) * per_group + oc % per_group) * j->n_taps;
                        y[at] += x[ic * j->n_out + o] * w[t];
                    }
                }
                (void)pl_window_next(j->win->n, j->win->kernel, tap);
            }
            (void)pl_window_next(j->win->n, j->win->out, cell);
        }
    }
}

pl_status pl_conv_transpose_any(pl_eval *c, const pl_window *win, const pl_tensor *xt,
                                int64_t c_out, int64_t groups, const pl_f64 *x, const pl_f64 *w,
                                const pl_f64 *bias, pl_f64 *y) {
    /* Input and output swapped: y is the input of the forward convolution. */
    pl_window forward = *win;
    memcpy(forward.in, win->out, sizeof(forward.in));
    memcpy(forward.out, win->in, sizeof(forward.out));
    any_job job = job_of(&forward, xt, c_out, groups, x, w, bias, y);
    pl_pool_for(c->pool, xt->dims[0] * c_out, 1, transpose_planes, &job);
    return PL_OK;
}

/* ---- emission ---- */

const char *pl_emit_conv_shape(pl_emit *c, int w, pl_conv_shape *out) {
    pl_window win = { 0 };
    const int n = pl_emit_rank(c, 0) - 2;
    if (n < 1 || n > 3) return "more than three spatial dims";
    if (pl_window_read(c->node, n, &win, NULL) != PL_OK) return "attributes";
    for (int d = 0; d < n; d++) {
        if (!win.has_kernel) win.kernel[d] = pl_emit_dim(c, w, 2 + d);
        if (win.kernel[d] != pl_emit_dim(c, w, 2 + d)) return "kernel_shape";
    }
    win.has_kernel = true;
    for (int d = 0; d < n; d++)
        if (pl_window_place(c->node, &win, d, pl_emit_dim(c, 0, 2 + d), NULL) != PL_OK) {
            return "attributes";
        }
    *out = (pl_conv_shape){ .n_spatial = n,
                            .batch = pl_emit_dim(c, 0, 0),
                            .c_in = pl_emit_dim(c, 0, 1),
                            .c_out = pl_emit_dim(c, w, 0),
                            .groups = pl_attr_int(c->node, "group"),
                            .by = c->kernels };
    for (int d = 0; d < n; d++) {
        out->in[d] = win.in[d];
        out->out[d] = win.out[d];
        out->kernel[d] = win.kernel[d];
        out->stride[d] = win.stride[d];
        out->dilation[d] = win.dilation[d];
        out->pad_begin[d] = win.pad_begin[d];
    }
    return NULL;
}
