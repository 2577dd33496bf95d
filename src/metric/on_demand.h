/* Metrics that the single pass does not give, computed on request: quantiles of the error,
 * agreement of argmax and top-k, metrics per channel. NaN and Inf as in accumulate.h. */
#ifndef PL_ON_DEMAND_H
#define PL_ON_DEMAND_H

#include "metric/accumulate.h"

typedef enum pl_error_kind { PL_ERROR_ABS, PL_ERROR_REL } pl_error_kind;

/* out[i] = the q[i] quantile (0 … 1) of |d|, or of |d| / |r| over |r| > floor, by linear
 * interpolation between neighbours; 0 when there is no element. Real numeric tensors; takes memory
 * for one double an element. */
pl_status pl_error_quantiles(const pl_tensor *a, const pl_tensor *r, pl_error_kind kind,
                             const double *q, size_t n_q, double *out, pl_err *err);

typedef struct pl_top_agreement {
    int64_t n_rows;
    int64_t n_argmax;      /* rows whose first maximum is at the same position */
    int64_t n_argmax_tied; /* rows where a's choice is a maximum of r too; at least n_argmax */
    double topk;           /* mean share of r's top k that a's top k holds; 1 without rows */
} pl_top_agreement;
/* Along one axis (negative counts from the end). NaN ranks above everything, ties go to the lower
 * index, on both sides. 1 <= k <= 1024; more than the axis has means all. */
pl_status pl_top_agree(const pl_tensor *a, const pl_tensor *r, int axis, int64_t k,
                       pl_top_agreement *out, pl_err *err);

/* out[c] for every index c of the axis; element indices count within the channel. */
pl_status pl_accumulate_channels(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, int axis,
                                 pl_accumulators *out, pl_err *err);

#endif
