/* Convolutions: Conv, ConvTranspose, com.microsoft FusedConv and NhwcConv.
 * The transposed one is in convolve_transpose.c, the integer ones are in quant/integer_conv.c. */
#include "ops/lib/convolve.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/lib/bound_nn.h"
#include "ops/lib/compute.h"
#include "ops/lib/fused.h"
#include "ops/nn/convolve_rules.h"

extern const pl_op_def pl_ops_conv[];

/* ---- Conv ---- */

static pl_status conv_infer(pl_infer *c) {
    PL_TRY(pl_conv_infer_shape(c, 0, 1, pl_infer_dtype_of(c, 0)));
    return pl_conv_check_bias(c, 2, pl_infer_dim(c, 1, 0));
}

/* ONNX Conv-11 does not say whether padding is zeros (times Inf they are NaN) or is left out of the
 * sum; runtimes do both. Leaving it out is the other reading. */
static bool leaves_out_padding(const pl_eval *c) {
    const pl_tensor *w = pl_in(c, 1);
    if (!c->otherwise) return false;
    for (int64_t i = 0; i < w->n_elements; i++)
        if (!isfinite(pl_tensor_get_f64(w, i))) return true;
    return false;
}

/* Does src/kernels support this shape? */
static bool has_kernel(const pl_eval *c, const pl_window *win) {
    return win->n <= 3 && pl_in(c, 0)->n_elements > 0 && pl_in(c, 1)->n_elements > 0 &&
           !leaves_out_padding(c);
}

static pl_status conv_f64(pl_eval *c, const pl_window *win, pl_f64 *y) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    const int64_t groups = pl_attr_int(c->node, "group");
    const bool bias = pl_has(c, 2);
    if (has_kernel(c, win)) {
        const pl_conv_shape s = pl_conv_shape_of(c, win, x, w->dims[0], groups);
        pl_kept *kept = pl_kept_of(c, 1);
        return pl_conv_f64(c->pool, &s, x->data, w->data, bias ? pl_in(c, 2)->data : NULL, y,
                           pl_kept_conv(kept), c->err);
    }
    const pl_f64 *fx = pl_in_f64(c, 0), *fw = pl_in_f64(c, 1), *fb = bias ? pl_in_f64(c, 2) : NULL;
    if (fx == NULL || fw == NULL || (bias && fb == NULL)) return pl_eval_memory(c);
    return pl_conv_any(c, win, x, w->dims[0], groups, fx, fw, fb, y);
}

static pl_status conv_f32(pl_eval *c, const pl_window *win, pl_tensor *y, pl_f32 *fy) {
    const pl_tensor *x = pl_in(c, 0), *w = pl_in(c, 1);
    const bool bias = pl_has(c, 2);
    if (!has_kernel(c, win)) {
        double *sums = pl_scratch(c, (size_t)y->n_elements, sizeof(*sums));
        if (sums == NULL) return pl_eval_memory(c);
        PL_TRY(conv_f64(c, win, sums));
        for (int64_t i = 0; i < y->n_elements; i++)
            fy[i] = (float)sums[i];
        return PL_OK;
    }
    pl_kept *kept = pl_kept_of(c, 1);
    const pl_conv_shape s = pl_conv_shape_of(c, win, x, w->dims[0], pl_attr_int(c->node, "group"));
    const pl_f32 *fx = pl_compute_in_f32(c, 0, NULL), *fw = pl_compute_in_f32(c, 1, kept);
    const pl_f32 *fb = bias ? pl_compute_in_f32(c, 2, NULL) : NULL;
    if (fx == NULL || fw == NULL || (bias && fb == NULL)) return pl_eval_memory(c);
    if (c->naive) return pl_conv_long_f32(c->pool, &s, fx, fw, fb, fy, c->err);
    return pl_conv_f32(c->pool, &s, fx, fw, fb, fy, pl_kept_conv(kept), c->err);
}

/* y = activation(conv + z). */
static pl_status conv_with(pl_eval *c, const pl_fused *fused, int z) {
    pl_tensor *y = pl_out(c, 0);
    pl_window win = { 0 };
    PL_TRY(pl_conv_window(c, pl_in(c, 0), pl_in(c, 1), &win));
    if (y->n_elements == 0) return PL_OK;
    if (y->dtype == PL_F64) {
        pl_f64 *out = y->data;
        PL_TRY(conv_f64(c, &win, out));
        const pl_f64 *add = pl_has(c, z) ? pl_in_f64(c, z) : NULL;
        for (int64_t i = 0; add != NULL && i < y->n_elements; i++)
            out[i] += add[i];
        pl_fused_apply_f64(c->pool, fused, out, y->n_elements);
        return PL_OK;
    }
    pl_f32 *fy = pl_compute_out_f32(c, y);
    if (fy == NULL) return pl_eval_memory(c);
    PL_TRY(conv_f32(c, &win, y, fy));
    if (pl_has(c, z)) {
        const pl_f32 *add = pl_in_f32(c, z);
        if (add == NULL) return pl_eval_memory(c);
        for (int64_t i = 0; i < y->n_elements; i++)
            fy[i] += add[i];
    }
    pl_fused_apply_f32(c->pool, fused, fy, y->n_elements);
    pl_compute_store(c, y, fy);
    return PL_OK;
}

