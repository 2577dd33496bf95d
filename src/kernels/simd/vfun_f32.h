/* Transcendental functions on one vector of floats. Constants by bench/kernels/fit_vmath.py.
 *
 * exp is kept in two parts, p in [0.7, 1.42] and the exponent n of two, so that composite functions
 * can multiply before they scale: denormal results then keep all their digits. */
#ifndef PL_VFUN_F32_H
#define PL_VFUN_F32_H

#include "kernels/simd/simd.h"

typedef struct pl_vexp {
    pl_vf p, lo; /* lo: the rounding error of p */
    pl_vf n;     /* an integer */
} pl_vexp;

/* e^x = p * 2^n. x is clamped to [-170, 89]; beyond, p * 2^n is 0 or infinite anyway. */
static inline pl_vexp pl_vf_exp_parts(pl_vf x) {
    const pl_vf magic = pl_vf_set(0x1.8p23f); /* adding it rounds to an integer */
    x = pl_vf_lt(x, pl_vf_set(-170.0f), pl_vf_set(-170.0f), x);
    x = pl_vf_lt(pl_vf_set(89.0f), x, pl_vf_set(89.0f), x);
    const pl_vf n = pl_vf_mac(x, pl_vf_set(0x1.715476p0f), magic) - magic;
    pl_vf r = pl_vf_fma(n, pl_vf_set(-0x1.62e4p-1f), x); /* ln 2 in two parts */
    r = pl_vf_fma(n, pl_vf_set(-0x1.7f7d1cp-20f), r);
    pl_vf p = pl_vf_set(0.0013813926f);
    p = pl_vf_fma(p, r, pl_vf_set(0.008369042f));
    p = pl_vf_fma(p, r, pl_vf_set(0.04166842f));
    p = pl_vf_fma(p, r, pl_vf_set(0.16666518f));
    p = pl_vf_fma(p, r, pl_vf_set(0.49999994f));
    p = pl_vf_fma(p, r * r, r);
    const pl_vf one = p + 1.0f;
    return (pl_vexp){ one, p - (one - 1.0f), n };
}

/* x * 2^n for n in [-252, 254], rounded once for |x| near 1. */
static inline pl_vf pl_vf_scale(pl_vf x, pl_vf n) {
#if PL_SIMD_AVX512
    return (pl_vf)_mm512_scalef_ps((__m512)x, (__m512)n);
#else
    const pl_vi i = __builtin_convertvector(n, pl_vi), half = i >> 1;
    return x * (pl_vf)((pl_vu)(half + 127) << 23) * (pl_vf)((pl_vu)(i - half + 127) << 23);
#endif
}

static inline pl_vf pl_vf_exp(pl_vf x) {
    const pl_vexp e = pl_vf_exp_parts(x);
    return pl_vf_scale(e.p, e.n);
}

/* log(1 + f) + k ln 2 for f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
static inline pl_vf pl_vf_log_poly(pl_vf f, pl_vf k) {
    pl_vf q = pl_vf_set(-0.07634497f);
    q = pl_vf_fma(q, f, pl_vf_set(0.12761576f));
    q = pl_vf_fma(q, f, pl_vf_set(-0.13160183f));
    q = pl_vf_fma(q, f, pl_vf_set(0.14201757f));
    q = pl_vf_fma(q, f, pl_vf_set(-0.16623357f));
    q = pl_vf_fma(q, f, pl_vf_set(0.20001227f));
    q = pl_vf_fma(q, f, pl_vf_set(-0.2500082f));
    q = pl_vf_fma(q, f, pl_vf_set(0.3333333f));
    const pl_vf s = f * f;
    pl_vf r = pl_vf_fma(s * f, q, k * 0x1.7f7d1cp-20f);
    r = pl_vf_fma(s, pl_vf_set(-0.5f), r);
    return pl_vf_fma(k, pl_vf_set(0x1.62e4p-1f), r + f);
}

static inline pl_vf pl_vf_log(pl_vf x) {
    const pl_vf tiny = pl_vf_set(0x1p-126f), zero = pl_vf_set(0.0f), inf = pl_vf_set(INFINITY);
    const pl_vf m0 = pl_vf_lt(x, tiny, x * 0x1p23f, x);
    const pl_vf k0 = pl_vf_lt(x, tiny, pl_vf_set(-23.0f), zero);
    const pl_vi e = (pl_vi)((pl_vu)m0 - 0x3f3504f3u) >> 23; /* m in [sqrt(1/2), sqrt(2)) */
    const pl_vf m = (pl_vf)((pl_vu)m0 - ((pl_vu)e << 23));
    const pl_vf k = k0 + __builtin_convertvector(e, pl_vf);
    pl_vf r = pl_vf_log_poly(m - 1.0f, k);
    r = pl_vf_lt(x, inf, r, x); /* infinity and NaN return themselves */
    r = pl_vf_lt(x, zero, pl_vf_set(NAN), r);
    return pl_vf_eq(x, zero, -inf, r);
}

