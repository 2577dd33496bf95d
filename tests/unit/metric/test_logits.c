/* Metrics of logits against closed forms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metric/logits.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

#define NOT ((double)NAN)
#define INF ((double)INFINITY)

static void near_to(double got, double want) {
    if (fabs(got - want) > 1e-14 * (1 + fabs(want))) fail_msg("%.17g, expected %.17g", got, want);
}

/* The softmax of (log x, log y) is (x, y) / (x + y). */
static void test_kl__is_that_of_two_coins(void **state) {
    (void)state;
    const double r[] = { log(1), log(3) }, a[] = { 7 + log(1), 7 + log(1) }; /* 1/4 3/4; 1/2 1/2 */
    pl_logit_pair p;
    assert_int_equal(pl_logit_pair_init(&p, a, r, 2, 0, NULL), PL_OK);
    near_to(pl_logit_kl(&p), 0.25 * log(0.5) + 0.75 * log(1.5));
    near_to(pl_logit_kl_reverse(&p), 0.5 * log(2) + 0.5 * log(2.0 / 3));
    near_to(pl_logit_nll(&p), log(2));
    near_to(pl_logit_nll_reference(&p), log(4));
    assert_true(pl_logit_top_k(&p) == 1); /* both tokens are in both lists */
    /* A has a tie, which the lower index wins: another token than the reference's. */
    assert_true(p.r_best == 1 && p.a_best == 0 && pl_logit_flip(&p) == 1);
    near_to(pl_logit_margin(&p), log(3));
    near_to(pl_logit_drift(&p), log(3));
}

static void test_logits__do_not_depend_on_a_constant(void **state) {
    (void)state;
    const double r[] = { 0.5, -2, 1, 0.25 }, a[] = { 100.5, 98, 101, 100.25 };
    pl_logit_pair p;
    assert_int_equal(pl_logit_pair_init(&p, a, r, 4, -1, NULL), PL_OK);
    assert_int_equal(p.token, 2);
    assert_true(pl_logit_kl(&p) < 1e-14 && pl_logit_kl_reverse(&p) < 1e-14);
    assert_true(pl_logit_flip(&p) == 0 && pl_logit_drift(&p) == 0);
    assert_true(pl_logit_margin(&p) == 0.5); /* to the second */
    near_to(pl_logit_nll(&p), pl_logit_nll_reference(&p));
}

static void test_logits__are_safe_at_the_ends(void **state) {
    (void)state;
    const double big[] = { 1e300, -1e300 }, cut[] = { 0, -INF }, even[] = { 0, 0 };
    const double bad[] = { NOT, 0 }, none[] = { -INF, -INF };
    pl_logit_pair p;
    assert_int_equal(pl_logit_pair_init(&p, big, big, 2, 1, NULL), PL_OK);
    assert_true(pl_logit_kl(&p) == 0 && pl_logit_nll(&p) == 2e300);
    assert_int_equal(pl_logit_pair_init(&p, cut, even, 2, 0, NULL), PL_OK);
    assert_true(pl_logit_kl(&p) == INF); /* A excludes what the reference allows */
    near_to(pl_logit_kl_reverse(&p), log(2));
    const double *broken[] = { bad, none };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pl_logit_pair_init(&p, broken[i], broken[i], 2, -1, NULL), PL_OK);
        assert_true(p.broken && pl_logit_flip(&p) == 1 && pl_logit_top_k(&p) == 0);
        for (size_t k = 0; k < PL_N_LOGIT_METRICS; k++) {
            const double value = pl_logit_metrics[k].value(&p);
            assert_true(value == value); /* not NaN */
        }
        assert_true(pl_logit_kl(&p) == INF && pl_logit_nll(&p) == INF);
    }
    assert_int_equal(pl_logit_pair_init(&p, even, even, 2, 2, NULL), PL_E_INVALID);
    assert_int_equal(pl_logit_pair_init(&p, even, even, 0, 0, NULL), PL_E_INVALID);
}

static void test_top__counts_what_both_lists_hold(void **state) {
    (void)state;
    double r[20], a[20];
    for (int i = 0; i < 20; i++) {
        r[i] = -i;                    /* top ten: 0 to 9 */
        a[i] = i < 3 ? -100 - i : -i; /* top ten: 3 to 12 */
    }
    pl_logit_pair p;
    assert_int_equal(pl_logit_pair_init(&p, a, r, 20, -1, NULL), PL_OK);
    near_to(pl_logit_top_k(&p), 0.7);
    assert_true(p.rival == 3 && pl_logit_margin(&p) == 3 && pl_logit_drift(&p) == 100);
}

static void test_measure__takes_the_mean_of_rows(void **state) {
    (void)state;
    const float r[] = { 0, 0, 0, 1 }, a[] = { 0, 0, 1, 0 };
    const int64_t dims[] = { 1, 2, 2 }, tokens[] = { 0, 1 };
    double v[PL_N_LOGIT_METRICS];
    pl_tensor *x = NULL, *y = NULL, *z = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 3, dims, &x, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F32, 3, dims, &y, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_I64, 3, dims, &z, NULL), PL_OK);
    memcpy(x->data, a, sizeof(a));
    memcpy(y->data, r, sizeof(r));
    assert_int_equal(pl_measure_logits(x, y, tokens, 2, v, NULL), PL_OK);
    const double p = 1 / (1 + exp(-1)); /* of the larger one */
    near_to(v[PL_LOGIT_kl], (2 * p - 1) / 2);
    near_to(v[PL_LOGIT_nll], (log(2) - log(1 - p)) / 2);
    near_to(v[PL_LOGIT_nll_reference], (log(2) - log(p)) / 2);
    near_to(v[PL_LOGIT_flip], 0.5);
    near_to(v[PL_LOGIT_drift], 1);
    assert_int_equal(pl_measure_logits(x, y, tokens, 1, v, NULL), PL_E_INVALID);
    assert_int_equal(pl_measure_logits(z, z, NULL, 0, v, NULL), PL_E_INVALID);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    pl_tensor_unref(z);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kl__is_that_of_two_coins),
        cmocka_unit_test(test_logits__do_not_depend_on_a_constant),
        cmocka_unit_test(test_logits__are_safe_at_the_ends),
        cmocka_unit_test(test_top__counts_what_both_lists_hold),
        cmocka_unit_test(test_measure__takes_the_mean_of_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