static pl_status conv_eval(pl_eval *c) {
    const pl_fused none = { 0 };
    return conv_with(c, &none, c->n_in);
}

/* Length of the sums: input channels of a group times taps, plus the bias. */
static double conv_depth(const pl_bound *c) {
    const pl_tensor *w = pl_b_in(c, 1);
    const double n = w->dims[0] == 0 ? 0 : (double)w->n_elements / (double)w->dims[0];
    return n + (pl_b_in(c, 2) != NULL);
}

static pl_status conv_bound(pl_bound *c) {
    return pl_b_product_rule(c, 0, 1, 2, conv_depth(c));
}

/* Each output cell gets every input channel through every stride-th tap. */
static pl_status conv_transpose_bound(pl_bound *c) {
    const pl_tensor *w = pl_b_in(c, 1);
    const int64_t groups = pl_attr_int(c->node, "group");
    size_t n = 0;
    const int64_t *strides = pl_attr_ints(c->node, "strides", &n);
    double k = groups < 1 ? 1 : (double)w->dims[0] / (double)groups;
    for (int d = 2; d < w->rank; d++) {
        const int64_t stride = (size_t)d - 2 < n && strides[d - 2] > 0 ? strides[d - 2] : 1;
        const int64_t taps = (w->dims[d] + stride - 1) / stride;
        k *= (double)taps;
    }
    return pl_b_product_rule(c, 0, 1, 2, k + (pl_b_in(c, 2) != NULL));
}

/* ---- FusedConv ---- */

static pl_status fused_conv_infer(pl_infer *c) {
    PL_TRY(conv_infer(c));
    const pl_type *out = c->n_out > 0 ? c->out[0] : NULL;
    if (!pl_infer_has(c, 3) || out == NULL || !out->has_rank || pl_infer_rank(c, 3) < 0) {
        return PL_OK;
    }
    if (pl_infer_rank(c, 3) != out->rank) {
        return pl_infer_fail(c, "input 3 has rank %d, the output %d", pl_infer_rank(c, 3),
                             out->rank);
    }
    for (int d = 0; d < out->rank; d++) {
        const pl_dim have = pl_infer_dim(c, 3, d), want = out->dims[d];
        if (pl_dim_known(have) && pl_dim_known(want) && have.value != want.value) {
            return pl_infer_fail(c, "dim %d of input 3 is %lld, expected %lld like the output", d,
                                 (long long)have.value, (long long)want.value);
        }
    }
    return PL_OK;
}

static pl_status fused_conv_eval(pl_eval *c) {
    size_t n = 0;
    const float *given = pl_attr_floats(c->node, "activation_params", &n);
    double params[2] = { 0, 0 };
    for (size_t i = 0; i < n && i < 2; i++)
        params[i] = (double)given[i];
    pl_fused fused;
    PL_TRY(pl_fused_read(c->node, params, n, &fused, c->err));
    return conv_with(c, &fused, 3);
}

static pl_status fused_conv_bound(pl_bound *c) {
    const char *inputs = pl_b_in(c, 2) == NULL ? "i0, i1" : "i0, i1, i2";
    return pl_b_expand(c, pl_fused_expand(c, "Conv", inputs, pl_b_in(c, 3) == NULL ? NULL : "i3"));
}

/* ---- NhwcConv: Conv with the channels of X and Y last; W is as in Conv ---- */

/* The axis of (N, spatial…, C) that axis d of (N, C, spatial…) is, and the other way round. */
static int last_of(int d, int rank) {
    return d == 0 ? 0 : d == 1 ? rank - 1 : d - 1;
}
static int first_of(int d, int rank) {
    return d == 0 ? 0 : d == rank - 1 ? 1 : d + 1;
}

