/* Matrix products: C = alpha * op(A) * op(B) + beta * C, row-major, batched.
 *
 * op(A) is m x k, op(B) is k x n, C is m x n; with trans_a the matrix in memory is k x m. beta == 0
 * never reads C; k == 0 gives beta * C. C overlaps neither A nor B. The bits of C depend on A, B,
 * the shape, the provider and the instruction set; not on the number of threads, nor on whether a
 * state is given. (m and transposition select the algorithm: a single row of A may differ in the
 * last digits from the same row among many.) Dims < 0, leading dims that are too small and
 * overflowing extents are PL_E_INVALID. */
#ifndef PL_GEMM_H
#define PL_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/threads.h"
#include "tensor/dtype.h"

/* Epilogue of a product: called once for every part of the result as soon as it is final, by the
 * thread that computed it, while it is in the cache. Rows are counted through the batch (for a
 * convolution: channels through the items), columns are those of C (for a convolution: outputs of a
 * channel). */
typedef struct pl_epilogue {
    void (*fn)(void *ctx, int64_t row0, int64_t row1, int64_t col0, int64_t col1);
    void *ctx;
} pl_epilogue;

typedef struct pl_provider pl_provider; /* provider.h */

typedef struct pl_gemm_shape {
    int64_t m, n, k;
    bool trans_a, trans_b;
    int64_t lda, ldb, ldc; /* elements from one row in memory to the next; 0 = dense */
    int64_t batch;         /* number of products; 1 for a single one */
    int64_t stride_a, stride_b, stride_c; /* elements from one matrix to the next; 0 = shared */
    /* For batches that strides cannot describe (NumPy broadcasting): `batch` element offsets, or
     * NULL. */
    const int64_t *offsets_a, *offsets_b;
    const pl_epilogue *after; /* NULL = none */
    const pl_provider *by;    /* NULL = the default of the process */
} pl_gemm_shape;

/* State that a node keeps between calls when B is constant: the packed B. Pass the address of a
 * pointer that starts NULL. It is reused for the same shape and b pointer, otherwise rebuilt. The
 * bytes at b must not change while the state lives. One call at a time for each state. NULL = no
 * cache. */
typedef struct pl_gemm_state pl_gemm_state;
void pl_gemm_state_free(pl_gemm_state *state); /* NULL is fine */
/* Bytes of the packed copy (0 = none). pl_gemm_state_move moves it to the caller's memory, which
 * must be 64-byte aligned and outlive the state. */
size_t pl_gemm_state_bytes(const pl_gemm_state *state);
void pl_gemm_state_move(pl_gemm_state *state, void *to);
/* Packs b now instead of at the first product. */
pl_status pl_gemm_prepare_f32(pl_pool *pool, const pl_gemm_shape *shape, const pl_f32 *b,
                              pl_gemm_state **state, pl_err *err);
pl_status pl_gemm_prepare_f64(pl_pool *pool, const pl_gemm_shape *shape, const pl_f64 *b,
                              pl_gemm_state **state, pl_err *err);

pl_status pl_gemm_f32(pl_pool *pool, const pl_gemm_shape *shape, float alpha, const pl_f32 *a,
                      const pl_f32 *b, float beta, pl_f32 *c, pl_gemm_state **state, pl_err *err);
pl_status pl_gemm_f64(pl_pool *pool, const pl_gemm_shape *shape, double alpha, const pl_f64 *a,
                      const pl_f64 *b, double beta, pl_f64 *c, pl_gemm_state **state, pl_err *err);

/* Integers: C(i32) = sum over k of (A - a_zero) * (B - b_zero), wrapping modulo 2^32. A and B are
 * int8 or uint8 as the flags say; zero points are in the range of their matrix. */
typedef struct pl_gemm_i8_zero {
    const pl_i32 *value; /* NULL = 0 */
    int64_t step;        /* 0: one value; 1: one for each row of op(A), or column of op(B) */
    int64_t stride;      /* from one batch item to the next; 0 = shared */
} pl_gemm_i8_zero;
pl_status pl_gemm_i8(pl_pool *pool, const pl_gemm_shape *shape, const void *a, bool a_signed,
                     pl_gemm_i8_zero a_zero, const void *b, bool b_signed, pl_gemm_i8_zero b_zero,
                     pl_i32 *c, pl_err *err);

/* The plain products (below) bit for bit, fast: one chain of rounded products and sums for each
 * element, elements side by side and on a pool. Blame replays with it what a naive runtime does. */
pl_status pl_gemm_long_f32(pl_pool *pool, const pl_gemm_shape *shape, float alpha, const pl_f32 *a,
                           const pl_f32 *b, float beta, pl_f32 *c, pl_err *err);
pl_status pl_gemm_long_f64(pl_pool *pool, const pl_gemm_shape *shape, double alpha, const pl_f64 *a,
                           const pl_f64 *b, double beta, pl_f64 *c, pl_err *err);

/* The plain versions: three loops, one accumulator of the element type, k in rising order, alpha
 * and beta applied at the end. The reference for tests of the fast ones. */
pl_status pl_gemm_plain_f32(const pl_gemm_shape *shape, float alpha, const pl_f32 *a,
                            const pl_f32 *b, float beta, pl_f32 *c, pl_err *err);
pl_status pl_gemm_plain_f64(const pl_gemm_shape *shape, double alpha, const pl_f64 *a,
                            const pl_f64 *b, double beta, pl_f64 *c, pl_err *err);
pl_status pl_gemm_plain_i8(const pl_gemm_shape *shape, const void *a, bool a_signed,
                           pl_gemm_i8_zero a_zero, const void *b, bool b_signed,
                           pl_gemm_i8_zero b_zero, pl_i32 *c, pl_err *err);

#endif
