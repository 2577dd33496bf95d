/* f16 and bf16 where the instruction set works on 16-bit lanes under masks (AVX-512 BW): ulps,
 * maxima, comparisons and exclusions are found in the 16-bit codes, twice as many to a vector, and
 * only the sums in f32. Included by metric_table.c only. */
#ifndef PL_METRIC_HALF_H
#define PL_METRIC_HALF_H

#include "kernels/simd/metric_pass.h"

#if PL_SIMD_AVX512

typedef struct pass_half {
    __m512 sq, ab, rr, aa, ar, rel; /* of a run */
    pl_vd d_sq, d_ab, d_rr, d_aa, d_ar, d_rel;
    __m512 top, max_excluded;
    __m512i max_a, max_r, ulp;
    __m512i floor, tiny; /* codes; tiny is the smallest normal number less 1 */
    counts n;
    int64_t subnormal, flushed;
} pass_half;

INLINE __m512 half_widen(bool is_bf16, __m256i x) {
    if (!is_bf16) return _mm512_cvtph_ps(x);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}

INLINE void half_sums(pass_half *s, __m512 x, __m512 y, __mmask16 in, __mmask16 out) {
    const __m512 d = _mm512_sub_ps(x, y), e = _mm512_abs_ps(d);
    s->sq = _mm512_fmadd_ps(d, d, s->sq);
    s->ab = _mm512_add_ps(s->ab, e);
    s->top = _mm512_max_ps(s->top, e);
    s->rr = _mm512_fmadd_ps(y, y, s->rr);
    s->aa = _mm512_fmadd_ps(x, x, s->aa);
    s->ar = _mm512_fmadd_ps(x, y, s->ar);
    s->max_excluded = _mm512_mask_max_ps(s->max_excluded, out, s->max_excluded, e);
    const __m512 q = _mm512_div_ps(e, _mm512_abs_ps(y));
    s->rel = _mm512_mask_add_ps(s->rel, in, s->rel, q);
}

/* 32 elements. */
INLINE void step_half(bool is_bf16, pass_half *s, const char *a, const char *r) {
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(r);
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    const __m512i mx = _mm512_and_si512(x, magnitude), my = _mm512_and_si512(y, magnitude);
    const __mmask32 opposite = _mm512_movepi16_mask(_mm512_xor_si512(x, y));
    const __m512i gap = _mm512_abs_epi16(_mm512_sub_epi16(mx, my));
    const __m512i ulp = _mm512_mask_add_epi16(gap, opposite, mx, my);
    s->ulp = _mm512_max_epu16(s->ulp, ulp);
    s->max_a = _mm512_max_epu16(s->max_a, mx);
    s->max_r = _mm512_max_epu16(s->max_r, my);
    s->n.mismatch += __builtin_popcount(_mm512_test_epi16_mask(ulp, ulp));
    const __mmask32 out = _mm512_cmple_epu16_mask(my, s->floor);
    const __mmask32 in = _mm512_cmpgt_epu16_mask(my, s->floor); /* cheaper than inverting */
    s->n.excluded += __builtin_popcount(out);
    const __mmask32 sub =
        _mm512_cmplt_epu16_mask(_mm512_sub_epi16(my, _mm512_set1_epi16(1)), s->tiny);
    if (__builtin_expect(sub != 0, 0)) {
        s->subnormal += __builtin_popcount(sub);
        s->flushed += __builtin_popcount(sub & _mm512_testn_epi16_mask(mx, mx));
    }
    half_sums(s, half_widen(is_bf16, _mm512_castsi512_si256(x)),
              half_widen(is_bf16, _mm512_castsi512_si256(y)), (__mmask16)in, (__mmask16)out);
    half_sums(s, half_widen(is_bf16, _mm512_extracti64x4_epi64(x, 1)),
              half_widen(is_bf16, _mm512_extracti64x4_epi64(y, 1)),
              (__mmask16)_kshiftri_mask32(in, 16), (__mmask16)_kshiftri_mask32(out, 16));
}

