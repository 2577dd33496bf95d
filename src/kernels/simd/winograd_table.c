/* The transforms of Winograd's F(2x2, 3x3): additions along rows of tiles, vectorised by the
 * compiler. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", section 4.1. */
#include "kernels/simd/winograd_table.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/simd/block.h"
#include "kernels/simd/simd.h"

/* Horizontal pass: even columns e and odd columns o of four transformed rows. */
static void input_across(const float *e, const float *o, int64_t n, float *restrict z0,
                         float *restrict z1, float *restrict z2, float *restrict z3) {
    for (int64_t x = 0; x < n; x++) {
        z0[x] = e[x] - e[x + 1];
        z1[x] = o[x] + e[x + 1];
        z2[x] = e[x + 1] - o[x];
        z3[x] = o[x] - o[x + 1];
    }
}

enum { ROW_MAX = 512 };

static void input(const float *const rows[4], int64_t pitch, int64_t n, float *const out[16]) {
    float down[4][2 * ROW_MAX];
#ifdef __clang_analyzer__ /* the analyzer does not know that n < pitch */
    memset(down, 0, sizeof(down));
#endif
    for (int64_t i = 0; i < 2 * pitch; i++) {
        const float a = rows[0][i], b = rows[1][i], c = rows[2][i], d = rows[3][i];
        down[0][i] = a - c;
        down[1][i] = b + c;
        down[2][i] = c - b;
        down[3][i] = b - d;
    }
    for (int r = 0; r < 4; r++)
        input_across(down[r], down[r] + pitch, n, out[4 * r], out[4 * r + 1], out[4 * r + 2],
                     out[4 * r + 3]);
}

static void output(const float *const m[16], int64_t n, float bias, float *row0, float *row1) {
    float top[4][ROW_MAX], low[4][ROW_MAX];
    for (int j = 0; j < 4; j++) {
        const float *a = m[j], *b = m[4 + j], *c = m[8 + j], *d = m[12 + j];
        for (int64_t x = 0; x < n; x++) {
            top[j][x] = a[x] + b[x] + c[x];
            low[j][x] = b[x] - c[x] - d[x];
        }
    }
    for (int64_t x = 0; x < n; x++) {
        row0[2 * x] = top[0][x] + top[1][x] + top[2][x] + bias;
        row0[2 * x + 1] = top[1][x] - top[2][x] - top[3][x] + bias;
        row1[2 * x] = low[0][x] + low[1][x] + low[2][x] + bias;
        row1[2 * x + 1] = low[1][x] - low[2][x] - low[3][x] + bias;
    }
}

#if PL_SIMD_AVX512
#define SHUFFLE __builtin_shufflevector

/* Lanes l with 0 <= at + l < n. */
static inline __mmask16 lanes_inside(int64_t at, int64_t n) {
    const uint32_t low = at >= 0 ? 0xffffu : at <= -16 ? 0 : 0xffffu << -at;
    const uint32_t high = n - at >= 16 ? 0xffffu : n - at <= 0 ? 0 : 0xffffu >> (16 - (n - at));
    return (__mmask16)(low & high);
}

static const float zeros[1];

