/* "did you mean". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/nearest.h"

/* clang-format off */
#include <cmocka.h> /* needs the headers above it */
/* clang-format on */

static const char *const known[] = { "analyze", "compare", "minify", "run", "ort", "batch" };
static const pl_name_list list = { known, 6 };

static const char *near(const char *word) {
    return pl_nearest(word, strlen(word), pl_name_at_list, &list);
}

static void test_nearest__finds_slips_of_the_finger(void **state) {
    (void)state;
    assert_string_equal(near("analyse"), "analyze");
    assert_string_equal(near("Batch"), "batch");
    assert_string_equal(near("comapre"), "compare");
    assert_string_equal(near("minfy"), "minify");
    assert_string_equal(near("otr"), "ort");
}

static void test_nearest__does_not_guess_wildly(void **state) {
    (void)state;
    char longest[500];
    memset(longest, 'a', sizeof(longest));
    longest[499] = '\0';
    assert_null(near("serve"));
    assert_null(near(""));
    assert_null(near("x"));
    assert_null(near(longest));
}

static void test_nearest__lists_what_there_is(void **state) {
    (void)state;
    pl_buf out = PL_BUF_INIT;
    pl_nearest_put(&out, "serve", 5, pl_name_at_list, &list);
    assert_string_equal(pl_buf_str(&out), "; available: analyze, compare, minify, run, ort, batch");
    pl_buf_release(&out);
    pl_nearest_put(&out, "rnu", 3, pl_name_at_list, &list);
    assert_string_equal(pl_buf_str(&out), "; did you mean 'run'? available: analyze, compare, "
                                          "minify, run, ort, batch");
    pl_buf_release(&out);
}

static void test_nearest__counts_long_lists(void **state) {
    (void)state;
    static const char *const short_names[] = { "a1", "a2", "a3", "a4", "a5", "a6",  "a7",
                                               "a8", "a9", "b1", "b2", "b3", "relu" };
    char wide[2][90];
    memset(wide, 'w', sizeof(wide));
    wide[0][89] = wide[1][89] = '\0';
    const char *const wide_names[] = { wide[0], wide[1], "relu", "a_name_of_twenty_letters" };
    const pl_name_list many = { short_names, 13 }, twelve = { short_names + 1, 12 },
                       letters = { wide_names, 4 };
    pl_buf out = PL_BUF_INIT;
    pl_nearest_put(&out, "rleu", 4, pl_name_at_list, &many);
    assert_string_equal(pl_buf_str(&out), "; did you mean 'relu'? (one of 13)");
    pl_buf_release(&out);
    pl_nearest_put(&out, "rleu", 4, pl_name_at_list, &twelve);
    assert_non_null(strstr(pl_buf_str(&out), "'relu'? available: a2, a3, "));
    pl_buf_release(&out);
    pl_nearest_put(&out, "rleu", 4, pl_name_at_list, &letters);
    assert_string_equal(pl_buf_str(&out), "; did you mean 'relu'? (one of 4)");
    pl_buf_release(&out);
    pl_nearest_put(&out, "serve", 5, pl_name_at_list, &many);
    assert_non_null(strstr(pl_buf_str(&out), "; available: a1, a2, "));
    assert_non_null(strstr(pl_buf_str(&out), " and 1 more"));
    pl_buf_release(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest__finds_slips_of_the_finger),
        cmocka_unit_test(test_nearest__does_not_guess_wildly),
        cmocka_unit_test(test_nearest__lists_what_there_is),
        cmocka_unit_test(test_nearest__counts_long_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
