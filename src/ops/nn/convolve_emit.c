/* Emission of convolutions: calls of src/kernels, on views where possible. */
#include "ops/emit.h"
#include "ops/lib/convolve.h"
#include "ops/lib/fused.h"
#include "ops/nn/convolve_rules.h"
#include "ops/nn/convolve_transpose.h"

/* ---- convolutions ---- */

static const char *conv_of(pl_emit *c, pl_ref *y) {
    pl_emit_conv conv = { .x = pl_emit_wide(c, 0), .w = pl_emit_wide(c, 1), .bias = -1 };
    const char *wrong = pl_emit_conv_shape(c, 1, &conv.shape);
    if (wrong != NULL) return wrong;
    if (pl_emit_has(c, 2)) conv.bias = pl_emit_wide(c, 2);
    if (conv.x < 0 || conv.w < 0 || (pl_emit_has(c, 2) && conv.bias < 0)) return "no memory";
    *y = c->builder->conv(c, &conv);
    return NULL;
}

pl_status pl_emit_conv_rule(pl_emit *c) {
    pl_ref y = -1;
    const char *wrong = conv_of(c, &y);
    return wrong != NULL ? pl_emit_decline(c, wrong) : pl_emit_out(c, 0, y);
}

/* com.microsoft FusedConv: + Z, then the activation. */
pl_status pl_emit_fused_conv(pl_emit *c) {
    pl_ref y = -1;
    const char *wrong = conv_of(c, &y);
    if (wrong != NULL) return pl_emit_decline(c, wrong);
    if (pl_emit_has(c, 3)) {
        y = pl_emit_map2(c, pl_emit_compute(c->out[0]->dtype), "$0 + $1", y, pl_emit_in(c, 3));
    }
    return pl_fused_emit(c, y);
}

/* ---- transposed ---- */

typedef struct transposed {
    pl_conv_shape shape;
    bool bias, is_f64;
} transposed;

static pl_status run_transposed(const pl_emit_args *a, pl_err *err) {
    const transposed *q = a->params;
    const void *bias = q->bias ? a->in[2] : NULL;
    return q->is_f64
               ? pl_conv_transpose_f64(a->pool, &q->shape, a->in[0], a->in[1], bias, a->out, err)
               : pl_conv_transpose_f32(a->pool, &q->shape, a->in[0], a->in[1], bias, a->out, err);
}

/* Computes the window again as the shape rule does, from tensors that have only a shape. */
static pl_status transposed_window(pl_emit *c, pl_window *win) {
    static const char nowhere[16];
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_tensor *t[2] = { NULL, NULL };
    pl_status st = PL_OK;
    for (int i = 0; i < 2 && st == PL_OK; i++) {
        pl_emit_in_dims(c, i, dims);
        st = pl_tensor_borrow(c->in[i]->dtype, c->in[i]->rank, dims, nowhere, NULL, NULL, &t[i],
                              NULL);
    }
    const pl_eval eval = { .node = c->node };
    if (st == PL_OK) st = pl_conv_transpose_window(&eval, t[0], t[1], win);
    pl_tensor_unref(t[0]);
    pl_tensor_unref(t[1]);
    return st;
}

pl_status pl_emit_conv_transpose(pl_emit *c) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_window win = { 0 };
    const int n = pl_emit_rank(c, 0) - 2;
    const pl_dtype dtype = pl_emit_compute(c->in[0]->dtype);
    transposed q = { .bias = pl_emit_has(c, 2), .is_f64 = dtype == PL_F64 };
    if (n < 1 || n > 3) return pl_emit_decline(c, "more than three spatial dims");
    if (transposed_window(c, &win) != PL_OK) return pl_emit_decline(c, "attributes");
    pl_emit_out_dims(c, 0, dims);
    q.shape = (pl_conv_shape){ .n_spatial = n,
                               .batch = pl_emit_dim(c, 0, 0),
                               .c_in = pl_emit_dim(c, 0, 1),
                               .c_out = dims[1],
                               .groups = pl_attr_int(c->node, "group"),
                               .by = c->kernels };
    for (int d = 0; d < n; d++) {
        q.shape.in[d] = win.in[d];
        q.shape.out[d] = win.out[d];
        q.shape.kernel[d] = win.kernel[d];
        q.shape.stride[d] = win.stride[d];
        q.shape.dilation[d] = win.dilation[d];
        q.shape.pad_begin[d] = win.pad_begin[d];
    }
    const pl_ref args[3] = { pl_emit_wide(c, 0), pl_emit_wide(c, 1),
                             q.bias ? pl_emit_wide(c, 2) : -1 };
    const pl_emit_kernel kernel = { .what = "a transposed convolution",
                                    .run = run_transposed,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = dtype,
                                    .rank = n + 2,
                                    .dims = dims };
    return pl_emit_out(c, 0, pl_emit_kernel_call(c, &kernel, q.bias ? 3 : 2, args));
}
