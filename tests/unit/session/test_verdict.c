/* The rules of verdict.c, one by one and in their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "session/verdict.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static pl_verdict of(pl_value_facts f) {
    return pl_verdict_of_value(&f);
}

static void test_value__replay_decides_first(void **state) {
    (void)state;
    assert_int_equal(of((pl_value_facts){
                         .local = PL_FACT_NO, .paired = true, .exact = true, .compared = true }),
                     PL_VERDICT_CULPRIT);
    assert_int_equal(of((pl_value_facts){ .local = PL_FACT_NO, .cleared = true }),
                     PL_VERDICT_INHERITED);
    assert_int_equal(of((pl_value_facts){ .local = PL_FACT_YES, .far = true }),
                     PL_VERDICT_INHERITED);
    assert_int_equal(of((pl_value_facts){ .local = PL_FACT_YES, .far = true, .grown = true }),
                     PL_VERDICT_AMPLIFIED);
}

static void test_value__differences_go_by_what_they_come_from(void **state) {
    (void)state;
    pl_value_facts f = { .paired = true, .compared = true, .rule = PL_FACT_NO };
    assert_int_equal(of(f), PL_VERDICT_MISMATCH);
    f.bad_inputs = PL_FACT_YES;
    assert_int_equal(of(f), PL_VERDICT_INHERITED);
    f.bad_inputs = PL_FACT_NO;
    assert_int_equal(of(f), PL_VERDICT_AMPLIFIED);
    f.grown = true;
    assert_int_equal(of(f), PL_VERDICT_CULPRIT);
    f.local = PL_FACT_YES; /* the replay clears what was circumstantial */
    assert_int_equal(of(f), PL_VERDICT_AMPLIFIED);
    assert_int_equal(of((pl_value_facts){ .paired = true, .structural = true }),
                     PL_VERDICT_MISMATCH);
    assert_int_equal(of((pl_value_facts){ .paired = true, .nonfinite = true }),
                     PL_VERDICT_MISMATCH);
}

static void test_value__what_nobody_looked_at_does_not_agree(void **state) {
    (void)state;
    assert_int_equal(of((pl_value_facts){ .paired = false }), PL_VERDICT_UNPAIRED);
    assert_int_equal(of((pl_value_facts){ .local = PL_FACT_YES }), PL_VERDICT_UNPAIRED);
    assert_int_equal(of((pl_value_facts){ .paired = true }), PL_VERDICT_UNVERIFIED);
    assert_int_equal(of((pl_value_facts){ .paired = true, .compared = true, .unreplayed = true }),
                     PL_VERDICT_UNVERIFIED);
    assert_int_equal(
        of((pl_value_facts){ .paired = true, .unreplayed = true, .rule = PL_FACT_YES }),
        PL_VERDICT_WITHIN);
    assert_int_equal(of((pl_value_facts){ .paired = true, .compared = true, .exact = true }),
                     PL_VERDICT_SAME);
    /* Zeros on both sides, because no element is defined. */
    assert_int_equal(
        of((pl_value_facts){ .paired = true, .compared = true, .exact = true, .undefined = true }),
        PL_VERDICT_UNVERIFIED);
}

static void test_output__fails_by_rule_or_by_figures(void **state) {
    (void)state;
    pl_output_facts f = { .inherited = true, .error = 2e-4, .scale = 1, .tol = 1e-4 };
    assert_true(pl_verdict_output_fails(&f));
    f.error = 0.5e-4;
    assert_false(pl_verdict_output_fails(&f));
    f.overflowed = true;
    assert_true(pl_verdict_output_fails(&f));
    f = (pl_output_facts){ .by_rule = true, .rule = PL_FACT_NO };
    assert_true(pl_verdict_output_fails(&f));
    f.rule = PL_FACT_YES;
    assert_false(pl_verdict_output_fails(&f));
}

/* ---- the whole ---- */

typedef struct point {
    pl_verdict verdict;
    bool input, output;
} point;

static pl_session *session_of(const point *of_points, size_t n) {
    pl_session *s = NULL;
    assert_int_equal(pl_session_new(&s, NULL), PL_OK);
    s->points = pl_arena_array(s->arena, n + 1, sizeof(*s->points));
    assert_non_null(s->points);
    for (size_t i = 0; i < n; i++) {
        pl_sync_point *p = &s->points[s->n_points++];
        pl_sync_point_init(p);
        p->value = of_points[i].output ? "out" : of_points[i].input ? "in" : "mid";
        p->verdict = of_points[i].verdict;
        p->is_input = of_points[i].input;
        p->is_output = of_points[i].output;
    }
    return s;
}

