/* Checked arithmetic. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/size.h"

static void test_size__leaves_out_alone_on_overflow(void **state) {
    (void)state;
    size_t n = 7;
    assert_false(pl_size_mul(SIZE_MAX, 2, &n));
    assert_false(pl_size_add(SIZE_MAX, 1, &n));
    assert_int_equal(n, 7);
    int64_t i = 7;
    assert_false(pl_i64_mul(INT64_MAX, 2, &i));
    assert_false(pl_i64_mul(INT64_MIN, -1, &i));
    assert_false(pl_i64_add(INT64_MIN, -1, &i));
    assert_int_equal(i, 7);
}

static void test_size__computes_up_to_the_limit(void **state) {
    (void)state;
    size_t n;
    assert_true(pl_size_mul(SIZE_MAX / 2, 2, &n));
    assert_true(n == SIZE_MAX - 1);
    assert_true(pl_size_add(SIZE_MAX - 1, 1, &n));
    assert_true(n == SIZE_MAX);
    int64_t i;
    assert_true(pl_i64_mul(-3, 5, &i));
    assert_true(i == -15);
    assert_true(pl_i64_add(INT64_MAX, -1, &i));
    assert_true(i == INT64_MAX - 1);
    assert_true(pl_size_min(2, 3) == 2 && pl_i64_min(-2, 3) == -2 && pl_i64_max(-2, 3) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size__leaves_out_alone_on_overflow),
        cmocka_unit_test(test_size__computes_up_to_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
