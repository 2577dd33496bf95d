/* Letter case and UTF-8 letters: facts of Unicode, with no locale set. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/utf8.h"
#include "ops/text/letter_case.h"

static void test_letter__changes_case_in_many_scripts(void **state) {
    (void)state;
    static const uint32_t pairs[][2] = {
        { 'A', 'a' },           { 'Z', 'z' },       { 0xC4, 0xE4 },       { 0x178, 0xFF },
        { 0x100, 0x101 },       { 0x17D, 0x17E },   { 0x391, 0x3B1 },     { 0x3A9, 0x3C9 },
        { 0x386, 0x3AC },       { 0x410, 0x430 },   { 0x401, 0x451 },     { 0x531, 0x561 },
        { 0x1E9E + 2, 0x1EA1 }, { 0xFF21, 0xFF41 }, { 0x10400, 0x10428 },
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(pl_letter_lower(pairs[i][0]), pairs[i][1]);
        assert_int_equal(pl_letter_upper(pairs[i][1]), pairs[i][0]);
        assert_int_equal(pl_letter_lower(pairs[i][1]), pairs[i][1]);
        assert_int_equal(pl_letter_upper(pairs[i][0]), pairs[i][0]);
    }
}

static void test_letter__leaves_the_rest_alone(void **state) {
    (void)state;
    static const uint32_t others[] = { '1', ' ', 0x80, 0xD7, 0xF7, 0xDF, 0x5D0, 0x4E2D, 0x10FFFF };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_int_equal(pl_letter_lower(others[i]), others[i]);
        assert_int_equal(pl_letter_upper(others[i]), others[i]);
    }
}

static void test_letter__survives_encoding_and_decoding(void **state) {
    (void)state;
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        char bytes[4];
        uint32_t back = 0;
        const size_t n = pl_utf8_put(c, bytes);
        assert_int_equal(pl_letter_decode(bytes, n, &back), n);
        assert_int_equal(back, c);
    }
}

static void test_letter__marks_bytes_that_are_no_letter(void **state) {
    (void)state;
    uint32_t c = 0;
    assert_int_equal(pl_letter_decode("\xC3", 1, &c), 1);
    assert_int_equal(c, PL_LETTER_INVALID);
    assert_int_equal(pl_letter_decode("\xED\xA0\x80", 3, &c), 1); /* a surrogate */
    assert_int_equal(c, PL_LETTER_INVALID);
    assert_int_equal(pl_letter_decode("", 0, &c), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letter__changes_case_in_many_scripts),
        cmocka_unit_test(test_letter__leaves_the_rest_alone),
        cmocka_unit_test(test_letter__survives_encoding_and_decoding),
        cmocka_unit_test(test_letter__marks_bytes_that_are_no_letter),
    };
    return cmocka_run_group_tests_name("letter_case", tests, NULL, NULL);
}
