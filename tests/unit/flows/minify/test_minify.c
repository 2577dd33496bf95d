/* Parts of the minifier: subsets of nodes as models, bypassing, planted faults that follow their
 * node, the wrapper around any backend. */
#include <plumb.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/oracle/planted.h"
#include "flows/minify/search/mini_state.h"
#include "flows/minify/search/mini_write.h"
#include "onnx/onnx.h"
#include "ops/infer.h"
#include "text_models.h"

static pl_mini_state *state_of(const char *text) {
    pl_err err = PL_ERR_INIT;
    pl_mini_state *s = NULL;
    pl_model *m = parse_graph_text(text);
    must(pl_ops_resolve(m, &err), &err);
    must(pl_model_infer(m, NULL, &err), &err);
    pl_datum **in = pl_calloc(m->graph->n_inputs + 1, sizeof(pl_datum *));
    must(pl_mini_state_new_take(m, in, &s, &err), &err);
    return s;
}

static void check_nodes(const pl_mini_state *s, size_t n_nodes, const char *const *inputs,
                        size_t n_inputs, const char *const *outputs, size_t n_outputs) {
    const pl_graph *graph = s->model->graph;
    assert_int_equal(graph->n_nodes, n_nodes);
    assert_int_equal(graph->n_inputs, n_inputs);
    assert_int_equal(graph->n_outputs, n_outputs);
    for (size_t i = 0; i < n_inputs; i++)
        assert_string_equal(graph->inputs[i]->name, inputs[i]);
    for (size_t i = 0; i < n_outputs; i++)
        assert_string_equal(graph->outputs[i]->name, outputs[i]);
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__ })

static const char *const CHAIN = "(float[4] x) => (float[4] y)\n"
                                 "{ a = Sin(x) b = Relu(a) c = Cos(b) d = Tanh(c) y = Add(d, a) }";
static const plumb_minify_options NO_OPTIONS = { .fail_code = -1 };

static void test_cut__two_distant_nodes_are_a_model(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_mini_state *s = state_of(CHAIN), *part = NULL;
    const bool keep[] = { false, true, false, true, false };
    must(pl_mini_cut(&m, s, keep, &part, &err), &err);
    check_nodes(part, 2, NAMES("a", "c"), 2, NAMES("b", "d"), 2);
    must(pl_model_verify(part->model, &err), &err);
    pl_mini_state_free(part);
    pl_mini_state_free(s);
}

static void test_cut__no_nodes_are_no_model(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_mini_state *s = state_of(CHAIN), *part = NULL;
    const bool keep[5] = { false };
    must(pl_mini_cut(&m, s, keep, &part, &err), &err);
    assert_null(part);
    pl_mini_state_free(s);
}

static void test_cut__a_constant_becomes_a_weight(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_mini_state *part = NULL;
    pl_mini_state *s = state_of("(float[2] x) => (float[2] y)\n"
                                "{ k = Constant<value = float[2] {2, 3}>() y = Add(x, k) }");
    const bool keep[] = { false, true };
    must(pl_mini_cut(&m, s, keep, &part, &err), &err);
    check_nodes(part, 1, NAMES("x"), 1, NAMES("y"), 1);
    const pl_value *k = pl_graph_find(part->model->graph, "k");
    assert_non_null(k->init);
    assert_int_equal(k->init->n_elements, 2);
    pl_mini_state_free(part);
    pl_mini_state_free(s);
}

static void test_bypass__connects_what_follows(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_mini_state *s = state_of(CHAIN), *part = NULL;
    const bool keep[] = { true, false, false, true, false };
    must(pl_mini_bypass(&m, s, keep, &part, &err), &err);
    check_nodes(part, 2, NAMES("x"), 1, NAMES("d"), 1);
    assert_string_equal(part->model->graph->nodes[1]->in[0]->name, "a");
    must(pl_model_verify(part->model, &err), &err);
    pl_mini_state_free(part);
    pl_mini_state_free(s);
}

static pl_hash128 key_of(pl_mini_weights *weights, const char *text, const char *spec) {
    pl_err err = PL_ERR_INIT;
    pl_hash128 key = { 0, 0 };
    pl_mini_state *s = state_of(text);
    must(pl_mini_state_key(s, weights, spec, &key, &err), &err);
    pl_mini_state_free(s);
    return key;
}

static bool same(pl_hash128 a, pl_hash128 b) {
    return a.low == b.low && a.high == b.high;
}

