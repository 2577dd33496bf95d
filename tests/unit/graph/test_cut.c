/* Cutting a model between values. */
#include "base/alloc.h"
#include "text_models.h"

static const char *const MODEL = "(float[2] x, float[2] z, float[2] never = {0, 0}) => (y, u)\n"
                                 "<float[2] w = {1, 2}, float[2] v = {3, 4}, float[2] b> {\n"
                                 "  a = Add(x, w) b, c = Split(a) d = Mul(b, v) e = Sub(d, c)\n"
                                 "  y = If(e) <then_branch = t () => (p) { p = Mul(b, w) }, "
                                 "else_branch = f () => (q) { q = Neg(d) }>\n"
                                 "  u = Add(z, e)\n"
                                 "}";

#define NAMES(...) ((const char *const[]){ __VA_ARGS__ })
#define COUNT(...) (sizeof(NAMES(__VA_ARGS__)) / sizeof(char *))
#define LIST(...) NAMES(__VA_ARGS__), COUNT(__VA_ARGS__)

static void check(const char *const *from, size_t n_from, const char *const *to, size_t n_to,
                  const char *expected) {
    pl_err err = PL_ERR_INIT;
    pl_model *m = parse_graph_text(MODEL), *part = NULL;
    must(pl_model_cut(m, from, n_from, to, n_to, &part, &err), &err);
    pl_model_free(m);
    must(pl_model_verify(part, &err), &err);
    pl_model *wanted = parse_graph_text(expected);
    pl_buf a = print_model(part), b = print_model(wanted);
    assert_string_equal(pl_buf_str(&a), pl_buf_str(&b));
    pl_buf_release(&a);
    pl_buf_release(&b);
    pl_model_free(wanted);
    pl_model_free(part);
}

static void test_cut__keeps_the_nodes_between(void **state) {
    (void)state;
    check(LIST("b"), LIST("d"), "(float[2] b) => (d) <float[2] v = {3, 4}> { d = Mul(b, v) }");
}

static void test_cut__keeps_an_input_that_is_still_needed(void **state) {
    (void)state;
    check(LIST("e"), LIST("u"), "(e, float[2] z) => (u) { u = Add(z, e) }");
}

static void test_cut__without_lists_is_the_whole_model(void **state) {
    (void)state;
    check(NULL, 0, NULL, 0, MODEL);
}

static void test_cut__follows_what_bodies_capture(void **state) {
    (void)state;
    check(LIST("e", "d"), LIST("y"),
          "(e, d, float[2] x) => (y) <float[2] w = {1, 2}, float[2] b> {\n"
          "  a = Add(x, w) b, c = Split(a)\n"
          "  y = If(e) <then_branch = t () => (p) { p = Mul(b, w) },\n"
          "             else_branch = f () => (q) { q = Neg(d) }> }");
}

/* Split is needed for c, but b comes from outside now. */
static void test_cut__renames_an_output_that_became_an_input(void **state) {
    (void)state;
    check(LIST("b", "x"), LIST("e"),
          "(float[2] b, float[2] x) => (e) <float[2] w = {1, 2}, float[2] v = {3, 4}> {\n"
          "  a = Add(x, w) b_1, c = Split(a) d = Mul(b, v) e = Sub(d, c) }");
}

static void test_cut__turns_a_weight_into_an_input(void **state) {
    (void)state;
    check(LIST("w", "x", "w"), LIST("a", "x"),
          "(float[2] w, float[2] x) => (a, float[2] x) { a = Add(x, w) }");
}

static void test_cut__tells_which_name_is_wrong(void **state) {
    (void)state;
    pl_model *m = parse_graph_text(MODEL), *part = NULL;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_model_cut(m, LIST("nope"), NULL, 0, &part, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "no value 'nope'"));
    assert_int_equal(pl_model_cut(m, NULL, 0, LIST("p"), &part, &err), PL_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "'p' is inside the body"));
    pl_model_free(m);
}

static void test_cut__survives_lack_of_memory(void **state) {
    (void)state;
    pl_model *m = parse_graph_text(MODEL);
    pl_status st = PL_E_MEMORY;
    for (long n = 0; st != PL_OK && n < 5000; n++) {
        pl_model *part = NULL;
        pl_alloc_fail_after(n);
        st = pl_model_cut(m, LIST("b", "x"), LIST("e", "y"), &part, NULL);
        pl_alloc_fail_after(-1);
        pl_model_free(part);
        assert_true(st == PL_OK || st == PL_E_MEMORY);
    }
    assert_int_equal(st, PL_OK);
    pl_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut__keeps_the_nodes_between),
        cmocka_unit_test(test_cut__keeps_an_input_that_is_still_needed),
        cmocka_unit_test(test_cut__without_lists_is_the_whole_model),
        cmocka_unit_test(test_cut__follows_what_bodies_capture),
        cmocka_unit_test(test_cut__renames_an_output_that_became_an_input),
        cmocka_unit_test(test_cut__turns_a_weight_into_an_input),
        cmocka_unit_test(test_cut__tells_which_name_is_wrong),
        cmocka_unit_test(test_cut__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
