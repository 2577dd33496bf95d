/* Removing nodes and redirecting uses. */
#include "text_models.h"

static void check(pl_model *model, const char *expected) {
    pl_err err = PL_ERR_INIT;
    must(pl_model_verify(model, &err), &err);
    pl_model *wanted = parse_graph_text(expected);
    wanted->graph->name = model->graph->name;
    pl_buf a = print_model(model), b = print_model(wanted);
    assert_string_equal(pl_buf_str(&a), pl_buf_str(&b));
    pl_buf_release(&a);
    pl_buf_release(&b);
    pl_model_free(wanted);
    pl_model_free(model);
}

static void test_edit__removes_dead_nodes_and_weights(void **state) {
    (void)state;
    pl_model *m = parse_graph_text(
        "(float x, float unused) => (y)\n"
        "<float w = {1}, float dead_w = {2}, float captured = {3}> {\n"
        "  a = Neg(x) b = Abs(a) c = Add(b, dead_w) d, e = Split(a)\n"
        "  y = If(x) <then_branch = t () => (p) { q = Neg(w) p = Mul(d, captured) },\n"
        "             else_branch = f () => (r) { r = Neg(a) }>\n"
        "  = Print(x)\n}");
    size_t n = 0;
    pl_err err = PL_ERR_INIT;
    must(pl_graph_remove_dead(m->graph, &n, &err), &err);
    assert_int_equal(n, 4); /* b, c, Print and q in the body, which alone used w */
    assert_null(pl_graph_find(m->graph, "b"));
    check(m, "(float x, float unused) => (y) <float captured = {3}> {\n"
             "  a = Neg(x) d, e = Split(a)\n"
             "  y = If(x) <then_branch = t () => (p) { p = Mul(d, captured) },\n"
             "             else_branch = f () => (r) { r = Neg(a) }>\n}");
}

static void test_edit__finds_nothing_dead_in_a_live_graph(void **state) {
    (void)state;
    static const char *const text =
        "(float x) => (y, z) <float w = {1}> { y = Add(x, w) z = Neg(y) }";
    pl_model *m = parse_graph_text(text);
    size_t n = 7;
    pl_err err = PL_ERR_INIT;
    must(pl_graph_remove_dead(m->graph, &n, &err), &err);
    assert_int_equal(n, 0);
    check(m, text);
}

static void test_edit__replaces_uses_everywhere(void **state) {
    (void)state;
    pl_model *m = parse_graph_text("(float x) => (a, y) { a = Neg(x) b = Abs(x)\n"
                                   "  y = If(a) <then_branch = t () => (p) { p = Mul(a, a) },\n"
                                   "             else_branch = f () => (a) { }> }");
    pl_err err = PL_ERR_INIT;
    pl_value *a = pl_graph_find(m->graph, "a"), *b = pl_graph_find(m->graph, "b");
    must(pl_graph_replace_uses(m->graph, a, b, &err), &err);
    assert_false(a->is_output);
    assert_true(b->is_output);
    check(m, "(float x) => (b, y) { a = Neg(x) b = Abs(x)\n"
             "  y = If(b) <then_branch = t () => (p) { p = Mul(b, b) },\n"
             "             else_branch = f () => (b) { }> }");
}

static void test_edit__refuses_a_replacement_that_is_not_visible(void **state) {
    (void)state;
    pl_model *m = parse_graph_text("(float x) => (y) { y = If(x) <then_branch = t () => (p) {"
                                   " p = Neg(x) }, else_branch = f () => (q) { q = Abs(x) }> }");
    pl_err err = PL_ERR_INIT;
    pl_graph *body = pl_node_attr(m->graph->nodes[0], "then_branch")->graph;
    assert_int_equal(pl_graph_replace_uses(m->graph, pl_graph_find(m->graph, "x"),
                                           pl_graph_find(body, "p"), &err),
                     PL_E_INVALID);
    pl_model_free(m);
}

static void test_edit__removes_chosen_nodes(void **state) {
    (void)state;
    pl_model *m = parse_graph_text("(float x) => (y) { a = Neg(x) b = Abs(a) y = Exp(b) }");
    pl_err err = PL_ERR_INIT;
    static const bool drop[] = { false, true, false };
    must(pl_graph_replace_uses(m->graph, pl_graph_find(m->graph, "b"), pl_graph_find(m->graph, "a"),
                               &err),
         &err);
    must(pl_graph_remove_nodes(m->graph, drop, &err), &err);
    assert_null(pl_graph_find(m->graph, "b"));
    assert_int_equal(m->graph->nodes[1]->index, 1);
    check(m, "(float x) => (y) { a = Neg(x) y = Exp(a) }");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edit__removes_dead_nodes_and_weights),
        cmocka_unit_test(test_edit__finds_nothing_dead_in_a_live_graph),
        cmocka_unit_test(test_edit__replaces_uses_everywhere),
        cmocka_unit_test(test_edit__refuses_a_replacement_that_is_not_visible),
        cmocka_unit_test(test_edit__removes_chosen_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