static void test_key__names_do_not_count_and_all_else_does(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini_weights *w = NULL;
    must(pl_mini_weights_new(&w, &err), &err);
    const pl_hash128 key = key_of(
        w, "(float[2] x) => (float[2] y) <float[2] k = {2, 3}>{ a = Sin(x) y = Add(a, k) }", "jit");
    assert_true(same(
        key,
        key_of(w, "(float[2] p) => (float[2] q) <float[2] r = {2, 3}>{ s = Sin(p) q = Add(s, r) }",
               "jit")));
    assert_false(same(
        key,
        key_of(w, "(float[2] x) => (float[2] y) <float[2] k = {2, 4}>{ a = Sin(x) y = Add(a, k) }",
               "jit")));
    assert_false(same(
        key,
        key_of(w, "(float[2] x) => (float[2] y) <float[2] k = {2, 3}>{ a = Cos(x) y = Add(a, k) }",
               "jit")));
    assert_false(same(
        key,
        key_of(w, "(float[2] x) => (float[2] y) <float[2] k = {2, 3}>{ a = Sin(x) y = Add(a, k) }",
               "jit:inject=sign@Add:1")));
    pl_mini_weights_free(w);
}

static void test_planted__follows_its_node(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_planted p = { .n_faults = 0 };
    pl_buf spec = PL_BUF_INIT;
    pl_mini_state *part = NULL;
    const char *whole = "jit:inject=nan@Sin:2,fuse=off,inject=sign@Cos";
    pl_mini_state *s =
        state_of("(float[4] x) => (float[4] y) { a = Sin(x) b = Sin(a) c = Cos(b) y = Sin(c) }");
    must(pl_planted_find(&p, whole, s->model->graph, &err), &err);
    const bool second[] = { false, true, true, true }, last[] = { false, false, false, true };
    must(pl_mini_cut(&m, s, second, &part, &err), &err);
    must(pl_planted_spec(&p, whole, part->model->graph, &spec, &err), &err);
    assert_string_equal(pl_buf_str(&spec), "jit:inject=nan@Sin:1,fuse=off,inject=sign@Cos");
    pl_mini_state_free(part);
    pl_buf_reset(&spec);
    must(pl_mini_cut(&m, s, last, &part, &err), &err);
    must(pl_planted_spec(&p, whole, part->model->graph, &spec, &err), &err);
    assert_string_equal(pl_buf_str(&spec), "jit:fuse=off,inject=sign@Cos");
    pl_mini_state_free(part);
    pl_mini_state_free(s);
    pl_planted_release(&p);
    pl_buf_release(&spec);
}

static void test_weights__candidates_share_one_copy(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_mini m = { .options = &NO_OPTIONS };
    pl_mini_weights *weights = NULL;
    pl_buf a = PL_BUF_INIT, b = PL_BUF_INIT;
    pl_hash128 first, second;
    pl_mini_state *part = NULL;
    pl_tensor *w = NULL;
    pl_mini_state *s = state_of("(float[1,64] x, float[64,64] w) => (float[1,64] z)\n"
                                "{ y = MatMul(x, w) z = Relu(y) }");
    const int64_t dims[] = { 64, 64 };
    must(pl_tensor_new_zero(PL_F32, 2, dims, &w, &err), &err);
    must(pl_value_set_init(pl_graph_find(s->model->graph, "w"), w, &err), &err);
    pl_tensor_unref(w);
    pl_mini_state_drop_input(s, 1);
    const bool keep[] = { true, false };
    must(pl_mini_weights_new(&weights, &err), &err);
    must(pl_mini_state_bytes(s, weights, &a, &first, &err), &err);
    must(pl_mini_cut(&m, s, keep, &part, &err), &err);
    must(pl_mini_state_bytes(part, weights, &b, &second, &err), &err);
    assert_true(a.n_bytes < 1000); /* without its 16 KB of weights */
    assert_true(first.low != second.low);
    assert_ptr_equal(pl_graph_find(part->model->graph, "w")->init,
                     pl_graph_find(s->model->graph, "w")->init);
    pl_mini_weights_free(weights);
    pl_buf_release(&a);
    pl_buf_release(&b);
    pl_mini_state_free(part);
    pl_mini_state_free(s);
}

/* ---- the wrapper ---- */

static int n_lines;
static void count_line(void *ctx, const char *line) {
    assert_non_null(strstr(line, (const char *)ctx));
    n_lines++;
}

static plumb_status refuse(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                           plumb_error *err) {
    (void)self;
    (void)source;
    (void)program;
    (void)n_hooks;
    return pl_fail(err, PL_E_BACKEND, "I will not");
}

static void test_wrap__passes_the_error_on(void **state) {
    (void)state;
    const plumb_backend *eager = pl_backend_rows[0];
    plumb_backend broken = *eager;
    plumb_wrapped *w = NULL;
    plumb_error err = { 0 };
    void *program = NULL;
    size_t n_hooks = 0;
    static char expected[] = "cannot";
    broken.compile = refuse;
    const plumb_wrap_options options = { .size = sizeof(options),
                                         .level = 1,
                                         .debug_dir = "/proc/nowhere",
                                         .log = count_line,
                                         .log_ctx = expected };
    n_lines = 0;
    assert_int_equal(plumb_wrap_backend(&broken, NULL, &options, &w, &err), PLUMB_OK);
    pl_model *m = parse_graph_text(CHAIN);
    pl_buf bytes = PL_BUF_INIT;
    pl_err trouble = PL_ERR_INIT;
    must(pl_model_serialize(m, &bytes, &trouble), &trouble);
    const plumb_source source = { .onnx = bytes.data, .n_onnx = bytes.n_bytes };
    const plumb_status st = plumb_wrapped_backend(w)->compile(w, &source, &program, &n_hooks, &err);
    assert_int_equal(st, PLUMB_E_BACKEND);
    assert_string_equal(err.message, "I will not");
    assert_int_equal(n_lines, 1); /* no checkpoint could be written: said, not returned */
    plumb_wrapped_free(w);
    pl_buf_release(&bytes);
    pl_model_free(m);
}

