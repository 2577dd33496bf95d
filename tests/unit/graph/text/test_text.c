/* The text form: what is read, what is refused and where, and that printing reads back the same. */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "comma_locale.h"
#include "text_models.h"

static const char *const EVERYTHING =
    "<ir_version: 9, opset_import: [\"\" : 18, \"com.x\" : 1], producer_name: "
    "\"a\\\"b\\\\c\\x01\",\n"
    " producer_version: \"1\", domain: \"d\", model_version: 3, doc_string: \"two\nlines\",\n"
    " metadata_props: [\"k\": \"v\", \"k 2\": \"\"]>\n"
    "# a comment\n"
    "\"main graph\" (float[N, 3] x, int64 i = {5}, bool c, float[\"odd dim\", ?] q, seq(float[N]) "
    "s,\n"
    "   optional(seq(int8[])) o, map(string, float[2]) m, sparse_tensor(float[4]) sp, float[K] "
    "kk)\n"
    "  => (y, float[] z, w)\n"
    "<float[2] wt = {1, 2.5}, float16[3] h = {15360, 2.0, 65535}, double[2] d = {0.1, -1e300},\n"
    " int4[2] i4 = {-8, 7}, uint2[2] u2 = {0, 3}, string[2] ss = {\"a,b\", \"\\xff\\x00\"},\n"
    " complex64[1] cc = {1, 2}, bool[2] bb = {1, true}, uint64 u = {18446744073709551615},\n"
    " float[3] kk = {inf, -inf, nan}, float8e4m3fn[2] f8 = {56, 1.5}, bfloat16[1] bf = {16256},\n"
    " float[0] none = {}, int64[2,2] sq = {1, 2, 3, -9223372036854775808}, float[N,3] mid>\n"
    "{\n"
    "   [n1] mid = Relu(x)\n"
    "   \"a/b\", \"\" = com.x.Op:ov <axis = 1, f = 2.5, fs = [1, 2.5], s = \"st\", ss = [\"a\", "
    "\"b\"],\n"
    "       t = float[2] {1, 2}, tp = seq(float[N]), e: ints = [], ts = [float {1}, int8[1] {3}],\n"
    "       g = inf, \"odd name\" = 1, gs = [g1 () => (k) {k = Neg(mid)}, g2 () => (k2) {k2 = "
    "Abs(mid)}],\n"
    "       sv: sparse_tensor = float[2] {0, 1}> (mid, , x,)\n"
    "   y = Identity(\"a/b\")\n"
    "   z = If (c) <then_branch = t1 () => (o1) { o1 = Add(mid, mid) },\n"
    "               else_branch = \"g 2\" () => (float[] o2) <float[1] k = {3}> { o2 = Mul(mid, k) "
    "}>\n"
    "   w = \"my-dom\".\"o.p\" (z)\n"
    "}\n";

static void test_text__round_trips_everything(void **state) {
    (void)state;
    pl_model *first = parse_text(EVERYTHING);
    pl_buf once = print_model(first);
    pl_model *second = parse_text(pl_buf_str(&once));
    pl_buf twice = print_model(second);
    assert_string_equal(pl_buf_str(&once), pl_buf_str(&twice));
    assert_true(hash_equal(hash_of(first), hash_of(second)));
    assert_string_equal(second->producer_name, "a\"b\\c\x01");
    assert_string_equal(second->doc, "two\nlines");
    assert_int_equal(second->model_version, 3);
    assert_int_equal(second->n_props, 2);
    assert_int_equal(pl_model_opset(second, "com.x"), 1);
    assert_string_equal(second->graph->name, "main graph");
    pl_buf_release(&once);
    pl_buf_release(&twice);
    pl_model_free(first);
    pl_model_free(second);
}

static const pl_tensor *init_of(const pl_model *model, const char *name) {
    const pl_value *value = pl_graph_find(model->graph, name);
    assert_non_null(value);
    assert_non_null(value->init);
    return value->init;
}

