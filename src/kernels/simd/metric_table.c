/* The metric kernels of one instruction set.
 *
 * metric_f32.h, metric_f64.h and metric_half.h work in runs of a few vectors. Rare cases (a sign or
 * a binade between a and r, small or zero references) are detected once per run and handled in
 * separate functions, so that the loop keeps its registers. Accumulators are doubles. A few terms
 * are summed in f32 first: 8 for f32 (whole blocks only), 32 for narrow types, whose products are
 * exact or nearly so in f32. NaN and Inf show up in the maxima of the codes. On Zen 4 the speed is
 * limited by the number of vector operations, not by division; count them before adding one. */
#include "kernels/simd/metric_table.h"

#include "kernels/simd/metric_f32.h"
#include "kernels/simd/metric_f64.h"
#include "kernels/simd/metric_half.h"

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
    if (!in_range(out, 0x1p-50, 0x1p56)) return false;
    out->sum_sq = vd_sum(s->d_sq);
    out->sum_abs = vd_sum(s->d_ab);
    out->sum_rel = vd_sum(s->d_rel);
    if (isinf(out->sum_rel)) return false;
    out->sum_rr = vd_sum(s->d_rr);
    out->sum_aa = vd_sum(s->d_aa);
    out->sum_ar = vd_sum(s->d_ar);
    out->max_ulp = kind == NARROW_F16    ? (int64_t)ulp
                   : kind == NARROW_BF16 ? (int64_t)(ulp >> 16)
                                         : (int64_t)out->max_abs;
    counts_store(&s->small.n, n_padding, out);
    return true;
}

/* 16-bit floats. Subnormal elements of r are either excluded or above the floor: most blocks need
 * no check. */
static void count_subnormal(bool is_bf16, const void *pa, const void *pr, size_t n, double floor,
                            pl_metric_block *out) {
    if (out->n_excluded == 0 && floor >= (is_bf16 ? (double)FLT_MIN : 0x1p-14)) return;
    const pl_u16 *a = pa, *r = pr;
    const uint16_t tiny = is_bf16 ? 0x80 : 0x400; /* the code of the smallest normal number */
    uint16_t sub = 0, flushed = 0;                /* n is small enough; keeps lanes narrow */
    for (size_t i = 0; i < n; i++) {
        const bool is = (uint16_t)((r[i] & 0x7fffu) - 1) < (uint16_t)(tiny - 1);
        sub = (uint16_t)(sub + is);
        flushed = (uint16_t)(flushed + (is & ((a[i] & 0x7fffu) == 0)));
    }
    out->n_subnormal = sub;
    out->n_flushed = flushed;
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
    if (bytes == 2) count_subnormal(kind == NARROW_BF16, first_a, first_r, n, floor, out);
    return true;
}

#if PL_SIMD_AVX512 || PL_SIMD_AVX2
static bool block_f16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_half(HALF_F16, a, r, n, floor, out);
}
static bool block_bf16(const void *a, const void *r, size_t n, double floor, pl_metric_block *out) {
    return block_half(HALF_BF16, a, r, n, floor, out);
}
#if PL_SIMD_AVX512
static bool block_bf16_dot(const void *a, const void *r, size_t n, double floor,
                           pl_metric_block *out) {
    if (floor < (double)FLT_MIN)
        return block_bf16(a, r, n, floor, out); /* quotients involve subnormals */
    return block_half(HALF_BF16_DOT, a, r, n, floor, out);
}
#endif
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

#if PL_SIMD_AVX512
const pl_metric_kernels pl_metric_table_avx512_bf16 = {
    .f32 = block_f32,
    .f64 = block_f64,
    .f16 = block_f16,
    .bf16 = block_bf16_dot,
    .i8 = block_i8,
    .u8 = block_u8,
};
#endif
