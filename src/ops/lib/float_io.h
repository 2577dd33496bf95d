/* For kernels with loops for float and double only: other float types are converted on entry and
 * exit.
 *
 * F64 computes in double; F32, F16 and BF16 compute in float and are rounded once at the end. A
 * kernel picks one of the two by `is_f64` and then sees pl_f32 or pl_f64 arrays. */
#ifndef PL_FLOAT_IO_H
#define PL_FLOAT_IO_H

#include "ops/eval.h"

/* The whole input; NULL when it is left out or memory ran out. */
static inline const void *pl_in_floats(pl_eval *c, int i, bool is_f64) {
    return is_f64 ? (const void *)pl_in_f64(c, i) : (const void *)pl_in_f32(c, i);
}

static inline bool pl_floats_direct(const pl_tensor *t, bool is_f64) {
    return t->dtype == (is_f64 ? PL_F64 : PL_F32);
}

/* Buffer to write output i to: the tensor itself, or scratch when it has another type. NULL when
 * the output is not wanted or memory ran out. */
static inline void *pl_out_floats(pl_eval *c, int i, bool is_f64) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || pl_floats_direct(t, is_f64)) return t == NULL ? NULL : t->data;
    return pl_scratch(c, (size_t)t->n_elements + 1, is_f64 ? sizeof(double) : sizeof(float));
}

/* Rounds the buffer to the output's type; nothing to do when it is the tensor itself. */
static inline void pl_out_floats_done(pl_eval *c, int i, const void *from, bool is_f64) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || from == NULL || pl_floats_direct(t, is_f64)) return;
    if (is_f64) {
        pl_store_f64(t->dtype, from, t->data, (size_t)t->n_elements);
    } else {
        pl_store_f32(t->dtype, from, t->data, (size_t)t->n_elements);
    }
}

/* Rows of n elements per unit of work, enough for threads to pay off. */
static inline int64_t pl_rows_grain(int64_t n) {
    enum { UNIT_MIN = 16 * 1024 };
    return n > 0 && n < UNIT_MIN ? UNIT_MIN / n : 1;
}

/* A shape as (outer, n, inner) around dims first..last-1. Not for empty tensors, whose other dims
 * may overflow the product. */
typedef struct pl_axis_view {
    int64_t outer, n, inner;
} pl_axis_view;
static inline pl_axis_view pl_axis_view_of(const pl_tensor *t, int first, int last) {
    pl_axis_view v = { 1, 1, 1 };
    for (int d = 0; d < t->rank; d++) {
        int64_t *part = d < first ? &v.outer : d < last ? &v.n : &v.inner;
        *part *= t->dims[d];
    }
    return v;
}

#endif
