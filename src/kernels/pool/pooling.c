/* Max and average pooling: row by row, each tap over a whole row of outputs. */
#include "kernels/pool/pooling.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"

typedef struct geo {
    pl_conv_geo c;
    int64_t pad_end[3];
} geo;

static pl_status geo_of(const pl_pooling_shape *s, geo *out, pl_err *err) {
    pl_conv_shape c = {
        .n_spatial = s->n_spatial, .batch = s->planes, .c_in = 1, .c_out = 1, .groups = 1
    };
    if (s->n_spatial < 1 || s->n_spatial > 3)
        return pl_fail(err, PL_E_UNSUPPORTED, "pooling: %d spatial dims, expected 1 to 3",
                       s->n_spatial);
    memset(out->pad_end, 0, sizeof out->pad_end);
    for (int i = 0; i < s->n_spatial; i++) {
        c.in[i] = s->in[i];
        c.out[i] = s->out[i];
        c.kernel[i] = s->kernel[i];
        c.stride[i] = s->stride[i];
        c.dilation[i] = s->dilation[i];
        c.pad_begin[i] = s->pad_begin[i];
        out->pad_end[3 - s->n_spatial + i] = s->pad_end[i];
        if (s->pad_end[i] < -((int64_t)1 << 30) || s->pad_end[i] > (int64_t)1 << 30)
            return pl_fail(err, PL_E_LIMIT, "pooling: end padding %lld", (long long)s->pad_end[i]);
    }
    return pl_conv_geo_of(&c, &out->c, err);
}

/* Iterates over the taps inside the input for one row of outputs. Padding and dilation may be huge,
 * but only taps inside the input cost time. */
typedef struct tap_walk {
    const pl_conv_geo *g;
    int64_t row;
    int64_t lo[3], hi[3]; /* taps of dims 0 and 1 for this row, of dim 2 for any output */
    int64_t at[3];
    int64_t from;        /* offset of the cell of output 0, possibly outside the row */
    int64_t first, last; /* outputs whose cell is inside */
} tap_walk;

static tap_walk walk_of(const pl_conv_geo *g, int64_t row) {
    tap_walk w = { .g = g, .row = row };
    const int64_t o[2] = { row / g->out[1], row % g->out[1] };
    for (int d = 0; d < 2; d++)
        pl_conv_span(o[d] * g->stride[d] - g->pad[d], g->dilation[d], g->in[d], g->kernel[d],
                     &w.lo[d], &w.hi[d]);
    const int64_t reach = (g->out[2] - 1) * g->stride[2];
    pl_conv_span(reach - g->pad[2], g->dilation[2], g->in[2] + reach, g->kernel[2], &w.lo[2],
                 &w.hi[2]);
    memcpy(w.at, w.lo, sizeof w.at);
    return w;
}

static bool walk_next(tap_walk *w) {
    const pl_conv_geo *g = w->g;
    if (w->hi[1] <= w->lo[1] || w->hi[2] <= w->lo[2]) return false;
    while (w->at[0] < w->hi[0]) {
        const int64_t z = w->row / g->out[1] * g->stride[0] - g->pad[0] + w->at[0] * g->dilation[0];
        const int64_t y = w->row % g->out[1] * g->stride[1] - g->pad[1] + w->at[1] * g->dilation[1];
        const int64_t x = w->at[2] * g->dilation[2] - g->pad[2];
        pl_conv_span(x, g->stride[2], g->in[2], g->out[2], &w->first, &w->last);
        w->from = (z * g->in[1] + y) * g->in[2] + x;
        if (++w->at[2] == w->hi[2]) {
            w->at[2] = w->lo[2];
            if (++w->at[1] == w->hi[1]) {
                w->at[1] = w->lo[1];
                w->at[0]++;
            }
        }
        if (w->last > w->first) return true;
    }
    return false;
}

/* Number of cells that count for output o of dim d: inside the input, or with padding. */
static double cells(const geo *p, int d, int64_t o, bool with_pad) {
    const pl_conv_geo *g = &p->c;
    const int64_t lo = with_pad ? -g->pad[d] : 0,
                  hi = with_pad ? g->in[d] + p->pad_end[d] : g->in[d];
    int64_t first, last;
    pl_conv_span(o * g->stride[d] - g->pad[d] - lo, g->dilation[d], hi - lo, g->kernel[d], &first,
                 &last);
    return (double)(last - first);
}

/* ONNX storage_order 1: the first spatial dim varies fastest. */
static int64_t column_major_of(const pl_conv_geo *g, int64_t at) {
    const int64_t x = at % g->in[2], y = at / g->in[2] % g->in[1], z = at / g->in[2] / g->in[1];
    return z + g->in[0] * (y + g->in[1] * x);
}

enum {
    COLUMNS_MAX = 2048, /* wider rows are pooled tap by tap */
    ROWS_MAX = 16
};

typedef struct job {
    const geo *p;
    const pl_conv_table *t;
    const void *x;
    void *y;
    pl_i64 *indices;
    bool column_major, with_pad;
    const double *counts; /* cells of each output column */
    atomic_bool failed;
} job;

/* Planes per task: about a hundred thousand steps. */
static int64_t plane_grain(const geo *p) {
    const double work = (double)p->c.n_out * (double)p->c.n_taps + 1;
    return work > 1e5 ? 1 : (int64_t)(1e5 / work) + 1;
}

#define T float
#define E pl_f32
#define S(name) name##_f32
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#include "kernels/pool/pooling_average.inc"
#include "kernels/pool/pooling_max.inc"
#undef T
#undef E
#undef S
#undef LOWEST
#define T double
#define E pl_f64
#define S(name) name##_f64
#define LOWEST (-(double)INFINITY)
#include "kernels/pool/pooling_average.inc"
#include "kernels/pool/pooling_max.inc"
#undef T
#undef E
#undef S
#undef LOWEST
#undef IS_NAN
#define IS_NAN(v) false
#define MAX_PLAIN 1 /* no vector kernel for integers */
#define T int8_t
#define E pl_i8
#define S(name) name##_i8
#define LOWEST INT8_MIN
#include "kernels/pool/pooling_max.inc"
#undef T
#undef E
#undef S
#undef LOWEST
#define T uint8_t
#define E pl_u8
#define S(name) name##_u8
#define LOWEST 0
#include "kernels/pool/pooling_max.inc"
