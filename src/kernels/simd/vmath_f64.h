/* The f64 half of pl_vmath. exp, sigmoid, silu and softmax have vector code of their own if there
 * is a fused multiply-add; the rest calls libm. Included by vmath_table.c only. */
#ifndef PL_VMATH_F64_H
#define PL_VMATH_F64_H

#include "kernels/simd/lanes.h"

#if PL_SIMD_FMA
/* e^x = p * 2^n, x clamped to [-760, 710]: beyond, the result is 0 or infinite anyway. The Taylor
 * series to r^13 leaves an error of 4e-18 at |r| = ln(2)/2. */
static inline pl_vd pl_vd_exp(pl_vd x) {
    const pl_vd magic = pl_vd_set(0x1.8p52);
    x = pl_vd_lt(x, pl_vd_set(-760.0), pl_vd_set(-760.0), x);
    x = pl_vd_lt(pl_vd_set(710.0), x, pl_vd_set(710.0), x);
    const pl_vd t = pl_vd_mac(x, pl_vd_set(0x1.71547652b82fep+0), magic), n = t - magic;
    pl_vd r = pl_vd_mac(n, pl_vd_set(-0x1.62e42fefa3800p-1), x); /* ln 2 in two parts */
    r = pl_vd_mac(n, pl_vd_set(-0x1.ef35793c76730p-45), r);
    pl_vd p = pl_vd_set(1.0 / 6227020800);
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 479001600));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 39916800));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 3628800));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 362880));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 40320));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 5040));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 720));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 120));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 24));
    p = pl_vd_mac(p, r, pl_vd_set(1.0 / 6));
    p = pl_vd_mac(p, r, pl_vd_set(0.5));
    p = pl_vd_mac(p, r * r, r) + 1.0;
    const pl_vw i = (pl_vw)t - 0x4338000000000000u; /* avx2 cannot shift 64 bits right with sign */
    const pl_vw half = (pl_vw)pl_vd_mac(n, pl_vd_set(0.5), magic) - 0x4338000000000000u;
    return p * (pl_vd)((half + 1023u) << 52) * (pl_vd)((i - half + 1023u) << 52);
}
#else
static inline pl_vd pl_vd_exp(pl_vd x) {
    for (int i = 0; i < PL_VD; i++)
        x[i] = exp(x[i]);
    return x;
}
#endif

static inline pl_vd pl_vd_sigmoid(pl_vd x) {
    const pl_vd zero = pl_vd_set(0.0), one = pl_vd_set(1.0), e = pl_vd_exp(-pl_vd_abs(x));
    return pl_vd_lt(x, zero, e, one) / (1.0 + e);
}
static inline pl_vd pl_vd_silu(pl_vd x) {
    return x * pl_vd_sigmoid(x); /* -inf * 0 is NaN */
}

#define PL_MAP_F64(name)                                                                           \
    static void f64_##name(const pl_f64 *x, pl_f64 *y, size_t n) {                                 \
        size_t i = 0;                                                                              \
        for (; i + PL_VD <= n; i += PL_VD)                                                         \
            pl_vd_store(y + i, pl_vd_##name(pl_vd_load(x + i)));                                   \
        if (i < n) {                                                                               \
            pl_vd v = { 0 };                                                                       \
            memcpy(&v, x + i, (n - i) * sizeof(double));                                           \
            v = pl_vd_##name(v);                                                                   \
            memcpy(y + i, &v, (n - i) * sizeof(double));                                           \
        }                                                                                          \
    }
#define PL_LIBM_F64(name, expr)                                                                    \
    static void f64_##name(const pl_f64 *x, pl_f64 *y, size_t n) {                                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            const double v = x[i];                                                                 \
            y[i] = expr;                                                                           \
        }                                                                                          \
    }
