/* f64. Included by metric_table.c only. */
#ifndef PL_METRIC_F64_H
#define PL_METRIC_F64_H

#include "kernels/simd/metric_pass.h"

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

#endif
