/* Writing models: what is written reads back the same, in our reader and in python-onnx. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/process.h"
#include "onnx/onnx.h"
#include "onnx/onnx_fields.h"
#include "text_models.h"

static const char *const EVERYTHING =
    "<ir_version: 9, opset_import: [\"\" : 18, \"com.x\" : 1], producer_name: \"p\", domain: "
    "\"d\",\n"
    " producer_version: \"1\", model_version: 3, doc_string: \"two\nlines\", metadata_props: "
    "[\"k\": \"v\"]>\n"
    "main (float[N, 3] x, int64 i = {5}, bool c, float[\"odd dim\", ?] q, seq(float[N]) s,\n"
    "   optional(seq(int8[])) o, map(string, float[2]) m, sparse_tensor(float[4]) sp, float[K] "
    "kk)\n"
    "  => (float[N,3] y, float[] z, w)\n"
    "<float[2] wt = {1, 2.5}, float16[3] h = {15360, 2.0, 65535}, double[2] d = {0.1, -1e300},\n"
    " int4[3] i4 = {-8, 7, 1}, uint2[2] u2 = {0, 3}, string[2] ss = {\"a,b\", \"\\xff\\x00\"},\n"
    " complex64[1] cc = {1, 2}, bool[2] bb = {1, true}, uint64 u = {18446744073709551615},\n"
    " float[3] kk = {inf, -inf, nan}, float[0] none = {}, float scalar = {4}, float[N,3] mid>\n"
    "{\n"
    "   [n1] mid = Relu(x)\n"
    "   \"a/b\", \"\" = com.x.Op:ov <axis = -1, f = 2.5, fs = [1, 2.5], s = \"s\\x00t\", ss = "
    "[\"a\", \"\"],\n"
    "       t = float[2] {1, 2}, tp = seq(float[N]), e: ints = [], is = [1, -2], ts = [float {1}, "
    "int8[1] {3}],\n"
    "       gs = [g1 () => (k) {k = Neg(mid)}, g2 () => (k2) {k2 = Abs(mid)}],\n"
    "       sv: sparse_tensor = float[2,2] {0, 1, 0, -2}> (mid, \"\", x, \"\")\n"
    "   y = Identity(\"a/b\")\n"
    "   z = If (c) <then_branch = t1 () => (o1) { o1 = Add(mid, mid) },\n"
    "               else_branch = t2 () => (float[] o2) <float[1] k = {3}> { o2 = Mul(mid, k) }>\n"
    "   w = com.x.Other (z)\n"
    "}\n";

static pl_model *read_back(const pl_buf *bytes) {
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    const pl_bytes b = { (const uint8_t *)pl_buf_str(bytes), bytes->n_bytes };
    must(pl_model_read_bytes(b, NULL, NULL, "written", &model, &err), &err);
    return model;
}

static void test_onnx_write__round_trips_everything(void **state) {
    (void)state;
    pl_model *model = parse_text(EVERYTHING);
    pl_buf bytes = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    must(pl_model_serialize(model, &bytes, &err), &err);
    pl_model *back = read_back(&bytes);
    pl_buf before = print_model(model), after = print_model(back);
    assert_string_equal(pl_buf_str(&before), pl_buf_str(&after));
    assert_true(hash_equal(hash_of(model), hash_of(back)));
    pl_buf_release(&before);
    pl_buf_release(&after);
    pl_buf_release(&bytes);
    pl_model_free(model);
    pl_model_free(back);
}

/* A key type that is not said is written as 0, and read as not said (found by fuzz_onnx). */
static void test_onnx_write__round_trips_a_map_without_key_type(void **state) {
    (void)state;
    pl_model *model = parse_graph_text("(map(string, float[2]) m) => (y) { y = Identity(m) }");
    pl_buf bytes = PL_BUF_INIT, again = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    pl_type type = *model->graph->inputs[0]->type;
    type.dtype = PL_UNDEFINED;
    model->graph->inputs[0]->type = &type;
    must(pl_model_serialize(model, &bytes, &err), &err);
    pl_model *back = read_back(&bytes);
    assert_int_equal(back->graph->inputs[0]->type->kind, PL_TYPE_MAP);
    assert_int_equal(back->graph->inputs[0]->type->dtype, PL_UNDEFINED);
    must(pl_model_serialize(back, &again, &err), &err);
    assert_int_equal(again.n_bytes, bytes.n_bytes);
    assert_memory_equal(again.data, bytes.data, bytes.n_bytes);
    pl_buf_release(&bytes);
    pl_buf_release(&again);
    pl_model_free(model);
    pl_model_free(back);
}

