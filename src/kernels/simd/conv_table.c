/* Inner loops of convolution and pooling for one instruction set. */
#include "kernels/simd/conv_table.h"

#include "kernels/simd/block.h"
#include "kernels/simd/simd.h"

/* Every second lane of two vectors. AVX2 has a shorter way for floats: f32_load_twice. */
#if PL_SIMD_AVX512
static inline pl_vf f32_even(pl_vf a, pl_vf b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}
#elif !PL_SIMD_AVX2
static inline pl_vf f32_even(pl_vf a, pl_vf b) {
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
}
#endif
static inline pl_vd f64_even(pl_vd a, pl_vd b) {
#if PL_SIMD_AVX512
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
#elif PL_SIMD_AVX2
    return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#else
    return __builtin_shufflevector(a, b, 0, 2);
#endif
}

/* Loads elements 0, 2, …; reads one beyond the last. */
static inline pl_vf f32_load_twice(const pl_f32 *p) {
#if PL_SIMD_AVX2 /* no shuffle across the halves */
    const __m128 a = _mm_loadu_ps((const float *)p), b = _mm_loadu_ps((const float *)p + 4);
    const __m128 c = _mm_loadu_ps((const float *)p + 8), d = _mm_loadu_ps((const float *)p + 12);
    const __m256 ac = _mm256_insertf128_ps(_mm256_castps128_ps256(a), c, 1);
    const __m256 bd = _mm256_insertf128_ps(_mm256_castps128_ps256(b), d, 1);
    return (pl_vf)_mm256_shuffle_ps(ac, bd, 0x88);
#else
    return f32_even(pl_vf_load(p), pl_vf_load(p + PL_VF));
#endif
}
static inline pl_vd f64_load_twice(const pl_f64 *p) {
    return f64_even(pl_vd_load(p), pl_vd_load(p + PL_VD));
}

/* Loads elements 0, 2, …; reads nothing beyond the last. */
static inline pl_vf f32_load_even(const pl_f32 *p) {
    const pl_vf a = pl_vf_load(p), b = pl_vf_load(p + PL_VF - 1);
#if PL_SIMD_AVX512
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
#elif PL_SIMD_AVX2
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 5, 7);
#endif
}
static inline pl_vd f64_load_even(const pl_f64 *p) {
    const pl_vd a = pl_vd_load(p), b = pl_vd_load(p + PL_VD - 1);
#if PL_SIMD_AVX512
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15);
#elif PL_SIMD_AVX2
    return __builtin_shufflevector(a, b, 0, 2, 5, 7);
#else
    return __builtin_shufflevector(a, b, 0, 3);
#endif
}
/* max2 on each lane. */
static inline pl_vf f32_max_lanes(pl_vf a, pl_vf b) {
    return pl_vf_eq(b, b, pl_vf_lt(a, b, b, a), b);
}
static inline pl_vd f64_max_lanes(pl_vd a, pl_vd b) {
    return pl_vd_eq(b, b, pl_vd_lt(a, b, b, a), b);
}

