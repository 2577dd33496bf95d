/* Providers compute products and convolutions: one row for each, and one place that chooses.
 *
 *   own      the kernels of this folder; the default (README.md has the figures)
 *   plain    the plain loops: slow, to find out whether a fast kernel is to blame
 *   blas     OpenBLAS, opened at run time
 *   onednn   oneDNN 2.x, opened at run time
 *   saturate u8 x s8 as on a CPU without VNNI: to find out what such a CPU does to a model
 *
 * A call names its provider (pl_gemm_shape.by, pl_conv_shape.by); NULL is the default of the
 * process: PLUMB_KERNELS in the environment, else own. A named provider that is not available is an
 * error, never replaced. Functions that a row leaves NULL, and calls that it does not support, run
 * on own. A library computes one product on one thread; work is split here, by shape alone, so that
 * bits do not depend on the number of threads. Thread-safe. */
#ifndef PL_PROVIDER_H
#define PL_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm.h"

/* One product, all of m, n, k > 0, leading dims filled in. */
typedef struct pl_product {
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
} pl_product;

/* An integer product as pl_gemm_i8 has checked it. */
typedef struct pl_product_i8 {
    const pl_gemm_shape *shape;
    const void *a, *b;
    bool a_signed, b_signed;
    pl_gemm_i8_zero a_zero, b_zero;
    pl_i32 *c;
} pl_product_i8;

struct pl_provider {
    const char *name;
    const char *serves; /* for users: what it computes; the rest is own */
    /* (optional) Loads the library; the first result is kept. NULL = nothing to load. */
    pl_status (*open)(pl_err *err);
    const char *(*version)(void); /* (optional) after open: library, version, CPU kernel */
    /* (optional) Pointers are aligned for the element type. alpha is not 0. */
    pl_status (*gemm_f32)(const pl_product *p, float alpha, const float *a, const float *b,
                          float beta, float *c);
    pl_status (*gemm_f64)(const pl_product *p, double alpha, const double *a, const double *b,
                          double beta, double *c);
    /* (optional) *served stays false if the library does not support the call. */
    pl_status (*gemm_i8)(const pl_product_i8 *p, bool *served, pl_err *err);
    /* (optional) The same; without one, columns go to gemm_i8. */
    pl_status (*conv_i8)(pl_pool *pool, const pl_conv_shape *shape, const void *x, bool x_signed,
                         int32_t x_zero, const void *w, bool w_signed, pl_gemm_i8_zero w_zero,
                         pl_i32 *y, bool *served, pl_err *err);
    /* (optional) Without one, the columns go to the provider's products. */
    pl_status (*conv_f32)(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                          const pl_f32 *w, const pl_f32 *bias, pl_f32 *y, pl_conv_state **state,
                          bool *served, pl_err *err);
    pl_status (*conv_f64)(pl_pool *pool, const pl_conv_shape *shape, const pl_f64 *x,
                          const pl_f64 *w, const pl_f64 *bias, pl_f64 *y, pl_conv_state **state,
                          bool *served, pl_err *err);
    /* (optional) Without one, the columns are a product. */
    pl_status (*conv_transpose_f32)(const pl_conv_shape *shape, const pl_f32 *x, const pl_f32 *w,
                                    const pl_f32 *bias, pl_f32 *y, pl_err *err);
    pl_status (*conv_transpose_f64)(const pl_conv_shape *shape, const pl_f64 *x, const pl_f64 *w,
                                    const pl_f64 *bias, pl_f64 *y, pl_err *err);
};

extern const pl_provider pl_provider_own, pl_provider_plain, pl_provider_blas, pl_provider_onednn,
    pl_provider_saturate;
extern const pl_provider *const pl_provider_rows[]; /* NULL at the end */
#define PL_PROVIDER_NAMES "own|plain|blas|onednn|saturate"

/* Opens the provider of this name; NULL is the default of the process. Unknown names are
 * PL_E_USAGE, a missing library is PL_E_NOT_FOUND. */
pl_status pl_provider_find(const char *name, const pl_provider **out, pl_err *err);
/* `by`, or the default of the process when it is NULL. PLUMB_KERNELS is read once. */
pl_status pl_provider_of(const pl_provider *by, const pl_provider **out, pl_err *err);

/* For reports: "own", "blas (OpenBLAS 0.3.21 SkylakeX)". `by` must be open. Returns the length
 * needed, like snprintf. */
size_t pl_provider_describe(const pl_provider *by, char *out, size_t n_bytes);

/* The version, or "VERSION blas (…)": other kernels are a different implementation, and their runs
 * must be distinguishable. */
void pl_provider_version(const pl_provider *by, char *out, size_t n_bytes);

#endif
