/* Matrix products against the plain loops, within the rounding bound of a dot product. The
 * instruction set is that of PLUMB_CPU, the provider that of PLUMB_KERNELS: tests/run runs it for
 * each. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel_rig.h"
#include "kernels/gemm/gemm.h"
#include "kernels/provider.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

/* Random matrices at odd addresses; each plus room around C that must stay as it is. */
typedef struct rig {
    pl_gemm_shape s;
    size_t na, nb, nc;
    double *a, *b, *c;
} rig;

static size_t extent(int64_t rows, int64_t cols, int64_t ld) {
    return rows == 0 || cols == 0 ? 0 : (size_t)((rows - 1) * (ld ? ld : cols) + cols);
}
static rig rig_new(pl_gemm_shape s) {
    rig r = { .s = s };
    const int64_t last = s.batch - 1;
    r.na =
        extent(s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, s.lda) + (size_t)(last * s.stride_a);
    r.nb =
        extent(s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, s.ldb) + (size_t)(last * s.stride_b);
    r.nc = extent(s.m, s.n, s.ldc) + (size_t)(last * s.stride_c);
    r.a = malloc((r.na + 1) * 8);
    r.b = malloc((r.nb + 1) * 8);
    r.c = malloc((r.nc + 1) * 8);
    for (size_t i = 0; i < r.na; i++)
        r.a[i] = (double)(float)unit();
    for (size_t i = 0; i < r.nb; i++)
        r.b[i] = (double)(float)unit();
    for (size_t i = 0; i < r.nc; i++)
        r.c[i] = (double)(float)unit();
    return r;
}
static void rig_free(rig *r) {
    free(r->a);
    free(r->b);
    free(r->c);
}
/* The truth and the magnitude in long double; NaN marks elements that belong to no product. */
static void rig_truth(const rig *r, double alpha, double beta, long double *want,
                      long double *mag) {
    const pl_gemm_shape *s = &r->s;
    const int64_t lda = s->lda ? s->lda : (s->trans_a ? s->m : s->k);
    const int64_t ldb = s->ldb ? s->ldb : (s->trans_b ? s->k : s->n), ldc = s->ldc ? s->ldc : s->n;
    for (size_t i = 0; i < r->nc; i++)
        want[i] = (long double)NAN;
    for (int64_t q = 0; q < s->batch; q++)
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t j = 0; j < s->n; j++) {
                long double sum = 0, m = 0;
                for (int64_t k = 0; k < s->k; k++) {
                    const long double x =
                        (long double)
                            r->a[q * s->stride_a + (s->trans_a ? k * lda + i : i * lda + k)];
                    const long double y =
                        (long double)
                            r->b[q * s->stride_b + (s->trans_b ? j * ldb + k : k * ldb + j)];
                    sum += x * y;
                    m += fabsl(x * y);
                }
                const int64_t at = q * s->stride_c + i * ldc + j;
                const long double old = beta == 0 ? 0 : (long double)beta * (long double)r->c[at];
                want[at] = (long double)alpha * sum + old;
                mag[at] = fabsl((long double)alpha * m) + fabsl(old);
            }
}

