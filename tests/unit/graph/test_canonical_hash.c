/* The canonical hash: blind to names and order, awake to everything that computes. */
#include "text_models.h"

static const char *const BASE =
    "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> {\n"
    "  [n] a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }";

static void expect(const char *text, bool same) {
    if (hash_equal(hash_of_graph_text(BASE), hash_of_graph_text(text)) != same)
        fail_msg("%s: %s", same ? "should hash the same" : "should hash differently", text);
}

static void test_canonical_hash__does_not_see_names_and_order(void **state) {
    (void)state;
    expect("other (float[M] p, float[M] q) => (r) <float[2] v = {1, 2}> {\n"
           "  t2 = Abs<m = 2, k = 1>(q) t1 = Neg(p) t3 = Add(t1, t2) r = Mul(t3, v) }",
           true);
    /* types of values inside and of outputs, and omitted operands at the end, do not matter */
    expect("(float[N] x, float[N] z) => (float[9] y) <float[2] w = {1, 2}, float[9] a> {\n"
           "  a = Neg(x, \"\") b, \"\" = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
           true);
}

static void test_canonical_hash__sees_every_change(void **state) {
    (void)state;
    /* clang-format off */
    static const char *const changed[] = {
        /* operator, domain, attribute value, attribute type, operand order */
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Exp(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = o.Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 2, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1.0, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(b, a) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, , b) y = Mul(c, w) }",
        /* edges, inputs, their types and order */
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(z) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] z, float[N] x) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[M] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, double[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z, float[N] more) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        /* outputs, weights: values, shape, type */
        "(float[N] x, float[N] z) => (c) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y, c) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 3}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <float[2,1] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        "(float[N] x, float[N] z) => (y) <int32[2] w = {1065353216, 1073741824}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) }",
        /* one more node, dead or not */
        "(float[N] x, float[N] z) => (y) <float[2] w = {1, 2}> { a = Neg(x) b = Abs<k = 1, m = 2>(z) c = Add(a, b) y = Mul(c, w) dead = Exp(x) }",
    };
    /* clang-format on */
    expect(BASE, true);
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        expect(changed[i], false);
}

static void test_canonical_hash__tells_equal_nodes_apart_by_use(void **state) {
    (void)state;
    const pl_hash128 two =
        hash_of_graph_text("() => (y) { a = Random() b = Random() y = Sub(a, b) }");
    const pl_hash128 swapped =
        hash_of_graph_text("() => (y) { b = Random() a = Random() y = Sub(b, a) }");
    const pl_hash128 same =
        hash_of_graph_text("() => (y) { a = Random() b = Random() y = Sub(a, a) }");
    assert_true(hash_equal(two, swapped));
    assert_false(hash_equal(two, same));
}

static void test_canonical_hash__looks_into_bodies(void **state) {
    (void)state;
#define IF(then)                                                                                   \
    "(bool c, float x, float z) => (y) { t = Neg(x) s = Abs(x) y = If(c) <then_branch = a () =>"   \
    " (p) { " then " }, else_branch = b () => (q) { q = Exp(t) }> }"
    const pl_hash128 base = hash_of_graph_text(IF("p = Mul(t, z)"));
    assert_true(hash_equal(base, hash_of_graph_text(IF("p = Mul(t, z)"))));
    assert_false(hash_equal(base, hash_of_graph_text(IF("p = Mul(s, z)")))); /* another capture */
    assert_false(hash_equal(base, hash_of_graph_text(IF("p = Add(t, z)"))));
    assert_false(hash_equal(base, hash_of_graph_text(IF("o = Mul(t, z) p = Neg(o)"))));
#undef IF
    /* an input of the body is not the same as an input of the main graph in the same place */
    assert_false(hash_equal(
        hash_of_graph_text(
            "(float x) => (y) { y = Loop(x) <body = b (float i) => (o) { o = Neg(i) }> }"),
        hash_of_graph_text(
            "(float x) => (y) { y = Loop(x) <body = b (float i) => (o) { o = Neg(x) }> }")));
}

static void test_canonical_hash__sees_the_opset(void **state) {
    (void)state;
    pl_model *a = NULL, *b = NULL;
    pl_err err = PL_ERR_INIT;
    must(pl_model_parse_graph("(float x) => (y) { y = Softmax(x) }", 12, &a, &err), &err);
    must(pl_model_parse_graph("(float x) => (y) { y = Softmax(x) }", 13, &b, &err), &err);
    assert_false(hash_equal(hash_of(a), hash_of(b)));
    pl_model_free(a);
    pl_model_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_hash__does_not_see_names_and_order),
        cmocka_unit_test(test_canonical_hash__sees_every_change),
        cmocka_unit_test(test_canonical_hash__tells_equal_nodes_apart_by_use),
        cmocka_unit_test(test_canonical_hash__looks_into_bodies),
        cmocka_unit_test(test_canonical_hash__sees_the_opset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
