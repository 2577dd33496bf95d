/* The f32 half of pl_vmath: loops over arrays. Tails run through a padded vector, so that every
 * element goes through the same instructions. Included by vmath_table.c only. */
#ifndef PL_VMATH_F32_H
#define PL_VMATH_F32_H

#include "kernels/simd/lanes.h"
#include "kernels/simd/vfun_f32.h"

#define PL_MAP_F32(name)                                                                           \
    static void f32_##name(const pl_f32 *x, pl_f32 *y, size_t n) {                                 \
        size_t i = 0;                                                                              \
        for (; i + 2 * PL_VF <= n; i += 2 * PL_VF) {                                               \
            const pl_vf a = pl_vf_##name(pl_vf_load(x + i));                                       \
            const pl_vf b = pl_vf_##name(pl_vf_load(x + i + PL_VF));                               \
            pl_vf_store(y + i, a);                                                                 \
            pl_vf_store(y + i + PL_VF, b);                                                         \
        }                                                                                          \
        for (; i < n; i += PL_VF) {                                                                \
            pl_vf v = { 0 };                                                                       \
            const size_t m = n - i < PL_VF ? n - i : PL_VF;                                        \
            memcpy(&v, x + i, m * sizeof(float));                                                  \
            v = pl_vf_##name(v);                                                                   \
            memcpy(y + i, &v, m * sizeof(float));                                                  \
        }                                                                                          \
    }
PL_MAP_F32(exp)
PL_MAP_F32(log)
PL_MAP_F32(tanh)
PL_MAP_F32(erf)
PL_MAP_F32(sigmoid)
PL_MAP_F32(gelu_erf)
PL_MAP_F32(gelu_tanh)
PL_MAP_F32(silu)
PL_MAP_F32(softplus)
#undef PL_MAP_F32

static double f32_sum(const pl_f32 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F32(x, n, acc.v[j] += v;)
    return pl_lanes_sum(&acc);
}
static double f32_sum_sq(const pl_f32 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F32(x, n, acc.v[j] += v * v;) /* the square of a float is exact in double */
    return pl_lanes_sum(&acc);
}
static double f32_sum_abs(const pl_f32 *x, size_t n) {
    pl_lanes acc = { 0 };
    PL_LANES_F32(x, n, acc.v[j] += pl_vd_abs(v);)
    return pl_lanes_sum(&acc);
}
static double f32_dot(const pl_f32 *a, const pl_f32 *b, size_t n) {
    pl_lanes acc = { 0 };
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int j = 0; j < PL_LANE_VECTORS; j++)
            acc.v[j] += pl_vd_load_f32(a + i + j * PL_VD) * pl_vd_load_f32(b + i + j * PL_VD);
    if (i < n) {
        float ta[PL_LANES] = { 0 }, tb[PL_LANES] = { 0 };
        memcpy(ta, a + i, (n - i) * sizeof(float));
        memcpy(tb, b + i, (n - i) * sizeof(float));
        for (int j = 0; j < PL_LANE_VECTORS; j++)
            acc.v[j] += pl_vd_load_f32(ta + j * PL_VD) * pl_vd_load_f32(tb + j * PL_VD);
    }
    return pl_lanes_sum(&acc);
}

static void f32_mean_var(const pl_f32 *x, size_t n, double *mean, double *var) {
    const double m = f32_sum(x, n) / (double)n;
    pl_lanes acc = { 0 };
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        for (int j = 0; j < PL_LANE_VECTORS; j++) {
            const pl_vd d = pl_vd_load_f32(x + i + j * PL_VD) - m;
            acc.v[j] += d * d;
        }
    double s = 0;
    for (; i < n; i++) {
        const double d = (double)x[i] - m;
        s += d * d;
    }
    *mean = m;
    *var = (pl_lanes_sum(&acc) + s) / (double)n;
}

enum { PL_MAX_LANES = 32, PL_MAX_VECTORS = PL_MAX_LANES / PL_VF };

