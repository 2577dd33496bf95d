/* Shared by the files of this folder: native-width vectors, and operations that GNU vector types
 * lack in C. Every .c here is compiled once for each instruction set with -DPL_ISA=base|avx2|
 * avx512|neon and that set's flags; external names go through PL_SIMD.
 *
 * Intrinsics appear only here and only for avx2, avx512 and neon; base is portable C. */
#ifndef PL_SIMD_H
#define PL_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tensor/dtype.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__FMA__)
#define PL_SIMD_AVX512 1
#define PL_SIMD_AVX2 0
#define PL_SIMD_NEON 0
#define PL_SIMD_FMA 1 /* a fused multiply-add */
#define PL_VB 64      /* bytes of a vector */
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#define PL_SIMD_AVX512 0
#define PL_SIMD_AVX2 1
#define PL_SIMD_NEON 0
#define PL_SIMD_FMA 1
#define PL_VB 32
#include <immintrin.h>
#elif defined(PL_WANT_NEON) /* every ARM64 has it; base is the same C without fused products */
#define PL_SIMD_AVX512 0
#define PL_SIMD_AVX2 0
#define PL_SIMD_NEON 1
#define PL_SIMD_FMA 1
#define PL_VB 16
#include <arm_neon.h>
#else
#define PL_SIMD_AVX512 0
#define PL_SIMD_AVX2 0
#define PL_SIMD_NEON 0
#define PL_SIMD_FMA 0
#define PL_VB 16
#endif

#define PL_SIMD_CAT2(a, b) a##_##b
#define PL_SIMD_CAT(a, b) PL_SIMD_CAT2(a, b)
#define PL_SIMD(name) PL_SIMD_CAT(name, PL_ISA)

/* For loops of constant length whose arrays must end up in registers. */
#if defined(__clang__)
#define PL_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PL_UNROLL _Pragma("GCC unroll 64")
#endif

enum { PL_VF = PL_VB / 4, PL_VD = PL_VB / 8 }; /* floats and doubles in a vector */

typedef float pl_vf __attribute__((vector_size(PL_VB)));
typedef double pl_vd __attribute__((vector_size(PL_VB)));
typedef int32_t pl_vi __attribute__((vector_size(PL_VB)));
typedef int64_t pl_vl __attribute__((vector_size(PL_VB)));
typedef uint32_t pl_vu __attribute__((vector_size(PL_VB))); /* for bits that may wrap */
typedef uint64_t pl_vw __attribute__((vector_size(PL_VB)));
typedef float pl_vf_any __attribute__((vector_size(PL_VB), aligned(1), may_alias));
typedef double pl_vd_any __attribute__((vector_size(PL_VB), aligned(1), may_alias));
typedef float pl_vh __attribute__((vector_size(PL_VB / 2))); /* PL_VD floats */
typedef double pl_vd2
    __attribute__((vector_size(2 * PL_VB))); /* as many doubles as pl_vf has floats */
typedef float pl_vh_any __attribute__((vector_size(PL_VB / 2), aligned(1), may_alias));

static inline pl_vf pl_vf_load(const void *p) {
    return *(const pl_vf_any *)p;
}
static inline void pl_vf_store(void *p, pl_vf v) {
    *(pl_vf_any *)p = v;
}
static inline pl_vd pl_vd_load(const void *p) {
    return *(const pl_vd_any *)p;
}
static inline void pl_vd_store(void *p, pl_vd v) {
    *(pl_vd_any *)p = v;
}
/* PL_VD floats from memory as doubles. */
static inline pl_vd pl_vd_load_f32(const void *p) {
    const pl_vh h = *(const pl_vh_any *)p;
    return __builtin_convertvector(h, pl_vd);
}
static inline void pl_vd_store_f32(void *p, pl_vd v) {
    *(pl_vh_any *)p = __builtin_convertvector(v, pl_vh);
}
static inline pl_vf pl_vf_set(float s) {
#if PL_SIMD_AVX512
    return (pl_vf)_mm512_set1_ps(s);
#elif PL_SIMD_AVX2
    return (pl_vf)_mm256_set1_ps(s);
#elif PL_SIMD_NEON
    return (pl_vf)vdupq_n_f32(s);
#else
    return (pl_vf){ s, s, s, s };
#endif
}
static inline pl_vd pl_vd_set(double s) {
#if PL_SIMD_AVX512
    return (pl_vd)_mm512_set1_pd(s);
#elif PL_SIMD_AVX2
    return (pl_vd)_mm256_set1_pd(s);
#elif PL_SIMD_NEON
    return (pl_vd)vdupq_n_f64(s);
#else
    return (pl_vd){ s, s };
#endif
}

/* a * b + c with one rounding. Base has no such instruction: the product is exact in double and the
 * sum is rounded there first, which differs from a single rounding about once in 2^29 cases. */
