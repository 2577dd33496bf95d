/* f16 and bf16 for AVX-512 and AVX2: ulps, maxima, comparisons and exclusions use the 16-bit codes,
 * twice as many per vector; only sums are in f32. The sign of r is first removed from both sides,
 * which changes neither |r|, |d| nor the products.
 *
 * bf16 has a third form for CPUs that multiply its pairs (AVX512_BF16): a * r and r^2 for 32
 * elements at once, and d = 1 * a + -1 * r, rounded like a subtraction. These products treat
 * numbers below 2^-126 as 0: floors that small use the second form, and half_finish rejects blocks
 * that may consist of such numbers.
 *
 * On Zen 4 an operation on 512 bits takes 2 of the 4 slots of a cycle, a conversion from f16 and a
 * division 4: 80 slots for 32 pairs of f16, 68 of bf16. Included by metric_table.c only. */
#ifndef PL_METRIC_HALF_H
#define PL_METRIC_HALF_H

#include "kernels/simd/metric_pass.h"

#if PL_SIMD_AVX512 || PL_SIMD_AVX2

typedef enum half_kind { HALF_F16, HALF_BF16, HALF_BF16_DOT } half_kind;

/* A vector of codes, and which of them are meant. */
#if PL_SIMD_AVX512
typedef __m512i pl_vc;
typedef __mmask32 vm_c;
#define VC(op) _mm512_##op
#define vc_load(p) _mm512_loadu_si512(p)
#define vc_and(x, y) _mm512_and_si512(x, y)
#define vc_zero() _mm512_setzero_si512()
#define vc_join(a, r, sign) _mm512_ternarylogic_epi32(a, r, sign, 0x78) /* a ^ (r & sign) */
#define vc_opposite(x, y) _mm512_movepi16_mask(_mm512_xor_si512(x, y))
#define vc_above(x, y) _mm512_cmpgt_epu16_mask(x, y) /* of codes without a sign */
#define vc_below(x, y) _mm512_cmplt_epu16_mask(x, y) /* of any codes, like the others */
#define vc_at_most(x, y) _mm512_cmple_epu16_mask(x, y)
#define vc_is_zero(x) _mm512_testn_epi16_mask(x, x)
#define vc_pick(m, x, y) _mm512_mask_blend_epi16(m, y, x)
#define vc_any_bit(x, bits) (_mm512_test_epi16_mask(x, bits) != 0)
#define vc_both(m, n) ((m) & (n))
#define vc_count(m) __builtin_popcount(m)
#else
typedef __m256i pl_vc, vm_c;
#define VC(op) _mm256_##op
#define vc_load(p) _mm256_loadu_si256((const __m256i_u *)(const void *)(p))
#define vc_and(x, y) _mm256_and_si256(x, y)
#define vc_zero() _mm256_setzero_si256()
#define vc_join(a, r, sign) _mm256_xor_si256(a, _mm256_and_si256(r, sign))
#define vc_opposite(x, y) _mm256_srai_epi16(_mm256_xor_si256(x, y), 15)
#define vc_above(x, y) _mm256_cmpgt_epi16(x, y)
#define vc_below(x, y) vc_none(_mm256_cmpeq_epi16(_mm256_max_epu16(x, y), x))
#define vc_at_most(x, y) _mm256_cmpeq_epi16(_mm256_min_epu16(x, y), x)
#define vc_is_zero(x) _mm256_cmpeq_epi16(x, _mm256_setzero_si256())
#define vc_pick(m, x, y) _mm256_blendv_epi8(y, x, m)
#define vc_any_bit(x, bits) (_mm256_testz_si256(x, bits) == 0)
#define vc_both(m, n) _mm256_and_si256(m, n)
#define vc_none(m) _mm256_xor_si256(m, _mm256_set1_epi16(-1))
#define vc_count(m) (__builtin_popcount((unsigned)_mm256_movemask_epi8(m)) / 2)
#endif

/* f32 lanes get 32 additions in a run; AVX2 has no registers for a second set of sums. */
enum {
    HALF_LANES = PL_VB / 2,
    HALF_SUMS = PL_SIMD_AVX512 ? 2 : 1,
    HALF_VECTORS = 16 * HALF_SUMS,
    HALF_RUN = HALF_VECTORS * HALF_LANES
};