static pl_outcome outcome_of(const point *points, size_t n, const pl_claim *claim) {
    pl_session *s = session_of(points, n);
    assert_int_equal(pl_verdict_conclude(s, claim, NULL), PL_OK);
    const pl_outcome o = s->outcome;
    assert_true(strlen(s->reason) > 0);
    pl_session_free(s);
    return o;
}

static void test_whole__agrees_only_when_every_output_was_compared(void **state) {
    (void)state;
    const pl_claim claim = { .every_value = true };
    const point good[] = { { PL_VERDICT_SAME, true, false }, { PL_VERDICT_WITHIN, false, true } };
    const point inputs[] = { { PL_VERDICT_SAME, true, false },
                             { PL_VERDICT_UNPAIRED, false, true } };
    const point partly[] = { { PL_VERDICT_SAME, false, false },
                             { PL_VERDICT_UNVERIFIED, false, true } };
    assert_int_equal(outcome_of(good, 2, &claim), PL_OUTCOME_AGREE);
    assert_int_equal(outcome_of(inputs, 2, &claim), PL_OUTCOME_INCONCLUSIVE);
    assert_int_equal(outcome_of(partly, 2, &claim), PL_OUTCOME_INCONCLUSIVE);
    assert_int_equal(outcome_of(good, 1, &claim), PL_OUTCOME_INCONCLUSIVE);
    assert_int_equal(outcome_of(good, 0, &claim), PL_OUTCOME_INCONCLUSIVE);
    assert_int_equal(pl_outcome_exit_code(PL_OUTCOME_INCONCLUSIVE), 2);
}

static void test_whole__a_bad_value_inside_counts_for_compare_only(void **state) {
    (void)state;
    const point points[] = { { PL_VERDICT_INHERITED, false, false },
                             { PL_VERDICT_WITHIN, false, true } };
    const pl_claim every = { .every_value = true }, outputs = { .every_value = false };
    assert_int_equal(outcome_of(points, 2, &every), PL_OUTCOME_DIVERGED);
    assert_int_equal(outcome_of(points, 2, &outputs), PL_OUTCOME_AGREE);
}

static void test_whole__says_who_is_at_fault(void **state) {
    (void)state;
    const point points[] = { { PL_VERDICT_MISMATCH, false, true } };
    const pl_claim truth = { .truth = true };
    pl_session *s = session_of(points, 1);
    s->points[0].model_wrong = true;
    assert_int_equal(pl_verdict_conclude(s, &truth, NULL), PL_OK);
    assert_int_equal(s->outcome, PL_OUTCOME_DIVERGED);
    assert_string_equal(s->at_fault, "model");
    s->points[0].fails = true;
    assert_int_equal(pl_verdict_conclude(s, &truth, NULL), PL_OK);
    assert_string_equal(s->at_fault, "both");
    s->points[0].model_wrong = false;
    assert_int_equal(pl_verdict_conclude(s, &truth, NULL), PL_OK);
    assert_string_equal(s->at_fault, "runtime");
    pl_session_free(s);
}

static void test_whole__a_failure_stays_one(void **state) {
    (void)state;
    const point points[] = { { PL_VERDICT_SAME, false, true } };
    const pl_claim claim = { .every_value = true };
    pl_session *s = session_of(points, 1);
    pl_verdict_failed(s, "it crashed");
    pl_verdict_unstable(s, "out", "other bits");
    assert_int_equal(pl_verdict_conclude(s, &claim, NULL), PL_OK);
    assert_int_equal(s->outcome, PL_OUTCOME_FAILED);
    assert_string_equal(s->reason, "it crashed");
    pl_session_free(s);
}

static void test_whole__an_output_that_b_alone_has_is_missing(void **state) {
    (void)state;
    const point points[] = { { PL_VERDICT_SAME, false, false } };
    const pl_claim claim = { .every_value = true };
    pl_left_over left = { .value = "logits", .op = "", .reason = "", .is_output = true };
    pl_session *s = session_of(points, 1);
    s->left_b = &left;
    s->n_left_b = 1;
    assert_int_equal(pl_verdict_conclude(s, &claim, NULL), PL_OK);
    assert_int_equal(s->outcome, PL_OUTCOME_INCONCLUSIVE);
    assert_non_null(strstr(s->reason, "logits"));
    pl_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value__replay_decides_first),
        cmocka_unit_test(test_value__differences_go_by_what_they_come_from),
        cmocka_unit_test(test_value__what_nobody_looked_at_does_not_agree),
        cmocka_unit_test(test_output__fails_by_rule_or_by_figures),
        cmocka_unit_test(test_whole__agrees_only_when_every_output_was_compared),
        cmocka_unit_test(test_whole__a_bad_value_inside_counts_for_compare_only),
        cmocka_unit_test(test_whole__says_who_is_at_fault),
        cmocka_unit_test(test_whole__a_failure_stays_one),
        cmocka_unit_test(test_whole__an_output_that_b_alone_has_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
