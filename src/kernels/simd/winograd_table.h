/* The transforms of Winograd's F(2x2, 3x3), one table for each instruction set. */
#ifndef PL_WINOGRAD_TABLE_H
#define PL_WINOGRAD_TABLE_H

#include <stdint.h>

#include "tensor/dtype.h"

typedef struct pl_winograd_table {
    /* One row of tiles of one channel. rows[0 … 3] are input rows with their padding, each as
     * `pitch` even columns and then as many odd ones; out[i] receives element i (row by row) of the
     * 4x4 transforms of n tiles. */
    void (*input)(const float *const rows[4], int64_t pitch, int64_t n, float *const out[16]);
    /* The way back: m[i] holds element i for n tiles; two rows of 2n outputs, plus bias. */
    void (*output)(const float *const m[16], int64_t n, float bias, float *row0, float *row1);
} pl_winograd_table;

extern const pl_winograd_table pl_winograd_table_base, pl_winograd_table_avx2,
    pl_winograd_table_avx512;

#endif
