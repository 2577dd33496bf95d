/* Vector maths over contiguous arrays: one table of functions for each instruction set.
 *
 * Maps: y[i] = f(x[i]); y may be x (in place), otherwise they do not overlap. An element's bits do
 * not depend on its position in the array. avx2 and avx512 give the same bits; base may differ in
 * the last place. Errors in ulp of the result, the worst of every 101st float
 * (bench/kernels/ulp_vmath): f32: exp, log, tanh, erf, sigmoid <= 2; gelu, silu, softplus <= 4.
 * f64: exp, sigmoid and silu are our own, the rest is libm. Special values are those of libm;
 * composite functions follow their formula: silu(-inf) = gelu(-inf) = NaN.
 *
 * Reductions run in fixed lanes combined pairwise, so their bits depend only on n, never on the
 * instruction set. f32 sums are computed and returned in f64: the caller rounds once. max/min: NaN
 * if any element is NaN; n == 0 gives -inf/+inf. */
#ifndef PL_VMATH_H
#define PL_VMATH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu.h"
#include "tensor/dtype.h"

typedef struct pl_vmath_f32 {
    void (*exp)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*log)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*tanh)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*erf)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*sigmoid)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*gelu_erf)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*gelu_tanh)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*silu)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*softplus)(const pl_f32 *x, pl_f32 *y, size_t n);

    /* z[i] = a[i] op b[i]; z may be a or b. max/min: NaN if either is NaN. */
    void (*add)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    void (*sub)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    void (*mul)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    void (*div)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    void (*max)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    void (*min)(const pl_f32 *a, const pl_f32 *b, pl_f32 *z, size_t n);
    /* z[i] = a[i] op s; rsub and rdiv: s op a[i]. */
    void (*add_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*sub_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*rsub_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*mul_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*div_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*rdiv_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*max_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);
    void (*min_s)(const pl_f32 *a, float s, pl_f32 *z, size_t n);

    double (*sum)(const pl_f32 *x, size_t n);
    double (*sum_sq)(const pl_f32 *x, size_t n);
    double (*sum_abs)(const pl_f32 *x, size_t n);
    double (*dot)(const pl_f32 *a, const pl_f32 *b, size_t n);
    float (*reduce_max)(const pl_f32 *x, size_t n);
    float (*reduce_min)(const pl_f32 *x, size_t n);

    /* One row; y may be x. A row of only -inf, or with +inf or NaN in it, gives NaN, as in
     * NumPy. */
    void (*softmax)(const pl_f32 *x, pl_f32 *y, size_t n);
    void (*log_softmax)(const pl_f32 *x, pl_f32 *y, size_t n);
    /* Two passes: the mean, then the mean of squared deviations (divided by n). */
    void (*mean_var)(const pl_f32 *x, size_t n, double *mean, double *var);
} pl_vmath_f32;

typedef struct pl_vmath_f64 {
    void (*exp)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*log)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*tanh)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*erf)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*sigmoid)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*gelu_erf)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*gelu_tanh)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*silu)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*softplus)(const pl_f64 *x, pl_f64 *y, size_t n);

    void (*add)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*sub)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*mul)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*div)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*max)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*min)(const pl_f64 *a, const pl_f64 *b, pl_f64 *z, size_t n);
    void (*add_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*sub_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*rsub_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*mul_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*div_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*rdiv_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*max_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);
    void (*min_s)(const pl_f64 *a, double s, pl_f64 *z, size_t n);

    double (*sum)(const pl_f64 *x, size_t n);
    double (*sum_sq)(const pl_f64 *x, size_t n);
    double (*sum_abs)(const pl_f64 *x, size_t n);
    double (*dot)(const pl_f64 *a, const pl_f64 *b, size_t n);
    double (*reduce_max)(const pl_f64 *x, size_t n);
    double (*reduce_min)(const pl_f64 *x, size_t n);

    void (*softmax)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*log_softmax)(const pl_f64 *x, pl_f64 *y, size_t n);
    void (*mean_var)(const pl_f64 *x, size_t n, double *mean, double *var);
} pl_vmath_f64;

typedef struct pl_vmath {
    pl_isa isa;
    pl_vmath_f32 f32;
    pl_vmath_f64 f64;
    /* Round to nearest even, overflow to infinity, NaN stays NaN (made quiet, with sign and upper
     * payload kept). bf16 to f32 is a plain shift. No overlap. */
    void (*f16_to_f32)(const pl_u16 *x, pl_f32 *y, size_t n);
    void (*f32_to_f16)(const pl_f32 *x, pl_u16 *y, size_t n);
    void (*bf16_to_f32)(const pl_u16 *x, pl_f32 *y, size_t n);
    void (*f32_to_bf16)(const pl_f32 *x, pl_u16 *y, size_t n);
} pl_vmath;

/* The table of the instruction set in use (pl_cpu_isa). */
const pl_vmath *pl_vmath_get(void);
/* For tests and benches: NULL when the CPU lacks the set. */
const pl_vmath *pl_vmath_of(pl_isa isa);

#endif
