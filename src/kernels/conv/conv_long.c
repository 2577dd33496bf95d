/* The plain convolution in float, made fast. Each output is the same sum (input channel, then tap,
 * in one float), but it is computed as a product (pl_conv_chain), or outputs of a plane are
 * vectorised and channels run in parallel. The bits are those of pl_conv_plain_f32; blame uses it
 * to replay what a naive runtime would compute. */
#include "base/size.h"
#include "kernels/conv/conv_int.h"

typedef struct long_job {
    pl_conv_geo g;
    const pl_f32 *x, *w, *bias;
    pl_f32 *y;
} long_job;

/* y[o] += x[o * stride] * w for the outputs of one row. */
static void add_row(const pl_f32 *x, int64_t stride, float w, pl_f32 *y, int64_t n) {
    if (stride == 1) {
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i] * w;
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i] += x[i * stride] * w;
    }
}

/* For taps in the padding: 0 times a number adds nothing, but 0 times Inf is NaN. */
static void add_padding(const pl_conv_geo *g, const int64_t first[3], const int64_t last[3],
                        float w, pl_f32 *y) {
    const float product = 0 * w;
    if (product == 0) return;
    for (int64_t o = 0; o < g->n_out; o++) {
        const int64_t at[] = { o / g->out[2] / g->out[1], o / g->out[2] % g->out[1],
                               o % g->out[2] };
        bool inside = true;
        for (int d = 0; d < 3; d++)
            inside = inside && at[d] >= first[d] && at[d] < last[d];
        if (!inside) y[o] += product;
    }
}

static void add_tap(const pl_conv_geo *g, const pl_f32 *x, const int64_t tap[3], float w,
                    pl_f32 *y) {
    int64_t first[3], last[3], at[3];
    for (int d = 0; d < 3; d++) {
        at[d] = tap[d] * g->dilation[d] - g->pad[d];
        pl_conv_span(at[d], g->stride[d], g->in[d], g->out[d], &first[d], &last[d]);
    }
    for (int64_t z = first[0]; z < last[0]; z++) {
        for (int64_t r = first[1]; r < last[1]; r++) {
            const int64_t plane = z * g->stride[0] + at[0], row = r * g->stride[1] + at[1];
            const int64_t column = first[2] * g->stride[2] + at[2];
            add_row(x + (plane * g->in[1] + row) * g->in[2] + column, g->stride[2], w,
                    y + (z * g->out[1] + r) * g->out[2] + first[2], last[2] - first[2]);
        }
    }
    add_padding(g, first, last, w, y);
}

static void channel_range(void *ctx, int64_t begin, int64_t end) {
    const long_job *j = ctx;
    const pl_conv_geo *g = &j->g;
    const int64_t co = g->groups * g->co;
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i % co, group = i / co * g->groups + channel / g->co;
        pl_f32 *y = j->y + i * g->n_out;
        for (int64_t o = 0; o < g->n_out; o++)
            y[o] = 0;
        for (int64_t ci = 0; ci < g->ci; ci++) {
            const pl_f32 *x = j->x + (group * g->ci + ci) * g->n_in;
            const pl_f32 *w = j->w + (channel * g->ci + ci) * g->n_taps;
            for (int64_t t = 0; t < g->n_taps; t++) {
                const int64_t tap[] = { t / g->kernel[2] / g->kernel[1],
                                        t / g->kernel[2] % g->kernel[1], t % g->kernel[2] };
                add_tap(g, x, tap, w[t], y);
            }
        }
        for (int64_t o = 0; j->bias != NULL && o < g->n_out; o++)
            y[o] += j->bias[channel];
    }
}

pl_status pl_conv_long_f32(pl_pool *pool, const pl_conv_shape *shape, const pl_f32 *x,
                           const pl_f32 *w, const pl_f32 *bias, pl_f32 *y, pl_err *err) {
    long_job j = { .x = x, .w = w, .bias = bias, .y = y };
    PL_TRY(pl_conv_geo_of(shape, &j.g, err));
    if (j.g.n_out == 0) return PL_OK;
    bool served = false;
    PL_TRY(pl_conv_chain_f32(pool, &j.g, x, w, bias, y, &served, err));
    if (served) return PL_OK;
    pl_pool_for(pool, j.g.batch * j.g.groups * j.g.co, 1, channel_range, &j);
    return PL_OK;
}
