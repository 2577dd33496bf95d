/* Products with stored weights against the product with the same weights widened first: the same
 * bits, or, where the order of sums differs, small whole numbers that every order adds exactly, and
 * random ones within the rounding of a dot product. The instruction set is that of PLUMB_CPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_rig.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm_narrow.h"
#include "kernels/gemm/gemm_stored.h"
#include "kernels/provider.h"
#include "kernels/simd/stored_table.h"
#include "tensor/dtype.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static const int64_t sizes[][3] = { { 1, 1, 1 },     { 1, 37, 65 },    { 1, 530, 100 },
                                    { 2, 33, 97 },   { 5, 64, 384 },   { 13, 70, 385 },
                                    { 40, 45, 200 }, { 130, 37, 800 }, { 1, 1100, 64 } };

static pl_f32 *floats(int64_t n, bool whole) {
    pl_f32 *x = malloc((size_t)n * sizeof(*x));
    for (int64_t i = 0; i < n; i++)
        x[i] = whole ? (float)((int)(mix() % 17) - 8) : (float)unit();
    return x;
}

/* ---- half floats ---- */

static void check_half(pl_dtype dtype, bool trans_b, const int64_t *d) {
    const int64_t m = d[0], n = d[1], k = d[2], ldb = (trans_b ? k : n) + 3;
    const int64_t nb = (trans_b ? n : k) * ldb;
    pl_f32 *a = floats(m * k, false), *wide = floats(nb, false);
    pl_u16 *half = malloc((size_t)nb * sizeof(*half));
    pl_f32 *y = calloc((size_t)(m * n), sizeof(*y)), *want = calloc((size_t)(m * n), sizeof(*y));
    pl_store_f32(dtype, (const float *)wide, half, (size_t)nb);
    pl_load_f32(dtype, half, (float *)wide, (size_t)nb);
    const pl_stored b = { .kind = dtype == PL_F16 ? PL_STORED_F16 : PL_STORED_BF16,
                          .b = half,
                          .trans_b = trans_b,
                          .ldb = ldb };
    const pl_provider *own = NULL;
    assert_int_equal(pl_provider_find("own", &own, NULL), PL_OK);
    const pl_gemm_shape g = {
        .m = m, .n = n, .k = k, .trans_b = trans_b, .ldb = ldb, .batch = 1, .by = own
    };
    assert_int_equal(pl_gemm_f32(pool, &g, 0.75f, a, wide, 0, want, NULL, NULL), PL_OK);
    assert_int_equal(pl_gemm_stored_f32(pool, m, n, k, 0.75f, a, k, &b, y, NULL), PL_OK);
    assert_memory_equal(y, want, (size_t)(m * n) * sizeof(*y));
    free(a);
    free(wide);
    free(half);
    free(y);
    free(want);
}

/* |B|: with one row the order is that of many, so it is compared where every order is exact. */
static void check_magnitudes(const int64_t *d, bool trans_b) {
    const int64_t m = d[0], n = d[1], k = d[2], ldb = trans_b ? k : n;
    pl_f32 *a = floats(m * k, true), *b = floats(n * k, true);
    pl_f32 *y = calloc((size_t)(m * n), sizeof(*y)), *want = calloc((size_t)(m * n), sizeof(*y));
    pl_u16 *half = malloc((size_t)(n * k) * sizeof(*half));
    pl_store_f32(PL_F16, (const float *)b, half, (size_t)(n * k));
    for (int64_t i = 0; i < n * k; i++)
        b[i] = fabsf(b[i]);
    const pl_stored stored = {
        .kind = PL_STORED_F16, .b = half, .trans_b = trans_b, .ldb = ldb, .magnitudes = true
    };
    const pl_gemm_shape g = { .m = m, .n = n, .k = k, .trans_b = trans_b, .batch = 1 };
    assert_int_equal(pl_gemm_plain_f32(&g, 1, a, b, 0, want, NULL), PL_OK);
    assert_int_equal(pl_gemm_stored_f32(pool, m, n, k, 1, a, k, &stored, y, NULL), PL_OK);
    assert_memory_equal(y, want, (size_t)(m * n) * sizeof(*y));
    free(a);
    free(b);
    free(half);
    free(y);
    free(want);
}

static void test_half__multiplies_magnitudes(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int trans = 0; trans < 2; trans++)
            check_magnitudes(sizes[i], trans != 0);
}

