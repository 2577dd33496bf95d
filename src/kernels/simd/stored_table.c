/* Inner loops of products with stored weights for one instruction set. */
#include "kernels/simd/stored_table.h"

#include "kernels/simd/half.h"
#include "kernels/simd/simd.h"

/* AVX2 or AVX-512. Half floats and f32 times codes are on NEON the plain loops, whose vectors have
 * four lanes, too. */
#define WIDE_X86 (PL_SIMD_FMA && !PL_SIMD_NEON)

enum { PACK_AHEAD = 32 }; /* rows of B that are fetched before they are read */

/* ---- half floats ---- */

static inline float f16_one(pl_u16 h) {
    float y;
    f16_to_f32(&h, (pl_f32 *)&y, 1);
    return y;
}
static inline float bf16_one(pl_u16 h) {
    const uint32_t u = (uint32_t)h << 16;
    float y;
    memcpy(&y, &u, sizeof y);
    return y;
}

#if PL_SIMD_AVX512
static inline pl_vf f16_wide(const pl_u16 *p) {
    return (pl_vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
}
static inline pl_vf bf16_wide(const pl_u16 *p) {
    const __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i_u *)(const void *)p));
    return (pl_vf)_mm512_slli_epi32(w, 16);
}
#elif WIDE_X86
static inline pl_vf f16_wide(const pl_u16 *p) {
    return (pl_vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)(const void *)p));
}
static inline pl_vf bf16_wide(const pl_u16 *p) {
    const __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)p));
    return (pl_vf)_mm256_slli_epi32(w, 16);
}
#else
static inline pl_vf f16_wide(const pl_u16 *p) {
    float y[PL_VF];
    f16_to_f32(p, (pl_f32 *)y, PL_VF);
    return pl_vf_load(y);
}
static inline pl_vf bf16_wide(const pl_u16 *p) {
    float y[PL_VF];
    for (int i = 0; i < PL_VF; i++)
        y[i] = bf16_one(p[i]);
    return pl_vf_load(y);
}
#endif

/* PL_VF doubles. */
static inline void store_wide(pl_f64 *to, pl_vf x) {
    float one[PL_VF];
    pl_vf_store(one, x);
    pl_vd_store(to, pl_vd_load_f32(one));
    pl_vd_store(to + PL_VD, pl_vd_load_f32(one + PL_VD));
}

static void f32_pack_f64(const pl_f32 *b, int64_t ldb, int64_t k, pl_f64 *to) {
    for (int64_t p = 0; p < k; p++, b += ldb, to += 2 * PL_VD) {
        pl_vd_store(to, pl_vd_load_f32(b));
        pl_vd_store(to + PL_VD, pl_vd_load_f32(b + PL_VD));
    }
}

#define H(name) f16_##name
#define WIDE f16_wide
#define WIDE1 f16_one
#include "kernels/simd/stored_half.inc"
#undef H
#undef WIDE
#undef WIDE1
#define H(name) bf16_##name
#define WIDE bf16_wide
#define WIDE1 bf16_one
#include "kernels/simd/stored_half.inc"
#undef H
#undef WIDE
#undef WIDE1

/* ---- codes of 4 bits ---- */

/* A block of 16 fits base and AVX2; with AVX-512 such blocks take the plain way. */
enum { STEP = 2 * PL_VF };

static void order_q4(const pl_f32 *a, int64_t n, pl_f32 *to) {
    for (int64_t at = 0; at < n; at += STEP)
        for (int i = 0; i < PL_VF; i++) {
            to[at + i] = a[at + 2 * i];
            to[at + PL_VF + i] = a[at + 2 * i + 1];
        }
}

/* The values of a step: those of even codes, and those of odd ones. */
typedef struct pair {
    pl_vf even, odd;
} pair;

#if PL_SIMD_AVX512
typedef struct block_of {
    __m512 values; /* of the codes 0 to 15 */
} block_of;
static inline block_of block_start(float zero, float scale) {
    const pl_vf codes = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    return (block_of){ (__m512)((codes - pl_vf_set(zero)) * pl_vf_set(scale)) };
}
static inline pair values_of(const block_of *b, const pl_u8 *codes) {
    const __m512i w = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i_u *)(const void *)codes));
    /* the permutation looks at the low 4 bits of a lane only */
    return (pair){ (pl_vf)_mm512_permutexvar_ps(w, b->values),
                   (pl_vf)_mm512_permutexvar_ps(_mm512_srli_epi32(w, 4), b->values) };
}
#else
typedef struct block_of {
    pl_vf zero, scale;
} block_of;
static inline block_of block_start(float zero, float scale) {
    return (block_of){ pl_vf_set(zero), pl_vf_set(scale) };
}
static inline pair values_of(const block_of *b, const pl_u8 *codes) {
#if WIDE_X86
    const pl_vi w =
        (pl_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i_u *)(const void *)codes));