static void test_text__reads_constants_of_every_class(void **state) {
    (void)state;
    pl_model *m = parse_text(EVERYTHING);
    const pl_tensor *t = init_of(m, "h");
    assert_int_equal(t->dtype, PL_F16);
    assert_int_equal(((const pl_u16 *)t->data)[0], 0x3c00); /* an integer is the bit pattern */
    assert_int_equal(((const pl_u16 *)t->data)[1], 0x4000); /* 2.0 is a value */
    assert_true(pl_tensor_get_i64(init_of(m, "i4"), 0) == -8);
    assert_true(((const pl_u64 *)init_of(m, "u")->data)[0] == UINT64_MAX);
    assert_true(pl_tensor_get_i64(init_of(m, "sq"), 3) == INT64_MIN);
    t = init_of(m, "kk");
    assert_true(isinf(pl_tensor_get_f64(t, 0)) && isnan(pl_tensor_get_f64(t, 2)));
    pl_string s;
    memcpy(&s, (const char *)init_of(m, "ss")->data + sizeof s, sizeof s);
    assert_int_equal(s.n_bytes, 2);
    assert_memory_equal(s.data, "\xff\0", 2);
    t = init_of(m, "cc");
    assert_int_equal(t->n_elements, 1);
    assert_true(((const pl_f32 *)t->data)[1] == 2.0f);
    assert_int_equal(init_of(m, "none")->n_elements, 0);
    assert_true(((const pl_u8 *)init_of(m, "f8")->data)[1] == 0x3c); /* 1.5 in e4m3fn */
    pl_model_free(m);
}

static void test_text__reads_nodes_and_attributes(void **state) {
    (void)state;
    pl_model *m = parse_text(EVERYTHING);
    const pl_node *node = pl_graph_find(m->graph, "a/b")->producer;
    assert_string_equal(node->op, "Op");
    assert_string_equal(node->domain, "com.x");
    assert_string_equal(node->overload, "ov");
    assert_int_equal(node->opset, 1);
    assert_int_equal(node->n_in, 3); /* the comma at the end adds nothing */
    assert_null(node->in[1]);
    assert_int_equal(node->n_out, 2);
    assert_null(node->out[1]);
    assert_int_equal(pl_node_attr(node, "axis")->i, 1);
    assert_int_equal(pl_node_attr(node, "fs")->type, PL_ATTR_FLOATS);
    assert_true(pl_node_attr(node, "fs")->floats[0] == 1.0f);
    assert_int_equal(pl_node_attr(node, "e")->type, PL_ATTR_INTS);
    assert_int_equal(pl_node_attr(node, "tp")->type_proto->kind, PL_TYPE_SEQUENCE);
    assert_int_equal(pl_node_attr(node, "ts")->n, 2);
    assert_int_equal(pl_node_attr(node, "gs")->n, 2);
    assert_ptr_equal(pl_node_attr(node, "gs")->graphs[0]->owner, node);
    assert_ptr_equal(pl_node_attr(node, "gs")->graphs[0]->nodes[0]->in[0],
                     pl_graph_find(m->graph, "mid"));
    node = pl_graph_find(m->graph, "w")->producer;
    assert_string_equal(node->op, "o.p");
    assert_string_equal(node->domain, "my-dom");
    assert_string_equal(pl_graph_find(m->graph, "mid")->type->dims[0].name, "N");
    pl_model_free(m);
}

static void test_text__reads_a_graph_alone(void **state) {
    (void)state;
    pl_model *m = parse_graph_text("(float[2,3] x) => (y) { y = ms.Foo(t) t = Relu(x) }");
    assert_int_equal(pl_model_opset(m, ""), 18);
    assert_int_equal(pl_model_opset(m, "ms"), 1);
    assert_int_equal(m->graph->n_outputs, 1);
    assert_string_equal(m->graph->nodes[0]->op, "Relu"); /* sorted */
    assert_null(m->graph->outputs[0]->type);
    pl_model_free(m);
}

/* ---- functions ---- */

static const char *const WITH_FUNCTIONS =
    "<ir_version: 9, opset_import: [\"\" : 18, \"loc\" : 1]>\n"
    "g (float[2] x, float[2] z, bool c) => (f1, f2) {\n"
    "   f1 = loc.fn <alpha = 3.0> (x, z)\n"
    "   [call] f2 = loc.fn (f1)\n"
    "}\n"
    "<domain: \"loc\", opset_import: [\"\" : 17, \"loc\" : 1]>\n"
    "fn <alpha: float = 1.5, beta> (a, b) => (r) {\n"
    "   t = LeakyRelu <alpha = @alpha, zzz: int = @beta> (a)\n"
    "   [inner] u = Add(t, b)\n"
    "   q = If(u) <then_branch = gg () => (o1) { o1 = Add(t, u) },\n"
    "              else_branch = hh () => (o2) { o2 = loc.same(t) }>\n"
    "   r = loc.same(q)\n"
    "}\n"
    "<domain: \"loc\", opset_import: [\"\" : 17]>\n"
    "same (a) => (a) {}\n";

