/* Error bounds of quantised values, of control flow and of operators that index: which codes are
 * right, where nothing was rounded, and how uncertainty travels. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"
#include "ops/op.h"

typedef struct fixture {
    pl_model *model;
    pl_replay *replay;
} fixture;

static void open_graph(fixture *f, const char *text, int opset) {
    pl_err err = PL_ERR_INIT;
    const pl_replay_options options = { .seed = 1 };
    pl_status st = pl_model_parse_graph(text, opset, &f->model, &err);
    if (st == PL_OK) st = pl_ops_resolve(f->model, &err);
    if (st == PL_OK) st = pl_model_infer(f->model, NULL, &err);
    if (st == PL_OK) st = pl_replay_new(f->model, &options, &f->replay, &err);
    if (st != PL_OK) fail_msg("%s", err.message);
}

static void close_graph(fixture *f) {
    pl_replay_free(f->replay);
    pl_model_free(f->model);
}

/* Input i, float[n] or the shape of its type. `bound` < 0: exact. */
static void put(fixture *f, size_t i, const double *x, double bound) {
    const pl_value *value = f->model->graph->inputs[i];
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL, *e = NULL;
    pl_datum *d = NULL;
    for (int k = 0; k < value->type->rank; k++)
        dims[k] = value->type->dims[k].value;
    assert_int_equal(pl_tensor_new(value->type->dtype, value->type->rank, dims, &t, NULL), PL_OK);
    pl_store_f64(t->dtype, x, t->data, (size_t)t->n_elements);
    if (bound >= 0) {
        assert_int_equal(pl_tensor_new(PL_F64, t->rank, dims, &e, NULL), PL_OK);
        for (int64_t k = 0; k < e->n_elements; k++)
            ((double *)e->data)[k] = bound;
    }
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    assert_int_equal(pl_replay_put(f->replay, value, d, e, NULL), PL_OK);
    pl_datum_unref(d);
    pl_tensor_unref(e);
}

static void run(fixture *f) {
    pl_err err = PL_ERR_INIT;
    for (size_t i = 0; i < f->model->graph->n_nodes; i++)
        if (pl_replay_node(f->replay, f->model->graph->nodes[i], &err) != PL_OK)
            fail_msg("%s", err.message);
}

static double value_at(const fixture *f, size_t output, int64_t i) {
    return pl_tensor_get_f64(pl_replay_get(f->replay, f->model->graph->outputs[output])->tensor, i);
}

static double bound_at(const fixture *f, size_t output, int64_t i) {
    const pl_tensor *e = pl_replay_bound(f->replay, f->model->graph->outputs[output]);
    return e == NULL ? 0 : pl_tensor_get_f64(e, i);
}

static void test_quantize__exact_ties_have_one_answer(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(
        &f, "(float[4] x) => (y) <float s = {0.5}, uint8 z = {0}> { y = QuantizeLinear(x, s, z) }",
        13);
    put(&f, 0, (const double[]){ 2.75, 3.25, 1.0, 200 }, -1);
    run(&f);
    assert_true(value_at(&f, 0, 0) == 6); /* 5.5 to even */
    assert_true(value_at(&f, 0, 1) == 6); /* 6.5 to even */
    for (int64_t i = 0; i < 4; i++)
        assert_true(bound_at(&f, 0, i) == 0);
    close_graph(&f);
}

static void test_quantize__inexact_ties_may_go_either_way(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(
        &f, "(float[4] x) => (y) <float s = {0.1}, uint8 z = {7}> { y = QuantizeLinear(x, s, z) }",
        13);
    put(&f, 0, (const double[]){ 0.25, 0.22, 1e6, -1e6 }, -1);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 1);
    assert_true(bound_at(&f, 0, 1) == 0);
    assert_true(value_at(&f, 0, 2) == 255 && bound_at(&f, 0, 2) == 0); /* saturated: certain */
    assert_true(value_at(&f, 0, 3) == 0 && bound_at(&f, 0, 3) == 0);
    close_graph(&f);
}

