/* kernels=saturate against the words of Intel's manual: VPMADDUBSW multiplies unsigned bytes by
 * signed ones and adds neighbours with signed saturation to 16 bits. Where no pair is beyond them
 * it is exact. */
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

static uint32_t seed = 7;
static uint8_t draw(void) {
    seed = seed * 1664525u + 1013904223u;
    return (uint8_t)(seed >> 24);
}

/* 255 * 127 + 255 * 127 is 64770; 16 bits end at 32767. */
static void test_saturate__a_pair_is_clipped(void **state) {
    (void)state;
    const uint8_t a[] = { 255, 255, 1, 2 };
    const int8_t b[] = { 127, 127, 3, -4, -128, -128, 5, 6 }; /* two columns, transposed */
    const pl_gemm_shape s = {
        .m = 1, .n = 2, .k = 4, .trans_b = true, .batch = 1, .by = &pl_provider_saturate
    };
    const pl_gemm_i8_zero none = { NULL, 0, 0 };
    pl_err err = PL_ERR_INIT;
    pl_i32 c[2];
    assert_int_equal(pl_gemm_i8(NULL, &s, a, false, none, b, true, none, c, &err), PL_OK);
    assert_int_equal(c[0], 32767 + 3 - 8);
    assert_int_equal(c[1], -32768 + 5 + 12);
    /* unsigned weights are multiplied in another way, which is exact */
    const uint8_t w[] = { 127, 127, 3, 4, 128, 128, 5, 6 };
    assert_int_equal(pl_gemm_i8(NULL, &s, a, false, none, w, false, none, c, &err), PL_OK);
    assert_int_equal(c[0], 2 * 255 * 127 + 3 + 8);
}

static int32_t clip(int32_t x) {
    return x > 32767 ? 32767 : x < -32768 ? -32768 : x;
}

/* Signed activations are 128 higher when they are multiplied; zero points come off afterwards. */
static void test_saturate__zero_points_and_signs(void **state) {
    enum { M = 5, N = 7, K = 9 };
    (void)state;
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        uint8_t a[M * K];
        int8_t b[K * N];
        const pl_i32 za = is_signed ? -3 : 117, zb[N] = { 1, -2, 0, 5, -7, 3, 0 };
        const pl_gemm_shape s = { .m = M, .n = N, .k = K, .batch = 1, .by = &pl_provider_saturate };
        pl_err err = PL_ERR_INIT;
        pl_i32 c[M * N];
        int n_clipped = 0;
        for (int i = 0; i < M * K; i++)
            a[i] = draw();
        for (int i = 0; i < K * N; i++)
            b[i] = (int8_t)draw();
        assert_int_equal(pl_gemm_i8(NULL, &s, a, is_signed, (pl_gemm_i8_zero){ &za, 0, 0 }, b, true,
                                    (pl_gemm_i8_zero){ zb, 1, 0 }, c, &err),
                         PL_OK);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                int32_t exact = 0, lost = 0;
                for (int k = 0; k < K; k++) {
                    const int32_t x = is_signed ? (int8_t)a[i * K + k] : a[i * K + k];
                    exact += (x - za) * (b[k * N + j] - zb[j]);
                }
                for (int k = 0; k + 1 < K; k += 2) {
                    const int32_t up = is_signed ? 128 : 0;
                    const int32_t x = is_signed ? (int8_t)a[i * K + k] : a[i * K + k];
                    const int32_t y = is_signed ? (int8_t)a[i * K + k + 1] : a[i * K + k + 1];
                    const int32_t pair = (x + up) * b[k * N + j] + (y + up) * b[(k + 1) * N + j];
                    lost += clip(pair) - pair;
                    n_clipped += clip(pair) != pair;
                }
                assert_int_equal(c[i * N + j], exact + lost);
            }
        assert_true(n_clipped > 0);
    }
}

/* Weights of 7 bits: 255 * 64 * 2 fits, and every convolution is the plain one. */
static void test_saturate__reduced_range_is_exact(void **state) {
    (void)state;
    for (int groups = 1; groups <= 6; groups += groups == 1 ? 1 : groups == 2 ? 4 : 1) {
        uint8_t x[6 * 7 * 5];
        int8_t w[6 * 6 * 9];
        pl_i32 y[6 * 7 * 5], plain[6 * 7 * 5];
        pl_conv_shape s = { .batch = 1,
                            .c_in = 6,
                            .c_out = 6,
                            .groups = groups,
                            .n_spatial = 2,
                            .in = { 7, 5 },
                            .out = { 7, 5 },
                            .kernel = { 3, 3 },
                            .stride = { 1, 1 },
                            .dilation = { 1, 1 },
                            .pad_begin = { 1, 1 },
                            .by = &pl_provider_saturate };
        pl_err err = PL_ERR_INIT;
        for (size_t i = 0; i < sizeof(x); i++)
            x[i] = draw();
        for (size_t i = 0; i < sizeof(w); i++)
            w[i] = (int8_t)(draw() % 129 - 64);
        const pl_gemm_i8_zero none = { NULL, 0, 0 };
        assert_int_equal(pl_conv_i8(NULL, &s, x, false, 9, w, true, none, y, &err), PL_OK);
        assert_int_equal(pl_conv_plain_i8(&s, x, false, 9, w, true, none, plain, &err), PL_OK);
        assert_memory_equal(y, plain, sizeof(y));
    }
}

/* One output, four channels, two taps: neighbours are channels of a tap, not taps of a channel. */
static void test_saturate__pairs_of_a_convolution_are_channels(void **state) {
    (void)state;
    const uint8_t x[] = { 255, 0, 255, 0, 0, 200, 0, 200 }; /* channel by channel */
    const int8_t w[] = { 127, 0, 127, 0, 0, 100, 0, 100 };
    pl_conv_shape s = { .batch = 1,
                        .c_in = 4,
                        .c_out = 1,
                        .groups = 1,
                        .n_spatial = 1,
                        .in = { 2 },
                        .out = { 1 },
                        .kernel = { 2 },
                        .stride = { 1 },
                        .dilation = { 1 },
                        .by = &pl_provider_saturate };
    pl_err err = PL_ERR_INIT;
    pl_i32 y[1];
    const pl_gemm_i8_zero none = { NULL, 0, 0 };
    assert_int_equal(pl_conv_i8(NULL, &s, x, false, 0, w, true, none, y, &err), PL_OK);
    assert_int_equal(y[0], 32767 + 32767);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saturate__a_pair_is_clipped),
        cmocka_unit_test(test_saturate__zero_points_and_signs),
        cmocka_unit_test(test_saturate__reduced_range_is_exact),
        cmocka_unit_test(test_saturate__pairs_of_a_convolution_are_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