#define CHECK(T, E, suffix, eps)                                                                   \
    static void check_##suffix(pl_gemm_shape s, double alpha, double beta, bool with_state) {      \
        rig r = rig_new(s);                                                                        \
        long double *want = malloc((r.nc + 1) * sizeof *want);                                     \
        long double *mag = calloc(r.nc + 1, sizeof *mag);                                          \
        char *bytes = malloc((r.na + r.nb + 4 * r.nc + 4) * sizeof(T) + 4);                        \
        E *a = (E *)(bytes + 1), *b = a + r.na, *c0 = b + r.nb, *c = c0 + r.nc, *c1 = c + r.nc;    \
        E *c2 = c1 + r.nc;                                                                         \
        for (size_t i = 0; i < r.na; i++)                                                          \
            a[i] = (T)r.a[i];                                                                      \
        for (size_t i = 0; i < r.nb; i++)                                                          \
            b[i] = (T)r.b[i];                                                                      \
        for (size_t i = 0; i < r.nc; i++)                                                          \
            c0[i] = c[i] = c1[i] = c2[i] = (T)r.c[i];                                              \
        rig_truth(&r, alpha, beta, want, mag);                                                     \
        pl_gemm_state *st = NULL;                                                                  \
        pl_err err = PL_ERR_INIT;                                                                  \
        pl_gemm_state **slot = with_state ? &st : NULL;                                            \
        assert_int_equal(pl_gemm_##suffix(NULL, &s, (T)alpha, a, b, (T)beta, c, slot, &err), 0);   \
        assert_int_equal(pl_gemm_##suffix(pool, &s, (T)alpha, a, b, (T)beta, c1, slot, &err), 0);  \
        assert_int_equal(pl_gemm_plain_##suffix(&s, (T)alpha, a, b, (T)beta, c2, &err), 0);        \
        assert_memory_equal(c, c1, r.nc * sizeof(T)); /* 1 thread and 3 */                         \
        for (size_t i = 0; i < r.nc; i++) {                                                        \
            if (isnan(want[i])) { /* between the rows: untouched */                                \
                assert_true(c[i] == c0[i] && c2[i] == c0[i]);                                      \
                continue;                                                                          \
            }                                                                                      \
            const long double tol = ((long double)s.k + 4) * eps * mag[i];                         \
            if (!(fabsl((long double)c[i] - want[i]) <= tol))                                      \
                fail_msg("m %d n %d k %d ta %d tb %d at %zu: %g, not %Lg", (int)s.m, (int)s.n,     \
                         (int)s.k, s.trans_a, s.trans_b, i, (double)c[i], want[i]);                \
            assert_true(fabsl((long double)c2[i] - want[i]) <= tol);                               \
        }                                                                                          \
        pl_gemm_state_free(st);                                                                    \
        free(want);                                                                                \
        free(mag);                                                                                 \
        free(bytes);                                                                               \
        rig_free(&r);                                                                              \
    }
CHECK(float, pl_f32, f32, 0x1p-24L)
CHECK(double, pl_f64, f64, 0x1p-53L)

static void check_both(pl_gemm_shape s, double alpha, double beta, bool with_state) {
    check_f32(s, alpha, beta, with_state);
    check_f64(s, alpha, beta, with_state);
}

/* transposed: bit 0 is A, bit 1 is B */
static pl_gemm_shape plain_shape(int64_t m, int64_t n, int64_t k, int transposed) {
    return (pl_gemm_shape){
        .m = m, .n = n, .k = k, .batch = 1, .trans_a = transposed & 1, .trans_b = transposed & 2
    };
}

static void test_gemm__every_small_size_and_transpose_is_right(void **state) {
    (void)state;
    const int64_t dims[] = { 1, 2, 3, 5, 13, 14, 15, 29, 33, 64, 70 };
    enum { N = sizeof dims / sizeof *dims };
    for (int m = 0; m < N; m++)
        for (int n = 0; n < N; n++)
            for (int k = 0; k < N; k += 2)
                for (int t = 0; t < 4; t++) {
                    check_both(plain_shape(dims[m], dims[n], dims[k], t), 1, 0, (m + n + k) & 1);
                }
}

static void test_gemm__blocks_of_k_alpha_and_beta_are_right(void **state) {
    (void)state;
    const int64_t ks[] = { 383, 384, 385, 769, 3100 };
    for (int i = 0; i < 5; i++)
        for (int t = 0; t < 4; t++)
            for (int m = 1; m < 60; m = m * 3 + 2) {
                pl_gemm_shape s = {
                    .m = m, .n = 45, .k = ks[i], .batch = 1, .trans_a = t & 1, .trans_b = t & 2
                };
                check_both(s, 1, 1, false);
                check_both(s, -0.75, 0.5, t == 2);
            }
}

static void test_gemm__leading_dims_leave_the_gaps_alone(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        pl_gemm_shape s = { .m = 37,
                            .n = 75,
                            .k = 50,
                            .batch = 1,
                            .trans_a = t & 1,
                            .trans_b = t & 2,
                            .lda = 61,
                            .ldb = 90,
                            .ldc = 80 };
        check_both(s, 1, 0, false);
        check_both(s, 2, 3, true);
        s.m = 1;
        check_both(s, 1, 0, false);
    }
}

static void test_gemm__batches_are_right(void **state) {
    (void)state;
    pl_gemm_shape s = { .m = 20,
                        .n = 64,
                        .k = 24,
                        .batch = 7,
                        .stride_a = 20 * 24,
                        .stride_b = 24 * 64,
                        .stride_c = 20 * 64 };
    check_both(s, 1, 0, false);
    s.stride_b = 0; /* shared B: one tall matrix */
    check_both(s, 1, 0, true);
    s.trans_b = true;
    check_both(s, 1, 0, true);
    s.stride_a = 0;
    s.trans_a = true;
    check_both(s, 1, 0.5, false);
}

static void test_gemm__large_products_are_right(void **state) {
    (void)state;
    pl_gemm_shape s = { .m = 300, .n = 700, .k = 1100, .batch = 1 };
    check_f32(s, 1, 0, true);
    s.trans_b = true;
    check_f32(s, 1, 0, false);
}

static void test_gemm__offset_tables_broadcast(void **state) {
    (void)state;
    const int64_t oa[4] = { 0, 0, 6, 6 }, ob[4] = { 0, 6, 0, 6 };
    float a[12], b[12], c[16], p[16];
    for (int i = 0; i < 12; i++) {
        a[i] = (float)unit();
        b[i] = (float)unit();
    }
    pl_gemm_shape s = {
        .m = 2, .n = 2, .k = 3, .batch = 4, .stride_c = 4, .offsets_a = oa, .offsets_b = ob
    };
    assert_int_equal(pl_gemm_f32(pool, &s, 1, a, b, 0, c, NULL, NULL), 0);
    for (int q = 0; q < 4; q++) {
        pl_gemm_shape one = { .m = 2, .n = 2, .k = 3, .batch = 1 };
        pl_gemm_plain_f32(&one, 1, a + oa[q], b + ob[q], 0, p + 4 * q, NULL);
    }
    for (int i = 0; i < 16; i++)
        assert_true(fabsf(c[i] - p[i]) < 1e-6f);
}

static void test_gemm__beta_zero_ignores_nan_and_k_zero_scales(void **state) {
    (void)state;
    float a[6] = { 1, 2, 3, 4, 5, 6 }, c[4] = { NAN, NAN, NAN, NAN };
    pl_gemm_shape s = { .m = 2, .n = 2, .k = 3, .batch = 1 };
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, a, 0, c, NULL, NULL), 0);
    assert_true(c[0] == 22 && c[3] == 64);
    s.k = 0;
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, a, 0.5f, c, NULL, NULL), 0);
    assert_true(c[0] == 11 && c[3] == 32);
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, a, 0, c, NULL, NULL), 0);
    assert_true(c[0] == 0);
    s.m = 0;
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, a, 0, NULL, NULL, NULL), 0);
}

