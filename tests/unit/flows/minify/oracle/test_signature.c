/* Failure signatures: which failures are the same. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <string.h>

#include "flows/minify/oracle/signature.h"

static pl_signature make(pl_fail_kind kind, const char *op, const char *error_kind,
                         int64_t n_elements) {
    pl_signature s;
    pl_signature_init(&s);
    s.kind = kind;
    strcpy(s.op, op);
    strcpy(s.error_kind, error_kind);
    s.n_elements = n_elements;
    return s;
}

static void test_signature__needs_the_same_operator(void **state) {
    (void)state;
    const pl_signature a = make(PL_FAIL_DIVERGENCE, "Relu", "offset 1", 4);
    const pl_signature same = make(PL_FAIL_DIVERGENCE, "Relu", "offset 1.0001", 4);
    const pl_signature other_op = make(PL_FAIL_DIVERGENCE, "Tanh", "offset 1", 4);
    const pl_signature other_kind = make(PL_FAIL_NONFINITE, "Relu", "offset 1", 4);
    assert_true(pl_signature_matches(&a, &same, NULL));
    assert_false(pl_signature_matches(&a, &other_op, NULL));
    assert_false(pl_signature_matches(&a, &other_kind, NULL));
}

static void test_signature__error_kind_counts_at_the_same_size_only(void **state) {
    (void)state;
    const pl_signature a = make(PL_FAIL_DIVERGENCE, "Relu", "offset 1", 4);
    const pl_signature scaled = make(PL_FAIL_DIVERGENCE, "Relu", "scale 2", 4);
    const pl_signature small = make(PL_FAIL_DIVERGENCE, "Relu", "scale 2", 1);
    assert_false(pl_signature_matches(&a, &scaled, NULL));
    assert_true(pl_signature_matches(&a, &small, NULL));
}

static void test_signature__none_matches_nothing(void **state) {
    (void)state;
    pl_signature none;
    pl_signature_init(&none);
    assert_false(pl_signature_matches(&none, &none, NULL));
}

static void test_signature__signals_and_exit_codes_are_told_apart(void **state) {
    (void)state;
    pl_signature a = make(PL_FAIL_SIGNAL, "", "", 0), b = a;
    a.number = 11;
    b.number = 6;
    assert_false(pl_signature_matches(&a, &b, NULL));
    b.number = 11;
    assert_true(pl_signature_matches(&a, &b, NULL));
}

static void test_signature__error_texts_without_names_and_numbers(void **state) {
    (void)state;
    pl_signature a = make(PL_FAIL_RUN, "Relu", "", 0), b = a;
    strcpy(a.text, "node 'relu_17' (Relu) that produces 'y': run-time error at 0x7f3a");
    strcpy(b.text, "node 'z' (Relu) that produces 'other': run-time error at 0x55");
    assert_true(pl_signature_matches(&a, &b, NULL));
    strcpy(b.text, "cannot allocate");
    assert_false(pl_signature_matches(&a, &b, NULL));
    assert_false(pl_signature_matches(&a, &b, "run-time"));
    strcpy(b.text, "quite another text, but with run-time in it");
    assert_true(pl_signature_matches(&a, &b, "run-time"));
}

/* difflib.SequenceMatcher(None, a, b).ratio() of Python 3.11, autojunk off. */
static void test_similarity__is_that_of_difflib(void **state) {
    (void)state;
    static const struct {
        const char *a, *b;
        double ratio;
    } rows[] = {
        { "abcd", "bcde", 0.75 },
        { "private Thread currentThread;", "private volatile Thread currentThread;",
          0.8656716417910447 },
        { "", "", 1 },
        { "abc", "", 0 },
        { "qabxcd", "abycdf", 2.0 / 3 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_true(fabs(pl_text_similarity(rows[i].a, rows[i].b) - rows[i].ratio) < 1e-12);
}

static void test_signature__survives_json(void **state) {
    (void)state;
    pl_signature a = make(PL_FAIL_DIVERGENCE, "Conv", "offset 0.5", 12), b;
    pl_buf buf = PL_BUF_INIT;
    pl_json json;
    pl_err err = PL_ERR_INIT;
    const pl_json_value *root = NULL;
    pl_arena *arena = pl_arena_new();
    strcpy(a.value, "a \"quoted\" name\n");
    a.number = -3;
    pl_json_init(&json, &buf, false);
    pl_signature_put_json(&json, &a);
    assert_int_equal(pl_json_read(pl_buf_str(&buf), buf.n_bytes, arena, &root, &err), PL_OK);
    assert_int_equal(pl_signature_read_json(root, &b, &err), PL_OK);
    assert_int_equal(b.kind, a.kind);
    assert_string_equal(b.value, a.value);
    assert_int_equal(b.number, -3);
    assert_int_equal(b.n_elements, 12);
    assert_true(pl_signature_matches(&a, &b, NULL));
    assert_int_equal(pl_signature_read_json(NULL, &b, &err), PL_E_FORMAT);
    pl_buf_release(&buf);
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signature__needs_the_same_operator),
        cmocka_unit_test(test_signature__error_kind_counts_at_the_same_size_only),
        cmocka_unit_test(test_signature__none_matches_nothing),
        cmocka_unit_test(test_signature__signals_and_exit_codes_are_told_apart),
        cmocka_unit_test(test_signature__error_texts_without_names_and_numbers),
        cmocka_unit_test(test_similarity__is_that_of_difflib),
        cmocka_unit_test(test_signature__survives_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
