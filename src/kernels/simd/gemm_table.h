/* The inner loops of matrix products, one table for each instruction set.
 *
 * A panel of A holds `rows` rows (1 … mr), a[k * lda + i]; lda is `rows` when packed. A panel of B
 * holds up to nr columns, packed as b[k * nr + j] and padded with zeros, or is the caller's matrix
 * with any row stride. A tile computes rows x cols of C over one block of k with one accumulator
 * per element and k in rising order: the bits of an element depend only on its row of A and column
 * of B, not on how the panels are split. */
#ifndef PL_GEMM_TABLE_H
#define PL_GEMM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

enum { PL_GEMM_NR_MAX = 32, PL_GEMM_CHUNK_COLS_MAX = 16 };

/* C = alpha * (A * B) + beta * C + bias; beta == 0 does not read C. A product over several blocks
 * of k passes beta = 1 from the second on, and the bias with the last. */
#define PL_TILE(T, E, suffix)                                                                      \
    typedef struct pl_tile_##suffix {                                                              \
        int64_t k;                                                                                 \
        const E *a, *b;                                                                            \
        int64_t lda, ldb;                                                                          \
        const int64_t *taps; /* instead of ldb: row k of B at b + taps[k]; nr columns. Or NULL */  \
        E *c;                                                                                      \
        int64_t ldc, rows, cols;                                                                   \
        T alpha, beta;                                                                             \
        const E *bias; /* one for each row, or NULL */                                             \
    } pl_tile_##suffix;
PL_TILE(float, pl_f32, f32)
PL_TILE(double, pl_f64, f64)
#undef PL_TILE

/* Integers as signed bytes, k in fours: a[(k/4) * rows * 4 + i * 4 + k%4], b[(k/4) * nr * 4 + j * 4
 * + k%4]. C = or += the products, wrapping. */
enum { PL_GEMM_DOT_ROWS_MAX = 8 };
typedef struct pl_gemm_dot {
    int64_t mr, nr;
    void (*tile)(int64_t k_fours, const int8_t *a, const int8_t *b, pl_i32 *c, int64_t ldc,
                 int64_t rows, int64_t cols, bool add);
} pl_gemm_dot;

typedef struct pl_gemm_table {
    int64_t chunk_cols; /* panels of B that a panel of A meets in a row, at most */
    int64_t chunk_rows; /* panels of A that meet the same panels of B, at most */
    int64_t mr_f32, nr_f32, mr_f64, nr_f64;
    void (*tile_f32)(const pl_tile_f32 *t);
    void (*tile_f64)(const pl_tile_f64 *t);
    /* The same for alpha 1 and beta 0 or 1, as one chain of rounded products and sums from C on. */
    void (*chain_f32)(const pl_tile_f32 *t);
    void (*chain_f64)(const pl_tile_f64 *t);
    /* element (i, k) of the source at a[i * rs + k * cs], times factor[k] unless NULL */
    void (*pack_a_f32)(const pl_f32 *a, int64_t rs, int64_t cs, int64_t rows, int64_t k,
                       const pl_f32 *factor, pl_f32 *to);
    void (*pack_a_f64)(const pl_f64 *a, int64_t rs, int64_t cs, int64_t rows, int64_t k,
                       const pl_f64 *factor, pl_f64 *to);
    /* element (k, j) of the source at b[k * rs + j * cs], times factor[k] unless NULL */
    void (*pack_b_f32)(const pl_f32 *b, int64_t rs, int64_t cs, int64_t k, int64_t cols,
                       const pl_f32 *factor, pl_f32 *to);
    void (*pack_b_f64)(const pl_f64 *b, int64_t rs, int64_t cs, int64_t k, int64_t cols,
                       const pl_f64 *factor, pl_f64 *to);
    /* y[j] = sum over k of a[k] * b[k * ldb + j], n columns of b */
    void (*row_f32)(const pl_f32 *a, const pl_f32 *b, int64_t ldb, int64_t n, int64_t k, pl_f32 *y);
    void (*row_f64)(const pl_f64 *a, const pl_f64 *b, int64_t ldb, int64_t n, int64_t k, pl_f64 *y);
    /* y[j] = sum over k of a[k] * b[j * ldb + k], n rows of b, in native-width lanes */
    void (*dots_f32)(const pl_f32 *a, const pl_f32 *b, int64_t ldb, int64_t n, int64_t k,
                     pl_f32 *y);
    void (*dots_f64)(const pl_f64 *a, const pl_f64 *b, int64_t ldb, int64_t n, int64_t k,
                     pl_f64 *y);

    /* Integers: a and b as int16 (zero points subtracted), k in pairs: a[(k/2) * rows * 2 + i * 2 +
     * k%2], b[(k/2) * nr * 2 + j * 2 + k%2]. C = or += the products, wrapping. */
    int64_t mr_i16, nr_i16;
    void (*tile_i16)(int64_t k_pairs, const int16_t *a, const int16_t *b, pl_i32 *c, int64_t ldc,
                     int64_t rows, int64_t cols, bool add);
    const pl_gemm_dot *dot; /* for a CPU with PL_CPU_DOTPROD only; or NULL */
    void (*widen_i8)(const void *x, bool is_signed, int16_t zero, int64_t n, int16_t *y);
} pl_gemm_table;

extern const pl_gemm_table pl_gemm_table_base, pl_gemm_table_avx2, pl_gemm_table_avx512;
extern const pl_gemm_table pl_gemm_table_neon;

#endif
