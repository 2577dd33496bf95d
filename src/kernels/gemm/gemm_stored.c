/* Products with stored weights: with one row of A (codes: few) they are multiplied as they are
 * read, with more rows the blocked product asks for its panels one by one. */
#include "kernels/gemm/gemm_stored.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_int.h"
#include "kernels/provider.h"
#include "kernels/simd/stored_table.h"
#include "kernels/vmath.h"

enum { BLOCKS = 64, VECTOR_COLS = 512, CODE_COLS = 16 };
/* A panel is filled FILL_K rows at a time; codes are unpacked in parts of a block. */
enum { FILL_K = 128, PART = 32, PARTS_MAX = FILL_K / 8 + 2, FILL_ROOM = FILL_K + 2 * PART };
/* Blocks that rows of a block of k may touch. */
enum { BLOCKS_MAX = PL_GEMM_KC / PL_CODE_PART + 2 };

static const pl_stored_table *table_get(void) {
    return PL_TABLE_OF(pl_cpu_isa(), pl_stored_table);
}

bool pl_gemm_is_own(const pl_provider *by) {
    return pl_provider_of(by, &by, NULL) == PL_OK && by->gemm_f32 == NULL;
}

bool pl_stored_takes(int64_t bits, int64_t block, int64_t k) {
    return bits == 4 && block <= 1024 && block % table_get()->step == 0 && k % block == 0;
}

/* ---- codes ---- */

void pl_stored_numbers(const pl_stored *s, int64_t j, int64_t first, int64_t n, float *scales,
                       float *zeros) {
    const size_t at = (size_t)(j * s->n_blocks + first);
    if (s->scale_dtype == PL_F32)
        memcpy(scales, (const float *)s->scales + at, (size_t)n * sizeof(*scales));
    else
        pl_load_f32(s->scale_dtype, (const char *)s->scales + at * pl_dtype_bytes(s->scale_dtype),
                    scales, (size_t)n);
    if (s->zeros == NULL) {
        for (int64_t i = 0; i < n; i++)
            zeros[i] = 8;
        return;
    }
    const pl_u8 *packed = s->zeros + j * s->zero_bytes;
    for (int64_t i = 0, block = first; i < n; i++, block++)
        zeros[i] = (float)(packed[block >> 1] >> (block & 1) * 4 & 15);
}

/* Values of rows k0 … k0 + len (at most FILL_K) of a column, at to + the result: whole parts of
 * blocks are written, PART codes each. */
static int64_t unpack_column(const pl_stored *s, int64_t j, int64_t k0, int64_t len, pl_f32 *to) {
    const int64_t part = pl_i64_min(s->block, PART), first = k0 / part;
    const int64_t n = (k0 + len - 1) / part - first + 1, each = s->block / part;
    float scales[PARTS_MAX], zeros[PARTS_MAX];
    float scale[PARTS_MAX], zero[PARTS_MAX];
    pl_stored_numbers(s, j, first / each, (first + n - 1) / each - first / each + 1, scale, zero);
    for (int64_t i = 0, at = 0, rest = first % each; i < n; i++) {
        scales[i] = scale[at];
        zeros[i] = zero[at];
        if (++rest == each) {
            rest = 0;
            at++;
        }
    }
    const pl_u8 *codes = (const pl_u8 *)s->b + (j * s->n_blocks * s->block + first * part) / 2;
    const pl_codes whole = { codes, scales, zeros, part, n };
    table_get()->unpack_q4(&whole, to);
    return k0 - first * part;
}

/* ---- panels for many rows ---- */

static void widen(const pl_stored *s, int64_t at, int64_t n, pl_f32 *to) {
    const pl_vmath *v = pl_vmath_get();
    const pl_u16 *from = (const pl_u16 *)s->b + at;
    if (s->kind == PL_STORED_F16)
        v->f16_to_f32(from, to, (size_t)n);
    else
        v->bf16_to_f32(from, to, (size_t)n);
}

/* Scales and zeros of some blocks of a full panel: those of block i at i * stride, by column. */
static void panel_numbers(const pl_stored *s, int64_t at, int64_t stride, int64_t first, int64_t n,
                          pl_f32 *scales, pl_f32 *zeros) {
    const pl_gemm_table *t = pl_gemm_table_get();
    if (s->zeros == NULL && s->scale_dtype == PL_F32) {
        t->pack_b_f32((const pl_f32 *)s->scales + at * s->n_blocks + first, 1, s->n_blocks, n,
                      stride, NULL, scales);
        for (int64_t i = 0; i < n * stride; i++)
            zeros[i] = 8;
        return;
    }
    float scale[PL_GEMM_NR_MAX * BLOCKS_MAX], zero[PL_GEMM_NR_MAX * BLOCKS_MAX];
    for (int64_t j = 0; j < stride; j++)
        pl_stored_numbers(s, at + j, first, n, scale + j * BLOCKS_MAX, zero + j * BLOCKS_MAX);
    t->pack_b_f32((const pl_f32 *)scale, 1, BLOCKS_MAX, n, stride, NULL, scales);
    t->pack_b_f32((const pl_f32 *)zero, 1, BLOCKS_MAX, n, stride, NULL, zeros);
}

