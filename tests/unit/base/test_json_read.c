/* The JSON reader: what it accepts, what it refuses, and where. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json_read.h"
#include "comma_locale.h"

/* Reads from an exact heap copy, so that the sanitizer sees overreads. */
static pl_status read_copy(const char *text, size_t n, pl_arena *arena, const pl_json_value **out,
                           pl_err *err) {
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    const pl_status st = pl_json_read(copy, n, arena, out, err);
    free(copy);
    return st;
}

static void test_json_read__builds_a_tree(void **state) {
    (void)state;
    static const char text[] =
        " {\"a\": [1, -2.5e1, true, null], \"b\\u00e9\\ud83d\\ude00\": {\"n\": \"x\\n\\\"\"},\n"
        "\"big\": 9223372036854775807, \"bigger\": 9223372036854775808, \"e\": {}, \"f\": []} ";
    pl_arena *arena = pl_arena_new();
    const pl_json_value *v = NULL;
    assert_int_equal(read_copy(text, sizeof text - 1, arena, &v, NULL), PL_OK);
    assert_int_equal(v->kind, PL_JSON_OBJECT);
    assert_int_equal(v->n_items, 6);
    const pl_json_value *a = pl_json_find(v, "a");
    assert_int_equal(a->n_items, 4);
    assert_true(a->first->is_integer && a->first->integer == 1);
    assert_true(!a->first->next->is_integer && a->first->next->number == -25.0);
    assert_true(a->first->next->next->boolean);
    assert_int_equal(a->first->next->next->next->kind, PL_JSON_NULL);
    assert_string_equal(pl_json_find(pl_json_find(v, "b\xC3\xA9\xF0\x9F\x98\x80"), "n")->string,
                        "x\n\"");
    assert_true(pl_json_find(v, "big")->integer == INT64_MAX);
    assert_false(pl_json_find(v, "bigger")->is_integer);
    assert_null(pl_json_find(v, "missing"));
    assert_null(pl_json_find(a, "x"));
    assert_int_equal(pl_json_find(v, "e")->n_items, 0);
    pl_arena_free(arena);
}

static void test_json_read__refuses_what_is_not_json(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\"}",
        "[1 2]",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "nul",
        "truex",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\t\"",
        "\"\xFF\"",
        "\"\xC3\"",
        "\"\xED\xA0\x80\"",
        "1 1",
        "[1]]",
        "NaN",
        "1e999",
        "'a'",
        "{\"a\":1 \"b\":2}",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "// x\n1",
        "\"\\",
        "\"\\u",
        "[",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pl_arena *arena = pl_arena_new();
        const pl_json_value *v = NULL;
        pl_err err = PL_ERR_INIT;
        if (read_copy(bad[i], strlen(bad[i]), arena, &v, &err) != PL_E_FORMAT)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(err.message, "byte"));
        pl_arena_free(arena);
    }
}

static void test_json_read__finds_duplicates_in_small_and_large_objects(void **state) {
    (void)state;
    for (int n = 1; n < 60; n += 7) {
        for (int twice = -1; twice < n; twice += 5) {
            pl_buf buf = PL_BUF_INIT;
            pl_arena *arena = pl_arena_new();
            const pl_json_value *v = NULL;
            pl_err err = PL_ERR_INIT;
            pl_buf_putc(&buf, '{');
            for (int i = 0; i < n; i++)
                pl_buf_printf(&buf, "\"k%d\":%d,", i, i);
            pl_buf_printf(&buf, "\"k%d\":0}", twice < 0 ? n : twice);
            const pl_status st = read_copy(buf.data, buf.n_bytes, arena, &v, &err);
            assert_int_equal(st, twice < 0 ? PL_OK : PL_E_FORMAT);
            if (twice >= 0) assert_non_null(strstr(err.message, "twice"));
            pl_arena_free(arena);
            pl_buf_release(&buf);
        }
    }
}

static void test_json_read__limits_depth(void **state) {
    (void)state;
    for (int depth = PL_JSON_READ_DEPTH_MAX; depth <= 100000; depth += 99936) {
        pl_buf buf = PL_BUF_INIT;
        pl_arena *arena = pl_arena_new();
        const pl_json_value *v = NULL;
        for (int i = 0; i < depth; i++)
            pl_buf_putc(&buf, '[');
        for (int i = 0; i < depth; i++)
            pl_buf_putc(&buf, ']');
        assert_int_equal(read_copy(buf.data, buf.n_bytes, arena, &v, NULL),
                         depth <= PL_JSON_READ_DEPTH_MAX ? PL_OK : PL_E_LIMIT);
        pl_arena_free(arena);
        pl_buf_release(&buf);
    }
}

static void test_json_read__refuses_every_prefix(void **state) {
    (void)state;
    static const char text[] = "{\"a\":[1,2,{\"b\":\"c\\u0041\"}],\"d\":-1.5e-3,\"e\":false}";
    for (size_t n = 0; n < sizeof text - 1; n++) {
        pl_arena *arena = pl_arena_new();
        const pl_json_value *v = NULL;
        assert_int_equal(read_copy(text, n, arena, &v, NULL), PL_E_FORMAT);
        pl_arena_free(arena);
    }
}

static void test_json_read__ignores_the_locale(void **state) {
    (void)state;
    if (!use_comma_locale()) skip(); /* none on this machine, and no localedef */
    pl_arena *arena = pl_arena_new();
    const pl_json_value *v = NULL;
    const pl_status st = read_copy("[1.5, -2.25e-1]", 15, arena, &v, NULL);
    setlocale(LC_ALL, "C");
    assert_int_equal(st, PL_OK);
    assert_true(v->first->number == 1.5);
    assert_true(v->first->next->number == -0.225);
    pl_arena_free(arena);
}

static void test_json_number__knows_what_json_lacks(void **state) {
    (void)state;
    static const char text[] = "[0.5, \"inf\", \"-inf\", \"nan\", \"Inf\", true]";
    static const double want[] = { 0.5, (double)INFINITY, -(double)INFINITY };
    pl_arena *arena = pl_arena_new();
    const pl_json_value *v = NULL;
    double x = 7;
    assert_int_equal(read_copy(text, sizeof text - 1, arena, &v, NULL), PL_OK);
    v = v->first;
    for (int i = 0; i < 3; i++, v = v->next)
        assert_true(pl_json_number(v, &x) && x == want[i]);
    assert_true(pl_json_number(v, &x) && isnan(x));
    assert_false(pl_json_number(v->next, &x));
    assert_false(pl_json_number(v->next->next, &x));
    assert_false(pl_json_number(NULL, &x));
    pl_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_read__builds_a_tree),
        cmocka_unit_test(test_json_read__refuses_what_is_not_json),
        cmocka_unit_test(test_json_read__finds_duplicates_in_small_and_large_objects),
        cmocka_unit_test(test_json_read__limits_depth),
        cmocka_unit_test(test_json_read__refuses_every_prefix),
        cmocka_unit_test(test_json_read__ignores_the_locale),
        cmocka_unit_test(test_json_number__knows_what_json_lacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