static void test_gemm__bad_shapes_are_refused(void **state) {
    (void)state;
    float x[4] = { 0 };
    pl_err err = PL_ERR_INIT;
    pl_gemm_shape s = { .m = -1, .n = 1, .k = 1, .batch = 1 };
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, x, x, 0, x, NULL, &err), PL_E_INVALID);
    s = (pl_gemm_shape){ .m = 2, .n = 2, .k = 2, .lda = 1, .batch = 1 };
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, x, x, 0, x, NULL, &err), PL_E_INVALID);
    s = (pl_gemm_shape){ .m = INT64_MAX / 2, .n = 2, .k = 8, .batch = 1 };
    assert_int_equal(pl_gemm_f32(NULL, &s, 1, x, x, 0, x, NULL, &err), PL_E_INVALID);
}

static void test_gemm__a_state_follows_its_weights(void **state) {
    (void)state;
    enum { M = 64, N = 40, K = 30 };
    float a[M * K], b[2][K * N], c[M * N], p[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = (float)unit();
    for (int i = 0; i < 2 * K * N; i++)
        b[i / (K * N)][i % (K * N)] = (float)unit();
    pl_gemm_state *st = NULL;
    for (int i = 0; i < 24; i++) { /* the pointer changes, then the shape */
        pl_gemm_shape s = {
            .m = i % 3 ? M : i / 3 + 1, .n = N, .k = K, .trans_b = i >= 12, .batch = 1
        };
        s.by = &pl_provider_own;
        assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, b[i % 2], 0, c, &st, NULL), 0);
        if (s.m == M) assert_non_null(st);
        assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, b[i % 2], 0, p, NULL, NULL), 0);
        assert_memory_equal(c, p, (size_t)(s.m * N) * sizeof *c); /* packed or not: the same bits */
    }
    pl_gemm_state_free(st);
}