/* A full panel of columns from their codes; parts that begin or end outside of it go by way of
 * `piece`. */
static void fill_codes(const pl_stored *s, int64_t k0, int64_t len, int64_t at, int64_t stride,
                       pl_f32 *to) {
    const int64_t first = k0 / s->block, last = (k0 + len - 1) / s->block;
    pl_f32 scales[PL_GEMM_NR_MAX * BLOCKS_MAX], zeros[PL_GEMM_NR_MAX * BLOCKS_MAX];
    pl_f32 piece[PL_GEMM_NR_MAX * PL_CODE_PART];
    panel_numbers(s, at, stride, first, last - first + 1, scales, zeros);
    const int64_t column = s->n_blocks * s->block / 2, end = k0 + len;
    for (int64_t k = k0, n; k < end; k += n, to += n * stride) {
        const int64_t part = k / PL_CODE_PART * PL_CODE_PART, block = k / s->block;
        const int64_t whole =
            pl_i64_min(end, (block + 1) * s->block) / PL_CODE_PART - part / PL_CODE_PART;
        const pl_u8 *codes = (const pl_u8 *)s->b + at * column + part / 2;
        const float *scale = (const float *)scales + (block - first) * stride;
        const float *zero = (const float *)zeros + (block - first) * stride;
        if (k == part && whole > 0) {
            n = whole * PL_CODE_PART;
            table_get()->pack_q4(codes, column, scale, zero, whole, to);
            continue;
        }
        n = pl_i64_min(part + PL_CODE_PART, end) - k;
        table_get()->pack_q4(codes, column, scale, zero, 1, piece);
        memcpy(to, piece + (k - part) * stride, (size_t)(n * stride) * sizeof(*to));
    }
}

static void fill_panel(const pl_stored *s, int64_t k0, int64_t len, int64_t at, int64_t n,
                       int64_t stride, pl_f32 *to) {
    if (s->kind == PL_STORED_CODES && n == stride && table_get()->pack_q4 != NULL &&
        s->block % PL_CODE_PART == 0) {
        fill_codes(s, k0, len, at, stride, to);
        return;
    }
    if (s->kind != PL_STORED_CODES && !s->trans_b && n == stride) {
        const pl_u16 *b = (const pl_u16 *)s->b + k0 * s->ldb + at;
        (s->kind == PL_STORED_F16 ? table_get()->pack_f16 : table_get()->pack_bf16)(b, s->ldb, len,
                                                                                    to);
        return;
    }
    if (s->kind != PL_STORED_CODES && !s->trans_b) {
        for (int64_t k = 0; k < len; k++) {
            widen(s, (k0 + k) * s->ldb + at, n, to + k * stride);
            for (int64_t j = n; j < stride; j++)
                to[k * stride + j] = 0;
        }
        return;
    }
    pl_f32 rows[PL_GEMM_NR_MAX * FILL_ROOM]; /* columns of B, turned by pack_b */
    for (int64_t k = 0; k < len; k += FILL_K) {
        const int64_t piece = pl_i64_min(FILL_K, len - k);
        int64_t from = 0; /* the same for all columns */
        for (int64_t j = 0; j < n; j++) {
            if (s->kind == PL_STORED_CODES)
                from = unpack_column(s, at + j, k0 + k, piece, rows + j * FILL_ROOM);
            else
                widen(s, (at + j) * s->ldb + k0 + k, piece, rows + j * FILL_ROOM);
        }
        pl_gemm_table_get()->pack_b_f32(rows + from, 1, FILL_ROOM, piece, n, NULL, to + k * stride);
    }
}

/* pl_gemm_fill_f32 */
static void fill(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n, int64_t stride,
                 pl_f32 *to, const pl_f32 **base, const int64_t **taps) {
    const pl_stored *s = ctx;
    (void)base;
    (void)taps;
    fill_panel(s, k0, len, at, n, stride, to);
    for (int64_t i = 0; s->magnitudes && i < len * stride; i++)
        to[i] = fabsf(to[i]);
}

