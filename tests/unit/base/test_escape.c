/* Every context of the table: hostile text comes out as one harmless piece. Expected strings are
 * written from the specification of the context, not from plumb's output. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/utf8.h"

static void expect(pl_escape context, const char *given, const char *wanted) {
    pl_buf out = PL_BUF_INIT;
    pl_escape_put(&out, context, given);
    assert_true(pl_buf_ok(&out));
    assert_string_equal(pl_buf_str(&out), wanted);
    pl_buf_release(&out);
}

static void test_escape__line_has_no_control_characters(void **state) {
    (void)state;
    expect(PL_ESCAPE_LINE, "a\x1b[31m\nb\xff", "a?[31m?b?");
    expect(PL_ESCAPE_LINE, "x\xe2\x80\xaey", "x?y"); /* a right-to-left override */
    expect(PL_ESCAPE_LINE, "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
}

static void test_escape__json_and_script(void **state) {
    (void)state;
    expect(PL_ESCAPE_JSON, "a\"\\\n\x01\xff", "\"a\\\"\\\\\\n\\u0001\xEF\xBF\xBD\"");
    expect(PL_ESCAPE_SCRIPT, "{\"a\":\"</script>\"}", "{\"a\":\"\\u003c/script>\"}");
}

static void test_escape__html_and_xml(void **state) {
    (void)state;
    expect(PL_ESCAPE_HTML, "<img src='x' onerror=\"a&b\">",
           "&lt;img src=&#39;x&#39; onerror=&quot;a&amp;b&quot;&gt;");
    expect(PL_ESCAPE_XML, "]]><a b=\"\x1b\">\xef\xbf\xbe", "]]&gt;&lt;a b=&quot;?&quot;&gt;?");
}

static void test_escape__csv_runs_no_formula(void **state) {
    (void)state;
    expect(PL_ESCAPE_CSV, "plain", "plain");
    expect(PL_ESCAPE_CSV, "=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0");
    expect(PL_ESCAPE_CSV, "@SUM(1,2)", "\"'@SUM(1,2)\"");
    expect(PL_ESCAPE_CSV, "-2+3", "'-2+3");
    expect(PL_ESCAPE_CSV, "say \"hi\"", "\"say \"\"hi\"\"\"");
    expect(PL_ESCAPE_CSV, "a\r\n=b",
           "\"a?"
           "?=b\"");
}

static void test_escape__markdown_has_no_markup(void **state) {
    (void)state;
    expect(PL_ESCAPE_MARKDOWN, "[x](javascript:y)|<b>`c`&amp;",
           "\\[x\\](javascript:y)\\|\\<b\\>\\`c\\`\\&amp;");
    expect(PL_ESCAPE_MARKDOWN, "a\n# b", "a?# b");
    expect(PL_ESCAPE_MD_CODE, "a`b", "``a`b``");
    expect(PL_ESCAPE_MD_CODE, "`", "`` ` ``");
    expect(PL_ESCAPE_MD_BLOCK, "a\n```\n<b>", "    a\n    ```\n    <b>\n");
}

static void test_escape__strings_of_programs(void **state) {
    (void)state;
    expect(PL_ESCAPE_PYTHON, "\"];__import__(\"os\")#\\\n",
           "\"\\\"];__import__(\\\"os\\\")#\\\\\\x0a\"");
    expect(PL_ESCAPE_JAVASCRIPT, "</script>\xe2\x80\xa8", "\"\\x3c/script>\\xe2\\x80\\xa8\"");
    expect(PL_ESCAPE_C,
           "a\"?"
           "?/b\xc3\xbc\n1",
           "\"a\\\"\\077\\077/b\\303\\274\\0121\"");
}

static void test_escape__github_commands(void **state) {
    (void)state;
    expect(PL_ESCAPE_GITHUB, "100%\n::error::x", "100%25?::error::x");
    expect(PL_ESCAPE_GITHUB_KEY, "a:b,c%", "a%3Ab%2Cc%25");
}

static void test_escape__url(void **state) {
    (void)state;
    expect(PL_ESCAPE_URL, "//host/a b?c#d", "/host/a%20b%3Fc%23d");
    expect(PL_ESCAPE_URL, "\xc3\xbc\n", "%C3%BC%0A");
    expect(PL_ESCAPE_URL, "a-b_c.d~e/f", "a-b_c.d~e/f");
}

/* What sh makes of the word is the text again, byte by byte. */
static void test_escape__shell_gives_the_bytes_back(void **state) {
    (void)state;
    static const char text[] = "'; touch /tmp/x; echo $(id) `id` \\ \"*\x1b\n\xff end";
    pl_buf command = PL_BUF_INIT;
    char got[sizeof text + 8] = "";
    pl_buf_puts(&command, "printf %s ");
    pl_escape_put(&command, PL_ESCAPE_SHELL, text);
    FILE *pipe = popen(pl_buf_str(&command), "r");
    assert_non_null(pipe);
    const size_t n = fread(got, 1, sizeof got - 1, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_int_equal(n, sizeof text - 1);
    assert_memory_equal(got, text, n);
    pl_buf_release(&command);
}

/* Any bytes in any context: what is kept is UTF-8 where the context is text, and one line. */
static void test_escape__every_context_takes_every_byte(void **state) {
    (void)state;
    for (int context = 0; context < PL_ESCAPE_COUNT; context++) {
        char all[255];
        pl_buf out = PL_BUF_INIT;
        for (int i = 0; i < 255; i++)
            all[i] = (char)(i + 1);
        pl_escape_put_n(&out, (pl_escape)context, all, sizeof all);
        assert_true(pl_buf_ok(&out));
        assert_true(strlen(pl_escape_name((pl_escape)context)) > 0);
        const bool raw = context == PL_ESCAPE_SHELL || context == PL_ESCAPE_SCRIPT;
        for (size_t at = 0; at < out.n_bytes && !raw;) {
            const size_t step = pl_utf8_step(out.data + at, out.n_bytes - at);
            assert_true(step > 0);
            const bool end = context == PL_ESCAPE_MD_BLOCK && out.data[at] == '\n';
            const bool del = context == PL_ESCAPE_JSON && out.data[at] == 0x7f;
            assert_true(end || del || !pl_utf8_is_control(out.data + at, step));
            at += step;
        }
        pl_buf_release(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escape__line_has_no_control_characters),
        cmocka_unit_test(test_escape__json_and_script),
        cmocka_unit_test(test_escape__html_and_xml),
        cmocka_unit_test(test_escape__csv_runs_no_formula),
        cmocka_unit_test(test_escape__markdown_has_no_markup),
        cmocka_unit_test(test_escape__strings_of_programs),
        cmocka_unit_test(test_escape__github_commands),
        cmocka_unit_test(test_escape__url),
        cmocka_unit_test(test_escape__shell_gives_the_bytes_back),
        cmocka_unit_test(test_escape__every_context_takes_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
