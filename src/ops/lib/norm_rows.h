/* Normalising rows: the loop that layer, instance, group and RMS normalisation share.
 *
 * y = (x - mean) / sqrt(variance + epsilon) * scale + bias, mean and variance (divided by n) taken
 * over each row in double; with `rms` the mean is left out and the variance is the mean square.
 * `block` adjacent elements share one scale, so a row uses n / block scales; row r starts at scale
 * (r % period) * (n / block). */
#ifndef PL_NORM_ROWS_H
#define PL_NORM_ROWS_H

#include "ops/infer.h"
#include "ops/lib/float_io.h"

typedef struct pl_norm {
    int64_t rows, n, block, period;
    bool rms;
    bool naive; /* floats: sums in index order in one float (pl_eval.naive) */
    double epsilon;
    const void *x, *scale, *bias; /* pl_f32 or pl_f64; scale and bias may be NULL */
    void *y;                      /* may be x */
    void *mean, *inverse;         /* one for each row, or NULL; inverse = 1 / sqrt(…) */
} pl_norm;
void pl_norm_run(pl_pool *pool, const pl_norm *norm, bool is_f64);

/* Input i, broadcast to x, as floats: one set for all rows (elements of dims from `axis` on), or
 * with `whole` one for each element of x. NULL when left out or out of memory. */
const void *pl_norm_scale(pl_eval *c, int i, const pl_tensor *x, int axis, bool whole, bool is_f64);
/* Does input i differ from row to row? */
bool pl_norm_scale_is_whole(const pl_eval *c, int i, const pl_tensor *x, int axis);
/* NaN everywhere, for the statistics of rows without elements. */
void pl_norm_fill_nan(pl_tensor *t);

/* ---- shape rules ---- */
/* Input i has one dim of the given size (when both are known), else an error that names it. */
pl_status pl_norm_check_length(pl_infer *c, int i, pl_dim size, const char *what);
/* Input i must broadcast to input 0 by NumPy's rules, not the other way round. */
pl_status pl_norm_check_onto(pl_infer *c, int i, const char *what);

#endif
