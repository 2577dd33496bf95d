/* Ranges of elements: joined, counted, replaced. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "tensor/ranges.h"

static pl_ranges of(const int64_t *pairs, size_t n) {
    pl_ranges r = { NULL, 0, 0 };
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pl_ranges_add(&r, pairs[2 * i], pairs[2 * i + 1], NULL), PL_OK);
    return r;
}

static void test_ranges__join_what_touches(void **state) {
    (void)state;
    const int64_t x[] = { 0, 2, 5, 9, 12, 12 }, y[] = { 1, 3, 9, 10, 20, 21 };
    const int64_t want[] = { 0, 3, 5, 10, 20, 21 };
    pl_ranges a = of(x, 3), b = of(y, 3), both = { NULL, 0, 0 };
    assert_int_equal(pl_ranges_join(&a, &b, &both, NULL), PL_OK);
    assert_int_equal(both.n, 3);
    assert_memory_equal(both.at, want, sizeof(want));
    assert_int_equal(pl_ranges_count(&both), 9);
    pl_ranges_release(&a);
    pl_ranges_release(&b);
    pl_ranges_release(&both);
}

static void test_ranges__replace_elements(void **state) {
    (void)state;
    const int64_t dims[] = { 2, 3 }, pairs[] = { 1, 3, 5, 99 };
    const float data[] = { 1, 2, 3, 4, 5, 6 }, zeros[] = { 1, 0, 0, 4, 5, 0 };
    const float taken[] = { 1, -2, -3, 4, 5, -6 };
    const double other[] = { -1, -2, -3, -4, -5, -6 };
    pl_ranges r = of(pairs, 2);
    pl_tensor *t = NULL, *d = NULL, *y = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 2, dims, &t, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F64, 2, dims, &d, NULL), PL_OK);
    memcpy(t->data, data, sizeof(data));
    memcpy(d->data, other, sizeof(other));
    assert_int_equal(pl_ranges_replace(&r, t, NULL, &y, NULL), PL_OK);
    assert_memory_equal(y->data, zeros, sizeof(zeros));
    pl_tensor_unref(y);
    assert_int_equal(pl_ranges_replace(&r, t, d, &y, NULL), PL_OK);
    assert_memory_equal(y->data, taken, sizeof(taken));
    assert_memory_equal(t->data, data, sizeof(data));
    pl_tensor_unref(y);
    pl_tensor_unref(t);
    pl_tensor_unref(d);
    pl_ranges_release(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges__join_what_touches),
        cmocka_unit_test(test_ranges__replace_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
