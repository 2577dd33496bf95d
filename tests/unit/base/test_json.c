/* The JSON writer. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "comma_locale.h"

static pl_buf buf;

static int tear_down(void **state) {
    (void)state;
    pl_buf_release(&buf);
    return 0;
}

static void test_json__places_commas_and_colons(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, false);
    pl_json_object_begin(&json);
    pl_json_put_int(&json, "a", -5);
    pl_json_key(&json, "b");
    pl_json_array_begin(&json);
    pl_json_int(&json, 1);
    pl_json_array_begin(&json);
    pl_json_array_end(&json);
    pl_json_object_begin(&json);
    pl_json_object_end(&json);
    pl_json_null(&json);
    pl_json_array_end(&json);
    pl_json_put_bool(&json, "c", true);
    pl_json_put_string(&json, "d", NULL);
    pl_json_put_double(&json, "e", 0.5);
    pl_json_put_string(&json, "f", "x");
    pl_json_object_end(&json);
    assert_true(pl_buf_ok(&buf));
    assert_string_equal(buf.data, "{\"a\":-5,\"b\":[1,[],{},null],\"c\":true,\"d\":null,"
                                  "\"e\":0.5,\"f\":\"x\"}");
}

static void test_json__indents_when_pretty(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, true);
    pl_json_object_begin(&json);
    pl_json_key(&json, "a");
    pl_json_array_begin(&json);
    pl_json_int(&json, 1);
    pl_json_bool(&json, false);
    pl_json_array_end(&json);
    pl_json_key(&json, "b");
    pl_json_object_begin(&json);
    pl_json_object_end(&json);
    pl_json_object_end(&json);
    assert_string_equal(buf.data, "{\n  \"a\": [\n    1,\n    false\n  ],\n  \"b\": {}\n}");
}

static void test_json_string__escapes(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, false);
    pl_json_string(&json, "a\"b\\c\n\r\t\x01\x1f\x7f/\xC3\xA4\xF0\x9F\x98\x80");
    assert_string_equal(buf.data,
                        "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f\x7f/\xC3\xA4\xF0\x9F\x98\x80\"");
    pl_buf_reset(&buf);
    pl_json_string_n(&json, "a\0b", 3);
    assert_string_equal(buf.data, "\"a\\u0000b\"");
    pl_buf_reset(&buf);
    pl_json_string_n(&json, NULL, 0);
    assert_string_equal(buf.data, "\"\"");
}

static void test_json_string__replaces_invalid_utf8(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, false);
    pl_json_string(&json, "a\xFF"
                          "b\xC3");
    assert_string_equal(buf.data, "\"a\xEF\xBF\xBD"
                                  "b\xEF\xBF\xBD\"");
}

static const char *double_text(double value) {
    pl_json json;
    pl_buf_reset(&buf);
    pl_json_init(&json, &buf, false);
    pl_json_double(&json, value);
    return buf.data;
}

static void test_json_double__is_short_where_it_can_be(void **state) {
    (void)state;
    assert_string_equal(double_text(0), "0");
    assert_string_equal(double_text(-0.0), "-0");
    assert_string_equal(double_text(0.1), "0.1");
    assert_string_equal(double_text(1e100), "1e+100");
    assert_string_equal(double_text(123456789012345), "123456789012345");
    assert_string_equal(double_text(-2.5e-7), "-2.5e-07");
    assert_string_equal(double_text(0.1 + 0.2), "0.30000000000000004");
    assert_string_equal(double_text((double)INFINITY), "\"inf\"");
    assert_string_equal(double_text(-(double)INFINITY), "\"-inf\"");
    assert_string_equal(double_text((double)NAN), "\"nan\"");
}

static void assert_round_trip(double value) {
    const double back = strtod(double_text(value), NULL);
    if (memcmp(&back, &value, sizeof value) != 0) fail_msg("%a became %a", value, back);
}

static void test_json_double__round_trips(void **state) {
    (void)state;
    assert_round_trip(DBL_MAX);
    assert_round_trip(-DBL_MIN);
    assert_round_trip(4.9406564584124654e-324);
    assert_round_trip(nextafter(1, 2));
    assert_round_trip(9007199254740993.0);
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t bits = pl_rng_at(1, 2, i);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) assert_round_trip(value);
        assert_round_trip((double)(float)pl_rng_uniform_at(1, 3, i));
    }
}

static void test_json_double__ignores_the_locale(void **state) {
    (void)state;
    char got[2][64];
    if (!use_comma_locale()) skip(); /* none on this machine, and no localedef */
    snprintf(got[0], sizeof got[0], "%s", double_text(-1.25e-9));
    snprintf(got[1], sizeof got[1], "%s", double_text(0.1 + 0.2));
    setlocale(LC_ALL, "C");
    assert_string_equal(got[0], "-1.25e-09");
    assert_string_equal(got[1], "0.30000000000000004");
}

static void test_json_int__writes_extremes(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, false);
    pl_json_array_begin(&json);
    pl_json_int(&json, INT64_MIN);
    pl_json_int(&json, INT64_MAX);
    pl_json_array_end(&json);
    assert_string_equal(buf.data, "[-9223372036854775808,9223372036854775807]");
}

static void test_json__fails_on_misuse(void **state) {
    (void)state;
    pl_json json;
    pl_json_init(&json, &buf, false);
    for (int i = 0; i < PL_JSON_DEPTH_MAX; i++)
        pl_json_array_begin(&json);
    assert_true(pl_buf_ok(&buf));
    pl_json_array_begin(&json);
    assert_false(pl_buf_ok(&buf));
    pl_buf_reset(&buf);
    pl_json_init(&json, &buf, false);
    pl_json_array_end(&json);
    assert_false(pl_buf_ok(&buf));
    pl_buf_reset(&buf);
    pl_json_init(&json, &buf, false);
    pl_json_object_begin(&json);
    pl_json_key(&json, "a");
    pl_json_object_end(&json); /* a key without a value */
    assert_false(pl_buf_ok(&buf));
    pl_buf_reset(&buf);
    pl_json_init(&json, &buf, false);
    pl_json_object_begin(&json);
    pl_json_key(&json, "a");
    pl_json_key(&json, "b");
    assert_false(pl_buf_ok(&buf));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_json__places_commas_and_colons, tear_down),
        cmocka_unit_test_teardown(test_json__indents_when_pretty, tear_down),
        cmocka_unit_test_teardown(test_json_string__escapes, tear_down),
        cmocka_unit_test_teardown(test_json_string__replaces_invalid_utf8, tear_down),
        cmocka_unit_test_teardown(test_json_double__is_short_where_it_can_be, tear_down),
        cmocka_unit_test_teardown(test_json_double__round_trips, tear_down),
        cmocka_unit_test_teardown(test_json_double__ignores_the_locale, tear_down),
        cmocka_unit_test_teardown(test_json_int__writes_extremes, tear_down),
        cmocka_unit_test_teardown(test_json__fails_on_misuse, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
