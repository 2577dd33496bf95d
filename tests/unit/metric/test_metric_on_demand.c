/* Quantiles, argmax and top-k agreement, metrics per channel. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metric/on_demand.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

#define NOT ((double)NAN)

static pl_tensor *tensor(pl_dtype dtype, int64_t rows, int64_t columns, const double *x) {
    const int64_t dims[] = { rows, columns };
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, 2, dims, &t, NULL), PL_OK);
    pl_store_f64(dtype, x, t->data, (size_t)(rows * columns));
    return t;
}

static void test_quantiles__interpolate(void **state) {
    (void)state;
    const double r[] = { 1, 1, 1, 1, 0, 1 }, a[] = { 1, 2, 4, 3, 9, NOT };
    const double q[] = { 0, 0.5, 0.75, 1, 2 };
    double out[5];
    pl_tensor *x = tensor(PL_F32, 2, 3, a), *y = tensor(PL_F32, 2, 3, r);
    assert_int_equal(pl_error_quantiles(x, y, PL_ERROR_ABS, q, 5, out, NULL), PL_OK);
    assert_true(out[0] == 0 && out[1] == 2 && out[2] == 3 && out[3] == 9 && out[4] == 9);
    /* r = 0 has no relative error: 0, 1, 2, 3 remain */
    assert_int_equal(pl_error_quantiles(x, y, PL_ERROR_REL, q, 5, out, NULL), PL_OK);
    assert_true(out[0] == 0 && out[1] == 1.5 && out[2] == 2.25 && out[3] == 3);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

static void test_top__counts_agreement_and_ties(void **state) {
    (void)state;
    const double r[] = { 1, 3, 3, 0, 9, 8, 7, 6, 0, 0, 0, 1 };
    const double a[] = { 1, 3, 4, 0, 9, 7, 8, 6, 5, 0, 0, 1 };
    pl_tensor *x = tensor(PL_F32, 3, 4, a), *y = tensor(PL_F32, 3, 4, r);
    pl_top_agreement got;
    assert_int_equal(pl_top_agree(x, y, -1, 2, &got, NULL), PL_OK);
    assert_int_equal(got.n_rows, 3);
    assert_int_equal(got.n_argmax, 1);      /* only the middle row */
    assert_int_equal(got.n_argmax_tied, 2); /* row 0: 3 ties with 3 */
    /* row 0 {2,1}/{1,2}: 2 of 2; row 1 {0,2}/{0,1}: 1; row 2 {0,3}/{3,0}: 2 */
    assert_true(fabs(got.topk - 5.0 / 6) < 1e-15);
    assert_int_equal(pl_top_agree(x, x, 0, 99, &got, NULL), PL_OK);
    assert_true(got.n_rows == 4 && got.n_argmax == 4 && got.topk == 1);
    assert_int_equal(pl_top_agree(x, y, 2, 1, &got, NULL), PL_E_USAGE);
    assert_int_equal(pl_top_agree(x, y, 0, 0, &got, NULL), PL_E_USAGE);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

static void test_top__nan_ranks_first(void **state) {
    (void)state;
    const double r[] = { 1, NOT, 3 }, a[] = { 1, NOT, 3 }, b[] = { 1, 2, 3 };
    pl_tensor *x = tensor(PL_F32, 1, 3, a), *y = tensor(PL_F32, 1, 3, r),
              *z = tensor(PL_F32, 1, 3, b);
    pl_top_agreement got;
    assert_int_equal(pl_top_agree(x, y, 1, 1, &got, NULL), PL_OK);
    assert_int_equal(got.n_argmax, 1);
    assert_int_equal(pl_top_agree(z, y, 1, 1, &got, NULL), PL_OK);
    assert_true(got.n_argmax == 0 && got.n_argmax_tied == 0 && got.topk == 0);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_tensor_unref(z);
}

static void test_channels__are_measured_alone(void **state) {
    (void)state;
    const double r[] = { 1, 10, 100, 2, 20, 200 }, a[] = { 1, 11, 100, 2, 20, NOT };
    pl_tensor *x = tensor(PL_F32, 2, 3, a), *y = tensor(PL_F32, 2, 3, r);
    pl_accumulators acc[3];
    assert_int_equal(pl_accumulate_channels(NULL, x, y, 1, acc, NULL), PL_OK);
    assert_true(acc[0].n == 2 && acc[0].max_abs == 0 && acc[0].max_r == 2);
    assert_true(acc[1].max_abs == 1 && acc[1].max_abs_index == 0 && acc[1].max_r == 20);
    assert_true(acc[2].n_nan_a == 1 && acc[2].nonfinite_index == 1);
    assert_int_equal(pl_accumulate_channels(NULL, x, y, 0, acc, NULL), PL_OK);
    assert_true(acc[0].max_abs == 1 && acc[0].max_abs_index == 1 && acc[1].n_finite == 2);
    assert_int_equal(pl_accumulate_channels(NULL, x, y, 5, acc, NULL), PL_E_USAGE);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
}

static void test_on_demand__refuses_what_has_no_order(void **state) {
    (void)state;
    const double v[] = { 1, 2 }, q = 0.5;
    double out;
    pl_top_agreement got;
    pl_tensor *c = tensor(PL_C64, 1, 2, v), *f = tensor(PL_F32, 1, 2, v),
              *t = tensor(PL_F32, 2, 1, v), *none = tensor(PL_F32, 0, 2, v);
    assert_int_equal(pl_top_agree(c, c, 0, 1, &got, NULL), PL_E_UNSUPPORTED);
    assert_int_equal(pl_error_quantiles(f, t, PL_ERROR_ABS, &q, 1, &out, NULL), PL_E_INVALID);
    assert_int_equal(pl_error_quantiles(none, none, PL_ERROR_ABS, &q, 1, &out, NULL), PL_OK);
    assert_true(out == 0);
    assert_int_equal(pl_top_agree(none, none, 1, 1, &got, NULL), PL_OK);
    assert_true(got.n_rows == 0 && got.topk == 1);
    pl_tensor_unref(c);
    pl_tensor_unref(f);
    pl_tensor_unref(t);
    pl_tensor_unref(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles__interpolate),
        cmocka_unit_test(test_top__counts_agreement_and_ties),
        cmocka_unit_test(test_top__nan_ranks_first),
        cmocka_unit_test(test_channels__are_measured_alone),
        cmocka_unit_test(test_on_demand__refuses_what_has_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