static void test_gemm__running_out_of_memory_is_an_error(void **state) {
    (void)state;
    enum { M = 200, N = 200, K = 100 };
    float *x = calloc(3 * M * N, sizeof *x);
    for (long n = 0; n < 3; n++) {
        pl_gemm_state *st = NULL;
        pl_err err = PL_ERR_INIT;
        pl_gemm_shape s = { .m = M, .n = N, .k = K, .batch = 1, .by = &pl_provider_own };
        pl_alloc_fail_after(n);
        const pl_status r = pl_gemm_f32(NULL, &s, 1, x, x + M * N, 0, x + 2 * M * N, &st, &err);
        pl_alloc_fail_after(-1);
        assert_int_equal(r, PL_E_MEMORY);
        pl_gemm_state_free(st);
    }
    free(x);
}

static void check_i8(pl_gemm_shape s, bool as, bool bs, int zeros) {
    rig r = rig_new(s);
    uint8_t *a = malloc(r.na + 1), *b = malloc(r.nb + 1);
    pl_i32 *c = malloc((r.nc + 1) * 4), *p = malloc((r.nc + 1) * 4);
    for (size_t i = 0; i < r.na; i++)
        a[i] = (uint8_t)mix();
    for (size_t i = 0; i < r.nb; i++)
        b[i] = (uint8_t)mix();
    memset(c, 0x11, r.nc * 4);
    memset(p, 0x11, r.nc * 4);
    pl_i32 za[200], zb[200];
    for (int i = 0; i < 200; i++) {
        za[i] = (int32_t)(mix() % 256) - (as ? 128 : 0);
        zb[i] = (int32_t)(mix() % 256) - (bs ? 128 : 0);
    }
    pl_gemm_i8_zero a_zero = { zeros ? za : NULL, zeros == 2, 0 };
    pl_gemm_i8_zero b_zero = { zeros ? zb : NULL, zeros == 2, 0 };
    assert_int_equal(pl_gemm_i8(pool, &s, a, as, a_zero, b, bs, b_zero, c, NULL), 0);
    assert_int_equal(pl_gemm_plain_i8(&s, a, as, a_zero, b, bs, b_zero, p, NULL), 0);
    assert_memory_equal(c, p, r.nc * 4);
    free(a);
    free(b);
    free(c);
    free(p);
    rig_free(&r);
}

