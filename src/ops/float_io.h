/* Kernels that know float and double only: other float types are converted at the door.
 *
 * F64 computes in double; F32, F16 and BF16 compute in float and are rounded once at the end. */
#ifndef PL_FLOAT_IO_H
#define PL_FLOAT_IO_H

#include "ops/eval.h"

/* Where a kernel may write output i as float or double: the tensor itself, or scratch when it has
 * another type. NULL when the output is not wanted or memory ran out. */
static inline pl_f32 *pl_out_f32(pl_eval *c, int i) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || t->dtype == PL_F32) return t == NULL ? NULL : t->data;
    return pl_scratch(c, (size_t)t->n_elements + 1, sizeof(float));
}
static inline pl_f64 *pl_out_f64(pl_eval *c, int i) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || t->dtype == PL_F64) return t == NULL ? NULL : t->data;
    return pl_scratch(c, (size_t)t->n_elements + 1, sizeof(double));
}
/* Rounds what was written to the output's type; nothing to do when it went there directly. */
static inline void pl_out_f32_done(pl_eval *c, int i, const pl_f32 *from) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || t->dtype == PL_F32 || from == NULL) return;
    pl_store_f32(t->dtype, (const float *)from, t->data, (size_t)t->n_elements);
}
static inline void pl_out_f64_done(pl_eval *c, int i, const pl_f64 *from) {
    pl_tensor *t = pl_out(c, i);
    if (t == NULL || t->dtype == PL_F64 || from == NULL) return;
    pl_store_f64(t->dtype, (const double *)from, t->data, (size_t)t->n_elements);
}

/* Rows of n elements that one unit of work takes, so that threads pay. */
static inline int64_t pl_rows_grain(int64_t n) {
    enum { UNIT_MIN = 16 * 1024 };
    return n > 0 && n < UNIT_MIN ? UNIT_MIN / n : 1;
}

/* A shape seen as (outer, n, inner) around axes first..last-1. */
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
