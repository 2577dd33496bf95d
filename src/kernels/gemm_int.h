/* Inside src/kernels: the blocked product that gemm.c and conv.c drive.
 *
 * How it is cut: k into equal blocks of at most PL_GEMM_KC, rows into balanced panels of at most
 * mr, columns into panels of nr. The cut of k depends on k only, so an element's bits do not depend
 * on m, n, packing, or threads. */
#ifndef PL_GEMM_INT_H
#define PL_GEMM_INT_H

#include <sched.h>
#include <stdatomic.h>

#include "kernels/gemm.h"
#include "kernels/simd/gemm_table.h"

enum { PL_GEMM_KC = 384 };

const pl_gemm_table *pl_gemm_table_get(void);
const pl_gemm_table *pl_gemm_table_of(int isa); /* for tests and benches; NULL when lacking */

/* a >= 0. Strides are 1 or 2 nearly always, and a division costs as much as a short row. */
static inline int64_t pl_div_up(int64_t a, int64_t b) {
    if (b == 1) return a;
    if (b == 2) return (a >> 1) + (a & 1);
    return a / b + (a % b != 0);
}

/* Buffers for the threads of one loop: a body takes one and gives it back. There are as many as
 * threads (at most 64; a body beyond that waits its turn), so that taking one always ends. */
typedef struct pl_slots {
    atomic_uint_fast64_t free;
} pl_slots;
static inline int pl_slots_init(pl_slots *s, int threads) {
    const int n = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    atomic_init(&s->free, n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1);
    return n;
}
static inline int pl_slots_take(pl_slots *s) {
    for (;;) {
        uint_fast64_t f = atomic_load(&s->free);
        while (f != 0) {
            if (atomic_compare_exchange_weak(&s->free, &f, f & (f - 1))) return __builtin_ctzll(f);
        }
        sched_yield();
    }
}
static inline void pl_slots_give(pl_slots *s, int slot) {
    atomic_fetch_or(&s->free, UINT64_C(1) << slot);
}

/* The cut of k. */
typedef struct pl_gemm_blocks {
    int64_t k, kc, n;
} pl_gemm_blocks;
static inline pl_gemm_blocks pl_gemm_blocks_of(int64_t k) {
    pl_gemm_blocks b = { k, 0, pl_div_up(k, PL_GEMM_KC) };
    b.kc = b.n == 0 ? 0 : pl_div_up(k, b.n);
    return b;
}
static inline int64_t pl_gemm_block_len(const pl_gemm_blocks *b, int64_t i) {
    const int64_t left = b->k - i * b->kc;
    return left < b->kc ? left : b->kc;
}
/* All of k at once: parts of the result are final when they are there. */
enum { PL_GEMM_K_BLOCKS = 8 };
static inline bool pl_gemm_parts_fit(int64_t k) {
    return k > 0 && pl_gemm_blocks_of(k).n <= PL_GEMM_K_BLOCKS;
}
/* First row of panel p of n: panels differ by one row at most. */
static inline int64_t pl_gemm_panel_row(int64_t m, int64_t n, int64_t p) {
    return p * (m / n) + (p < m % n ? p : m % n);
}

/* Checks dims, leading dims and extents of a shape; fills 0 leading dims. elem_bytes of A, B and C.
 */
pl_status pl_gemm_check(const pl_gemm_shape *shape, size_t bytes_a, size_t bytes_b, size_t bytes_c,
                        pl_gemm_shape *out, pl_err *err);

/* One product with everything spelt out; element (i,k) of A at a[i * a_rs + k * a_cs], (k,j) of B
 * at b[k * b_rs + j * b_cs]. Packed forms are those of pl_gemm_pack_a/b over all of k. */
/* Rows k0 … k0 + len, columns at … at + n of a matrix as a panel: to[k * stride + j]. May instead
 * leave `to` alone and say where the rows lie: *base and *taps (b_fill of a full panel only). */
typedef void (*pl_gemm_fill_f32)(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n,
                                 int64_t stride, pl_f32 *to, const pl_f32 **base,
                                 const int64_t **taps);
