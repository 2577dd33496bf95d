/* Accumulators computed in parts have the same bits as in one pass. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "metric/accumulate_part.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

enum { N = (40 << 20) + 12345, PARTS = 3 };

static pl_tensor *made(uint32_t seed, int step) {
    const int64_t dims[] = { N };
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(PL_I8, 1, dims, &t, NULL), PL_OK);
    int8_t *x = t->data;
    for (int64_t i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (int8_t)(seed >> 26);
        if (i % 1000003 == 7) x[i] = (int8_t)(x[i] + step);
    }
    return t;
}

static void check_join(const pl_tensor *a, const pl_tensor *b) {
    pl_accumulators whole, joined, parts[PARTS];
    double again = 0;
    assert_int_equal(pl_accumulate_n_parts(N), PARTS);
    assert_int_equal(pl_accumulate(NULL, a, b, &whole, NULL), PL_OK);
    /* Out of order, as ranks finish. */
    assert_int_equal(pl_accumulate_parts(NULL, a, b, -1, 1, 2, &parts[1], NULL), PL_OK);
    assert_int_equal(pl_accumulate_parts(NULL, a, b, -1, 0, 1, &parts[0], NULL), PL_OK);
    assert_int_equal(pl_accumulate_join(a, b, parts, &again, &joined, NULL), PL_OK);
    if (again >= 0) {
        assert_int_equal(pl_accumulate_parts(NULL, a, b, again, 0, PARTS, parts, NULL), PL_OK);
        assert_int_equal(pl_accumulate_join(a, b, parts, &again, &joined, NULL), PL_OK);
    }
    assert_true(again < 0);
    assert_memory_equal(&whole, &joined, sizeof whole);
}

static void test_parts__join_to_the_bits_of_one_pass(void **state) {
    (void)state;
    pl_tensor *a = made(1, 1), *b = made(1, 0);
    check_join(a, b);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

/* The largest value lies where the sample does not look: the floor is guessed wrong. */
static void test_parts__are_computed_again_for_another_floor(void **state) {
    (void)state;
    const int64_t dims[] = { N };
    pl_tensor *a = NULL, *b = NULL;
    pl_accumulators parts[PARTS], joined;
    double again = 0;
    assert_int_equal(pl_tensor_new(PL_F16, 1, dims, &a, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F16, 1, dims, &b, NULL), PL_OK);
    uint16_t *x = a->data, *y = b->data;
    for (int64_t i = 0; i < N; i++) {
        y[i] = (uint16_t)(0x3c00 + i % 512); /* 1 … 1.5 */
        x[i] = (uint16_t)(y[i] + (i % 777 == 0));
    }
    x[N - 3] = y[N - 3] = 0x6400; /* 1024 */
    assert_int_equal(pl_accumulate_parts(NULL, a, b, -1, 0, PARTS, parts, NULL), PL_OK);
    assert_int_equal(pl_accumulate_join(a, b, parts, &again, &joined, NULL), PL_OK);
    assert_true(again > 0);
    check_join(a, b);
    pl_tensor_unref(a);
    pl_tensor_unref(b);
}

static void test_parts__out_of_range_are_refused(void **state) {
    (void)state;
    const int64_t dims[] = { 5 };
    pl_tensor *a = NULL;
    pl_accumulators acc;
    assert_int_equal(pl_tensor_new_zero(PL_F32, 1, dims, &a, NULL), PL_OK);
    assert_int_equal(pl_accumulate_parts(NULL, a, a, -1, 1, 1, &acc, NULL), PL_E_INVALID);
    assert_int_equal(pl_accumulate_parts(NULL, a, a, -1, 0, 0, &acc, NULL), PL_E_INVALID);
    pl_tensor_unref(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts__join_to_the_bits_of_one_pass),
        cmocka_unit_test(test_parts__are_computed_again_for_another_floor),
        cmocka_unit_test(test_parts__out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
