/* Private to src/kernels: shared by the convolution files. */
#ifndef PL_CONV_INT_H
#define PL_CONV_INT_H

#include "kernels/conv/conv.h"
#include "kernels/gemm/gemm_int.h"
#include "kernels/simd/conv_table.h"

const pl_conv_table *pl_conv_table_get(void);

/* A shape in three spatial dims (leading ones of size 1), checked: no element count or index
 * overflows. */
typedef struct pl_conv_geo {
    int64_t batch, groups, ci, co; /* ci and co: channels of one group */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t n_in, n_out, n_taps; /* products of in, out, kernel */
} pl_conv_geo;
/* transposed: in and out are those of the operator, taps scatter from in to out. */
pl_status pl_conv_geo_of(const pl_conv_shape *shape, pl_conv_geo *out, pl_err *err);
/* The plain sums through products; *served: false where this shape is none. */
pl_status pl_conv_chain_f32(pl_pool *pool, const pl_conv_geo *g, const pl_f32 *x, const pl_f32 *w,
                            const pl_f32 *bias, pl_f32 *y, bool *served, pl_err *err);
pl_status pl_conv_chain_f64(pl_pool *pool, const pl_conv_geo *g, const pl_f64 *x, const pl_f64 *w,
                            const pl_f64 *bias, pl_f64 *y, bool *served, pl_err *err);

/* Outputs first … last - 1 whose tap position `at` = tap * dilation - pad is inside `in`. */
static inline void pl_conv_span(int64_t at, int64_t stride, int64_t in, int64_t out, int64_t *first,
                                int64_t *last) {
    /* 0 <= o * stride + at < in */
    int64_t lo = at >= 0 ? 0 : pl_div_up(-at, stride);
    int64_t hi = in - at <= 0 ? 0 : pl_div_up(in - at, stride);
    if (hi > out) hi = out;
    if (lo > hi) lo = hi;
    *first = lo;
    *last = hi;
}

/* Layout of a staged plane of the input (see simd/conv_table.h). */
typedef struct pl_conv_stage {
    int64_t depth, height, width; /* with padding, as far as outputs read */
    int64_t phase;                /* columns with the same remainder modulo the stride */
    int64_t pitch;                /* of a row: stride * phase elements */
    int64_t plane;                /* of a channel, with slack for vectors */
    bool fits;                    /* false: padding would be far larger than the input */
} pl_conv_stage;
pl_conv_stage pl_conv_stage_of(const pl_conv_geo *g);
/* Offset of a tap within the staged channel. */
int64_t pl_conv_stage_tap(const pl_conv_geo *g, const pl_conv_stage *s, int64_t tap);

/* One output channel of one batch item by the plain loops; x points to the item. */
void pl_conv_direct_f32(const pl_conv_geo *g, const pl_f32 *x, const pl_f32 *w, const pl_f32 *bias,
                        int64_t channel, pl_f32 *y);
void pl_conv_direct_f64(const pl_conv_geo *g, const pl_f64 *x, const pl_f64 *w, const pl_f64 *bias,
                        int64_t channel, pl_f64 *y);

/* Neither Inf nor NaN? */
bool pl_conv_is_finite_f32(const pl_f32 *x, int64_t n);

/* Columns of a strip of outputs of one group of one batch item: (ci * taps, n). */
typedef struct pl_conv_columns {
    const pl_conv_geo *g;
    const void *x;     /* channels of the group */
    size_t elem_bytes; /* 1, 4 or 8 */
    uint8_t fill;      /* byte that fills positions outside the input */
    int64_t first, n;  /* outputs of this strip */
    void *cols;
} pl_conv_columns;
void pl_conv_columns_fill(pl_pool *pool, pl_conv_columns *columns);

/* Which fields are used depends on the algorithm; see conv_float.inc. */
struct pl_conv_state {
    /* State of another provider; then the rest is unused. */
    void *library;
    void (*library_free)(void *library);
    pl_conv_geo geo;
    const void *w;
    size_t elem_bytes;
    void *packed; /* weights, group by group */
    size_t n_bytes;
    bool moved;    /* packed belongs to the caller */
    int64_t *taps; /* ci * n_taps offsets; those of one channel come first */
    int64_t *plan_data;
    pl_conv_plan plan;
};
/* Fills plan and plan_data. */
pl_status pl_conv_plan_make(pl_conv_state *state, const pl_conv_stage *stage, pl_err *err);

#endif
