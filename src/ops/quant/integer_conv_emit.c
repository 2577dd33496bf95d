/* Emission of convolutions of 8-bit integers: ConvInteger, QLinearConv. */
#include "ops/emit.h"
#include "ops/lib/convolve.h"
#include "ops/quant/integer_conv_rules.h"
#include "ops/quant/quantize_emit.h"

typedef struct inputs {
    int a, a_zero, b, b_zero;
} inputs;

typedef struct convolution {
    pl_conv_shape shape;
    bool x_signed, w_signed, has_x, has_w, per_channel;
} convolution;

static pl_status run_convolution(const pl_emit_args *a, pl_err *err) {
    const convolution *q = a->params;
    const int32_t x_zero = q->has_x ? *(const pl_i32 *)a->in[2] : 0;
    const pl_i32 *wz = q->has_w ? a->in[q->has_x ? 3 : 2] : NULL;
    return pl_conv_i8(a->pool, &q->shape, a->in[0], q->x_signed, x_zero, a->in[1], q->w_signed,
                      (pl_gemm_i8_zero){ wz, q->per_channel, 0 }, a->out, err);
}

static pl_ref convolution_of(pl_emit *c, const inputs *in) {
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_ref args[4] = { pl_emit_in(c, in->a), pl_emit_in(c, in->b) };
    int n = 2;
    convolution q = { .x_signed = c->in[in->a]->dtype == PL_I8,
                      .w_signed = c->in[in->b]->dtype == PL_I8,
                      .has_x = pl_emit_has(c, in->a_zero),
                      .has_w = pl_emit_has(c, in->b_zero) };
    const char *wrong = pl_emit_conv_shape(c, in->b, &q.shape);
    if (wrong != NULL) (void)pl_emit_decline(c, wrong);
    if (wrong != NULL) return -1;
    q.per_channel = q.has_w && pl_emit_elements(c->in[in->b_zero]) > 1;
    if (q.has_x) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->a_zero), PL_I32);
    if (q.has_w) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->b_zero), PL_I32);
    pl_emit_out_dims(c, 0, dims);
    const pl_emit_kernel kernel = { .what = "a convolution of 8-bit integers",
                                    .run = run_convolution,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = PL_I32,
                                    .rank = c->out[0]->rank,
                                    .dims = dims };
    return pl_emit_kernel_call(c, &kernel, n, args);
}

pl_status pl_emit_conv_integer(pl_emit *c) {
    static const inputs in = { 0, 2, 1, 3 };
    return pl_emit_out(c, 0, convolution_of(c, &in));
}

pl_status pl_emit_qlinear_conv(pl_emit *c) {
    enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };
    static const inputs in = { X, X_ZERO, W, W_ZERO };
    const int rank = pl_emit_rank(c, X);
    pl_ref acc = convolution_of(c, &in);
    if (pl_emit_has(c, BIAS)) {
        const pl_ref bias = pl_emit_along(c, pl_emit_in(c, BIAS), rank - 1, 0);
        acc = pl_emit_map2(c, PL_I32, "(uint32_t)$0 + (uint32_t)$1", acc, bias);
    }
    const pl_ref w = pl_emit_in(c, W_SCALE);
    return pl_emit_requantised(
        c, acc, pl_emit_scalar(c, pl_emit_in(c, X_SCALE)),
        pl_emit_elements(c->in[W_SCALE]) == 1 ? pl_emit_scalar(c, w)
                                              : pl_emit_along(c, w, rank - 1, 0),
        pl_emit_scalar(c, pl_emit_in(c, Y_SCALE)), pl_emit_scalar(c, pl_emit_in(c, Y_ZERO)),
        c->in[W_SCALE]->dtype == PL_F64);
}