/* Columns 0, 1, 2 and 3 of each of 16 tiles in a row. */
static inline __attribute__((always_inline)) void input_row(const pl_f32 *row, const __mmask16 m[3],
                                                            pl_vf to[4]) {
    const pl_vf a = (pl_vf)_mm512_maskz_loadu_ps(m[0], row);
    const pl_vf b = (pl_vf)_mm512_maskz_loadu_ps(m[1], row + 16);
    const pl_vf c = (pl_vf)_mm512_maskz_loadu_ps(m[2], row + 32);
    to[0] = SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    to[1] = SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    to[2] = SHUFFLE(to[0], c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    to[3] = SHUFFLE(to[1], c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17);
}

/* Vertical pass, then horizontal: the same order as `input`. */
static inline __attribute__((always_inline)) void input_tiles(pl_vf x[4][4], pl_vf z[16]) {
    pl_vf d[4][4];
    PL_UNROLL
    for (int i = 0; i < 4; i++) {
        d[0][i] = x[0][i] - x[2][i];
        d[1][i] = x[1][i] + x[2][i];
        d[2][i] = x[2][i] - x[1][i];
        d[3][i] = x[1][i] - x[3][i];
    }
    PL_UNROLL
    for (int r = 0; r < 4; r++) {
        z[4 * r] = d[r][0] - d[r][2];
        z[4 * r + 1] = d[r][1] + d[r][2];
        z[4 * r + 2] = d[r][2] - d[r][1];
        z[4 * r + 3] = d[r][1] - d[r][3];
    }
}

/* Stores lanes 0 … n at tile t of a row of the panels; they may continue in the next panel. */
static inline __attribute__((always_inline)) void store_tiles(const pl_winograd_rows *g,
                                                              const pl_vf z[16], int64_t t,
                                                              int64_t n, int64_t k, float *v) {
    const int64_t panel = t / g->nr, at = t % g->nr, first = n < g->nr - at ? n : g->nr - at;
    float *to = v + (panel * g->depth + k) * g->nr + at;
    if (first == 16) {
        PL_UNROLL
        for (int i = 0; i < 16; i++)
            pl_vf_store(to + i * g->size_v, z[i]);
        return;
    }
    const __mmask16 m = (__mmask16)((1u << first) - 1u);
    PL_UNROLL
    for (int i = 0; i < 16; i++)
        _mm512_mask_storeu_ps(to + i * g->size_v, m, (__m512)z[i]);
    if (first == n) return;
    const __mmask16 rest = (__mmask16)(((1u << n) - 1u) & ~(uint32_t)m);
    to = v + ((panel + 1) * g->depth + k) * g->nr - first;
    PL_UNROLL
    for (int i = 0; i < 16; i++)
        _mm512_mask_storeu_ps(to + i * g->size_v, rest, (__m512)z[i]);
}

static void input_rows(const pl_winograd_rows *g, const pl_f32 *plane, int64_t k, float *v) {
    for (int64_t ty = 0; ty < g->rows; ty++) {
        for (int64_t x = 0; x < g->tiles_x; x += 16) {
            const int64_t col = 2 * x - g->pad_x, row = 2 * (g->row0 + ty) - g->pad_y;
            pl_vf in[4][4], z[16];
            PL_UNROLL
            for (int r = 0; r < 4; r++) {
                const bool inside = row + r >= 0 && row + r < g->in_h;
                const int64_t width = inside ? g->in_w : 0;
                const __mmask16 m[3] = { lanes_inside(col, width), lanes_inside(col + 16, width),
                                         lanes_inside(col + 32, width) };
                input_row(inside ? plane + (row + r) * g->in_w + col : zeros, m, in[r]);
            }
            input_tiles(in, z);
            store_tiles(g, z, ty * g->tiles_x + x, g->tiles_x - x < 16 ? g->tiles_x - x : 16, k, v);
        }
    }
}

static inline void store_pair(pl_f32 *to, pl_vf even, pl_vf odd, int64_t n) {
    const pl_vf a = SHUFFLE(even, odd, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const pl_vf b =
        SHUFFLE(even, odd, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    _mm512_mask_storeu_ps(to, lanes_inside(0, n), (__m512)a);
    _mm512_mask_storeu_ps(to + 16, lanes_inside(16, n), (__m512)b);
}

/* The same order as `output`. */
static void output_rows(const pl_winograd_rows *g, const float *m, float bias, pl_f32 *plane) {
    for (int64_t ty = 0; ty < g->rows; ty++) {
        for (int64_t x = 0; x < g->tiles_x; x += 16) {
            const int64_t row = 2 * (g->row0 + ty), left = g->out_w - 2 * x;
            const float *from = m + ty * g->tiles_x + x;
            const __mmask16 here = lanes_inside(0, g->tiles_x - x);
            pl_vf top[4], low[4];
            PL_UNROLL
            for (int j = 0; j < 4; j++) {
                pl_vf v[4];
                PL_UNROLL
                for (int r = 0; r < 4; r++)
                    v[r] = (pl_vf)_mm512_maskz_loadu_ps(here, from + (4 * r + j) * g->size_m);
                top[j] = v[0] + v[1] + v[2];
                low[j] = v[1] - v[2] - v[3];
            }
            pl_f32 *to = plane + row * g->out_w + 2 * x;
            store_pair(to, top[0] + top[1] + top[2] + bias, top[1] - top[2] - top[3] + bias, left);
            if (row + 1 == g->out_h) continue;
            store_pair(to + g->out_w, low[0] + low[1] + low[2] + bias,
                       low[1] - low[2] - low[3] + bias, left);
        }
    }
}
#elif PL_SIMD_AVX2
/* Eight tiles at a time, in the same order as `input` and `output`. If a row has more, its last
 * group ends at the row's end, so some tiles are computed twice. */
enum { STAGE_MAX = 4096 };

/* Splits 16 columns into 8 even and 8 odd ones. */
static inline void split(const float *p, pl_vf *even, pl_vf *odd) {
    const __m256 a =
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 8), 1);
    const __m256 b =
        _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 4)), _mm_loadu_ps(p + 12), 1);
    *even = (pl_vf)_mm256_shuffle_ps(a, b, 0x88);
    *odd = (pl_vf)_mm256_shuffle_ps(a, b, 0xdd);
}