static pl_status nhwc_conv_infer(pl_infer *c) {
    const int rank = pl_infer_rank(c, 0);
    const pl_dtype dtype = pl_infer_dtype_of(c, 0);
    pl_dim dims[PL_RANK_MAX];
    if (rank < 3) {
        return rank < 0 ? pl_infer_set_unranked(c, 0, dtype)
                        : pl_infer_fail(c, "X has rank %d, expected 3 or more", rank);
    }
    for (int d = 0; d < rank; d++)
        dims[d] = pl_infer_dim(c, 0, last_of(d, rank));
    const pl_type *in[3] = { pl_type_tensor(c->arena, dtype, rank, dims) }, *out[1] = { NULL };
    if (in[0] == NULL) return pl_fail_memory(c->err, sizeof(pl_type));
    for (int i = 1; i < c->n_in && i < 3; i++)
        in[i] = c->in[i];
    pl_infer planes = *c;
    planes.in = in;
    planes.out = out;
    planes.n_out = 1;
    PL_TRY(conv_infer(&planes));
    for (int d = 0; d < rank; d++)
        dims[d] = out[0]->dims[first_of(d, rank)];
    return pl_infer_set(c, 0, dtype, rank, dims);
}

/* A view of t with the axes in another order. */
static pl_status turned(const pl_tensor *t, int (*axis_of)(int d, int rank), pl_tensor **out,
                        pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    for (int d = 0; d < t->rank; d++) {
        dims[d] = t->dims[axis_of(d, t->rank)];
        strides[d] = t->strides[axis_of(d, t->rank)];
    }
    return pl_tensor_view(t, t->rank, dims, strides, 0, out, err);
}

static pl_status nhwc_conv_eval(pl_eval *c) {
    pl_tensor *y = pl_out(c, 0), *view = NULL, *t = NULL;
    pl_datum *in[3] = { NULL }, *out[1] = { NULL };
    pl_status st = PL_OK;
    pl_eval planes = *c;
    if (y->n_elements == 0) return PL_OK;
    PL_TRY_GOTO(done, st, turned(pl_in(c, 0), last_of, &view, c->err));
    PL_TRY_GOTO(done, st, pl_tensor_contiguous(view, &t, c->err));
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(t, &in[0], c->err));
    pl_tensor_unref(view);
    view = NULL;
    int64_t dims[PL_RANK_MAX];
    for (int d = 0; d < y->rank; d++)
        dims[d] = y->dims[last_of(d, y->rank)];
    PL_TRY_GOTO(done, st, pl_tensor_new(y->dtype, y->rank, dims, &t, c->err));
    PL_TRY_GOTO(done, st, pl_datum_of_tensor_take(t, &out[0], c->err));
    for (int i = 1; i < c->n_in && i < 3; i++)
        in[i] = c->in[i];
    planes.in = in;
    planes.out = out;
    PL_TRY_GOTO(done, st, conv_eval(&planes));
    PL_TRY_GOTO(done, st, turned(out[0]->tensor, first_of, &view, c->err));
    pl_tensor_copy_into(view, y->data);
done:
    pl_tensor_unref(view);
    pl_datum_unref(in[0]);
    pl_datum_unref(out[0]);
    return st;
}

static pl_status nhwc_conv_bound(pl_bound *c) {
    const int rank = pl_b_in(c, 0)->rank;
    char there[8 * PL_RANK_MAX] = "0", back[8 * PL_RANK_MAX] = "0";
    for (int d = 1; d < rank; d++) {
        const size_t n = strlen(there), m = strlen(back);
        snprintf(there + n, sizeof(there) - n, ", %d", last_of(d, rank));
        snprintf(back + m, sizeof(back) - m, ", %d", first_of(d, rank));
    }
    const char *bias = pl_b_in(c, 2) == NULL ? "" : ", i2";
    if (pl_b_out(c, 0) == NULL || pl_b_out(c, 0)->n_elements == 0) return PL_OK;
    return pl_b_expand(c, pl_arena_printf(c->scratch,
                                          "(i0, i1%s) => (o0) { t = Transpose<perm=[%s]>(i0) "
                                          "attrs_y = Conv(t, i1%s) "
                                          "o0 = Transpose<perm=[%s]>(attrs_y) }",
                                          bias, there, bias, back));
}

/* ---- rows ---- */

#define WINDOW_ATTRS                                                                               \
    PL_A_STRING("auto_pad", "NOTSET"), PL_A_LIST("dilations", INTS), PL_A_INT("group", 1),         \
        PL_A_LIST("kernel_shape", INTS), PL_A_LIST("pads", INTS), PL_A_LIST("strides", INTS)
#define XWB                                                                                        \
    { "X", PL_T_FLOAT, PL_PORT_SAME }, { "W", PL_T_FLOAT, PL_PORT_SAME }, {                        \
        "B", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL                                           \
    }

