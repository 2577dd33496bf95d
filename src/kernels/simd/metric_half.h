/* f16 and bf16 for instruction sets with masked 16-bit lanes (AVX-512 BW): ulps, maxima,
 * comparisons and exclusions use the 16-bit codes, twice as many per vector; only sums are in f32.
 * The sign of r is first removed from both sides, which changes neither |r|, |d| nor the products.
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

#if PL_SIMD_AVX512

typedef struct pl_half_load {
    char bytes[32];
} pl_half_load;

typedef enum half_kind { HALF_F16, HALF_BF16, HALF_BF16_DOT } half_kind;

enum { HALF_VECTORS = 32, HALF_RUN = HALF_VECTORS * 32 };

/* Sums over every second vector of a run: 32 additions per f32 lane. */
typedef struct half_sums {
    __m512 sq, ab, rr, dr, rel; /* HALF_BF16_DOT: a * r instead of d * r */
} half_sums;

typedef struct half_run {
    half_sums sums[2];
    __m512i top, up, down, least, max_a, max_r;
    int64_t mismatch, excluded;
} half_run;

/* 32 elements: codes of a and |r| with the sign of r removed, and the divisor. */
typedef struct half_codes {
    __m512i x, y, divisor; /* bf16: the divisor is Inf where |r| <= floor */
    __mmask32 is_in;       /* f16: |r| > floor */
    const char *a, *r;
} half_codes;

typedef struct pass_half {
    pl_vd sq, ab, rr, dr, rel;
    __m512i top, max_a, max_r, ulp;
    __m512i floor, tiny; /* codes of the floor and of the largest subnormal number */
    counts n;
} pass_half;

typedef struct half_low {
    int64_t subnormal, flushed;
} half_low;

INLINE __m512i half_magnitude(__m512i x) {
    return _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
}
/* Elements 0 to 3 or 4 to 7 of each 128 bits, interleaved with zeros or with each other. */
INLINE __m512i half_unpack(int k, __m512i low, __m512i high) {
    return k == 0 ? _mm512_unpacklo_epi16(low, high) : _mm512_unpackhi_epi16(low, high);
}
INLINE __m512 half_widen_bf16(int k, __m512i x) {
    return _mm512_castsi512_ps(half_unpack(k, _mm512_setzero_si512(), x));
}
/* Elements 0 to 15 or 16 to 31, loaded from memory: clang 14 would split the load (34 cycles
 * instead of 12), and splitting a register costs two more operations in gcc. */
INLINE __m512 half_widen_f16(int k, const char *p) {
    __m512 v;
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(const pl_half_load *)(p + 32 * k)));
    return v;
}
/* Inline assembly, because the rest of the file is compiled without AVX512_BF16. */
INLINE __m512 half_dot(__m512 sum, __m512i x, __m512i y) {
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
    return sum;
}

/* ---- rare cases ---- */
/* Ulps of a run with pairs of opposite sign or more than a binade apart. */
static __attribute__((noinline)) __m512i half_far_ulps(const char *a, const char *r,
                                                       int64_t *mismatch, __m512i *max_a) {
    __m512i top = _mm512_setzero_si512();
    *mismatch = 0;
    *max_a = top;
    for (int j = 0; j < HALF_VECTORS; j++) {
        const __m512i x = _mm512_loadu_si512(a + 64 * j), y = _mm512_loadu_si512(r + 64 * j);
        const __m512i mx = half_magnitude(x), my = half_magnitude(y);
        const __m512i gap = _mm512_abs_epi16(_mm512_sub_epi16(mx, my));
        const __mmask32 opposite = _mm512_movepi16_mask(_mm512_xor_si512(x, y));
        const __m512i t = _mm512_mask_add_epi16(gap, opposite, mx, my);
        top = _mm512_max_epu16(top, t);
        *max_a = _mm512_max_epu16(*max_a, mx);
        *mismatch += __builtin_popcount(_mm512_test_epi16_mask(t, t));
    }
    return top;
}

