/* The metric kernels of one instruction set.
 *
 * f32: sums in f64, the relative term in f32 (rounded in the difference, the quotient and a sum of
 * four), so that one division serves a whole vector. f64: all in f64. Narrow types: products of
 * 16-bit floats and bytes are exact or nearly so in f32, so sums run in f32 lanes that are emptied
 * into f64 every NARROW_RUN vectors; f64 throughout would be compute-bound at half the speed.
 * About 35 instructions for each vector fill the reorder window, too few loads are in flight
 * without the prefetch (measured: +30 %). NaN and Inf show in the maximum of |d|'s bits. */
#include "kernels/simd/metric_table.h"

#include <float.h>

#include "kernels/simd/metric_lanes.h"

#define INLINE static inline __attribute__((always_inline))

/* INLINE everywhere: a state whose address leaves the function would live in memory. */
enum { AHEAD = 4096, NARROW_RUN = 16 };

INLINE void fetch(const char *a, const char *r) {
    __builtin_prefetch(a + AHEAD);
    __builtin_prefetch(r + AHEAD);
}

typedef struct counts {
    int64_t excluded, mismatch;
} counts;

INLINE void counts_store(const counts *c, size_t n_padding, pl_metric_block *out) {
    out->n_excluded = c->excluded - (int64_t)n_padding; /* padding is 0 against 0 */
    out->n_mismatch = c->mismatch;
}

/* Squares must neither overflow nor vanish. */
INLINE bool in_range(double max_abs, double max_value, double low, double high) {
    if (max_value > high) return false;
    return (max_abs == 0 || max_abs >= low) && (max_value == 0 || max_value >= low);
}

/* ---- floats that are small or excluded ---- */
typedef struct small_f32 {
    pl_vf floor, max_excluded;
    counts n;
} small_f32;

INLINE small_f32 small_f32_init(double floor) {
    return (small_f32){ .floor = pl_vf_set(floor > (double)FLT_MAX ? FLT_MAX : (float)floor) };
}

/* The relative term of one vector, 0 where |r| <= floor. No branch: excluded elements are frequent
 * and irregular in narrow types. */
INLINE pl_vf relative_f32(small_f32 *s, pl_vf abs_r, pl_vf abs_d) {
    const vm_f out = vf_le(abs_r, s->floor);
    s->n.excluded += vf_count(out);
    s->max_excluded = vf_max_where(out, s->max_excluded, abs_d);
    return vf_drop(out, abs_d / abs_r);
}

/* Subnormal elements of r are among the excluded ones, or the floor is below them: most blocks need
 * not look. `tiny` is the code of the smallest normal number. */
#define PL_COUNT_SUBNORMAL(name, type, element, magnitude)                                         \
    static void name(const void *pa, const void *pr, size_t n, type tiny, pl_metric_block *out) {  \
        const element *a = pa, *r = pr; /* any alignment */                                        \
        type sub = 0, flushed = 0;      /* n is small enough; lanes stay narrow */                 \
        for (size_t i = 0; i < n; i++) {                                                           \
            const bool is = (type)((r[i] & (magnitude)) - 1) < (type)(tiny - 1);                   \
            sub = (type)(sub + is);                                                                \
            flushed = (type)(flushed + (is & ((a[i] & (magnitude)) == 0)));                        \
        }                                                                                          \
        out->n_subnormal = sub;                                                                    \
        out->n_flushed = flushed;                                                                  \
    }
PL_COUNT_SUBNORMAL(subnormal_16, uint16_t, pl_u16, 0x7fffu)
PL_COUNT_SUBNORMAL(subnormal_32, uint32_t, pl_u32, 0x7fffffffu)
INLINE void subnormal_half(bool is_bf16, const void *a, const void *r, size_t n, double floor,
                           pl_metric_block *out) {
    if (out->n_excluded == 0 && floor >= (is_bf16 ? (double)FLT_MIN : 0x1p-14)) return;
    subnormal_16(a, r, n, is_bf16 ? 0x80 : 0x400, out);
}

#include "kernels/simd/metric_half.h"

/* ---- f32 ---- */
typedef struct pass_f32 {
    pl_vd sq, ab, rr, aa, ar, rel, top;
    pl_vu max_a, max_r, ulp; /* magnitudes as codes: NaN and Inf are above all numbers */
    small_f32 small;
} pass_f32;

INLINE void half_f32(pass_f32 *s, const char *a, const char *r) {
    const pl_vd x = vd_load_f32(a), y = vd_load_f32(r), d = x - y, e = pl_vd_abs(d);
    s->sq = pl_vd_mac(d, d, s->sq);
    s->ab += e;
    s->top = vd_max(s->top, e);
    s->rr = pl_vd_mac(y, y, s->rr);
    s->aa = pl_vd_mac(x, x, s->aa);
    s->ar = pl_vd_mac(x, y, s->ar);
}