#else
    const pl_vi w = { codes[0], codes[1], codes[2], codes[3] };
#endif
    const pl_vf even = __builtin_convertvector(w & 15, pl_vf);
    const pl_vf odd = __builtin_convertvector(w >> 4, pl_vf);
    return (pair){ (even - b->zero) * b->scale, (odd - b->zero) * b->scale };
}
#endif

/* Halves are added until one lane is left, in this order on every instruction set of that width. */
static inline float sum_of(pl_vf v) {
#if PL_SIMD_AVX512 || PL_SIMD_AVX2
#if PL_SIMD_AVX512
    const __m256d high = _mm512_extractf64x4_pd((__m512d)v, 1);
    const __m256 eight = _mm512_castps512_ps256((__m512)v) + _mm256_castpd_ps(high);
#else
    const __m256 eight = (__m256)v;
#endif
    const __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    const __m128 two = four + _mm_movehl_ps(four, four);
    return two[0] + two[1];
#else
    float lane[PL_VF];
    pl_vf_store(lane, v);
    for (int half = PL_VF / 2; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
#endif
}

/* Two sets of sums in turn hide the latency. */
static inline __attribute__((always_inline)) void
dots_q4_of(const pl_codes *b, const pl_f32 *a, int64_t lda, const int rows, float *y) {
    pl_vf acc[2 * PL_CODE_ROWS], more[2 * PL_CODE_ROWS];
    PL_UNROLL
    for (int i = 0; i < 2 * rows; i++)
        acc[i] = more[i] = pl_vf_set(0);
    const pl_u8 *codes = b->codes;
    for (int64_t block = 0; block < b->n_blocks; block++) {
        const block_of of = block_start(b->zeros[block], b->scales[block]);
        const pl_u8 *end = codes + b->block / 2;
        for (; codes < end; codes += STEP / 2, a += STEP) {
            const pair v = values_of(&of, codes);
            PL_UNROLL
            for (int i = 0; i < rows; i++) {
                acc[2 * i] = pl_vf_mac(v.even, pl_vf_load(a + i * lda), acc[2 * i]);
                acc[2 * i + 1] = pl_vf_mac(v.odd, pl_vf_load(a + i * lda + PL_VF), acc[2 * i + 1]);
            }
        }
        PL_UNROLL
        for (int i = 0; i < 2 * rows; i++) {
            const pl_vf t = acc[i];
            acc[i] = more[i];
            more[i] = t;
        }
    }
    for (int i = 0; i < rows; i++)
        y[i] = sum_of((acc[2 * i] + acc[2 * i + 1]) + (more[2 * i] + more[2 * i + 1]));
}

static void dots_q4(const pl_codes *b, const pl_f32 *a, int64_t lda, int rows, float *y) {
    switch (rows) {
    case 1: dots_q4_of(b, a, lda, 1, y); break;
    case 2: dots_q4_of(b, a, lda, 2, y); break;
    case 3: dots_q4_of(b, a, lda, 3, y); break;
    default: dots_q4_of(b, a, lda, PL_CODE_ROWS, y); break;
    }
}

static void unpack_q4(const pl_codes *b, pl_f32 *to) {
    const pl_u8 *codes = b->codes;
    for (int64_t block = 0; block < b->n_blocks; block++) {
        const block_of of = block_start(b->zeros[block], b->scales[block]);
        for (int64_t at = 0; at < b->block; at += STEP, codes += STEP / 2, to += STEP) {
            const pair v = values_of(&of, codes);
#if PL_SIMD_AVX512
            const __m512i first =
                _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            const __m512i last = _mm512_add_epi32(first, _mm512_set1_epi32(8));
            pl_vf_store(to, (pl_vf)_mm512_permutex2var_ps((__m512)v.even, first, (__m512)v.odd));
            pl_vf_store(to + PL_VF,
                        (pl_vf)_mm512_permutex2var_ps((__m512)v.even, last, (__m512)v.odd));
#else
            for (int i = 0; i < PL_VF; i++) {
                to[2 * i] = v.even[i];
                to[2 * i + 1] = v.odd[i];
            }
#endif
        }
    }
}

/* ---- codes of 4 bits into panels ---- */

#if WIDE_X86
/* Word q of a part of PL_VF columns, eight codes each: column i in lane i. */
static inline void part_words(const pl_u8 *codes, int64_t stride, pl_vi *w) {
#if PL_SIMD_AVX512
    __m512i r[4];
    PL_UNROLL
    for (int i = 0; i < 4; i++) {
        const pl_u8 *at = codes + i * stride;
        r[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i_u *)(const void *)at));
        r[i] = _mm512_inserti32x4(
            r[i], _mm_loadu_si128((const __m128i_u *)(const void *)(at + 4 * stride)), 1);
        r[i] = _mm512_inserti32x4(
            r[i], _mm_loadu_si128((const __m128i_u *)(const void *)(at + 8 * stride)), 2);
        r[i] = _mm512_inserti32x4(
            r[i], _mm_loadu_si128((const __m128i_u *)(const void *)(at + 12 * stride)), 3);
    }
    const __m512i a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpacklo_epi32(r[2], r[3]);
    const __m512i c = _mm512_unpackhi_epi32(r[0], r[1]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    w[0] = (pl_vi)_mm512_unpacklo_epi64(a, b);
    w[1] = (pl_vi)_mm512_unpackhi_epi64(a, b);
    w[2] = (pl_vi)_mm512_unpacklo_epi64(c, d);
    w[3] = (pl_vi)_mm512_unpackhi_epi64(c, d);
#else
    __m256i r[4];
    PL_UNROLL
    for (int i = 0; i < 4; i++) {
        const pl_u8 *at = codes + i * stride;
        r[i] = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i_u *)(const void *)at));
        r[i] = _mm256_inserti128_si256(
            r[i], _mm_loadu_si128((const __m128i_u *)(const void *)(at + 4 * stride)), 1);
    }
    const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpacklo_epi32(r[2], r[3]);
    const __m256i c = _mm256_unpackhi_epi32(r[0], r[1]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    w[0] = (pl_vi)_mm256_unpacklo_epi64(a, b);
    w[1] = (pl_vi)_mm256_unpackhi_epi64(a, b);
    w[2] = (pl_vi)_mm256_unpacklo_epi64(c, d);
    w[3] = (pl_vi)_mm256_unpackhi_epi64(c, d);
#endif
}