static inline __attribute__((always_inline)) void input_tiles(const float *p, int64_t pitch,
                                                              pl_vf z[16]) {
    pl_vf x[4][4], d[4][4];
    PL_UNROLL
    for (int r = 0; r < 4; r++) {
        split(p + r * pitch, &x[r][0], &x[r][1]);
        split(p + r * pitch + 2, &x[r][2], &x[r][3]);
    }
    PL_UNROLL
    for (int i = 0; i < 4; i++) {
        d[0][i] = x[0][i] - x[2][i];
        d[1][i] = x[1][i] + x[2][i];
        d[2][i] = x[2][i] - x[1][i];
        d[3][i] = x[1][i] - x[3][i];
    }
    PL_UNROLL
    for (int r = 0; r < 4; r++) {
        z[4 * r] = d[r][0] - d[r][2];
        z[4 * r + 1] = d[r][1] + d[r][2];
        z[4 * r + 2] = d[r][2] - d[r][1];
        z[4 * r + 3] = d[r][1] - d[r][3];
    }
}

/* Stores at tile t of row k of the panels. Lanes beyond the end of a row are overwritten by the
 * next row or never read; lanes beyond a panel go to the start of the next one. */
static inline __attribute__((always_inline)) void
store_tiles(const pl_winograd_rows *g, const pl_vf z[16], int64_t t, int64_t k, float *v) {
    const int64_t at = t % g->nr, first = g->nr - at;
    float *to = v + (t / g->nr * g->depth + k) * g->nr + at;
    if (first >= PL_VF) {
        PL_UNROLL
        for (int i = 0; i < 16; i++)
            pl_vf_store(to + i * g->size_v, z[i]);
        return;
    }
    const pl_vi lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
    const pl_vi turn = lane + (int32_t)first, here = lane >= (int32_t)(PL_VF - first);
    const bool ends = t + first >= g->rows * g->tiles_x; /* this is the last panel */
    float *next = to - at + g->depth * g->nr;
    to += first - PL_VF;
    PL_UNROLL
    for (int i = 0; i < 16; i++) {
        const __m256 r = _mm256_permutevar8x32_ps((__m256)z[i], (__m256i)turn);
        const __m256 old = (__m256)pl_vf_load(to + i * g->size_v);
        pl_vf_store(to + i * g->size_v, (pl_vf)_mm256_blendv_ps(old, r, (__m256)here));
        if (!ends) pl_vf_store(next + i * g->size_v, (pl_vf)r);
    }
}

