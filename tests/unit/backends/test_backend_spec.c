/* Specs: what is accepted, and how a mistake is named. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "backends/backend.h"

static const plumb_option_def defs[] = {
    { "opt", "off|basic|all", "level" },
    { "threads", "N", "threads" },
    { "fast", NULL, "a flag" },
    { "list", "X+Y", "a list" },
};
enum { N_DEFS = sizeof(defs) / sizeof(defs[0]) };

static pl_status parse(const char *text, pl_spec *out, pl_err *err) {
    return pl_spec_parse(text, "test", defs, N_DEFS, out, err);
}

static void test_spec__reads_keys_flags_and_lists(void **state) {
    pl_spec s;
    (void)state;
    assert_int_equal(parse("test:opt=all,threads=3,fast,list=a+b", &s, NULL), PL_OK);
    assert_int_equal(s.n_options, 4);
    assert_string_equal(pl_option_value(s.options, s.n_options, "opt"), "all");
    assert_int_equal(pl_option_int(s.options, s.n_options, "threads", -1), 3);
    assert_string_equal(pl_option_value(s.options, s.n_options, "fast"), "");
    assert_string_equal(pl_option_value(s.options, s.n_options, "list"), "a+b");
    assert_null(pl_option_value(s.options, s.n_options, "other"));
    pl_spec_release(&s);
}

static void test_spec__takes_a_bare_name(void **state) {
    pl_spec s;
    (void)state;
    assert_int_equal(parse("test", &s, NULL), PL_OK);
    assert_int_equal(s.n_options, 0);
    pl_spec_release(&s);
}

static void test_spec__names_what_is_wrong(void **state) {
    static const struct {
        const char *text, *part;
    } wrong[] = {
        { "test:optt=all", "no option 'optt'; did you mean 'opt'" },
        { "test:opt=most", "opt is 'most', expected off|basic|all" },
        { "test:threads=x", "threads is 'x', expected a whole number" },
        { "test:threads=-1", "expected a whole number" },
        { "test:threads=99999999999", "expected a whole number" },
        { "test:fast=1", "fast takes no value" },
        { "test:opt", "opt requires a value" },
        { "test:", "missing option after the colon" },
        { "test:opt=all,,fast", "empty option" },
        { "test:=3", "empty option" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pl_spec s;
        pl_err err = PL_ERR_INIT;
        assert_int_equal(parse(wrong[i].text, &s, &err), PL_E_USAGE);
        if (strstr(err.message, wrong[i].part) == NULL)
            fail_msg("%s: %s", wrong[i].text, err.message);
        pl_spec_release(&s);
    }
}

static void test_spec__reads_a_program_whole(void **state) {
    static const plumb_option_def file[] = { { "", "PROGRAM", "a program" },
                                             { "x", "N", "a number" } };
    pl_spec s;
    pl_err err = PL_ERR_INIT;
    (void)state;
    assert_int_equal(pl_spec_parse("cmd:./a=b\\,c:d,x=1", "cmd", file, 2, &s, NULL), PL_OK);
    assert_string_equal(pl_option_value(s.options, s.n_options, ""), "./a=b,c:d");
    assert_int_equal(pl_option_int(s.options, s.n_options, "x", 0), 1);
    pl_spec_release(&s);
    assert_int_equal(pl_spec_parse("cmd", "cmd", file, 2, &s, &err), PL_E_USAGE);
    assert_non_null(strstr(err.message, "requires a program"));
    pl_spec_release(&s);
}

static void test_spec__tells_what_runs_foreign_code(void **state) {
    static const char *const foreign[] = { "cmd:/bin/true", "plugin:a.so", "ort:opt=all,lib=x.so",
                                           "jit:debug-dir=/tmp/x", "jit:fuse=off,explain=f" };
    static const char *const own[] = { "eager",        "eager:fp64", "jit:inject=scale@Relu:2",
                                       "ort:opt=all",  "jit",        "",
                                       "ort:threads=2" };
    (void)state;
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_true(pl_spec_is_foreign(foreign[i]));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_false(pl_spec_is_foreign(own[i]) || pl_spec_needs_trust(own[i]));
    assert_true(pl_spec_needs_trust("web") && pl_spec_needs_trust("web:webgpu"));
    assert_false(pl_spec_is_foreign("web:webgpu"));
}

static void test_backend_open__names_the_backends_there_are(void **state) {
    pl_backend *b = NULL;
    pl_err err = PL_ERR_INIT;
    (void)state;
    assert_int_equal(pl_backend_open("orx:opt=all", NULL, &b, &err), PL_E_USAGE);
    assert_non_null(strstr(err.message, "no backend 'orx'; did you mean 'ort'"));
}

static void test_backend__guards_by_the_row_and_not_by_the_spelling(void **state) {
    static const char *const here[] = { "eager", "eager:fp64", "eager:kernels=plain" };
    static const char *const behind[] = { "jit",         "ort:opt=all", "cmd:/bin/true",
                                          "plugin:a.so", "eagerly",     "" };
    (void)state;
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        assert_false(pl_backend_options_for(here[i], 1, 2).guarded);
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
        assert_true(pl_backend_options_for(behind[i], 1, 2).guarded);
    assert_true(pl_backend_is_interpreter(NULL) && pl_backend_is_interpreter("eager"));
    assert_false(pl_backend_is_interpreter("eager:fp64") || pl_backend_is_interpreter("jit"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec__reads_keys_flags_and_lists),
        cmocka_unit_test(test_spec__takes_a_bare_name),
        cmocka_unit_test(test_spec__names_what_is_wrong),
        cmocka_unit_test(test_spec__reads_a_program_whole),
        cmocka_unit_test(test_spec__tells_what_runs_foreign_code),
        cmocka_unit_test(test_backend__guards_by_the_row_and_not_by_the_spelling),
        cmocka_unit_test(test_backend_open__names_the_backends_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
