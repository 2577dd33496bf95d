/* Inner loops of matrix products for one instruction set. */
#include "kernels/simd/gemm_table.h"

#include "kernels/simd/block.h"
#include "kernels/simd/simd.h"

/* Rows of a tile, such that the accumulators, two vectors of B and one of A fit in registers. */
#if PL_SIMD_AVX512
#define MR 14
#define CHUNK 4
#define CHUNK_ROWS 8
#elif PL_SIMD_AVX2
#define MR 6
#define CHUNK 16
#define CHUNK_ROWS 10
#elif PL_SIMD_NEON
#define MR 8 /* two vectors of A; a product reads one of their lanes */
#define CHUNK 16
#define CHUNK_ROWS 10
#else
#define MR 4
#define CHUNK 4
#define CHUNK_ROWS 8
#endif
#define ACC_MAX (2 * MR)
enum { CHAIN_ROWS = 4 };
enum { TILE_AHEAD = 8, PACK_AHEAD = 16 }; /* rows of B that are fetched before they are read */

#if PL_SIMD_AVX512
/* Loads the first n lanes. */
static inline pl_vf f32_load_n(const pl_f32 *p, int64_t n) {
    return (pl_vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p);
}
static inline pl_vd f64_load_n(const pl_f64 *p, int64_t n) {
    return (pl_vd)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1u), p);
}
#elif PL_SIMD_AVX2
static inline pl_vf f32_load_n(const pl_f32 *p, int64_t n) {
    const pl_vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    return (pl_vf)_mm256_maskload_ps((const float *)p, (__m256i)(lane < (int32_t)n));
}
static inline pl_vd f64_load_n(const pl_f64 *p, int64_t n) {
    const pl_vl lane = { 0, 1, 2, 3 };
    return (pl_vd)_mm256_maskload_pd((const double *)p, (__m256i)(lane < n));
}
#endif

#define TEMPLATE "kernels/simd/gemm_tile.inc"
#include "kernels/simd/both.inc"

#if PL_SIMD_NEON
/* Sums of the products at even and at odd k stay apart until the end: a widening multiply-add takes
 * half a vector, and needs no pairwise addition then. */
#define MR_I16 4
static inline __attribute__((always_inline)) void
i16_tile_of(int64_t k_pairs, const int16_t *a, const int16_t *b, pl_i32 *acc_out, const int rows) {
    int32x4_t acc[4 * MR_I16];
    PL_UNROLL
    for (int i = 0; i < 4 * rows; i++)
        acc[i] = vdupq_n_s32(0);
    for (; k_pairs > 0; k_pairs--) {
        const int16x8_t b0 = vld1q_s16(b), b1 = vld1q_s16(b + 8);
        PL_UNROLL
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, a + 2 * i, sizeof pair);
            const int16x8_t av = vreinterpretq_s16_s32(vdupq_n_s32(pair));
            acc[4 * i] = vmlal_s16(acc[4 * i], vget_low_s16(av), vget_low_s16(b0));
            acc[4 * i + 1] = vmlal_high_s16(acc[4 * i + 1], av, b0);
            acc[4 * i + 2] = vmlal_s16(acc[4 * i + 2], vget_low_s16(av), vget_low_s16(b1));
            acc[4 * i + 3] = vmlal_high_s16(acc[4 * i + 3], av, b1);
        }
        a += 2 * rows;
        b += 4 * PL_VF;
    }
    PL_UNROLL
    for (int i = 0; i < 2 * rows; i++) {
        const int32x4_t sums = vpaddq_s32(acc[2 * i], acc[2 * i + 1]);
        memcpy(acc_out + i * PL_VF, &sums, sizeof sums);
    }
}
#else
#define MR_I16 MR
/* Pairs of int16 products added into int32: vpmaddwd. |x| <= 255, so a pair stays below 2^17. */
static inline pl_vu madd(pl_vi a, pl_vi b) {
#if PL_SIMD_AVX512
    return (pl_vu)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif PL_SIMD_AVX2
    return (pl_vu)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    typedef short v8 __attribute__((vector_size(16)));
    return (pl_vu)__builtin_ia32_pmaddwd128((v8)a, (v8)b);
#else
    const pl_vi al = (pl_vi)((pl_vu)a << 16) >> 16, bl = (pl_vi)((pl_vu)b << 16) >> 16;
    return (pl_vu)(al * bl + (a >> 16) * (b >> 16));
#endif
}

typedef int32_t vi_any __attribute__((vector_size(PL_VB), aligned(1), may_alias));
typedef uint32_t vu_any __attribute__((vector_size(PL_VB), aligned(1), may_alias));

static inline __attribute__((always_inline)) void
i16_tile_of(int64_t k_pairs, const int16_t *a, const int16_t *b, pl_i32 *acc_out, const int rows) {
    pl_vu acc[ACC_MAX]; /* unsigned: sums wrap */
    PL_UNROLL
    for (int i = 0; i < 2 * rows; i++)
        acc[i] = (pl_vu){ 0 };
    for (; k_pairs > 0; k_pairs--) {
        const pl_vi b0 = *(const vi_any *)(const void *)b;
        const pl_vi b1 = *(const vi_any *)(const void *)(b + 2 * PL_VF);
        PL_UNROLL
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, a + 2 * i, sizeof pair);
            const pl_vi av = (pl_vi){ 0 } + pair;
            acc[2 * i] += madd(av, b0);
            acc[2 * i + 1] += madd(av, b1);
        }
        a += 2 * rows;
        b += 4 * PL_VF;
    }
    PL_UNROLL
    for (int i = 0; i < 2 * rows; i++)
        *(vu_any *)(void *)(acc_out + i * PL_VF) = acc[i];
}
#endif

