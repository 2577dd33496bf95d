/* Deep copies. */
#include "base/alloc.h"
#include "text_models.h"

static const char *const MODEL =
    "<ir_version: 9, opset_import: [\"\" : 18, \"com.x\" : 1], producer_name: \"p\", domain: "
    "\"d\",\n"
    " doc_string: \"doc\", model_version: 2, metadata_props: [\"k\": \"v\"]>\n"
    "main (float[N, 3] x, int64 i = {5}, seq(float[N]) s, bool c) => (y, float[] z)\n"
    "<float[2] w = {1, 2.5}, string[1] ss = {\"a\"}, float[N,3] mid> {\n"
    "   [n1] mid = Relu(x)\n"
    "   y = com.x.Op:ov <a = 1, f = 2.5, fs = [1.5], s = \"st\", ss = [\"a\"], t = float[2] {1, "
    "2},\n"
    "       tp = seq(float[N]), e: ints = [], ts = [float {1}], g = [b () => (k) {k = Neg(mid)}]> "
    "(mid, , w)\n"
    "   z = If (c) <then_branch = t1 () => (o1) { o1 = Add(mid, mid) },\n"
    "               else_branch = t2 () => (float[] o2) <float[1] k = {3}> { o2 = Mul(mid, k) }>\n"
    "}\n";

static void test_copy__is_equal_and_stands_alone(void **state) {
    (void)state;
    static const pl_prop props[] = { { "k", "v" } };
    pl_model *m = parse_text(MODEL), *copy = NULL;
    pl_err err = PL_ERR_INIT;
    m->graph->nodes[0]->props = props;
    m->graph->nodes[0]->n_props = 1;
    m->graph->nodes[0]->doc = "node doc";
    m->graph->nodes[0]->function = "l.f";
    m->graph->nodes[0]->opset = 18;
    must(pl_model_copy(m, &copy, &err), &err);
    pl_buf before = print_model(m);
    const pl_hash128 hash = hash_of(m);
    const pl_tensor *w = pl_graph_find(m->graph, "w")->init;
    assert_ptr_equal(pl_graph_find(copy->graph, "w")->init, w);
    pl_model_free(m); /* nothing of the copy may point into it */
    pl_buf after = print_model(copy);
    assert_string_equal(pl_buf_str(&before), pl_buf_str(&after));
    assert_true(hash_equal(hash, hash_of(copy)));
    must(pl_model_verify(copy, &err), &err);
    const pl_node *node = copy->graph->nodes[0];
    assert_string_equal(node->doc, "node doc");
    assert_string_equal(node->function, "l.f");
    assert_string_equal(node->props[0].value, "v");
    const pl_graph *body = pl_node_attr(copy->graph->nodes[2], "then_branch")->graph;
    assert_ptr_equal(body->owner, copy->graph->nodes[2]);
    assert_ptr_equal(body->parent, copy->graph);
    assert_ptr_equal(body->nodes[0]->in[0], pl_graph_find(copy->graph, "mid"));
    pl_buf_release(&before);
    pl_buf_release(&after);
    pl_model_free(copy);
}

static void test_copy__survives_lack_of_memory(void **state) {
    (void)state;
    pl_model *m = parse_text(MODEL);
    pl_status st = PL_E_MEMORY;
    for (long n = 0; st != PL_OK && n < 5000; n++) {
        pl_model *copy = NULL;
        pl_alloc_fail_after(n);
        st = pl_model_copy(m, &copy, NULL);
        pl_alloc_fail_after(-1);
        pl_model_free(copy);
        assert_true(st == PL_OK || st == PL_E_MEMORY);
    }
    assert_int_equal(st, PL_OK);
    pl_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy__is_equal_and_stands_alone),
        cmocka_unit_test(test_copy__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
