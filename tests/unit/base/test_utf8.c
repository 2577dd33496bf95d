/* UTF-8 from strangers. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/utf8.h"

static void assert_cleans(const char *from, const char *to) {
    char text[128];
    strcpy(text, from);
    pl_utf8_clean(text);
    assert_string_equal(text, to);
}

static void test_utf8_step__knows_well_formed_sequences(void **state) {
    (void)state;
    assert_int_equal(pl_utf8_step("a", 1), 1);
    assert_int_equal(pl_utf8_step("\xC3\xA4", 2), 2);
    assert_int_equal(pl_utf8_step("\xE2\x82\xAC", 3), 3);
    assert_int_equal(pl_utf8_step("\xF0\x9F\x98\x80", 4), 4);
    assert_int_equal(pl_utf8_step("\xF4\x8F\xBF\xBF", 4), 4); /* U+10FFFF */
    assert_int_equal(pl_utf8_step("\xED\x9F\xBF", 3), 3);     /* U+D7FF */
    assert_int_equal(pl_utf8_step("", 1), 1);                 /* a NUL is a character */
}

static void test_utf8_step__refuses_the_rest(void **state) {
    (void)state;
    assert_int_equal(pl_utf8_step("", 0), 0);
    assert_int_equal(pl_utf8_step("\x80", 1), 0);             /* lone continuation */
    assert_int_equal(pl_utf8_step("\xC3", 1), 0);             /* cut */
    assert_int_equal(pl_utf8_step("\xE2\x82\xAC", 2), 0);     /* cut by n */
    assert_int_equal(pl_utf8_step("\xC3(", 2), 0);            /* no continuation */
    assert_int_equal(pl_utf8_step("\xC0\xAF", 2), 0);         /* overlong */
    assert_int_equal(pl_utf8_step("\xE0\x80\xAF", 3), 0);     /* overlong */
    assert_int_equal(pl_utf8_step("\xF0\x80\x80\xAF", 4), 0); /* overlong */
    assert_int_equal(pl_utf8_step("\xED\xA0\x80", 3), 0);     /* surrogate */
    assert_int_equal(pl_utf8_step("\xF4\x90\x80\x80", 4), 0); /* above U+10FFFF */
    assert_int_equal(pl_utf8_step("\xFF", 1), 0);
}

/* Against a decoder written the other way round: encode every code point, expect exactly those. */
static void test_utf8_step__accepts_every_code_point_once(void **state) {
    (void)state;
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        char s[4];
        size_t n;
        if (c < 0x800) {
            n = 2;
            s[0] = (char)(0xC0 | c >> 6);
        } else if (c < 0x10000) {
            n = 3;
            s[0] = (char)(0xE0 | c >> 12);
        } else {
            n = 4;
            s[0] = (char)(0xF0 | c >> 18);
        }
        for (size_t i = 1; i < n; i++)
            s[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
        const size_t want = c >= 0xD800 && c < 0xE000 ? 0 : n;
        if (pl_utf8_step(s, n) != want) fail_msg("U+%04X", (unsigned)c);
    }
}

static void test_utf8_clean__keeps_text_and_replaces_controls(void **state) {
    (void)state;
    assert_cleans("", "");
    assert_cleans("plain text", "plain text");
    assert_cleans("na\xC3\xAFve \xE2\x82\xAC", "na\xC3\xAFve \xE2\x82\xAC");
    assert_cleans("a\nb\tc\x1b[31m\x7f", "a?b?c?[31m?");
    assert_cleans("a\xC2\x9B"
                  "b",
                  "a?b"); /* C1: CSI */
    assert_cleans("a\xE2\x80\xA8"
                  "b",
                  "a?b"); /* line separator */
    assert_cleans("a\xE2\x80\xAE"
                  "b",
                  "a?b"); /* right-to-left override */
    assert_cleans("a\xE2\x81\xA6"
                  "b",
                  "a?b"); /* isolate */
    assert_cleans("a\xE2\x80\x93"
                  "b",
                  "a\xE2\x80\x93"
                  "b"); /* en dash stays */
    assert_cleans("\xFF\xFE", "??");
    assert_cleans("\xE2\x82", "??");
}

static void test_utf8_cut__never_splits_a_sequence(void **state) {
    (void)state;
    assert_int_equal(pl_utf8_cut("abc", 3, 5), 3);
    assert_int_equal(pl_utf8_cut("abc", 3, 2), 2);
    assert_int_equal(pl_utf8_cut("a\xE2\x82\xAC", 4, 3), 1);
    assert_int_equal(pl_utf8_cut("a\xE2\x82\xAC", 4, 2), 1);
    assert_int_equal(pl_utf8_cut("a\xE2\x82\xAC"
                                 "b",
                                 5, 4),
                     4);
    assert_int_equal(pl_utf8_cut("\x80\x80\x80\x80\x80\x80", 6, 5), 5); /* not UTF-8: just cut */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_step__knows_well_formed_sequences),
        cmocka_unit_test(test_utf8_step__refuses_the_rest),
        cmocka_unit_test(test_utf8_step__accepts_every_code_point_once),
        cmocka_unit_test(test_utf8_clean__keeps_text_and_replaces_controls),
        cmocka_unit_test(test_utf8_cut__never_splits_a_sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
