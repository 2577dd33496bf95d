/* Partial vectors, and transposes of square blocks of 16-byte vectors. */
#ifndef PL_BLOCK_H
#define PL_BLOCK_H

#include "kernels/simd/simd.h"

/* Stores the first n lanes (0 to all). */
static inline void f32_store_n(pl_f32 *p, pl_vf v, int64_t n) {
#if PL_SIMD_AVX512
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), (__m512)v);
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
#else
    if (n == PL_VD)
        pl_vd_store(p, v);
    else
        memcpy(p, &v, (size_t)n * sizeof(double));
#endif
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