/* The text form has no place for these. */
static void test_onnx_write__keeps_docs_and_metadata(void **state) {
    (void)state;
    static const pl_prop props[] = { { "pkg.torch.onnx.name_scopes", "['', 'a']" }, { "n", "" } };
    pl_model *model =
        parse_graph_text("(float[2] x) => (y) <float[2] t> { t = Relu(x) y = Neg(t) }");
    pl_buf bytes = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    pl_node *node = model->graph->nodes[0];
    node->doc = "model.py(8): forward";
    node->props = props;
    node->n_props = 2;
    model->graph->doc = "graph doc";
    model->graph->props = props;
    model->graph->n_props = 1;
    model->graph->inputs[0]->doc = "input doc";
    model->graph->outputs[0]->doc = "output doc";
    node->out[0]->doc = "inner doc";
    must(pl_model_serialize(model, &bytes, &err), &err);
    pl_model *back = read_back(&bytes);
    node = back->graph->nodes[0];
    assert_string_equal(node->doc, "model.py(8): forward");
    assert_int_equal(node->n_props, 2);
    assert_string_equal(node->props[0].key, "pkg.torch.onnx.name_scopes");
    assert_string_equal(node->props[0].value, "['', 'a']");
    assert_string_equal(back->graph->doc, "graph doc");
    assert_int_equal(back->graph->n_props, 1);
    assert_string_equal(back->graph->inputs[0]->doc, "input doc");
    assert_string_equal(back->graph->outputs[0]->doc, "output doc");
    assert_string_equal(node->out[0]->doc, "inner doc");
    pl_buf_release(&bytes);
    pl_model_free(model);
    pl_model_free(back);
}

/* is_output is true for such a value, but it is no output of the graph whose value it is. */
static void test_onnx_write__keeps_the_type_of_what_a_body_gives_back(void **state) {
    (void)state;
    pl_model *model =
        parse_graph_text("(bool c, float[2] x) => (y) <float[2] m> { m = Neg(x) y = If (c) <\n"
                         "then_branch = t () => (m) {}, else_branch = e () => (m) {}> }");
    pl_buf bytes = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    pl_wire_field f;
    size_t n_infos = 0;
    must(pl_model_serialize(model, &bytes, &err), &err);
    pl_wire wire = pl_wire_of((pl_bytes){ (const uint8_t *)bytes.data, bytes.n_bytes });
    while (pl_wire_next(&wire, &f)) {
        if (f.number != MODEL_GRAPH) continue;
        pl_wire graph = pl_wire_of(f.bytes);
        while (pl_wire_next(&graph, &f))
            n_infos += f.number == GRAPH_VALUE_INFO;
    }
    assert_int_equal(n_infos, 1);
    pl_buf_release(&bytes);
    pl_model_free(model);
}

/* ---- files ---- */

enum { N_BIG = 3000, N_INNER = 1500 };

static void add_weight(pl_graph *graph, pl_node *node, const char *name, int64_t n, float first) {
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    pl_value *value = NULL;
    must(pl_tensor_new(PL_F32, 1, &n, &t, &err), &err);
    for (int64_t i = 0; i < n; i++)
        ((pl_f32 *)t->data)[i] = first + (float)i;
    must(pl_graph_add_value(graph, name, &value, &err), &err);
    must(pl_value_set_init(value, t, &err), &err);
    node->in[1] = value;
    pl_tensor_unref(t);
}

/* Weights of 12000 bytes, 6000 bytes in a body, and 4 bytes. */
static pl_model *weighty_model(void) {
    pl_model *model =
        parse_text("<ir_version: 8, opset_import: [\"\" : 17]>\n"
                   "main (float[3000] x, bool c) => (float[3000] y) <float[1] small = {2}> {\n"
                   "  t = Add(x, x)  u = Mul(t, small)\n"
                   "  y = If (c) <then_branch = a () => (float[3000] p) { h = Concat<axis = 0>(u, "
                   "u) p = Add(u, u) },\n"
                   "              else_branch = b () => (float[3000] q) { q = Identity(u) }>\n"
                   "}\n");
    add_weight(model->graph, pl_graph_find(model->graph, "t")->producer, "big", N_BIG, 0.5f);
    pl_graph *body = pl_node_attr(model->graph->nodes[2], "then_branch")->graph;
    add_weight(body, body->nodes[0], "inner", N_INNER, -7.0f);
    return model;
}

static void check_file(const pl_model *model, const char *path) {
    pl_model *back = NULL;
    pl_err err = PL_ERR_INIT;
    must(pl_model_read(path, &back, &err), &err);
    assert_true(hash_equal(hash_of(model), hash_of(back)));
    pl_model_free(back);
}

static void test_onnx_write__writes_external_data(void **state) {
    (void)state;
    pl_model *model = weighty_model();
    pl_err err = PL_ERR_INIT;
    char *dir = NULL;
    pl_file_map *map = NULL;
    must(pl_dir_temporary(&dir, &err), &err);
    char *path = pl_path_join(dir, "m.onnx"), *data = pl_path_join(dir, "m.onnx.data");
    must(pl_model_write(model, path, false, &err), &err);
    assert_false(pl_path_exists(data));
    check_file(model, path);
    assert_int_equal(unlink(path), 0);
    must(pl_model_write(model, path, true, &err), &err);
    check_file(model, path);
    /* The body's weight was met first (nodes come before initializers): offsets 0 and 8192. */
    must(pl_file_map_open(data, &map, &err), &err);
    assert_int_equal(map->n_bytes, 8192 + 4 * N_BIG);
    float first[2];
    memcpy(&first[0], map->data, 4);
    memcpy(&first[1], map->data + 8192, 4);
    assert_true(first[0] == -7.0f && first[1] == 0.5f);
    pl_file_map_unref(map);
    must(pl_file_map_open(path, &map, &err), &err);
    assert_true(map->n_bytes < 2000);
    pl_file_map_unref(map);
    must(pl_dir_remove(dir, &err), &err);
    pl_free(path);
    pl_free(data);
    pl_free(dir);
    pl_model_free(model);
}