static void test_text__inlines_functions(void **state) {
    (void)state;
    pl_model *m = parse_text(WITH_FUNCTIONS);
    assert_int_equal(m->graph->n_nodes, 8);
    const pl_node *leaky = pl_graph_find(m->graph, "f1/t")->producer;
    assert_true(pl_node_attr(leaky, "alpha")->f == 3.0f);
    assert_int_equal(leaky->n_attrs, 1); /* the call has no beta */
    assert_int_equal(leaky->opset, 17);
    assert_string_equal(leaky->function, "loc.fn");
    leaky = pl_graph_find(m->graph, "call/t")->producer;
    assert_true(pl_node_attr(leaky, "alpha")->f == 1.5f);
    const pl_node *sum = pl_graph_find(m->graph, "call/u")->producer;
    assert_string_equal(sum->name, "call/inner");
    assert_null(sum->in[1]); /* the call leaves b out */
    assert_string_equal(pl_graph_find(m->graph, "f2")->producer->function, "loc.fn/loc.same");
    pl_model_free(m);
}

static void test_text__keeps_inlined_names_unique(void **state) {
    (void)state;
    pl_model *m = parse_text("<opset_import: [\"\" : 18]>\n"
                             "g (float x) => (\"c/t\", y, w) {\n"
                             "  [c] y = l.f(x) [c] w = l.f(x) \"c/t\" = Neg(w)\n}\n"
                             "<domain: \"l\"> f (a) => (b) { t = Relu(a) b = Abs(t) }");
    assert_string_equal(pl_graph_find(m->graph, "c/t")->producer->op, "Neg");
    assert_string_equal(pl_graph_find(m->graph, "c/t_1")->producer->op, "Relu");
    assert_string_equal(pl_graph_find(m->graph, "c_2/t")->producer->op, "Relu");
    pl_model_free(m);
}

/* ---- what is refused ---- */

static void expect_failure(const char *text, size_t n, pl_status status, const char *message) {
    pl_model *model = NULL;
    pl_err err = PL_ERR_INIT;
    const pl_status st = pl_model_parse(text, n, "t", &model, &err);
    pl_model_free(model);
    if (st != status || strstr(err.message, message) == NULL)
        fail_msg("'%.60s': %s: '%s', expected %s: '%s'", text, pl_status_name(st), err.message,
                 pl_status_name(status), message);
}

