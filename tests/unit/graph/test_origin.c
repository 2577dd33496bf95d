/* Origins of nodes, from what torch 1.13 and 2.x really write. */
#include "text_models.h"

typedef struct given {
    const char *name, *output, *doc;
    pl_prop props[3];
    uint32_t n_props;
} given;

static void check(given g, const char *module, const char *file, int line, const char *code) {
    pl_model *m = NULL;
    pl_node *node = NULL;
    pl_value *value = NULL;
    pl_origin origin;
    pl_err err = PL_ERR_INIT;
    must(pl_model_new(&m, &err), &err);
    must(pl_graph_add_node(m->graph, "Conv", "", 0, 1, &node, &err), &err);
    must(pl_graph_add_value(m->graph, g.output == NULL ? "7" : g.output, &value, &err), &err);
    pl_node_set_output(node, 0, value);
    if (g.name != NULL) node->name = g.name;
    if (g.doc != NULL) node->doc = g.doc;
    node->props = g.props;
    node->n_props = g.n_props;
    must(pl_node_origin(node, m->arena, &origin, &err), &err);
    assert_string_equal(origin.module, module);
    assert_string_equal(origin.file, file);
    assert_int_equal(origin.line, line);
    assert_string_equal(origin.code, code);
    pl_model_free(m);
}

/* As torch 2.9 writes it (one frame of the model, two of torch). */
static void test_origin__reads_torch_2_metadata(void **state) {
    (void)state;
    check(
        (given){
            .name = "node_linear",
            .props = { { "pkg.torch.onnx.name_scopes", "['', 'network', 'network.0', 'linear']" },
                       { "pkg.torch.onnx.stack_trace",
                         "File \"/home/u/train_model.py\", line 96, in forward\n"
                         "    return self.network(x)\n"
                         "  File "
                         "\"/usr/lib/python3.12/site-packages/torch/nn/modules/container.py\","
                         " line 250, in forward\n"
                         "    input = module(input)\n"
                         "  File \"C:\\Python312\\site-packages\\torch\\nn\\modules\\linear.py\","
                         " line 134, in forward\n"
                         "    return F.linear(input, self.weight, self.bias)\n" } },
            .n_props = 2 },
        "network.0", "/home/u/train_model.py", 96, "return self.network(x)");
}

static void test_origin__takes_the_innermost_user_frame(void **state) {
    (void)state;
    check((given){ .props = { { "pkg.torch.onnx.stack_trace",
                                "  File \"a.py\", line 8, in forward\n    x = self.b(x)\n"
                                "  File \"b.py\", line 20, in forward\n    return x + 1\n" } },
                   .n_props = 1 },
          "", "b.py", 20, "return x + 1");
    check((given){ .doc = "File \"x.py\", line 8, in forward" }, "", "x.py", 8, "forward");
}

static void test_origin__falls_back_to_other_properties(void **state) {
    (void)state;
    check(
        (given){ .props = { { "namespace", ": __main__.Net/network: torch.nn.Sequential/network.0: "
                                           "torch.nn.Linear/linear: aten.linear.default" },
                            { "pkg.torch.onnx.fx_node", "%linear : [num_users=1] = call" } },
                 .n_props = 2 },
        "network.0", "", 0, "%linear : [num_users=1] = call");
    check((given){ .props = { { "namespace", "__main__.SimpleAddModel/add: aten.add.Tensor" } },
                   .n_props = 1 },
          "", "", 0, "");
    check(
        (given){
            .props = { { "pkg.torch.onnx.class_hierarchy",
                         "['__main__.Net', 'torch.nn.modules.linear.Linear', 'aten.linear']" } },
            .n_props = 1 },
        "Net/Linear", "", 0, "");
}

/* As torch 1.13 writes it with verbose=True: the innermost frame first. */
static const char *const TORCH_1_DOC =
    "/usr/lib/python3/dist-packages/torch/nn/modules/conv.py(459): _conv_forward\n"
    "/usr/lib/python3/dist-packages/torch/nn/modules/conv.py(463): forward\n"
    "/usr/lib/python3/dist-packages/torch/nn/modules/module.py(1182): _slow_forward\n"
    "/usr/lib/python3/dist-packages/torch/nn/modules/container.py(204): forward\n"
    "/home/u/tx/model.py(8): forward\n"
    "/usr/lib/python3/dist-packages/torch/nn/modules/module.py(1194): _call_impl\n"
    "/home/u/tx/model.py(18): forward\n"
    "/usr/lib/python3/dist-packages/torch/jit/_trace.py(118): wrapper\n"
    "/usr/lib/python3/dist-packages/torch/onnx/utils.py(504): export\n"
    "/home/u/tx/exp.py(2): <module>\n";

