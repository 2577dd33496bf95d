/* f64, all in f64, in runs of four vectors. Included by metric_table.c only.
 *
 * If all pairs of a run are less than 2^52 codes apart, they have the same sign, and the difference
 * of the codes is the distance in ulps. */
#ifndef PL_METRIC_F64_H
#define PL_METRIC_F64_H

#include "kernels/simd/metric_pass.h"

enum { F64_VECTORS = 4, F64_RUN = F64_VECTORS * PL_VD };

/* ---- lanes ---- */
INLINE pl_vw vw_load(const char *p) {
    return (pl_vw)pl_vd_load(p);
}
#if PL_SIMD_AVX512
INLINE pl_vw vw_apart(pl_vw x, pl_vw y) {
    return (pl_vw)_mm512_abs_epi64(_mm512_sub_epi64((__m512i)x, (__m512i)y));
}
INLINE pl_vd vd_max_abs(pl_vd top, pl_vd x) { /* may ignore NaN */
    return (pl_vd)_mm512_range_pd((__m512d)top, (__m512d)x, 0xb);
}
INLINE pl_vd vd_min_abs(pl_vd low, pl_vd x) {
    return (pl_vd)_mm512_range_pd((__m512d)low, (__m512d)x, 0xa);
}
INLINE bool vw_any_bit(pl_vw v, uint64_t bits) {
    return _mm512_test_epi64_mask((__m512i)v, _mm512_set1_epi64((int64_t)bits)) != 0;
}
/* Number of non-zero lanes in a run. Packing with signed saturation keeps non-zero values non-zero;
 * an element ends as two bytes. */
INLINE int vw_count_nonzero(const pl_vw t[F64_VECTORS]) {
    const __m512i x = _mm512_packs_epi32((__m512i)t[0], (__m512i)t[1]);
    const __m512i y = _mm512_packs_epi32((__m512i)t[2], (__m512i)t[3]);
    const __m512i b = _mm512_packs_epi16(x, y);
    return __builtin_popcount(_mm512_test_epi16_mask(b, b));
}
#else
INLINE pl_vw vw_apart(pl_vw x, pl_vw y) {
    const pl_vw d = x - y, m = (pl_vw)((pl_vl)d < 0);
    return (d ^ m) - m;
}
INLINE pl_vd vd_max_abs(pl_vd top, pl_vd x) {
    return vd_max(top, pl_vd_abs(x));
}
INLINE pl_vd vd_min_abs(pl_vd low, pl_vd x) {
    return pl_vd_lt(low, pl_vd_abs(x), low, pl_vd_abs(x));
}
INLINE bool vw_any_bit(pl_vw v, uint64_t bits) {
#if PL_SIMD_AVX2
    return !_mm256_testz_si256((__m256i)v, _mm256_set1_epi64x((int64_t)bits));
#else
    return ((v[0] | v[1]) & bits) != 0;
#endif
}
INLINE int vw_count_nonzero(const pl_vw t[F64_VECTORS]) {
    int n = 0;
    for (int j = 0; j < F64_VECTORS; j++)
        n += vd_count((vm_d)(t[j] != 0));
    return n;
}
#endif

/* ---- runs ---- */
typedef struct pass_f64 {
    pl_vd sq, ab, rr, dr, rel, max_a, max_r;
    pl_vw top, ulp;
    int64_t mismatch;
} pass_f64;

/* Additional state for runs with small elements. */
typedef struct low_f64 {
    pl_vd floor, limit; /* limit: the floor, or the smallest normal number */
    int64_t excluded, subnormal, flushed;
} low_f64;

INLINE pl_vw ulps_f64(const char *a, const char *r, pl_vw t[F64_VECTORS]) {
    pl_vw top = { 0 };
    for (int j = 0; j < F64_VECTORS; j++) {
        t[j] = vw_ulp(pl_vd_load(a + j * PL_VB), pl_vd_load(r + j * PL_VB));
        top = vw_max(top, t[j]);
    }
    return top;
}

/* Returns the sum of the quotients and updates *low, the smallest |r|. */
INLINE pl_vd sums_f64(pass_f64 *s, const char *a, const char *r, pl_vd *low) {
    pl_vd sum = { 0 };
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd x = pl_vd_load(a + j * PL_VB), y = pl_vd_load(r + j * PL_VB), d = x - y;
        const pl_vd e = pl_vd_abs(d);
        s->sq = pl_vd_mac(d, d, s->sq);
        s->ab += e;
        s->rr = pl_vd_mac(y, y, s->rr);
        s->dr = pl_vd_mac(d, y, s->dr);
        s->top = vw_max(s->top, (pl_vw)e);
        s->max_a = vd_max_abs(s->max_a, x);
        s->max_r = vd_max_abs(s->max_r, y);
        *low = vd_min_abs(*low, y);
        sum += e / pl_vd_abs(y);
    }
    return sum;
}