/* ---- products in double ---- */

static void check_narrow(pl_dtype dtype, bool trans_b, const int64_t *d) {
    const int64_t m = d[0], n = d[1], k = d[2], ldb = (trans_b ? k : n) + 5;
    const int64_t nb = (trans_b ? n : k) * ldb;
    pl_f64 *a = malloc((size_t)(m * k) * sizeof(*a)), *wide = malloc((size_t)nb * sizeof(*wide));
    pl_f64 *y = calloc((size_t)(m * n), sizeof(*y)), *want = calloc((size_t)(m * n), sizeof(*y));
    char *narrow = malloc((size_t)nb * pl_dtype_bytes(dtype));
    for (int64_t i = 0; i < m * k; i++)
        a[i] = unit();
    for (int64_t i = 0; i < nb; i++)
        wide[i] = unit();
    pl_store_f64(dtype, (const double *)wide, narrow, (size_t)nb);
    pl_load_f64(dtype, narrow, (double *)wide, (size_t)nb);
    const pl_provider *own = NULL;
    assert_int_equal(pl_provider_find("own", &own, NULL), PL_OK);
    const pl_gemm_shape g = {
        .m = m, .n = n, .k = k, .trans_b = trans_b, .ldb = ldb, .batch = 1, .by = own
    };
    assert_true(pl_gemm_narrow_takes(&g, dtype));
    assert_int_equal(pl_gemm_f64(pool, &g, 0.75, a, wide, 0, want, NULL, NULL), PL_OK);
    assert_int_equal(pl_gemm_narrow_f64(pool, &g, 0.75, a, dtype, narrow, y, NULL), PL_OK);
    for (int64_t i = 0; i < m * n; i++) /* one row may be added in another order */
        if (m == 1)
            assert_true(fabs(y[i] - want[i]) <= (double)k * 0x1p-53 * (double)k);
        else
            assert_true(y[i] == want[i]);
    free(a);
    free(wide);
    free(narrow);
    free(y);
    free(want);
}

static void test_narrow__has_the_bits_of_the_widened_product(void **state) {
    (void)state;
    const pl_dtype dtypes[] = { PL_F16, PL_BF16, PL_F32 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int trans = 0; trans < 2; trans++)
            for (int t = 0; t < 3; t++)
                check_narrow(dtypes[t], trans != 0, sizes[i]);
}

static void test_half__has_the_bits_of_the_widened_product(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int trans = 0; trans < 2; trans++) {
            check_half(PL_F16, trans != 0, sizes[i]);
            check_half(PL_BF16, trans != 0, sizes[i]);
        }
}

/* ---- codes ---- */

typedef struct coded {
    int64_t n, k, block, n_blocks;
    pl_u8 *codes, *zeros;
    float *scales;
    pl_u16 *half_scales;
    pl_f32 *values; /* by the definition */
    pl_stored b;
} coded;

static coded coded_new(int64_t n, int64_t k, int64_t block, bool zeros, bool half, bool whole) {
    coded c = { .n = n, .k = k, .block = block, .n_blocks = k / block };
    const int64_t zero_bytes = (c.n_blocks + 1) / 2;
    c.codes = malloc((size_t)(n * k / 2));
    c.zeros = malloc((size_t)(n * zero_bytes));
    c.scales = malloc((size_t)(n * c.n_blocks) * sizeof(float));
    c.half_scales = malloc((size_t)(n * c.n_blocks) * sizeof(pl_u16));
    c.values = malloc((size_t)(n * k) * sizeof(pl_f32));
    for (int64_t i = 0; i < n * k / 2; i++)
        c.codes[i] = (pl_u8)mix();
    for (int64_t i = 0; i < n * zero_bytes; i++)
        c.zeros[i] = (pl_u8)mix();
    for (int64_t i = 0; i < n * c.n_blocks; i++)
        c.scales[i] = whole ? (float)(1 << mix() % 3) : (float)unit();
    pl_store_f32(PL_F16, c.scales, c.half_scales, (size_t)(n * c.n_blocks));
    if (half) pl_load_f32(PL_F16, c.half_scales, c.scales, (size_t)(n * c.n_blocks));
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) {
            const int64_t at = i / block;
            const int code = c.codes[(j * k + i) / 2] >> (i % 2 * 4) & 15;
            const int zero = zeros ? c.zeros[j * zero_bytes + at / 2] >> (at % 2 * 4) & 15 : 8;
            c.values[j * k + i] = (float)(code - zero) * c.scales[j * c.n_blocks + at];
        }
    c.b = (pl_stored){ .kind = PL_STORED_CODES,
                       .b = c.codes,
                       .block = block,
                       .n_blocks = c.n_blocks,
                       .scales = half ? (void *)c.half_scales : (void *)c.scales,
                       .scale_dtype = half ? PL_F16 : PL_F32,
                       .zeros = zeros ? c.zeros : NULL,
                       .zero_bytes = zero_bytes };
    return c;
}
static void coded_free(coded *c) {
    free(c->codes);
    free(c->zeros);
    free(c->scales);
    free(c->half_scales);
    free(c->values);
}

