/* f16 and bf16 where the instruction set works on 16-bit lanes under masks (AVX-512 BW): ulps,
 * maxima, comparisons and exclusions are found in the 16-bit codes, twice as many to a vector, and
 * only the sums in f32. Included by metric_table.c only. */
#ifndef PL_METRIC_HALF_H
#define PL_METRIC_HALF_H

#include "kernels/simd/metric_pass.h"

#if PL_SIMD_AVX512

enum { HALF_RUN = 128, HALF_VECTORS = HALF_RUN / 32 };

typedef struct pass_half {
    __m512 sq, ab, rr, dr, rel; /* of RUNS runs */
    pl_vd d_sq, d_ab, d_rr, d_dr, d_rel;
    __m512i top, max_a, max_r, ulp, max_excluded;
    __m512 floor;
    __m512i least, tiny; /* codes: of the floor; the largest subnormal number */
    counts n;
} pass_half;

typedef struct subnormal_half {
    int64_t n, flushed;
} subnormal_half;

/* Half `k` of 32 elements: f16 the lower or upper ones, bf16 the even or odd ones. */
INLINE __m512 half_widen(bool is_bf16, const char *p, int k) {
    if (!is_bf16) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p + 32 * k)));
    const __m512i x = _mm512_loadu_si512(p);
    if (k == 0) return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
    return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u)));
}
INLINE __m512i half_magnitude(__m512i x) {
    return _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
}

/* Ulps of a run in which pairs have opposite signs or are more than a binade apart. */
static __attribute__((noinline)) __m512i half_far_ulps(const char *a, const char *r,
                                                       int64_t *mismatch) {
    __m512i top = _mm512_setzero_si512();
    *mismatch = 0;
    for (int j = 0; j < HALF_VECTORS; j++) {
        const __m512i x = _mm512_loadu_si512(a + 64 * j), y = _mm512_loadu_si512(r + 64 * j);
        const __m512i mx = half_magnitude(x), my = half_magnitude(y);
        const __m512i gap = _mm512_abs_epi16(_mm512_sub_epi16(mx, my));
        const __mmask32 opposite = _mm512_movepi16_mask(_mm512_xor_si512(x, y));
        const __m512i t = _mm512_mask_add_epi16(gap, opposite, mx, my);
        top = _mm512_max_epu16(top, t);
        *mismatch += __builtin_popcount(_mm512_test_epi16_mask(t, t));
    }
    return top;
}

static __attribute__((noinline)) void half_subnormal(subnormal_half *s, __m512i tiny, const char *a,
                                                     const char *r) {
    for (int j = 0; j < HALF_VECTORS; j++, a += 64, r += 64) {
        const __m512i mx = half_magnitude(_mm512_loadu_si512(a));
        const __m512i below = _mm512_sub_epi16(half_magnitude(_mm512_loadu_si512(r)),
                                               _mm512_set1_epi16(1)); /* 0 goes to the top */
        const __mmask32 sub = _mm512_cmplt_epu16_mask(below, tiny);
        s->n += __builtin_popcount(sub);
        s->flushed += __builtin_popcount(sub & _mm512_testn_epi16_mask(mx, mx));
    }
}

/* 32 elements. Under masks always: the floor of a narrow type is high, excluded elements are
 * frequent and irregular, and a branch would be guessed wrong. `is_out` is f16's only; bf16, whose
 * halves are not neighbours, compares them as floats. */
INLINE void half_sums(bool is_bf16, pass_half *s, const char *a, const char *r, __mmask32 is_out) {
    PL_UNROLL
    for (int k = 0; k < 2; k++) {
        const __m512 x = half_widen(is_bf16, a, k), y = half_widen(is_bf16, r, k);
        const __m512 d = _mm512_sub_ps(x, y), e = _mm512_abs_ps(d), abs_y = _mm512_abs_ps(y);
        s->sq = _mm512_fmadd_ps(d, d, s->sq);
        s->ab = _mm512_add_ps(s->ab, e);
        s->top = _mm512_max_epu32(s->top, _mm512_castps_si512(e));
        s->rr = _mm512_fmadd_ps(y, y, s->rr);
        s->dr = _mm512_fmadd_ps(d, y, s->dr);
        const __mmask16 out_16 =
            k == 0 ? (__mmask16)is_out : (__mmask16)_kshiftri_mask32(is_out, 16);
        const __mmask16 out = is_bf16 ? _mm512_cmp_ps_mask(abs_y, s->floor, _CMP_LE_OQ) : out_16;
        if (is_bf16) s->n.excluded += __builtin_popcount(out);
        s->max_excluded =
            _mm512_mask_max_epu32(s->max_excluded, out, s->max_excluded, _mm512_castps_si512(e));
        s->rel = _mm512_add_ps(s->rel, _mm512_maskz_div_ps(_knot_mask16(out), e, abs_y));
    }
}

