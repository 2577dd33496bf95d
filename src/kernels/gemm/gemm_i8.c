/* Integer products: zero points are subtracted while int8 and uint8 are widened to int16, then
 * pairs of k are multiplied and added in one instruction. Exact modulo 2^32, so the order does not
 * matter.
 *
 * B is packed for a strip of columns at a time, all of k in blocks; A for a few panels at a
 * time. */
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_i8_int.h"
#include "kernels/provider.h"

enum { KC = 1024, STRIP_COLS = 128 }; /* k per block (even), columns */
/* Panels of rows that share a packed strip of B, and units of work that there should be. */
enum { GROUP_MIN = 4, GROUP_MAX = 64, UNITS = 32 };

typedef struct i8_job {
    const pl_gemm_table *t;
    const pl_gemm_shape *s;
    const uint8_t *a, *b;
    bool a_signed, b_signed;
    const pl_i32 *a_zero, *b_zero;
    int64_t a_step, b_step;
    pl_i32 *c;
    int64_t strips, panels, group; /* panels of a group */
    atomic_bool failed;
} i8_job;

/* One row of op(A), k0 … k0 + n, minus its zero point. */
static void load_a(const i8_job *j, int64_t row, int64_t k0, int64_t n, int16_t *to) {
    const pl_gemm_shape *s = j->s;
    const int16_t zero = j->a_zero == NULL ? 0 : (int16_t)j->a_zero[row * j->a_step];
    if (!s->trans_a) {
        j->t->widen_i8(j->a + row * s->lda + k0, j->a_signed, zero, n, to);
        return;
    }
    for (int64_t k = 0; k < n; k++)
        j->t->widen_i8(j->a + (k0 + k) * s->lda + row, j->a_signed, zero, 1, to + k);
}

static void pack_a(const i8_job *j, int64_t row, int64_t rows, int64_t k0, int64_t n, int16_t *to) {
    int16_t line[KC + 1];
    const int64_t pairs = (n + 1) / 2;
    for (int64_t i = 0; i < rows; i++) {
        load_a(j, row + i, k0, n, line);
        if (n % 2) line[n] = 0;
        for (int64_t p = 0; p < pairs; p++)
            memcpy(to + (p * rows + i) * 2, line + 2 * p, 4);
    }
}

/* Columns col … col + cols of op(B), padded with zeros. */
static void pack_b(const i8_job *j, int64_t col, int64_t cols, int64_t k0, int64_t n, int16_t *to) {
    const pl_gemm_shape *s = j->s;
    const int64_t nr = j->t->nr_i16, pairs = (n + 1) / 2;
    if (cols < nr || n % 2) memset(to, 0, (size_t)(pairs * nr) * 4);
    if (s->trans_b) {
        int16_t line[KC];
        for (int64_t q = 0; q < cols; q++) {
            const int16_t zero = j->b_zero == NULL ? 0 : (int16_t)j->b_zero[(col + q) * j->b_step];
            j->t->widen_i8(j->b + (col + q) * s->ldb + k0, j->b_signed, zero, n, line);
            for (int64_t k = 0; k < n; k++)
                to[(k / 2 * nr + q) * 2 + k % 2] = line[k];
        }
        return;
    }
    int16_t zero[PL_GEMM_NR_MAX], line[PL_GEMM_NR_MAX];
    for (int64_t q = 0; q < cols; q++)
        zero[q] = j->b_zero == NULL ? 0 : (int16_t)j->b_zero[(col + q) * j->b_step];
    for (int64_t k = 0; k < n; k++) {
        int16_t *out = to + k / 2 * nr * 2 + k % 2;
        j->t->widen_i8(j->b + (k0 + k) * s->ldb + col, j->b_signed, 0, cols, line);
        for (int64_t q = 0; q < cols; q++)
            out[2 * q] = (int16_t)(line[q] - zero[q]);
    }
}

/* One block of k for a strip of columns and a few panels of rows. */
static void strip_block(const i8_job *j, int64_t strip, int64_t group, int64_t k0, int16_t *b,
                        int16_t *a) {
    const pl_gemm_shape *s = j->s;
    const int64_t nr = j->t->nr_i16, n = pl_i64_min(KC, s->k - k0), pairs = (n + 1) / 2;
    const int64_t col0 = strip * STRIP_COLS, col1 = pl_i64_min(col0 + STRIP_COLS, s->n);
    const int64_t last = pl_i64_min((group + 1) * j->group, j->panels);
    for (int64_t col = col0; col < col1; col += nr)
        pack_b(j, col, pl_i64_min(nr, col1 - col), k0, n, b + (col - col0) / nr * pairs * nr * 2);
    for (int64_t p = group * j->group; p < last; p++) {
        const int64_t row = pl_gemm_panel_row(s->m, j->panels, p);
        const int64_t rows = pl_gemm_panel_row(s->m, j->panels, p + 1) - row;
        pack_a(j, row, rows, k0, n, a);
        for (int64_t col = col0; col < col1; col += nr)
            j->t->tile_i16(pairs, a, b + (col - col0) / nr * pairs * nr * 2,
                           j->c + row * s->ldc + col, s->ldc, rows, pl_i64_min(nr, col1 - col),
                           k0 > 0);
    }
}

