#include "metric/overflow.h"

#include <math.h>

enum { RUN = 512 };

int64_t pl_overflow_count(const pl_tensor *a, const pl_tensor *gold, bool in_range) {
    double x[RUN], g[RUN];
    int64_t n = 0;
    if (!pl_dtype_is_float(a->dtype) || !pl_dtype_is_float(gold->dtype) ||
        !pl_tensor_same_shape(a, gold) || !pl_tensor_is_contiguous(a) ||
        !pl_tensor_is_contiguous(gold))
        return 0;
    for (int64_t at = 0; at < a->n_elements; at += RUN) {
        const size_t m = (size_t)(a->n_elements - at < RUN ? a->n_elements - at : RUN);
        pl_load_f64(a->dtype, (const char *)a->data + (size_t)at * pl_dtype_bytes(a->dtype), x, m);
        for (size_t i = 0; i < m; i++) {
            if (isfinite(x[i])) continue;
            pl_load_f64(gold->dtype,
                        (const char *)gold->data + ((size_t)at + i) * pl_dtype_bytes(gold->dtype),
                        g, 1);
            if (!isfinite(g[0])) continue;
            /* A value beyond the range of the type rounds to Inf: that is correct, not an
             * overflow. */
            double back = g[0];
            unsigned char one[16];
            pl_store_f64(a->dtype, &back, one, 1);
            pl_load_f64(a->dtype, one, &back, 1);
            n += isfinite(back) || !in_range;
        }
    }
    return n;
}
