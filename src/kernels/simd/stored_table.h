/* The inner loops of products with a B that stays as it is stored: half floats, or codes of 4 bits
 * in blocks with a scale each. One table for each instruction set.
 *
 * row and dots have the order of those in gemm_table.h, so their bits are those of the product with
 * the same B widened to f32. */
#ifndef PL_STORED_TABLE_H
#define PL_STORED_TABLE_H

#include <stdint.h>

#include "tensor/dtype.h"

enum { PL_CODE_ROWS = 4, PL_CODE_STEP_MAX = 64 };

/* Whole blocks of one column: code i is in byte i / 2, the even one in the low half. A block holds
 * block codes, a multiple of the step below; the value of a code is (code - zero) * scale. */
typedef struct pl_codes {
    const pl_u8 *codes;
    const float *scales, *zeros; /* one for each block */
    int64_t block, n_blocks;
} pl_codes;

/* Rows of A in 8 bits: the values are codes * scale, one scale for each block. */
typedef struct pl_codes_a {
    const int8_t *codes;
    const float *scales;
    int64_t ld_codes, ld_scales; /* from one row to the next */
} pl_codes_a;

typedef struct pl_stored_table {
    /* y[j] = sum over k of a[k] * b[k * ldb + j], and of a[k] * b[j * ldb + k] */
    void (*row_f16)(const pl_f32 *a, const pl_u16 *b, int64_t ldb, int64_t n, int64_t k, pl_f32 *y);
    void (*dots_f16)(const pl_f32 *a, const pl_u16 *b, int64_t ldb, int64_t n, int64_t k,
                     pl_f32 *y);
    void (*row_bf16)(const pl_f32 *a, const pl_u16 *b, int64_t ldb, int64_t n, int64_t k,
                     pl_f32 *y);
    void (*dots_bf16)(const pl_f32 *a, const pl_u16 *b, int64_t ldb, int64_t n, int64_t k,
                      pl_f32 *y);

    int64_t step; /* codes that dots_q4 takes at once */
    /* The order in which dots_q4 reads a row of A: of each step, the even elements come first. */
    void (*order_q4)(const pl_f32 *a, int64_t n, pl_f32 *to);
    /* Products of the column with up to PL_CODE_ROWS rows of A in that order. */
    void (*dots_q4)(const pl_codes *b, const pl_f32 *a, int64_t lda, int rows, float *y);
    /* Codes 0 … n of whole steps, as values */
    void (*unpack_q4)(const pl_codes *b, pl_f32 *to);

    /* The same with A in 8 bits, sums of each block in integers; blocks are multiples of 32, zeros
     * whole numbers. Rows of codes have 0 up to a multiple of PL_CODE_STEP_MAX. NULL: not with this
     * instruction set. `vnni` is for a CPU that has it; the bits are the same. */
    void (*dots_i8)(const pl_codes *b, const pl_codes_a *a, int rows, float *y);
    void (*dots_i8_vnni)(const pl_codes *b, const pl_codes_a *a, int rows, float *y);
} pl_stored_table;

extern const pl_stored_table pl_stored_table_base, pl_stored_table_avx2, pl_stored_table_avx512;

#endif
