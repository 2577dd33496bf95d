/* f64, all in f64, in runs of four or eight vectors. Included by metric_table.c only.
 *
 * If all pairs of a run are less than 2^52 codes apart, they have the same sign, and the difference
 * of the codes is the distance in ulps. Maxima of 64-bit integers are one operation on AVX-512 and
 * two to four elsewhere: there the distance is taken once a run from the largest and the smallest
 * difference, equal pairs are counted in lanes, and |d| is compared as a number, which loses NaN:
 * the sums tell (pass_f64_finish). */
#ifndef PL_METRIC_F64_H
#define PL_METRIC_F64_H

#include "kernels/simd/metric_pass.h"

/* Quotients are summed by four vectors first, whatever the run. */
enum { F64_SUM = 4, F64_VECTORS = PL_SIMD_AVX2 ? 8 : 4, F64_RUN = F64_VECTORS * PL_VD };
#define FAR_F64 0xfff0000000000000u /* bits of a distance that codes do not tell */

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
INLINE pl_vd vd_max_abs(pl_vd top, pl_vd x) {
    return vd_max(top, pl_vd_abs(x));
}
#if PL_SIMD_AVX2
INLINE pl_vd vd_min_abs(pl_vd low, pl_vd x) {
    return (pl_vd)_mm256_min_pd((__m256d)low, (__m256d)pl_vd_abs(x));
}
INLINE pl_vl vl_pick(pl_vl m, pl_vl a, pl_vl b) {
    return (pl_vl)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)m);
}
#else
INLINE pl_vd vd_min_abs(pl_vd low, pl_vd x) {
    return pl_vd_lt(low, pl_vd_abs(x), low, pl_vd_abs(x));
}
INLINE pl_vl vl_pick(pl_vl m, pl_vl a, pl_vl b) {
    return (m & a) | (~m & b);
}
#endif
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
    pl_vw ulp;
#if PL_SIMD_AVX512
    pl_vw top;
#else
    pl_vd top;
    pl_vl equal; /* minus the number of equal pairs */
#endif
    int64_t mismatch;
} pass_f64;

INLINE void top_f64(pass_f64 *s, pl_vd e) {
#if PL_SIMD_AVX512
    s->top = vw_max(s->top, (pl_vw)e);
#else
    s->top = vd_max(s->top, e);
#endif
}

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

/* Hides where a pointer comes from: what was loaded through it is loaded again, which is cheap,
 * instead of being kept in registers that the sums need. With all in one loop gcc kept d * r in
 * memory, 45 cycles for 16 pairs (AVX2, Zen 5). */
#if PL_SIMD_AVX2
#define FORGET(p) __asm__("" : "+r"(p)::"memory")
#else
#define FORGET(p)
#endif

INLINE void squares_f64(pass_f64 *s, const char *a, const char *r, pl_vd e[F64_VECTORS]) {
    pl_vd sq = s->sq, rr = s->rr, dr = s->dr, ab = s->ab;
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd y = pl_vd_load(r + j * PL_VB), d = pl_vd_load(a + j * PL_VB) - y;
        sq = pl_vd_mac(d, d, sq);
        e[j] = pl_vd_abs(d);
        ab += e[j];
        rr = pl_vd_mac(y, y, rr);
        dr = pl_vd_mac(d, y, dr);
    }
    s->sq = sq;
    s->rr = rr;
    s->dr = dr;
    s->ab = ab;
}

/* Updates *low, the smallest |r|. */
INLINE void sums_f64(pass_f64 *s, const char *a, const char *r, pl_vd *low) {
    pl_vd kept[F64_VECTORS], *e = kept, sum = { 0 };
    FORGET(e);
    squares_f64(s, a, r, e);
    FORGET(a);
    FORGET(r);
    FORGET(e);
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd x = pl_vd_load(a + j * PL_VB), y = pl_vd_load(r + j * PL_VB);
        const pl_vd q = e[j] / pl_vd_abs(y);
        top_f64(s, e[j]);
        s->max_a = vd_max_abs(s->max_a, x);
        s->max_r = vd_max_abs(s->max_r, y);
        *low = vd_min_abs(*low, y);
        sum = j % F64_SUM == 0 ? q : sum + q;
        if (j % F64_SUM == F64_SUM - 1) s->rel += sum;
    }
}

/* Equal bits: only r^2 counts. Inf and NaN show up in its sum. */
INLINE void equal_f64(pass_f64 *s, const char *r, pl_vd *low) {
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vd y = pl_vd_load(r + j * PL_VB);
        s->rr = pl_vd_mac(y, y, s->rr);
        s->max_a = vd_max_abs(s->max_a, y);
        s->max_r = vd_max_abs(s->max_r, y);
        *low = vd_min_abs(*low, y);
    }
}

