/* Pooling: windows, and loops for any number of spatial dims. */
#ifndef PL_POOL_WINDOW_H
#define PL_POOL_WINDOW_H

#include "kernels/pool/pooling.h"
#include "ops/eval.h"
#include "ops/infer.h"
#include "ops/lib/window.h"

/* Windows over x (N, C, spatial…). */
pl_status pl_pool_window(const pl_eval *c, const pl_tensor *x, pl_window *out);
/* For the kernels; 1 to 3 spatial dims. */
pl_pooling_shape pl_pooling_shape_of(const pl_window *w, const pl_tensor *x);

typedef enum pl_pool_kind { PL_POOL_MAX, PL_POOL_AVERAGE, PL_POOL_LP } pl_pool_kind;
typedef struct pl_pool_rule {
    pl_pool_kind kind;
    bool count_include_pad;
    double p;
    bool column_major; /* of the indices */
} pl_pool_rule;
/* Any number of spatial dims, in double. indices may be NULL. */
void pl_pool_any(pl_pool *pool, const pl_window *w, const pl_pool_rule *rule, int64_t planes,
                 const pl_f64 *x, pl_f64 *y, pl_i64 *indices);

#endif
