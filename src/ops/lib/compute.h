/* Float operands of matrix products and convolutions: low precision is converted to f32, computed,
 * and rounded once. Data derived from constant weights is kept between runs. */
#ifndef PL_COMPUTE_H
#define PL_COMPUTE_H

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm_stored.h"
#include "ops/eval.h"

/* A node's state: everything derived from one constant weight. */
typedef struct pl_kept {
    const void *from; /* the weight's data, when f32 was made from it */
    float *f32;       /* owned */
    pl_gemm_state *gemm;
    pl_conv_state *conv;
    bool forgot; /* the weight's pages, since it was packed */
    bool large;  /* products pack it anew, in pieces: a packed copy would double the memory */
} pl_kept;

/* The node's state for weight input i; NULL when it is not constant or nothing can be kept. */
pl_kept *pl_kept_of(pl_eval *c, int i);
static inline pl_gemm_state **pl_kept_gemm(pl_kept *kept) {
    return kept == NULL || kept->large ? NULL : &kept->gemm;
}
static inline pl_conv_state **pl_kept_conv(pl_kept *kept) {
    return kept == NULL ? NULL : &kept->conv;
}

/* After a product with weight i: when it has been packed, its pages in the model's file go. */
void pl_kept_forget(pl_kept *kept, const pl_eval *c, int i);

/* Input i as f32; a conversion is made in `kept`, or in scratch when that is NULL. NULL when out of
 * memory. */
const pl_f32 *pl_compute_in_f32(pl_eval *c, int i, pl_kept *kept);
/* Half floats of which no wider copy should be made? */
bool pl_compute_is_large_half(const pl_tensor *t);
/* Is input i one of them, the B of one product that our own kernels compute? Then
 * pl_gemm_stored_f32 reads it as it is. */
bool pl_compute_stays_half(const pl_eval *c, int i, const pl_gemm_shape *shape, pl_stored *out);
/* Buffer to compute a float output in as f32: its own data if it is F32, else scratch. */
pl_f32 *pl_compute_out_f32(pl_eval *c, pl_tensor *y);
/* Rounds the buffer of pl_compute_out_f32 into y; nothing to do when y is F32. */
void pl_compute_store(pl_eval *c, pl_tensor *y, const pl_f32 *from);

/* Converts blocks in parallel. */
void pl_compute_load_f32(pl_pool *pool, pl_dtype dtype, const void *from, float *to, int64_t n);
void pl_compute_store_f32(pl_pool *pool, pl_dtype dtype, const float *from, void *to, int64_t n);

#endif
