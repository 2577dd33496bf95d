/* Plain convolutions: the reference for tests of the fast ones, and the fallback. */
#include <string.h>

#include "base/size.h"
#include "kernels/conv/conv_int.h"

/* Input position of output o and tap k of dim d; -1 when it is padding. */
static int64_t cell(const pl_conv_geo *g, int d, int64_t o, int64_t k) {
    const int64_t i = o * g->stride[d] - g->pad[d] + k * g->dilation[d];
    return i >= 0 && i < g->in[d] ? i : -1;
}

/* Flat input position for output `at` and tap `tap` of one channel; -1 when it is padding. */
static int64_t cell_of(const pl_conv_geo *g, int64_t at, int64_t tap) {
    const int64_t x = cell(g, 2, at % g->out[2], tap % g->kernel[2]);
    const int64_t y = cell(g, 1, at / g->out[2] % g->out[1], tap / g->kernel[2] % g->kernel[1]);
    const int64_t z = cell(g, 0, at / g->out[2] / g->out[1], tap / g->kernel[2] / g->kernel[1]);
    return x < 0 || y < 0 || z < 0 ? -1 : (z * g->in[1] + y) * g->in[2] + x;
}

#define PLAIN(suffix, T, E)                                                                        \
    void pl_conv_direct_##suffix(const pl_conv_geo *g, const E *x, const E *w, const E *bias,      \
                                 int64_t channel, E *y) {                                          \
        const E *wc = w + channel * g->ci * g->n_taps,                                             \
                *xc = x + channel / g->co * g->ci * g->n_in;                                       \
        for (int64_t at = 0; at < g->n_out; at++) {                                                \
            T sum = 0;                                                                             \
            for (int64_t ci = 0; ci < g->ci; ci++)                                                 \
                for (int64_t tap = 0; tap < g->n_taps; tap++) {                                    \
                    const int64_t i = cell_of(g, at, tap);                                         \
                    const T v = i < 0 ? 0 : xc[ci * g->n_in + i]; /* 0 times Inf is NaN */         \
                    sum += v * wc[ci * g->n_taps + tap];                                           \
                }                                                                                  \
            y[at] = bias == NULL ? sum : sum + bias[channel];                                      \
        }                                                                                          \
    }                                                                                              \
    pl_status pl_conv_plain_##suffix(const pl_conv_shape *shape, const E *x, const E *w,           \
                                     const E *bias, E *y, pl_err *err) {                           \
        pl_conv_geo g;                                                                             \
        PL_TRY(pl_conv_geo_of(shape, &g, err));                                                    \
        for (int64_t b = 0; b < g.batch; b++)                                                      \
            for (int64_t c = 0; c < g.groups * g.co; c++)                                          \
                pl_conv_direct_##suffix(&g, x + b * g.groups * g.ci * g.n_in, w, bias, c,          \
                                        y + (b * g.groups * g.co + c) * g.n_out);                  \
        return PL_OK;                                                                              \
    }                                                                                              \
    pl_status pl_conv_transpose_plain_##suffix(const pl_conv_shape *shape, const E *x, const E *w, \
                                               const E *bias, E *y, pl_err *err) {                 \
        pl_conv_geo g;                                                                             \
        PL_TRY(pl_conv_geo_of(shape, &g, err));                                                    \
        pl_conv_geo back = g; /* roles of x and y swapped, so that cell_of maps cells of x to y */ \
        memcpy(back.in, g.out, sizeof back.in);                                                    \
        memcpy(back.out, g.in, sizeof back.out);                                                   \
        for (int64_t i = 0; i < g.batch * g.groups * g.co * g.n_out; i++)                          \
            y[i] = 0;                                                                              \
        for (int64_t b = 0; b < g.batch; b++)                                                      \
            for (int64_t c = 0; c < g.groups * g.co; c++) {                                        \
                E *yc = y + (b * g.groups * g.co + c) * g.n_out;                                   \
                for (int64_t q = 0; q < g.ci; q++) {                                               \
                    const int64_t ci = c / g.co * g.ci + q;                                        \
                    const E *xc = x + (b * g.groups * g.ci + ci) * g.n_in;                         \
                    const E *wc = w + (ci * g.co + c % g.co) * g.n_taps;                           \
                    for (int64_t at = 0; at < g.n_in; at++)                                        \
                        for (int64_t tap = 0; tap < g.n_taps; tap++) {                             \
                            const int64_t i = cell_of(&back, at, tap);                             \
                            if (i >= 0) yc[i] += xc[at] * wc[tap];                                 \
                        }                                                                          \
                }                                                                                  \
                for (int64_t i = 0; bias != NULL && i < g.n_out; i++)                              \
                    yc[i] += bias[c];                                                              \
            }                                                                                      \
        return PL_OK;                                                                              \
    }
PLAIN(f32, float, pl_f32)
PLAIN(f64, double, pl_f64)
#undef PLAIN

static int32_t value_i8(const void *p, int64_t i, bool is_signed) {
    return is_signed ? ((const int8_t *)p)[i] : ((const uint8_t *)p)[i];
}

pl_status pl_conv_plain_i8(const pl_conv_shape *shape, const void *x, bool x_signed, int32_t x_zero,
                           const void *w, bool w_signed, pl_gemm_i8_zero w_zero, pl_i32 *y,
                           pl_err *err) {
    pl_conv_geo g;
    PL_TRY(pl_conv_geo_of(shape, &g, err));
    const int64_t co = g.groups * g.co, ci = g.groups * g.ci;
    for (int64_t b = 0; b < g.batch; b++)
        for (int64_t c = 0; c < co; c++) {
            const int32_t zero = w_zero.value == NULL ? 0 : w_zero.value[c * w_zero.step];
            for (int64_t at = 0; at < g.n_out; at++) {
                uint32_t sum = 0;
                for (int64_t q = 0; q < g.ci; q++)
                    for (int64_t tap = 0; tap < g.n_taps; tap++) {
                        const int64_t i = cell_of(&g, at, tap),
                                      channel = b * ci + c / g.co * g.ci + q;
                        if (i < 0) continue;
                        const int32_t a = value_i8(x, channel * g.n_in + i, x_signed) - x_zero;
                        const int32_t v =
                            value_i8(w, (c * g.ci + q) * g.n_taps + tap, w_signed) - zero;
                        sum += (uint32_t)(a * v);
                    }
                y[(b * co + c) * g.n_out + at] = (int32_t)sum;
            }
        }
    return PL_OK;
}