INLINE pl_vf step_f32(pass_f32 *s, const char *a, const char *r) {
    const pl_vf x = pl_vf_load(a), y = pl_vf_load(r);
    half_f32(s, a, r);
    half_f32(s, a + PL_VB / 2, r + PL_VB / 2);
    const pl_vu mx = (pl_vu)x & INT32_MAX, my = (pl_vu)y & INT32_MAX;
    s->max_a = vu_max(s->max_a, mx);
    s->max_r = vu_max(s->max_r, my);
    s->ulp = vu_max(s->ulp, vu_ulp((pl_vu)x ^ (pl_vu)y, mx, my));
    s->small.n.mismatch += vf_count(vf_differs(x, y));
    return relative_f32(&s->small, (pl_vf)my, pl_vf_abs(x - y));
}

INLINE double value_f32(uint32_t code) {
    float f;
    memcpy(&f, &code, sizeof f);
    return (double)f;
}

INLINE bool pass_f32_finish(pass_f32 *s, size_t n_padding, pl_metric_block *out) {
    const uint32_t max_a = vu_top(s->max_a), max_r = vu_top(s->max_r);
    if (max_a >= 0x7f800000u || max_r >= 0x7f800000u) return false;
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rel = vd_sum(s->rel);
    if (isinf(out->sum_rel)) return false; /* a quotient beyond f32 */
    out->sum_rr = vd_sum(s->rr);
    out->sum_aa = vd_sum(s->aa);
    out->sum_ar = vd_sum(s->ar);
    out->max_abs = vd_top(s->top);
    out->max_a = value_f32(max_a);
    out->max_r = value_f32(max_r);
    out->max_excluded = (double)vf_top(s->small.max_excluded);
    out->max_ulp = (int64_t)vu_top(s->ulp);
    counts_store(&s->small.n, n_padding, out);
    return true;
}

static bool block_f32(const void *pa, const void *pr, size_t n, double floor,
                      pl_metric_block *out) {
    const char *a = pa, *r = pr;
    pass_f32 s = { .small = small_f32_init(floor) };
    size_t i = 0;
    for (; i + 4 * PL_VF <= n; i += 4 * PL_VF, a += 4 * PL_VB, r += 4 * PL_VB) {
        for (int b = 0; b < 4 * PL_VB; b += 64)
            fetch(a + b, r + b);
        pl_vf q = step_f32(&s, a, r);
        for (int j = 1; j < 4; j++)
            q += step_f32(&s, a + j * PL_VB, r + j * PL_VB);
        s.rel += vd_low(q) + vd_high(q);
    }
    size_t n_padding = 0;
    for (; i < n; i += PL_VF, a += PL_VB, r += PL_VB) {
        const size_t m = n - i < PL_VF ? n - i : PL_VF;
        char ta[PL_VB] = { 0 }, tr[PL_VB] = { 0 };
        memcpy(ta, a, m * 4);
        memcpy(tr, r, m * 4);
        n_padding += PL_VF - m;
        const pl_vf q = step_f32(&s, ta, tr);
        s.rel += vd_low(q) + vd_high(q);
    }
    if (!pass_f32_finish(&s, n_padding, out)) return false;
    if (out->n_excluded > 0 || floor < (double)FLT_MIN) subnormal_32(pa, pr, n, 0x800000u, out);
    return true;
}

/* ---- f64 ---- */
typedef struct pass_f64 {
    pl_vd sq, ab, rr, aa, ar, rel, max_a, max_r, max_excluded;
    pl_vw bits, ulp;
    pl_vd floor, limit;
    counts n;
    int64_t subnormal, flushed;
} pass_f64;

INLINE void step_f64(pass_f64 *s, const char *a, const char *r) {
    const pl_vd x = pl_vd_load(a), y = pl_vd_load(r), d = x - y;
    const pl_vd e = pl_vd_abs(d), abs_y = pl_vd_abs(y);
    s->sq = pl_vd_mac(d, d, s->sq);
    s->ab += e;
    s->rr = pl_vd_mac(y, y, s->rr);
    s->aa = pl_vd_mac(x, x, s->aa);
    s->ar = pl_vd_mac(x, y, s->ar);
    s->bits = vw_max(s->bits, (pl_vw)e);
    s->max_a = vd_max(s->max_a, pl_vd_abs(x));
    s->max_r = vd_max(s->max_r, abs_y);
    s->ulp = vw_max(s->ulp, vw_ulp(x, y));
    s->n.mismatch += vd_count(vd_differs(x, y));
    pl_vd q = e / abs_y;
    if (__builtin_expect(vd_count(vd_le(abs_y, s->limit)) != 0, 0)) {
        const pl_vd zero = pl_vd_set(0);
        const vm_d drop = vd_le(abs_y, s->floor);
        s->n.excluded += vd_count(drop);
        s->max_excluded = vd_max(s->max_excluded, vd_keep(drop, e));
        const vm_d sub = vd_and(vd_less(abs_y, pl_vd_set(DBL_MIN)), vd_less(zero, abs_y));
        s->subnormal += vd_count(sub);
        s->flushed += vd_count(vd_and(sub, vd_le(pl_vd_abs(x), zero)));
        q = vd_drop(drop, q);
    }
    s->rel += q;
}