/* Sums over every HALF_SUMS-th vector of a run. */
typedef struct half_sums {
    pl_vf sq, ab, rr, dr, rel; /* HALF_BF16_DOT: a * r instead of d * r */
} half_sums;

typedef struct half_run {
    half_sums sums[HALF_SUMS];
    pl_vc up, down, least, max_a, max_r;
    pl_vu top;
    int64_t mismatch, excluded;
} half_run;

/* A vector of elements: codes of a and |r| with the sign of r removed, and the divisor. */
typedef struct half_codes {
    pl_vc x, y, divisor; /* bf16: the divisor is Inf where |r| <= floor */
    vm_c is_in;          /* f16: |r| > floor */
    const char *a, *r;
} half_codes;

typedef struct pass_half {
    pl_vd sq, ab, rr, dr, rel;
    pl_vc max_a, max_r, ulp;
    pl_vu top;
    pl_vc floor, tiny; /* codes of the floor and of the largest subnormal number */
    counts n;
} pass_half;

typedef struct half_low {
    int64_t subnormal, flushed;
} half_low;

INLINE pl_vc half_magnitude(pl_vc x) {
    return vc_and(x, VC(set1_epi16)(0x7fff));
}
/* Elements 0 to 3 or 4 to 7 of each 128 bits, interleaved with zeros or with each other. */
INLINE pl_vc half_unpack(int k, pl_vc low, pl_vc high) {
    return k == 0 ? VC(unpacklo_epi16)(low, high) : VC(unpackhi_epi16)(low, high);
}
INLINE pl_vf half_widen_bf16(int k, pl_vc x) {
    return (pl_vf)half_unpack(k, vc_zero(), x);
}
#if PL_SIMD_AVX512
typedef struct pl_half_load {
    char bytes[32];
} pl_half_load;
/* Elements 0 to 15 or 16 to 31, loaded from memory: clang 14 would split the load (34 cycles
 * instead of 12), and splitting a register costs two more operations in gcc. */
INLINE pl_vf half_widen_f16(int k, const char *p) {
    __m512 v;
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(const pl_half_load *)(p + 32 * k)));
    return (pl_vf)v;
}
/* Inline assembly, because the rest of the file is compiled without AVX512_BF16. */
INLINE pl_vf half_dot(pl_vf sum, pl_vc x, pl_vc y) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}
/* e / |y|, 0 where an element is not meant. */
INLINE pl_vf half_quotient(int k, vm_c is_in, pl_vf e, pl_vf y) {
    const __mmask16 m = k == 0 ? (__mmask16)is_in : (__mmask16)_kshiftri_mask32(is_in, 16);
    return (pl_vf)_mm512_maskz_div_ps(m, (__m512)e, (__m512)pl_vf_abs(y));
}
#else
INLINE pl_vf half_widen_f16(int k, const char *p) {
    return (pl_vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)(p + 16 * k)));
}
INLINE pl_vf half_dot(pl_vf sum, pl_vc x, pl_vc y) {
    (void)x, (void)y; /* this CPU has none */
    return sum;
}
INLINE pl_vf half_quotient(int k, vm_c is_in, pl_vf e, pl_vf y) {
    const __m128i half =
        k == 0 ? _mm256_castsi256_si128(is_in) : _mm256_extracti128_si256(is_in, 1);
    const pl_vf q = e / pl_vf_abs(y);
    return (pl_vf)_mm256_and_si256((__m256i)q, _mm256_cvtepi16_epi32(half));
}
#endif

/* ---- rare cases ---- */
/* Ulps of a run with pairs of opposite sign or more than a binade apart. */
static __attribute__((noinline)) pl_vc half_far_ulps(const char *a, const char *r,
                                                     int64_t *mismatch, pl_vc *max_a) {
    pl_vc top = vc_zero();
    *mismatch = 0;
    *max_a = top;
    for (int j = 0; j < HALF_VECTORS; j++) {
        const pl_vc x = vc_load(a + PL_VB * j), y = vc_load(r + PL_VB * j);
        const pl_vc mx = half_magnitude(x), my = half_magnitude(y);
        const pl_vc gap = VC(abs_epi16)(VC(sub_epi16)(mx, my));
        const pl_vc t = vc_pick(vc_opposite(x, y), VC(add_epi16)(mx, my), gap);
        top = VC(max_epu16)(top, t);
        *max_a = VC(max_epu16)(*max_a, mx);
        *mismatch += HALF_LANES - vc_count(vc_is_zero(t));
    }
    return top;
}