INLINE void run_half(bool is_bf16, pass_half *s, subnormal_half *sub, const char *a,
                     const char *r) {
    const __m512i binade = _mm512_set1_epi16((short)(is_bf16 ? 0xff80 : 0xfc00));
    const __m512i zero = _mm512_setzero_si512(), one = _mm512_set1_epi16(1);
    __m512i up = zero, down = zero, least = _mm512_set1_epi16(-1); /* |r| - 1: 0 is at the top */
    int64_t mismatch = 0;
    PL_UNROLL
    for (int j = 0; j < HALF_VECTORS; j++) {
        const __m512i x = _mm512_loadu_si512(a + 64 * j), y = _mm512_loadu_si512(r + 64 * j);
        const __m512i my = half_magnitude(y), t = _mm512_sub_epi16(x, y);
        up = _mm512_max_epi16(up, t);
        down = _mm512_min_epi16(down, t);
        mismatch += __builtin_popcount(_mm512_test_epi16_mask(t, t));
        s->max_a = _mm512_max_epu16(s->max_a, half_magnitude(x));
        s->max_r = _mm512_max_epu16(s->max_r, my);
        least = _mm512_min_epu16(least, _mm512_sub_epi16(my, one));
        const __mmask32 out = is_bf16 ? 0 : _mm512_cmple_epu16_mask(my, s->least);
        s->n.excluded += __builtin_popcount(out);
        half_sums(is_bf16, s, a + 64 * j, r + 64 * j, out);
    }
    /* Codes less than a binade apart have the same sign: their distance is the one in ulps. */
    __m512i apart = _mm512_max_epu16(up, _mm512_sub_epi16(zero, down));
    if (__builtin_expect(_mm512_test_epi16_mask(apart, binade) != 0, 0))
        apart = half_far_ulps(a, r, &mismatch);
    s->ulp = _mm512_max_epu16(s->ulp, apart);
    s->n.mismatch += mismatch;
    if (__builtin_expect(_mm512_cmplt_epu16_mask(least, s->tiny) != 0, 0))
        half_subnormal(sub, s->tiny, a, r);
}

/* The same bits on both sides: nothing but r. */
INLINE void run_half_equal(bool is_bf16, pass_half *s, subnormal_half *sub, const char *r) {
    const __m512i one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1);
    PL_UNROLL
    for (int j = 0; j < HALF_VECTORS; j++) {
        const __m512i my = half_magnitude(_mm512_loadu_si512(r + 64 * j));
        s->max_a = s->max_r = _mm512_max_epu16(s->max_r, my);
        least = _mm512_min_epu16(least, _mm512_sub_epi16(my, one));
        s->n.excluded += __builtin_popcount(_mm512_cmple_epu16_mask(my, s->least));
        PL_UNROLL
        for (int k = 0; k < 2; k++) {
            const __m512 y = half_widen(is_bf16, r + 64 * j, k);
            s->rr = _mm512_fmadd_ps(y, y, s->rr);
        }
    }
    if (__builtin_expect(_mm512_cmplt_epu16_mask(least, s->tiny) != 0, 0))
        half_subnormal(sub, s->tiny, r, r);
}