static inline pl_vf pl_vf_tanh(pl_vf x) {
    const pl_vf a = pl_vf_abs(x), s = x * x;
    pl_vf q = pl_vf_set(-0.0056669773f);
    q = pl_vf_fma(q, s, pl_vf_set(0.020606177f));
    q = pl_vf_fma(q, s, pl_vf_set(-0.053730007f));
    q = pl_vf_fma(q, s, pl_vf_set(0.13331331f));
    q = pl_vf_fma(q, s, pl_vf_set(-0.33333278f));
    const pl_vf small = pl_vf_fma(q * s, x, x);
    const pl_vf c = pl_vf_lt(pl_vf_set(10.0f), a, pl_vf_set(10.0f), a);
    const pl_vf large = 1.0f - 2.0f / (pl_vf_exp(c + c) + 1.0f);
    return pl_vf_copysign(pl_vf_lt(a, pl_vf_set(0.625f), small, large), x); /* also for -0 */
}

static inline pl_vf pl_vf_erf(pl_vf x) {
    const pl_vf a = pl_vf_abs(x), s = x * x;
    pl_vf q = pl_vf_set(-0.00059537677f);
    q = pl_vf_fma(q, s, pl_vf_set(0.0049859467f));
    q = pl_vf_fma(q, s, pl_vf_set(-0.026761726f));
    q = pl_vf_fma(q, s, pl_vf_set(0.112816826f));
    q = pl_vf_fma(q, s, pl_vf_set(-0.3761248f));
    q = pl_vf_fma(q, s, pl_vf_set(0.12837915f));
    const pl_vf small = pl_vf_fma(q, x, x);
    const pl_vf c = pl_vf_lt(pl_vf_set(4.0f), a, pl_vf_set(4.0f), a);
    pl_vf r = pl_vf_set(-1.1231308e-05f); /* log(erfc a) = a * r */
    r = pl_vf_fma(r, c, pl_vf_set(0.0003228039f));
    r = pl_vf_fma(r, c, pl_vf_set(-0.0036424594f));
    r = pl_vf_fma(r, c, pl_vf_set(0.023762064f));
    r = pl_vf_fma(r, c, pl_vf_set(-0.106236875f));
    r = pl_vf_fma(r, c, pl_vf_set(-0.6351513f));
    r = pl_vf_fma(r, c, pl_vf_set(-1.1286485f));
    const pl_vf large = 1.0f - pl_vf_exp(r * c);
    return pl_vf_lt(a, pl_vf_set(0.92f), small, pl_vf_copysign(large, x));
}

/* num * sigmoid(v + lo), computed as num / (1 + e^-|v|), times e^-|v| where v < 0; `lo` is the
 * rounding error of v. The quotient is corrected by its remainder: below one ulp without a second
 * division. num must be finite. */
static inline pl_vf pl_vf_logistic(pl_vf num, pl_vf v, pl_vf lo) {
    const pl_vf zero = pl_vf_set(0.0f);
    const pl_vexp e = pl_vf_exp_parts(-pl_vf_abs(v));
    const pl_vf p_lo = pl_vf_fma(e.p, pl_vf_lt(v, zero, lo, -lo), e.lo), hi = num * e.p;
    const pl_vf top = pl_vf_lt(v, zero, hi, num);
    const pl_vf top_lo = pl_vf_lt(v, zero, pl_vf_fma(num, p_lo, pl_vf_fma(num, e.p, -hi)), zero);
    const pl_vf f = pl_vf_scale(e.p, e.n), d = 1.0f + f, d_lo = f - (d - 1.0f), r = 1.0f / d;
    const pl_vf q = top * r;
    const pl_vf rest = pl_vf_fma(-q, d, top) + pl_vf_fma(-q, d_lo, top_lo);
    return pl_vf_scale(pl_vf_fma(rest, r, q), pl_vf_lt(v, zero, e.n, zero));
}

static inline pl_vf pl_vf_sigmoid(pl_vf x) {
    return pl_vf_logistic(pl_vf_set(1.0f), x, pl_vf_set(0.0f));
}

/* Clamps x to -200, below which x * 2^-245 is zero anyway, and to the largest float. */
static inline pl_vf pl_vf_hold(pl_vf x) {
    x = pl_vf_lt(x, pl_vf_set(-200.0f), pl_vf_set(-200.0f), x);
    return pl_vf_lt(pl_vf_set(0x1.fffffep127f), x, pl_vf_set(0x1.fffffep127f), x);
}
/* y with the sign of x (for zeros), but inf for x = inf and NaN for x = -inf, as the formulas
 * give. */
static inline pl_vf pl_vf_at_inf(pl_vf x, pl_vf y) {
    const pl_vf a = pl_vf_abs(x);
    return pl_vf_lt(a, pl_vf_set(INFINITY), pl_vf_copysign(y, x), x + a);
}

static inline pl_vf pl_vf_silu(pl_vf x) {
    return pl_vf_at_inf(x, pl_vf_logistic(pl_vf_hold(x), x, pl_vf_set(0.0f)));
}

