/* The inner loops of convolution and pooling, one table for each instruction set.
 *
 * They read a staged plane: the input with its padding, columns sorted by their remainder modulo
 * the stride, so that a tap reads adjacent elements for adjacent outputs. They read and write whole
 * vectors: PL_CONV_SLACK elements after every buffer may be read, and written where stated. */
#ifndef PL_CONV_TABLE_H
#define PL_CONV_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

enum { PL_CONV_SLACK = 64, PL_CONV_RUNS_MAX = 32 };

/* Adjacent outputs of one row: where they read (relative to a tap), and how many. */
typedef struct pl_conv_run {
    int64_t from, n;
} pl_conv_run;

/* How the rows of a plane are staged. Row r of the stage holds row rows[r] of the input, or zeros
 * (-1); phase f of it starts with lo[f] zeros, then has every step-th element starting at from[f]
 * up to index hi[f], then zeros. */
typedef struct pl_conv_plan {
    const int64_t *rows, *from, *lo, *hi;
    int64_t n_rows, step, phase, in; /* in: elements of an input row */
} pl_conv_plan;

/* A plane and where its window starts. */
typedef struct pl_conv_plane {
    int64_t in_h, in_w, out_h, out_w, pad_y, pad_x;
} pl_conv_plane;

/* A row of outputs of a 3x3 convolution at stride 2 over few channels, eight or sixteen of its
 * output channels. */
typedef struct pl_conv_stem {
    pl_conv_plane plane;
    int64_t c_in, c_out; /* w is transposed: element (k, channel) at w[k * c_out + channel] */
} pl_conv_stem;

#define PL_CONV_TYPED(E, suffix)                                                                   \
    /* Stages one plane; x_end: where the tensor ends, behind which nothing may be read. Writes a  \
     * vector behind the last row. */                                                              \
    void (*stage_##suffix)(const pl_conv_plan *plan, const E *x, const E *x_end, E *to);           \
    /* The same into a buffer that was zero, or held another plane of the same plan. */            \
    void (*restage_##suffix)(const pl_conv_plan *plan, const E *x, const E *x_end, E *to);         \
    /* to[p * stride + j] for n_taps rows p and the columns of all runs, zeros up to `width`;      \
     * nothing behind the last. */                                                                 \
    void (*fill_##suffix)(const E *staged, const int64_t *taps, int64_t n_taps,                    \
                          const pl_conv_run *runs, int64_t n_runs, int64_t cols, int64_t width,    \
                          int64_t stride, E *to);                                                  \
    /* y[i] = sum over taps of w[t] * staged[taps[t] + i] + bias. Writes whole vectors. */         \
    void (*depthwise_##suffix)(const E *staged, const int64_t *taps, const E *w, int64_t n_taps,   \
                               E bias, int64_t n, E *y);                                           \
    /* The same for rows of n outputs each, `step` apart in the stage, dense in y. */              \
    void (*depthwise_rows_##suffix)(const E *staged, int64_t step, const int64_t *taps,            \
                                    const E *w, int64_t n_taps, E bias, int64_t rows, int64_t n,   \
                                    E *y);                                                         \
    /* The same for a square kernel without dilation and equal strides, rows of the stage `pitch`  \
     * apart; false when there is none for this size. */                                           \
    bool (*depthwise_block_##suffix)(int64_t kernel, int64_t stride, const E *staged,              \
                                     int64_t pitch, const int64_t *taps, const E *w, E bias,       \
                                     int64_t rows, int64_t n, E *y);                               \
    /* The same for adjacent planes that are not staged, each with its own weights and bias (bias  \
     * NULL: none); false when there is none for this size (x == NULL only asks). */               \
    bool (*depthwise_direct_##suffix)(int64_t kernel, int64_t stride, const E *x,                  \
                                      const pl_conv_plane *g, const E *w, const E *bias,           \
                                      int64_t planes, E *y);                                       \
    /* Row `row` of channels 0 … n (8 or 16) from the planes themselves; y: their first plane.   \
     * NULL: there is none. The order of the sums is a product's. */                               \
    void (*stem_##suffix)(const pl_conv_stem *g, const E *x, const E *w, const E *bias,            \
                          int64_t row, int64_t n, E *y);                                           \
    /* y[c * ldy + r] = x[r * ldx + c], plus bias[c] when given */                                 \
    void (*transpose_##suffix)(const E *x, int64_t ldx, int64_t rows, int64_t cols, const E *bias, \
                               E *y, int64_t ldy);                                                 \
    /* acc[i] = the larger of acc[i] and x[i * step], NaN winning */                               \
    void (*max_row_##suffix)(const E *x, int64_t step, int64_t n, E *acc);                         \
    /* to[i] = the largest of rows[0][i] … rows[n_rows - 1][i], a NaN winning; n_rows > 0 */     \
    void (*max_columns_##suffix)(const E *const *rows, int64_t n_rows, int64_t n, E *to);          \
    /* acc[i] += x[i * step], in f64 */                                                            \
    void (*sum_row_##suffix)(const E *x, int64_t step, int64_t n, double *acc);                    \
    /* y[i * step] += x[i] */                                                                      \
    void (*scatter_##suffix)(const E *x, int64_t step, int64_t n, E *y);

typedef struct pl_conv_table {
    PL_CONV_TYPED(pl_f32, f32)
    PL_CONV_TYPED(pl_f64, f64)
} pl_conv_table;

extern const pl_conv_table pl_conv_table_base, pl_conv_table_avx2, pl_conv_table_avx512;
extern const pl_conv_table pl_conv_table_neon;

#endif
