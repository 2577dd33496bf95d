/* The matcher of RegexFullMatch: RE2 syntax, and work that stays linear on hostile patterns. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "base/arena.h"
#include "ops/text/regex.h"

typedef struct match_case {
    const char *pattern, *text;
    bool matches;
} match_case;

static void check(const match_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        pl_arena *arena = pl_arena_new();
        pl_regex *regex = NULL;
        pl_err err = PL_ERR_INIT;
        const match_case *c = &cases[i];
        assert_non_null(arena);
        if (pl_regex_compile(arena, c->pattern, strlen(c->pattern), &regex, &err) != PL_OK) {
            fail_msg("%s", err.message);
        }
        /* Twice: matching must leave no trace. */
        for (int k = 0; k < 2; k++) {
            if (pl_regex_full_match(regex, c->text, strlen(c->text)) != c->matches) {
                fail_msg("/%s/ on '%s' should%s match", c->pattern, c->text,
                         c->matches ? "" : " not");
            }
        }
        pl_arena_free(arena);
    }
}
#define CHECK(cases) check(cases, sizeof(cases) / sizeof(cases[0]))

static void test_regex__matches_the_whole_text(void **state) {
    (void)state;
    static const match_case cases[] = {
        { "", "", true },
        { "", "a", false },
        { "ab", "ab", true },
        { "ab", "abc", false },
        { "b", "ab", false },
        { "a|bc|", "bc", true },
        { "a|bc|", "", true },
        { "a|bc|", "b", false },
        { "^ab$", "ab", true },
        { "a^b", "ab", false },
        { "\\Aab\\z", "ab", true },
        { "a.c", "a\nc", false },
        { "(?s)a.c", "a\nc", true },
    };
    CHECK(cases);
}

static void test_regex__repeats(void **state) {
    (void)state;
    static const match_case cases[] = {
        { "a{2,4}", "a", false },    { "a{2,4}", "aaaa", true },  { "a{2,4}", "aaaaa", false },
        { "a{3}", "aaa", true },     { "a{2,}", "aaaaaa", true }, { "a{,2}", "a{,2}", true },
        { "(ab)*", "ababab", true }, { "(ab)*", "aba", false },   { "a+?b??", "aaab", true },
        { "(a*)*b", "aaab", true },  { "(|a)+b", "b", true },     { "x{0}y", "y", true },
    };
    CHECK(cases);
}

static void test_regex__knows_classes(void **state) {
    (void)state;
    static const match_case cases[] = {
        { "\\d+", "0129", true },
        { "\\D", "5", false },
        { "[\\w.-]+", "a_B.9-", true },
        { "\\s\\S", "\tx", true },
        { "[^0-9]+", "ab", true },
        { "[^0-9]", "5", false },
        { "[]a]+", "]a", true },
        { "[a-]+", "a-", true },
        { "[[:alpha:]]+", "aZ", true },
        { "[[:^digit:]]", "x", true },
        { "[[:^digit:]]", "3", false },
        { "[[:word:]]+", "a_1", true },
        { "[\\x41-\\x{43}]+", "ABC", true },
        { "\\101", "A", true },
    };
    CHECK(cases);
}

static void test_regex__reads_letters_not_bytes(void **state) {
    (void)state;
    static const match_case cases[] = {
        { ".", "\xC3\xA9", true },                    /* e with acute: one letter */
        { "[\xC3\xA0-\xC3\xBF]+", "\xC3\xA9", true }, /* a range of two-byte letters */
        { "(?i)\xC3\x89", "\xC3\xA9", true },         /* its capital, case ignored */
        { "(?i)stra\xC3\x9F"
          "e",
          "STRA\xC3\x9F"
          "E",
          true },
        { ".", "\xC3", false }, /* not UTF-8: no letter */
        { "[^a]", "\xFF", false },
    };
    CHECK(cases);
}

static void test_regex__obeys_flags_and_groups(void **state) {
    (void)state;
    static const match_case cases[] = {
        { "(?i)ab", "AB", true },      { "(?i:a)b", "Ab", true },
        { "(?i:a)b", "AB", false },    { "((?i)a)b", "AB", false },
        { "(?i-i)a", "A", false },     { "(?P<x>a)+", "aa", true },
        { "(?:a|b)c", "bc", true },    { "\\Qa.b\\E+", "a.bb", true },
        { "\\Qa.b\\E", "axb", false }, { "(?m)a$\nb", "a\nb", true },
        { "a\\b.*", "a b", true },     { "a\\b.*", "ab", false },
        { "a\\Bb", "ab", true },
    };
    CHECK(cases);
}

static void refuse(const char *pattern, pl_status status) {
    pl_arena *arena = pl_arena_new();
    pl_regex *regex = NULL;
    pl_err err = PL_ERR_INIT;
    assert_non_null(arena);
    assert_int_equal(pl_regex_compile(arena, pattern, strlen(pattern), &regex, &err), status);
    assert_true(err.message[0] != '\0');
    pl_arena_free(arena);
}

static void test_regex__refuses_bad_patterns(void **state) {
    (void)state;
    static const char *const bad[] = { "(",      ")",    "a)",    "[a",    "*",      "a**",
                                       "a{2,1}", "\\",   "[z-a]", "(?<a",  "(?=a)",  "a{1001}",
                                       "\\xG1",  "\xFF", "\\1",   "(?q)a", "[[:x:]]" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse(bad[i], PL_E_INVALID);
    refuse("\\pL", PL_E_UNSUPPORTED);
}

static void test_regex__stays_small_and_linear(void **state) {
    (void)state;
    refuse("((a{1000}){1000}){1000}", PL_E_LIMIT);
    char text[4097];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    const match_case cases[] = {
        { "(x+x+)+y", text, false }, /* exponential for a backtracking matcher */
        { "(((((()*){1000}){1000}){1000}){1000}){1000}", "", true },
        { "(x|xx|xxx)*", text, true },
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_regex__matches_the_whole_text),
        cmocka_unit_test(test_regex__repeats),
        cmocka_unit_test(test_regex__knows_classes),
        cmocka_unit_test(test_regex__reads_letters_not_bytes),
        cmocka_unit_test(test_regex__obeys_flags_and_groups),
        cmocka_unit_test(test_regex__refuses_bad_patterns),
        cmocka_unit_test(test_regex__stays_small_and_linear),
    };
    return cmocka_run_group_tests_name("regex", tests, NULL, NULL);
}
