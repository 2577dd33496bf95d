/* Providers of kernels beside each other in one process. That each computes what the plain loops
 * do is tested by test_kernels_*.c, which tests/run runs once for each provider. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/provider.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static void test_provider__names_are_those_of_the_rows(void **state) {
    (void)state;
    char names[100] = "";
    for (size_t i = 0; pl_provider_rows[i] != NULL; i++) {
        const pl_provider *by = NULL;
        pl_err err = PL_ERR_INIT;
        strcat(strcat(names, i > 0 ? "|" : ""), pl_provider_rows[i]->name);
        assert_int_equal(pl_provider_find(pl_provider_rows[i]->name, &by, &err), PL_OK);
        assert_ptr_equal(by, pl_provider_rows[i]);
    }
    assert_string_equal(names, PL_PROVIDER_NAMES);
}

static void test_provider__an_unknown_name_is_refused(void **state) {
    (void)state;
    const pl_provider *by = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_provider_find("mkl", &by, &err), PL_E_USAGE);
    assert_non_null(strstr(err.message, "mkl"));
    assert_non_null(strstr(err.message, "blas"));
    assert_null(by);
}

static void test_provider__versions_tell_them_apart(void **state) {
    (void)state;
    char own[64], blas[64], little[4];
    pl_provider_version(&pl_provider_own, own, sizeof own);
    pl_provider_version(&pl_provider_blas, blas, sizeof blas);
    assert_string_equal(own, PLUMB_VERSION);
    assert_non_null(strstr(blas, PLUMB_VERSION " blas (OpenBLAS "));
    const size_t n = pl_provider_describe(&pl_provider_blas, little, sizeof little);
    assert_int_equal(strlen(little), 3);
    assert_int_equal(n, strlen(blas) - strlen(PLUMB_VERSION " "));
}

static const char *const settings[] = { "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS",
                                        "OMP_NUM_THREADS", "DNNL_MAX_CPU_ISA" };
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* The library's settings are for its loading only: programs that plumb starts inherit none. */
static void test_provider__leaves_the_environment_alone(void **state) {
    (void)state;
    for (size_t i = 0; i < N_SETTINGS; i++)
        assert_null(getenv(settings[i]));
}

enum { M = 61, N = 45, K = 33 };

static void fill(float *x, int n, int step) {
    for (int i = 0; i < n; i++)
        x[i] = (float)(i * step % 201 - 100) / 128; /* products and sums are exact */
}

static void test_provider__one_state_follows_its_provider(void **state) {
    (void)state;
    static float a[M * K], c[M * N], want[M * N];
    static char odd[K * N * 4 + 1];
    float *b = (float *)malloc(K * N * 4);
    assert_non_null(b);
    fill(a, M * K, 7);
    fill(b, K * N, 11);
    memcpy(odd + 1, b, K * N * 4);
    pl_gemm_state *st = NULL;
    pl_gemm_shape s = { .m = M, .n = N, .k = K, .batch = 1 };
    assert_int_equal(pl_gemm_plain_f32(&s, 1, a, b, 0, want, NULL), PL_OK);
    for (size_t i = 0; i < 12; i++) { /* B at an odd address: libraries get a copy, kept there */
        s.by = pl_provider_rows[i % 4];
        memset(c, 0xff, sizeof c);
        assert_int_equal(pl_gemm_f32(NULL, &s, 1, a, (const pl_f32 *)(odd + 1), 0, c, &st, NULL),
                         PL_OK);
        assert_memory_equal(c, want, sizeof c);
    }
    pl_gemm_state_free(st);
    free(b);
}

/* A batch from the last to the first, at an odd address. */
static void test_provider__batches_may_run_backwards(void **state) {
    (void)state;
    enum { SIZE = 8 * 8, BATCH = 9 };
    static const int64_t back[BATCH] = { 0,         -SIZE,     -2 * SIZE, -3 * SIZE, -4 * SIZE,
                                         -5 * SIZE, -6 * SIZE, -7 * SIZE, -8 * SIZE };
    float x[BATCH * SIZE], want[BATCH * SIZE], c[BATCH * SIZE];
    char odd[sizeof x + 1];
    fill(x, BATCH * SIZE, 7);
    memcpy(odd + 1, x, sizeof x);
    const pl_f32 *last = (const pl_f32 *)(odd + 1) + 8 * SIZE;
    pl_gemm_shape s = { .m = 8, .n = 8, .k = 8, .batch = BATCH, .stride_c = SIZE };
    s.offsets_a = s.offsets_b = back;
    assert_int_equal(pl_gemm_plain_f32(&s, 1, last, last, 0, want, NULL), PL_OK);
    for (size_t i = 0; pl_provider_rows[i] != NULL; i++) {
        s.by = pl_provider_rows[i];
        memset(c, 0xff, sizeof c);
        assert_int_equal(pl_gemm_f32(NULL, &s, 1, last, last, 0, c, NULL, NULL), PL_OK);
        assert_memory_equal(c, want, sizeof c);
    }
}

static void test_provider__nan_times_zero_is_nan_with_each(void **state) {
    (void)state;
    for (size_t i = 0; pl_provider_rows[i] != NULL; i++) {
        float a[2] = { __builtin_nanf(""), 1 }, b[2] = { 1, 1 }, c[1] = { 5 };
        const pl_gemm_shape s = { .m = 1, .n = 1, .k = 2, .batch = 1, .by = pl_provider_rows[i] };
        assert_int_equal(pl_gemm_f32(NULL, &s, 0, a, b, 0, c, NULL, NULL), PL_OK);
        assert_true(c[0] != c[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_provider__names_are_those_of_the_rows),
        cmocka_unit_test(test_provider__an_unknown_name_is_refused),
        cmocka_unit_test(test_provider__versions_tell_them_apart),
        cmocka_unit_test(test_provider__leaves_the_environment_alone),
        cmocka_unit_test(test_provider__one_state_follows_its_provider),
        cmocka_unit_test(test_provider__batches_may_run_backwards),
        cmocka_unit_test(test_provider__nan_times_zero_is_nan_with_each),
    };
    for (size_t i = 0; i < N_SETTINGS; i++) /* the user may have set some */
        unsetenv(settings[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