/* Code i of each word. */
static inline pl_vf codes_of(pl_vi w, const int i) {
#if PL_SIMD_AVX512
    const pl_vf codes = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    /* the permutation looks at the low 4 bits of a lane only */
    return (pl_vf)_mm512_permutexvar_ps(_mm512_srli_epi32((__m512i)w, 4 * (unsigned)i),
                                        (__m512)codes);
#else
    return __builtin_convertvector((w >> 4 * i) & 15, pl_vf);
#endif
}

static void pack_q4(const pl_u8 *codes, int64_t stride, const float *scales, const float *zeros,
                    int64_t n_parts, pl_f32 *to) {
    enum { NR = 2 * PL_VF };
    for (int half = 0; half < 2; half++) {
        const pl_vf scale = pl_vf_load((const pl_f32 *)scales + half * PL_VF);
        const pl_vf zero = pl_vf_load((const pl_f32 *)zeros + half * PL_VF);
        const pl_u8 *from = codes + half * PL_VF * stride;
        pl_f32 *y = to + half * PL_VF;
        for (int64_t part = 0; part < n_parts; part++, from += PL_CODE_PART / 2) {
            pl_vi w[4];
            part_words(from, stride, w);
            PL_UNROLL
            for (int i = 0; i < PL_CODE_PART; i++, y += NR)
                pl_vf_store(y, (codes_of(w[i / 8], i % 8) - zero) * scale);
        }
    }
}
#endif

/* ---- A in 8 bits ---- */

#if PL_SIMD_FMA
enum { STEP_I8 = 2 * PL_VB, STEP_PARTS = STEP_I8 / PL_CODE_PART };

/* A number for each part, in the four lanes of the part. */
static inline pl_vf spread(const float *parts) {
#if PL_SIMD_AVX512
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return (pl_vf)_mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(_mm_loadu_ps(parts)));
#elif PL_SIMD_NEON
    return pl_vf_set(*parts);
#else
    const __m256i lanes = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m128 two = _mm_castpd_ps(_mm_load_sd((const double *)(const void *)parts));
    return (pl_vf)_mm256_permutevar8x32_ps(_mm256_castps128_ps256(two), lanes);
#endif
}

typedef struct bytes_pair {
    pl_vi even, odd;
} bytes_pair;

static inline bytes_pair bytes_of(const pl_u8 *codes) {
    pl_vi w;
    memcpy(&w, codes, sizeof w);
    return (bytes_pair){ w & 0x0f0f0f0f, (w >> 4) & 0x0f0f0f0f };
}

