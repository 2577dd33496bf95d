/* Emission of quantisation: the roundings of quant_loops.c, as maps. */
#include "ops/quant/quantize_emit.h"

#include <stdio.h>

#include "ops/emit.h"
#include "ops/quant/quantize_rules.h"

/* ---- scales ---- */

/* Input i (a scale or zero point) broadcast to input 0: one value, one per index of the axis, or
 * one per block along it. */
static pl_ref param(pl_emit *c, int i) {
    const int rank = pl_emit_rank(c, 0);
    const int64_t block = pl_attr_int(c->node, "block_size");
    const bool single = c->in[i]->rank == 0 || (block == 0 && pl_emit_elements(c->in[i]) == 1);
    if (single) return pl_emit_scalar(c, pl_emit_in(c, i));
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

pl_ref pl_emit_quantised(pl_emit *c, pl_dtype to, pl_dtype in, pl_ref x, pl_ref zero) {
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
        return pl_emit_out(c, 0, pl_emit_quantised(c, to, PL_F32, v, zero));
    }
    /* Low precision is rounded after each step. */
    const bool is_low = precision == PL_F16 || precision == PL_BF16;
    const pl_ref v0 = is_low ? pl_emit_map1(c, precision, "(double)$0", x) : x;
    const pl_ref v =
        pl_emit_map2(c, is_low ? precision : PL_F64, "(double)$0 / (double)$1", v0, scale);
    return pl_emit_out(c, 0, pl_emit_quantised(c, to, PL_F64, v, zero));
}

pl_status pl_emit_dequantize(pl_emit *c) {
    const pl_dtype to = c->out[0]->dtype;
    const pl_ref x = pl_emit_in(c, 0), scale = param(c, 1), zero = zero_or(c, 2);
    const char *expr = to == PL_F64                ? "((double)$0 - (double)$1) * (double)$2"
                       : c->in[0]->dtype == PL_I32 ? "(float)((double)$0 - (double)$1) * (float)$2"
                                                   : "((float)$0 - (float)$1) * (float)$2";
    return pl_emit_out(c, 0, pl_emit_map3(c, to, expr, x, zero, scale));
}

/* Maps the range of x, extended to include zero, to 256 steps. */
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
    return pl_emit_out(c, 0, pl_emit_quantised(c, PL_U8, in, v, zero));
}

/* ---- for integer products ---- */

pl_status pl_emit_requantised(pl_emit *c, pl_ref acc, pl_ref s1, pl_ref s2, pl_ref s3, pl_ref zero,
                              bool in_f64) {
    const pl_dtype in = in_f64 ? PL_F64 : PL_F32;
    const pl_ref s = pl_emit_map3(c, in, "($T)$0 * ($T)$1 / ($T)$2", s1, s2, s3);
    const pl_ref v = pl_emit_map2(c, in, "($T)$0 * $1", acc, s);
    return pl_emit_out(c, 0, pl_emit_quantised(c, c->out[0]->dtype, in, v, zero));
}
