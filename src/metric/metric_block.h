/* The inner loop of the metrics: sums over one block of two arrays, one table of functions for each
 * instruction set. Declared here, implemented in kernels/simd (a lower layer than metric, so
 * kernels/metric_choice.c is reached through this header).
 *
 * A function returns false, with *out partly written, if the block contains what the vector path
 * does not support: NaN, Inf, or values whose squares exceed the accumulator's range. The caller
 * then uses the plain path. The order of the sums depends on the elements, n and the instruction
 * set, never on threads. */
#ifndef PL_METRIC_BLOCK_H
#define PL_METRIC_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PL_METRIC_BLOCK = 16384, /* elements; fixed, so that results do not depend on threads */
    PL_METRIC_SETS = 5       /* sets of kernels */
};

typedef struct pl_metric_block {
    double sum_sq, sum_abs, sum_rel, sum_rr, sum_aa, sum_ar;
    double max_abs, max_a, max_r;
    int64_t n_excluded;  /* |r| <= floor */
    int64_t n_mismatch;  /* a != r */
    int64_t n_subnormal; /* r subnormal in the array's own type */
    int64_t n_flushed;   /* of these, a == 0 */
    int64_t max_ulp;
} pl_metric_block;

/* n <= PL_METRIC_BLOCK; any alignment; floor is 0 or a power of two. */
typedef bool (*pl_metric_block_fn)(const void *a, const void *r, size_t n, double floor,
                                   pl_metric_block *out);

typedef struct pl_metric_kernels {
    pl_metric_block_fn f32, f64, f16, bf16, i8, u8;
} pl_metric_kernels;

/* The table of the instruction set in use. */
const pl_metric_kernels *pl_metric_kernels_get(void);
/* For tests: set as pl_isa in kernels/cpu.h, the last one AVX-512 with AVX512_BF16; NULL when the
 * CPU lacks it. */
const pl_metric_kernels *pl_metric_kernels_of(int set);

#endif
