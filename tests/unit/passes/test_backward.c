/* Gradients of graphs: accumulation and broadcasting against derivatives worked out by hand, and
 * the operators that have none. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "graph/text/text.h"
#include "interp/interp.h"
#include "ops/infer.h"
#include "passes/backward.h"

static pl_model *parse(const char *text) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    const int opset = strstr(text, "CumProd") != NULL ? 26 : 17;
    if (pl_model_parse_graph(text, opset, &model, &err) != PL_OK) fail_msg("%s", err.message);
    if (pl_ops_resolve(model, &err) != PL_OK) fail_msg("%s", err.message);
    if (pl_model_infer(model, NULL, &err) != PL_OK) fail_msg("%s", err.message);
    return model;
}

/* Adds d(y)/d(input i) for every input as outputs after y, and runs the graph. last: the type of
 * the last input's data where the graph leaves it open. */
static void run_gradient_with(pl_model *model, const double *const *in, pl_datum **out,
                              const pl_type *last) {
    pl_graph *graph = model->graph;
    pl_err err = PL_ERR_INIT;
    pl_value *dx[4] = { NULL };
    pl_datum *data[4] = { NULL };
    if (pl_backward(graph, graph->outputs[0], NULL, graph->inputs, graph->n_inputs, dx, &err) !=
        PL_OK) {
        fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < graph->n_inputs; i++) {
        pl_tensor *t = NULL;
        int64_t dims[PL_RANK_MAX];
        const pl_type *type =
            last != NULL && i + 1 == graph->n_inputs ? last : graph->inputs[i]->type;
        assert_non_null(dx[i]);
        assert_int_equal(pl_graph_add_output(graph, dx[i], &err), PL_OK);
        for (int d = 0; d < type->rank; d++)
            dims[d] = type->dims[d].value;
        assert_int_equal(pl_tensor_new(PL_F64, type->rank, dims, &t, &err), PL_OK);
        memcpy(t->data, in[i], pl_tensor_bytes(t));
        assert_int_equal(pl_datum_of_tensor_take(t, &data[i], &err), PL_OK);
    }
    pl_interp *interp = NULL;
    const pl_interp_options options = { .any_shape = true };
    if (pl_interp_new(model, &options, &interp, &err) != PL_OK) fail_msg("%s", err.message);
    if (pl_interp_run(interp, data, out, &err) != PL_OK) fail_msg("%s", err.message);
    pl_interp_free(interp);
    for (size_t i = 0; i < graph->n_inputs; i++)
        pl_datum_unref(data[i]);
}

static void run_gradient(pl_model *model, const double *const *in, pl_datum **out) {
    run_gradient_with(model, in, out, NULL);
}

static void expect(const pl_datum *d, int rank, size_t n, const double *want) {
    assert_int_equal(d->tensor->rank, rank);
    assert_int_equal(d->tensor->n_elements, n);
    for (size_t i = 0; i < n; i++) {
        const double got = pl_tensor_get_f64(d->tensor, (int64_t)i);
        if (got - want[i] > 1e-12 || want[i] - got > 1e-12)
            fail_msg("element %zu is %g, expected %g", i, got, want[i]);
    }
}

static void release(pl_datum **out, size_t n) {
    for (size_t i = 0; i < n; i++)
        pl_datum_unref(out[i]);
}

/* y = a * b + a: dy/da = b + 1, dy/db = a. Two uses of `a` add up. */
static void test_backward__adds_up_all_uses(void **state) {
    (void)state;
    pl_model *model = parse("(double[2] a, double[2] b) => (y) { t = Mul(a, b) y = Add(t, a) }");
    const double a[2] = { 2, 3 }, b[2] = { 5, 7 };
    const double *const in[2] = { a, b };
    pl_datum *out[3] = { NULL };
    run_gradient(model, in, out);
    expect(out[1], 1, 2, (const double[]){ 6, 8 });
    expect(out[2], 1, 2, a);
    release(out, 3);
    pl_model_free(model);
}

/* y = a / b, b a scalar stretched over a (2,2): dy/db = -sum(a) / b^2. */
static void test_backward__sums_over_broadcast_axes(void **state) {
    (void)state;
    pl_model *model = parse("(double[2,2] a, double b) => (y) { y = Div(a, b) }");
    const double a[4] = { 1, 2, 3, 4 }, b[1] = { 2 };
    const double *const in[2] = { a, b };
    pl_datum *out[3] = { NULL };
    run_gradient(model, in, out);
    expect(out[1], 2, 4, (const double[]){ 0.5, 0.5, 0.5, 0.5 });
    expect(out[2], 0, 1, (const double[]){ -2.5 });
    release(out, 3);
    pl_model_free(model);
}

/* y = a - b with b (3,1) against a (1,2). */
static void test_backward__keeps_the_shape_of_each_input(void **state) {
    (void)state;
    pl_model *model = parse("(double[1,2] a, double[3,1] b) => (y) { y = Sub(a, b) }");
    const double a[2] = { 1, 2 }, b[3] = { 3, 4, 5 };
    const double *const in[2] = { a, b };
    pl_datum *out[3] = { NULL };
    run_gradient(model, in, out);
    expect(out[1], 2, 2, (const double[]){ 3, 3 });
    expect(out[2], 2, 3, (const double[]){ -2, -2, -2 });
    release(out, 3);
    pl_model_free(model);
}

