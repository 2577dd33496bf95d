/* ConvTranspose-1 to -22: output_shape, output_padding, auto_pad. */
#include "ops/nn/convolve_transpose.h"

#include <string.h>

#include "base/size.h"
#include "ops/lib/compute.h"
#include "ops/lib/convolve.h"
#include "ops/nn/convolve_rules.h"

/* Places dim d: sets out and pad_begin. pl_window_read has limited the sizes. */
static pl_status place(const pl_node *node, pl_window *w, int d, int64_t in, const int64_t *shape,
                       const int64_t *padding, pl_err *err) {
    int64_t full = 0;
    const int64_t span = (w->kernel[d] - 1) * w->dilation[d] + 1, extra = padding[d];
    w->in[d] = in;
    if (in < 1 || !pl_i64_mul(in - 1, w->stride[d], &full) || !pl_i64_add(full, span, &full) ||
        !pl_i64_add(full, extra, &full)) {
        return pl_node_fail(err, PL_E_INVALID, node, "spatial dim %d of the input is %lld", d,
                            (long long)in);
    }
    const bool upper = w->auto_pad == PL_PAD_SAME_UPPER, lower = w->auto_pad == PL_PAD_SAME_LOWER;
    if (shape != NULL || upper || lower) {
        if (shape != NULL) {
            w->out[d] = shape[d];
        } else if (!pl_i64_mul(in, w->stride[d], &w->out[d])) {
            return pl_node_fail(err, PL_E_LIMIT, node, "spatial dim %d is %lld", d, (long long)in);
        }
        const int64_t total = full - w->out[d];
        if (total < 0 && w->out[d] > full + w->stride[d] + span) {
            return pl_node_fail(err, PL_E_INVALID, node,
                                "output_shape[%d] is %lld, but the input reaches only %lld cells",
                                d, (long long)w->out[d], (long long)full);
        }
        /* ConvTranspose-11: SAME_UPPER puts the larger half at the end, other modes at the
         * start. */
        const int64_t kept = total < 0 ? 0 : total;
        w->pad_begin[d] = upper ? kept / 2 : kept - kept / 2;
        w->pad_end[d] = kept - w->pad_begin[d];
    } else {
        w->out[d] = full - w->pad_begin[d] - w->pad_end[d];
    }
    if (w->out[d] < 0 || (shape == NULL && w->out[d] < 1)) {
        return pl_node_fail(err, PL_E_INVALID, node, "the output would have %lld cells in dim %d",
                            (long long)w->out[d], d);
    }
    return PL_OK;
}

typedef struct sizes {
    const int64_t *shape; /* spatial part; NULL: not given */
    int64_t padding[PL_RANK_MAX];
} sizes;

static pl_status read_sizes(const pl_node *node, int n, sizes *out, pl_err *err) {
    size_t n_shape = 0, n_padding = 0;
    const int64_t *shape = pl_attr_ints(node, "output_shape", &n_shape);
    const int64_t *padding = pl_attr_ints(node, "output_padding", &n_padding);
    memset(out, 0, sizeof(*out));
    if (n_padding != 0 && n_padding != (size_t)n) {
        return pl_node_fail(err, PL_E_INVALID, node, "output_padding has %zu elements, expected %d",
                            n_padding, n);
    }
    for (int d = 0; d < n && n_padding != 0; d++) {
        if (padding[d] < 0 || padding[d] > (INT64_C(1) << 30)) {
            return pl_node_fail(err, PL_E_INVALID, node, "output_padding[%d] is %lld", d,
                                (long long)padding[d]);
        }
        out->padding[d] = padding[d];
    }
    if (n_shape == 0) return PL_OK;
    /* Some exporters give the whole shape with N and C. */
    if (n_shape != (size_t)n && n_shape != (size_t)n + 2) {
        return pl_node_fail(err, PL_E_INVALID, node, "output_shape has %zu elements, expected %d",
                            n_shape, n);
    }
    out->shape = shape + (n_shape - (size_t)n);
    for (int d = 0; d < n; d++) {
        if (out->shape[d] < 0 || out->shape[d] > INT64_MAX / 8) {
            return pl_node_fail(err, PL_E_INVALID, node, "output_shape[%d] is %lld", d,
                                (long long)out->shape[d]);
        }
    }
    return PL_OK;
}

static pl_status infer_spatial(pl_infer *c, pl_window *win, pl_dim *out) {
    sizes s;
    PL_TRY(read_sizes(c->node, win->n, &s, c->err));
    const bool given = win->has_kernel;
    for (int d = 0; d < win->n; d++) {
        const pl_dim cells = pl_infer_dim(c, 1, d + 2), in = pl_infer_dim(c, 0, d + 2);
        out[d] = s.shape != NULL ? pl_dim_of(s.shape[d]) : PL_DIM_UNKNOWN;
        if (pl_dim_known(cells)) {
            if (given && cells.value != win->kernel[d]) {
                return pl_infer_fail(c, "kernel_shape[%d] is %lld, but the weights have %lld", d,
                                     (long long)win->kernel[d], (long long)cells.value);
            }
            if (cells.value < 1 || cells.value > INT32_MAX) {
                return pl_infer_fail(c, "a kernel of %lld cells", (long long)cells.value);
            }
            win->kernel[d] = cells.value;
        }
        if (!pl_dim_known(in) || win->kernel[d] == 0) continue;
        PL_TRY(place(c->node, win, d, in.value, s.shape, s.padding, c->err));
        out[d] = pl_dim_of(win->out[d]);
    }
    return PL_OK;
}