static void test_gemm__integers_are_exact(void **state) {
    (void)state;
    const int64_t dims[] = { 1, 2, 7, 14, 33, 130 };
    for (int m = 0; m < 6; m++)
        for (int n = 0; n < 6; n++)
            for (int k = 0; k < 6; k++)
                for (int t = 0; t < 4; t++) {
                    check_i8(plain_shape(dims[m], dims[n], dims[k], t), k & 1, (n + t) & 1,
                             (m + k) % 3);
                }
    pl_gemm_shape deep = { .m = 3,
                           .n = 50,
                           .k = 2500,
                           .batch = 2,
                           .stride_a = 7500,
                           .stride_b = 125000,
                           .stride_c = 150 };
    check_i8(deep, true, false, 2);
    deep.trans_b = true;
    deep.ldc = 55;
    deep.stride_c = 3 * 55;
    check_i8(deep, false, true, 1);
    /* Many rows share the packed columns, in several groups. */
    check_i8(plain_shape(3001, 200, 40, 0), false, true, 1);
}

static void test_gemm__an_integer_zero_point_out_of_range_is_refused(void **state) {
    (void)state;
    const uint8_t x = 1;
    const pl_i32 zero = 300;
    pl_i32 c;
    pl_gemm_shape s = { .m = 1, .n = 1, .k = 1, .batch = 1 };
    pl_gemm_i8_zero z = { &zero, 0, 0 }, none = { NULL, 0, 0 };
    assert_int_equal(pl_gemm_i8(NULL, &s, &x, false, z, &x, false, none, &c, NULL), PL_E_INVALID);
}

/* The long sums are the plain ones, to the bit: any shape, with alpha and beta, on a pool. */
static void test_gemm__long_sums_are_the_plain_ones(void **state) {
    (void)state;
    const int64_t shapes[][3] = {
        { 1, 1, 1 }, { 1, 70, 513 }, { 5, 33, 800 }, { 67, 50, 9 }, { 3, 7, 0 }
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        for (int v = 0; v < 4; v++) {
            const int64_t m = shapes[i][0], n = shapes[i][1], k = shapes[i][2];
            pl_gemm_shape s = { .m = m, .n = n, .k = k, .batch = 1 };
            s.trans_a = v % 2 == 1;
            s.trans_b = v >= 2;
            float *a = malloc((size_t)(m * k + k * n + 2 * m * n + 1) * sizeof(float));
            float *b = a + m * k, *want = b + k * n, *got = want + m * n;
            for (int64_t q = 0; q < m * k + k * n; q++)
                a[q] = (float)((q * 7919 + 13) % 1009) / 307.0f - 1.5f;
            for (int64_t q = 0; q < m * n; q++)
                want[q] = got[q] = (float)q;
            const float alpha = v == 1 ? 0.7f : 1, beta = v == 2 ? -0.3f : 0;
            assert_int_equal(pl_gemm_plain_f32(&s, alpha, a, b, beta, want, NULL), PL_OK);
            assert_int_equal(pl_gemm_long_f32(pool, &s, alpha, a, b, beta, got, NULL), PL_OK);
            assert_memory_equal(want, got, (size_t)(m * n) * sizeof(float));
            free(a);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__every_small_size_and_transpose_is_right),
        cmocka_unit_test(test_gemm__blocks_of_k_alpha_and_beta_are_right),
        cmocka_unit_test(test_gemm__leading_dims_leave_the_gaps_alone),
        cmocka_unit_test(test_gemm__batches_are_right),
        cmocka_unit_test(test_gemm__large_products_are_right),
        cmocka_unit_test(test_gemm__offset_tables_broadcast),
        cmocka_unit_test(test_gemm__beta_zero_ignores_nan_and_k_zero_scales),
        cmocka_unit_test(test_gemm__bad_shapes_are_refused),
        cmocka_unit_test(test_gemm__a_state_follows_its_weights),
        cmocka_unit_test(test_gemm__running_out_of_memory_is_an_error),
        cmocka_unit_test(test_gemm__integers_are_exact),
        cmocka_unit_test(test_gemm__an_integer_zero_point_out_of_range_is_refused),
        cmocka_unit_test(test_gemm__long_sums_are_the_plain_ones),
    };
    return cmocka_run_group_tests(tests, pool_set_up, pool_tear_down);
}
