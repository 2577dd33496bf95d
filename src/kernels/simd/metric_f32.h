/* f32, in runs of 64 elements. Sums are sums of doubles; the relative term is f32, rounded in the
 * difference, the quotient and a tree of eight quotients.
 *
 * A run is near when all its pairs are less than 2^23 codes apart: then they have the same sign and
 * one is at most twice the other (or both are subnormal), so that a - r is exact in f32 (Sterbenz),
 * the distance of the codes is the one in ulps, and only d and r have to be widened. Other runs
 * subtract in f64. a^2 and a * r follow from d^2, r^2 and d * r, or are summed directly where that
 * would cancel. Included by metric_table.c only. */
#ifndef PL_METRIC_F32_H
#define PL_METRIC_F32_H

#include "kernels/simd/metric_pass.h"

enum { F32_RUN = 64, F32_VECTORS = F32_RUN / PL_VF };

/* ---- lanes: eight floats (four in base), which AVX-512 widens to one vector without an extract */
enum { PL_Q = PL_SIMD_FMA ? 8 : 4, F32_QS = F32_RUN / PL_Q };
typedef float pl_q __attribute__((vector_size(4 * PL_Q)));
typedef uint32_t pl_qu __attribute__((vector_size(4 * PL_Q)));
typedef float pl_q_any __attribute__((vector_size(4 * PL_Q), aligned(1), may_alias));

INLINE pl_q q_load(const char *p) {
    return *(const pl_q_any *)(const void *)p;
}
INLINE pl_qu q_abs(pl_q x) {
    return (pl_qu)x & INT32_MAX;
}
#if PL_SIMD_FMA
INLINE pl_qu qu_max(pl_qu a, pl_qu b) {
    return (pl_qu)_mm256_max_epu32((__m256i)a, (__m256i)b);
}
INLINE pl_qu qu_min(pl_qu a, pl_qu b) {
    return (pl_qu)_mm256_min_epu32((__m256i)a, (__m256i)b);
}
INLINE bool qu_any_le(pl_qu a, pl_qu b) { /* both below 2^31 */
    return !_mm256_testc_si256(_mm256_cmpgt_epi32((__m256i)a, (__m256i)b), _mm256_set1_epi32(-1));
}
#else
INLINE pl_qu qu_max(pl_qu a, pl_qu b) {
    const pl_qu m = (pl_qu)(a < b);
    return (m & b) | (~m & a);
}
INLINE pl_qu qu_min(pl_qu a, pl_qu b) {
    const pl_qu m = (pl_qu)(a < b);
    return (m & a) | (~m & b);
}
INLINE bool qu_any_le(pl_qu a, pl_qu b) {
    const pl_qu m = (pl_qu)(a <= b);
    return (m[0] | m[1] | m[2] | m[3]) != 0;
}
#endif
#if PL_SIMD_AVX512
INLINE pl_qu q_max_abs(pl_qu top, pl_q x) { /* may pass over NaN */
    return (pl_qu)_mm256_range_ps((__m256)top, (__m256)x, 0xb);
}
INLINE pl_vd q_widen(pl_q x, int part) {
    (void)part;
    return (pl_vd)_mm512_cvtps_pd((__m256)x);
}
#else
INLINE pl_qu q_max_abs(pl_qu top, pl_q x) {
    return qu_max(top, q_abs(x));
}
INLINE pl_vd q_widen(pl_q x, int part) {
    return part == 0 ? vd_low(x) : vd_high(x);
}
#endif

/* ---- lanes: doubles as converted from memory. Four of them cost one slot of a pipe (Zen 4), from
 * a register two (for the shuffle), and eight at once, as AVX-512 can, four either way. ---- */
