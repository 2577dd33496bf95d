/* Reading ONNX bytes: merged graphs, functions, bodies, external data, and what is refused. The
 * messages are written with the wire primitives, so that nothing of the reader is trusted here. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "onnx/onnx.h"
#include "onnx/onnx_fields.h"
#include "write_over.h"

/* ---- writing messages ---- */

static void put_message(pl_buf *out, uint32_t field, pl_buf *inner) {
    pl_wire_put_bytes(out, field, pl_buf_str(inner), inner->n_bytes);
    pl_buf_release(inner);
}

static void put_opset(pl_buf *model, uint32_t field, const char *domain, int64_t version) {
    pl_buf opset = PL_BUF_INIT;
    pl_wire_put_string(&opset, OPSET_DOMAIN, domain);
    pl_wire_put_int(&opset, OPSET_VERSION, version);
    put_message(model, field, &opset);
}

static void put_value(pl_buf *graph, uint32_t field, const char *name) {
    pl_buf value = PL_BUF_INIT;
    pl_wire_put_string(&value, VALUE_NAME, name);
    put_message(graph, field, &value);
}

/* Inputs and outputs are lists of names separated by blanks. */
static void put_names(pl_buf *node, uint32_t field, const char *names) {
    char copy[200];
    snprintf(copy, sizeof(copy), "%s", names);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        pl_wire_put_string(node, field, strcmp(word, "_") == 0 ? "" : word);
    }
}

static void begin_node(pl_buf *node, const char *op, const char *domain, const char *in,
                       const char *out) {
    put_names(node, NODE_INPUT, in);
    put_names(node, NODE_OUTPUT, out);
    pl_wire_put_string(node, NODE_OP_TYPE, op);
    pl_wire_put_string(node, NODE_DOMAIN, domain);
}

static void put_node(pl_buf *graph, uint32_t field, const char *op, const char *domain,
                     const char *in, const char *out) {
    pl_buf node = PL_BUF_INIT;
    begin_node(&node, op, domain, in, out);
    put_message(graph, field, &node);
}

static pl_status read_model(pl_buf *bytes, pl_model **out, pl_err *err) {
    const pl_status st =
        pl_model_read_bytes((pl_bytes){ (const uint8_t *)pl_buf_str(bytes), bytes->n_bytes }, NULL,
                            NULL, "test", out, err);
    pl_buf_release(bytes);
    return st;
}

static pl_model *read_good(pl_buf *bytes) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    if (read_model(bytes, &model, &err) != PL_OK) fail_msg("%s", err.message);
    return model;
}

static void read_bad(pl_buf *bytes, pl_status status, const char *text) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    assert_int_equal(read_model(bytes, &model, &err), status);
    if (strstr(err.message, text) == NULL) fail_msg("'%s' lacks '%s'", err.message, text);
}

/* x -> Relu -> y, with the pieces of the graph in `extra` merged in a second graph field. */
static void put_relu_model(pl_buf *model) {
    pl_buf graph = PL_BUF_INIT;
    put_opset(model, MODEL_OPSET_IMPORT, "", 17);
    put_value(&graph, GRAPH_INPUT, "x");
    put_node(&graph, GRAPH_NODE, "Relu", "", "x", "y");
    put_value(&graph, GRAPH_OUTPUT, "y");
    put_message(model, MODEL_GRAPH, &graph);
}

/* ---- tests ---- */

static void test_reader__reads_a_graph(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT;
    put_relu_model(&bytes);
    pl_model *model = read_good(&bytes);
    assert_int_equal(model->graph->n_nodes, 1);
    assert_string_equal(model->graph->nodes[0]->op, "Relu");
    assert_int_equal(model->graph->nodes[0]->opset, 17);
    assert_string_equal(model->graph->inputs[0]->name, "x");
    assert_string_equal(model->graph->outputs[0]->name, "y");
    assert_ptr_equal(model->graph->outputs[0]->producer, model->graph->nodes[0]);
    pl_model_free(model);
}

