/* Random numbers: pinned values from an independent Python rendering of the formula, and
 * statistics. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>

#include "base/rng.h"

static void test_rng__is_the_same_everywhere(void **state) {
    (void)state;
    assert_true(pl_rng_at(0, 0, 0) == UINT64_C(0x1b11ad2f39645d56));
    assert_true(pl_rng_at(42, 7, 123456789) == UINT64_C(0xac6ead42d7cf028f));
    assert_true(pl_rng_at(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_C(0xa616013d4fc72e8a));
    assert_true(pl_rng_normal_at(0, 0, 0) == 0x1.776df898p+0);
    assert_true(pl_rng_normal_at(42, 7, 123456789) == -0x1.3d77027ep+0);
}

/* Every input bit flips every output bit about half the time; 5 sigma of 4096 trials is 160. */
static void test_rng__mixes_every_input_bit(void **state) {
    (void)state;
    for (int bit = 0; bit < 192; bit++) {
        int flips[64] = { 0 };
        const uint64_t m = UINT64_C(1) << (bit % 64);
        for (uint64_t i = 0; i < 4096; i++) {
            const uint64_t a = pl_rng_at(i, 2 * i, 3 * i);
            const uint64_t b = pl_rng_at(i ^ (bit < 64 ? m : 0), (2 * i) ^ (bit / 64 == 1 ? m : 0),
                                         (3 * i) ^ (bit >= 128 ? m : 0));
            for (int k = 0; k < 64; k++)
                flips[k] += (int)((a ^ b) >> k & 1);
        }
        for (int k = 0; k < 64; k++)
            if (flips[k] < 2048 - 190 || flips[k] > 2048 + 190)
                fail_msg("input bit %d, output bit %d: %d of 4096", bit, k, flips[k]);
    }
}

/* Mean of chi-square with 255 degrees is 255, sigma 22.6. */
static void test_rng__fills_every_byte_evenly(void **state) {
    (void)state;
    for (int byte = 0; byte < 8; byte++) {
        int counts[256] = { 0 };
        for (uint64_t i = 0; i < 256000; i++)
            counts[pl_rng_at(1, 2, i) >> (8 * byte) & 255]++;
        double chi2 = 0;
        for (int i = 0; i < 256; i++)
            chi2 += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
        if (chi2 < 255 - 5 * 22.6 || chi2 > 255 + 5 * 22.6) fail_msg("byte %d: %g", byte, chi2);
    }
}

static void test_rng_uniform__stays_in_the_unit_interval(void **state) {
    (void)state;
    double sum = 0, sum2 = 0;
    const int n = 1000000;
    for (int i = 0; i < n; i++) {
        const double x = pl_rng_uniform_at(3, 4, (uint64_t)i);
        if (!(x >= 0 && x < 1)) fail_msg("%a", x);
        sum += x;
        sum2 += x * x;
    }
    assert_true(fabs(sum / n - 0.5) < 5 * 0.2887 / 1000);
    assert_true(fabs(sum2 / n - 1.0 / 3) < 5 * 0.2981 / 1000);
}

static void test_rng_normal__has_the_documented_moments(void **state) {
    (void)state;
    double sum = 0, sum2 = 0, sum3 = 0, sum4 = 0, neighbours = 0, before = 0;
    const int n = 1000000;
    int within_one = 0;
    for (int i = 0; i < n; i++) {
        const double x = pl_rng_normal_at(5, 6, (uint64_t)i);
        if (!(x > -6 && x < 6)) fail_msg("%a", x);
        sum += x;
        sum2 += x * x;
        sum3 += x * x * x;
        sum4 += x * x * x * x;
        neighbours += x * before;
        before = x;
        within_one += fabs(x) < 1;
    }
    assert_true(fabs(sum / n) < 0.005);            /* 5 sigma */
    assert_true(fabs(sum2 / n - 1) < 5 * 0.00138); /* sigma^2 = (2.9 - 1) / n */
    assert_true(fabs(sum3 / n) < 0.02);            /* 5 sigma: sqrt(15 / n) */
    assert_true(fabs(sum4 / n - 2.9) < 0.05);      /* excess kurtosis -0.1 */
    assert_true(fabs(neighbours / n) < 0.005);
    assert_true(fabs((double)within_one / n - 0.6827) < 0.008); /* normal within 0.01 */
}

static void test_rng_normal__is_exact_and_has_full_significands(void **state) {
    (void)state;
    int odd = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        const double scaled = pl_rng_normal_at(7, 8, i) * 0x1p32;
        assert_true(scaled == rint(scaled));
        odd += (int64_t)scaled % 2 != 0;
    }
    assert_in_range(odd, 400, 600);
}

static void test_rng__separates_seeds_streams_and_kinds(void **state) {
    (void)state;
    double seeds = 0, streams = 0, kinds = 0;
    const int n = 100000;
    for (uint64_t i = 0; i < (uint64_t)n; i++) {
        const double x = pl_rng_normal_at(1, 1, i);
        seeds += x * pl_rng_normal_at(2, 1, i);
        streams += x * pl_rng_normal_at(1, 2, i);
        kinds += x * (pl_rng_uniform_at(1, 1, i) - 0.5) * 3.4641;
    }
    assert_true(fabs(seeds / n) < 5 / 316.2);
    assert_true(fabs(streams / n) < 5 / 316.2);
    assert_true(fabs(kinds / n) < 5 / 316.2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng__is_the_same_everywhere),
        cmocka_unit_test(test_rng__mixes_every_input_bit),
        cmocka_unit_test(test_rng__fills_every_byte_evenly),
        cmocka_unit_test(test_rng_uniform__stays_in_the_unit_interval),
        cmocka_unit_test(test_rng_normal__has_the_documented_moments),
        cmocka_unit_test(test_rng_normal__is_exact_and_has_full_significands),
        cmocka_unit_test(test_rng__separates_seeds_streams_and_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