INLINE bool pass_f64_finish(pass_f64 *s, size_t n_padding, pl_metric_block *out) {
    const uint64_t top = vw_top(s->bits);
    if (top >= 0x7ff0000000000000u) return false;
    memcpy(&out->max_abs, &top, sizeof top);
    out->max_a = vd_top(s->max_a);
    out->max_r = vd_top(s->max_r);
    const double max = out->max_a > out->max_r ? out->max_a : out->max_r;
    if (!in_range(out->max_abs, max, 0x1p-480, 0x1p480)) return false;
    out->sum_sq = vd_sum(s->sq);
    out->sum_abs = vd_sum(s->ab);
    out->sum_rel = vd_sum(s->rel);
    out->sum_rr = vd_sum(s->rr);
    out->sum_aa = vd_sum(s->aa);
    out->sum_ar = vd_sum(s->ar);
    out->max_excluded = vd_top(s->max_excluded);
    const uint64_t ulp = vw_top(s->ulp);
    out->max_ulp = ulp > INT64_MAX ? INT64_MAX : (int64_t)ulp;
    out->n_subnormal = s->subnormal;
    out->n_flushed = s->flushed;
    counts_store(&s->n, n_padding, out);
    return true;
}

static bool block_f64(const void *pa, const void *pr, size_t n, double floor,
                      pl_metric_block *out) {
    const char *a = pa, *r = pr;
    pass_f64 s = { .floor = pl_vd_set(floor),
                   .limit = pl_vd_set(floor > DBL_MIN ? floor : DBL_MIN) };
    size_t i = 0;
    for (; i + 4 * PL_VD <= n; i += 4 * PL_VD, a += 4 * PL_VB, r += 4 * PL_VB) {
        for (int b = 0; b < 4 * PL_VB; b += 64)
            fetch(a + b, r + b);
        for (int j = 0; j < 4; j++)
            step_f64(&s, a + j * PL_VB, r + j * PL_VB);
    }
    size_t n_padding = 0;
    for (; i < n; i += PL_VD, a += PL_VB, r += PL_VB) {
        const size_t m = n - i < PL_VD ? n - i : PL_VD;
        char ta[PL_VB] = { 0 }, tr[PL_VB] = { 0 };
        memcpy(ta, a, m * 8);
        memcpy(tr, r, m * 8);
        n_padding += PL_VD - m;
        step_f64(&s, ta, tr);
    }
    return pass_f64_finish(&s, n_padding, out);
}

/* ---- narrow types ---- */
typedef enum narrow { NARROW_F16, NARROW_BF16, NARROW_I8, NARROW_U8 } narrow;

INLINE size_t narrow_bytes(narrow kind) {
    return kind == NARROW_F16 || kind == NARROW_BF16 ? 2 : 1;
}
INLINE pl_vf narrow_load(narrow kind, const char *p) {
    switch (kind) {
    case NARROW_F16: return vf_load_f16(p);
    case NARROW_BF16: return vf_load_bf16(p);
    case NARROW_I8: return vf_load_i8(p);
    case NARROW_U8: break;
    }
    return vf_load_u8(p);
}

typedef struct pass_narrow {
    pl_vf sq, ab, rr, aa, ar, rel; /* of a run */
    pl_vd d_sq, d_ab, d_rr, d_aa, d_ar, d_rel;
    pl_vf top;
    pl_vu max_a, max_r, ulp;
    small_f32 small;
} pass_narrow;

INLINE void step_narrow(narrow kind, pass_narrow *s, const char *a, const char *r) {
    const pl_vf x = narrow_load(kind, a), y = narrow_load(kind, r), d = x - y;
    const pl_vf e = pl_vf_abs(d);
    const pl_vu mx = (pl_vu)x & INT32_MAX, my = (pl_vu)y & INT32_MAX;
    s->sq = pl_vf_mac(d, d, s->sq);
    s->ab += e;
    s->rr = pl_vf_mac(y, y, s->rr);
    s->aa = pl_vf_mac(x, x, s->aa);
    s->ar = pl_vf_mac(x, y, s->ar);
    s->top = vf_max(s->top, e);
    s->max_a = vu_max(s->max_a, mx);
    s->max_r = vu_max(s->max_r, my);
    if (kind == NARROW_F16) s->ulp = vu_max(s->ulp, vu_ulp16(vi_load_i16(a), vi_load_i16(r)));
    if (kind == NARROW_BF16) s->ulp = vu_max(s->ulp, vu_ulp((pl_vu)x ^ (pl_vu)y, mx, my));
    s->small.n.mismatch += vf_count(vf_differs(x, y));
    s->rel += relative_f32(&s->small, (pl_vf)my, e);
}