static void test_reader__merges_repeated_graph_fields(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT, more = PL_BUF_INIT;
    put_relu_model(&bytes);
    put_node(&more, GRAPH_NODE, "Neg", "", "y", "z");
    put_value(&more, GRAPH_OUTPUT, "z");
    put_message(&bytes, MODEL_GRAPH, &more);
    pl_model *model = read_good(&bytes);
    assert_int_equal(model->graph->n_nodes, 2);
    assert_int_equal(model->graph->n_outputs, 2);
    assert_string_equal(model->graph->outputs[1]->name, "z");
    pl_model_free(model);
}

static void test_reader__sorts_nodes_topologically(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT, graph = PL_BUF_INIT;
    put_opset(&bytes, MODEL_OPSET_IMPORT, "", 17);
    put_value(&graph, GRAPH_INPUT, "x");
    put_node(&graph, GRAPH_NODE, "Neg", "", "b", "c");
    put_node(&graph, GRAPH_NODE, "Abs", "", "a", "b");
    put_node(&graph, GRAPH_NODE, "Relu", "", "x", "a");
    put_value(&graph, GRAPH_OUTPUT, "c");
    put_message(&bytes, MODEL_GRAPH, &graph);
    pl_model *model = read_good(&bytes);
    assert_string_equal(model->graph->nodes[0]->op, "Relu");
    assert_string_equal(model->graph->nodes[1]->op, "Abs");
    assert_string_equal(model->graph->nodes[2]->op, "Neg");
    pl_model_free(model);
}

static void put_function(pl_buf *model, const char *name, const char *body_op,
                         const char *body_domain) {
    pl_buf function = PL_BUF_INIT;
    pl_wire_put_string(&function, FUNCTION_NAME, name);
    pl_wire_put_string(&function, FUNCTION_DOMAIN, "my");
    pl_wire_put_string(&function, FUNCTION_INPUT, "a");
    pl_wire_put_string(&function, FUNCTION_INPUT, "b");
    pl_wire_put_string(&function, FUNCTION_OUTPUT, "c");
    put_node(&function, FUNCTION_NODE, body_op, body_domain, "a b", "t");
    put_node(&function, FUNCTION_NODE, "Neg", "", "t", "c");
    put_opset(&function, FUNCTION_OPSET_IMPORT, "", 13);
    put_opset(&function, FUNCTION_OPSET_IMPORT, "my", 1);
    put_message(model, MODEL_FUNCTIONS, &function);
}

static void put_call_model(pl_buf *bytes, const char *function, const char *in) {
    pl_buf graph = PL_BUF_INIT, node = PL_BUF_INIT, entry = PL_BUF_INIT;
    put_opset(bytes, MODEL_OPSET_IMPORT, "", 17);
    put_opset(bytes, MODEL_OPSET_IMPORT, "my", 1);
    put_value(&graph, GRAPH_INPUT, "x");
    begin_node(&node, function, "my", in, "y");
    pl_wire_put_string(&node, NODE_NAME, "call");
    pl_wire_put_string(&entry, ENTRY_KEY, "namespace");
    pl_wire_put_string(&entry, ENTRY_VALUE,
                       ": Net/net.1: BatchNorm2d/call: aten.batch_norm.default");
    put_message(&node, NODE_METADATA_PROPS, &entry);
    put_message(&graph, GRAPH_NODE, &node);
    put_value(&graph, GRAPH_OUTPUT, "y");
    put_message(bytes, MODEL_GRAPH, &graph);
}

static void test_reader__inlines_functions_with_their_names(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT;
    put_call_model(&bytes, "Twice", "x x");
    put_function(&bytes, "Twice", "Inner", "my");
    put_function(&bytes, "Inner", "Add", "");
    pl_model *model = read_good(&bytes);
    assert_int_equal(model->graph->n_nodes, 3); /* Add, Neg of Inner, Neg of Twice */
    const pl_node *add = model->graph->nodes[0];
    assert_string_equal(add->op, "Add");
    assert_int_equal(add->opset, 13);
    assert_string_equal(add->function, "my.Twice/my.Inner");
    assert_ptr_equal(add->in[0], model->graph->inputs[0]);
    assert_string_equal(model->graph->nodes[1]->out[0]->name, "call/t");
    assert_string_equal(model->graph->nodes[2]->out[0]->name, "y");
    pl_model_free(model);
}