static void test_text__says_where_and_what(void **state) {
    (void)state;
    static const struct {
        const char *text;
        pl_status status;
        const char *message;
    } cases[] = {
        { "", PL_E_FORMAT, "t:1:1: expected '=>', found the end" },
        { "g (float[2] x) => (y)\n{ y = Relu(x y) }", PL_E_FORMAT,
          "t:2:14: expected ')', found 'y'" },
        { "g (float x) => (y) { y = Relu(z) }", PL_E_INVALID, "t:1:31: value 'z' is used" },
        { "g (float x) => (y) { x = Relu(x) }", PL_E_INVALID,
          "t:1:22: value 'x' is defined twice" },
        { "g (float x) => (y) { }", PL_E_INVALID, "output 'y' is not defined" },
        { "g (float x) => (x) { a = Neg(b) b = Neg(a) }", PL_E_INVALID, "cycle" },
        { "g () => (w) <float[2] w = {1}> { }", PL_E_FORMAT, "expected ','" },
        { "g () => (w) <float[2] w = {1,2,3}> { }", PL_E_FORMAT, "expected '}'" },
        { "g () => (w) <float[99999999999] w = {1}> { }", PL_E_FORMAT, "fewer values" },
        { "g () => (w) <float[9999999999,9999999999] w = {1}> { }", PL_E_LIMIT, "overflow" },
        { "g () => (w) <int8 w = {128}> { }", PL_E_FORMAT, "out of the range of int8" },
        { "g () => (w) <int64 w = {9223372036854775808}> { }", PL_E_FORMAT, "64-bit" },
        { "g () => (w) <float w = {1e39}> { }", PL_E_FORMAT, "range of float" },
        { "g () => (w) <float8e5m2 w = {256}> { }", PL_E_FORMAT, "range of float8e5m2" },
        { "g () => (w) <float[N] w = {1}> { }", PL_E_FORMAT, "known dims" },
        { "g () => (w) <float w = [\"location\": \"x\"]> { }", PL_E_UNSUPPORTED, "external data" },
        { "g () => (y) { y = Op <a = []> () }", PL_E_FORMAT, "empty list requires a type" },
        { "g () => (y) { y = Op <a: int = 1.5> () }", PL_E_FORMAT, "expected a value of type int" },
        { "g () => (y) { y = Op <a = @b> () }", PL_E_INVALID, "outside a function" },
        { "g () => (y) { y = Op <a = \"x> () }", PL_E_FORMAT, "not terminated" },
        { "g (opaque(a) x) => (x) { }", PL_E_UNSUPPORTED, "opaque" },
        { "<wrong: 1> g () => () { }", PL_E_FORMAT, "unknown model property 'wrong'" },
        { "g () => (y) { y = f() } f () => (y) { y = f() }", PL_E_LIMIT, "deeper" },
        { "g () => (y) { y = f() } f () => (y) { y = A() } f () => (y) { y = B() }", PL_E_INVALID,
          "defined twice" },
        { "g (float x) => (y) { y = f(x, x) } f (a) => (b) { b = A(a) }", PL_E_INVALID,
          "2 inputs" },
        { "g () => () { } trailing", PL_E_FORMAT, "expected '('" },
        { "g () => () { = \"\" () }", PL_E_FORMAT, "t:1:16: the name of an operator is empty" },
        { "g () => (w) <float w = {inf(0x7fc00001)}> { }", PL_E_FORMAT, "expected '}'" },
        { "g () => (w) <double w = {nan(0x7ff80000000000001)}> { }", PL_E_FORMAT, "expected '}'" },
        { "<opset_import: [\"\" : 1000001]> g () => () { }", PL_E_FORMAT, "out of range" },
        { "g (seq(seq(seq(seq(seq(seq(seq(seq(seq(float))))))))) x) => (x) { }", PL_E_LIMIT,
          "nested deeper than 8" }, /* a file of it could not be read */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_failure(cases[i].text, strlen(cases[i].text), cases[i].status, cases[i].message);
    expect_failure("g () => () { \"a\0b\" = Op() }", 27, PL_E_FORMAT, "NUL");
}

static void test_text__limits_nesting(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_puts(&buf, "g () => () { ");
    for (int i = 0; i < 10000; i++)
        pl_buf_puts(&buf, "= If<b = g () => () { ");
    expect_failure(pl_buf_str(&buf), buf.n_bytes, PL_E_LIMIT, "nested deeper");
    pl_buf_reset(&buf);
    pl_buf_puts(&buf, "g (");
    for (int i = 0; i < 10000; i++)
        pl_buf_puts(&buf, "seq(");
    expect_failure(pl_buf_str(&buf), buf.n_bytes, PL_E_LIMIT, "nested deeper");
    pl_buf_release(&buf);
}

static void test_text__limits_explosion_by_functions(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    pl_buf_puts(&buf, "g (float x) => () { = f0(x) } ");
    for (int i = 0; i < 40; i++)
        pl_buf_printf(&buf, "f%d (a) => () { = f%d(a) = f%d(a) }", i, i + 1, i + 1);
    expect_failure(pl_buf_str(&buf), buf.n_bytes, PL_E_LIMIT, "functions make more than");
    /* 64 kB of text; inlined, the names alone would take 120 MB. */
    pl_buf_reset(&buf);
    pl_buf_printf(&buf, "g () => () { [\"%.40000d\"] = f() } f () => () {", 0);
    for (int i = 0; i < 3000; i++)
        pl_buf_printf(&buf, "a%d=A()", i);
    pl_buf_puts(&buf, "}");
    expect_failure(pl_buf_str(&buf), buf.n_bytes, PL_E_LIMIT,
                   "make the text more than 64 times larger");
    pl_buf_release(&buf);
}

/* They are searched one by one for each node: without a limit, work grows with the square. */
static void test_text__limits_domains(void **state) {
    (void)state;
    pl_buf buf = PL_BUF_INIT;
    for (int i = 0; i <= PL_MODEL_OPSETS_MAX; i++)
        pl_buf_printf(&buf, "%s\"d%d\" : 1", i == 0 ? "<opset_import: [" : ",", i);
    pl_buf_puts(&buf, "]> g () => () { }");
    expect_failure(pl_buf_str(&buf), buf.n_bytes, PL_E_LIMIT, "at most 1000 domains");
    pl_buf_release(&buf);
    pl_model *m = parse_text("<opset_import: [\"\" : 7, \"ai.onnx\" : 18]> g () => () { = A() }");
    assert_int_equal(m->n_opsets, 1);
    assert_int_equal(m->graph->nodes[0]->opset, 18); /* the last one, as in a file */
    pl_model_free(m);
}

/* ---- printing ---- */

static void test_text__prints_floats_that_read_back(void **state) {
    (void)state;
    static const uint32_t patterns[] = {
        0x00000001, 0x80000000, 0x3dcccccd, 0x7f7fffff, 0x7fc00000,
        0xffc00000, 0x7f800001, 0xff812345, 0x00800000, 0x3f800001
    };
    enum { N = sizeof patterns / sizeof patterns[0] };
    const int64_t dims[] = { N };
    pl_err err = PL_ERR_INIT;
    pl_tensor *t = NULL;
    pl_value *value = NULL;
    pl_model *m = NULL;
    must(pl_model_new(&m, &err), &err);
    must(pl_tensor_new(PL_F32, 1, dims, &t, &err), &err);
    memcpy(t->data, patterns, sizeof patterns);
    must(pl_graph_add_value(m->graph, "w", &value, &err), &err);
    must(pl_value_set_init(value, t, &err), &err);
    pl_buf text = print_model(m);
    pl_model *back = parse_text(pl_buf_str(&text));
    assert_memory_equal(init_of(back, "w")->data, patterns, sizeof patterns);
    pl_tensor_unref(t);
    pl_buf_release(&text);
    pl_model_free(m);
    pl_model_free(back);
}

static void expect_printed(const char *from, const char *part) {
    pl_model *m = parse_text(from);
    pl_buf text = print_model(m);
    pl_model *back = parse_text(pl_buf_str(&text));
    pl_buf again = print_model(back);
    if (strstr(pl_buf_str(&text), part) == NULL)
        fail_msg("'%s' is not in\n%s", part, pl_buf_str(&text));
    assert_string_equal(pl_buf_str(&text), pl_buf_str(&again));
    assert_true(hash_equal(hash_of(m), hash_of(back)));
    pl_buf_release(&text);
    pl_buf_release(&again);
    pl_model_free(m);
    pl_model_free(back);
}

static void test_text__prints_float_attributes_as_floats(void **state) {
    (void)state;
    expect_printed("g () => () { = Op<a = -0.0, b = 16777216.0, c = 1e30>() }",
                   "<a: float = -0.0, b: float = 16777216.0, c: float = 1e+30>");
    expect_printed("g () => () { = Op<a = [-0.0, 1.0, nan, -inf, 0.5]>() }",
                   "[-0.0, 1.0, nan, -inf, 0.5]");
}

/* The output of a body may be a value of the graph around it, whose type stands there. */
static void test_text__keeps_the_type_of_what_a_body_gives_back(void **state) {
    (void)state;
    expect_printed("g (bool c, float[2] x) => (y) <float[2] m> {\n"
                   "  m = Neg(x) y = If (c) <then_branch = t () => (m) {},\n"
                   "                         else_branch = e () => (n) { n = Abs(m) }>\n}",
                   "<float[2] m>");
}

/* Files have such inputs and initializers; for dims "" is no name. */
static void test_text__keeps_values_without_a_name(void **state) {
    (void)state;
    expect_printed("g (float x) => (x) <float[1] \"\" = {2}> {}", "<float[1] \"\" = {2}>");
    expect_printed("g (float x, float \"\") => (x) {}", "(float x, float \"\")");
    expect_printed("g (float[\"\"] x) => (x) {}", "(float[?] x)");
}

static void test_text__does_not_depend_on_the_locale(void **state) {
    (void)state;
    if (!use_comma_locale()) skip();
    pl_model *m = parse_text("g () => () { = Op<a = 1.5, b = [0.25]>() }");
    pl_buf text = print_model(m);
    setlocale(LC_ALL, "C");
    assert_non_null(strstr(pl_buf_str(&text), "a: float = 1.5, b: floats = [0.25]"));
    pl_buf_release(&text);
    pl_model_free(m);
}

static void test_text__quotes_names_that_look_like_types(void **state) {
    (void)state;
    pl_model *m =
        parse_text("g (\"float\", \"nan\") => (\"seq\") { \"seq\" = Add(\"float\", \"nan\") }");
    pl_buf text = print_model(m);
    pl_model *back = parse_text(pl_buf_str(&text));
    assert_string_equal(back->graph->inputs[0]->name, "float");
    assert_string_equal(back->graph->outputs[0]->name, "seq");
    pl_buf_release(&text);
    pl_model_free(m);
    pl_model_free(back);
}

static void test_text__refuses_weights_over_the_limit(void **state) {
    (void)state;
    pl_model *m = parse_text("g () => (w) <float[3] w = {1, 2, 3}> { }");
    pl_buf text = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_model_print(m, 2, &text, &err), PL_E_LIMIT);
    assert_non_null(strstr(err.message, "'w' has 3 elements"));
    pl_buf_release(&text);
    pl_model_free(m);
}