static inline pl_vf pl_vf_fma(pl_vf a, pl_vf b, pl_vf c) {
#if PL_SIMD_AVX512
    return (pl_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif PL_SIMD_AVX2
    return (pl_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif PL_SIMD_NEON
    return (pl_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    const pl_vd2 p = __builtin_convertvector(a, pl_vd2) * __builtin_convertvector(b, pl_vd2);
    return __builtin_convertvector(p + __builtin_convertvector(c, pl_vd2), pl_vf);
#endif
}

/* a * b + c for sums where the rounding of the product hardly matters: fused if the instruction set
 * has it, two operations in base. */
static inline pl_vf pl_vf_mac(pl_vf a, pl_vf b, pl_vf c) {
#if PL_SIMD_FMA
    return pl_vf_fma(a, b, c);
#else
    return a * b + c;
#endif
}
static inline pl_vd pl_vd_mac(pl_vd a, pl_vd b, pl_vd c) {
#if PL_SIMD_AVX512
    return (pl_vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif PL_SIMD_AVX2
    return (pl_vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif PL_SIMD_NEON
    return (pl_vd)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    return a * b + c;
#endif
}

/* a < b ? x : y and a == b ? x : y, lane by lane (C has no ?: on vectors). */
static inline pl_vf pl_vf_lt(pl_vf a, pl_vf b, pl_vf x, pl_vf y) {
#if PL_SIMD_AVX512
    const __mmask16 m = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
    return (pl_vf)_mm512_mask_blend_ps(m, (__m512)y, (__m512)x);
#elif PL_SIMD_AVX2
    return (pl_vf)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)(a < b));
#elif PL_SIMD_NEON
    return (pl_vf)vbslq_f32((uint32x4_t)(a < b), (float32x4_t)x, (float32x4_t)y);
#else
    const pl_vi m = a < b;
    return (pl_vf)((m & (pl_vi)x) | (~m & (pl_vi)y));
#endif
}
static inline pl_vf pl_vf_eq(pl_vf a, pl_vf b, pl_vf x, pl_vf y) {
#if PL_SIMD_AVX512
    const __mmask16 m = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
    return (pl_vf)_mm512_mask_blend_ps(m, (__m512)y, (__m512)x);
#elif PL_SIMD_AVX2
    return (pl_vf)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)(a == b));
#elif PL_SIMD_NEON
    return (pl_vf)vbslq_f32((uint32x4_t)(a == b), (float32x4_t)x, (float32x4_t)y);
#else
    const pl_vi m = a == b;
    return (pl_vf)((m & (pl_vi)x) | (~m & (pl_vi)y));
#endif
}
static inline pl_vd pl_vd_lt(pl_vd a, pl_vd b, pl_vd x, pl_vd y) {
#if PL_SIMD_AVX512
    const __mmask8 m = _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
    return (pl_vd)_mm512_mask_blend_pd(m, (__m512d)y, (__m512d)x);
#elif PL_SIMD_AVX2
    return (pl_vd)_mm256_blendv_pd((__m256d)y, (__m256d)x, (__m256d)(a < b));
#elif PL_SIMD_NEON
    return (pl_vd)vbslq_f64((uint64x2_t)(a < b), (float64x2_t)x, (float64x2_t)y);
#else
    const pl_vl m = a < b;
    return (pl_vd)((m & (pl_vl)x) | (~m & (pl_vl)y));
#endif
}
static inline pl_vd pl_vd_eq(pl_vd a, pl_vd b, pl_vd x, pl_vd y) {
#if PL_SIMD_AVX512
    const __mmask8 m = _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ);
    return (pl_vd)_mm512_mask_blend_pd(m, (__m512d)y, (__m512d)x);
#elif PL_SIMD_AVX2
    return (pl_vd)_mm256_blendv_pd((__m256d)y, (__m256d)x, (__m256d)(a == b));
#elif PL_SIMD_NEON
    return (pl_vd)vbslq_f64((uint64x2_t)(a == b), (float64x2_t)x, (float64x2_t)y);
#else
    const pl_vl m = a == b;
    return (pl_vd)((m & (pl_vl)x) | (~m & (pl_vl)y));
#endif
}
static inline pl_vf pl_vf_abs(pl_vf x) {
    return (pl_vf)((pl_vi)x & 0x7fffffff);
}
static inline pl_vd pl_vd_abs(pl_vd x) {
    return (pl_vd)((pl_vl)x & INT64_MAX);
}
/* |a| with the sign of b */
static inline pl_vf pl_vf_copysign(pl_vf a, pl_vf b) {
    return (pl_vf)(((pl_vi)a & 0x7fffffff) | ((pl_vi)b & INT32_MIN));
}

#endif
