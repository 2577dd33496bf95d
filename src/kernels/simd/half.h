/* Blocks of half-width floats. F16C, NEON and the portable form give the same bits, also for NaN:
 * made quiet, with sign and upper payload kept. */
#ifndef PL_HALF_H
#define PL_HALF_H

#include "kernels/simd/simd.h"

#if PL_SIMD_NEON
static inline void f16_to_f32(const pl_u16 *x, pl_f32 *y, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        const size_t m = n - i < 4 ? n - i : 4;
        float16x4_t h = vdup_n_f16(0);
        memcpy(&h, x + i, m * 2);
        const float32x4_t v = vcvt_f32_f16(h);
        memcpy(y + i, &v, m * 4);
    }
}
static inline void f32_to_f16(const pl_f32 *x, pl_u16 *y, size_t n) {
    for (size_t i = 0; i < n; i += 4) {
        const size_t m = n - i < 4 ? n - i : 4;
        float32x4_t v = vdupq_n_f32(0);
        memcpy(&v, x + i, m * 4);
        const float16x4_t h = vcvt_f16_f32(v);
        memcpy(y + i, &h, m * 2);
    }
}
#elif PL_SIMD_FMA && defined(__F16C__)
static inline void f16_to_f32(const pl_u16 *x, pl_f32 *y, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h;
        memcpy(&h, x + i, sizeof h);
        const __m256 v = _mm256_cvtph_ps(h);
        memcpy(y + i, &v, sizeof v);
    }
    if (i < n) {
        __m128i h = _mm_setzero_si128();
        memcpy(&h, x + i, (n - i) * 2);
        const __m256 v = _mm256_cvtph_ps(h);
        memcpy(y + i, &v, (n - i) * 4);
    }
}
static inline void f32_to_f16(const pl_f32 *x, pl_u16 *y, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v;
        memcpy(&v, x + i, sizeof v);
        const __m128i h = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
        memcpy(y + i, &h, sizeof h);
    }
    if (i < n) {
        __m256 v = _mm256_setzero_ps();
        memcpy(&v, x + i, (n - i) * 4);
        const __m128i h = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
        memcpy(y + i, &h, (n - i) * 2);
    }
}
#else
/* No branches on the value, so that loops vectorise: all cases are computed and one is selected. A
 * denormal half is an integer times 2^-24, which a float holds exactly. */
static inline uint32_t f16_widen(uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    const float f = (float)(int32_t)rest * 0x1p-24f;
    uint32_t tiny;
    memcpy(&tiny, &f, sizeof tiny);
    uint32_t bits = (rest << 13) + 0x38000000u; /* exponent bias 15 to 127 */
    bits = rest >= 0x7c00u ? (rest << 13) | 0x7f800000u : bits;
    bits = rest > 0x7c00u ? bits | 0x400000u : bits;
    return sign | (rest < 0x400u ? tiny : bits);
}
/* Adding 0.5 aligns a small value so that its last kept bit has weight 2^-24: the addition rounds.
 */
static inline uint32_t f16_narrow(uint32_t u) {
    const uint32_t sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    float f;
    memcpy(&f, &a, sizeof f);
    f += 0.5f;
    uint32_t tiny;
    memcpy(&tiny, &f, sizeof tiny);
    tiny -= 0x3f000000u;
    uint32_t bits = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    bits = a < 0x38800000u ? tiny : bits;
    bits = a >= 0x477ff000u ? 0x7c00u : bits; /* 65520 and above round to infinity */
    bits = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : bits;
    return sign | bits;
}
static inline void f16_to_f32(const pl_u16 *x, pl_f32 *y, size_t n) {
    pl_u32 *out = (pl_u32 *)y;
    for (size_t i = 0; i < n; i++)
        out[i] = f16_widen(x[i]);
}
static inline void f32_to_f16(const pl_f32 *x, pl_u16 *y, size_t n) {
    const pl_u32 *in = (const pl_u32 *)x;
    for (size_t i = 0; i < n; i++)
        y[i] = (uint16_t)f16_narrow(in[i]);
}
#endif

static inline void bf16_to_f32(const pl_u16 *x, pl_f32 *y, size_t n) {
    pl_u32 *out = (pl_u32 *)y;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)x[i] << 16;
}
static inline void f32_to_bf16(const pl_f32 *x, pl_u16 *y, size_t n) {
    const pl_u32 *in = (const pl_u32 *)x;
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = in[i], quiet = (u >> 16) | 0x40u;
        const uint32_t bits = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        y[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : bits);
    }
}

#endif
