/* Products of 4-bit codes with rows of A in 8 bits, summed in integers: with few rows of A column
 * by column, with more by panels of columns that are unpacked once for all rows. */
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_int.h"
#include "kernels/gemm/gemm_stored.h"
#include "kernels/simd/stored_table.h"

enum { PARTS = 32, DOTS_PARTS = 128, CODE_COLS = 16, COLS_MAX = 16 };

typedef void (*product)(const pl_codes *b, const pl_codes_a *a, int rows, float *y);

typedef struct job {
    const pl_stored *b;
    int64_t m, n, k, all; /* all: parts of k */
    const pl_f32 *a;
    pl_f32 *c;
    const pl_stored_table *table;
    product dots, tile;
    /* A in 8 bits; alternate: in the order of dots_i8 */
    bool alternate;
    int8_t *codes;
    float *scales, *sums;
    int64_t ld_codes, ld_scales, ld_sums;
    atomic_bool finite;
} job;

/* ---- A ---- */

static void place(const job *j, const float *codes, int64_t at, int8_t *to, float *sums) {
    const int64_t step = j->table->step_i8;
    if (!j->alternate) {
        float sum = 0;
        for (int i = 0; i < PL_CODE_PART; i++) {
            to[at + i] = (int8_t)codes[i];
            sum += codes[i];
        }
        sums[at / PL_CODE_PART] = sum;
        return;
    }
    to += at / step * step + at % step / 2;
    for (int i = 0; i < PL_CODE_PART; i += 2) {
        to[i / 2] = (int8_t)codes[i];
        to[i / 2 + step / 2] = (int8_t)codes[i + 1];
        sums[(at + i) / 8] += codes[i] + codes[i + 1];
    }
}

/* The largest magnitude, by its bits, which gcc makes vectors of; NaN when there is one. */
static float largest(const pl_f32 *a, int64_t n) {
    int32_t most = 0;
    float x;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, a + i, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&x, &most, sizeof x);
    return x;
}

/* False if a block is not finite, or so small that its scale has no inverse. */
static bool round_row(const job *j, int64_t row) {
    const pl_f32 *a = j->a + row * j->k;
    float *scales = j->scales + row * j->ld_scales;
    for (int64_t at = 0; at < j->k; at += j->b->block) {
        const float most = largest(a + at, j->b->block);
        const float inverse = most == 0 ? 0 : 127 / most;
        if (!isfinite(most) || !isfinite(inverse)) return false;
        for (int64_t i = at; i < at + j->b->block; i += PL_CODE_PART) {
            float codes[PL_CODE_PART];
            for (int q = 0; q < PL_CODE_PART; q++)
                codes[q] = rintf(a[i + q] * inverse);
            scales[i / PL_CODE_PART] = most / 127;
            place(j, codes, i, j->codes + row * j->ld_codes, j->sums + row * j->ld_sums);
        }
    }
    return true;
}

static void round_range(void *ctx, int64_t begin, int64_t end) {
    job *j = ctx;
    for (int64_t row = begin; row < end; row++)
        if (!round_row(j, row)) atomic_store(&j->finite, false);
}

/* Rows from `row` on, parts from `part` on. */
static pl_codes_a rows_of(const job *j, int64_t row, int64_t part) {
    const int64_t each = j->alternate ? PL_CODE_PART / 8 : 1;
    return (pl_codes_a){ .codes = j->codes + row * j->ld_codes + part * PL_CODE_PART,
                         .scales = j->scales + row * j->ld_scales + part,
                         .sums = j->sums + row * j->ld_sums + part * each,
                         .ld_codes = j->ld_codes,
                         .ld_scales = j->ld_scales,
                         .ld_sums = j->ld_sums };
}

/* ---- B ---- */

/* Of parts first … first + n of a column; number i goes to i * stride. */
static void numbers(const pl_stored *s, int64_t col, int64_t first, int64_t n, float *scales,
                    float *zeros, int64_t stride) {
    const int64_t each = s->block / PL_CODE_PART, block = first / each;
    float scale[DOTS_PARTS + 1], zero[DOTS_PARTS + 1];
    if (each == 1 && stride == 1) {
        pl_stored_numbers(s, col, first, n, scales, zeros);
        return;
    }
    pl_stored_numbers(s, col, block, (first + n - 1) / each - block + 1, scale, zero);
    for (int64_t i = 0, at = 0, rest = first % each; i < n; i++) {
        scales[i * stride] = scale[at];
        zeros[i * stride] = zero[at];
        if (++rest == each) {
            rest = 0;
            at++;
        }
    }
}

static const pl_u8 *codes_at(const pl_stored *s, int64_t col, int64_t part) {
    return (const pl_u8 *)s->b + (col * s->n_blocks * s->block + part * PL_CODE_PART) / 2;
}

static void add_to(pl_f32 *c, const float *y, int64_t n, bool first) {
    for (int64_t i = 0; i < n; i++)
        c[i] = first ? y[i] : c[i] + y[i];
}

/* Scales that the file has as they are needed: a float for each part, whole steps, zeros of 8. */
static bool reads_scales(const job *j) {
    const pl_stored *b = j->b;
    return b->scale_dtype == PL_F32 && b->zeros == NULL && b->block == PL_CODE_PART &&
           j->all * PL_CODE_PART % PL_CODE_STEP_MAX == 0 &&
           (uintptr_t)b->scales % sizeof(float) == 0;
}