#define ROWS(n)                                                                                    \
    case n: i16_tile_of(k_pairs, a, b, buf, n); break
static void i16_tile(int64_t k_pairs, const int16_t *a, const int16_t *b, pl_i32 *c, int64_t ldc,
                     int64_t rows, int64_t cols, bool add) {
    enum { NR = 2 * PL_VF };
    pl_i32 buf[MR_I16 * NR];
    switch (rows) {
        ROWS(1);
        ROWS(2);
        ROWS(3);
#if MR_I16 > 4
        ROWS(4);
        ROWS(5);
#endif
#if MR_I16 > 6
        ROWS(6);
        ROWS(7);
#endif
#if MR_I16 > 8
        ROWS(8);
        ROWS(9);
        ROWS(10);
        ROWS(11);
        ROWS(12);
        ROWS(13);
#endif
    default: i16_tile_of(k_pairs, a, b, buf, MR_I16); break;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const uint32_t v = (uint32_t)buf[i * NR + j];
            c[i * ldc + j] = (int32_t)(add ? (uint32_t)c[i * ldc + j] + v : v);
        }
}
#undef ROWS

#if PL_SIMD_NEON
/* The one part that needs more than the instruction set: called where the CPU has it (gemm_i8.c).
 */
#define DOT __attribute__((target("arch=armv8.2-a+dotprod")))
enum { DOT_ROWS = PL_GEMM_DOT_ROWS_MAX, DOT_COLS = 8 };

/* Rows are padded to a multiple of four by reading the panel's last ones again. */
DOT static void dot_tile(int64_t k_fours, const int8_t *a, const int8_t *b, pl_i32 *c, int64_t ldc,
                         int64_t rows, int64_t cols, bool add) {
    int32x4_t acc[DOT_ROWS][2];
    pl_i32 at[DOT_ROWS];
    for (int i = 0; i < DOT_ROWS; i++) {
        acc[i][0] = acc[i][1] = vdupq_n_s32(0);
        at[i] = (pl_i32)(4 * (i < rows ? i : rows - 1));
    }
    for (; k_fours > 0; k_fours--, a += 4 * rows, b += 4 * DOT_COLS) {
        const int8x16_t b0 = vld1q_s8(b), b1 = vld1q_s8(b + 16);
        PL_UNROLL
        for (int i = 0; i < DOT_ROWS; i++) {
            int32_t four;
            memcpy(&four, a + at[i], sizeof four);
            const int8x16_t av = vreinterpretq_s8_s32(vdupq_n_s32(four));
            acc[i][0] = vdotq_s32(acc[i][0], av, b0);
            acc[i][1] = vdotq_s32(acc[i][1], av, b1);
        }
    }
    for (int64_t i = 0; i < rows; i++) {
        uint32_t sums[DOT_COLS];
        memcpy(sums, acc[i], sizeof sums);
        for (int64_t j = 0; j < cols; j++)
            c[i * ldc + j] = (int32_t)(add ? (uint32_t)c[i * ldc + j] + sums[j] : sums[j]);
    }
}
static const pl_gemm_dot dot = { DOT_ROWS, DOT_COLS, dot_tile };
#define DOT_TABLE &dot
#else
#define DOT_TABLE NULL
#endif

static void widen_i8(const void *x, bool is_signed, int16_t zero, int64_t n, int16_t *y) {
    if (is_signed) {
        const int8_t *s = x;
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(s[i] - zero);
    } else {
        const uint8_t *u = x;
        for (int64_t i = 0; i < n; i++)
            y[i] = (int16_t)(u[i] - zero);
    }
}

const pl_gemm_table PL_SIMD(pl_gemm_table) = {
    .chunk_cols = CHUNK,
    .chunk_rows = CHUNK_ROWS,
    .mr_f32 = MR,
    .nr_f32 = 2 * PL_VF,
    .mr_f64 = MR,
    .nr_f64 = 2 * PL_VD,
    .tile_f32 = f32_tile,
    .tile_f64 = f64_tile,
    .chain_f32 = f32_chain,
    .chain_f64 = f64_chain,
    .pack_a_f32 = f32_pack_a,
    .pack_a_f64 = f64_pack_a,
    .pack_b_f32 = f32_pack_b,
    .pack_b_f64 = f64_pack_b,
    .row_f32 = f32_row,
    .row_f64 = f64_row,
    .dots_f32 = f32_dots,
    .dots_f64 = f64_dots,
    .mr_i16 = MR_I16,
    .nr_i16 = 2 * PL_VF,
    .tile_i16 = i16_tile,
    .dot = DOT_TABLE,
    .widen_i8 = widen_i8,
};