static void test_text__does_not_mix_opsets(void **state) {
    (void)state;
    static const char *const mixed = "<opset_import: [\"\" : 18]> g (float x) => (y) {\n"
                                     "  t = Relu(x) y = l.f(t) }\n"
                                     "<domain: \"l\", opset_import: [\"\" : 13]>"
                                     " f (a) => (b) { b = Abs(a) }";
    pl_model *m = parse_text(mixed);
    pl_buf text = PL_BUF_INIT;
    pl_err err = PL_ERR_INIT;
    assert_int_equal(pl_graph_find(m->graph, "y")->producer->opset, 13);
    assert_int_equal(pl_model_print(m, 0, &text, &err), PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Abs"));
    m->graph->nodes[0]->opset = 13; /* now all agree: that is the import */
    pl_buf_reset(&text);
    must(pl_model_print(m, 0, &text, &err), &err);
    assert_non_null(strstr(pl_buf_str(&text), "opset_import: [\"\" : 13]"));
    pl_buf_release(&text);
    pl_model_free(m);
}

/* Every allocation fails once; each time there must be a status and no leak. */
static void test_text__survives_lack_of_memory(void **state) {
    (void)state;
    static const char *const texts[] = { EVERYTHING, WITH_FUNCTIONS };
    for (size_t k = 0; k < 2; k++) {
        pl_status st = PL_E_MEMORY;
        for (long n = 0; st != PL_OK && n < 5000; n++) {
            pl_model *m = NULL;
            pl_buf text = PL_BUF_INIT;
            pl_alloc_fail_after(n);
            st = pl_model_parse(texts[k], strlen(texts[k]), "t", &m, NULL);
            if (st == PL_OK && k == 0) st = pl_model_print(m, 0, &text, NULL);
            pl_alloc_fail_after(-1);
            pl_buf_release(&text);
            pl_model_free(m);
            assert_true(st == PL_OK || st == PL_E_MEMORY);
        }
        assert_int_equal(st, PL_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text__round_trips_everything),
        cmocka_unit_test(test_text__reads_constants_of_every_class),
        cmocka_unit_test(test_text__reads_nodes_and_attributes),
        cmocka_unit_test(test_text__reads_a_graph_alone),
        cmocka_unit_test(test_text__inlines_functions),
        cmocka_unit_test(test_text__keeps_inlined_names_unique),
        cmocka_unit_test(test_text__says_where_and_what),
        cmocka_unit_test(test_text__limits_nesting),
        cmocka_unit_test(test_text__limits_explosion_by_functions),
        cmocka_unit_test(test_text__prints_floats_that_read_back),
        cmocka_unit_test(test_text__limits_domains),
        cmocka_unit_test(test_text__prints_float_attributes_as_floats),
        cmocka_unit_test(test_text__keeps_the_type_of_what_a_body_gives_back),
        cmocka_unit_test(test_text__keeps_values_without_a_name),
        cmocka_unit_test(test_text__does_not_depend_on_the_locale),
        cmocka_unit_test(test_text__quotes_names_that_look_like_types),
        cmocka_unit_test(test_text__refuses_weights_over_the_limit),
        cmocka_unit_test(test_text__does_not_mix_opsets),
        cmocka_unit_test(test_text__survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
