/* Lane masks, maxima and narrow loads for the metric kernels. */
#ifndef PL_METRIC_LANES_H
#define PL_METRIC_LANES_H

#include <stdbool.h>

#include "kernels/simd/simd.h"

/* ---- masks: one truth value a lane ---- */
#if PL_SIMD_AVX512
typedef __mmask16 vm_f;
typedef __mmask8 vm_d;
static inline vm_f vf_le(pl_vf a, pl_vf b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ);
}
static inline vm_f vf_less(pl_vf a, pl_vf b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ);
}
static inline vm_f vf_differs(pl_vf a, pl_vf b) {
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ);
}
static inline vm_f vf_and(vm_f x, vm_f y) {
    return (vm_f)(x & y);
}
static inline pl_vf vf_drop(vm_f m, pl_vf v) {
    return (pl_vf)_mm512_maskz_mov_ps((__mmask16)~m, (__m512)v);
}
static inline int vf_count(vm_f m) {
    return __builtin_popcount(m);
}
static inline vm_d vd_le(pl_vd a, pl_vd b) {
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LE_OQ);
}
static inline vm_d vd_less(pl_vd a, pl_vd b) {
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_LT_OQ);
}
static inline vm_d vd_and(vm_d x, vm_d y) {
    return (vm_d)(x & y);
}
static inline pl_vd vd_drop(vm_d m, pl_vd v) {
    return (pl_vd)_mm512_maskz_mov_pd((__mmask8)~m, (__m512d)v);
}
static inline int vd_count(vm_d m) {
    return __builtin_popcount(m);
}
static inline pl_vf vf_max(pl_vf a, pl_vf b) {
    return (pl_vf)_mm512_max_ps((__m512)a, (__m512)b);
}
static inline pl_vd vd_max(pl_vd a, pl_vd b) {
    return (pl_vd)_mm512_max_pd((__m512d)a, (__m512d)b);
}
static inline pl_vu vu_max(pl_vu a, pl_vu b) {
    return (pl_vu)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
static inline pl_vu vu_min(pl_vu a, pl_vu b) {
    return (pl_vu)_mm512_min_epu32((__m512i)a, (__m512i)b);
}
static inline pl_vi vi_max(pl_vi a, pl_vi b) {
    return (pl_vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
static inline pl_vi vi_min(pl_vi a, pl_vi b) {
    return (pl_vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
static inline pl_vw vw_max(pl_vw a, pl_vw b) {
    return (pl_vw)_mm512_max_epu64((__m512i)a, (__m512i)b);
}
#else
typedef pl_vi vm_f;
typedef pl_vl vm_d;
static inline vm_f vf_le(pl_vf a, pl_vf b) {
    return a <= b;
}
static inline vm_f vf_less(pl_vf a, pl_vf b) {
    return a < b;
}
static inline vm_f vf_differs(pl_vf a, pl_vf b) {
    return a != b;
}
static inline vm_f vf_and(vm_f x, vm_f y) {
    return x & y;
}
static inline pl_vf vf_drop(vm_f m, pl_vf v) {
    return (pl_vf)(~m & (pl_vi)v);
}
static inline vm_d vd_le(pl_vd a, pl_vd b) {
    return a <= b;
}
static inline vm_d vd_less(pl_vd a, pl_vd b) {
    return a < b;
}
static inline vm_d vd_and(vm_d x, vm_d y) {
    return x & y;
}
static inline pl_vd vd_drop(vm_d m, pl_vd v) {
    return (pl_vd)(~m & (pl_vl)v);
}
#if PL_SIMD_AVX2
static inline int vf_count(vm_f m) {
    return __builtin_popcount((unsigned)_mm256_movemask_ps((__m256)m));
}
static inline int vd_count(vm_d m) {
    return __builtin_popcount((unsigned)_mm256_movemask_pd((__m256d)m));
}
static inline pl_vf vf_max(pl_vf a, pl_vf b) {
    return (pl_vf)_mm256_max_ps((__m256)a, (__m256)b);
}
static inline pl_vd vd_max(pl_vd a, pl_vd b) {
    return (pl_vd)_mm256_max_pd((__m256d)a, (__m256d)b);
}
static inline pl_vu vu_max(pl_vu a, pl_vu b) {
    return (pl_vu)_mm256_max_epu32((__m256i)a, (__m256i)b);
}
static inline pl_vu vu_min(pl_vu a, pl_vu b) {
    return (pl_vu)_mm256_min_epu32((__m256i)a, (__m256i)b);
}
static inline pl_vi vi_max(pl_vi a, pl_vi b) {
    return (pl_vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}
static inline pl_vi vi_min(pl_vi a, pl_vi b) {
    return (pl_vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
}
#elif PL_SIMD_NEON
static inline int vf_count(vm_f m) {
    return -(int)vaddvq_s32((int32x4_t)m);
}
static inline int vd_count(vm_d m) {
    return -(int)vaddvq_s64((int64x2_t)m);
}
static inline pl_vf vf_max(pl_vf a, pl_vf b) {
    return (pl_vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
static inline pl_vd vd_max(pl_vd a, pl_vd b) {
    return (pl_vd)vmaxq_f64((float64x2_t)a, (float64x2_t)b);
}
static inline pl_vu vu_max(pl_vu a, pl_vu b) {
    return (pl_vu)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}
static inline pl_vu vu_min(pl_vu a, pl_vu b) {
    return (pl_vu)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
}
static inline pl_vi vi_max(pl_vi a, pl_vi b) {
    return (pl_vi)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
}
static inline pl_vi vi_min(pl_vi a, pl_vi b) {
    return (pl_vi)vminq_s32((int32x4_t)a, (int32x4_t)b);
}
#else
static inline int vf_count(vm_f m) {
    int n = 0;
    for (int i = 0; i < PL_VF; i++)
        n -= m[i];
    return n;
}
static inline int vd_count(vm_d m) {
    int n = 0;
    for (int i = 0; i < PL_VD; i++)
        n -= (int)m[i];
    return n;
}
static inline pl_vf vf_max(pl_vf a, pl_vf b) {
    return pl_vf_lt(a, b, b, a);
}
static inline pl_vd vd_max(pl_vd a, pl_vd b) {
    return pl_vd_lt(a, b, b, a);
}
static inline pl_vu vu_max(pl_vu a, pl_vu b) {
    const pl_vu m = (pl_vu)(a < b);
    return (m & b) | (~m & a);
}
static inline pl_vu vu_min(pl_vu a, pl_vu b) {
    const pl_vu m = (pl_vu)(a < b);
    return (m & a) | (~m & b);
}
static inline pl_vi vi_max(pl_vi a, pl_vi b) {
    const pl_vi m = a < b;
    return (m & b) | (~m & a);
}
static inline pl_vi vi_min(pl_vi a, pl_vi b) {
    const pl_vi m = a < b;
    return (m & a) | (~m & b);
}
#endif
static inline pl_vw vw_max(pl_vw a, pl_vw b) {
    const pl_vw m = (pl_vw)(a < b);
    return (m & b) | (~m & a);
}
#endif

/* ---- distances in units of the last place ---- */
/* Distance of two floats given as magnitudes; sign is the xor of both signs. Opposite signs: the
 * sum, else the difference. -0 is 0. Fits in 32 bits unsigned. */
static inline pl_vu vu_ulp(pl_vu sign, pl_vu x, pl_vu y) {
#if PL_SIMD_AVX512
    const __m512i gap = _mm512_abs_epi32(_mm512_sub_epi32((__m512i)x, (__m512i)y));
    return (pl_vu)_mm512_mask_add_epi32(gap, _mm512_movepi32_mask((__m512i)sign), (__m512i)x,
                                        (__m512i)y);
#else
    const pl_vi d = (pl_vi)x - (pl_vi)y, m = d >> 31;
    const pl_vu gap = (pl_vu)((d ^ m) - m), opposite = (pl_vu)((pl_vi)sign >> 31);
    return (opposite & (x + y)) | (~opposite & gap);
#endif
}
static inline bool vu_any_bit(pl_vu v, uint32_t bits) { /* in any lane */
#if PL_SIMD_AVX512
    return _mm512_test_epi32_mask((__m512i)v, _mm512_set1_epi32((int)bits)) != 0;
#elif PL_SIMD_AVX2
    return !_mm256_testz_si256((__m256i)v, _mm256_set1_epi32((int)bits));
#elif PL_SIMD_NEON
    return vmaxvq_u32((uint32x4_t)(v & bits)) != 0;
#else
    return ((v[0] | v[1] | v[2] | v[3]) & bits) != 0;
#endif
}
static inline bool vu_any_le(pl_vu a, pl_vu b) { /* both below 2^31 */
#if PL_SIMD_AVX512
    return _mm512_cmple_epu32_mask((__m512i)a, (__m512i)b) != 0;
#elif PL_SIMD_AVX2
    const __m256i above = _mm256_cmpgt_epi32((__m256i)a, (__m256i)b);
    return !_mm256_testc_si256(above, _mm256_set1_epi32(-1));
#elif PL_SIMD_NEON
    return vmaxvq_u32((uint32x4_t)(a <= b)) != 0;
#else
    const pl_vu m = (pl_vu)(a <= b);
    return (m[0] | m[1] | m[2] | m[3]) != 0;
#endif
}
static inline int vu_count(pl_vu v) { /* lanes that are not 0 */
#if PL_SIMD_AVX512
    return __builtin_popcount(_mm512_test_epi32_mask((__m512i)v, (__m512i)v));
#else
    return vf_count((vm_f)(v != 0));
#endif
}
/* The same for 16-bit floats, given sign-extended. */
static inline pl_vu vu_ulp16(pl_vi a, pl_vi b) {
    const pl_vi m = a >> 31, k = b >> 31;
    const pl_vi d = (((a & 0x7fff) ^ m) - m) - (((b & 0x7fff) ^ k) - k), s = d >> 31;
    return (pl_vu)((d ^ s) - s);
}
/* Converts sign and magnitude to two's complement: adjacent floats differ by 1, and -0 is 0. */
#if PL_SIMD_AVX512
static inline __m512i vl_ordered(__m512i x) {
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi64(INT64_MAX));
    return _mm512_mask_sub_epi64(magnitude, _mm512_movepi64_mask(x), _mm512_setzero_si512(),
                                 magnitude);
}
static inline pl_vw vw_ulp(pl_vd a, pl_vd b) {
    const __m512i x = vl_ordered((__m512i)a), y = vl_ordered((__m512i)b);
    return (pl_vw)_mm512_sub_epi64(_mm512_max_epi64(x, y), _mm512_min_epi64(x, y));
}
#else
static inline pl_vl vl_ordered(pl_vl x) {
    const pl_vl m = x >> 63;
    return (x ^ (m & INT64_MAX)) - m;
}
static inline pl_vw vw_ulp(pl_vd a, pl_vd b) {
    const pl_vl x = vl_ordered((pl_vl)a), y = vl_ordered((pl_vl)b);
    const pl_vw d = (pl_vw)x - (pl_vw)y, m = (pl_vw)(x < y);
    return (d ^ m) - m;
}
#endif

/* ---- lanes to one number ---- */
static inline double vd_sum(pl_vd v) {
    double lane[PL_VD];
    memcpy(lane, &v, sizeof lane);
    for (int half = PL_VD / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}
/* Through memory: a variable subscript on the vector itself would keep it in memory in the loop. */
#define PL_LANES_TOP(name, vector, type, count)                                                    \
    static inline type name(vector v) {                                                            \
        type lane[count];                                                                          \
        memcpy(lane, &v, sizeof lane);                                                             \
        type top = lane[0];                                                                        \
        for (int j = 1; j < (count); j++)                                                          \
            top = lane[j] > top ? lane[j] : top;                                                   \
        return top;                                                                                \
    }
PL_LANES_TOP(vd_top, pl_vd, double, PL_VD)
PL_LANES_TOP(vf_top, pl_vf, float, PL_VF)
PL_LANES_TOP(vu_top, pl_vu, uint32_t, PL_VF)
PL_LANES_TOP(vw_top, pl_vw, uint64_t, PL_VD)

/* ---- floats as doubles (gcc splits __builtin_convertvector in two) ---- */
#if PL_SIMD_AVX512
static inline pl_vd vd_load_f32(const void *p) {
    return (pl_vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
}
static inline pl_vd vd_low(pl_vf v) {
    return (pl_vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
}
static inline pl_vd vd_high(pl_vf v) {
    return (pl_vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
}
#elif PL_SIMD_AVX2
static inline pl_vd vd_load_f32(const void *p) {
    return (pl_vd)_mm256_cvtps_pd(_mm_loadu_ps(p));
}
static inline pl_vd vd_low(pl_vf v) {
    return (pl_vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
}
static inline pl_vd vd_high(pl_vf v) {
    return (pl_vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}
#elif PL_SIMD_NEON
static inline pl_vd vd_load_f32(const void *p) {
    return pl_vd_load_f32(p);
}
static inline pl_vd vd_low(pl_vf v) {
    return (pl_vd)vcvt_f64_f32(vget_low_f32((float32x4_t)v));
}
static inline pl_vd vd_high(pl_vf v) {
    return (pl_vd)vcvt_high_f64_f32((float32x4_t)v);
}
#else
static inline pl_vd vd_load_f32(const void *p) {
    return pl_vd_load_f32(p);
}
static inline pl_vd vd_low(pl_vf v) {
    float lane[PL_VF];
    memcpy(lane, &v, sizeof lane);
    return pl_vd_load_f32(lane);
}
static inline pl_vd vd_high(pl_vf v) {
    float lane[PL_VF];
    memcpy(lane, &v, sizeof lane);
    return pl_vd_load_f32(lane + PL_VD);
}
#endif

/* Adds both halves as floats and returns the sums as doubles. */
static inline pl_vd vd_fold(pl_vf v) {
#if PL_SIMD_AVX512
    const __m512 x = (__m512)v;
    const __m256 sum = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    return (pl_vd)_mm512_cvtps_pd(sum);
#elif PL_SIMD_AVX2
    const __m256 x = (__m256)v;
    const __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    return (pl_vd)_mm256_cvtps_pd(sum);
#elif PL_SIMD_NEON
    const float32x4_t x = (float32x4_t)v;
    return (pl_vd)vcvt_f64_f32(vadd_f32(vget_low_f32(x), vget_high_f32(x)));
#else
    const float sum[PL_VD] = { v[0] + v[2], v[1] + v[3] };
    return pl_vd_load_f32(sum);
#endif
}

/* ---- PL_VF narrow elements as floats ---- */
#if PL_SIMD_AVX512
static inline pl_vf vf_load_f16(const void *p) {
    return (pl_vf)_mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline pl_vi vi_load_i16(const void *p) {
    return (pl_vi)_mm512_cvtepi16_epi32(_mm256_loadu_si256(p));
}
static inline pl_vf vf_load_bf16(const void *p) {
    return (pl_vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
}
static inline pl_vf vf_load_i8(const void *p) {
    return (pl_vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}
static inline pl_vf vf_load_u8(const void *p) {
    return (pl_vf)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p)));
}
#elif PL_SIMD_AVX2
static inline pl_vf vf_load_f16(const void *p) {
    return (pl_vf)_mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline pl_vi vi_load_i16(const void *p) {
    return (pl_vi)_mm256_cvtepi16_epi32(_mm_loadu_si128(p));
}
static inline pl_vf vf_load_bf16(const void *p) {
    return (pl_vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16);
}
static inline pl_vf vf_load_i8(const void *p) {
    return (pl_vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}
static inline pl_vf vf_load_u8(const void *p) {
    return (pl_vf)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p)));
}
#elif PL_SIMD_NEON
static inline uint16x4_t load_four_u16(const void *p) {
    uint16x4_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint8x8_t load_four_u8(const void *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    return vcreate_u8(four);
}
static inline pl_vf vf_load_f16(const void *p) {
    return (pl_vf)vcvt_f32_f16(vreinterpret_f16_u16(load_four_u16(p)));
}
static inline pl_vi vi_load_i16(const void *p) {
    return (pl_vi)vmovl_s16(vreinterpret_s16_u16(load_four_u16(p)));
}
static inline pl_vf vf_load_bf16(const void *p) {
    return (pl_vf)vshll_n_u16(load_four_u16(p), 16);
}
static inline pl_vf vf_load_i8(const void *p) {
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u8(load_four_u8(p)));
    return (pl_vf)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline pl_vf vf_load_u8(const void *p) {
    return (pl_vf)vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(load_four_u8(p)))));
}
#else
static inline pl_vf vf_load_f16(const void *p) {
    float lane[PL_VF];
    for (int i = 0; i < PL_VF; i++)
        lane[i] = pl_f16_to_f32(((const pl_u16 *)p)[i]);
    return pl_vf_load(lane);
}
static inline pl_vi vi_load_i16(const void *p) {
    const pl_i16 *x = p;
    return (pl_vi){ x[0], x[1], x[2], x[3] };
}
static inline pl_vf vf_load_bf16(const void *p) {
    uint32_t lane[PL_VF];
    for (int i = 0; i < PL_VF; i++)
        lane[i] = (uint32_t)((const pl_u16 *)p)[i] << 16;
    return pl_vf_load(lane);
}
static inline pl_vf vf_load_i8(const void *p) {
    float lane[PL_VF];
    for (int i = 0; i < PL_VF; i++)
        lane[i] = (float)((const pl_i8 *)p)[i];
    return pl_vf_load(lane);
}
static inline pl_vf vf_load_u8(const void *p) {
    float lane[PL_VF];
    for (int i = 0; i < PL_VF; i++)
        lane[i] = (float)((const pl_u8 *)p)[i];
    return pl_vf_load(lane);
}
#endif

#endif
