/* Partial vectors, and transposes of square blocks of 16-byte vectors. */
#ifndef PL_BLOCK_H
#define PL_BLOCK_H

#include "kernels/simd/simd.h"

/* Stores the first n lanes (0 to all). */
static inline void f32_store_n(pl_f32 *p, pl_vf v, int64_t n) {
#if PL_SIMD_AVX512
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)v);
#elif PL_SIMD_AVX2 /* masked stores are slow on AMD */
    if (n == PL_VF) {
        pl_vf_store(p, v);
        return;
    }
    __m128 part = _mm256_castps256_ps128((__m256)v);
    if ((n & 4) != 0) {
        _mm_storeu_ps((float *)p, part);
        part = _mm256_extractf128_ps((__m256)v, 1);
        p += 4;
    }
    if ((n & 2) != 0) {
        const double two = _mm_cvtsd_f64(_mm_castps_pd(part));
        memcpy(p, &two, sizeof two); /* a tensor may lie at any address: the scalar stores of gcc
                                        want it aligned */
        part = _mm_movehl_ps(part, part);
        p += 2;
    }
    if ((n & 1) != 0) {
        const float one = _mm_cvtss_f32(part);
        memcpy(p, &one, sizeof one);
    }
#elif PL_SIMD_NEON
    if (n == PL_VF) {
        pl_vf_store(p, v);
        return;
    }
    float32x2_t part = vget_low_f32((float32x4_t)v);
    if ((n & 2) != 0) {
        memcpy(p, &part, sizeof part);
        part = vget_high_f32((float32x4_t)v);
        p += 2;
    }
    if ((n & 1) != 0) {
        const float one = vget_lane_f32(part, 0);
        memcpy(p, &one, sizeof one);
    }
#else
    if (n == PL_VF)
        pl_vf_store(p, v);
    else
        memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}
static inline void f64_store_n(pl_f64 *p, pl_vd v, int64_t n) {
#if PL_SIMD_AVX512
    _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1u), (__m512d)v);
#elif PL_SIMD_AVX2
    if (n == PL_VD) {
        pl_vd_store(p, v);
        return;
    }
    __m128d part = _mm256_castpd256_pd128((__m256d)v);
    if ((n & 2) != 0) {
        _mm_storeu_pd((double *)p, part);
        part = _mm256_extractf128_pd((__m256d)v, 1);
        p += 2;
    }
    if ((n & 1) != 0) {
        const double one = _mm_cvtsd_f64(part);
        memcpy(p, &one, sizeof one);
    }
#else
    if (n == PL_VD)
        pl_vd_store(p, v);
    else
        memcpy(p, &v, (size_t)n * sizeof(double));
#endif
}

/* Keeps the first n lanes and zeroes the others. */
static inline pl_vf f32_keep_n(pl_vf v, int64_t n) {
    pl_vi lane;
    for (int i = 0; i < PL_VF; i++)
        lane[i] = i;
    return (pl_vf)((pl_vi)v & (lane < (int32_t)n));
}
static inline pl_vd f64_keep_n(pl_vd v, int64_t n) {
    pl_vl lane;
    for (int i = 0; i < PL_VD; i++)
        lane[i] = i;
    return (pl_vd)((pl_vl)v & (lane < n));
}

typedef float f32_block __attribute__((vector_size(16)));
typedef double f64_block __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) void f32_transpose_block(f32_block v[4]) {
    const f32_block a = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5);
    const f32_block b = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
    const f32_block c = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5);
    const f32_block d = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
    v[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    v[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    v[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    v[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}
static inline __attribute__((always_inline)) void f64_transpose_block(f64_block v[2]) {
    const f64_block a = v[0];
    v[0] = __builtin_shufflevector(a, v[1], 0, 2);
    v[1] = __builtin_shufflevector(a, v[1], 1, 3);
}

#endif
