/* Emission of quantisation: the roundings of quant.c, as maps; products of 8-bit integers by the
 * kernels. */
#include <stdio.h>

#include "ops/emit.h"
#include "ops/emit_rules.h"

/* ---- scales ---- */

/* Input i (a scale or zero point) stretched onto input 0: one value, one for each index of the
 * axis, or one for each block along it. */
static pl_ref param(pl_emit *c, int i) {
    const int rank = pl_emit_rank(c, 0);
    const int64_t block = pl_attr_int(c->node, "block_size");
    if (block == 0 && pl_emit_elements(c->in[i]) == 1) return pl_emit_scalar(c, pl_emit_in(c, i));
    const int axis = rank == 1 ? 0 : pl_emit_axis(pl_attr_int(c->node, "axis"), rank);
    if (block == 0) return pl_emit_along(c, pl_emit_in(c, i), rank, axis);
    int64_t stride = 1;
    pl_ref at = -1;
    for (int d = rank - 1; d >= 0; d--) {
        char expr[120];
        const pl_ref index = pl_emit_iota(c, rank, d, pl_emit_dim(c, 0, d));
        snprintf(expr, sizeof(expr), "%s$0 / %lld * %lld", at < 0 ? "" : "$1 + ",
                 d == axis ? (long long)block : 1LL, (long long)stride);
        at = at < 0 ? pl_emit_map1(c, PL_I64, expr, index)
                    : pl_emit_map2(c, PL_I64, expr, index, at);
        stride *= pl_emit_dim(c, i, d);
    }
    return pl_emit_load(c, pl_emit_in(c, i), at);
}

static bool limits_of(pl_dtype dtype, int *low, int *high) {
    switch ((int)dtype) {
    case PL_U8:
        *low = 0;
        *high = 255;
        return true;
    case PL_I8:
        *low = -128;
        *high = 127;
        return true;
    case PL_U16:
        *low = 0;
        *high = 65535;
        return true;
    case PL_I16:
        *low = -32768;
        *high = 32767;
        return true;
    default: return false;
    }
}

/* Clamped, rounded to even, shifted by the zero point. */
static pl_ref quantised(pl_emit *c, pl_dtype to, pl_dtype in, pl_ref x, pl_ref zero) {
    char expr[120];
    int low = 0, high = 0;
    if (!limits_of(to, &low, &high)) return -1;
    snprintf(expr, sizeof(expr), "px_quant_%s($0, $1, %d, %d)", in == PL_F64 ? "f64" : "f32", low,
             high);
    return pl_emit_map2(c, to, expr, x, zero);
}

