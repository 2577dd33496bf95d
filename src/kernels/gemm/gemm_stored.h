/* Products with a matrix B that stays as it is in the file: half floats, or codes in blocks with a
 * scale each. B is widened panel by panel while a panel is in the cache, so nothing of its size is
 * allocated. The bits are those of pl_gemm_f32 with B widened first, except where A has so few rows
 * that codes are multiplied as they are read. */
#ifndef PL_GEMM_STORED_H
#define PL_GEMM_STORED_H

#include "kernels/gemm/gemm.h"

typedef enum pl_stored_kind { PL_STORED_F16, PL_STORED_BF16, PL_STORED_CODES } pl_stored_kind;

/* Codes of 4 bits: column j is n_blocks blocks of block / 2 bytes, the even code in the low half; a
 * weight is (code - zero) * scale. Only whole blocks: k is n_blocks * block. */
typedef struct pl_stored {
    pl_stored_kind kind;
    const void *b;
    bool trans_b;    /* half floats: B is n x k in memory */
    bool magnitudes; /* half floats: |B| is multiplied */
    int64_t ldb;
    int64_t block, n_blocks;
    const void *scales; /* n x n_blocks, float or half */
    pl_dtype scale_dtype;
    const pl_u8 *zeros; /* packed codes, zero_bytes for each column; NULL: 8 everywhere */
    int64_t zero_bytes;
} pl_stored;

/* Does this provider (NULL: the default) leave products to our own kernels? Another one gets B
 * widened. */
bool pl_gemm_is_own(const pl_provider *by);
/* May these codes be read by pl_gemm_stored? */
bool pl_stored_takes(int64_t bits, int64_t block, int64_t k);

/* C = alpha * A * B, m x n, dense; A is m x k with leading dim lda. */
pl_status pl_gemm_stored_f32(pl_pool *pool, int64_t m, int64_t n, int64_t k, float alpha,
                             const pl_f32 *a, int64_t lda, const pl_stored *b, pl_f32 *c,
                             pl_err *err);

/* The same with each block of a row of A rounded to 8 bits, codes times max|a| / 127, and the sums
 * of a block in integers: what MatMulNBits means with accuracy_level 4. A is dense; alpha is 1.
 * *done is false, and nothing is written, if the instruction set has no such products, or a block
 * of A is not finite. */
pl_status pl_gemm_stored_i8(pl_pool *pool, int64_t m, int64_t n, int64_t k, const pl_f32 *a,
                            const pl_stored *b, pl_f32 *c, bool *done, pl_err *err);

#endif
