/* Integer products where the CPU adds four products of signed bytes in one instruction: bytes are
 * packed as they are (unsigned ones less 128), and zero points are subtracted afterwards:
 *
 *   sum (a - za)(b - zb) = sum a b - za sum b - zb sum a + k za zb
 *
 * Exact modulo 2^32, as gemm_i8.c. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/gemm/gemm_i8_int.h"

enum { KC = 1024, STRIP_COLS = 128, GROUP = 16 }; /* k per block, columns, panels of rows */

typedef struct dot_job {
    const pl_i8_product *p;
    const pl_gemm_dot *dot;
    int64_t strips, panels;
    atomic_bool failed;
} dot_job;

typedef struct dot_scratch {
    uint32_t col_sum[STRIP_COLS], row_sum[PL_GEMM_DOT_ROWS_MAX]; /* of the packed bytes */
    int8_t *a, *b;
} dot_scratch;

/* Zero point of a row or column as a signed byte's. */
static uint32_t zero_at(const pl_i32 *zero, int64_t step, int64_t i, bool is_signed) {
    return (zero == NULL ? 0u : (uint32_t)zero[i * step]) - (is_signed ? 0u : 128u);
}

/* n bytes at from + k * step become bytes to[k / 4 * pitch + k % 4]; returns their sum. */
static uint32_t pack_line(const uint8_t *from, int64_t step, int64_t n, bool is_signed, int8_t *to,
                          int64_t pitch) {
    const uint8_t flip = is_signed ? 0 : 0x80;
    int32_t sum = 0; /* of at most KC */
    for (int64_t k = 0; k < n; k++) {
        const int8_t v = (int8_t)(from[k * step] ^ flip);
        to[k / 4 * pitch + k % 4] = v;
        sum += v;
    }
    return (uint32_t)sum;
}

static void pack_a(const pl_i8_product *p, int64_t row, int64_t rows, int64_t k0, int64_t n,
                   dot_scratch *s) {
    const int64_t lda = p->s->lda, step = p->s->trans_a ? lda : 1, next = p->s->trans_a ? 1 : lda;
    if (n % 4 != 0) memset(s->a + n / 4 * rows * 4, 0, (size_t)rows * 4);
    for (int64_t i = 0; i < rows; i++)
        s->row_sum[i] = pack_line(p->a + (row + i) * next + k0 * step, step, n, p->a_signed,
                                  s->a + 4 * i, 4 * rows);
}

static void pack_b(const pl_i8_product *p, int64_t col, int64_t cols, int64_t k0, int64_t n,
                   int64_t nr, int8_t *to, uint32_t *sum) {
    const int64_t ldb = p->s->ldb, step = p->s->trans_b ? 1 : ldb, next = p->s->trans_b ? ldb : 1;
    if (cols < nr || n % 4 != 0) memset(to, 0, (size_t)((n + 3) / 4 * 4 * nr));
    for (int64_t j = 0; j < cols; j++)
        sum[j] = pack_line(p->b + (col + j) * next + k0 * step, step, n, p->b_signed, to + 4 * j,
                           4 * nr);
}

/* Subtracts what the zero points add to a block of n of k. */
static void settle(const pl_i8_product *p, int64_t row, int64_t rows, int64_t col, int64_t cols,
                   int64_t n, const uint32_t *col_sum, const dot_scratch *s) {
    for (int64_t i = 0; i < rows; i++) {
        const uint32_t za = zero_at(p->a_zero, p->a_step, row + i, p->a_signed);
        pl_i32 *c = p->c + (row + i) * p->s->ldc + col;
        for (int64_t j = 0; j < cols; j++) {
            const uint32_t zb = zero_at(p->b_zero, p->b_step, col + j, p->b_signed);
            c[j] = (int32_t)((uint32_t)c[j] - za * col_sum[j] - zb * s->row_sum[i] +
                             (uint32_t)n * za * zb);
        }
    }
}

/* One block of k for a strip of columns and a few panels of rows. */
static void block_run(const dot_job *j, int64_t strip, int64_t group, int64_t k0, dot_scratch *s) {
    const pl_i8_product *p = j->p;
    const int64_t nr = j->dot->nr, n = pl_i64_min(KC, p->s->k - k0), fours = (n + 3) / 4;
    const int64_t col0 = strip * STRIP_COLS, col1 = pl_i64_min(col0 + STRIP_COLS, p->s->n);
    const int64_t last = pl_i64_min((group + 1) * GROUP, j->panels);
    for (int64_t col = col0; col < col1; col += nr)
        pack_b(p, col, pl_i64_min(nr, col1 - col), k0, n, nr, s->b + (col - col0) * fours * 4,
               s->col_sum + (col - col0));
    for (int64_t q = group * GROUP; q < last; q++) {
        const int64_t row = pl_gemm_panel_row(p->s->m, j->panels, q);
        const int64_t rows = pl_gemm_panel_row(p->s->m, j->panels, q + 1) - row;
        pack_a(p, row, rows, k0, n, s);
        for (int64_t col = col0; col < col1; col += nr) {
            const int64_t cols = pl_i64_min(nr, col1 - col);
            j->dot->tile(fours, s->a, s->b + (col - col0) * fours * 4, p->c + row * p->s->ldc + col,
                         p->s->ldc, rows, cols, k0 > 0);
            settle(p, row, rows, col, cols, n, s->col_sum + (col - col0), s);
        }
    }
}

static void strip_range(void *ctx, int64_t begin, int64_t end) {
    dot_job *j = ctx;
    const size_t a_size = PL_GEMM_DOT_ROWS_MAX * KC, b_size = (STRIP_COLS + PL_GEMM_NR_MAX) * KC;
    dot_scratch s;
    s.b = pl_aligned_alloc(64, a_size + b_size);
    if (s.b == NULL) {
        atomic_store(&j->failed, true);
        return;
    }
    s.a = s.b + b_size;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k0 = 0; k0 < j->p->s->k; k0 += KC)
            block_run(j, i % j->strips, i / j->strips, k0, &s);
    pl_free(s.b);
}

bool pl_gemm_i8_dot(pl_pool *pool, const pl_gemm_dot *dot, const pl_i8_product *p) {
    dot_job j = { .p = p, .dot = dot };
    atomic_init(&j.failed, false);
    j.strips = pl_div_up(p->s->n, STRIP_COLS);
    j.panels = pl_div_up(p->s->m, dot->mr);
    pl_pool_for(pool, j.strips * pl_div_up(j.panels, GROUP), 1, strip_range, &j);
    return !atomic_load(&j.failed);
}