static void test_quantize__inherits_what_x_is_off_by(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[3] x) => (y, w) <float s = {1}, int8 z = {0}> { y = QuantizeLinear(x, s, z) "
               "w = DequantizeLinear(y, s, z) }",
               13);
    put(&f, 0, (const double[]){ 2.45, 2.3, 0 }, 0.01); /* 8 * 0.01 reaches 2.5 from 2.45 only */
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 1 && bound_at(&f, 0, 1) == 0 && bound_at(&f, 0, 2) == 0);
    assert_true(bound_at(&f, 1, 0) > 1 && bound_at(&f, 1, 0) < 1.001);
    assert_true(bound_at(&f, 1, 1) < 1e-6);
    close_graph(&f);
}

static void test_quantize__per_axis_zero_points_limit_the_codes(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[2,2] x) => (y) <float[2] s = {0.1, 0.3}, uint8[2] z = {255, 0}> { y = "
               "QuantizeLinear<axis=0>(x, s, z) }",
               13);
    put(&f, 0, (const double[]){ 0.05, 0.02, 0.45, 76.4 }, -1);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 0); /* 255 + 0.5: nothing above */
    assert_true(bound_at(&f, 0, 1) == 0);
    assert_true(bound_at(&f, 0, 2) == 1); /* 1.5 */
    assert_true(bound_at(&f, 0, 3) <= 1);
    close_graph(&f);
}

static void test_dynamic_quantize__zeros_and_ties(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f, "(float[4] x) => (y, s, z) { y, s, z = DynamicQuantizeLinear(x) }", 13);
    put(&f, 0, (const double[]){ 0, 0, 0, 0 }, -1);
    run(&f);
    for (int64_t i = 0; i < 4; i++)
        assert_true(value_at(&f, 0, i) == 0 && bound_at(&f, 0, i) == 0);
    assert_true(bound_at(&f, 1, 0) == 0);
    assert_true(bound_at(&f, 2, 0) == 0);
    put(&f, 0, (const double[]){ -127.5, 127.5, 0.3, 0 }, -1); /* zero point 127.5: a tie */
    run(&f);
    assert_true(bound_at(&f, 2, 0) == 1);
    assert_true(bound_at(&f, 0, 2) == 1); /* moves with it */
    assert_true(bound_at(&f, 1, 0) > 0 && bound_at(&f, 1, 0) < 1e-6);
    close_graph(&f);
}

static void test_matmul_integer__is_exact_but_for_uncertain_codes(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(uint8[1,2] a, uint8[2,2] b) => (y) <uint8 za = {1}, uint8 zb = {2}> { y = "
               "MatMulInteger(a, b, za, zb) }",
               13);
    put(&f, 0, (const double[]){ 3, 4 }, -1);
    put(&f, 1, (const double[]){ 5, 6, 7, 2 }, -1);
    run(&f);
    assert_null(pl_replay_bound(f.replay, f.model->graph->outputs[0]));
    put(&f, 0, (const double[]){ 3, 4 }, 1);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 3 + 5); /* |b - 2| down the column */
    assert_true(bound_at(&f, 0, 1) == 4 + 0);
    close_graph(&f);
}

static void test_qlinear_conv__uncertain_codes_go_through(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(
        &f,
        "(uint8[1,1,3] x, int8[1,1,2] w) => (y) <float s = {1}, uint8 zx = {0}, int8 zw = {0}, "
        "float sy = {2}, uint8 zy = {0}> { y = QLinearConv(x, s, zx, w, s, zw, sy, zy) }",
        13);
    put(&f, 0, (const double[]){ 1, 2, 3 }, -1);
    put(&f, 1, (const double[]){ 1, 2 }, -1);
    run(&f);
    assert_true(value_at(&f, 0, 0) == 2 && bound_at(&f, 0, 0) == 0); /* 2.5, powers of two */
    put(&f, 0, (const double[]){ 1, 2, 3 }, 1);
    run(&f);
    assert_true(bound_at(&f, 0, 0) >= 1);
    close_graph(&f);
}