/* Copies the rows that the tiles read, with padding; zeros after the last. */
static void stage_rows(const pl_winograd_rows *g, const pl_f32 *plane, int64_t pitch, float *to) {
    const int64_t n_rows = 2 * g->rows + 2;
    const int64_t top = 2 * g->row0 - g->pad_y, width = pitch - g->pad_x;
    const int64_t n = g->in_w < width ? g->in_w : width;
    for (int64_t r = 0; r < n_rows; r++, to += pitch) {
        const pl_f32 *from = plane + (top + r) * g->in_w;
        float *at = to + g->pad_x;
        const bool inside = top + r >= 0 && top + r < g->in_h;
        if (!inside) {
            memset(to, 0, (size_t)pitch * sizeof(float));
            continue;
        }
        to[0] = 0; /* pad_x is 0 or 1 */
        int64_t i = 0;
        for (; i + PL_VF <= n; i += PL_VF)
            pl_vf_store(at + i, pl_vf_load(from + i));
        if (i < n && n >= PL_VF) pl_vf_store(at + n - PL_VF, pl_vf_load(from + n - PL_VF));
        for (; i < n && n < PL_VF; i++)
            at[i] = from[i];
        for (i = n; i < width; i++)
            at[i] = 0;
    }
    memset(to, 0, 2 * PL_VF * sizeof(float));
}

static void input_rows(const pl_winograd_rows *g, const pl_f32 *plane, int64_t k, float *v) {
    float stage[STAGE_MAX];
    const int64_t pitch = 2 * g->tiles_x + 2;
    stage_rows(g, plane, pitch, stage);
    for (int64_t ty = 0; ty < g->rows; ty++)
        for (int64_t i = 0; i < g->tiles_x; i += PL_VF) {
            const int64_t last = g->tiles_x - PL_VF, x = i > last && last > 0 ? last : i;
            pl_vf z[16];
            input_tiles(stage + 2 * ty * pitch + 2 * x, pitch, z);
            store_tiles(g, z, ty * g->tiles_x + x, k, v);
        }
}

static inline void store_pair(pl_f32 *to, pl_vf even, pl_vf odd, int64_t n) {
    const __m256 low = _mm256_unpacklo_ps((__m256)even, (__m256)odd);
    const __m256 high = _mm256_unpackhi_ps((__m256)even, (__m256)odd);
    const pl_vf a = (pl_vf)_mm256_permute2f128_ps(low, high, 0x20);
    const pl_vf b = (pl_vf)_mm256_permute2f128_ps(low, high, 0x31);
    f32_store_n(to, a, n < PL_VF ? n : PL_VF);
    if (n > PL_VF) f32_store_n(to + PL_VF, b, n < 2 * PL_VF ? n - PL_VF : PL_VF);
}

static void output_rows(const pl_winograd_rows *g, const float *m, float bias, pl_f32 *plane) {
    for (int64_t ty = 0; ty < g->rows; ty++)
        for (int64_t i = 0; i < g->tiles_x; i += PL_VF) {
            const int64_t last = g->tiles_x - PL_VF, x = i > last && last > 0 ? last : i;
            const int64_t row = 2 * (g->row0 + ty), left = g->out_w - 2 * x;
            const float *from = m + ty * g->tiles_x + x;
            pl_vf top[4], low[4];
            PL_UNROLL
            for (int j = 0; j < 4; j++) {
                pl_vf v[4];
                PL_UNROLL
                for (int r = 0; r < 4; r++)
                    v[r] = pl_vf_load(from + (4 * r + j) * g->size_m);
                top[j] = v[0] + v[1] + v[2];
                low[j] = v[1] - v[2] - v[3];
            }
            pl_f32 *to = plane + row * g->out_w + 2 * x;
            store_pair(to, top[0] + top[1] + top[2] + bias, top[1] - top[2] - top[3] + bias, left);
            if (row + 1 == g->out_h) continue;
            store_pair(to + g->out_w, low[0] + low[1] + low[2] + bias,
                       low[1] - low[2] - low[3] + bias, left);
        }
}
#else
#define input_rows NULL
#define output_rows NULL
#endif

static bool is_finite(const pl_f32 *x, int64_t n) {
    uint32_t most = 0; /* exponent and fraction as integers, which order like the numbers */
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = ((const pl_u32 *)(const void *)x)[i] & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return most < 0x7f800000u;
}

const pl_winograd_table PL_SIMD(pl_winograd_table) = { input, output, input_rows, output_rows,
                                                       is_finite };