static void each_coded(void (*check)(const coded *c, int64_t m, const pl_f32 *a, bool whole)) {
    static const int64_t cases[][4] = {
        /* m, n, k, block */
        { 1, 3, 32, 32 },    { 1, 50, 4096, 32 }, { 2, 33, 96, 32 },   { 3, 70, 160, 32 },
        { 4, 17, 512, 128 }, { 5, 66, 736, 32 },  { 9, 40, 1024, 64 }, { 60, 37, 768, 256 }
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int kind = 0; kind < 8; kind++) {
            const int64_t *d = cases[i];
            const bool whole = (kind & 4) != 0;
            coded c = coded_new(d[1], d[2], d[3], (kind & 1) != 0, (kind & 2) != 0, whole);
            pl_f32 *a = floats(d[0] * d[2], whole);
            assert_true(pl_stored_takes(4, c.block, c.k));
            check(&c, d[0], a, whole);
            free(a);
            coded_free(&c);
        }
}

static void check_near(const coded *c, int64_t m, const pl_f32 *a, const pl_f32 *y, bool exact) {
    for (int64_t row = 0; row < m; row++)
        for (int64_t j = 0; j < c->n; j++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < c->k; i++) {
                const double p = (double)a[row * c->k + i] * (double)c->values[j * c->k + i];
                sum += p;
                size += fabs(p);
            }
            /* every partial sum has at most k roundings, and each product one */
            const double bound = exact ? 0 : size * (double)(c->k + 4) * 0x1p-24;
            const double got = (double)y[row * c->n + j];
            if (!(fabs(got - sum) <= bound))
                fail_msg("(%d, %d) of k %d, block %d: %.9g, expected %.9g", (int)row, (int)j,
                         (int)c->k, (int)c->block, got, sum);
        }
}

static void check_codes(const coded *c, int64_t m, const pl_f32 *a, bool whole) {
    pl_f32 *y = calloc((size_t)(m * c->n), sizeof(*y)), *want = calloc((size_t)(m * c->n), 4);
    assert_int_equal(pl_gemm_stored_f32(pool, m, c->n, c->k, 1, a, c->k, &c->b, y, NULL), PL_OK);
    check_near(c, m, a, y, whole);
    if (m > PL_CODE_ROWS) { /* the blocked product: no other order */
        const pl_provider *own = NULL;
        assert_int_equal(pl_provider_find("own", &own, NULL), PL_OK);
        const pl_gemm_shape g = {
            .m = m, .n = c->n, .k = c->k, .trans_b = true, .batch = 1, .by = own
        };
        assert_int_equal(pl_gemm_f32(pool, &g, 1, a, c->values, 0, want, NULL, NULL), PL_OK);
        assert_memory_equal(y, want, (size_t)(m * c->n) * sizeof(*y));
    }
    free(y);
    free(want);
}

static void test_codes__are_the_product_of_their_values(void **state) {
    (void)state;
    each_coded(check_codes);
}

/* A in 8 bits by the definition. */
static void round_by_hand(pl_f32 *a, int64_t n, int64_t block) {
    for (int64_t at = 0; at < n; at += block) {
        float most = 0;
        for (int64_t i = at; i < at + block; i++)
            most = fmaxf(most, fabsf(a[i]));
        for (int64_t i = at; i < at + block && most > 0; i++)
            a[i] = rintf(a[i] * (127 / most)) * (most / 127);
    }
}

