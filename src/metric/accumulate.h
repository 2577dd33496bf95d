/* Everything that the metrics need from two tensors, computed in one pass: a is the value under
 * test, r the reference, d = a - r.
 *
 * Sums run over the elements that are finite on both sides. NaN against NaN and Inf against Inf of
 * the same sign are equal and only counted; non-finite on one side, or Inf of opposite signs, is a
 * mismatch of its own class. -0 equals 0. Elements of complex tensors are complex numbers.
 *
 * Blocks of PL_METRIC_BLOCK elements, combined by a pairwise tree: bits do not depend on the number
 * of threads. Pairs of the same type f32, f64, f16, bf16 and of bytes run vectorised; everything
 * else, and blocks with non-finite or extreme values, goes through a plain loop.
 *
 * Accumulators are doubles. Before that, whole blocks of f32 sum 8 terms per lane in f32 (an error
 * of at most 11 f32 roundings: 7e-7 of the sum of magnitudes); f16, bf16 and bytes sum 32 (35
 * roundings); f64 and partial blocks of f32 none. The error of sum_aa may be half as much again,
 * that of sum_ar as much of |a| |r|. sum_rel is f32 in each quotient unless the type is f64; which
 * block holds max_abs is decided by |d| rounded to f32, unless it is f64.
 *
 * The relative sum excludes |r| <= floor, where floor is one ulp of max|r| in the coarser type of
 * the pair: eps * max|r|, the maximum taken down to a power of two so that one pass over the data
 * is enough. Integers: floor 0. */
#ifndef PL_ACCUMULATE_H
#define PL_ACCUMULATE_H

#include "base/threads.h"
#include "tensor/tensor.h"

/* Plain numbers, so that they can be stored and every metric recomputed. The sums are scaled if
 * squares would leave the range of double: true sum_abs = sum_abs * 2^d_scale, sum_sq * 4^d_scale,
 * sum_rr, sum_aa, sum_ar * 4^v_scale. Both are 0 unless f64 values reach beyond 2^±480. */
typedef struct pl_accumulators {
    int64_t n;          /* elements */
    int64_t n_finite;   /* both sides finite */
    int64_t n_mismatch; /* a != r, non-finite mismatches included */
    int64_t n_both_nan, n_both_inf;
    int64_t n_nan_a, n_nan_r; /* NaN on this side only */
    int64_t n_inf_a, n_inf_r; /* Inf on this side, the other finite */
    int64_t n_inf_sign;       /* Inf on both sides, opposite signs */
    int64_t n_excluded;       /* finite, but |r| <= floor: not in sum_rel */
    int64_t n_subnormal;      /* r subnormal in the coarser type of the pair */
    int64_t n_flushed;        /* of these, a == 0 */
    int64_t max_ulp;          /* units in the last place of the coarser type; integers: max |d| */
    int64_t max_abs_index;    /* first element with max |d|, in C order; -1 = none finite */
    int64_t nonfinite_index;  /* first non-finite mismatch; -1 = none */
    int64_t mismatch_index;   /* first a != r; -1 = none */
    int64_t d_scale, v_scale;
    double sum_sq, sum_abs, sum_rel, sum_rr, sum_aa, sum_ar;
    double max_abs, max_abs_a, max_abs_r; /* |d| and both values at max_abs_index */
    double max_a, max_r;                  /* of the finite values in finite pairs */
    double floor;
} pl_accumulators;

void pl_accumulators_init(pl_accumulators *acc); /* of no elements */
/* Adds `more`, whose first element has index `offset` in the whole. sum_rel of the parts was taken
 * over each part's own floor; the result keeps the larger floor of the two. */
void pl_accumulators_merge(pl_accumulators *acc, const pl_accumulators *more, int64_t offset);

/* PL_E_INVALID when the shapes differ, or only one is a string tensor. Views are copied first. */
pl_status pl_accumulate(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, pl_accumulators *out,
                        pl_err *err);
/* The type of the pair with fewer significant bits, or the integer one. */
pl_dtype pl_dtype_coarser(pl_dtype a, pl_dtype b);

#endif