static __attribute__((noinline)) void half_subnormal(half_low *s, pl_vc tiny, const char *a,
                                                     const char *r) {
    const pl_vc one = VC(set1_epi16)(1);
    pl_vc least = VC(set1_epi16)(-1);
    for (int j = 0; j < HALF_VECTORS; j++) { /* |r| - 1: zeros, the usual case, wrap */
        const pl_vc y = half_magnitude(vc_load(r + PL_VB * j));
        least = VC(min_epu16)(least, VC(sub_epi16)(y, one));
    }
    if (vc_count(vc_below(least, tiny)) == 0) return;
    for (int j = 0; j < HALF_VECTORS; j++, a += PL_VB, r += PL_VB) {
        const pl_vc x = half_magnitude(vc_load(a));
        const pl_vc below = VC(sub_epi16)(half_magnitude(vc_load(r)), one);
        const vm_c sub = vc_below(below, tiny);
        s->subnormal += vc_count(sub);
        s->flushed += vc_count(vc_both(sub, vc_is_zero(x)));
    }
}

/* ---- runs ---- */
INLINE half_codes half_look(half_kind kind, half_run *s, pl_vc floor, const char *a,
                            const char *r) {
    fetch(a, r);
    const pl_vc r_codes = vc_load(r), sign = VC(set1_epi16)((short)0x8000);
    half_codes v = { .a = a, .r = r, .y = half_magnitude(r_codes) };
    v.x = vc_join(vc_load(a), r_codes, sign);
    v.is_in = vc_above(v.y, floor);
    s->excluded -= vc_count(v.is_in);
    if (kind != HALF_F16) v.divisor = vc_pick(v.is_in, v.y, VC(set1_epi16)(0x7f80));
    const pl_vc t = VC(sub_epi16)(v.x, v.y);
    s->up = VC(max_epi16)(s->up, t);
    s->down = VC(min_epi16)(s->down, t);
    s->mismatch -= vc_count(vc_is_zero(t));
    s->max_a = VC(max_epu16)(s->max_a, v.x);
    s->max_r = VC(max_epu16)(s->max_r, v.y);
    s->least = VC(min_epu16)(s->least, v.y);
    return v;
}

INLINE void half_add(half_kind kind, half_run *s, half_sums *f, const half_codes *v) {
    const pl_vc one_minus_one = VC(set1_epi32)((int)0xbf803f80u); /* pairs of bf16 */
    if (kind == HALF_BF16_DOT) {
        f->rr = half_dot(f->rr, v->y, v->y);
        f->dr = half_dot(f->dr, v->x, v->y);
    }
    PL_UNROLL
    for (int k = 0; k < 2; k++) {
        pl_vf y = pl_vf_set(0), d;
        if (kind == HALF_BF16_DOT) {
            d = half_dot(y, half_unpack(k, v->x, v->y), one_minus_one);
        } else {
            y = kind == HALF_F16 ? half_widen_f16(k, v->r) : half_widen_bf16(k, v->y);
            d = (kind == HALF_F16 ? half_widen_f16(k, v->a) : half_widen_bf16(k, v->x)) - y;
            f->rr = pl_vf_mac(y, y, f->rr);
            f->dr = pl_vf_mac(d, y, f->dr);
        }
        const pl_vf e = pl_vf_abs(d);
        f->rel += kind == HALF_F16 ? half_quotient(k, v->is_in, e, y)
                                   : e / half_widen_bf16(k, v->divisor);
        f->sq = pl_vf_mac(d, d, f->sq);
        f->ab += e;
        s->top = vu_max(s->top, (pl_vu)e);
    }
}

INLINE void half_empty(pass_half *s, const half_sums f[HALF_SUMS]) {
    half_sums all = f[0];
    for (int i = 1; i < HALF_SUMS; i++) {
        all.sq += f[i].sq;
        all.ab += f[i].ab;
        all.rr += f[i].rr;
        all.dr += f[i].dr;
        all.rel += f[i].rel;
    }
    s->sq += vd_fold(all.sq);
    s->ab += vd_fold(all.ab);
    s->rr += vd_fold(all.rr);
    s->dr += vd_fold(all.dr);
    s->rel += vd_fold(all.rel);
}