INLINE pl_vd half_empty(pl_vd to, __m512 *from) {
    const pl_vf v = (pl_vf)*from;
    *from = _mm512_setzero_ps();
    return to + (vd_low(v) + vd_high(v));
}
INLINE void half_empty_run(pass_half *s) {
    s->d_sq = half_empty(s->d_sq, &s->sq);
    s->d_ab = half_empty(s->d_ab, &s->ab);
    s->d_rr = half_empty(s->d_rr, &s->rr);
    s->d_aa = half_empty(s->d_aa, &s->aa);
    s->d_ar = half_empty(s->d_ar, &s->ar);
    s->d_rel = half_empty(s->d_rel, &s->rel);
}

INLINE uint16_t half_top(__m512i v) {
    uint16_t lane[32], top = 0;
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < 32; i++)
        top = lane[i] > top ? lane[i] : top;
    return top;
}
INLINE double half_value(bool is_bf16, uint16_t code) {
    return (double)(is_bf16 ? pl_bf16_to_f32(code) : pl_f16_to_f32(code));
}

INLINE bool half_finish(bool is_bf16, pass_half *s, size_t n_padding, pl_metric_block *out) {
    const uint16_t inf = is_bf16 ? 0x7f80 : 0x7c00, a = half_top(s->max_a), r = half_top(s->max_r);
    if (a >= inf || r >= inf) return false;
    out->max_a = half_value(is_bf16, a);
    out->max_r = half_value(is_bf16, r);
    out->max_abs = (double)vf_top((pl_vf)s->top);
    if (!in_range(out->max_abs, a > r ? out->max_a : out->max_r, 0x1p-50, 0x1p56)) return false;
    out->sum_sq = vd_sum(s->d_sq);
    out->sum_abs = vd_sum(s->d_ab);
    out->sum_rel = vd_sum(s->d_rel);
    if (isinf(out->sum_rel)) return false;
    out->sum_rr = vd_sum(s->d_rr);
    out->sum_aa = vd_sum(s->d_aa);
    out->sum_ar = vd_sum(s->d_ar);
    out->max_excluded = (double)vf_top((pl_vf)s->max_excluded);
    out->max_ulp = half_top(s->ulp);
    out->n_subnormal = s->subnormal;
    out->n_flushed = s->flushed;
    counts_store(&s->n, n_padding, out);
    return true;
}

/* The code of the largest value <= floor, which is 0 or a power of two. */
INLINE uint16_t half_floor(bool is_bf16, double floor) {
    const float f = (float)floor;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (is_bf16) return (uint16_t)(bits >> 16);
    return f < 0x1p-24f ? 0 : f > 65504 ? 0x7bff : pl_f16_from_f32(f);
}

INLINE bool block_half(bool is_bf16, const char *a, const char *r, size_t n, double floor,
                       pl_metric_block *out) {
    enum { RUN_STEPS = 16, STEP = 32 }; /* 32 additions to a lane of f32 at most */
    pass_half s = { .floor = _mm512_set1_epi16((short)half_floor(is_bf16, floor)),
                    .tiny = _mm512_set1_epi16(is_bf16 ? 0x7f : 0x3ff) };
    size_t i = 0;
    for (; i + RUN_STEPS * STEP <= n; i += RUN_STEPS * STEP) {
        for (int j = 0; j < RUN_STEPS; j++, a += 2 * STEP, r += 2 * STEP) {
            fetch(a, r);
            step_half(is_bf16, &s, a, r);
        }
        half_empty_run(&s);
    }
    size_t n_padding = 0;
    for (; i < n; i += STEP, a += 2 * STEP, r += 2 * STEP) {
        const size_t m = n - i < STEP ? n - i : STEP;
        char ta[2 * STEP] = { 0 }, tr[2 * STEP] = { 0 };
        memcpy(ta, a, m * 2);
        memcpy(tr, r, m * 2);
        n_padding += STEP - m;
        step_half(is_bf16, &s, ta, tr);
    }
    half_empty_run(&s);
    return half_finish(is_bf16, &s, n_padding, out);
}

#endif

#endif