PL_MAP_F64(exp)
PL_MAP_F64(sigmoid)
PL_MAP_F64(silu)
PL_LIBM_F64(log, log(v))
PL_LIBM_F64(tanh, tanh(v))
PL_LIBM_F64(erf, erf(v))
/* erfc and the logistic form instead of 1 + erf and 1 + tanh: no cancellation for negative x. */
PL_LIBM_F64(gelu_erf, 0.5 * v * erfc(v * -0.70710678118654752440))
PL_LIBM_F64(gelu_tanh, v / (1.0 + exp(-1.59576912160573071176 * v * (1.0 + 0.044715 * v * v))))
PL_LIBM_F64(softplus, v > 0 ? v + log1p(exp(-v)) : log1p(exp(v)))
#undef PL_MAP_F64
#undef PL_LIBM_F64

static double f64_sum(const pl_f64 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F64(x, n, acc.v[j] += v;)
    return pl_lanes_sum(&acc);
}
static double f64_sum_sq(const pl_f64 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F64(x, n, acc.v[j] += v * v;)
    return pl_lanes_sum(&acc);
}
static double f64_sum_abs(const pl_f64 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F64(x, n, acc.v[j] += pl_vd_abs(v);)
    return pl_lanes_sum(&acc);
}
static double f64_dot(const pl_f64 *a, const pl_f64 *b, size_t n) {
    pl_lanes acc = { 0 };
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int j = 0; j < PL_LANE_VECTORS; j++)
            acc.v[j] += pl_vd_load(a + i + j * PL_VD) * pl_vd_load(b + i + j * PL_VD);
    if (i < n) {
        double ta[PL_LANES] = { 0 }, tb[PL_LANES] = { 0 };
        memcpy(ta, a + i, (n - i) * sizeof(double));
        memcpy(tb, b + i, (n - i) * sizeof(double));
        for (int j = 0; j < PL_LANE_VECTORS; j++)
            acc.v[j] += pl_vd_load(ta + j * PL_VD) * pl_vd_load(tb + j * PL_VD);
    }
    return pl_lanes_sum(&acc);
}
static void f64_mean_var(const pl_f64 *x, size_t n, double *mean, double *var) {
    const double m = f64_sum(x, n) / (double)n;
    pl_lanes acc = { 0 };
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int j = 0; j < PL_LANE_VECTORS; j++) {
            const pl_vd d = pl_vd_load(x + i + j * PL_VD) - m;
            acc.v[j] += d * d;
        }
    double s = 0;
    for (; i < n; i++)
        s += (x[i] - m) * (x[i] - m);
    *mean = m;
    *var = (pl_lanes_sum(&acc) + s) / (double)n;
}

/* sign = 1: the maximum; -1: the minimum as the maximum of -x. */
static inline double f64_extreme(const pl_f64 *x, size_t n, double sign) {
    if (n == 0) return -(double)INFINITY * sign;
    pl_lanes best;
    pl_vl nan = { 0 };
    size_t i = 0;
    for (int j = 0; j < PL_LANE_VECTORS; j++)
        best.v[j] = pl_vd_set(-(double)INFINITY);
    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int j = 0; j < PL_LANE_VECTORS; j++) {
            const pl_vd v = pl_vd_load(x + i + j * PL_VD) * sign;
            nan |= v != v;
            best.v[j] = pl_vd_lt(best.v[j], v, v, best.v[j]);
        }
    double lanes[PL_LANES], worst = 0;
    memcpy(lanes, best.v, sizeof lanes);
    for (int j = 0; i < n; i++, j++) {
        const double v = x[i] * sign;
        if (v != v) worst = v;
        if (lanes[j] < v) lanes[j] = v;
    }
    for (int half = PL_LANES / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            if (lanes[j] < lanes[j + half]) lanes[j] = lanes[j + half];
    for (int j = 0; j < PL_VD; j++)
        if (nan[j]) return (double)NAN;
    return worst != worst ? (double)NAN : lanes[0] * sign;
}
static double f64_reduce_max(const pl_f64 *x, size_t n) {
    return f64_extreme(x, n, 1.0);
}
static double f64_reduce_min(const pl_f64 *x, size_t n) {
    return f64_extreme(x, n, -1.0);
}