/* The largest element sets the step: all codes move with it. */
static void test_dynamic_matmul__an_uncertain_range_moves_the_step(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[1,2] a) => (y) <uint8[2,1] b = {0, 1}, float s = {1}, uint8 z = {0}> "
               "{ y = com.microsoft.DynamicQuantizeMatMul(a, b, s, z) }",
               17);
    put(&f, 0, (const double[]){ 0, 2.55 }, 1e-4);
    run(&f);
    assert_true(bound_at(&f, 0, 0) >= 1e-4 && bound_at(&f, 0, 0) < 4e-4);
    close_graph(&f);
}

/* alpha * sqrt(3^2 + 4^2), whatever its sign. */
static void test_qgemm__alpha_multiplies_the_error_once(void **state) {
    (void)state;
    static const char *const alphas[] = { "1.0", "-4.0", "0.25", "0.0" };
    static const double expected[] = { 5, 20, 1.25, 0 };
    for (int i = 0; i < 4; i++) {
        fixture f = { 0 };
        char graph[300];
        snprintf(graph, sizeof(graph),
                 "(uint8[1,2] a) => (y) <uint8[2,1] b = {3, 4}, float s = {1}, uint8 z = {0}> "
                 "{ y = com.microsoft.QGemm<alpha=%s>(a, s, z, b, s, z) }",
                 alphas[i]);
        open_graph(&f, graph, 17);
        put(&f, 0, (const double[]){ 10, 20 }, 1);
        run(&f);
        const double e = bound_at(&f, 0, 0);
        if (!(e >= expected[i] && e <= 1.001 * expected[i])) fail_msg("%s: %g", alphas[i], e);
        close_graph(&f);
    }
}

/* Two errors of one code each, one of them by a scale below zero: they do not cancel. */
static void test_qlinear_add__errors_have_no_sign(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(uint8[1] a, uint8[1] b) => (y) <float n = {-1}, float s = {1}, uint8 z = {0}> "
               "{ y = com.microsoft.QLinearAdd(a, n, z, b, s, z, s, z) }",
               17);
    put(&f, 0, (const double[]){ 10 }, 1);
    put(&f, 1, (const double[]){ 100 }, 1);
    run(&f);
    assert_true(value_at(&f, 0, 0) == 90 && bound_at(&f, 0, 0) >= 2);
    close_graph(&f);
}

/* 2^16 and 128 times 2^-9: a sum in float loses them all. Exactly it is just above the middle of
 * codes 16 and 18, without them just below. */
static void test_qlinear_matmul__float8_is_added_in_float(void **state) {
    (void)state;
    fixture f = { 0 };
    double a[129], b[129];
    open_graph(
        &f,
        "(float8e4m3fn[1,129] a, float8e4m3fn[129,1] b) => (y) <float s = {1}, float8e4m3fn z "
        "= {0}, float sy = {3855.0625}> { y = QLinearMatMul(a, s, z, b, s, z, sy, z) }",
        21);
    for (int i = 0; i < 129; i++) {
        a[i] = i == 0 ? 256 : 1;
        b[i] = i == 0 ? 256 : 0x1p-9;
    }
    put(&f, 0, a, -1);
    put(&f, 1, b, -1);
    run(&f);
    assert_true(value_at(&f, 0, 0) == 18 && bound_at(&f, 0, 0) == 2);
    close_graph(&f);
}

static void test_shape__does_not_depend_on_elements(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[2] x) => (y, z, w) <int64[1] i = {0}> { y = Shape(x) z = Gather(x, i) s = "
               "SequenceConstruct(x) w = SequenceAt(s, i) }",
               13);
    put(&f, 0, (const double[]){ 1, 2 }, 0.25);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 0);
    assert_true(bound_at(&f, 1, 0) == 0.25);
    assert_true(bound_at(&f, 2, 1) == 0.25); /* through a sequence */
    close_graph(&f);
}