/* One graph of one input: what its gradient is, for a gradient of ones. */
static void check_one(const char *graph, size_t n, const double *x, const double *want) {
    pl_model *model = parse(graph);
    const double *const in[1] = { x };
    pl_datum *out[2] = { NULL };
    run_gradient(model, in, out);
    expect(out[1], model->graph->inputs[0]->type->rank, n, want);
    release(out, 2);
    pl_model_free(model);
}

/* Axes that a Constant node holds are as good as an initializer. */
static void test_backward__knows_constant_nodes(void **state) {
    (void)state;
    const double x[4] = { 1, 2, 3, 4 };
    check_one("(double[2,2] x) => (y) { a = Constant<value = int64[1] {1}>() "
              "y = ReduceSum<keepdims=0>(x, a) }",
              4, x, (double[]){ 1, 1, 1, 1 });
    check_one("(double[2,2] x) => (y) { a = Constant<value_ints = [0]>() "
              "y = ReduceSum<keepdims=0>(x, a) }",
              4, x, (double[]){ 1, 1, 1, 1 });
}

/* Points where differences tell nothing: PyTorch's conventions. */
static void test_backward__kinks_and_ties(void **state) {
    (void)state;
    const double zero[3] = { 0, 2, 3 }, zeros[3] = { 0, 0, 3 }, tie[3] = { 5, 1, 5 };
    check_one("(double[3] x) => (y) { y = ReduceProd(x) }", 3, zero, (double[]){ 6, 0, 0 });
    check_one("(double[3] x) => (y) { y = ReduceProd(x) }", 3, zeros, (double[]){ 0, 0, 0 });
    check_one("(double[3] x) => (y) { y = ReduceMax(x) }", 3, tie, (double[]){ 0.5, 0, 0.5 });
    check_one("(double[3] x) => (y) { y = Max(x, x) }", 3, tie, (double[]){ 1, 1, 1 });
    check_one("(double[3] x) => (y) { y = Relu(x) }", 3, zero, (double[]){ 0, 1, 1 });
    check_one("(double[3] x) => (y) { y = Abs(x) }", 3, zeros, (double[]){ 0, 0, 1 });
    check_one("(double[3] x) => (y) <double lo = {0}, double hi = {3}> { y = Clip(x, lo, hi) }", 3,
              zero, (double[]){ 1, 1, 1 });
    check_one("(double[3] x) => (y) <double p = {0}> { y = Pow(x, p) }", 3, zero,
              (double[]){ 0, 0, 0 });
    /* y = { 2, 0, 0, 0 }: dy/dx by hand. */
    check_one("(double[4] x) => (y) <int64 a = {0}> { y = CumProd(x, a) }", 4,
              (double[]){ 2, 0, 3, 0 }, (double[]){ 1, 2 + 6, 0, 0 });
    const double none[2] = { 0, 0 };
    check_one("(double[2] x) => (y) { y = ReduceL2(x) }", 2, none, none);
    check_one("(double[2] x) => (y) { y = LeakyRelu<alpha=0.5>(x) }", 2, none,
              (double[]){ 0.5, 0.5 });
}

/* Shapes that only the run tells: b may be stretched or not, and may have any rank. */
static void test_backward__finds_broadcasting_at_the_run(void **state) {
    (void)state;
    const double a[4] = { 1, 2, 3, 4 }, b[2] = { 5, 7 };
    const double *const in[2] = { a, b };
    static const char *const graphs[] = {
        "(double[2,2] a, double[N] b) => (y) { y = Mul(a, b) }",
        "(double[2,2] a, double[N,M] b) => (y) { y = Mul(a, b) }",
    };
    for (int i = 0; i < 2; i++) {
        pl_model *model = parse(graphs[i]);
        pl_datum *out[3] = { NULL };
        const pl_dim dims[2] = { pl_dim_of(i == 0 ? 2 : 1), pl_dim_of(2) };
        const pl_type *real = pl_type_tensor(model->arena, PL_F64, i + 1, dims);
        run_gradient_with(model, in, out, real);
        expect(out[1], 2, 4, (const double[]){ 5, 7, 5, 7 });
        expect(out[2], i + 1, 2, (const double[]){ 4, 6 });
        release(out, 3);
        pl_model_free(model);
    }
}

static void test_backward__names_an_operator_without_a_rule(void **state) {
    (void)state;
    pl_model *model = parse("(float[2] a) => (y) { y = Bernoulli(a) }");
    pl_err err = PL_ERR_INIT;
    pl_value *dx[1] = { NULL };
    assert_int_equal(pl_backward(model->graph, model->graph->outputs[0], NULL, model->graph->inputs,
                                 1, dx, &err),
                     PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "Bernoulli"));
    pl_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__adds_up_all_uses),
        cmocka_unit_test(test_backward__sums_over_broadcast_axes),
        cmocka_unit_test(test_backward__keeps_the_shape_of_each_input),
        cmocka_unit_test(test_backward__knows_constant_nodes),
        cmocka_unit_test(test_backward__kinks_and_ties),
        cmocka_unit_test(test_backward__finds_broadcasting_at_the_run),
        cmocka_unit_test(test_backward__names_an_operator_without_a_rule),
    };
    return cmocka_run_group_tests_name("backward", tests, NULL, NULL);
}