#if PL_SIMD_AVX512
typedef pl_vh f32_half;
typedef double f64_half __attribute__((vector_size(32)));
typedef double f64_half_any __attribute__((vector_size(32), aligned(1), may_alias));
static inline f32_half f32_half_load(const void *p) {
    return *(const pl_vh_any *)p;
}
static inline f64_half f64_half_load(const void *p) {
    return *(const f64_half_any *)p;
}
static inline f32_half f32_half_set(float s) {
    return (f32_half)_mm256_set1_ps(s);
}
static inline f64_half f64_half_set(double s) {
    return (f64_half)_mm256_set1_pd(s);
}
static inline f32_half f32_half_mac(f32_half a, f32_half b, f32_half c) {
    return (f32_half)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
static inline f64_half f64_half_mac(f64_half a, f64_half b, f64_half c) {
    return (f64_half)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
typedef __mmask16 f32_mask;
typedef __mmask8 f64_mask;
static inline pl_vf f32_load_masked(f32_mask m, const void *p) {
    return (pl_vf)_mm512_maskz_loadu_ps(m, p);
}
static inline pl_vd f64_load_masked(f64_mask m, const void *p) {
    return (pl_vd)_mm512_maskz_loadu_pd(m, p);
}
static inline f32_half f32_half_load_masked(__mmask8 m, const void *p) {
    return (f32_half)_mm256_maskz_loadu_ps(m, p);
}
static inline f64_half f64_half_load_masked(__mmask8 m, const void *p) {
    return (f64_half)_mm256_maskz_loadu_pd(m, p);
}
/* Every second column starting at 0, 1, 2, 3 and 4, from three vectors of columns. */
#define SHUFFLE __builtin_shufflevector
static inline void f32_taps_2(pl_vf a, pl_vf b, pl_vf c, pl_vf to[5]) {
    to[0] = f32_even(a, b);
    to[1] = SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    to[2] = SHUFFLE(to[0], c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    to[3] = SHUFFLE(to[1], c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17);
    to[4] = SHUFFLE(to[0], c, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18);
}
static inline void f64_taps_2(pl_vd a, pl_vd b, pl_vd c, pl_vd to[5]) {
    to[0] = f64_even(a, b);
    to[1] = SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
    to[2] = SHUFFLE(to[0], c, 1, 2, 3, 4, 5, 6, 7, 8);
    to[3] = SHUFFLE(to[1], c, 1, 2, 3, 4, 5, 6, 7, 9);
    to[4] = SHUFFLE(to[0], c, 2, 3, 4, 5, 6, 7, 8, 10);
}
static inline void f32_half_store_n(pl_f32 *p, f32_half v, int64_t n) {
    _mm256_mask_storeu_ps(p, (__mmask8)((1u << n) - 1u), (__m256)v);
}
static inline void f64_half_store_n(pl_f64 *p, f64_half v, int64_t n) {
    _mm256_mask_storeu_pd(p, (__mmask8)((1u << n) - 1u), (__m256d)v);
}
#elif PL_SIMD_AVX2
typedef __m256i f32_mask, f64_mask;
static inline pl_vf f32_load_masked(f32_mask m, const void *p) {
    return (pl_vf)_mm256_maskload_ps(p, m);
}
static inline pl_vd f64_load_masked(f64_mask m, const void *p) {
    return (pl_vd)_mm256_maskload_pd(p, m);
}
/* Lanes l with 0 <= at + l < n. */
static inline f32_mask f32_lanes_inside(int64_t at, int64_t n) {
    const int32_t from = (int32_t)(at < -PL_VF ? -PL_VF : at > n ? n : at);
    const pl_vi lane = (pl_vi){ 0, 1, 2, 3, 4, 5, 6, 7 } + from;
    return (f32_mask)((lane >= 0) & (lane < (int32_t)n));
}
static inline f64_mask f64_lanes_inside(int64_t at, int64_t n) {
    const pl_vl lane = (pl_vl){ 0, 1, 2, 3 } + at;
    return (f64_mask)((lane >= 0) & (lane < n));
}
/* Every second lane of two vectors, in the order in which the halves give them; settle sorts. */
static inline pl_vf f32_even_mixed(pl_vf a, pl_vf b) {
    return (pl_vf)_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88);
}
static inline pl_vf f32_odd_mixed(pl_vf a, pl_vf b) {
    return (pl_vf)_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd);
}
static inline pl_vf f32_settle(pl_vf v) {
    return (pl_vf)_mm256_permute4x64_pd((__m256d)v, 0xd8);
}
static inline pl_vd f64_even_mixed(pl_vd a, pl_vd b) {
    return (pl_vd)_mm256_unpacklo_pd((__m256d)a, (__m256d)b);
}
static inline pl_vd f64_odd_mixed(pl_vd a, pl_vd b) {
    return (pl_vd)_mm256_unpackhi_pd((__m256d)a, (__m256d)b);
}
static inline pl_vd f64_settle(pl_vd v) {
    return (pl_vd)_mm256_permute4x64_pd((__m256d)v, 0xd8);
}
#endif

enum { BLOCK_ROWS = 7 }; /* planes are often multiples of it; the sums fit the registers */
enum { PAIR_ROWS = 5 };  /* the same for pairs of vectors in 16 registers */
enum { DIRECT_WIDTH_MAX = 1024, STEM_CHANNELS = 4 };

#define TEMPLATE "kernels/simd/conv_rows.inc"
#include "kernels/simd/both.inc"

#if PL_SIMD_AVX512
/* bias may be NULL. n is a constant in both instances. */
static inline __attribute__((always_inline)) void stem_of(const pl_conv_stem *g, const pl_f32 *x,
                                                          const pl_f32 *w, const pl_f32 *bias,
                                                          int64_t row, const int n, pl_f32 *y) {
    const pl_conv_plane *p = &g->plane;
    const pl_f32 *rows[3 * STEM_CHANNELS];
    for (int64_t c = 0; c < g->c_in; c++)
        for (int64_t k = 0; k < 3; k++) {
            const int64_t at = 2 * row + k - p->pad_y;
            const bool inside = at >= 0 && at < p->in_h;
            rows[3 * c + k] = inside ? x + (c * p->in_h + at) * p->in_w : f32_zeros;
        }
    for (int64_t i = 0; i < p->out_w; i += PL_VF) {
        const int64_t at = 2 * i - p->pad_x, left = p->out_w - i;
        const f32_mask m0 = (f32_mask)f32_lanes_inside(at, p->in_w);
        const f32_mask m1 = (f32_mask)f32_lanes_inside(at + PL_VF, p->in_w);
        const f32_mask m2 = (f32_mask)f32_lanes_inside(at + 2 * PL_VF, p->in_w);
        const pl_f32 *wq = w;
        pl_vf acc[16];
        PL_UNROLL
        for (int c = 0; c < n; c++)
            acc[c] = pl_vf_set(0);
        for (int64_t q = 0; q < 3 * g->c_in; q++, wq += 3 * g->c_out) {
            const pl_f32 *from = rows[q] + at;
            pl_vf v[5];
            f32_taps_2(f32_load_masked(m0, from), f32_load_masked(m1, from + PL_VF),
                       f32_load_masked(m2, from + 2 * PL_VF), v);
            PL_UNROLL
            for (int t = 0; t < 3; t++) {
                PL_UNROLL
                for (int c = 0; c < n; c++)
                    acc[c] = pl_vf_mac(pl_vf_set(wq[t * g->c_out + c]), v[t], acc[c]);
            }
        }
        pl_f32 *to = y + row * p->out_w + i;
        PL_UNROLL
        for (int c = 0; c < n; c++) {
            const pl_vf r = bias == NULL ? acc[c] : acc[c] + bias[c];
            f32_store_n(to + c * p->out_h * p->out_w, r, left < PL_VF ? left : PL_VF);
        }
    }
}
static void f32_stem(const pl_conv_stem *g, const pl_f32 *x, const pl_f32 *w, const pl_f32 *bias,
                     int64_t row, int64_t n, pl_f32 *y) {
    if (n == 16) {
        stem_of(g, x, w, bias, row, 16, y);
    } else {
        stem_of(g, x, w, bias, row, 8, y);
    }
}
#else
#define f32_stem NULL
#endif
#define f64_stem NULL

#define PL_ROWS(suffix)                                                                            \
    .stage_##suffix = suffix##_stage, .fill_##suffix = suffix##_fill,                              \
    .restage_##suffix = suffix##_restage, .depthwise_##suffix = suffix##_depthwise,                \
    .transpose_##suffix = suffix##_transpose, .depthwise_rows_##suffix = suffix##_depthwise_rows,  \
    .depthwise_block_##suffix = suffix##_depthwise_block,                                          \
    .depthwise_direct_##suffix = suffix##_depthwise_direct, .stem_##suffix = suffix##_stem,        \
    .max_row_##suffix = suffix##_max_row, .max_columns_##suffix = suffix##_max_columns,            \
    .sum_row_##suffix = suffix##_sum_row, .scatter_##suffix = suffix##_scatter

const pl_conv_table PL_SIMD(pl_conv_table) = { PL_ROWS(f32), PL_ROWS(f64) };