/* Level 3 writes before compile (no data yet) and before the first run (with data), into a folder
 * of the wrapper's name; the answer is the inner backend's. */
static void test_wrap__writes_before_it_compiles_and_runs(void **state) {
    (void)state;
    const plumb_backend *eager = pl_backend_rows[0];
    char *folder = NULL, *here = getcwd(NULL, 0);
    pl_err trouble = PL_ERR_INIT;
    plumb_error err = { 0 };
    plumb_wrapped *w = NULL;
    void *self = NULL, *program = NULL;
    size_t n_hooks = 0;
    static char expected[] = "forward";
    must(pl_dir_temporary(&folder, &trouble), &trouble);
    assert_int_equal(chdir(folder), 0);
    if (eager->open != NULL) {
        assert_int_equal(eager->open(plumb_host_get(), NULL, 0, &self, &err), PLUMB_OK);
    }
    const plumb_wrap_options options = { .size = sizeof(options),
                                         .level = 3,
                                         .name = "forward",
                                         .debug_dir = "d",
                                         .log = count_line,
                                         .log_ctx = expected };
    n_lines = 0;
    assert_int_equal(plumb_wrap_backend(eager, self, &options, &w, &err), PLUMB_OK);
    pl_model *m = parse_graph_text("(float[2] x) => (float[2] y) { y = Relu(x) }");
    pl_buf bytes = PL_BUF_INIT;
    must(pl_model_serialize(m, &bytes, &trouble), &trouble);
    const char *const in_names[] = { "x" }, *const out_names[] = { "y" };
    const plumb_source source = { .onnx = bytes.data,
                                  .n_onnx = bytes.n_bytes,
                                  .inputs = in_names,
                                  .n_inputs = 1,
                                  .outputs = out_names,
                                  .n_outputs = 1 };
    const plumb_backend *v = plumb_wrapped_backend(w);
    assert_int_equal(v->compile(w, &source, &program, &n_hooks, &err), PLUMB_OK);
    assert_true(pl_path_exists("repro/repro.json"));
    assert_false(pl_path_exists("repro/test_data_set_0"));
    const float x[] = { -1, 2 };
    const int64_t dims[] = { 2 };
    plumb_datum *in = NULL, *out = NULL;
    assert_int_equal(plumb_host_get()->new_tensor(PLUMB_FLOAT, 1, dims, x, sizeof(x), &in, &err),
                     PLUMB_OK);
    const plumb_datum *const inputs[] = { in };
    const plumb_run_args args = { .in = inputs, .n_in = 1, .out = &out, .n_out = 1 };
    assert_int_equal(v->run(program, &args, &err), PLUMB_OK);
    assert_int_equal(((const float *)pl_datum_of(out)->tensor->data)[1] > 1, 1);
    assert_true(pl_path_exists("repro/test_data_set_0/input_0.pb"));
    assert_int_equal(n_lines, 4); /* twice: where, and how to minify it */
    v->free(program);
    plumb_wrapped_free(w);
    if (eager->close != NULL) eager->close(self);
    plumb_host_get()->unref(in);
    plumb_host_get()->unref(out);
    pl_buf_release(&bytes);
    pl_model_free(m);
    assert_int_equal(chdir(here), 0);
    pl_dir_remove(folder, NULL);
    pl_free(folder);
    free(here);
}

static void test_wrap__refuses_a_level_that_is_none(void **state) {
    (void)state;
    plumb_wrapped *w = NULL;
    plumb_error err = { 0 };
    const plumb_wrap_options options = { .size = sizeof(options), .level = 5 };
    assert_int_equal(plumb_wrap_backend(pl_backend_rows[0], NULL, &options, &w, &err),
                     PLUMB_E_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut__two_distant_nodes_are_a_model),
        cmocka_unit_test(test_cut__no_nodes_are_no_model),
        cmocka_unit_test(test_cut__a_constant_becomes_a_weight),
        cmocka_unit_test(test_bypass__connects_what_follows),
        cmocka_unit_test(test_key__names_do_not_count_and_all_else_does),
        cmocka_unit_test(test_planted__follows_its_node),
        cmocka_unit_test(test_weights__candidates_share_one_copy),
        cmocka_unit_test(test_wrap__passes_the_error_on),
        cmocka_unit_test(test_wrap__writes_before_it_compiles_and_runs),
        cmocka_unit_test(test_wrap__refuses_a_level_that_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
