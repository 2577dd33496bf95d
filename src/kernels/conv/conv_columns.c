/* Columns of a convolution (im2col): the input of each output, tap by tap. */
#include <string.h>

#include "base/size.h"
#include "kernels/conv/conv_int.h"

/* to[i] = from[i * step] */
static void gather(size_t elem_bytes, const uint8_t *from, int64_t step, int64_t n, uint8_t *to) {
    const int64_t size = (int64_t)elem_bytes;
    if (step == 1) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    for (int64_t i = 0; i < n; i++) { /* copies of a fixed size are one move each */
        if (elem_bytes == 1)
            to[i] = from[i * step];
        else if (elem_bytes == 4)
            memcpy(to + i * 4, from + i * step * 4, 4);
        else
            memcpy(to + i * 8, from + i * step * 8, 8);
    }
}

/* n outputs from `at` on, all in one output row, for one tap. */
static void columns_run(const pl_conv_columns *m, const uint8_t *x, int64_t tap, int64_t at,
                        int64_t n, uint8_t *to) {
    const pl_conv_geo *g = m->g;
    const int64_t size = (int64_t)m->elem_bytes;
    const int64_t ox = at % g->out[2], oy = at / g->out[2] % g->out[1],
                  oz = at / g->out[2] / g->out[1];
    const int64_t y =
        oy * g->stride[1] - g->pad[1] + tap / g->kernel[2] % g->kernel[1] * g->dilation[1];
    const int64_t z =
        oz * g->stride[0] - g->pad[0] + tap / g->kernel[2] / g->kernel[1] * g->dilation[0];
    const int64_t start = ox * g->stride[2] - g->pad[2] + tap % g->kernel[2] * g->dilation[2];
    int64_t lo = 0, hi = 0;
    if (y >= 0 && y < g->in[1] && z >= 0 && z < g->in[0])
        pl_conv_span(start, g->stride[2], g->in[2], n, &lo, &hi);
    memset(to, m->fill, (size_t)(lo * size));
    memset(to + hi * size, m->fill, (size_t)((n - hi) * size));
    if (hi <= lo) return;
    const int64_t first = (z * g->in[1] + y) * g->in[2] + start + lo * g->stride[2];
    gather(m->elem_bytes, x + first * size, g->stride[2], hi - lo, to + lo * size);
}

static void columns_range(void *ctx, int64_t begin, int64_t end) {
    const pl_conv_columns *m = ctx;
    const pl_conv_geo *g = m->g;
    const int64_t size = (int64_t)m->elem_bytes;
    for (int64_t k = begin; k < end; k++)
        for (int64_t i = 0; i < m->n;) {
            const int64_t at = m->first + i;
            const int64_t n = pl_i64_min(g->out[2] - at % g->out[2], m->n - i);
            columns_run(m, (const uint8_t *)m->x + k / g->n_taps * g->n_in * size, k % g->n_taps,
                        at, n, (uint8_t *)m->cols + (k * m->n + i) * size);
            i += n;
        }
}

void pl_conv_columns_fill(pl_pool *pool, pl_conv_columns *columns) {
    pl_pool_for(pool, columns->g->ci * columns->g->n_taps, 16, columns_range, columns);
}