static void check_i8(const coded *c, int64_t m, const pl_f32 *a, bool whole) {
    bool done = false;
    (void)whole;
    pl_f32 *y = calloc((size_t)(m * c->n), sizeof(*y)), *rounded = malloc((size_t)(m * c->k) * 4);
    memcpy(rounded, a, (size_t)(m * c->k) * 4);
    round_by_hand(rounded, m * c->k, c->block);
    assert_int_equal(pl_gemm_stored_i8(pool, m, c->n, c->k, a, &c->b, y, &done, NULL), PL_OK);
    assert_true(done == (pl_cpu_isa() != PL_ISA_BASE));
    if (done) check_near(c, m, rounded, y, false);
    free(y);
    free(rounded);
}

static void test_i8__is_the_product_of_rounded_rows(void **state) {
    (void)state;
    each_coded(check_i8);
}

static void test_i8__leaves_what_is_not_finite(void **state) {
    (void)state;
    coded c = coded_new(5, 64, 32, false, false, false);
    pl_f32 *a = floats(64, false), y[5] = { 7, 7, 7, 7, 7 };
    static const float odd[] = { INFINITY, -INFINITY, NAN };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        bool done = true;
        const float before = a[40];
        a[40] = odd[i]; /* other elements of its block follow */
        assert_int_equal(pl_gemm_stored_i8(pool, 1, 5, 64, a, &c.b, y, &done, NULL), PL_OK);
        assert_false(done);
        assert_true(y[0] == 7);
        a[40] = before;
    }
    free(a);
    coded_free(&c);
}

/* The instruction of VNNI and the pair of older ones add the same integers. */
static void test_i8__has_the_same_bits_with_vnni(void **state) {
    (void)state;
    const pl_stored_table *t = PL_TABLE_OF(pl_cpu_isa(), pl_stored_table);
    if (t->dots_i8_vnni == NULL || (pl_cpu_features() >> PL_CPU_VNNI & 1) == 0) skip();
    enum { K = 160, WHOLE = 256 };
    coded c = coded_new(1, K, 32, true, false, false);
    int8_t a[4 * WHOLE] = { 0 };
    float scales[4 * 8], sums[4 * WHOLE / 8], zeros[8] = { 0 }, b_scales[8] = { 0 }, one[4], two[4];
    for (int i = 0; i < 4 * WHOLE; i++)
        a[i] = (int8_t)((int)(mix() % 255) - 127);
    for (int i = 0; i < 4 * 8; i++)
        scales[i] = (float)unit();
    for (int i = 0; i < 4 * WHOLE / 8; i++)
        sums[i] = (float)(mix() % 100);
    for (int i = 0; i < 5; i++) {
        b_scales[i] = c.scales[i];
        zeros[i] = (float)(mix() % 16);
    }
    const pl_codes b = { c.codes, b_scales, zeros, 32, 5 };
    const pl_codes_a rows = { a, scales, sums, WHOLE, 8, WHOLE / 8 };
    for (int n = 1; n <= 4; n++) {
        t->dots_i8(&b, &rows, n, one);
        t->dots_i8_vnni(&b, &rows, n, two);
        assert_memory_equal(one, two, (size_t)n * sizeof(float));
    }
    enum { COLS = 16, PARTS = 5 };
    pl_u8 codes[PARTS * 32 * COLS];
    float of_parts[2][PARTS * COLS], tile[4 * COLS], tile_vnni[4 * COLS];
    for (int i = 0; i < COLS; i++)
        t->pack_i8(c.codes, PARTS, codes + 4 * i);
    for (int i = 0; i < PARTS * COLS; i++) {
        of_parts[0][i] = (float)unit();
        of_parts[1][i] = (float)(mix() % 16);
    }
    const pl_codes panel = { codes, of_parts[0], of_parts[1], 32, PARTS };
    t->tile_i8(&panel, &rows, 4, tile);
    t->tile_i8_vnni(&panel, &rows, 4, tile_vnni);
    assert_memory_equal(tile, tile_vnni, sizeof tile);
    coded_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_half__has_the_bits_of_the_widened_product),
        cmocka_unit_test(test_half__multiplies_magnitudes),
        cmocka_unit_test(test_narrow__has_the_bits_of_the_widened_product),
        cmocka_unit_test(test_codes__are_the_product_of_their_values),
        cmocka_unit_test(test_i8__is_the_product_of_rounded_rows),
        cmocka_unit_test(test_i8__leaves_what_is_not_finite),
        cmocka_unit_test(test_i8__has_the_same_bits_with_vnni),
    };
    return cmocka_run_group_tests(tests, pool_set_up, pool_tear_down);
}