pl_status pl_conv_transpose_infer(pl_infer *c) {
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    const int64_t group = pl_attr_int(c->node, "group");
    const int rank_w = pl_infer_rank(c, 1);
    int n = 0;
    pl_window win = { 0 };
    pl_dim out[PL_RANK_MAX];
    if (group < 1) return pl_infer_fail(c, "invalid group %lld", (long long)group);
    PL_TRY(pl_window_rank(c, 0, &n));
    if (n < 0) return pl_infer_set_unranked(c, 0, dtype);
    if (rank_w >= 0 && rank_w != n + 2) {
        return pl_infer_fail(c, "the weights have rank %d, the input %d", rank_w, n + 2);
    }
    PL_TRY(pl_window_read(c->node, n, &win, c->err));
    const pl_dim c_in = pl_infer_dim(c, 0, 1), c_w = pl_infer_dim(c, 1, 0);
    const pl_dim each = pl_infer_dim(c, 1, 1);
    if (pl_dim_known(c_in) && pl_dim_known(c_w) && c_in.value != c_w.value) {
        return pl_infer_fail(c, "the input has %lld channels, the weights %lld",
                             (long long)c_in.value, (long long)c_w.value);
    }
    if (pl_dim_known(c_in) && c_in.value % group != 0) {
        return pl_infer_fail(c, "%lld channels are not divisible by group %lld",
                             (long long)c_in.value, (long long)group);
    }
    out[0] = pl_infer_dim(c, 0, 0);
    out[1] = PL_DIM_UNKNOWN;
    int64_t c_out = 0;
    if (pl_dim_known(each)) {
        if (!pl_i64_mul(each.value, group, &c_out)) return pl_infer_fail(c, "too many channels");
        out[1] = pl_dim_of(c_out);
    }
    PL_TRY(pl_conv_check_bias(c, 2, out[1]));
    PL_TRY(infer_spatial(c, &win, out + 2));
    return pl_infer_set(c, 0, dtype, n + 2, out);
}

pl_status pl_conv_transpose_window(const pl_eval *c, const pl_tensor *x, const pl_tensor *w,
                                   pl_window *out) {
    sizes s;
    PL_TRY(pl_window_read(c->node, x->rank - 2, out, c->err));
    PL_TRY(read_sizes(c->node, out->n, &s, c->err));
    for (int d = 0; d < out->n; d++) {
        out->kernel[d] = w->dims[d + 2];
        PL_TRY(place(c->node, out, d, x->dims[d + 2], s.shape, s.padding, c->err));
    }
    return PL_OK;
}

pl_status pl_conv_transpose_eval(pl_eval *c) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    pl_tensor *y = pl_out(c, 0);
    const bool bias = pl_has(c, 2);
    const int64_t groups = pl_attr_int(c->node, "group");
    pl_window win = { 0 };
    PL_TRY(pl_conv_transpose_window(c, x, w, &win));
    if (y->n_elements == 0) return PL_OK;
    const pl_conv_shape s = pl_conv_shape_of(c, &win, x, y->dims[1], groups);
    if (win.n > 3 || x->n_elements == 0 || w->n_elements == 0) {
        double *out = pl_scratch(c, (size_t)y->n_elements, sizeof(*out));
        const pl_f64 *fx = pl_in_f64(c, 0), *fw = pl_in_f64(c, 1);
        const pl_f64 *fb = bias ? pl_in_f64(c, 2) : NULL;
        if (out == NULL || fx == NULL || fw == NULL || (bias && fb == NULL))
            return pl_eval_memory(c);
        PL_TRY(pl_conv_transpose_any(c, &win, x, y->dims[1], groups, fx, fw, fb, out));
        pl_store_f64(y->dtype, out, y->data, (size_t)y->n_elements);
        return PL_OK;
    }
    if (y->dtype == PL_F64) {
        return pl_conv_transpose_f64(c->pool, &s, x->data, w->data, bias ? pl_in(c, 2)->data : NULL,
                                     y->data, c->err);
    }
    pl_kept *kept = pl_kept_of(c, 1);
    const pl_f32 *fx = pl_compute_in_f32(c, 0, NULL), *fw = pl_compute_in_f32(c, 1, kept);
    const pl_f32 *fb = bias ? pl_compute_in_f32(c, 2, NULL) : NULL;
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fx == NULL || fw == NULL || fy == NULL || (bias && fb == NULL)) return pl_eval_memory(c);
    if (c->naive) {
        PL_TRY(pl_conv_transpose_plain_f32(&s, fx, fw, fb, fy, c->err));
    } else {
        PL_TRY(pl_conv_transpose_f32(c->pool, &s, fx, fw, fb, fy, c->err));
    }
    pl_compute_store(c, y, fy);
    return PL_OK;
}