static __attribute__((noinline)) void half_subnormal(half_low *s, __m512i tiny, const char *a,
                                                     const char *r) {
    const __m512i one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1);
    for (int j = 0; j < HALF_VECTORS; j++) { /* |r| - 1: zeros, the usual case, wrap */
        const __m512i y = half_magnitude(_mm512_loadu_si512(r + 64 * j));
        least = _mm512_min_epu16(least, _mm512_sub_epi16(y, one));
    }
    if (_mm512_cmplt_epu16_mask(least, tiny) == 0) return;
    for (int j = 0; j < HALF_VECTORS; j++, a += 64, r += 64) {
        const __m512i x = half_magnitude(_mm512_loadu_si512(a));
        const __m512i below = _mm512_sub_epi16(half_magnitude(_mm512_loadu_si512(r)), one);
        const __mmask32 sub = _mm512_cmplt_epu16_mask(below, tiny);
        s->subnormal += __builtin_popcount(sub);
        s->flushed += __builtin_popcount(sub & _mm512_testn_epi16_mask(x, x));
    }
}

/* ---- runs ---- */
INLINE half_codes half_look(half_kind kind, half_run *s, __m512i floor, const char *a,
                            const char *r) {
    fetch(a, r);
    const __m512i r_codes = _mm512_loadu_si512(r), sign = _mm512_set1_epi16((short)0x8000);
    half_codes v = { .a = a, .r = r, .y = half_magnitude(r_codes) };
    v.x =
        _mm512_ternarylogic_epi32(_mm512_loadu_si512(a), r_codes, sign, 0x78); /* a ^ (r & sign) */
    if (kind == HALF_F16) {
        v.is_in = _mm512_cmpgt_epu16_mask(v.y, floor);
        s->excluded -= __builtin_popcount(v.is_in);
    } else {
        const __mmask32 is_out = _mm512_cmple_epu16_mask(v.y, floor);
        s->excluded += __builtin_popcount(is_out);
        v.divisor = _mm512_mask_mov_epi16(v.y, is_out, _mm512_set1_epi16(0x7f80));
    }
    const __m512i t = _mm512_sub_epi16(v.x, v.y);
    s->up = _mm512_max_epi16(s->up, t);
    s->down = _mm512_min_epi16(s->down, t);
    s->mismatch += __builtin_popcount(_mm512_test_epi16_mask(t, t));
    s->max_a = _mm512_max_epu16(s->max_a, v.x);
    s->max_r = _mm512_max_epu16(s->max_r, v.y);
    s->least = _mm512_min_epu16(s->least, v.y);
    return v;
}

INLINE void half_add(half_kind kind, half_run *s, half_sums *f, const half_codes *v) {
    const __m512i one_minus_one = _mm512_set1_epi32((int)0xbf803f80u); /* pairs of bf16 */
    if (kind == HALF_BF16_DOT) {
        f->rr = half_dot(f->rr, v->y, v->y);
        f->dr = half_dot(f->dr, v->x, v->y);
    }
    PL_UNROLL
    for (int k = 0; k < 2; k++) {
        __m512 y = _mm512_setzero_ps(), d, quotient;
        if (kind == HALF_BF16_DOT) {
            d = half_dot(y, half_unpack(k, v->x, v->y), one_minus_one);
        } else {
            y = kind == HALF_F16 ? half_widen_f16(k, v->r) : half_widen_bf16(k, v->y);
            d = (kind == HALF_F16 ? half_widen_f16(k, v->a) : half_widen_bf16(k, v->x)) - y;
            f->rr = _mm512_fmadd_ps(y, y, f->rr);
            f->dr = _mm512_fmadd_ps(d, y, f->dr);
        }
        const __m512 e = _mm512_abs_ps(d);
        const __mmask16 is_in =
            k == 0 ? (__mmask16)v->is_in : (__mmask16)_kshiftri_mask32(v->is_in, 16);
        if (kind == HALF_F16) {
            quotient = _mm512_maskz_div_ps(is_in, e, _mm512_abs_ps(y));
        } else {
            quotient = _mm512_div_ps(e, half_widen_bf16(k, v->divisor));
        }
        f->rel = _mm512_add_ps(f->rel, quotient);
        f->sq = _mm512_fmadd_ps(d, d, f->sq);
        f->ab = _mm512_add_ps(f->ab, e);
        s->top = _mm512_max_epu32(s->top, _mm512_castps_si512(e));
    }
}

INLINE pl_vd half_fold(__m512 even, __m512 odd) {
    return vd_fold((pl_vf)_mm512_add_ps(even, odd));
}
INLINE void half_empty(pass_half *s, const half_sums f[2]) {
    s->sq += half_fold(f[0].sq, f[1].sq);
    s->ab += half_fold(f[0].ab, f[1].ab);
    s->rr += half_fold(f[0].rr, f[1].rr);
    s->dr += half_fold(f[0].dr, f[1].dr);
    s->rel += half_fold(f[0].rel, f[1].rel);
}

