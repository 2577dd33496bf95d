/* The FFT against the sum that defines it, and against itself backwards. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>

#include "base/rng.h"
#include "ops/signal/fft.h"

static void fill(pl_cplx *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        x[i] = (pl_cplx){ pl_rng_normal_at(1, 0, i), pl_rng_normal_at(1, 1, i) };
    }
}

/* y[k] = sum of x[j] exp(-2 pi i j k / n), in long double. */
static double distance_from_sum(const pl_cplx *x, const pl_cplx *y, size_t n) {
    double worst = 0;
    for (size_t k = 0; k < n; k++) {
        long double re = 0, im = 0;
        for (size_t j = 0; j < n; j++) {
            const long double a =
                -2 * 3.14159265358979323846264338327950288L * (long double)(j * k % n) / n;
            const long double c = cosl(a), s = sinl(a);
            const long double a_re = (long double)x[j].re, a_im = (long double)x[j].im;
            re += a_re * c - a_im * s;
            im += a_re * s + a_im * c;
        }
        worst = fmax(worst, fabs((double)(re - (long double)y[k].re)));
        worst = fmax(worst, fabs((double)(im - (long double)y[k].im)));
    }
    return worst;
}

static void test_fft__is_the_sum_for_any_length(void **state) {
    (void)state;
    for (size_t n = 1; n <= 300; n += n < 130 ? 1 : 17) {
        pl_arena *arena = pl_arena_new();
        const pl_fft *plan = pl_fft_plan(arena, n);
        assert_non_null(plan);
        pl_cplx *x = pl_arena_array(arena, n, sizeof(*x));
        pl_cplx *y = pl_arena_array(arena, n, sizeof(*y));
        pl_cplx *work = pl_arena_array(arena, pl_fft_work(plan), sizeof(*work));
        fill(x, n);
        fill(y, n);
        pl_fft_run(plan, false, y, work);
        /* Norm of x is sqrt(2 n); a transform of norm sqrt(n) and log n roundings. */
        assert_true(distance_from_sum(x, y, n) < 1e-15 * (double)n * (2 + log2((double)n)));
        pl_fft_run(plan, true, y, work);
        for (size_t i = 0; i < n; i++) {
            assert_true(fabs(y[i].re / (double)n - x[i].re) < 2e-14);
            assert_true(fabs(y[i].im / (double)n - x[i].im) < 2e-14);
        }
        pl_arena_free(arena);
    }
}

static void test_fft__of_a_large_prime_is_not_quadratic(void **state) {
    (void)state;
    const size_t n = 1000003; /* 10^12 steps if it were */
    pl_arena *arena = pl_arena_new();
    const pl_fft *plan = pl_fft_plan(arena, n);
    assert_non_null(plan);
    pl_cplx *x = pl_arena_array(arena, n, sizeof(*x));
    pl_cplx *work = pl_arena_array(arena, pl_fft_work(plan), sizeof(*work));
    assert_non_null(x);
    assert_non_null(work);
    x[1].re = 1; /* a shifted impulse: every output has magnitude 1 */
    pl_fft_run(plan, false, x, work);
    for (size_t k = 0; k < n; k += 997) {
        const double a = -2 * 3.14159265358979323846 * (double)k / (double)n;
        assert_true(fabs(x[k].re - cos(a)) < 1e-12 && fabs(x[k].im - sin(a)) < 1e-12);
    }
    pl_arena_free(arena);
}

static void test_fft__refuses_what_no_memory_can_hold(void **state) {
    (void)state;
    pl_arena *arena = pl_arena_new();
    assert_null(pl_fft_plan(arena, 0));
    assert_null(pl_fft_plan(arena, SIZE_MAX / 2));
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fft__is_the_sum_for_any_length),
        cmocka_unit_test(test_fft__of_a_large_prime_is_not_quadratic),
        cmocka_unit_test(test_fft__refuses_what_no_memory_can_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