INLINE pl_vd half_empty(pl_vd to, __m512 *from) {
    const pl_vf v = (pl_vf)*from;
    *from = _mm512_setzero_ps();
    return to + vd_fold(v);
}
INLINE void half_empty_run(pass_half *s) {
    s->d_sq = half_empty(s->d_sq, &s->sq);
    s->d_ab = half_empty(s->d_ab, &s->ab);
    s->d_rr = half_empty(s->d_rr, &s->rr);
    s->d_dr = half_empty(s->d_dr, &s->dr);
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

static __attribute__((noinline)) void half_products(bool is_bf16, const char *a, const char *r,
                                                    size_t n, pl_metric_block *out) {
    pl_vd aa = { 0 }, ar = { 0 }, rr = { 0 };
    for (size_t i = 0; i < n; i += 32, a += 64, r += 64) {
        char ta[64] = { 0 }, tr[64] = { 0 };
        const size_t m = n - i < 32 ? n - i : 32;
        memcpy(ta, a, m * 2);
        memcpy(tr, r, m * 2);
        for (int k = 0; k < 2; k++) {
            const pl_vf x = (pl_vf)half_widen(is_bf16, ta, k),
                        y = (pl_vf)half_widen(is_bf16, tr, k);
            aa = pl_vd_mac(vd_low(x), vd_low(x), pl_vd_mac(vd_high(x), vd_high(x), aa));
            ar = pl_vd_mac(vd_low(x), vd_low(y), pl_vd_mac(vd_high(x), vd_high(y), ar));
            rr = pl_vd_mac(vd_low(y), vd_low(y), pl_vd_mac(vd_high(y), vd_high(y), rr));
        }
    }
    out->sum_aa = vd_sum(aa);
    out->sum_ar = vd_sum(ar);
    out->sum_rr = vd_sum(rr); /* as precise as the others: their ratio is the cosine */
}

INLINE bool half_finish(bool is_bf16, const pass_half *s, const subnormal_half *sub,
                        size_t n_padding, pl_metric_block *out) {
    const uint16_t inf = is_bf16 ? 0x7f80 : 0x7c00, a = half_top(s->max_a), r = half_top(s->max_r);
    if (a >= inf || r >= inf) return false;
    out->max_a = half_value(is_bf16, a);
    out->max_r = half_value(is_bf16, r);
    out->max_abs = (double)vf_top((pl_vf)s->top);
    if (!in_range(out, 0x1p-50, 0x1p56)) return false;
    out->sum_sq = vd_sum(s->d_sq);
    out->sum_abs = vd_sum(s->d_ab);
    out->sum_rel = vd_sum(s->d_rel);
    if (isinf(out->sum_rel)) return false;
    out->sum_rr = vd_sum(s->d_rr);
    products_derive(vd_sum(s->d_dr), out);
    out->max_excluded = (double)vf_top((pl_vf)s->max_excluded);
    out->max_ulp = half_top(s->ulp);
    out->n_subnormal = sub->n;
    out->n_flushed = sub->flushed;
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

INLINE bool pass_half_block(bool is_bf16, bool equal, const char *a, const char *r, size_t n,
                            double floor, pl_metric_block *out) {
    enum { BYTES = 2 * HALF_RUN, RUNS = 4 }; /* 32 additions to a lane of f32 at most, and 1 */
    const uint16_t least = half_floor(is_bf16, floor), tiny = is_bf16 ? 0x7f : 0x3ff;
    pass_half s = { .floor = _mm512_set1_ps((float)half_value(is_bf16, least)),
                    .least = _mm512_set1_epi16((short)least),
                    .tiny = _mm512_set1_epi16((short)tiny) };
    subnormal_half sub = { 0 };
    char ta[BYTES] = { 0 }, tr[BYTES] = { 0 };
    const char *const first_a = a, *const first_r = r;
    const size_t n_runs = (n + HALF_RUN - 1) / HALF_RUN, n_whole = n / HALF_RUN;
    for (size_t i = 0; i < n_runs; i++, a += BYTES, r += BYTES) {
        if (i == n_whole) {
            memcpy(ta, a, (n - i * HALF_RUN) * 2);
            memcpy(tr, r, (n - i * HALF_RUN) * 2);
            a = ta;
            r = tr;
        }
        for (int b = 0; b < BYTES; b += 64)
            fetch(a + b, r + b);
        if (equal) {
            run_half_equal(is_bf16, &s, &sub, r);
        } else {
            run_half(is_bf16, &s, &sub, a, r);
        }
        if (i % RUNS == RUNS - 1) half_empty_run(&s);
    }
    half_empty_run(&s);
    if (!half_finish(is_bf16, &s, &sub, n_runs * HALF_RUN - n, out)) return false;
    if (products_cancel(out)) half_products(is_bf16, first_a, first_r, n, out);
    return true;
}

INLINE bool block_half(bool is_bf16, const char *a, const char *r, size_t n, double floor,
                       pl_metric_block *out) {
    if (memcmp(a, r, n * 2) == 0) return pass_half_block(is_bf16, true, a, r, n, floor, out);
    return pass_half_block(is_bf16, false, a, r, n, floor, out);
}

#endif

#endif