static void strip_range(void *ctx, int64_t begin, int64_t end) {
    i8_job *j = ctx;
    const size_t b_size = (size_t)(STRIP_COLS + j->t->nr_i16) * KC;
    const size_t a_size = (size_t)j->t->mr_i16 * KC;
    int16_t *scratch = pl_aligned_alloc(64, (a_size + b_size) * sizeof *scratch);
    if (scratch == NULL) {
        atomic_store(&j->failed, true);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        for (int64_t k0 = 0; k0 < j->s->k; k0 += KC)
            strip_block(j, i % j->strips, i / j->strips, k0, scratch, scratch + b_size);
    pl_free(scratch);
}

static const pl_i32 *zero_of(const pl_gemm_i8_zero *z, int64_t batch) {
    return z->value == NULL ? NULL : z->value + batch * z->stride;
}

/* A zero point outside -128 … 255 would not fit the int16 form. */
static pl_status check_zero(const char *name, const pl_gemm_i8_zero *z, bool is_signed,
                            int64_t count, int64_t batch, pl_err *err) {
    const int32_t lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
    if (z->value == NULL) return PL_OK;
    const int64_t n = z->step == 0 ? pl_i64_min(count, 1) : count;
    for (int64_t q = 0; q < (z->stride == 0 ? pl_i64_min(batch, 1) : batch); q++)
        for (int64_t i = 0; i < n; i++) {
            const int32_t v = z->value[q * z->stride + i * z->step];
            if (v < lo || v > hi)
                return pl_fail(err, PL_E_INVALID, "gemm: zero point %d of %s is outside %d … %d",
                               (int)v, name, (int)lo, (int)hi);
        }
    return PL_OK;
}

/* Sums of four products of bytes: only where the CPU has them, and PLUMB_CPU allows them. */
static const pl_gemm_dot *dot_of(const pl_gemm_table *t) {
    return pl_cpu_features() >> PL_CPU_DOTPROD & 1 ? t->dot : NULL;
}

static bool dot_run(pl_pool *pool, const i8_job *j) {
    const pl_i8_product p = { j->s,      j->a,      j->b,      j->a_signed, j->b_signed,
                              j->a_zero, j->b_zero, j->a_step, j->b_step,   j->c };
    return pl_gemm_i8_dot(pool, dot_of(j->t), &p);
}

pl_status pl_gemm_i8(pl_pool *pool, const pl_gemm_shape *shape, const void *a, bool a_signed,
                     pl_gemm_i8_zero a_zero, const void *b, bool b_signed, pl_gemm_i8_zero b_zero,
                     pl_i32 *c, pl_err *err) {
    pl_gemm_shape s;
    PL_TRY(pl_gemm_check(shape, 1, 1, 4, &s, err));
    PL_TRY(check_zero("A", &a_zero, a_signed, s.m, s.batch, err));
    PL_TRY(check_zero("B", &b_zero, b_signed, s.n, s.batch, err));
    bool served = false;
    PL_TRY(pl_provider_of(s.by, &s.by, err));
    if (s.by->gemm_i8 != NULL) {
        const pl_product_i8 p = { &s, a, b, a_signed, b_signed, a_zero, b_zero, c };
        PL_TRY(s.by->gemm_i8(&p, &served, err));
    }
    if (served) return PL_OK;
    i8_job j = { .t = pl_gemm_table_get(), .s = &s, .a_signed = a_signed, .b_signed = b_signed };
    atomic_init(&j.failed, false);
    j.a_step = a_zero.step;
    j.b_step = b_zero.step;
    j.strips = pl_div_up(s.n, STRIP_COLS);
    j.panels = pl_div_up(s.m, j.t->mr_i16);
    /* Many rows share the packed strip, or packing takes longer than the products. */
    j.group = pl_i64_max(GROUP_MIN, pl_i64_min(GROUP_MAX, j.panels / (UNITS / j.strips + 1)));
    const int64_t groups = pl_div_up(j.panels, j.group);
    if ((double)s.m * (double)s.n * (double)s.k < 2e5) pool = NULL;
    for (int64_t q = 0; q < s.batch; q++) {
        j.a = (const uint8_t *)a + (s.offsets_a != NULL ? s.offsets_a[q] : q * s.stride_a);
        j.b = (const uint8_t *)b + (s.offsets_b != NULL ? s.offsets_b[q] : q * s.stride_b);
        j.c = c + q * s.stride_c;
        j.a_zero = zero_of(&a_zero, q);
        j.b_zero = zero_of(&b_zero, q);
        if (s.k == 0) {
            for (int64_t i = 0; i < s.m; i++)
                memset(j.c + i * s.ldc, 0, (size_t)s.n * 4);
            continue;
        }
        if (dot_of(j.t) == NULL) {
            pl_pool_for(pool, j.strips * groups, 1, strip_range, &j);
        } else if (!dot_run(pool, &j)) {
            atomic_store(&j.failed, true);
        }
        if (atomic_load(&j.failed)) return pl_fail_memory(err, (size_t)STRIP_COLS * KC * 2);
    }
    return PL_OK;
}