static pl_ref zero_or(pl_emit *c, int i) {
    return pl_emit_has(c, i) ? param(c, i) : pl_emit_constant(c, PL_F32, 0);
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

pl_status pl_emit_quantize(pl_emit *c) {
    int low, high;
    const pl_dtype to = c->out[0]->dtype, from = c->in[0]->dtype;
    const int64_t asked = pl_attr_int(c->node, "precision");
    const pl_dtype precision = asked != 0 ? (pl_dtype)asked : c->in[1]->dtype;
    if (!limits_of(to, &low, &high)) return pl_emit_decline(c, "an element type");
    const pl_ref x = pl_emit_in(c, 0), scale = param(c, 1), zero = zero_or(c, 2);
    if (precision == PL_F32 && from != PL_F64) {
        const pl_ref v = pl_emit_map2(c, PL_F32, "(float)$0 / (float)$1", x, scale);
        return pl_emit_out(c, 0, quantised(c, to, PL_F32, v, zero));
    }
    /* Low precision is rounded after each step. */
    const bool is_low = precision == PL_F16 || precision == PL_BF16;
    const pl_ref v0 = is_low ? pl_emit_map1(c, precision, "(double)$0", x) : x;
    const pl_ref v =
        pl_emit_map2(c, is_low ? precision : PL_F64, "(double)$0 / (double)$1", v0, scale);
    return pl_emit_out(c, 0, quantised(c, to, PL_F64, v, zero));
}

pl_status pl_emit_dequantize(pl_emit *c) {
    const pl_dtype to = c->out[0]->dtype;
    const pl_ref x = pl_emit_in(c, 0), scale = param(c, 1), zero = zero_or(c, 2);
    const char *expr = to == PL_F64                ? "((double)$0 - (double)$1) * (double)$2"
                       : c->in[0]->dtype == PL_I32 ? "(float)((double)$0 - (double)$1) * (float)$2"
                                                   : "((float)$0 - (float)$1) * (float)$2";
    return pl_emit_out(c, 0, pl_emit_map3(c, to, expr, x, zero, scale));
}

/* The range of x, which includes zero, on 256 steps. */
static void dynamic_params(pl_emit *c, pl_ref *scale, pl_ref *zero) {
    const int rank = pl_emit_rank(c, 0);
    const bool is_f64 = c->in[0]->dtype == PL_F64;
    const pl_dtype in = is_f64 ? PL_F64 : PL_F32;
    const unsigned all = pl_emit_axes_from(0, rank);
    pl_ref top = pl_emit_in(c, 0), bottom = pl_emit_map1(c, in, "-$0", top);
    if (all != 0) {
        top = pl_emit_reduce(c, PL_FOLD_PEAK, in, top, all);
        bottom = pl_emit_reduce(c, PL_FOLD_PEAK, in, bottom, all);
    }
    const pl_ref high = pl_emit_map1(c, in, "$0 > 0 ? $0 : 0", pl_emit_scalar(c, top));
    const pl_ref low = pl_emit_map1(c, in, "$0 > 0 ? -$0 : 0", pl_emit_scalar(c, bottom));
    const pl_ref step = pl_emit_map2(c, in, "($0 - $1) / 255", high, low);
    /* Inf over Inf counts as 0. */
    const pl_ref steps = pl_emit_map2(c, in, "$1 == 0 ? 0 : -$0 / $1", low, step);
    *zero = pl_emit_map1(c, in, "px_rint_$S($0 > 0 ? px_min_$S(255, $0) : 0)", steps);
    *scale = pl_emit_map1(c, in, "$0 == 0 ? 1 : $0", step);
}

pl_status pl_emit_dynamic_quantize(pl_emit *c) {
    pl_ref scale, zero;
    const pl_dtype in = c->in[0]->dtype == PL_F64 ? PL_F64 : PL_F32;
    dynamic_params(c, &scale, &zero);
    if (pl_emit_wants(c, 1)) PL_TRY(pl_emit_out(c, 1, scale));
    if (pl_emit_wants(c, 2)) PL_TRY(pl_emit_out(c, 2, pl_emit_map1(c, PL_U8, "$0", zero)));
    if (!pl_emit_wants(c, 0)) return PL_OK;
    const pl_ref v = pl_emit_map2(c, in, "$0 / $1", pl_emit_in(c, 0), scale);
    return pl_emit_out(c, 0, quantised(c, PL_U8, in, v, zero));
}

/* ---- products of 8-bit integers ---- */

typedef struct product {
    pl_gemm_shape gemm;
    bool a_signed, b_signed, has_a, has_b, per_column;
} product;

static pl_status run_product(const pl_emit_args *a, pl_err *err) {
    const product *q = a->params;
    const pl_i32 *za = q->has_a ? a->in[2] : NULL, *zb = q->has_b ? a->in[q->has_a ? 3 : 2] : NULL;
    return pl_gemm_i8(a->pool, &q->gemm, a->in[0], q->a_signed, (pl_gemm_i8_zero){ za, 0, 0 },
                      a->in[1], q->b_signed, (pl_gemm_i8_zero){ zb, q->per_column, 0 }, a->out,
                      err);
}

typedef struct inputs {
    int a, a_zero, b, b_zero;
} inputs;

/* Any shape: differences in double, whose sums are exact, and the product of doubles. */
static pl_ref product_any(pl_emit *c, const inputs *in) {
    const int ra = pl_emit_rank(c, in->a), rb = pl_emit_rank(c, in->b);
    if (ra < 2 || rb < 2) return -1;
    pl_ref a = pl_emit_in(c, in->a), b = pl_emit_in(c, in->b);
    if (pl_emit_has(c, in->a_zero)) {
        pl_ref z = pl_emit_in(c, in->a_zero);
        const int64_t n = pl_emit_elements(c->in[in->a_zero]);
        if (pl_emit_rank(c, in->a_zero) < 2) {
            z = n == 1 ? pl_emit_scalar(c, z) : pl_emit_along(c, z, 2, 0);
        }
        a = pl_emit_map2(c, PL_F64, "(double)$0 - (double)$1", a, z);
    }
    if (pl_emit_has(c, in->b_zero)) {
        pl_ref z = pl_emit_in(c, in->b_zero);
        if (pl_emit_elements(c->in[in->b_zero]) == 1) z = pl_emit_scalar(c, z);
        b = pl_emit_map2(c, PL_F64, "(double)$0 - (double)$1", b, z);
    }
    const pl_emit_gemm gemm = { pl_emit_convert(c, a, PL_F64), pl_emit_convert(c, b, PL_F64), 1 };
    const pl_ref y = c->builder->gemm(c, &gemm);
    return pl_emit_map1(c, PL_I32, "(int32_t)(int64_t)$0", y);
}

/* A (…, k) by B (k, n) with one zero point for A: one product of the kernel. */
static pl_ref product_of(pl_emit *c, const inputs *in, const int64_t *dims, int rank) {
    const int ra = pl_emit_rank(c, in->a);
    pl_ref args[4] = { pl_emit_in(c, in->a), pl_emit_in(c, in->b) };
    int n = 2;
    product q = { .a_signed = c->in[in->a]->dtype == PL_I8,
                  .b_signed = c->in[in->b]->dtype == PL_I8,
                  .has_a = pl_emit_has(c, in->a_zero),
                  .has_b = pl_emit_has(c, in->b_zero) };
    const int64_t nz = q.has_b ? pl_emit_elements(c->in[in->b_zero]) : 1;
    if (ra < 2 || pl_emit_rank(c, in->b) != 2 ||
        (q.has_a && pl_emit_elements(c->in[in->a_zero]) != 1) ||
        (nz != 1 && nz != pl_emit_dim(c, in->b, 1))) {
        return product_any(c, in);
    }
    q.per_column = nz > 1;
    q.gemm = (pl_gemm_shape){
        .k = pl_emit_dim(c, in->b, 0), .n = pl_emit_dim(c, in->b, 1), .batch = 1, .by = c->kernels
    };
    q.gemm.m = pl_emit_elements(c->in[in->a]) / q.gemm.k;
    if (q.has_a) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->a_zero), PL_I32);
    if (q.has_b) args[n++] = pl_emit_convert(c, pl_emit_in(c, in->b_zero), PL_I32);
    const pl_emit_kernel kernel = { .what = "a product of 8-bit integers",
                                    .run = run_product,
                                    .params = &q,
                                    .n_params = sizeof(q),
                                    .dtype = PL_I32,
                                    .rank = rank,
                                    .dims = dims };
    return pl_emit_kernel_call(c, &kernel, n, args);
}

