/* Integer convolution: columns of a strip of outputs, then the integer product. Padding is written
 * as x_zero, which the product subtracts again. Exact modulo 2^32. */
#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

enum { COLS_MAX = 4 << 20 }; /* bytes of columns held at a time */

typedef struct int_conv {
    const pl_conv_geo *g;
    const pl_provider *by;
    bool x_signed, w_signed;
    int32_t x_zero;
    pl_gemm_i8_zero w_zero;
    int64_t step; /* outputs per strip */
} int_conv;

/* One group of one batch item. */
static pl_status group_run(pl_pool *pool, const int_conv *c, const uint8_t *x, const uint8_t *w,
                           const pl_i32 *w_zero, pl_i32 *y, uint8_t *cols, pl_err *err) {
    const pl_conv_geo *g = c->g;
    const int64_t k = g->ci * g->n_taps;
    const pl_i32 x_zero = c->x_zero;
    const pl_gemm_i8_zero zx = { &x_zero, 0, 0 }, zw = { w_zero, c->w_zero.step, 0 };
    pl_conv_columns m = {
        .g = g, .x = x, .elem_bytes = 1, .fill = (uint8_t)c->x_zero, .cols = cols
    };
    for (m.first = 0; m.first < g->n_out; m.first += c->step) {
        m.n = pl_i64_min(c->step, g->n_out - m.first);
        pl_conv_columns_fill(pool, &m);
        const pl_gemm_shape s = {
            .m = g->co, .n = m.n, .k = k, .ldc = g->n_out, .batch = 1, .by = c->by
        };
        PL_TRY(pl_gemm_i8(pool, &s, w, c->w_signed, zw, cols, c->x_signed, zx, y + m.first, err));
    }
    return PL_OK;
}

pl_status pl_conv_i8(pl_pool *pool, const pl_conv_shape *shape, const void *x, bool x_signed,
                     int32_t x_zero, const void *w, bool w_signed, pl_gemm_i8_zero w_zero,
                     pl_i32 *y, pl_err *err) {
    pl_conv_geo g;
    PL_TRY(pl_conv_geo_of(shape, &g, err));
    if (x_zero < (x_signed ? -128 : 0) || x_zero > (x_signed ? 127 : 255))
        return pl_fail(err, PL_E_INVALID, "convolution: zero point %d of x does not fit its type",
                       (int)x_zero);
    if (g.batch == 0 || g.co == 0 || g.n_out == 0) return PL_OK;
    const int64_t k = g.ci * g.n_taps;
    const pl_provider *by = NULL;
    bool served = false;
    PL_TRY(pl_provider_of(shape->by, &by, err));
    if (by->conv_i8 != NULL) {
        PL_TRY(by->conv_i8(pool, shape, x, x_signed, x_zero, w, w_signed, w_zero, y, &served, err));
    }
    if (served) return PL_OK;
    int_conv c = { &g, by, x_signed, w_signed, x_zero, w_zero, 0 };
    c.step = pl_i64_min(g.n_out, pl_i64_max(128, COLS_MAX / pl_i64_max(k, 1)));
    size_t bytes;
    if (!pl_size_mul((size_t)pl_i64_max(k, 1), (size_t)c.step, &bytes))
        return pl_fail_memory(err, SIZE_MAX);
    uint8_t *cols = pl_malloc(bytes);
    if (cols == NULL) return pl_fail_memory(err, bytes);
    pl_status st = PL_OK;
    for (int64_t item = 0; item < g.batch * g.groups && st == PL_OK; item++) {
        const int64_t channel = item % g.groups * g.co;
        const pl_i32 *zero = w_zero.value == NULL ? NULL : w_zero.value + channel * w_zero.step;
        st =
            group_run(pool, &c, (const uint8_t *)x + item * g.ci * g.n_in,
                      (const uint8_t *)w + channel * k, zero, y + item * g.co * g.n_out, cols, err);
    }
    pl_free(cols);
    return st;
}