/* sign = 1: the maximum; -1: the minimum as the maximum of -x. */
static inline float f32_extreme(const pl_f32 *x, size_t n, float sign) {
    if (n == 0) return -INFINITY * sign;
    pl_vf best[PL_MAX_VECTORS];
    pl_vi nan = { 0 };
    size_t i = 0;
    for (int j = 0; j < PL_MAX_VECTORS; j++)
        best[j] = pl_vf_set(-INFINITY);
    for (; i + PL_MAX_LANES <= n; i += PL_MAX_LANES)
        for (int j = 0; j < PL_MAX_VECTORS; j++) {
            const pl_vf v = pl_vf_load(x + i + j * PL_VF) * sign;
            nan |= v != v;
            best[j] = pl_vf_lt(best[j], v, v, best[j]);
        }
    float lanes[PL_MAX_LANES], worst = 0;
    memcpy(lanes, best, sizeof lanes);
    for (int j = 0; i < n; i++, j++) {
        const float v = x[i] * sign;
        if (v != v) worst = v;
        if (lanes[j] < v) lanes[j] = v;
    }
    for (int half = PL_MAX_LANES / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            if (lanes[j] < lanes[j + half]) lanes[j] = lanes[j + half];
    for (int j = 0; j < PL_VF; j++)
        if (nan[j]) return NAN;
    return worst != worst ? NAN : lanes[0] * sign;
}
static float f32_reduce_max(const pl_f32 *x, size_t n) {
    return f32_extreme(x, n, 1.0f);
}
static float f32_reduce_min(const pl_f32 *x, size_t n) {
    return f32_extreme(x, n, -1.0f);
}

static inline void f32_exp_block(const pl_f32 *x, pl_f32 *y, float max, pl_lanes *acc) {
    for (int j = 0; j < PL_LANES / PL_VF; j++)
        pl_vf_store(y + j * PL_VF, pl_vf_exp(pl_vf_load(x + j * PL_VF) - max));
    for (int j = 0; j < PL_LANE_VECTORS; j++)
        acc->v[j] += pl_vd_load_f32(y + j * PL_VD);
}
/* Sum of e^(x - max), with the terms in y when given. The lanes are those of f32_sum. */
static inline double f32_exp_sum(const pl_f32 *x, pl_f32 *y, size_t n, float max) {
    pl_lanes acc = { 0 };
    float buf[PL_LANES];
    size_t i = 0;
    for (; i + PL_LANES <= n; i += PL_LANES)
        f32_exp_block(x + i, y == NULL ? buf : y + i, max, &acc);
    if (i < n) {
        for (size_t j = n - i; j < PL_LANES; j++)
            buf[j] = -INFINITY; /* adds e^-inf = 0 */
        memcpy(buf, x + i, (n - i) * sizeof(float));
        f32_exp_block(buf, buf, max, &acc);
        if (y != NULL) memcpy(y + i, buf, (n - i) * sizeof(float));
    }
    return pl_lanes_sum(&acc);
}

static void f32_mul_s(const pl_f32 *p, float s, pl_f32 *z, size_t n);

static void f32_softmax(const pl_f32 *x, pl_f32 *y, size_t n) {
    const float max = f32_reduce_max(x, n);
    const double sum = f32_exp_sum(x, y, n, max);
    f32_mul_s(y, (float)(1.0 / sum), y, n);
}

static void f32_log_softmax(const pl_f32 *x, pl_f32 *y, size_t n) {
    /* Subtracts the largest first, which is exact: beside 3e30 the logarithm would be lost even in
     * double. */
    const float max = f32_reduce_max(x, n);
    const double shift = log(f32_exp_sum(x, NULL, n, max));
    size_t i = 0;
    for (; i + PL_VD <= n; i += PL_VD)
        pl_vd_store_f32(y + i, (pl_vd_load_f32(x + i) - (double)max) - shift);
    for (; i < n; i++)
        y[i] = (float)(((double)x[i] - (double)max) - shift);
}

#define PL_BINARY_F32(name, expr)                                                                  \
    static void f32_##name(const pl_f32 *p, const pl_f32 *q, pl_f32 *z, size_t n) {                \
        size_t i = 0;                                                                              \
        for (; i + PL_VF <= n; i += PL_VF) {                                                       \
            const pl_vf a = pl_vf_load(p + i), b = pl_vf_load(q + i);                              \
            pl_vf_store(z + i, expr);                                                              \
        }                                                                                          \
        if (i < n) {                                                                               \
            pl_vf a = pl_vf_set(1.0f), b = a;                                                      \
            memcpy(&a, p + i, (n - i) * sizeof(float));                                            \
            memcpy(&b, q + i, (n - i) * sizeof(float));                                            \
            a = expr;                                                                              \
            memcpy(z + i, &a, (n - i) * sizeof(float));                                            \
        }                                                                                          \
    }
#define PL_SCALAR_F32(name, expr)                                                                  \
    static void f32_##name(const pl_f32 *p, float s, pl_f32 *z, size_t n) {                        \
        const pl_vf b = pl_vf_set(s);                                                              \
        size_t i = 0;                                                                              \
        for (; i + PL_VF <= n; i += PL_VF) {                                                       \
            const pl_vf a = pl_vf_load(p + i);                                                     \
            pl_vf_store(z + i, expr);                                                              \
        }                                                                                          \
        if (i < n) {                                                                               \
            pl_vf a = pl_vf_set(1.0f);                                                             \
            memcpy(&a, p + i, (n - i) * sizeof(float));                                            \
            a = expr;                                                                              \
            memcpy(z + i, &a, (n - i) * sizeof(float));                                            \
        }                                                                                          \
    }
/* b where a is not greater, unless a is NaN: NaN on either side wins. */
#define PL_VF_MAX pl_vf_lt(b, a, a, pl_vf_eq(a, a, b, a))
#define PL_VF_MIN pl_vf_lt(a, b, a, pl_vf_eq(a, a, b, a))
PL_BINARY_F32(add, a + b)
PL_BINARY_F32(sub, a - b)
PL_BINARY_F32(mul, a *b)
PL_BINARY_F32(div, a / b)
PL_BINARY_F32(max, PL_VF_MAX)
PL_BINARY_F32(min, PL_VF_MIN)
PL_SCALAR_F32(add_s, a + b)
PL_SCALAR_F32(sub_s, a - b)
PL_SCALAR_F32(rsub_s, b - a)
PL_SCALAR_F32(mul_s, a *b)
PL_SCALAR_F32(div_s, a / b)
PL_SCALAR_F32(rdiv_s, b / a)
PL_SCALAR_F32(max_s, PL_VF_MAX)
PL_SCALAR_F32(min_s, PL_VF_MIN)
#undef PL_BINARY_F32
#undef PL_SCALAR_F32

#endif
