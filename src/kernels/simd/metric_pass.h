/* Shared by the metric kernels of all types. */
#ifndef PL_METRIC_PASS_H
#define PL_METRIC_PASS_H

#include <float.h>

#include "kernels/simd/metric_lanes.h"
#include "metric/metric_block.h"

#define INLINE static inline __attribute__((always_inline))

/* INLINE everywhere: state whose address leaves the function would be kept in memory. */
enum { AHEAD = 4096, NARROW_RUN = 16 };

INLINE void fetch(const char *a, const char *r) { /* numbers: it may be behind the array */
    __builtin_prefetch((const void *)((uintptr_t)a + AHEAD));
    __builtin_prefetch((const void *)((uintptr_t)r + AHEAD));
}

typedef struct counts {
    int64_t excluded, mismatch;
} counts;

INLINE void counts_store(const counts *c, size_t n_padding, pl_metric_block *out) {
    out->n_excluded = c->excluded - (int64_t)n_padding; /* padding compares 0 with 0 */
    out->n_mismatch = c->mismatch;
}

/* Squares of d, a and r must neither overflow nor underflow. */
INLINE bool in_range(const pl_metric_block *out, double low, double high) {
    if (out->max_a > high || out->max_r > high) return false;
    return (out->max_abs == 0 || out->max_abs >= low) && (out->max_a == 0 || out->max_a >= low) &&
           (out->max_r == 0 || out->max_r >= low);
}

/* a * r and a^2 of a block from d^2, r^2 and d * r: one sum less in the loop. As precise as direct
 * sums unless they cancel, that is, where a is small compared with r or has another direction: a^2
 * = r^2 + 2 d r + d^2 loses at most half as much again as its terms. */
INLINE void products_derive(double sum_dr, pl_metric_block *out) {
    out->sum_ar = out->sum_rr + sum_dr;
    out->sum_aa = out->sum_ar + (sum_dr + out->sum_sq);
}
INLINE bool products_cancel(const pl_metric_block *out) {
    return !(out->sum_aa >= 8 * (out->sum_rr - out->sum_ar));
}

/* Direct sums for blocks where these cancel. */
typedef struct products {
    pl_vd aa, ar, rr;
} products;
typedef void (*products_step)(products *s, const char *a, const char *r);

INLINE void products_add(products *s, pl_vd x, pl_vd y) {
    s->aa = pl_vd_mac(x, x, s->aa);
    s->ar = pl_vd_mac(x, y, s->ar);
    s->rr = pl_vd_mac(y, y, s->rr); /* summed like the others, since their ratio is the cosine */
}
/* Calls `step` for n_step elements of `size` bytes at a time, at most PL_VB bytes. */
INLINE void products_sum(products_step step, size_t n_step, size_t size, const char *a,
                         const char *r, size_t n, pl_metric_block *out) {
    products s = { 0 };
    size_t i = 0;
    for (; i + n_step <= n; i += n_step)
        step(&s, a + i * size, r + i * size);
    if (i < n) {
        char ta[PL_VB] = { 0 }, tr[PL_VB] = { 0 };
        memcpy(ta, a + i * size, (n - i) * size);
        memcpy(tr, r + i * size, (n - i) * size);
        step(&s, ta, tr);
    }
    out->sum_aa = vd_sum(s.aa);
    out->sum_ar = vd_sum(s.ar);
    out->sum_rr = vd_sum(s.rr);
}

/* ---- floats that are small or excluded ---- */
typedef struct small_f32 {
    pl_vf floor;
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
    return vf_drop(out, abs_d / abs_r);
}

#endif