#if PL_SIMD_NEON
/* Products of 16 codes and 16 elements, two of them added to each of 8 sums. */
static inline int16x8_t pairs_of(pl_vi codes, pl_vi a) {
    const int8x16_t x = (int8x16_t)codes, y = (int8x16_t)a;
    return vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)), vmull_high_s8(x, y));
}
#endif

/* Sums of 8 products in each lane. Codes are at most 15: four products fit 16 bits. */
static inline pl_vi octets(bytes_pair codes, pl_vi even, pl_vi odd) {
#if PL_SIMD_AVX512
    const __m512i one = _mm512_maddubs_epi16((__m512i)codes.even, (__m512i)even);
    const __m512i two = _mm512_maddubs_epi16((__m512i)codes.odd, (__m512i)odd);
    return (pl_vi)_mm512_madd_epi16(_mm512_add_epi16(one, two), _mm512_set1_epi16(1));
#elif PL_SIMD_NEON
    const int16x8_t pairs = vaddq_s16(pairs_of(codes.even, even), pairs_of(codes.odd, odd));
    return (pl_vi)vpaddlq_s16(pairs);
#else
    const __m256i one = _mm256_maddubs_epi16((__m256i)codes.even, (__m256i)even);
    const __m256i two = _mm256_maddubs_epi16((__m256i)codes.odd, (__m256i)odd);
    return (pl_vi)_mm256_madd_epi16(_mm256_add_epi16(one, two), _mm256_set1_epi16(1));
#endif
}

static inline pl_vi quads(pl_vi sums, pl_vi codes, pl_vi a) {
#if PL_SIMD_AVX512
    const __m512i pairs = _mm512_maddubs_epi16((__m512i)codes, (__m512i)a);
    return sums + (pl_vi)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#elif PL_SIMD_NEON
    return (pl_vi)vpadalq_s16((int32x4_t)sums, pairs_of(codes, a));
#else
    const __m256i pairs = _mm256_maddubs_epi16((__m256i)codes, (__m256i)a);
    return sums + (pl_vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
}

/* Codes of one column into their places in a panel that starts at `to`. */
static void pack_i8(const pl_u8 *codes, int64_t n_parts, pl_u8 *to) {
    for (int64_t i = 0; i < n_parts * PL_CODE_PART; i += 4, codes += 2, to += PL_VB) {
        const uint32_t x = codes[0], y = codes[1];
        const uint32_t four = (x & 15) | (x >> 4) << 8 | (y & 15) << 16 | (y >> 4) << 24;
        memcpy(to, &four, sizeof four);
    }
}

#define NAME(name) name
#define TARGET
#define OCTETS octets
#define QUADS quads
#include "kernels/simd/stored_i8.inc"
#undef NAME
#undef TARGET
#undef OCTETS
#undef QUADS

#if PL_SIMD_AVX512
#define VNNI __attribute__((target("avx512vnni")))
static inline VNNI pl_vi octets_vnni(bytes_pair codes, pl_vi even, pl_vi odd) {
    const __m512i sums =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), (__m512i)codes.even, (__m512i)even);
    return (pl_vi)_mm512_dpbusd_epi32(sums, (__m512i)codes.odd, (__m512i)odd);
}
static inline VNNI pl_vi quads_vnni(pl_vi sums, pl_vi codes, pl_vi a) {
    return (pl_vi)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)codes, (__m512i)a);
}
#define NAME(name) name##_vnni
#define TARGET VNNI
#define OCTETS octets_vnni
#define QUADS quads_vnni
#include "kernels/simd/stored_i8.inc"
#undef NAME
#undef TARGET
#undef OCTETS
#undef QUADS
#endif
#endif

const pl_stored_table PL_SIMD(pl_stored_table) = {
    .row_f16 = f16_row,
    .dots_f16 = f16_dots,
    .row_bf16 = bf16_row,
    .dots_bf16 = bf16_dots,
    .pack_f16 = f16_pack,
    .pack_bf16 = bf16_pack,
    .pack_f16_f64 = f16_pack_f64,
    .pack_bf16_f64 = bf16_pack_f64,
    .pack_f32_f64 = f32_pack_f64,
    .step = STEP,
    .order_q4 = order_q4,
    .dots_q4 = dots_q4,
    .unpack_q4 = unpack_q4,
#if WIDE_X86
    .pack_q4 = pack_q4,
#endif
#if PL_SIMD_FMA
    .step_i8 = STEP_I8,
    .dots_i8 = dots_i8,
    .cols_i8 = PL_VF,
    .pack_i8 = pack_i8,
    .tile_i8 = tile_i8,
#endif
#if PL_SIMD_AVX512
    .dots_i8_vnni = dots_i8_vnni,
    .tile_i8_vnni = tile_i8_vnni,
#endif
};