/* clang-format off */
const pl_op_def pl_ops_conv[] = {
    { .name = "Conv", .since = 1, .in = PL_PORTS(XWB), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(WINDOW_ATTRS),
      .infer = conv_infer, .eval = conv_eval, .grad = pl_conv_grad, .bound = conv_bound, .emit = pl_emit_conv_rule, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS | PL_OP_OPEN, .weights = PL_WEIGHTS_ROWS,
      .samples = PL_SAMPLES({ "(float[1,2,5,5] x, float[3,2,3,3] w, float[3] b) => (y) { y = Conv<pads=[1,1,1,1], strides=[2,1]>(x, w, b) }", NULL, 0 },
                            { "(float[2,4,7] x, float[4,2,3] w) => (y) { y = Conv<group=2, dilations=[2], auto_pad=\"SAME_LOWER\">(x, w) }", NULL, 0 },
                            { "(float[1,1,3,4,3] x, float[2,1,2,2,2] w) => (y) { y = Conv(x, w) }", NULL, 0 },
                            { "(float[1,2,7,6] x, float[2,2,3,3] w) => (y) { y = Conv<auto_pad=\"SAME_UPPER\", strides=[2,2]>(x, w) }", NULL, 0 },
                            { "(float[2,4,6,6] x, float[8,1,3,3] w, float[8] b) => (y) { y = Conv<group=4, strides=[2,3], pads=[0,1,1,0]>(x, w, b) }", NULL, 0 },
                            { "(float[1,2,9] x, float[2,2,2] w) => (y) { y = Conv<strides=[4]>(x, w) }", NULL, 0 }) },
    { .name = "ConvTranspose", .since = 1, .in = PL_PORTS(XWB), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(WINDOW_ATTRS, PL_A_LIST("output_padding", INTS), PL_A_LIST("output_shape", INTS)),
      .infer = pl_conv_transpose_infer, .eval = pl_conv_transpose_eval, .grad = pl_conv_transpose_grad, .bound = conv_transpose_bound, .emit = pl_emit_conv_transpose, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS, .weights = PL_WEIGHTS_FOLD,
      .samples = PL_SAMPLES({ "(float[1,2,3,3] x, float[2,3,3,3] w, float[3] b) => (y) { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, w, b) }", NULL, 0 },
                            { "(float[1,2,4] x, float[2,2,3] w) => (y) { y = ConvTranspose<group=2, strides=[3], output_shape=[11]>(x, w) }", NULL, 0 },
                            { "(float[1,2,3,4] x, float[2,2,2,3] w) => (y) { y = ConvTranspose<dilations=[2,1], pads=[0,1,1,0]>(x, w) }", NULL, 0 },
                            { "(float[1,1,2,2,3] x, float[1,2,2,2,2] w, float[2] b) => (y) { y = ConvTranspose<strides=[1,2,3], output_padding=[0,1,2]>(x, w, b) }", NULL, 0 },
                            { "(float[1,2,3,3] x, float[2,1,3,3] w) => (y) { y = ConvTranspose<auto_pad=\"SAME_LOWER\", strides=[2,2]>(x, w) }", NULL, 0 }) },
    { .name = "FusedConv", .domain = "com.microsoft", .since = 1, .in = PL_PORTS(XWB, { "Z", PL_T_FLOAT, PL_PORT_SAME | PL_PORT_OPTIONAL }),
      .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }),
      .attrs = PL_ATTRS(WINDOW_ATTRS, PL_A_STRING("activation", ""), PL_A_LIST("activation_params", FLOATS)),
      .infer = fused_conv_infer, .eval = fused_conv_eval, .grad = pl_fused_conv_grad, .bound = fused_conv_bound, .emit = pl_emit_fused_conv, .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS | PL_OP_OPEN,
      .samples = PL_SAMPLES({ "(float[1,2,5] x, float[3,2,3] w, float[3] b, float[1,3,3] z) => (y) { y = com.microsoft.FusedConv<activation=\"Relu\">(x, w, b, z) }", NULL, PL_SAMPLE_NO_GRAD }) },
    { .name = "NhwcConv", .domain = "com.microsoft", .since = 1, .in = PL_PORTS(XWB), .out = PL_PORTS({ "Y", PL_T_FLOAT, 0 }), .attrs = PL_ATTRS(WINDOW_ATTRS),
      .infer = nhwc_conv_infer, .eval = nhwc_conv_eval, .grad = pl_nhwc_conv_grad, .bound = nhwc_conv_bound, PL_EMIT_BREAK("channels come last: a library routine"), .autocast = PL_AMP_LOW, .flags = PL_OP_SUMS | PL_OP_OPEN,
      .samples = PL_SAMPLES({ "(float[1,5,5,2] x, float[3,2,3,3] w, float[3] b) => (y) { y = com.microsoft.NhwcConv<pads=[1,1,1,1], strides=[2,1]>(x, w, b) }", NULL, 0 },
                            { "(float[2,7,4] x, float[4,2,3] w) => (y) { y = com.microsoft.NhwcConv<group=2, dilations=[2]>(x, w) }", NULL, 0 }) },
    { 0 },
};
/* clang-format on */
