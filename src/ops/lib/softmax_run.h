/* Softmax along one axis of float or double arrays, for operators that contain one. */
#ifndef PL_SOFTMAX_RUN_H
#define PL_SOFTMAX_RUN_H

#include "ops/lib/float_io.h"

typedef enum pl_softmax_kind { PL_SOFTMAX, PL_LOG_SOFTMAX, PL_HARDMAX } pl_softmax_kind;

typedef struct pl_softmax {
    pl_softmax_kind kind;
    pl_axis_view view;
    int64_t n_segments;
    const void *x; /* pl_f32 or pl_f64 */
    void *y;
    bool naive; /* f32: sum the denominator in one float, in index order */
} pl_softmax;
void pl_softmax_rows(pl_pool *pool, pl_softmax *j, bool is_f64);

/* x and y are (outer, n, inner) and may be the same where inner is 1. None is empty. */
void pl_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64);
void pl_log_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64);

#endif