#if PL_SIMD_AVX512
typedef double pl_h __attribute__((vector_size(32)));
INLINE pl_h h_load_f32(const char *p) {
    return (pl_h)_mm256_cvtps_pd(_mm_loadu_ps((const void *)p));
}
INLINE pl_h h_mac(pl_h a, pl_h b, pl_h c) {
    return (pl_h)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
INLINE pl_h h_abs(pl_h x) {
    return (pl_h)_mm256_andnot_pd(_mm256_set1_pd(-0.0), (__m256d)x);
}
INLINE pl_h h_max(pl_h a, pl_h b) {
    return (pl_h)_mm256_max_pd((__m256d)a, (__m256d)b);
}
INLINE pl_vd vd_join(const pl_h v[2]) {
    return (pl_vd)_mm512_insertf64x4(_mm512_castpd256_pd512((__m256d)v[0]), (__m256d)v[1], 1);
}
enum { F32_SUMS = 2 };
#else
typedef pl_vd pl_h;
INLINE pl_h h_load_f32(const char *p) {
    return vd_load_f32(p);
}
INLINE pl_h h_mac(pl_h a, pl_h b, pl_h c) {
    return pl_vd_mac(a, b, c);
}
INLINE pl_h h_abs(pl_h x) {
    return pl_vd_abs(x);
}
INLINE pl_h h_max(pl_h a, pl_h b) {
    return vd_max(a, b);
}
INLINE pl_vd vd_join(const pl_h v[1]) {
    return v[0];
}
enum { F32_SUMS = 1 };
#endif
enum { PL_H = sizeof(pl_h) / 8, F32_HS = PL_Q / PL_H };

/* x in memory; the barrier keeps the compiler from converting the register after all. */
INLINE const char *q_spill(pl_q_any *to, pl_q x) {
    *to = x;
    __asm__("" : "+m"(*to));
    return (const char *)to;
}

/* ---- state ---- */
typedef struct pass_f32 {
    pl_h sq[F32_SUMS], ab[F32_SUMS], rr[F32_SUMS], dr[F32_SUMS], far_top[F32_SUMS];
    pl_vd rel;
    pl_qu top, max_a, max_r; /* magnitudes as codes: NaN and Inf are above all numbers */
    pl_vu ulp;
    int64_t mismatch;
} pass_f32;

/* What runs with small elements need besides. */
typedef struct low_f32 {
    pl_qu limit; /* the code of the floor, or of the largest subnormal number */
    small_f32 small;
    int64_t subnormal, flushed;
} low_f32;

INLINE uint32_t code_f32(float x) {
    uint32_t code;
    memcpy(&code, &x, sizeof code);
    return code;
}
INLINE double value_f32(uint32_t code) {
    float f;
    memcpy(&f, &code, sizeof f);
    return (double)f;
}

/* ---- runs ---- */
/* Distances of the codes; those of a near run are in ulps. */
INLINE pl_vu codes_f32(const char *a, const char *r, pl_vu t[F32_VECTORS]) {
    pl_vu top = { 0 };
    PL_UNROLL
    for (int j = 0; j < F32_VECTORS; j++) {
        t[j] = vu_apart((pl_vu)pl_vf_load(a + j * PL_VB), (pl_vu)pl_vf_load(r + j * PL_VB));
        top = vu_max(top, t[j]);
    }
    return top;
}

INLINE pl_vu ulps_f32(const char *a, const char *r, pl_vu t[F32_VECTORS]) {
    pl_vu top = { 0 };
    PL_UNROLL
    for (int j = 0; j < F32_VECTORS; j++) {
        const pl_vu x = (pl_vu)pl_vf_load(a + j * PL_VB), y = (pl_vu)pl_vf_load(r + j * PL_VB);
        t[j] = vu_ulp(x ^ y, x & INT32_MAX, y & INT32_MAX);
        top = vu_max(top, t[j]);
    }
    return top;
}

/* Both return the sum of the quotients and take the smallest |r| to *low. */
INLINE pl_q near_f32(pass_f32 *s, const char *a, const char *r, pl_qu *low) {
    pl_q sum = { 0 };
    pl_q_any spilled[F32_QS];
    PL_UNROLL
    for (int j = 0; j < F32_QS; j++) {
        const pl_q x = q_load(a + 4 * PL_Q * j), y = q_load(r + 4 * PL_Q * j), d = x - y;
        const pl_qu e = q_abs(d), abs_y = q_abs(y);
        const char *const at_d = q_spill(&spilled[j], d), *const at_y = r + 4 * PL_Q * j;
        s->max_a = q_max_abs(s->max_a, x);
        s->max_r = qu_max(s->max_r, abs_y);
        s->top = qu_max(s->top, e);
        *low = qu_min(*low, abs_y);
        PL_UNROLL
        for (int k = 0; k < F32_HS; k++) {
            const pl_h dd = h_load_f32(at_d + 4 * PL_H * k), yd = h_load_f32(at_y + 4 * PL_H * k);
            const int m = k % F32_SUMS;
            s->ab[m] += h_abs(dd);
            s->sq[m] = h_mac(dd, dd, s->sq[m]);
            s->rr[m] = h_mac(yd, yd, s->rr[m]);
            s->dr[m] = h_mac(dd, yd, s->dr[m]);
        }
        sum += (pl_q)e / (pl_q)abs_y;
    }
    return sum;
}

INLINE pl_q far_f32(pass_f32 *s, const char *a, const char *r, pl_qu *low) {
    pl_q sum = { 0 };
    PL_UNROLL
    for (int j = 0; j < F32_QS; j++) {
        const pl_q x = q_load(a + 4 * PL_Q * j), y = q_load(r + 4 * PL_Q * j);
        const pl_qu abs_y = q_abs(y);
        s->max_a = qu_max(s->max_a, q_abs(x));
        s->max_r = qu_max(s->max_r, abs_y);
        *low = qu_min(*low, abs_y);
        PL_UNROLL
        for (int k = 0; k < F32_HS; k++) {
            const int at = 4 * (PL_Q * j + PL_H * k), m = k % F32_SUMS;
            const pl_h yd = h_load_f32(r + at), d = h_load_f32(a + at) - yd, ed = h_abs(d);
            s->ab[m] += ed;
            s->far_top[m] = h_max(s->far_top[m], ed);
            s->sq[m] = h_mac(d, d, s->sq[m]);
            s->rr[m] = h_mac(yd, yd, s->rr[m]);
            s->dr[m] = h_mac(d, yd, s->dr[m]);
        }
        sum += (pl_q)q_abs(x - y) / (pl_q)abs_y;
    }
    return sum;
}

/* The same bits: nothing but r^2. */
INLINE void equal_f32(pass_f32 *s, const char *r, pl_qu *low) {
    PL_UNROLL
    for (int j = 0; j < F32_QS; j++) {
        const pl_q y = q_load(r + 4 * PL_Q * j);
        s->max_a = qu_max(s->max_a, q_abs(y));
        s->max_r = qu_max(s->max_r, q_abs(y));
        *low = qu_min(*low, q_abs(y));
        PL_UNROLL
        for (int k = 0; k < F32_HS; k++) {
            const pl_h yd = h_load_f32(r + 4 * (PL_Q * j + PL_H * k));
            s->rr[k % F32_SUMS] = h_mac(yd, yd, s->rr[k % F32_SUMS]);
        }
    }
}

/* The quotients of a run with small |r|. */
static __attribute__((noinline)) pl_vd relative_low_f32(low_f32 *s, const char *a, const char *r) {
    const pl_vf zero = pl_vf_set(0), tiny = pl_vf_set(FLT_MIN);
    pl_vf sum = zero;
    PL_UNROLL
    for (int j = 0; j < F32_VECTORS; j++) {
        const pl_vf x = pl_vf_load(a + j * PL_VB), y = pl_vf_load(r + j * PL_VB);
        const pl_vf abs_y = pl_vf_abs(y);
        sum += relative_f32(&s->small, abs_y, pl_vf_abs(x - y));
        const vm_f sub = vf_and(vf_less(abs_y, tiny), vf_less(zero, abs_y));
        if (__builtin_expect(vf_count(sub) != 0, 0)) {
            s->subnormal += vf_count(sub);
            s->flushed += vf_count(vf_and(sub, vf_le(pl_vf_abs(x), zero)));
        }
    }
    return vd_low(sum) + vd_high(sum);
}

INLINE void run_f32(pass_f32 *s, low_f32 *low, const char *a, const char *r) {
    pl_vu t[F32_VECTORS], apart = codes_f32(a, r, t);
    pl_qu least = ~(pl_qu){ 0 } >> 1;
    pl_q sum = { 0 };
    int mismatch = vu_count_nonzero(t);
    if (__builtin_expect(vu_any_bit(apart, 0xff800000u), 0)) {
        apart = ulps_f32(a, r, t);
        mismatch = vu_count_nonzero(t);
        sum = far_f32(s, a, r, &least);
    } else if (mismatch != 0) {
        sum = near_f32(s, a, r, &least);
    } else {
        equal_f32(s, r, &least);
    }
    s->ulp = vu_max(s->ulp, apart);
    s->mismatch += mismatch;
    if (__builtin_expect(qu_any_le(least, low->limit), 0)) {
        s->rel += relative_low_f32(low, a, r);
        return;
    }
    PL_UNROLL
    for (int k = 0; k < PL_Q / PL_VD; k++)
        s->rel += q_widen(sum, k);
}

/* ---- blocks ---- */
INLINE uint32_t q_top(pl_qu v) {
    uint32_t lane[PL_Q], top = 0;
    memcpy(lane, &v, sizeof lane);
    for (int i = 0; i < PL_Q; i++)
        top = lane[i] > top ? lane[i] : top;
    return top;
}

static __attribute__((noinline)) void products_f32(const char *a, const char *r, size_t n,
                                                   pl_metric_block *out) {
    pl_vd aa = { 0 }, ar = { 0 };
    for (size_t i = 0; i < n; i += PL_VD, a += PL_VB / 2, r += PL_VB / 2) {
        char ta[PL_VB / 2] = { 0 }, tr[PL_VB / 2] = { 0 };
        const size_t m = n - i < PL_VD ? n - i : PL_VD;
        memcpy(ta, a, m * 4);
        memcpy(tr, r, m * 4);
        const pl_vd x = vd_load_f32(ta), y = vd_load_f32(tr);
        aa = pl_vd_mac(x, x, aa);
        ar = pl_vd_mac(x, y, ar);
    }
    out->sum_aa = vd_sum(aa);
    out->sum_ar = vd_sum(ar);
}

INLINE bool pass_f32_finish(const pass_f32 *s, const low_f32 *low, size_t n_padding,
                            pl_metric_block *out) {
    const uint32_t top = q_top(s->top), max_a = q_top(s->max_a), max_r = q_top(s->max_r);
    if (top >= 0x7f800000u || max_a >= 0x7f800000u || max_r >= 0x7f800000u) return false;
    out->sum_rel = vd_sum(s->rel);
    if (isinf(out->sum_rel)) return false; /* a quotient beyond f32 */
    out->sum_sq = vd_sum(vd_join(s->sq));
    out->sum_abs = vd_sum(vd_join(s->ab));
    out->sum_rr = vd_sum(vd_join(s->rr));
    products_derive(vd_sum(vd_join(s->dr)), out);
    out->max_abs = fmax(value_f32(top), vd_top(vd_join(s->far_top)));
    out->max_a = value_f32(max_a);
    out->max_r = value_f32(max_r);
    out->max_excluded = (double)vf_top(low->small.max_excluded);
    out->max_ulp = (int64_t)vu_top(s->ulp);
    out->n_excluded = low->small.n.excluded - (int64_t)n_padding; /* padding is 0 against 0 */
    out->n_mismatch = s->mismatch;
    out->n_subnormal = low->subnormal;
    out->n_flushed = low->flushed;
    return true;
}

static bool block_f32(const void *pa, const void *pr, size_t n, double floor,
                      pl_metric_block *out) {
    const char *a = pa, *r = pr;
    enum { BYTES = 4 * F32_RUN };
    pass_f32 s = { .mismatch = 0 };
    low_f32 low = { .small = small_f32_init(floor) };
    const uint32_t code = code_f32(low.small.floor[0]);
    low.limit += code < 0x7fffffu ? 0x7fffffu : code;
    size_t i = 0;
    for (; i + F32_RUN <= n; i += F32_RUN, a += BYTES, r += BYTES) {
        for (int b = 0; b < BYTES; b += 64)
            fetch(a + b, r + b);
        run_f32(&s, &low, a, r);
    }
    if (i < n) {
        char ta[BYTES] = { 0 }, tr[BYTES] = { 0 };
        memcpy(ta, a, (n - i) * 4);
        memcpy(tr, r, (n - i) * 4);
        run_f32(&s, &low, ta, tr);
    }
    if (!pass_f32_finish(&s, &low, i < n ? i + F32_RUN - n : 0, out)) return false;
    if (products_cancel(out)) products_f32(pa, pr, n, out);
    return true;
}

#endif
