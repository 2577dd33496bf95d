/* The sticky byte buffer. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

static void test_buf__starts_as_an_empty_string(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    assert_string_equal(pl_buf_str(&buf), "");
    assert_true(pl_buf_ok(&buf));
    pl_buf_append(&buf, NULL, 0);
    assert_non_null(buf.data);
    assert_string_equal(buf.data, "");
    pl_buf_release(&buf);
}

static void test_buf__appends_and_terminates(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    for (size_t i = 0; i < 1000; i++) {
        pl_buf_puts(&buf, "ab");
        pl_buf_putc(&buf, 'c');
        pl_buf_append(&buf, "\0d", 2);
        assert_int_equal(buf.n_bytes, 5 * (i + 1));
        assert_int_equal(buf.data[buf.n_bytes], 0);
        assert_true(buf.capacity > buf.n_bytes);
    }
    assert_memory_equal(buf.data + 4995, "abc\0d", 6);
    pl_buf_release(&buf);
    assert_null(buf.data);
}

static void test_buf_printf__grows_exactly_when_needed(void **state) {
    (void)state;
    for (int width = 1; width < 300; width++) {
        pl_buf buf = PL_BUF_INIT;
        char want[400];
        pl_buf_puts(&buf, "x");
        pl_buf_printf(&buf, "%*d|", width, 7);
        snprintf(want, sizeof want, "x%*d|", width, 7);
        assert_string_equal(buf.data, want);
        assert_int_equal(buf.n_bytes, strlen(want));
        pl_buf_release(&buf);
    }
}

static void test_buf_reset__keeps_memory(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_puts(&buf, "hello");
    char *data = buf.data;
    buf.failed = true;
    pl_buf_reset(&buf);
    assert_true(pl_buf_ok(&buf));
    assert_string_equal(pl_buf_str(&buf), "");
    pl_buf_puts(&buf, "again");
    assert_ptr_equal(buf.data, data);
    assert_string_equal(buf.data, "again");
    pl_buf_release(&buf);
}

static void test_buf_take__hands_over(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    char *s = pl_buf_take(&buf);
    assert_string_equal(s, "");
    pl_free(s);
    pl_buf_puts(&buf, "text");
    s = pl_buf_take(&buf);
    assert_string_equal(s, "text");
    assert_null(buf.data);
    assert_int_equal(buf.n_bytes, 0);
    pl_free(s);
}

static void test_buf__remembers_the_first_failure(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_puts(&buf, "kept");
    pl_alloc_fail_after(0);
    pl_buf_printf(&buf, "%200d", 1);
    pl_alloc_fail_after(-1);
    assert_false(pl_buf_ok(&buf));
    pl_buf_puts(&buf, "ignored");
    assert_string_equal(pl_buf_str(&buf), "kept");
    assert_null(pl_buf_take(&buf));
    assert_null(buf.data);
}

static void test_buf__refuses_overflowing_sizes(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_puts(&buf, "a");
    pl_buf_append(&buf, "b", SIZE_MAX);
    assert_false(pl_buf_ok(&buf));
    pl_buf_reset(&buf);
    pl_buf_append(&buf, "b", SIZE_MAX / 2 + 2);
    assert_false(pl_buf_ok(&buf));
    pl_buf_release(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf__starts_as_an_empty_string),
        cmocka_unit_test(test_buf__appends_and_terminates),
        cmocka_unit_test(test_buf_printf__grows_exactly_when_needed),
        cmocka_unit_test(test_buf_reset__keeps_memory),
        cmocka_unit_test(test_buf_take__hands_over),
        cmocka_unit_test(test_buf__remembers_the_first_failure),
        cmocka_unit_test(test_buf__refuses_overflowing_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
