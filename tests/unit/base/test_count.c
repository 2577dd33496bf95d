/* Plurals and sizes. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/count.h"

static void test_buf_put_count__has_plurals(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_put_count(&buf, 0, "input");
    pl_buf_putc(&buf, ' ');
    pl_buf_put_count(&buf, 1, "query");
    pl_buf_putc(&buf, ' ');
    pl_buf_put_count(&buf, 2, "query");
    pl_buf_putc(&buf, ' ');
    pl_buf_put_count(&buf, 2, "array");
    assert_string_equal(pl_buf_str(&buf), "0 inputs 1 query 2 queries 2 arrays");
    pl_buf_release(&buf);
}

static void test_buf_put_size__has_at_most_three_digits(void **state) {
    static const struct {
        uint64_t n;
        const char *text;
    } cases[] = { { 0, "0 bytes" },      { 1, "1 byte" },          { 999, "999 bytes" },
                  { 1000, "1.0 kB" },    { 6220, "6.2 kB" },       { 9960, "10 kB" },
                  { 999499, "999 kB" },  { 999500, "1.0 MB" },     { 1300000, "1.3 MB" },
                  { 48000000, "48 MB" }, { 4294967296, "4.3 GB" }, { UINT64_MAX, "18 EB" } };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pl_buf buf = PL_BUF_INIT;
        pl_buf_put_size(&buf, cases[i].n);
        assert_string_equal(pl_buf_str(&buf), cases[i].text);
        pl_buf_release(&buf);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_put_count__has_plurals),
        cmocka_unit_test(test_buf_put_size__has_at_most_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