INLINE void run_half(half_kind kind, pass_half *s, half_low *low, const char *a, const char *r) {
    const pl_vc binade = VC(set1_epi16)((short)(kind == HALF_F16 ? 0xfc00 : 0xff80));
    half_run run = {
        .least = VC(set1_epi16)(-1), .top = s->top, .mismatch = HALF_RUN, .excluded = HALF_RUN
    };
#if PL_SIMD_AVX512
    /* One vector ahead, so that sums do not wait for the comparisons. */
    half_codes v = half_look(kind, &run, s->floor, a, r);
    for (int j = 0;; j += 2) {
        const half_codes w = half_look(kind, &run, s->floor, a + 64 * j + 64, r + 64 * j + 64);
        half_add(kind, &run, &run.sums[0], &v);
        if (j + 2 == HALF_VECTORS) {
            half_add(kind, &run, &run.sums[1], &w);
            break;
        }
        v = half_look(kind, &run, s->floor, a + 64 * j + 128, r + 64 * j + 128);
        half_add(kind, &run, &run.sums[1], &w);
    }
#else
    for (int j = 0; j < HALF_VECTORS; j++) {
        const half_codes v = half_look(kind, &run, s->floor, a + PL_VB * j, r + PL_VB * j);
        half_add(kind, &run, &run.sums[0], &v);
    }
#endif
    half_empty(s, run.sums);
    s->top = run.top;
    /* Codes less than a binade apart have the same sign: their difference is the distance in
     * ulps. */
    pl_vc apart = VC(max_epu16)(run.up, VC(sub_epi16)(vc_zero(), run.down));
    pl_vc max_a = run.max_a; /* copies: passing &run would keep it in memory */
    int64_t mismatch = run.mismatch;
    if (__builtin_expect(vc_any_bit(apart, binade), 0))
        apart = half_far_ulps(a, r, &mismatch, &max_a);
    s->ulp = VC(max_epu16)(s->ulp, apart);
    s->max_a = VC(max_epu16)(s->max_a, max_a);
    s->max_r = VC(max_epu16)(s->max_r, run.max_r);
    s->n.mismatch += mismatch;
    s->n.excluded += run.excluded;
    if (__builtin_expect(vc_count(vc_at_most(run.least, s->tiny)) != 0, 0))
        half_subnormal(low, s->tiny, a, r);
}

/* Equal bits on both sides: only r counts. */
INLINE void run_half_equal(half_kind kind, pass_half *s, half_low *low, const char *r) {
    const pl_vc one = VC(set1_epi16)(1);
    pl_vc least = VC(set1_epi16)(-1);
    pl_vf rr[2] = { { 0 }, { 0 } };
    for (int j = 0; j < HALF_VECTORS; j++) {
        const char *p = r + PL_VB * j;
        const pl_vc y = half_magnitude(vc_load(p));
        fetch(p, p);
        s->max_a = s->max_r = VC(max_epu16)(s->max_r, y);
        least = VC(min_epu16)(least, VC(sub_epi16)(y, one));
        s->n.excluded += HALF_LANES - vc_count(vc_above(y, s->floor));
        PL_UNROLL
        for (int k = 0; k < 2; k++) {
            const pl_vf v = kind == HALF_F16 ? half_widen_f16(k, p) : half_widen_bf16(k, y);
            rr[k] = pl_vf_mac(v, v, rr[k]);
        }
    }
    s->rr += vd_fold(rr[0] + rr[1]);
    if (__builtin_expect(vc_count(vc_below(least, s->tiny)) != 0, 0))
        half_subnormal(low, s->tiny, r, r);
}

/* ---- blocks ---- */
INLINE uint16_t half_top(pl_vc v) {
    uint16_t lane[HALF_LANES], top = 0;
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < HALF_LANES; i++)
        top = lane[i] > top ? lane[i] : top;
    return top;
}
INLINE double half_value(half_kind kind, uint16_t code) {
    if (kind == HALF_F16) return (double)_cvtsh_ss(code);
    return value_f32((uint32_t)code << 16);
}

