/* f32, in runs of eight vectors. Whole blocks are summed fast: eight terms per lane in f32, two
 * lanes folded, the rest in doubles. The error of a sum is then at most eleven f32 roundings, two
 * of them of d where a is not within a factor of 2 of r (2e-9 measured on 2 GB). Partial blocks,
 * and squares that f32 cannot hold, are summed precisely with every term in double, so that small
 * tensors are measured exactly. The quotients are f32 either way. a^2 and a * r follow from d^2,
 * r^2 and d * r, or are summed directly where that would cancel. Doubles throughout take 17 cycles
 * for 16 pairs instead of 12.6 (Zen 4), which is slower than memory at 57 GB/s for two cores.
 * Included by metric_table.c only. */
#ifndef PL_METRIC_F32_H
#define PL_METRIC_F32_H

#include "kernels/simd/metric_pass.h"

enum { F32_VECTORS = 8, F32_RUN = F32_VECTORS * PL_VF };

/* ---- state ---- */
typedef struct pass_f32 {
    pl_vd sq, ab, rr, dr, rel, precise_top;
    pl_vu top, max_a, max_r; /* magnitudes as codes: NaN and Inf are above all numbers */
    pl_vu ulp;
    int64_t mismatch;
} pass_f32;

/* Additional state for runs with small elements. */
typedef struct low_f32 {
    pl_vu limit; /* the code of the floor, or of the largest subnormal number */
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
/* Ulps of a run with pairs of opposite sign or a binade apart. */
static __attribute__((noinline)) pl_vu far_ulps_f32(const char *a, const char *r, int *mismatch) {
    pl_vu top = { 0 };
    *mismatch = 0;
    for (int j = 0; j < F32_VECTORS; j++) {
        const pl_vu x = (pl_vu)pl_vf_load(a + j * PL_VB), y = (pl_vu)pl_vf_load(r + j * PL_VB);
        const pl_vu t = vu_ulp(x ^ y, x & INT32_MAX, y & INT32_MAX);
        top = vu_max(top, t);
        *mismatch += vu_count(t);
    }
    return top;
}

/* Quotients of a run with small |r|. */
static __attribute__((noinline)) pl_vd relative_low_f32(low_f32 *s, const char *a, const char *r) {
    const pl_vf zero = pl_vf_set(0), tiny = pl_vf_set(FLT_MIN);
    pl_vf sum = zero;
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
    return vd_fold(sum);
}

INLINE void precise_f32(pass_f32 *s, const char *a, const char *r) {
    const pl_vd y = vd_load_f32(r), d = vd_load_f32(a) - y, e = pl_vd_abs(d);
    s->ab += e;
    s->precise_top = vd_max(s->precise_top, e);
    s->sq = pl_vd_mac(d, d, s->sq);
    s->rr = pl_vd_mac(y, y, s->rr);
    s->dr = pl_vd_mac(d, y, s->dr);
}

INLINE void run_f32(bool precise, pass_f32 *s, low_f32 *low, const char *a, const char *r) {
    pl_vf sq = { 0 }, ab = { 0 }, rr = { 0 }, dr = { 0 }, rel = { 0 };
    pl_vi up = { 0 }, down = { 0 };
    pl_vu least = ~(pl_vu){ 0 } >> 1;
    int mismatch = 0;
    PL_UNROLL
    for (int j = 0; j < F32_VECTORS; j++, a += PL_VB, r += PL_VB) {
        const pl_vf x = pl_vf_load(a), y = pl_vf_load(r), d = x - y;
        const pl_vf e = pl_vf_abs(d), abs_y = pl_vf_abs(y);
        const pl_vu t = (pl_vu)x - (pl_vu)y;
        up = vi_max(up, (pl_vi)t);
        down = vi_min(down, (pl_vi)t);
        mismatch += vu_count(t);
        s->max_a = vu_max(s->max_a, (pl_vu)pl_vf_abs(x));
        s->max_r = vu_max(s->max_r, (pl_vu)abs_y);
        least = vu_min(least, (pl_vu)abs_y);
        rel += e / abs_y;
        if (precise) {
            precise_f32(s, a, r);
            precise_f32(s, a + PL_VB / 2, r + PL_VB / 2);
            continue;
        }
        s->top = vu_max(s->top, (pl_vu)e);
        ab += e;
        sq = pl_vf_mac(d, d, sq);
        rr = pl_vf_mac(y, y, rr);
        dr = pl_vf_mac(d, y, dr);
    }
    a -= F32_VECTORS * PL_VB;
    r -= F32_VECTORS * PL_VB;
    if (!precise) {
        s->sq += vd_fold(sq);
        s->ab += vd_fold(ab);
        s->rr += vd_fold(rr);
        s->dr += vd_fold(dr);
    }
    /* Codes less than 2^23 apart have the same sign, and their difference is the distance in
     * ulps. */
    pl_vu apart = vu_max((pl_vu)up, -(pl_vu)down);
    if (__builtin_expect(vu_any_bit(apart, 0xff800000u), 0)) apart = far_ulps_f32(a, r, &mismatch);
    s->ulp = vu_max(s->ulp, apart);
    s->mismatch += mismatch;
    const bool is_low = vu_any_le(least, low->limit);
    s->rel += __builtin_expect(is_low, 0) ? relative_low_f32(low, a, r) : vd_fold(rel);
}

/* ---- blocks ---- */
INLINE void products_step_f32(products *s, const char *a, const char *r) {
    products_add(s, vd_load_f32(a), vd_load_f32(r));
}
static __attribute__((noinline)) void products_f32(const char *a, const char *r, size_t n,
                                                   pl_metric_block *out) {
    products_sum(products_step_f32, PL_VD, 4, a, r, n, out);
}

INLINE bool pass_f32_finish(bool precise, const pass_f32 *s, const low_f32 *low, size_t n_padding,
                            pl_metric_block *out) {
    const uint32_t max_a = vu_top(s->max_a), max_r = vu_top(s->max_r);
    if (max_a >= 0x7f800000u || max_r >= 0x7f800000u) return false;
    out->max_abs = precise ? vd_top(s->precise_top) : value_f32(vu_top(s->top));
    out->max_a = value_f32(max_a);
    out->max_r = value_f32(max_r);
    if (!precise && !in_range(out, 0x1p-56, 0x1p56)) return false;
    out->sum_rel = vd_sum(s->rel);
    if (isinf(out->sum_rel)) return false; /* overflowed f32 */
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rr = vd_sum(s->rr);
    products_derive(vd_sum(s->dr), out);
    out->max_ulp = (int64_t)vu_top(s->ulp);
    out->n_excluded = low->small.n.excluded - (int64_t)n_padding; /* padding compares 0 with 0 */
    out->n_mismatch = s->mismatch;
    out->n_subnormal = low->subnormal;
    out->n_flushed = low->flushed;
    return true;
}

INLINE bool pass_f32_block(bool precise, const void *pa, const void *pr, size_t n, double floor,
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
        run_f32(precise, &s, &low, a, r);
    }
    if (i < n) {
        char ta[BYTES] = { 0 }, tr[BYTES] = { 0 };
        memcpy(ta, a, (n - i) * 4);
        memcpy(tr, r, (n - i) * 4);
        run_f32(precise, &s, &low, ta, tr);
    }
    if (!pass_f32_finish(precise, &s, &low, i < n ? i + F32_RUN - n : 0, out)) return false;
    if (products_cancel(out)) products_f32(pa, pr, n, out);
    return true;
}

static __attribute__((noinline)) bool precise_block_f32(const void *a, const void *r, size_t n,
                                                        double floor, pl_metric_block *out) {
    return pass_f32_block(true, a, r, n, floor, out);
}

static bool block_f32(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    if (n == PL_METRIC_BLOCK && pass_f32_block(false, a, r, n, floor, out)) return true;
    return precise_block_f32(a, r, n, floor, out);
}

#endif