/* Takes a part of the result out of the thread's own memory: rows of `ld` elements at `from`. */
typedef void (*pl_gemm_part_f32)(const void *ctx, const pl_f32 *from, int64_t ld, int64_t row0,
                                 int64_t row1, int64_t col0, int64_t col1);
typedef struct pl_gemm_job_f32 {
    int64_t m, n, k;
    const pl_f32 *a, *b;
    int64_t a_rs, a_cs, b_rs, b_cs;
    bool a_direct; /* a_rs is 1, and a is read where it lies */
    /* Instead of a and b, see pl_gemm_fill_f32. */
    pl_gemm_fill_f32 a_fill, b_fill;
    const void *fill_ctx;
    const pl_f32 *a_packed, *b_packed; /* NULL: packed on the way */
    pl_f32 *c;
    int64_t ldc;
    const pl_f32 *factor;  /* of each k, for the factor that is not packed; or NULL */
    pl_gemm_part_f32 part; /* instead of c, where pl_gemm_parts_fit; beta is 0; or NULL */
    const void *part_ctx;
    float alpha, beta;
    const pl_f32 *bias; /* one for each row, or NULL */
    const pl_epilogue *after;
    int64_t after_row; /* that row 0 is for it */
} pl_gemm_job_f32;
/* Rows k0 … k0 + len, columns at … at + n of a matrix as a panel: to[k * stride + j]. May instead
 * leave `to` alone and say where the rows lie: *base and *taps (b_fill of a full panel only). */
typedef void (*pl_gemm_fill_f64)(const void *ctx, int64_t k0, int64_t len, int64_t at, int64_t n,
                                 int64_t stride, pl_f64 *to, const pl_f64 **base,
                                 const int64_t **taps);
/* Takes a part of the result out of the thread's own memory: rows of `ld` elements at `from`. */
typedef void (*pl_gemm_part_f64)(const void *ctx, const pl_f64 *from, int64_t ld, int64_t row0,
                                 int64_t row1, int64_t col0, int64_t col1);
typedef struct pl_gemm_job_f64 {
    int64_t m, n, k;
    const pl_f64 *a, *b;
    int64_t a_rs, a_cs, b_rs, b_cs;
    bool a_direct; /* a_rs is 1, and a is read where it lies */
    /* Instead of a and b, see pl_gemm_fill_f64. */
    pl_gemm_fill_f64 a_fill, b_fill;
    const void *fill_ctx;
    const pl_f64 *a_packed, *b_packed;
    pl_f64 *c;
    int64_t ldc;
    const pl_f64 *factor;  /* of each k, for the factor that is not packed; or NULL */
    pl_gemm_part_f64 part; /* instead of c, where pl_gemm_parts_fit; beta is 0; or NULL */
    const void *part_ctx;
    double alpha, beta;
    const pl_f64 *bias;
    const pl_epilogue *after;
    int64_t after_row; /* that row 0 is for it */
} pl_gemm_job_f64;
pl_status pl_gemm_run_f32(pl_pool *pool, const pl_gemm_job_f32 *job, pl_err *err);
pl_status pl_gemm_run_f64(pl_pool *pool, const pl_gemm_job_f64 *job, pl_err *err);

/* Elements of a packed matrix, and the packing itself (all of k, all rows or columns). */
int64_t pl_gemm_packed_a_size(int64_t m, int64_t k);
int64_t pl_gemm_packed_b_size_f32(int64_t k, int64_t n);
int64_t pl_gemm_packed_b_size_f64(int64_t k, int64_t n);
void pl_gemm_pack_a_f32(pl_pool *pool, const pl_gemm_job_f32 *job, pl_f32 *to);
void pl_gemm_pack_a_f64(pl_pool *pool, const pl_gemm_job_f64 *job, pl_f64 *to);
void pl_gemm_pack_b_f32(pl_pool *pool, const pl_gemm_job_f32 *job, pl_f32 *to);
void pl_gemm_pack_b_f64(pl_pool *pool, const pl_gemm_job_f64 *job, pl_f64 *to);

#endif