/* Equal bits: only r^2 counts. Inf and NaN show up in the maximum. */
INLINE void equal_f64(pass_f64 *s, const char *r, pl_vd *low) {
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd y = pl_vd_load(r + j * PL_VB);
        s->rr = pl_vd_mac(y, y, s->rr);
        s->top = vw_max(s->top, (pl_vw)pl_vd_abs(y - y));
        s->max_a = vd_max_abs(s->max_a, y);
        s->max_r = vd_max_abs(s->max_r, y);
        *low = vd_min_abs(*low, y);
    }
}

/* Quotients of a run with small |r|. */
static __attribute__((noinline)) pl_vd relative_low_f64(low_f64 *s, const char *a, const char *r) {
    const pl_vd zero = pl_vd_set(0);
    pl_vd sum = zero;
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd x = pl_vd_load(a + j * PL_VB), y = pl_vd_load(r + j * PL_VB);
        const pl_vd e = pl_vd_abs(x - y), abs_y = pl_vd_abs(y);
        const vm_d drop = vd_le(abs_y, s->floor);
        s->excluded += vd_count(drop);
        const vm_d sub = vd_and(vd_less(abs_y, pl_vd_set(DBL_MIN)), vd_less(zero, abs_y));
        if (__builtin_expect(vd_count(sub) != 0, 0)) {
            s->subnormal += vd_count(sub);
            s->flushed += vd_count(vd_and(sub, vd_le(pl_vd_abs(x), zero)));
        }
        sum += vd_drop(drop, e / abs_y);
    }
    return sum;
}

INLINE void run_f64(pass_f64 *s, low_f64 *low, const char *a, const char *r) {
    pl_vw t[F64_VECTORS], apart = { 0 };
    pl_vd least = pl_vd_set(DBL_MAX), sum = { 0 };
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        t[j] = vw_apart(vw_load(a + j * PL_VB), vw_load(r + j * PL_VB));
        apart = vw_max(apart, t[j]);
    }
    if (__builtin_expect(vw_any_bit(apart, 0xfff0000000000000u), 0)) apart = ulps_f64(a, r, t);
    const int mismatch = vw_count_nonzero(t);
    s->ulp = vw_max(s->ulp, apart);
    s->mismatch += mismatch;
    if (mismatch != 0) {
        sum = sums_f64(s, a, r, &least);
    } else {
        equal_f64(s, r, &least);
    }
    if (__builtin_expect(vd_count(vd_le(least, low->limit)) != 0, 0))
        sum = relative_low_f64(low, a, r);
    s->rel += sum;
}

/* ---- blocks ---- */
INLINE void products_step_f64(products *s, const char *a, const char *r) {
    products_add(s, pl_vd_load(a), pl_vd_load(r));
}
static __attribute__((noinline)) void products_f64(const char *a, const char *r, size_t n,
                                                   pl_metric_block *out) {
    products_sum(products_step_f64, PL_VD, 8, a, r, n, out);
}

INLINE bool pass_f64_finish(const pass_f64 *s, const low_f64 *low, size_t n_padding,
                            pl_metric_block *out) {
    const uint64_t top = vw_top(s->top);
    if (top >= 0x7ff0000000000000u) return false;
    memcpy(&out->max_abs, &top, sizeof top);
    out->max_a = vd_top(s->max_a);
    out->max_r = vd_top(s->max_r);
    if (!in_range(out, 0x1p-480, 0x1p480)) return false;
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rel = vd_sum(s->rel);
    out->sum_rr = vd_sum(s->rr);
    products_derive(vd_sum(s->dr), out);
    const uint64_t ulp = vw_top(s->ulp);
    out->max_ulp = ulp > INT64_MAX ? INT64_MAX : (int64_t)ulp;
    out->n_excluded = low->excluded - (int64_t)n_padding; /* padding compares 0 with 0 */
    out->n_mismatch = s->mismatch;
    out->n_subnormal = low->subnormal;
    out->n_flushed = low->flushed;
    return true;
}

static bool block_f64(const void *pa, const void *pr, size_t n, double floor,
                      pl_metric_block *out) {
    const char *a = pa, *r = pr;
    enum { BYTES = F64_VECTORS * PL_VB };
    pass_f64 s = { .mismatch = 0 };
    low_f64 low = { .floor = pl_vd_set(floor),
                    .limit = pl_vd_set(floor > DBL_MIN ? floor : DBL_MIN) };
    size_t i = 0;
    for (; i + F64_RUN <= n; i += F64_RUN, a += BYTES, r += BYTES) {
        for (int b = 0; b < BYTES; b += 64)
            fetch(a + b, r + b);
        run_f64(&s, &low, a, r);
    }
    if (i < n) {
        char ta[BYTES] = { 0 }, tr[BYTES] = { 0 };
        memcpy(ta, a, (n - i) * 8);
        memcpy(tr, r, (n - i) * 8);
        run_f64(&s, &low, ta, tr);
    }
    if (!pass_f64_finish(&s, &low, i < n ? i + F64_RUN - n : 0, out)) return false;
    if (products_cancel(out)) products_f64(pa, pr, n, out);
    return true;
}

#endif
