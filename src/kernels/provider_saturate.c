/* Products of u8 and s8 as on x86 CPUs without VNNI: vpmaddubsw adds two products in 16 bits and
 * saturates. These results are useful only to tell whether a runtime's error comes from its CPU
 * (blame/kind_saturated.c), and what a model gives on such a CPU.
 *
 * As in ONNX Runtime (MLAS): pairs are adjacent along k and start at an even index; signed
 * activations are shifted by 128; in a convolution k runs over the taps first, then over the
 * channels of the group; depthwise convolutions and unsigned weights are exact. */
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/conv/conv_int.h"
#include "kernels/provider.h"

enum { BLOCK = 512, COLS_BYTES = 4 << 20 };

static inline int32_t clipped(int32_t sum) {
    return sum < INT16_MIN ? INT16_MIN : sum > INT16_MAX ? INT16_MAX : sum;
}

static inline int32_t zero_at(const pl_gemm_i8_zero *z, int64_t item, int64_t i) {
    return z->value == NULL ? 0 : z->value[item * z->stride + i * z->step];
}

/* ---- products ---- */

typedef struct product {
    const pl_product_i8 *p;
    int64_t item;
    const uint8_t *a;
    const int8_t *b;
    pl_i32 *c;
} product;

/* Columns col … col + n of one row. sums: the saturated pairs, b_sums: the sums of B. */
static void row_block(const product *j, int64_t row, int64_t col, int64_t n) {
    const pl_product_i8 *p = j->p;
    const pl_gemm_shape *s = p->shape;
    const int64_t a_step = s->trans_a ? s->lda : 1, b_k = s->trans_b ? 1 : s->ldb,
                  b_col = s->trans_b ? s->ldb : 1;
    const uint8_t *a = j->a + (s->trans_a ? row : row * s->lda), flip = p->a_signed ? 0x80 : 0;
    const int32_t za = zero_at(&p->a_zero, j->item, row) + flip;
    uint32_t sums[BLOCK] = { 0 }, b_sums[BLOCK] = { 0 }, a_sum = 0;
    for (int64_t k = 0; k < s->k; k += 2) {
        const bool both = k + 1 < s->k;
        const int32_t a0 = a[k * a_step] ^ flip, a1 = both ? a[(k + 1) * a_step] ^ flip : 0;
        const int8_t *b0 = j->b + k * b_k + col * b_col, *b1 = both ? b0 + b_k : b0;
        a_sum += (uint32_t)(a0 + a1);
        for (int64_t i = 0; i < n; i++) {
            const int32_t x = b0[i * b_col], y = both ? b1[i * b_col] : 0;
            sums[i] += (uint32_t)clipped(a0 * x + a1 * y);
            b_sums[i] += (uint32_t)(x + y);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t zb = (uint32_t)zero_at(&p->b_zero, j->item, col + i);
        j->c[row * s->ldc + col + i] = (int32_t)(sums[i] - (uint32_t)za * b_sums[i] - zb * a_sum +
                                                 (uint32_t)s->k * (uint32_t)za * zb);
    }
}

static pl_status saturate_gemm_i8(const pl_product_i8 *p, bool *served, pl_err *err) {
    const pl_gemm_shape *s = p->shape;
    (void)err;
    *served = p->b_signed;
    for (int64_t q = 0; q < s->batch && *served; q++) {
        const product j = {
            p, q,
            (const uint8_t *)p->a + (s->offsets_a != NULL ? s->offsets_a[q] : q * s->stride_a),
            (const int8_t *)p->b + (s->offsets_b != NULL ? s->offsets_b[q] : q * s->stride_b),
            p->c + q * s->stride_c
        };
        for (int64_t row = 0; row < s->m; row++)
            for (int64_t col = 0; col < s->n; col += BLOCK)
                row_block(&j, row, col, pl_i64_min(BLOCK, s->n - col));
    }
    return PL_OK;
}

/* ---- convolutions ---- */

typedef struct group {
    const pl_conv_geo *g;
    const uint8_t *cols; /* (ci * taps, n), codes unchanged */
    const int8_t *w;
    pl_gemm_i8_zero w_zero;
    int32_t x_zero;
    uint8_t flip;
    int64_t n;
    pl_i32 *y; /* points to the first output of the strip */
} group;

/* Index in memory of the k-th row of the columns, and of a channel's weights, in MLAS's order. */
static int64_t line_of(const pl_conv_geo *g, int64_t k) {
    return k % g->ci * g->n_taps + k / g->ci;
}

static void channel_range(void *ctx, int64_t begin, int64_t end) {
    const group *j = ctx;
    const int64_t n_k = j->g->ci * j->g->n_taps;
    for (int64_t c = begin; c < end; c++) {
        const int8_t *w = j->w + c * n_k;
        const uint32_t zw = (uint32_t)zero_at(&j->w_zero, 0, c),
                       zx = (uint32_t)(j->x_zero + (int32_t)j->flip);
        int64_t w_sum = 0;
        for (int64_t k = 0; k < n_k; k++)
            w_sum += w[k];
        for (int64_t at = 0; at < j->n; at += BLOCK) {
            const int64_t n = pl_i64_min(BLOCK, j->n - at);
            uint32_t sums[BLOCK] = { 0 }, x_sums[BLOCK] = { 0 };
            for (int64_t k = 0; k < n_k; k += 2) {
                const bool both = k + 1 < n_k;
                const int64_t l0 = line_of(j->g, k), l1 = both ? line_of(j->g, k + 1) : l0;
                const uint8_t *x0 = j->cols + l0 * j->n + at, *x1 = j->cols + l1 * j->n + at;
                const int32_t w0 = w[l0], w1 = both ? w[l1] : 0;
                for (int64_t i = 0; i < n; i++) {
                    const int32_t a = x0[i] ^ j->flip, b = x1[i] ^ j->flip;
                    sums[i] += (uint32_t)clipped(a * w0 + b * w1);
                    x_sums[i] += (uint32_t)(both ? a + b : a);
                }
            }
            for (int64_t i = 0; i < n; i++)
                j->y[c * j->g->n_out + at + i] =
                    (int32_t)(sums[i] - zx * (uint32_t)w_sum - zw * x_sums[i] +
                              (uint32_t)n_k * zx * zw);
        }
    }
}

static void run_group(pl_pool *pool, group *j, const uint8_t *x, int64_t step, uint8_t *cols) {
    pl_i32 *y = j->y;
    pl_conv_columns m = {
        .g = j->g, .x = x, .elem_bytes = 1, .fill = (uint8_t)j->x_zero, .cols = cols
    };
    for (m.first = 0; m.first < j->g->n_out; m.first += step) {
        m.n = j->n = pl_i64_min(step, j->g->n_out - m.first);
        pl_conv_columns_fill(pool, &m);
        j->y = y + m.first;
        pl_pool_for(pool, j->g->co, 1, channel_range, j);
    }
}

static pl_status saturate_conv_i8(pl_pool *pool, const pl_conv_shape *shape, const void *x,
                                  bool x_signed, int32_t x_zero, const void *w, bool w_signed,
                                  pl_gemm_i8_zero w_zero, pl_i32 *y, bool *served, pl_err *err) {
    pl_conv_geo g;
    PL_TRY(pl_conv_geo_of(shape, &g, err));
    *served = w_signed && !(g.ci == 1 && g.co == 1 && g.groups > 1);
    if (!*served) return PL_OK;
    const int64_t k = g.ci * g.n_taps,
                  step = pl_i64_min(g.n_out, pl_i64_max(128, COLS_BYTES / pl_i64_max(k, 1)));
    size_t bytes;
    if (!pl_size_mul((size_t)pl_i64_max(k, 1), (size_t)pl_i64_max(step, 1), &bytes))
        return pl_fail_memory(err, SIZE_MAX);
    uint8_t *cols = pl_malloc(bytes);
    if (cols == NULL) return pl_fail_memory(err, bytes);
    for (int64_t item = 0; item < g.batch * g.groups; item++) {
        const int64_t channel = item % g.groups * g.co;
        group j = { .g = &g,
                    .cols = cols,
                    .w = (const int8_t *)w + channel * k,
                    .w_zero = w_zero,
                    .x_zero = x_zero,
                    .flip = x_signed ? 0x80 : 0,
                    .y = y + item * g.co * g.n_out };
        if (w_zero.value != NULL) j.w_zero.value = w_zero.value + channel * w_zero.step;
        run_group(pool, &j, (const uint8_t *)x + item * g.ci * g.n_in, step, cols);
    }
    pl_free(cols);
    return PL_OK;
}

const pl_provider pl_provider_saturate = {
    .name = "saturate",
    .serves =
        "u8 x s8 in pairs clipped at 16 bits, as x86 CPUs without VNNI compute; the rest is own",
    .gemm_i8 = saturate_gemm_i8,
    .conv_i8 = saturate_conv_i8,
};
