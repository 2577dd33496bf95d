/* Softmax along one axis of float or double arrays, for operators that contain one. */
#ifndef PL_SOFTMAX_RUN_H
#define PL_SOFTMAX_RUN_H

#include "ops/float_io.h"

/* x and y are (outer, n, inner) and may be the same where inner is 1. None is empty. */
void pl_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64);
void pl_log_softmax_run(pl_pool *pool, pl_axis_view view, const void *x, void *y, bool is_f64);

#endif