pl_status pl_emit_matmul_integer(pl_emit *c) {
    static const inputs in = { 0, 2, 1, 3 };
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    return pl_emit_out(c, 0, product_of(c, &in, dims, c->out[0]->rank));
}

/* acc * (s1 * s2 / s3), rounded to the output's type; scales are references that fit acc. */
static pl_status requantise(pl_emit *c, pl_ref acc, pl_ref s1, pl_ref s2, pl_ref s3, pl_ref zero,
                            bool in_f64) {
    const pl_dtype in = in_f64 ? PL_F64 : PL_F32;
    const pl_ref s = pl_emit_map3(c, in, "($T)$0 * ($T)$1 / ($T)$2", s1, s2, s3);
    const pl_ref v = pl_emit_map2(c, in, "($T)$0 * $1", acc, s);
    return pl_emit_out(c, 0, quantised(c, c->out[0]->dtype, in, v, zero));
}

/* One value, or one for each column (rows: transposed). */
static pl_ref row_or_column(pl_emit *c, int i, bool row) {
    const pl_ref x = pl_emit_in(c, i);
    if (pl_emit_elements(c->in[i]) == 1) return pl_emit_scalar(c, x);
    return pl_emit_rank(c, i) < 2 && row ? pl_emit_along(c, x, 2, 0) : x;
}

pl_status pl_emit_qlinear_matmul(pl_emit *c) {
    enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, Y_SCALE, Y_ZERO };
    static const inputs in = { A, A_ZERO, B, B_ZERO };
    int64_t dims[PL_EMIT_RANK_MAX];
    pl_emit_out_dims(c, 0, dims);
    if (pl_emit_rank(c, A) < 2 || pl_emit_rank(c, B) < 2) return pl_emit_decline(c, "a vector");
    const pl_ref acc = product_of(c, &in, dims, c->out[0]->rank);
    return requantise(c, acc, row_or_column(c, A_SCALE, true), row_or_column(c, B_SCALE, false),
                      pl_emit_scalar(c, pl_emit_in(c, Y_SCALE)),
                      pl_emit_scalar(c, pl_emit_in(c, Y_ZERO)), c->in[A_SCALE]->dtype == PL_F64);
}

/* ---- convolutions of 8-bit integers ---- */

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
    return requantise(c, acc, pl_emit_scalar(c, pl_emit_in(c, X_SCALE)),
                      pl_emit_elements(c->in[W_SCALE]) == 1 ? pl_emit_scalar(c, w)
                                                            : pl_emit_along(c, w, rank - 1, 0),
                      pl_emit_scalar(c, pl_emit_in(c, Y_SCALE)),
                      pl_emit_scalar(c, pl_emit_in(c, Y_ZERO)), c->in[W_SCALE]->dtype == PL_F64);
}
