/* Precision profiles: what they allow, and that they allow nothing else. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>

#include "ops/arithmetic.h"

#define U 0x1p-24

static void test_arithmetic__finds_profiles_by_name_and_by_place(void **state) {
    (void)state;
    assert_null(pl_arithmetic_find("nothing"));
    assert_string_equal(pl_arithmetic_of("CPU")->name, "ieee");
    assert_string_equal(pl_arithmetic_of("WebGpu")->name, "wgsl");
    assert_ptr_equal(pl_arithmetic_find("ieee"), &pl_arithmetics[0]);
}

static void test_arithmetic__of_cpus_adds_nothing(void **state) {
    (void)state;
    for (int fn = 0; fn < PL_MATHS_COUNT; fn++) {
        assert_true(pl_arithmetic_error(&pl_arithmetics[0], (pl_maths)fn, U, 3, 0.5) == 0);
        assert_true(pl_arithmetic_error(NULL, (pl_maths)fn, U, 3, 0.5) == 0);
    }
}

/* Half of the limits of WGSL: exp 3 + 2|x| ulp, an ulp being 2u|y|; log 2^-21 near 1; sin 2^-11. */
static void test_arithmetic__of_wgsl_is_half_its_limits(void **state) {
    (void)state;
    const pl_arithmetic *w = pl_arithmetic_find("wgsl");
    assert_true(pl_arithmetic_error(w, PL_MATHS_EXP, U, -4, 2) == U * 11 * 2);
    assert_true(pl_arithmetic_error(w, PL_MATHS_DIV, U, 9, -2) == U * 2.5 * 2);
    assert_true(pl_arithmetic_error(w, PL_MATHS_LOG, U, 1, 0) == 0x1p-22);
    assert_true(pl_arithmetic_error(w, PL_MATHS_LOG, U, 1e6, 14) == U * 3 * 14);
    assert_true(pl_arithmetic_error(w, PL_MATHS_SIN, U, 1, 0.8) == 0x1p-12);
    assert_true(pl_arithmetic_error(w, PL_MATHS_EXP, U, 100, (double)INFINITY) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic__finds_profiles_by_name_and_by_place),
        cmocka_unit_test(test_arithmetic__of_cpus_adds_nothing),
        cmocka_unit_test(test_arithmetic__of_wgsl_is_half_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
