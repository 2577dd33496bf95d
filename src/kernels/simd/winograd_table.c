/* The transforms of Winograd's F(2x2, 3x3): additions along rows of tiles, left to the compiler to
 * vectorise. Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", section 4.1. */
#include "kernels/simd/winograd_table.h"

#include "kernels/simd/simd.h"

/* Across: even columns e and odd ones o of four transformed rows. */
static void input_across(const float *e, const float *o, int64_t n, float *restrict z0,
                         float *restrict z1, float *restrict z2, float *restrict z3) {
    for (int64_t x = 0; x < n; x++) {
        z0[x] = e[x] - e[x + 1];
        z1[x] = o[x] + e[x + 1];
        z2[x] = e[x + 1] - o[x];
        z3[x] = o[x] - o[x + 1];
    }
}

enum { ROW_MAX = 512 };

static void input(const float *const rows[4], int64_t pitch, int64_t n, float *const out[16]) {
    float down[4][2 * ROW_MAX];
    for (int64_t i = 0; i < 2 * pitch; i++) {
        const float a = rows[0][i], b = rows[1][i], c = rows[2][i], d = rows[3][i];
        down[0][i] = a - c;
        down[1][i] = b + c;
        down[2][i] = c - b;
        down[3][i] = b - d;
    }
    for (int r = 0; r < 4; r++)
        input_across(down[r], down[r] + pitch, n, out[4 * r], out[4 * r + 1], out[4 * r + 2],
                     out[4 * r + 3]);
}

static void output(const float *const m[16], int64_t n, float bias, float *row0, float *row1) {
    float top[4][ROW_MAX], low[4][ROW_MAX];
    for (int j = 0; j < 4; j++) {
        const float *a = m[j], *b = m[4 + j], *c = m[8 + j], *d = m[12 + j];
        for (int64_t x = 0; x < n; x++) {
            top[j][x] = a[x] + b[x] + c[x];
            low[j][x] = b[x] - c[x] - d[x];
        }
    }
    for (int64_t x = 0; x < n; x++) {
        row0[2 * x] = top[0][x] + top[1][x] + top[2][x] + bias;
        row0[2 * x + 1] = top[1][x] - top[2][x] - top[3][x] + bias;
        row1[2 * x] = low[0][x] + low[1][x] + low[2][x] + bias;
        row1[2 * x + 1] = low[1][x] - low[2][x] - low[3][x] + bias;
    }
}

const pl_winograd_table PL_SIMD(pl_winograd_table) = { input, output };
