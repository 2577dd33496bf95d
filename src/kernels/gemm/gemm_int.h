/* Private to src/kernels: the blocked product used by gemm.c and conv.c.
 *
 * k is split into equal blocks of at most PL_GEMM_KC, rows into balanced panels of at most mr,
 * columns into panels of nr. How k is split depends only on k, so the bits of an element do not
 * depend on m, n, packing, or threads. */
#ifndef PL_GEMM_INT_H
#define PL_GEMM_INT_H

#include <sched.h>
#include <stdatomic.h>

#include "kernels/gemm/gemm.h"
#include "kernels/simd/gemm_table.h"

enum { PL_GEMM_KC = 384 };

const pl_gemm_table *pl_gemm_table_get(void);

/* a >= 0. Strides are almost always 1 or 2, and a division costs as much as a short row. */
static inline int64_t pl_div_up(int64_t a, int64_t b) {
    if (b == 1) return a;
    if (b == 2) return (a >> 1) + (a & 1);
    return a / b + (a % b != 0);
}

/* Buffers for the threads of one loop: a body takes one and returns it. There are as many as
 * threads (at most 64; further bodies wait), so taking one cannot block forever. */
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

/* How k is split. */
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
/* All of k at once, so that each part of the result is final when it is written. */
enum { PL_GEMM_K_BLOCKS = 8 };
static inline bool pl_gemm_parts_fit(int64_t k) {
    return k > 0 && pl_gemm_blocks_of(k).n <= PL_GEMM_K_BLOCKS;
}
/* First row of panel p of n: panels differ by one row at most. */
static inline int64_t pl_gemm_panel_row(int64_t m, int64_t n, int64_t p) {
    return p * (m / n) + (p < m % n ? p : m % n);
}

/* Checks dims, leading dims and extents of a shape; replaces leading dims of 0. Bytes are those of
 * an element of A, B and C. */
pl_status pl_gemm_check(const pl_gemm_shape *shape, size_t bytes_a, size_t bytes_b, size_t bytes_c,
                        pl_gemm_shape *out, pl_err *err);

/* pl_gemm_job_f32, pl_gemm_run_f32, … and the same in f64. */
#define T float
#define E pl_f32
#define S(name) name##_f32
#include "kernels/gemm/gemm_job.inc"
#undef T
#undef E
#undef S
#define T double
#define E pl_f64
#define S(name) name##_f64
#include "kernels/gemm/gemm_job.inc"
#undef T
#undef E
#undef S

/* Scales and zeros of blocks first … first + n of a column, as floats. */
struct pl_stored;
void pl_stored_numbers(const struct pl_stored *s, int64_t j, int64_t first, int64_t n,
                       float *scales, float *zeros);

int64_t pl_gemm_packed_a_size(int64_t m, int64_t k); /* elements */

#endif