static void fetch(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n) {
    const pl_stored *s = ctx;
    for (int64_t k = 0; k < len; k++) {
        const char *row = (const char *)((const pl_u16 *)s->b + (k0 + k) * s->ldb + at);
        for (int64_t i = 0; i < n * (int64_t)sizeof(pl_u16); i += 64)
            __builtin_prefetch(row + i, 0, 3);
    }
}

static pl_status blocked(pl_pool *pool, int64_t m, int64_t n, int64_t k, float alpha,
                         const pl_f32 *a, int64_t lda, const pl_stored *b, pl_f32 *c, pl_err *err) {
    const pl_gemm_job_f32 job = { .m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a,
                                  .a_rs = lda,
                                  .a_cs = 1,
                                  .b_fill = fill,
                                  .b_fetch =
                                      b->kind != PL_STORED_CODES && !b->trans_b ? fetch : NULL,
                                  .fill_ctx = b,
                                  .c = c,
                                  .ldc = n,
                                  .alpha = alpha };
    return pl_gemm_run_f32(pool, &job, err);
}

/* ---- few rows ---- */

typedef struct job {
    const pl_stored *b;
    int64_t m, n, k, lda;
    float alpha;
    const pl_f32 *a;
    pl_f32 *c;
} job;

static void half_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const pl_stored *s = j->b;
    const pl_stored_table *t = table_get();
    const bool f16 = s->kind == PL_STORED_F16;
    const pl_u16 *b = (const pl_u16 *)s->b + (s->trans_b ? begin * s->ldb : begin);
    pl_f32 y[VECTOR_COLS];
    if (s->trans_b)
        (f16 ? t->dots_f16 : t->dots_bf16)(j->a, b, s->ldb, end - begin, j->k, y);
    else
        (f16 ? t->row_f16 : t->row_bf16)(j->a, b, s->ldb, end - begin, j->k, y);
    for (int64_t i = 0; i < end - begin; i++)
        j->c[begin + i] = j->alpha * y[i];
}

static void codes_range(void *ctx, int64_t begin, int64_t end) {
    const job *j = ctx;
    const pl_stored_table *t = table_get();
    float scales[BLOCKS], zeros[BLOCKS];
    pl_codes c = { .scales = scales, .zeros = zeros, .block = j->b->block };
    for (int64_t col = begin; col < end; col++) {
        double sums[PL_CODE_ROWS] = { 0 };
        for (int64_t at = 0; at < j->b->n_blocks; at += BLOCKS) {
            float y[PL_CODE_ROWS];
            c.n_blocks = pl_i64_min(BLOCKS, j->b->n_blocks - at);
            c.codes = (const pl_u8 *)j->b->b + (col * j->b->n_blocks + at) * j->b->block / 2;
            pl_stored_numbers(j->b, col, at, c.n_blocks, scales, zeros);
            t->dots_q4(&c, j->a + at * j->b->block, j->lda, (int)j->m, y);
            for (int64_t row = 0; row < j->m; row++)
                sums[row] += (double)y[row];
        }
        for (int64_t row = 0; row < j->m; row++)
            j->c[row * j->n + col] = j->alpha * (float)sums[row];
    }
}

/* A row in the order of dots_q4. */
static pl_status few_codes(pl_pool *pool, job *j, pl_err *err) {
    pl_f32 *a = pl_aligned_alloc(64, (size_t)(j->m * j->k) * sizeof(*a));
    if (a == NULL) return pl_fail_memory(err, (size_t)(j->m * j->k) * sizeof(*a));
    for (int64_t row = 0; row < j->m; row++)
        table_get()->order_q4(j->a + row * j->lda, j->k, a + row * j->k);
    j->a = a;
    j->lda = j->k;
    pl_pool_for(pool, j->n, CODE_COLS, codes_range, j);
    pl_free(a);
    return PL_OK;
}

pl_status pl_gemm_stored_f32(pl_pool *pool, int64_t m, int64_t n, int64_t k, float alpha,
                             const pl_f32 *a, int64_t lda, const pl_stored *b, pl_f32 *c,
                             pl_err *err) {
    job j = { .b = b, .m = m, .n = n, .k = k, .lda = lda, .alpha = alpha, .a = a, .c = c };
    if ((double)m * (double)n * (double)k < 1e5) pool = NULL; /* too small to wake threads */
    if (b->kind == PL_STORED_CODES && m <= PL_CODE_ROWS) return few_codes(pool, &j, err);
    if (b->kind == PL_STORED_CODES || m > 1 || b->magnitudes)
        return blocked(pool, m, n, k, alpha, a, lda, b, c, err);
    pl_pool_for(pool, n, VECTOR_COLS, half_range, &j);
    return PL_OK;
}