/* Quotients of four vectors with small |r|. */
static __attribute__((noinline)) pl_vd relative_low_f64(low_f64 *s, const char *a, const char *r) {
    const pl_vd zero = pl_vd_set(0);
    pl_vd sum = zero;
    for (int j = 0; j < F64_SUM; j++) {
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

/* True if a pair differs; counts and measures. */
#if PL_SIMD_AVX512
INLINE bool codes_f64(pass_f64 *s, const char *a, const char *r) {
    pl_vw t[F64_VECTORS], apart = { 0 };
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        t[j] = vw_apart(vw_load(a + j * PL_VB), vw_load(r + j * PL_VB));
        apart = vw_max(apart, t[j]);
    }
    if (__builtin_expect(vw_any_bit(apart, FAR_F64), 0)) apart = ulps_f64(a, r, t);
    const int mismatch = vw_count_nonzero(t);
    s->ulp = vw_max(s->ulp, apart);
    s->mismatch += mismatch;
    return mismatch != 0;
}
#else
static __attribute__((noinline)) pl_vw far_ulps_f64(const char *a, const char *r, int *equal) {
    pl_vw t[F64_VECTORS];
    const pl_vw top = ulps_f64(a, r, t);
    *equal = F64_RUN - vw_count_nonzero(t);
    return top;
}
INLINE bool codes_f64(pass_f64 *s, const char *a, const char *r) {
    pl_vl up[2] = { { 0 } }, down[2] = { { 0 } }, equal = { 0 };
    PL_UNROLL
    for (int j = 0; j < F64_VECTORS; j++) {
        const pl_vl t = (pl_vl)(vw_load(a + j * PL_VB) - vw_load(r + j * PL_VB));
        up[j % 2] = vl_pick(t > up[j % 2], t, up[j % 2]);
        down[j % 2] = vl_pick(t < down[j % 2], t, down[j % 2]);
        equal += t == 0;
    }
    up[0] = vl_pick(up[1] > up[0], up[1], up[0]);
    down[0] = vl_pick(down[1] < down[0], down[1], down[0]);
    pl_vw apart = vw_max((pl_vw)up[0], -(pl_vw)down[0]);
    if (__builtin_expect(vw_any_bit(apart, FAR_F64), 0)) {
        int n = 0;
        apart = far_ulps_f64(a, r, &n);
        s->mismatch -= n;
    } else {
        s->equal += equal;
    }
    s->mismatch += F64_RUN;
    s->ulp = vw_max(s->ulp, apart);
    return vw_any_bit(apart, ~(uint64_t)0);
}
#endif

INLINE void run_f64(pass_f64 *s, low_f64 *low, const char *a, const char *r) {
    const pl_vd before = s->rel;
    pl_vd least = pl_vd_set(DBL_MAX);
    const bool differs = codes_f64(s, a, r);
    FORGET(a);
    FORGET(r);
    if (differs) {
        sums_f64(s, a, r, &least);
    } else {
        equal_f64(s, r, &least);
    }
    if (__builtin_expect(vd_count(vd_le(least, low->limit)) != 0, 0)) {
        s->rel = before;
        for (int j = 0; j < F64_VECTORS; j += F64_SUM)
            s->rel += relative_low_f64(low, a + j * PL_VB, r + j * PL_VB);
    }
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
#if PL_SIMD_AVX512
    const uint64_t top = vw_top(s->top);
    memcpy(&out->max_abs, &top, sizeof top);
#else
    out->max_abs = vd_top(s->top);
#endif
    out->max_a = vd_top(s->max_a);
    out->max_r = vd_top(s->max_r);
    if (!in_range(out, 0x1p-480, 0x1p480)) return false;
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rel = vd_sum(s->rel);
    out->sum_rr = vd_sum(s->rr);
    if (!isfinite(out->sum_abs) || !isfinite(out->sum_rr)) return false; /* NaN, Inf */
    products_derive(vd_sum(s->dr), out);
    const uint64_t ulp = vw_top(s->ulp);
    out->max_ulp = ulp > INT64_MAX ? INT64_MAX : (int64_t)ulp;
    out->n_excluded = low->excluded - (int64_t)n_padding; /* padding compares 0 with 0 */
    out->n_mismatch = s->mismatch;
#if !PL_SIMD_AVX512
    int64_t equal[PL_VD];
    memcpy(equal, &s->equal, sizeof equal);
    for (int j = 0; j < PL_VD; j++)
        out->n_mismatch += equal[j];
#endif
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