static void dots_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const bool direct = reads_scales(j);
    float scales[DOTS_PARTS + 4], zeros[DOTS_PARTS + 4], y[PL_CODE_ROWS];
    for (int64_t i = 0; direct && i < DOTS_PARTS + 4; i++)
        zeros[i] = 8;
    for (int64_t col = begin; col < end; col++) {
        for (int64_t at = 0; at < j->all; at += DOTS_PARTS) {
            const int64_t n = pl_i64_min(DOTS_PARTS, j->all - at);
            const float *scale = scales;
            if (direct) {
                scale = (const float *)j->b->scales + col * j->all + at;
            } else {
                numbers(j->b, col, at, n, scales, zeros, 1);
                for (int64_t i = n; i < n + 4; i++)
                    scales[i] = zeros[i] = 0;
            }
            const pl_codes b = { codes_at(j->b, col, at), scale, zeros, PL_CODE_PART, n };
            const pl_codes_a a = rows_of(j, 0, at);
            j->dots(&b, &a, (int)j->m, y);
            for (int64_t row = 0; row < j->m; row++)
                add_to(j->c + row * j->n + col, y + row, 1, at == 0);
        }
    }
}

/* A panel of columns, some parts of k: unpacked, then all rows pass. */
static void panel_run(const job *j, int64_t col, int64_t n_cols, int64_t at, int64_t n) {
    const int64_t cols = j->table->cols_i8;
    float scales[PARTS * COLS_MAX], zeros[PARTS * COLS_MAX], y[PL_CODE_ROWS * COLS_MAX];
    pl_u8 codes[PARTS * PL_CODE_PART * COLS_MAX] __attribute__((aligned(64)));
    for (int64_t i = 0; i < cols; i++) { /* columns beyond the end: the last again */
        const int64_t from = col + pl_i64_min(i, n_cols - 1);
        j->table->pack_i8(codes_at(j->b, from, at), n, codes + 4 * i);
        numbers(j->b, from, at, n, scales + i, zeros + i, cols);
    }
    const pl_codes b = { codes, scales, zeros, PL_CODE_PART, n };
    for (int64_t row = 0; row < j->m; row += PL_CODE_ROWS) {
        const int rows = (int)pl_i64_min(PL_CODE_ROWS, j->m - row);
        const pl_codes_a a = rows_of(j, row, at);
        j->tile(&b, &a, rows, y);
        for (int i = 0; i < rows; i++)
            add_to(j->c + (row + i) * j->n + col, y + i * cols, n_cols, at == 0);
    }
}

static void panel_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const int64_t cols = j->table->cols_i8;
    for (int64_t p = begin; p < end; p++)
        for (int64_t at = 0; at < j->all; at += PARTS)
            panel_run(j, p * cols, pl_i64_min(cols, j->n - p * cols), at,
                      pl_i64_min(PARTS, j->all - at));
}

/* ---- the product ---- */

static pl_status run(pl_pool *pool, job *j, pl_err *err) {
    const int64_t whole = (j->k + PL_CODE_STEP_MAX - 1) / PL_CODE_STEP_MAX * PL_CODE_STEP_MAX;
    j->ld_codes = whole;
    j->ld_scales = whole / PL_CODE_PART;
    j->ld_sums = j->alternate ? whole / 8 : j->ld_scales;
    j->codes = pl_calloc((size_t)j->m, (size_t)whole);
    j->scales = pl_calloc((size_t)(j->m * j->ld_scales), sizeof(float));
    j->sums = pl_calloc((size_t)(j->m * j->ld_sums), sizeof(float));
    if (j->codes == NULL || j->scales == NULL || j->sums == NULL)
        return pl_fail_memory(err, (size_t)(j->m * whole));
    pl_pool_for(pool, j->m, 4, round_range, j);
    if (!atomic_load(&j->finite)) return PL_OK;
    if (j->alternate)
        pl_pool_for(pool, j->n, CODE_COLS, dots_range, j);
    else
        pl_pool_for(pool, pl_div_up(j->n, j->table->cols_i8), 1, panel_range, j);
    return PL_OK;
}

pl_status pl_gemm_stored_i8(pl_pool *pool, int64_t m, int64_t n, int64_t k, const pl_f32 *a,
                            const pl_stored *b, pl_f32 *c, bool *done, pl_err *err) {
    const pl_stored_table *t = PL_TABLE_OF(pl_cpu_isa(), pl_stored_table);
    const bool vnni = t->dots_i8_vnni != NULL && (pl_cpu_features() >> PL_CPU_VNNI & 1) != 0;
    job j = { .b = b, .m = m, .n = n, .k = k, .all = k / PL_CODE_PART, .a = a, .c = c, .table = t };
    j.dots = vnni ? t->dots_i8_vnni : t->dots_i8;
    j.tile = vnni ? t->tile_i8_vnni : t->tile_i8;
    j.alternate = m <= PL_CODE_ROWS;
    atomic_init(&j.finite, true);
    *done = false;
    if (j.dots == NULL || b->block % PL_CODE_PART != 0 || m < 1 || k < 1) return PL_OK;
    if ((double)m * (double)n * (double)k < 1e5) pool = NULL; /* too small to wake threads */
    const pl_status st = run(pool, &j, err);
    *done = st == PL_OK && atomic_load(&j.finite);
    pl_free(j.codes);
    pl_free(j.scales);
    pl_free(j.sums);
    return st;
}