static inline void f64_exp_block(const pl_f64 *x, pl_f64 *y, double max, pl_lanes *acc) {
    for (int j = 0; j < PL_LANE_VECTORS; j++) {
        const pl_vd e = pl_vd_exp(pl_vd_load(x + j * PL_VD) - max);
        pl_vd_store(y + j * PL_VD, e);
        acc->v[j] += e;
    }
}
/* Sum of e^(x - max), with the terms in y when given. */
static inline double f64_exp_sum(const pl_f64 *x, pl_f64 *y, size_t n, double max) {
    pl_lanes acc = { 0 };
    double buf[PL_LANES];
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        f64_exp_block(x + i, y == NULL ? buf : y + i, max, &acc);
    if (i < n) {
        for (size_t j = n - i; j < PL_LANES; j++)
            buf[j] = -(double)INFINITY; /* adds e^-inf = 0 */
        memcpy(buf, x + i, (n - i) * sizeof(double));
        f64_exp_block(buf, buf, max, &acc);
        if (y != NULL) memcpy(y + i, buf, (n - i) * sizeof(double));
    }
    return pl_lanes_sum(&acc);
}
static void f64_softmax(const pl_f64 *x, pl_f64 *y, size_t n) {
    const double sum = f64_exp_sum(x, y, n, f64_reduce_max(x, n));
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] / sum;
}
static void f64_log_softmax(const pl_f64 *x, pl_f64 *y, size_t n) {
    const double max = f64_reduce_max(x, n), shift = log(f64_exp_sum(x, NULL, n, max));
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] - max) - shift;
}

#define PL_BINARY_F64(name, expr)                                                                  \
    static void f64_##name(const pl_f64 *p, const pl_f64 *q, pl_f64 *z, size_t n) {                \
        size_t i = 0;                                                                              \
        for (; i + PL_VD <= n; i += PL_VD) {                                                       \
            const pl_vd a = pl_vd_load(p + i), b = pl_vd_load(q + i);                              \
            pl_vd_store(z + i, expr);                                                              \
        }                                                                                          \
        if (i < n) {                                                                               \
            pl_vd a = pl_vd_set(1.0), b = a;                                                       \
            memcpy(&a, p + i, (n - i) * sizeof(double));                                           \
            memcpy(&b, q + i, (n - i) * sizeof(double));                                           \
            a = expr;                                                                              \
            memcpy(z + i, &a, (n - i) * sizeof(double));                                           \
        }                                                                                          \
    }
#define PL_SCALAR_F64(name, expr)                                                                  \
    static void f64_##name(const pl_f64 *p, double s, pl_f64 *z, size_t n) {                       \
        const pl_vd b = pl_vd_set(s);                                                              \
        size_t i = 0;                                                                              \
        for (; i + PL_VD <= n; i += PL_VD) {                                                       \
            const pl_vd a = pl_vd_load(p + i);                                                     \
            pl_vd_store(z + i, expr);                                                              \
        }                                                                                          \
        if (i < n) {                                                                               \
            pl_vd a = pl_vd_set(1.0);                                                              \
            memcpy(&a, p + i, (n - i) * sizeof(double));                                           \
            a = expr;                                                                              \
            memcpy(z + i, &a, (n - i) * sizeof(double));                                           \
        }                                                                                          \
    }
#define PL_VD_MAX pl_vd_lt(b, a, a, pl_vd_eq(a, a, b, a))
#define PL_VD_MIN pl_vd_lt(a, b, a, pl_vd_eq(a, a, b, a))
PL_BINARY_F64(add, a + b)
PL_BINARY_F64(sub, a - b)
PL_BINARY_F64(mul, a *b)
PL_BINARY_F64(div, a / b)
PL_BINARY_F64(max, PL_VD_MAX)
PL_BINARY_F64(min, PL_VD_MIN)
PL_SCALAR_F64(add_s, a + b)
PL_SCALAR_F64(sub_s, a - b)
PL_SCALAR_F64(rsub_s, b - a)
PL_SCALAR_F64(mul_s, a *b)
PL_SCALAR_F64(div_s, a / b)
PL_SCALAR_F64(rdiv_s, b / a)
PL_SCALAR_F64(max_s, PL_VD_MAX)
PL_SCALAR_F64(min_s, PL_VD_MIN)
#undef PL_BINARY_F64
#undef PL_SCALAR_F64

#endif
