/* The inner loops of products with a B that stays as it is stored: half floats, or codes of 4 bits
 * in blocks with a scale each. One table for each instruction set.
 *
 * row and dots have the order of those in gemm_table.h, so their bits are those of the product with
 * the same B widened to f32. */
#ifndef PL_STORED_TABLE_H
#define PL_STORED_TABLE_H

#include <stdint.h>

#include "tensor/dtype.h"

enum { PL_CODE_ROWS = 4, PL_CODE_PART = 32, PL_CODE_STEP_MAX = 128 };

/* Whole blocks of one column: code i is in byte i / 2, the even one in the low half. A block holds
 * block codes, a multiple of the step below; the value of a code is (code - zero) * scale. */
typedef struct pl_codes {
    const pl_u8 *codes;
    const float *scales, *zeros; /* one for each block */
    int64_t block, n_blocks;
} pl_codes;

/* A panel is a pl_codes with a byte for each code: of each part, four rows of B at a time, their
 * four codes of every column; and scales and zeros of every column for each part. */

/* Rows of A in 8 bits, in parts of 32 elements with a scale each. Of each step_i8 elements the even
 * ones come first; the end is filled with zeros. `sums` has for each step the sums of elements that
 * end up in a lane: lane i has the elements 8 * i … 8 * i + 7. */
typedef struct pl_codes_a {
    const int8_t *codes;
    const float *scales, *sums;
    int64_t ld_codes, ld_scales, ld_sums; /* from one row to the next */
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

    /* A panel of 2 * PL_VF whole columns: to[p * nr + j] = b[p * ldb + j] for p < k. */
    void (*pack_f16)(const pl_u16 *b, int64_t ldb, int64_t k, pl_f32 *to);
    void (*pack_bf16)(const pl_u16 *b, int64_t ldb, int64_t k, pl_f32 *to);
    /* The same in double: a panel of 2 * PL_VD columns. */
    void (*pack_f16_f64)(const pl_u16 *b, int64_t ldb, int64_t k, pl_f64 *to);
    void (*pack_bf16_f64)(const pl_u16 *b, int64_t ldb, int64_t k, pl_f64 *to);
    void (*pack_f32_f64)(const pl_f32 *b, int64_t ldb, int64_t k, pl_f64 *to);
    /* The same from codes: n_parts parts of a block; the next column is `stride` bytes on and has
     * its own scale and zero. NULL: not with this instruction set. */
    void (*pack_q4)(const pl_u8 *codes, int64_t stride, const float *scales, const float *zeros,
                    int64_t n_parts, pl_f32 *to);

    int64_t step; /* codes that dots_q4 takes at once */
    /* The order in which dots_q4 reads a row of A: of each step, the even elements come first. */
    void (*order_q4)(const pl_f32 *a, int64_t n, pl_f32 *to);
    /* Products of the column with up to PL_CODE_ROWS rows of A in that order. */
    void (*dots_q4)(const pl_codes *b, const pl_f32 *a, int64_t lda, int rows, float *y);
    /* Codes 0 … n of whole steps, as values */
    void (*unpack_q4)(const pl_codes *b, pl_f32 *to);

    /* The same with A in 8 bits: sums of 8 products in integers. b->block is PL_CODE_PART; scales
     * and zeros go on with zeros up to a step. NULL: not with this instruction set. `vnni` is for a
     * CPU that has it; the bits are the same. */
    int64_t step_i8;
    void (*dots_i8)(const pl_codes *b, const pl_codes_a *a, int rows, float *y);
    void (*dots_i8_vnni)(const pl_codes *b, const pl_codes_a *a, int rows, float *y);
    /* Up to PL_CODE_ROWS rows times a panel of cols_i8 columns: y[row * cols_i8 + column]. Here
     * rows of A are in their own order, with one sum for each part. */
    int64_t cols_i8;
    void (*pack_i8)(const pl_u8 *codes, int64_t n_parts, pl_u8 *to);
    void (*tile_i8)(const pl_codes *panel, const pl_codes_a *a, int rows, float *y);
    void (*tile_i8_vnni)(const pl_codes *panel, const pl_codes_a *a, int rows, float *y);
} pl_stored_table;

extern const pl_stored_table pl_stored_table_base, pl_stored_table_avx2, pl_stored_table_avx512;
extern const pl_stored_table pl_stored_table_neon;

#endif