static void test_reader__gives_the_nodes_of_a_function_the_origin_of_the_call(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT;
    pl_origin origin;
    pl_err err = PL_ERR_INIT;
    put_call_model(&bytes, "Twice", "x x");
    put_function(&bytes, "Twice", "Inner", "my");
    put_function(&bytes, "Inner", "Add", "");
    pl_model *model = read_good(&bytes);
    for (uint32_t i = 0; i < model->graph->n_nodes; i++) {
        assert_int_equal(pl_node_origin(model->graph->nodes[i], model->arena, &origin, &err),
                         PL_OK);
        assert_string_equal(origin.module, "net.1");
    }
    pl_model_free(model);
}

static void test_reader__leaves_out_what_a_call_leaves_out(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT;
    put_call_model(&bytes, "F", "x _");
    put_function(&bytes, "F", "Clip", "");
    pl_model *model = read_good(&bytes);
    assert_int_equal(model->graph->nodes[0]->n_in, 2);
    assert_null(model->graph->nodes[0]->in[1]);
    pl_model_free(model);
}

static void test_reader__refuses_a_function_that_calls_itself(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT;
    put_call_model(&bytes, "F", "x x");
    put_function(&bytes, "F", "F", "my");
    read_bad(&bytes, PL_E_LIMIT, "does it call itself");
}

/* One definition, as in a graph: the last one silently won. */
static void test_reader__refuses_a_function_that_defines_twice(void **state) {
    (void)state;
    static const char *const outs[] = { "t t", "t a", "c c" };
    for (size_t i = 0; i < sizeof outs / sizeof outs[0]; i++) {
        pl_buf bytes = PL_BUF_INIT, function = PL_BUF_INIT;
        put_call_model(&bytes, "F", "x");
        pl_wire_put_string(&function, FUNCTION_NAME, "F");
        pl_wire_put_string(&function, FUNCTION_DOMAIN, "my");
        pl_wire_put_string(&function, FUNCTION_INPUT, "a");
        pl_wire_put_string(&function, FUNCTION_OUTPUT, "c");
        put_node(&function, FUNCTION_NODE, "Split", "", "a", outs[i]);
        put_node(&function, FUNCTION_NODE, "Neg", "", "a", i == 2 ? "d" : "c");
        put_message(&bytes, MODEL_FUNCTIONS, &function);
        read_bad(&bytes, PL_E_INVALID, "is defined twice");
    }
}

/* A body that gives back an input of its function: there must be one. */
static void test_reader__refuses_an_output_that_a_call_leaves_out(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT, function = PL_BUF_INIT, node = PL_BUF_INIT;
    pl_buf attr = PL_BUF_INIT, body = PL_BUF_INIT;
    put_call_model(&bytes, "F", "x _");
    pl_wire_put_string(&function, FUNCTION_NAME, "F");
    pl_wire_put_string(&function, FUNCTION_DOMAIN, "my");
    pl_wire_put_string(&function, FUNCTION_INPUT, "a");
    pl_wire_put_string(&function, FUNCTION_INPUT, "b");
    pl_wire_put_string(&function, FUNCTION_OUTPUT, "c");
    put_value(&body, GRAPH_OUTPUT, "b");
    pl_wire_put_string(&attr, ATTR_NAME, "then_branch");
    pl_wire_put_int(&attr, ATTR_TYPE, PL_ATTR_GRAPH);
    put_message(&attr, ATTR_G, &body);
    begin_node(&node, "If", "", "a", "c");
    put_message(&node, NODE_ATTRIBUTE, &attr);
    put_message(&function, FUNCTION_NODE, &node);
    put_message(&bytes, MODEL_FUNCTIONS, &function);
    read_bad(&bytes, PL_E_INVALID, "output 'b' is an input that the call omits");
}