static void test_onnx_write__passes_the_onnx_checker(void **state) {
    (void)state;
    static const char *const script =
        "import sys, onnx, numpy\n"
        "from onnx import numpy_helper\n"
        "for path in sys.argv[1:]:\n"
        "    m = onnx.load(path)\n"
        "    onnx.checker.check_model(m, full_check=True)\n"
        "    w = {i.name: numpy_helper.to_array(i) for i in m.graph.initializer}\n"
        "    assert w['big'].shape == (3000,) and w['big'][1] == 1.5, w['big']\n"
        "    assert w['small'].tolist() == [2.0]\n";
    const char *const probe[] = { "/usr/bin/python3", "-c", "import onnx", NULL };
    pl_err err = PL_ERR_INIT;
    pl_process_result result;
    char *dir = NULL;
    must(pl_process_run(probe, &(pl_process_options){ .timeout_seconds = 60 }, &result, &err),
         &err);
    const bool has_onnx = result.exit_code == 0 && result.signal == 0;
    pl_process_result_release(&result);
    if (!has_onnx) skip();
    pl_model *model = weighty_model();
    must(pl_dir_temporary(&dir, &err), &err);
    char *inside = pl_path_join(dir, "inside.onnx"), *outside = pl_path_join(dir, "outside.onnx");
    must(pl_model_write(model, inside, false, &err), &err);
    must(pl_model_write(model, outside, true, &err), &err);
    const char *const check[] = { "/usr/bin/python3", "-c", script, inside, outside, NULL };
    must(pl_process_run(check, &(pl_process_options){ .timeout_seconds = 60 }, &result, &err),
         &err);
    if (result.exit_code != 0 || result.signal != 0)
        fail_msg("python-onnx refuses it: %s", pl_buf_str(&result.err));
    pl_process_result_release(&result);
    must(pl_dir_remove(dir, &err), &err);
    pl_free(inside);
    pl_free(outside);
    pl_free(dir);
    pl_model_free(model);
}

/* ---- failures ---- */

static void test_onnx_write__refuses_a_hidden_capture(void **state) {
    (void)state;
    pl_model *model = parse_graph_text(
        "(bool c, float x) => (y) { t = Neg(x) y = If(c) <then_branch = a () => (p) { p = Abs(t) },"
        " else_branch = b () => (q) { q = Abs(t) }> }");
    pl_graph *body = pl_node_attr(model->graph->nodes[1], "then_branch")->graph;
    pl_buf bytes = PL_BUF_INIT;
    pl_value *nearer = NULL;
    pl_err err = PL_ERR_INIT;
    must(pl_graph_add_value(body, "t", &nearer, &err), &err);
    assert_int_equal(pl_model_serialize(model, &bytes, &err), PL_E_INVALID);
    assert_non_null(strstr(err.message, "'t'"));
    pl_buf_release(&bytes);
    pl_model_free(model);
}

static void test_onnx_write__survives_lack_of_memory(void **state) {
    (void)state;
    pl_model *model = parse_text(EVERYTHING);
    pl_status st = PL_E_MEMORY;
    for (long n = 0; st != PL_OK && n < 5000; n++) {
        pl_buf bytes = PL_BUF_INIT;
        pl_alloc_fail_after(n);
        st = pl_model_serialize(model, &bytes, NULL);
        pl_alloc_fail_after(-1);
        pl_buf_release(&bytes);
        assert_true(st == PL_OK || st == PL_E_MEMORY);
    }
    assert_int_equal(st, PL_OK);
    pl_model_free(model);
}

static void test_onnx_write__names_the_file_it_cannot_write(void **state) {
    (void)state;
    pl_model *model = weighty_model();
    pl_err err = PL_ERR_INIT;
    assert_int_not_equal(pl_model_write(model, "/dev/null/m.onnx", true, &err), PL_OK);
    assert_non_null(strstr(err.message, "/dev/null/m.onnx"));
    pl_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_onnx_write__round_trips_everything),
        cmocka_unit_test(test_onnx_write__round_trips_a_map_without_key_type),
        cmocka_unit_test(test_onnx_write__keeps_docs_and_metadata),
        cmocka_unit_test(test_onnx_write__keeps_the_type_of_what_a_body_gives_back),
        cmocka_unit_test(test_onnx_write__writes_external_data),
        cmocka_unit_test(test_onnx_write__passes_the_onnx_checker),
        cmocka_unit_test(test_onnx_write__refuses_a_hidden_capture),
        cmocka_unit_test(test_onnx_write__survives_lack_of_memory),
        cmocka_unit_test(test_onnx_write__names_the_file_it_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