static void test_gather__keeps_its_indices(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(
        &f, "(int64[3] x) => (y, n) <int64[2] i = {2, 0}> { y = Gather(x, i) n = NonZero(x) }", 13);
    put(&f, 0, (const double[]){ 0, 20, 30 }, 1);
    run(&f);
    assert_true(value_at(&f, 0, 0) == 30 && bound_at(&f, 0, 0) == 1);
    assert_true(isinf(bound_at(&f, 1, 0))); /* the 0 may be none */
    close_graph(&f);
}

static void test_scatter__adds_what_is_added(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[1,3] x, float[1,2] u) => (y) <int64[1,2] i = {1, 1}> { y = "
               "ScatterElements<axis=1, reduction=\"add\">(x, i, u) }",
               16);
    put(&f, 0, (const double[]){ 1, 1, 1 }, -1);
    put(&f, 1, (const double[]){ 4, -4 }, 0.5);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 0);
    assert_true(bound_at(&f, 0, 1) > 1 && bound_at(&f, 0, 1) < 1.001);
    close_graph(&f);
}

static void test_control__replays_bodies_with_bounds(void **state) {
    (void)state;
    fixture f = { 0 };
    open_graph(&f,
               "(float[2] x) => (y, s) <int64 m = {3}, bool t = {1}> { y, s = Loop(m, t, x) <body "
               "= b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] u) { d = "
               "Identity(c) w = Identity(v) u = Neg(v) }> }",
               13);
    put(&f, 0, (const double[]){ 1, 2 }, 0.25);
    run(&f);
    assert_true(bound_at(&f, 0, 1) >= 0.25);
    for (int64_t i = 0; i < 6; i++)
        assert_true(bound_at(&f, 1, i) >= 0.25);
    close_graph(&f);
    open_graph(&f,
               "(bool c, float[2] x) => (y) { y = If(c) <then_branch = t () => (float[2] a) { a = "
               "Identity(x) }, else_branch = e () => (float[2] b) { b = Identity(x) }> }",
               13);
    put(&f, 0, (const double[]){ 1 }, 1); /* either branch */
    put(&f, 1, (const double[]){ 1, 2 }, 0.25);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 0.25);
    close_graph(&f);
    open_graph(&f,
               "(float[2] v, float[2,3] x) => (y, s) { y, s = Scan(v, x) <num_scan_inputs = 1, "
               "scan_input_axes = [1], scan_output_axes = [-1], scan_output_directions = [1], body "
               "= b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Identity(a) o = "
               "Identity(e) }> }",
               13);
    put(&f, 0, (const double[]){ 1, 2 }, -1);
    put(&f, 1, (const double[]){ 1, 2, 3, 4, 5, 6 }, 0.5);
    run(&f);
    assert_true(bound_at(&f, 0, 0) == 0);
    for (int64_t i = 0; i < 6; i++)
        assert_true(bound_at(&f, 1, i) == 0.5);
    close_graph(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize__exact_ties_have_one_answer),
        cmocka_unit_test(test_quantize__inexact_ties_may_go_either_way),
        cmocka_unit_test(test_quantize__inherits_what_x_is_off_by),
        cmocka_unit_test(test_quantize__per_axis_zero_points_limit_the_codes),
        cmocka_unit_test(test_dynamic_quantize__zeros_and_ties),
        cmocka_unit_test(test_matmul_integer__is_exact_but_for_uncertain_codes),
        cmocka_unit_test(test_qlinear_conv__uncertain_codes_go_through),
        cmocka_unit_test(test_dynamic_matmul__an_uncertain_range_moves_the_step),
        cmocka_unit_test(test_qgemm__alpha_multiplies_the_error_once),
        cmocka_unit_test(test_qlinear_add__errors_have_no_sign),
        cmocka_unit_test(test_qlinear_matmul__float8_is_added_in_float),
        cmocka_unit_test(test_shape__does_not_depend_on_elements),
        cmocka_unit_test(test_gather__keeps_its_indices),
        cmocka_unit_test(test_scatter__adds_what_is_added),
        cmocka_unit_test(test_control__replays_bodies_with_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