/* 0.5 x (1 + erf(x / sqrt 2)) without cancellation: with t = |x| and h = t/2 erfc(t / sqrt 2) = t
 * e^(-t^2/2) g(t), the value is -h below zero and x - h above. */
static inline pl_vf pl_vf_gelu_erf(pl_vf x) {
    const pl_vf zero = pl_vf_set(0.0f), a = pl_vf_abs(x);
    const pl_vf t = pl_vf_lt(pl_vf_set(16.0f), a, pl_vf_set(16.0f), a);
    const pl_vf s = t * t, s_lo = pl_vf_fma(t, t, -s);
    const pl_vexp e = pl_vf_exp_parts(-0.5f * s);
    const pl_vf d = t + 5.0f, d_lo = t - (d - 5.0f), inv = 1.0f / d;
    const pl_vf inv_lo = pl_vf_fma(-inv, d, pl_vf_set(1.0f)) - inv * d_lo; /* relative */
    const pl_vf u =
        pl_vf_fma(-10.0f * inv, inv_lo, pl_vf_fma(pl_vf_set(-10.0f), inv, pl_vf_set(1.0f)));
    pl_vf g = pl_vf_set(9.203706e-05f);
    g = pl_vf_fma(g, u, pl_vf_set(0.00062077126f));
    g = pl_vf_fma(g, u, pl_vf_set(-0.00086988835f));
    g = pl_vf_fma(g, u, pl_vf_set(-0.0030527546f));
    g = pl_vf_fma(g, u, pl_vf_set(0.020805456f));
    g = pl_vf_fma(g, u, pl_vf_set(-0.06910501f));
    g = pl_vf_fma(g, u, pl_vf_set(0.16501993f));
    g = pl_vf_fma(g, u, pl_vf_set(-0.31353432f));
    g = pl_vf_fma(g, u, pl_vf_set(0.49530563f));
    g = pl_vf_fma(g, u, pl_vf_set(-0.6653825f));
    g = pl_vf_fma(g, u, pl_vf_set(0.76919305f));
    const pl_vf p = pl_vf_fma(e.p, inv_lo - 0.5f * s_lo, e.lo), c = t * (g * inv);
    const pl_vf h = pl_vf_scale(pl_vf_fma(c, e.p, c * p), e.n);
    pl_vf q = pl_vf_set(0.00010140816f);
    q = pl_vf_fma(q, s, pl_vf_set(-0.001179323f));
    q = pl_vf_fma(q, s, pl_vf_set(0.009971508f));
    q = pl_vf_fma(q, s, pl_vf_set(-0.06649016f));
    q = pl_vf_fma(q, s, pl_vf_set(0.39894226f));
    const pl_vf small = pl_vf_fma(s, q, 0.5f * x);
    const pl_vf y = pl_vf_lt(zero, x, x - h, -h);
    return pl_vf_at_inf(x, pl_vf_lt(a, pl_vf_set(0.75f), small, y));
}

/* x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)); the rounding error of the argument is carried along,
 * because e^v would multiply it by |v|. */
static inline pl_vf pl_vf_gelu_tanh(pl_vf x) {
    const pl_vf c1 = pl_vf_set(0x1.988454p+0f), c1_lo = pl_vf_set(-0x1.857936p-25f);
    const pl_vf c3 = pl_vf_set(0x1.2444f2p-4f), c3_lo = pl_vf_set(0x1.49b16ap-29f);
    pl_vf t = pl_vf_lt(x, pl_vf_set(-12.0f), pl_vf_set(-12.0f), x);
    t = pl_vf_lt(pl_vf_set(12.0f), t, pl_vf_set(12.0f), t);
    const pl_vf s = t * t, s_lo = pl_vf_fma(t, t, -s);
    const pl_vf m = c3 * s, w = c1 + m, m1 = w - c1;
    pl_vf w_lo = (c1 - (w - m1)) + (m - m1);
    w_lo += pl_vf_fma(c3, s, -m) + (pl_vf_fma(c3, s_lo, c3_lo * s) + c1_lo);
    const pl_vf v = t * w;
    const pl_vf v_lo = pl_vf_fma(t, w_lo, pl_vf_fma(t, w, -v));
    return pl_vf_at_inf(x, pl_vf_logistic(pl_vf_hold(x), v, v_lo));
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|). */
static inline pl_vf pl_vf_softplus(pl_vf x) {
    const pl_vf zero = pl_vf_set(0.0f), cut = pl_vf_set(0.41421356f);
    const pl_vf e = pl_vf_exp(-pl_vf_abs(x));
    const pl_vf f = pl_vf_lt(cut, e, pl_vf_mac(e, pl_vf_set(0.5f), pl_vf_set(-0.5f)), e);
    const pl_vf r = pl_vf_log_poly(f, pl_vf_lt(cut, e, pl_vf_set(1.0f), zero));
    return pl_vf_lt(zero, x, x + r, r);
}

#endif
