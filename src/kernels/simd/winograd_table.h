/* The transforms of Winograd's F(2x2, 3x3), one table for each instruction set. */
#ifndef PL_WINOGRAD_TABLE_H
#define PL_WINOGRAD_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/dtype.h"

/* Location of the tiles of some rows of one channel. */
typedef struct pl_winograd_rows {
    int64_t in_h, in_w, pad_y, pad_x, out_h, out_w;
    int64_t tiles_x, row0, rows; /* tiles in a row; first row of tiles; number of rows */
    int64_t nr, depth, size_v;   /* the 16 packed matrices: columns of a panel, channels, floats */
    int64_t size_m;              /* floats of one of the 16 products */
} pl_winograd_rows;

typedef struct pl_winograd_table {
    /* One row of tiles of one channel. rows[0 … 3] are input rows with their padding, each as
     * `pitch` even columns followed by as many odd ones; out[i] receives element i (row-major) of
     * the 4x4 transforms of n tiles. */
    void (*input)(const float *const rows[4], int64_t pitch, int64_t n, float *const out[16]);
    /* The inverse transform: m[i] holds element i of n tiles; writes two rows of 2n outputs, with
     * bias. */
    void (*output)(const float *const m[16], int64_t n, float bias, float *row0, float *row1);
    /* The same for all rows of a channel at once: from the plane to row k of the panels, and from
     * the products (m: this channel's row of the first product) to the plane. NULL: not
     * available. */
    void (*input_rows)(const pl_winograd_rows *g, const pl_f32 *plane, int64_t k, float *v);
    void (*output_rows)(const pl_winograd_rows *g, const float *m, float bias, pl_f32 *plane);
    bool (*is_finite)(const pl_f32 *x, int64_t n);
} pl_winograd_table;

extern const pl_winograd_table pl_winograd_table_base, pl_winograd_table_avx2,
    pl_winograd_table_avx512;
extern const pl_winograd_table pl_winograd_table_neon;

#endif