INLINE void run_half(half_kind kind, pass_half *s, half_low *low, const char *a, const char *r) {
    const __m512i binade = _mm512_set1_epi16((short)(kind == HALF_F16 ? 0xfc00 : 0xff80));
    half_run run = { .least = _mm512_set1_epi16(-1),
                     .top = s->top,
                     .excluded = kind == HALF_F16 ? HALF_RUN : 0 };
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
    half_empty(s, run.sums);
    s->top = run.top;
    /* Codes less than a binade apart have the same sign: their difference is the distance in
     * ulps. */
    __m512i apart = _mm512_max_epu16(run.up, _mm512_sub_epi16(_mm512_setzero_si512(), run.down));
    __m512i max_a = run.max_a; /* copies: passing &run would keep it in memory */
    int64_t mismatch = run.mismatch;
    if (__builtin_expect(_mm512_test_epi16_mask(apart, binade) != 0, 0))
        apart = half_far_ulps(a, r, &mismatch, &max_a);
    s->ulp = _mm512_max_epu16(s->ulp, apart);
    s->max_a = _mm512_max_epu16(s->max_a, max_a);
    s->max_r = _mm512_max_epu16(s->max_r, run.max_r);
    s->n.mismatch += mismatch;
    s->n.excluded += run.excluded;
    if (__builtin_expect(_mm512_cmple_epu16_mask(run.least, s->tiny) != 0, 0))
        half_subnormal(low, s->tiny, a, r);
}

/* Equal bits on both sides: only r counts. */
INLINE void run_half_equal(half_kind kind, pass_half *s, half_low *low, const char *r) {
    const __m512i one = _mm512_set1_epi16(1);
    __m512i least = _mm512_set1_epi16(-1);
    half_sums f[2] = { 0 };
    for (int j = 0; j < HALF_VECTORS; j++) {
        const char *p = r + 64 * j;
        const __m512i y = half_magnitude(_mm512_loadu_si512(p));
        fetch(p, p);
        s->max_a = s->max_r = _mm512_max_epu16(s->max_r, y);
        least = _mm512_min_epu16(least, _mm512_sub_epi16(y, one));
        s->n.excluded += __builtin_popcount(_mm512_cmple_epu16_mask(y, s->floor));
        PL_UNROLL
        for (int k = 0; k < 2; k++) {
            const __m512 v = kind == HALF_F16 ? half_widen_f16(k, p) : half_widen_bf16(k, y);
            f[k].rr = _mm512_fmadd_ps(v, v, f[k].rr);
        }
    }
    s->rr += half_fold(f[0].rr, f[1].rr);
    if (__builtin_expect(_mm512_cmplt_epu16_mask(least, s->tiny) != 0, 0))
        half_subnormal(low, s->tiny, r, r);
}

/* ---- blocks ---- */
INLINE uint16_t half_top(__m512i v) {
    uint16_t lane[32], top = 0;
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < 32; i++)
        top = lane[i] > top ? lane[i] : top;
    return top;
}
INLINE double half_value(half_kind kind, uint16_t code) {
    if (kind == HALF_F16) return (double)_cvtsh_ss(code);
    return value_f32((uint32_t)code << 16);
}

INLINE void half_products_add(products *s, __m512 x, __m512 y) {
    products_add(s, vd_low((pl_vf)x), vd_low((pl_vf)y));
    products_add(s, vd_high((pl_vf)x), vd_high((pl_vf)y));
}
INLINE void half_products_f16(products *s, const char *a, const char *r) {
    for (int k = 0; k < 2; k++)
        half_products_add(s, half_widen_f16(k, a), half_widen_f16(k, r));
}
INLINE void half_products_bf16(products *s, const char *a, const char *r) {
    const __m512i x = _mm512_loadu_si512(a), y = _mm512_loadu_si512(r);
    for (int k = 0; k < 2; k++)
        half_products_add(s, half_widen_bf16(k, x), half_widen_bf16(k, y));
}
static __attribute__((noinline)) void half_products(half_kind kind, const char *a, const char *r,
                                                    size_t n, pl_metric_block *out) {
    if (kind == HALF_F16) {
        products_sum(half_products_f16, 32, 2, a, r, n, out);
    } else {
        products_sum(half_products_bf16, 32, 2, a, r, n, out);
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
    pass_half s = { .floor = _mm512_set1_epi16((short)half_floor(kind, floor)),
                    .tiny = _mm512_set1_epi16(kind == HALF_F16 ? 0x3ff : 0x7f) };
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
