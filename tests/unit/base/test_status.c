/* Statuses and messages. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static void test_status__names_every_code(void **state) {
    (void)state;
    for (int i = 0; i < PL_STATUS_COUNT; i++) {
        assert_true(strncmp(pl_status_name((pl_status)i), "PL_", 3) == 0);
        assert_true(strlen(pl_status_text((pl_status)i)) > 0);
        assert_true((pl_status_exit_code((pl_status)i) == 0) == (i == PL_OK));
    }
    assert_string_equal(pl_status_name(PL_E_FORMAT), "PL_E_FORMAT");
    assert_int_equal(pl_status_exit_code(PL_E_BACKEND), 3);
    assert_int_equal(pl_status_exit_code(PL_E_IO), 4);
}

static void test_status__treats_unknown_codes_as_internal(void **state) {
    (void)state;
    assert_string_equal(pl_status_name((pl_status)999), "PL_E_INTERNAL");
    assert_int_equal(pl_status_exit_code((pl_status)-1), 4);
}

static void test_fail__sets_status_and_message(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_fail(&err, PL_E_FORMAT, "node '%s': %d", "Add_1", 3), PL_E_FORMAT);
    assert_int_equal(err.status, PL_E_FORMAT);
    assert_string_equal(err.message, "node 'Add_1': 3");
}

static void test_fail__works_without_err(void **state) {
    (void)state;
    assert_int_equal(pl_fail(NULL, PL_E_IO, "x"), PL_E_IO);
    assert_int_equal(pl_err_wrap(NULL, PL_E_IO, "x"), PL_E_IO);
    assert_int_equal(pl_fail_memory(NULL, 5), PL_E_MEMORY);
}

static void test_fail__keeps_one_clean_line(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_fail(&err, PL_E_INVALID, "name '%s'", "a\nb\x1b]0;x\x07\xFF");
    assert_string_equal(err.message, "name 'a?b?]0;x?\?'");
}

static void test_fail__may_quote_its_own_message(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_fail(&err, PL_E_INVALID, "cause");
    pl_fail(&err, PL_E_IO, "again: %s", err.message);
    assert_string_equal(err.message, "again: cause");
}

static void test_fail__marks_a_cut_message(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    char text[3 * PL_ERR_MESSAGE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pl_fail(&err, PL_E_INVALID, "%s", text);
    assert_int_equal(strlen(err.message), PL_ERR_MESSAGE_MAX - 1);
    assert_string_equal(err.message + PL_ERR_MESSAGE_MAX - 5, "x...");
    text[PL_ERR_MESSAGE_MAX - 1] = '\0'; /* just fits */
    pl_fail(&err, PL_E_INVALID, "%s", text);
    assert_string_equal(err.message, text);
}

static void test_fail__cuts_between_characters(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    char text[PL_ERR_MESSAGE_MAX * 2];
    for (size_t start = 0; start < 3; start++) {
        memset(text, 'x', start);
        for (size_t i = start; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        pl_fail(&err, PL_E_INVALID, "%s", text);
        assert_null(strchr(err.message, '?'));
        assert_string_equal(err.message + strlen(err.message) - 3, "...");
    }
}

static void test_err_wrap__puts_context_in_front(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_fail(&err, PL_E_FORMAT, "bad tag");
    assert_int_equal(pl_err_wrap(&err, PL_E_IO, "while reading '%s'", "m.onnx"), PL_E_FORMAT);
    assert_string_equal(err.message, "while reading 'm.onnx': bad tag");
}

static void test_err_wrap__says_the_class_when_nothing_was_said(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_err_wrap(&err, PL_E_LIMIT, "graph"), PL_E_LIMIT);
    assert_int_equal(err.status, PL_E_LIMIT);
    assert_string_equal(err.message, "graph: limit exceeded");
}

static void test_err_wrap__never_pushes_the_cause_out(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    char text[2 * PL_ERR_MESSAGE_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    pl_fail(&err, PL_E_FORMAT, "the cause");
    pl_err_wrap(&err, PL_E_FORMAT, "%s", text);
    assert_non_null(strstr(err.message, "x...: the cause"));
    for (int i = 0; i < 5; i++)
        pl_err_wrap(&err, PL_E_FORMAT, "%s", text);
    assert_int_equal(strlen(err.message), PL_ERR_MESSAGE_MAX - 1);
    assert_string_equal(err.message + PL_ERR_MESSAGE_MAX - 4, "...");
}

static void test_fail_memory__tells_the_size(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_fail_memory(&err, 4096), PL_E_MEMORY);
    assert_non_null(strstr(err.message, "4096"));
}

static pl_status try_forward(pl_status inner, int *n_after) {
    PL_TRY(inner);
    (*n_after)++;
    return PL_OK;
}

static pl_status try_goto(pl_status inner, int *n_done) {
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, inner);
    (*n_done) += 10;
done:
    (*n_done)++;
    return st;
}

static void test_try__forwards_failures_only(void **state) {
    (void)state;
    int n = 0;
    assert_int_equal(try_forward(PL_OK, &n), PL_OK);
    assert_int_equal(try_forward(PL_E_IO, &n), PL_E_IO);
    assert_int_equal(n, 1);
    n = 0;
    assert_int_equal(try_goto(PL_OK, &n), PL_OK);
    assert_int_equal(try_goto(PL_E_IO, &n), PL_E_IO);
    assert_int_equal(n, 12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status__names_every_code),
        cmocka_unit_test(test_status__treats_unknown_codes_as_internal),
        cmocka_unit_test(test_fail__sets_status_and_message),
        cmocka_unit_test(test_fail__works_without_err),
        cmocka_unit_test(test_fail__keeps_one_clean_line),
        cmocka_unit_test(test_fail__may_quote_its_own_message),
        cmocka_unit_test(test_fail__marks_a_cut_message),
        cmocka_unit_test(test_fail__cuts_between_characters),
        cmocka_unit_test(test_err_wrap__puts_context_in_front),
        cmocka_unit_test(test_err_wrap__says_the_class_when_nothing_was_said),
        cmocka_unit_test(test_err_wrap__never_pushes_the_cause_out),
        cmocka_unit_test(test_fail_memory__tells_the_size),
        cmocka_unit_test(test_try__forwards_failures_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