INLINE void half_products_add(products *s, pl_vf x, pl_vf y) {
    products_add(s, vd_low(x), vd_low(y));
    products_add(s, vd_high(x), vd_high(y));
}
INLINE void half_products_f16(products *s, const char *a, const char *r) {
    for (int k = 0; k < 2; k++)
        half_products_add(s, half_widen_f16(k, a), half_widen_f16(k, r));
}
INLINE void half_products_bf16(products *s, const char *a, const char *r) {
    const pl_vc x = vc_load(a), y = vc_load(r);
    for (int k = 0; k < 2; k++)
        half_products_add(s, half_widen_bf16(k, x), half_widen_bf16(k, y));
}
static __attribute__((noinline)) void half_products(half_kind kind, const char *a, const char *r,
                                                    size_t n, pl_metric_block *out) {
    if (kind == HALF_F16) {
        products_sum(half_products_f16, HALF_LANES, 2, a, r, n, out);
    } else {
        products_sum(half_products_bf16, HALF_LANES, 2, a, r, n, out);
    }
}

INLINE bool half_finish(half_kind kind, const pass_half *s, const half_low *low, size_t n_padding,
                        pl_metric_block *out) {
    const uint16_t inf = kind == HALF_F16 ? 0x7c00 : 0x7f80;
    const uint16_t a = half_top(s->max_a), r = half_top(s->max_r);
    if (a >= inf || r >= inf) return false;
    out->max_a = half_value(kind, a);
    out->max_r = half_value(kind, r);
    out->max_abs = (double)vf_top((pl_vf)s->top);
    counts_store(&s->n, n_padding, out);
    if (!in_range(out, 0x1p-50, 0x1p56)) return false;
    if (out->max_abs == 0 && out->n_mismatch > 0) return false; /* half_dot treated them as 0 */
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rel = vd_sum(s->rel);
    if (isinf(out->sum_rel)) return false;
    out->sum_rr = vd_sum(s->rr);
    products_derive(vd_sum(s->dr), out);
    out->max_ulp = half_top(s->ulp);
    out->n_subnormal = low->subnormal;
    out->n_flushed = low->flushed;
    return true;
}

/* Code of the largest value <= floor, which is 0 or a power of two. */
INLINE uint16_t half_floor(half_kind kind, double floor) {
    const float f = (float)floor;
    if (kind != HALF_F16) return (uint16_t)(code_f32(f) >> 16);
    return f < 0x1p-24f ? 0 : f > 65504 ? 0x7bff : _cvtss_sh(f, _MM_FROUND_TO_ZERO);
}

INLINE void half_any_run(half_kind kind, bool equal, pass_half *s, half_low *low, const char *a,
                         const char *r) {
    if (equal) {
        run_half_equal(kind, s, low, r);
    } else {
        run_half(kind, s, low, a, r);
    }
}

INLINE bool pass_half_block(half_kind kind, bool equal, const char *a, const char *r, size_t n,
                            double floor, pl_metric_block *out) {
    enum { BYTES = 2 * HALF_RUN };
    pass_half s = { .floor = VC(set1_epi16)((short)half_floor(kind, floor)),
                    .tiny = VC(set1_epi16)(kind == HALF_F16 ? 0x3ff : 0x7f) };
    half_low low = { 0 };
    size_t i = 0;
    for (; i + HALF_RUN <= n; i += HALF_RUN)
        half_any_run(kind, equal, &s, &low, a + 2 * i, r + 2 * i);
    if (i < n) {
        char ta[BYTES] = { 0 }, tr[BYTES] = { 0 };
        memcpy(ta, a + 2 * i, (n - i) * 2);
        memcpy(tr, r + 2 * i, (n - i) * 2);
        half_any_run(kind, equal, &s, &low, ta, tr);
    }
    if (kind == HALF_BF16_DOT && !equal) s.dr -= s.rr;
    if (!half_finish(kind, &s, &low, i < n ? i + HALF_RUN - n : 0, out)) return false;
    if (products_cancel(out)) half_products(kind, a, r, n, out);
    return true;
}

INLINE bool block_half(half_kind kind, const char *a, const char *r, size_t n, double floor,
                       pl_metric_block *out) {
    if (memcmp(a, r, n * 2) == 0) return pass_half_block(kind, true, a, r, n, floor, out);
    return pass_half_block(kind, false, a, r, n, floor, out);
}

#endif

#endif