/* 120 kB; inlined, the names alone would take 120 MB. */
static void test_reader__limits_the_names_that_inlining_makes(void **state) {
    (void)state;
    enum { N_NAME = 40000, N_NODES = 3000 };
    pl_buf bytes = PL_BUF_INIT, function = PL_BUF_INIT, graph = PL_BUF_INIT, node = PL_BUF_INIT;
    char name[N_NAME + 1], out[20];
    memset(name, 'n', N_NAME);
    name[N_NAME] = '\0';
    put_opset(&bytes, MODEL_OPSET_IMPORT, "my", 1);
    begin_node(&node, "F", "my", "", "");
    pl_wire_put_string(&node, NODE_NAME, name);
    put_message(&graph, GRAPH_NODE, &node);
    put_message(&bytes, MODEL_GRAPH, &graph);
    pl_wire_put_string(&function, FUNCTION_NAME, "F");
    pl_wire_put_string(&function, FUNCTION_DOMAIN, "my");
    put_opset(&function, FUNCTION_OPSET_IMPORT, "", 13);
    for (int i = 0; i < N_NODES; i++) {
        snprintf(out, sizeof out, "v%d", i);
        put_node(&function, FUNCTION_NODE, "A", "", "", out);
    }
    put_message(&bytes, MODEL_FUNCTIONS, &function);
    read_bad(&bytes, PL_E_LIMIT, "the model more than 64 times");
}

static void test_reader__refuses_broken_graphs(void **state) {
    (void)state;
    pl_buf bytes = PL_BUF_INIT, graph = PL_BUF_INIT;
    put_value(&graph, GRAPH_INPUT, "x");
    put_node(&graph, GRAPH_NODE, "Add", "", "x b", "a");
    put_node(&graph, GRAPH_NODE, "Neg", "", "a", "b");
    put_value(&graph, GRAPH_OUTPUT, "b");
    put_message(&bytes, MODEL_GRAPH, &graph);
    read_bad(&bytes, PL_E_INVALID, "cycle");

    put_value(&graph, GRAPH_INPUT, "x");
    put_node(&graph, GRAPH_NODE, "Neg", "", "x", "x");
    put_message(&bytes, MODEL_GRAPH, &graph);
    read_bad(&bytes, PL_E_INVALID, "defined twice");

    put_node(&graph, GRAPH_NODE, "Neg", "", "nowhere", "y");
    put_message(&bytes, MODEL_GRAPH, &graph);
    read_bad(&bytes, PL_E_INVALID, "'nowhere'");

    put_value(&graph, GRAPH_OUTPUT, "gone");
    put_message(&bytes, MODEL_GRAPH, &graph);
    read_bad(&bytes, PL_E_INVALID, "output 'gone'");

    pl_buf_puts(&bytes, "\x7f"
                        "ELF no model at all");
    read_bad(&bytes, PL_E_FORMAT, "test: ");
    read_bad(&bytes, PL_E_FORMAT, "no graph");
}

static void test_reader__survives_truncation_at_every_byte(void **state) {
    (void)state;
    pl_buf whole = PL_BUF_INIT;
    put_call_model(&whole, "F", "x x");
    put_function(&whole, "F", "Add", "");
    for (size_t n = 0; n < whole.n_bytes; n++) {
        pl_buf part = PL_BUF_INIT;
        pl_model *model = NULL;
        pl_err err = PL_ERR_INIT;
        pl_buf_append(&part, pl_buf_str(&whole), n);
        if (read_model(&part, &model, &err) == PL_OK) pl_model_free(model);
    }
    pl_buf_release(&whole);
}

/* A body in a body in a body, deeper than allowed. */
static void test_reader__limits_the_depth_of_bodies(void **state) {
    (void)state;
    pl_buf body = PL_BUF_INIT, bytes = PL_BUF_INIT;
    put_node(&body, GRAPH_NODE, "Constant", "", "", "y");
    put_value(&body, GRAPH_OUTPUT, "y");
    for (int i = 0; i < 10000; i++) {
        pl_buf attr = PL_BUF_INIT, node = PL_BUF_INIT, outer = PL_BUF_INIT;
        pl_wire_put_string(&attr, ATTR_NAME, "body");
        put_message(&attr, ATTR_G, &body);
        pl_wire_put_int(&attr, ATTR_TYPE, PL_ATTR_GRAPH);
        begin_node(&node, "Loop", "", "", "y");
        put_message(&node, NODE_ATTRIBUTE, &attr);
        put_message(&outer, GRAPH_NODE, &node);
        put_value(&outer, GRAPH_OUTPUT, "y");
        body = outer;
    }
    put_message(&bytes, MODEL_GRAPH, &body);
    read_bad(&bytes, PL_E_LIMIT, "nested deeper");
}

