/* Tokens drawn from logits: the rule's own definition, and how often each token comes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "flows/steps/sample.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

enum { N = 6, DRAWS = 20000 };
static const double logits[N] = { 0.5, 2, -1, 2, -INFINITY, 1 };

static int64_t draw(const char *text, const double *row, int64_t at) {
    pl_sample_rule rule;
    int64_t token = -7;
    assert_int_equal(pl_sample_rule_read(text, &rule, NULL), PL_OK);
    assert_int_equal(pl_sample_token(&rule, row, N, at, &token, NULL), PL_OK);
    return token;
}

static void test_greedy__takes_the_first_of_the_best(void **state) {
    (void)state;
    for (int64_t at = 0; at < 50; at++) {
        assert_int_equal(draw(NULL, logits, at), 1);
        assert_int_equal(draw("greedy", logits, at), 1);
        assert_int_equal(draw("top-k=1,seed=5", logits, at), 1);
        assert_int_equal(draw("top-p=0.01", logits, at), 1);
    }
}

/* Counts within five deviations of a binomial distribution. */
static void check_counts(const char *text, const double *weights) {
    int64_t count[N] = { 0 };
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += weights[i];
    for (int64_t at = 0; at < DRAWS; at++)
        count[draw(text, logits, at)]++;
    for (int i = 0; i < N; i++) {
        const double p = weights[i] / sum, expected = p * (double)DRAWS;
        assert_true(fabs((double)count[i] - expected) <= 5 * sqrt(expected * (1 - p)));
    }
}

static void test_draws__have_the_probabilities_of_the_rule(void **state) {
    (void)state;
    const double plain[N] = { exp(0.5), exp(2), exp(-1), exp(2), 0, exp(1) };
    const double hot[N] = { exp(0.25), exp(1), exp(-0.5), exp(1), 0, exp(0.5) };
    const double three[N] = { 0, exp(2), 0, exp(2), 0, exp(1) };
    const double two[N] = { 0, 1, 0, 1, 0, 0 };
    check_counts("temperature=1", plain);
    check_counts("temperature=2,seed=3", hot);
    check_counts("top-k=3", three);
    check_counts("top-p=0.7", two);         /* both best: .748 together */
    check_counts("top-k=3,top-p=0.8", two); /* .844 of the three */
    check_counts("top-k=3,top-p=0.9", three);
}

static void test_a_seed__is_another_sequence_and_the_same_again(void **state) {
    (void)state;
    int differ = 0;
    for (int64_t at = 0; at < 100; at++) {
        assert_int_equal(draw("seed=1", logits, at), draw("seed=1", logits, at));
        differ += draw("seed=1", logits, at) != draw("seed=2", logits, at);
    }
    assert_true(differ > 20);
}

static void test_no_distribution__has_no_token(void **state) {
    (void)state;
    const double nan[N] = { 1, NAN }, inf[N] = { 1, INFINITY };
    const double none[N] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY };
    assert_int_equal(draw("seed=1", nan, 0), -1);
    assert_int_equal(draw("seed=1", inf, 0), -1);
    assert_int_equal(draw("seed=1", none, 0), -1);
}

static void test_rules__that_mean_nothing_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = { "hot",     "top-k",   "top-k=1.5",     "top-k=-1",
                                       "top-p=0", "top-p=2", "temperature=0", "temperature=nan",
                                       "seed=x",  "beam=3" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        pl_sample_rule rule;
        assert_int_equal(pl_sample_rule_read(bad[i], &rule, NULL), PL_E_USAGE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy__takes_the_first_of_the_best),
        cmocka_unit_test(test_draws__have_the_probabilities_of_the_rule),
        cmocka_unit_test(test_a_seed__is_another_sequence_and_the_same_again),
        cmocka_unit_test(test_no_distribution__has_no_token),
        cmocka_unit_test(test_rules__that_mean_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