static void test_origin__reads_torch_1_doc_strings(void **state) {
    (void)state;
    check((given){ .name = "/block/seq/seq.0/Conv", .doc = TORCH_1_DOC }, "block.seq.0",
          "/home/u/tx/model.py", 8, "forward");
    /* torchvision's models are the user's source, torch is not */
    check(
        (given){ .doc =
                     "/usr/lib/python3/dist-packages/torch/nn/functional.py(1457): relu\n"
                     "/usr/lib/python3/dist-packages/torchvision/models/resnet.py(93): forward\n" },
        "", "/usr/lib/python3/dist-packages/torchvision/models/resnet.py", 93, "forward");
    /* only torch: nothing to show; a folder of the user's that is called torch is the user's */
    check((given){ .doc = "torch/nn/modules/conv.py(459): _conv_forward\n" }, "", "", 0, "");
    check((given){ .doc = "/home/u/torch/my model (2).py(4): f\n" }, "",
          "/home/u/torch/my model (2).py", 4, "f");
}

static void test_origin__reads_scope_names(void **state) {
    (void)state;
    check((given){ .output = "/features/features.0/Conv_output_0" }, "features.0", "", 0, "");
    check((given){ .name = "/layer1/layer1.0/conv1/Conv" }, "layer1.0.conv1", "", 0, "");
    check((given){ .name = "/layer1/layer1.0/downsample/downsample.0/Conv" },
          "layer1.0.downsample.0", "", 0, "");
    check((given){ .name = "/block/layers.0/MatMul" }, "block.layers.0", "", 0, "");
    check((given){ .name = "/features/features.10/Conv" }, "features.10", "", 0, "");
    check((given){ .name = "/Conv" }, "", "", 0, "");
    check((given){ .name = "Conv_0", .output = "12" }, "", "", 0, "");
}

static void test_origin__uses_weight_names_as_a_last_hint(void **state) {
    (void)state;
    pl_model *m = parse_graph_text(
        "(float x) => (y) <float \"layer1.0.conv1.weight\" = {1}, float \"onnx::M.1\" = {2}> {"
        " t = Add(x, \"onnx::M.1\") y = Conv(t, \"layer1.0.conv1.weight\") }");
    pl_origin origin;
    pl_err err = PL_ERR_INIT;
    must(pl_node_origin(m->graph->nodes[1], m->arena, &origin, &err), &err);
    assert_string_equal(origin.module, "layer1.0.conv1");
    must(pl_node_origin(m->graph->nodes[0], m->arena, &origin, &err), &err);
    assert_string_equal(origin.module, "");
    pl_model_free(m);
}

static void test_origin__takes_no_harm_from_garbage(void **state) {
    (void)state;
    static const char *const garbage[] = { "",
                                           "[",
                                           "['",
                                           "['\\",
                                           "(",
                                           "): ",
                                           "(): ",
                                           "a(9): ",
                                           "a(): x",
                                           "a(99999999999999999999): f",
                                           "File \"",
                                           "File \"a",
                                           "File \"a\"",
                                           "File \"a\", line ",
                                           "File \"a\", line x, in f",
                                           "/",
                                           "//",
                                           ":/:",
                                           "\n\n\n",
                                           "['a' 'b",
                                           "<x>(3): f" };
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        pl_model *m = parse_graph_text("() => (y) { y = A() }");
        const pl_prop props[] = { { "pkg.torch.onnx.name_scopes", garbage[i] },
                                  { "namespace", garbage[i] },
                                  { "pkg.torch.onnx.class_hierarchy", garbage[i] },
                                  { "pkg.torch.onnx.stack_trace", garbage[i] } };
        pl_node *node = m->graph->nodes[0];
        pl_origin origin;
        pl_err err = PL_ERR_INIT;
        node->name = node->doc = garbage[i];
        for (uint32_t n = 0; n <= 4; n++) {
            node->props = props + n;
            node->n_props = 4 - n;
            must(pl_node_origin(node, m->arena, &origin, &err), &err);
            assert_true(origin.line == 0 || origin.file[0] != '\0');
        }
        pl_model_free(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origin__reads_torch_2_metadata),
        cmocka_unit_test(test_origin__takes_the_innermost_user_frame),
        cmocka_unit_test(test_origin__falls_back_to_other_properties),
        cmocka_unit_test(test_origin__reads_torch_1_doc_strings),
        cmocka_unit_test(test_origin__reads_scope_names),
        cmocka_unit_test(test_origin__uses_weight_names_as_a_last_hint),
        cmocka_unit_test(test_origin__takes_no_harm_from_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