/* ---- external data ---- */

static void put_external_model(pl_buf *bytes, const char *location, const char *offset,
                               const char *length) {
    pl_buf graph = PL_BUF_INIT, tensor = PL_BUF_INIT;
    const char *const pairs[][2] = { { "location", location },
                                     { "offset", offset },
                                     { "length", length } };
    pl_wire_put_int(&tensor, 1, 2); /* dims = [2] */
    pl_wire_put_int(&tensor, 2, PL_F32);
    pl_wire_put_string(&tensor, 8, "w");
    for (size_t i = 0; i < 3; i++) {
        pl_buf entry = PL_BUF_INIT;
        if (pairs[i][1] == NULL) continue;
        pl_wire_put_string(&entry, ENTRY_KEY, pairs[i][0]);
        pl_wire_put_string(&entry, ENTRY_VALUE, pairs[i][1]);
        put_message(&tensor, 13, &entry);
    }
    pl_wire_put_int(&tensor, 14, 1); /* data_location = EXTERNAL */
    put_message(&graph, GRAPH_INITIALIZER, &tensor);
    put_value(&graph, GRAPH_OUTPUT, "w");
    put_message(bytes, MODEL_GRAPH, &graph);
}

typedef struct external_case {
    char *dir, *model;
} external_case;

static pl_status read_external(const external_case *e, const char *location, const char *offset,
                               const char *length, pl_model **out, pl_err *err) {
    pl_buf bytes = PL_BUF_INIT;
    put_external_model(&bytes, location, offset, length);
    assert_int_equal(write_over(e->model, pl_buf_str(&bytes), bytes.n_bytes, NULL), PL_OK);
    pl_buf_release(&bytes);
    return pl_model_read(e->model, out, err);
}

static void expect_refused(const external_case *e, const char *location, const char *offset,
                           const char *length, pl_status status) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    const pl_status st = read_external(e, location, offset, length, &model, &err);
    if (st != status) fail_msg("%s: status %d: %s", location, (int)st, err.message);
    if (strstr(err.message, e->model) == NULL) fail_msg("'%s' names no file", err.message);
}

static void test_reader__reads_external_data_inside_the_folder_only(void **state) {
    (void)state;
    external_case e = { 0 };
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    const float data[4] = { 1, 2, 3, 4 };
    char path[600], outside[600], link[600];
    assert_int_equal(pl_dir_temporary(&e.dir, &err), PL_OK);
    snprintf(path, sizeof(path), "%s/in", e.dir);
    assert_int_equal(pl_path_make_dirs(path, &err), PL_OK);
    snprintf(outside, sizeof(outside), "%s/outside.bin", e.dir);
    snprintf(link, sizeof(link), "%s/in/link.bin", e.dir);
    e.model = pl_path_join(path, "m.onnx");
    char *weights = pl_path_join(path, "w.bin");
    assert_int_equal(write_over(weights, data, sizeof(data), &err), PL_OK);
    assert_int_equal(write_over(outside, data, sizeof(data), &err), PL_OK);
    assert_int_equal(symlink(outside, link), 0);

    if (read_external(&e, "w.bin", "4", "8", &model, &err) != PL_OK) fail_msg("%s", err.message);
    const pl_f32 *w = model->graph->outputs[0]->init->data;
    assert_true(w[0] == 2 && w[1] == 3);
    pl_model_free(model);

    expect_refused(&e, "../outside.bin", NULL, NULL, PL_E_INVALID);
    expect_refused(&e, outside, NULL, NULL, PL_E_INVALID);
    expect_refused(&e, "link.bin", "0", "8", PL_E_INVALID);
    expect_refused(&e, "missing.bin", "0", "8", PL_E_NOT_FOUND);
    expect_refused(&e, "w.bin", "12", "8", PL_E_INVALID);
    expect_refused(&e, "w.bin", "18446744073709551615", "8", PL_E_INVALID);
    expect_refused(&e, "w.bin", "0", "12", PL_E_FORMAT);

    pl_free(weights);
    pl_free(e.model);
    assert_int_equal(pl_dir_remove(e.dir, &err), PL_OK);
    pl_free(e.dir);
}