INLINE pl_vd widen_add(pl_vd to, pl_vf *from) {
    const pl_vf v = *from;
    *from = pl_vf_set(0);
    return to + (vd_low(v) + vd_high(v));
}
INLINE void empty_run(pass_narrow *s) {
    s->d_sq = widen_add(s->d_sq, &s->sq);
    s->d_ab = widen_add(s->d_ab, &s->ab);
    s->d_rr = widen_add(s->d_rr, &s->rr);
    s->d_aa = widen_add(s->d_aa, &s->aa);
    s->d_ar = widen_add(s->d_ar, &s->ar);
    s->d_rel = widen_add(s->d_rel, &s->rel);
}

INLINE bool pass_narrow_finish(narrow kind, pass_narrow *s, size_t n_padding,
                               pl_metric_block *out) {
    const uint32_t max_a = vu_top(s->max_a), max_r = vu_top(s->max_r), ulp = vu_top(s->ulp);
    if (max_a >= 0x7f800000u || max_r >= 0x7f800000u) return false;
    out->max_abs = (double)vf_top(s->top);
    out->max_a = value_f32(max_a);
    out->max_r = value_f32(max_r);
    const double max = out->max_a > out->max_r ? out->max_a : out->max_r;
    if (!in_range(out->max_abs, max, 0x1p-50, 0x1p56)) return false;
    out->sum_sq = vd_sum(s->d_sq);
    out->sum_abs = vd_sum(s->d_ab);
    out->sum_rel = vd_sum(s->d_rel);
    if (isinf(out->sum_rel)) return false;
    out->sum_rr = vd_sum(s->d_rr);
    out->sum_aa = vd_sum(s->d_aa);
    out->sum_ar = vd_sum(s->d_ar);
    out->max_excluded = (double)vf_top(s->small.max_excluded);
    out->max_ulp = kind == NARROW_F16    ? (int64_t)ulp
                   : kind == NARROW_BF16 ? (int64_t)(ulp >> 16)
                                         : (int64_t)out->max_abs;
    counts_store(&s->small.n, n_padding, out);
    return true;
}

INLINE bool block_narrow(narrow kind, const char *a, const char *r, size_t n, double floor,
                         pl_metric_block *out) {
    const char *const first_a = a, *const first_r = r;
    const size_t bytes = narrow_bytes(kind), run = NARROW_RUN * PL_VF;
    const size_t step = PL_VF * bytes;
    pass_narrow s = { .small = small_f32_init(floor) };
    size_t i = 0;
    for (; i + run <= n; i += run, a += run * bytes, r += run * bytes) {
        for (size_t b = 0; b < run * bytes; b += 64)
            fetch(a + b, r + b);
        for (size_t j = 0; j < NARROW_RUN; j++)
            step_narrow(kind, &s, a + j * step, r + j * step);
        empty_run(&s);
    }
    size_t n_padding = 0;
    for (; i < n; i += PL_VF, a += step, r += step) {
        const size_t m = n - i < PL_VF ? n - i : PL_VF;
        char ta[PL_VB] = { 0 }, tr[PL_VB] = { 0 };
        memcpy(ta, a, m * bytes);
        memcpy(tr, r, m * bytes);
        n_padding += PL_VF - m;
        step_narrow(kind, &s, ta, tr);
    }
    empty_run(&s);
    if (!pass_narrow_finish(kind, &s, n_padding, out)) return false;
    if (bytes == 2) subnormal_half(kind == NARROW_BF16, first_a, first_r, n, floor, out);
    return true;
}

#if PL_SIMD_AVX512
static bool block_f16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_half(false, a, r, n, floor, out);
}
static bool block_bf16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_half(true, a, r, n, floor, out);
}
#else
static bool block_f16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_narrow(NARROW_F16, a, r, n, floor, out);
}
static bool block_bf16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_narrow(NARROW_BF16, a, r, n, floor, out);
}
#endif
static bool block_i8(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_narrow(NARROW_I8, a, r, n, floor, out);
}
static bool block_u8(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_narrow(NARROW_U8, a, r, n, floor, out);
}

const pl_metric_kernels PL_SIMD(pl_metric_table) = {
    .f32 = block_f32,
    .f64 = block_f64,
    .f16 = block_f16,
    .bf16 = block_bf16,
    .i8 = block_i8,
    .u8 = block_u8,
};