/* Two bytes each in the file: what they cost must grow as the file does. */
static void test_reader__bears_many_empty_properties(void **state) {
    (void)state;
    enum { N = 20000 };
    pl_buf model = PL_BUF_INIT, graph = PL_BUF_INIT;
    pl_model *read = NULL;
    pl_err err = PL_ERR_INIT;
    for (int i = 0; i < N; i++) {
        pl_wire_put_bytes(&model, MODEL_METADATA_PROPS, "", 0);
        pl_wire_put_bytes(&graph, GRAPH_METADATA_PROPS, "", 0);
    }
    put_message(&model, MODEL_GRAPH, &graph);
    const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&model), model.n_bytes };
    if (pl_model_read_bytes(bytes, NULL, ".", "many", &read, &err) != PL_OK)
        fail_msg("%s", err.message);
    assert_int_equal(read->n_props, N);
    assert_int_equal(read->graph->n_props, N);
    assert_string_equal(read->props[N - 1].key, "");
    assert_true(pl_arena_bytes(read->arena) < 8 << 20);
    pl_model_free(read);
    pl_buf_release(&model);
}

static void test_reader__limits_the_number_of_opsets(void **state) {
    (void)state;
    pl_buf model = PL_BUF_INIT, graph = PL_BUF_INIT;
    pl_model *read = NULL;
    pl_err err = PL_ERR_INIT;
    char domain[16];
    for (int i = 0; i <= PL_MODEL_OPSETS_MAX; i++) {
        snprintf(domain, sizeof domain, "d%d", i);
        put_opset(&model, MODEL_OPSET_IMPORT, domain, 1);
    }
    put_message(&model, MODEL_GRAPH, &graph);
    const pl_bytes bytes = { (const uint8_t *)pl_buf_str(&model), model.n_bytes };
    assert_int_equal(pl_model_read_bytes(bytes, NULL, ".", "many", &read, &err), PL_E_LIMIT);
    assert_non_null(strstr(err.message, "opset_import of 'd1000'"));
    pl_buf_release(&model);

    pl_buf function = PL_BUF_INIT;
    put_call_model(&model, "F", "");
    pl_wire_put_string(&function, FUNCTION_NAME, "F");
    pl_wire_put_string(&function, FUNCTION_DOMAIN, "my");
    for (int i = 0; i <= PL_MODEL_OPSETS_MAX; i++)
        put_opset(&function, FUNCTION_OPSET_IMPORT, "d", 1);
    put_message(&model, MODEL_FUNCTIONS, &function);
    read_bad(&model, PL_E_LIMIT, "at most 1000 domains");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader__reads_a_graph),
        cmocka_unit_test(test_reader__merges_repeated_graph_fields),
        cmocka_unit_test(test_reader__sorts_nodes_topologically),
        cmocka_unit_test(test_reader__inlines_functions_with_their_names),
        cmocka_unit_test(test_reader__gives_the_nodes_of_a_function_the_origin_of_the_call),
        cmocka_unit_test(test_reader__leaves_out_what_a_call_leaves_out),
        cmocka_unit_test(test_reader__refuses_a_function_that_calls_itself),
        cmocka_unit_test(test_reader__refuses_a_function_that_defines_twice),
        cmocka_unit_test(test_reader__refuses_an_output_that_a_call_leaves_out),
        cmocka_unit_test(test_reader__limits_the_names_that_inlining_makes),
        cmocka_unit_test(test_reader__refuses_broken_graphs),
        cmocka_unit_test(test_reader__survives_truncation_at_every_byte),
        cmocka_unit_test(test_reader__limits_the_depth_of_bodies),
        cmocka_unit_test(test_reader__bears_many_empty_properties),
        cmocka_unit_test(test_reader__limits_the_number_of_opsets),
        cmocka_unit_test(test_reader__reads_external_data_inside_the_folder_only),
    };
    return cmocka_run_group_tests_name("onnx_read", tests, NULL, NULL);
}
