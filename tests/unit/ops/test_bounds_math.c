/* Edge cases of the error bounds of arithmetic, activations, reductions, comparisons and casts:
 * kinks, ties, saturation, denormals, low precision, and what an inherited error becomes. Expected
 * values are from the definitions, not from the rules. */
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

#include "blame/local_error.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"

static const double U = 0x1p-24;

typedef struct run {
    pl_model *model;
    pl_replay *replay;
    pl_err err;
} run;

static pl_tensor *tensor_of(pl_dtype dtype, int rank, const int64_t *dims, const double *x) {
    pl_tensor *t = NULL;
    assert_int_equal(pl_tensor_new(dtype, rank, dims, &t, NULL), PL_OK);
    pl_store_f64(dtype, x, t->data, (size_t)t->n_elements);
    return t;
}

/* Puts n elements (and their bound, when not NULL) at input `name` of the graph. */
static void put(run *r, const char *name, const double *x, const double *e) {
    pl_value *value = pl_graph_find(r->model->graph, name);
    int64_t dims[PL_RANK_MAX] = { 0 };
    pl_tensor *bound = NULL;
    pl_datum *d = NULL;
    assert_non_null(value);
    for (int i = 0; i < value->type->rank; i++)
        dims[i] = value->type->dims[i].value;
    pl_tensor *t = tensor_of(value->type->dtype, value->type->rank, dims, x);
    if (e != NULL) bound = tensor_of(PL_F64, value->type->rank, dims, e);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    assert_int_equal(pl_replay_put(r->replay, value, d, bound, &r->err), PL_OK);
    pl_tensor_unref(bound);
    pl_datum_unref(d);
}

static void open_graph(run *r, int opset, const char *graph) {
    const pl_replay_options options = { .seed = 1 };
    memset(r, 0, sizeof(*r));
    pl_status st = pl_model_parse_graph(graph, opset, &r->model, &r->err);
    if (st == PL_OK) st = pl_ops_resolve(r->model, &r->err);
    if (st == PL_OK) st = pl_model_infer(r->model, NULL, &r->err);
    if (st == PL_OK) st = pl_replay_new(r->model, &options, &r->replay, &r->err);
    if (st != PL_OK) fail_msg("%s: %s", graph, r->err.message);
}

static void run_nodes(run *r) {
    for (size_t i = 0; i < r->model->graph->n_nodes; i++) {
        if (pl_replay_node(r->replay, r->model->graph->nodes[i], &r->err) != PL_OK)
            fail_msg("%s", r->err.message);
    }
    assert_int_equal(pl_replay_without_rule(r->replay), 0);
}

static double bound_at(const run *r, const char *name, int64_t i) {
    const pl_tensor *b = pl_replay_bound(r->replay, pl_graph_find(r->model->graph, name));
    return b == NULL ? 0 : pl_tensor_get_f64(b, i);
}

static double value_at(const run *r, const char *name, int64_t i) {
    return pl_tensor_get_f64(pl_replay_get(r->replay, pl_graph_find(r->model->graph, name))->tensor,
                             i);
}

static void close_graph(run *r) {
    pl_replay_free(r->replay);
    pl_model_free(r->model);
}

/* One input x, one output y. */
static void run_one(run *r, int opset, const char *graph, const double *x, const double *e) {
    open_graph(r, opset, graph);
    put(r, "x", x, e);
    run_nodes(r);
}

/* q of one answer of a runtime. */
static double q_of(const run *r, int64_t i, double a, pl_dtype dtype) {
    return fabs(a - value_at(r, "y", i)) /
           pl_local_scale(value_at(r, "y", i), bound_at(r, "y", i), dtype);
}

/* ---- activations ---- */

static void test_sigmoid__tail_is_absolute(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = Sigmoid(x) }", (double[]){ -100, 0 }, NULL);
    assert_true(q_of(&r, 0, 1e-8, PL_F32) < 2); /* a clamped tail */
    assert_true(q_of(&r, 0, 1e-5, PL_F32) > 4); /* not a tail */
    assert_true(q_of(&r, 1, 0.50001, PL_F32) > 4);
    close_graph(&r);
}

static void test_elu__near_zero_allows_exp_minus_one(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[1] x) => (y) { y = Elu(x) }", (double[]){ -1e-6 }, NULL);
    assert_true(q_of(&r, 0, (double)(expf(-1e-6f) - 1.0f), PL_F32) < 2);
    assert_true(q_of(&r, 0, -2e-6, PL_F32) > 4);
    close_graph(&r);
}

static void test_relu__dead_elements_have_no_slack(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[3] x) => (y) { y = Relu(x) }", (double[]){ -1, 1, -1e-7 },
            (double[]){ 1e-6, 1e-6, 1e-6 });
    assert_true(bound_at(&r, "y", 0) == 0);
    assert_true(bound_at(&r, "y", 1) == 1e-6);
    assert_true(bound_at(&r, "y", 2) == 1e-6); /* x may be positive */
    close_graph(&r);
}

static void test_clip__bounds_swapped_and_errors(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[3] x) => (y) <float lo = {-1}, float hi = {1}> { y = Clip(x, lo, hi) }",
            (double[]){ 5, 0.5, 1 }, (double[]){ 1e-3, 1e-3, 1e-3 });
    assert_true(bound_at(&r, "y", 0) == 0);
    assert_true(bound_at(&r, "y", 1) == 1e-3);
    assert_true(bound_at(&r, "y", 2) == 1e-3);
    close_graph(&r);
    run_one(&r, 13, "(float[1] x) => (y) <float lo = {1}, float hi = {-1}> { y = Clip(x, lo, hi) }",
            (double[]){ 0 }, (double[]){ 1e-3 });
    assert_true(value_at(&r, "y", 0) == -1 && bound_at(&r, "y", 0) == 0);
    close_graph(&r);
}

static void test_hard_sigmoid__kink_has_slack_and_plateau_none(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[3] x) => (y) { y = HardSigmoid<alpha=0.2, beta=0.5>(x) }",
            (double[]){ -2.5, -3, 0 }, NULL);
    assert_true(q_of(&r, 0, 3e-8, PL_F32) < 2); /* 0.2f * -2.5 + 0.5 may be just above 0 */
    assert_true(bound_at(&r, "y", 1) == 0);
    assert_true(q_of(&r, 2, 0.500001, PL_F32) > 4);
    close_graph(&r);
}

static void test_thresholded_relu__jump_is_allowed_only_there(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[3] x) => (y) { y = ThresholdedRelu<alpha=1.0>(x) }",
            (double[]){ 1.0000001, 3, 0.5 }, (double[]){ 1e-6, 1e-6, 1e-6 });
    assert_true(q_of(&r, 0, 0, PL_F32) < 2);
    assert_true(q_of(&r, 1, 0, PL_F32) > 4);
    assert_true(bound_at(&r, "y", 2) == 0);
    close_graph(&r);
}

/* ---- arithmetic ---- */

static void test_arithmetic__is_rounded_once(void **state) {
    (void)state;
    static const char *const ops[] = { "Add", "Sub", "Mul", "Div" };
    for (int i = 0; i < 4; i++) {
        char graph[128];
        run r;
        snprintf(graph, sizeof(graph), "(float[1] x, float[1] b) => (y) { y = %s(x, b) }", ops[i]);
        open_graph(&r, 14, graph);
        put(&r, "x", (double[]){ 1.1f }, NULL);
        put(&r, "b", (double[]){ 0.3f }, NULL);
        run_nodes(&r);
        const double y = value_at(&r, "y", 0);
        assert_true(bound_at(&r, "y", 0) <= U * fabs(y) + 0x1p-125);
        assert_true(q_of(&r, 0, (double)(float)y, PL_F32) <= 1);
        assert_true(q_of(&r, 0, y * (1 + 1e-6), PL_F32) > 4);
        close_graph(&r);
    }
}

static void test_arithmetic__zero_times_anything_is_exact(void **state) {
    (void)state;
    run r;
    open_graph(&r, 14, "(float[1] x, float[1] b) => (y, c) { y = Mul(x, b) c = Equal(y, b) }");
    put(&r, "x", (double[]){ 7 }, NULL);
    put(&r, "b", (double[]){ 0 }, NULL);
    run_nodes(&r);
    assert_true(bound_at(&r, "y", 0) == 0);
    assert_true(bound_at(&r, "c", 0) == 0); /* 0 == 0 is certain */
    close_graph(&r);
}

static void test_arithmetic__integers_are_exact(void **state) {
    (void)state;
    run r;
    run_one(&r, 14, "(int32[2] x) => (y) <int32 b = {3}> { y = Div(x, b) }", (double[]){ 7, -7 },
            NULL);
    assert_true(bound_at(&r, "y", 0) == 0 && value_at(&r, "y", 1) == -2);
    close_graph(&r);
    run_one(&r, 14, "(int32[2] x) => (y) <int32 b = {3}> { y = Div(x, b) }", (double[]){ 9, 7 },
            (double[]){ 1, 0 });
    assert_true(bound_at(&r, "y", 0) >= 1 && bound_at(&r, "y", 1) == 0);
    close_graph(&r);
}

static void test_arithmetic__old_broadcasting_finds_its_axis(void **state) {
    (void)state;
    run r;
    open_graph(&r, 6, "(float[2,2] x, float[2] b) => (y) { y = Mul<broadcast=1, axis=0>(x, b) }");
    put(&r, "x", (double[]){ 1, 1, 1, 1 }, (double[]){ 1e-3, 1e-3, 1e-3, 1e-3 });
    put(&r, "b", (double[]){ 1, 1000 }, NULL);
    run_nodes(&r);
    assert_true(bound_at(&r, "y", 1) < 2e-3 && bound_at(&r, "y", 2) >= 1);
    close_graph(&r);
}

static void test_division__by_a_possible_zero_is_open(void **state) {
    (void)state;
    run r;
    open_graph(&r, 14, "(float[2] x, float[2] b) => (y) { y = Div(x, b) }");
    put(&r, "x", (double[]){ 1, 1 }, NULL);
    put(&r, "b", (double[]){ 1e-6, 2 }, (double[]){ 1e-5, 1e-6 });
    run_nodes(&r);
    assert_true(isinf(bound_at(&r, "y", 0)));
    assert_true(fabs(bound_at(&r, "y", 1) - 2.5e-7 - U * 0.5) < 1e-8);
    close_graph(&r);
}

/* 1 modulo 1.0000001, which may be 1: the remainder is 1 or 0. */
static void test_mod__jumps_just_below_a_multiple(void **state) {
    (void)state;
    run r;
    open_graph(&r, 17, "(float[2] a, float[2] b) => (y) { y = Mod<fmod=1>(a, b) }");
    put(&r, "a", (double[]){ 1, 1 }, NULL);
    put(&r, "b", (double[]){ 1 + 1e-7, 2 }, (double[]){ 1e-7, 1e-7 });
    run_nodes(&r);
    assert_true(bound_at(&r, "y", 0) >= 1);
    assert_true(bound_at(&r, "y", 1) < 1e-6);
    close_graph(&r);
}

static void test_max_min__take_the_larger_error(void **state) {
    (void)state;
    static const char *const graphs[] = { "(float[2] x, float[2] b) => (y) { y = Max(x, b) }",
                                          "(float[2] x, float[2] b) => (y) { y = Min(x, b) }" };
    for (int i = 0; i < 2; i++) {
        run r;
        open_graph(&r, 13, graphs[i]);
        put(&r, "x", (double[]){ 1, 1 }, (double[]){ 1e-3, 1e-3 });
        put(&r, "b", (double[]){ 1.001, 5 }, (double[]){ 1e-2, 1e-2 });
        run_nodes(&r);
        assert_true(bound_at(&r, "y", 0) == 1e-2); /* either may win */
        assert_true(bound_at(&r, "y", 1) == (i == 0 ? 1e-2 : 1e-3));
        close_graph(&r);
    }
}

/* ---- comparisons ---- */

static void test_comparison__is_uncertain_only_within_reach(void **state) {
    (void)state;
    run r;
    open_graph(&r, 13, "(float[3] x, float[3] b) => (c, y) { c = Less(x, b) y = Where(c, x, b) }");
    put(&r, "x", (double[]){ 1, 1, 1 }, (double[]){ 1e-6, 1e-6, 0 });
    put(&r, "b", (double[]){ 1.000001, 2, 1 }, NULL);
    run_nodes(&r);
    assert_true(bound_at(&r, "c", 0) == 1 && bound_at(&r, "c", 1) == 0);
    assert_true(bound_at(&r, "c", 2) == 0); /* exact operands: no slack, not even at a tie */
    assert_true(bound_at(&r, "y", 0) >= 1e-6 && bound_at(&r, "y", 1) == 1e-6);
    close_graph(&r);
}

static void test_logic__certain_operand_decides(void **state) {
    (void)state;
    run r;
    open_graph(&r, 13,
               "(bool[2] x, bool[2] b) => (y, o, n) { y = And(x, b) o = Or(x, b) n = Not(x) }");
    put(&r, "x", (double[]){ 1, 1 }, (double[]){ 1, 1 });
    put(&r, "b", (double[]){ 0, 1 }, NULL);
    run_nodes(&r);
    assert_true(bound_at(&r, "y", 0) == 0 && bound_at(&r, "y", 1) == 1);
    assert_true(bound_at(&r, "o", 0) == 1 && bound_at(&r, "o", 1) == 0);
    assert_true(bound_at(&r, "n", 0) == 1);
    close_graph(&r);
}

/* ---- rounding and casts ---- */

static void test_rounding__exact_input_has_no_slack(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = Round(x) }", (double[]){ 2.5, 5.5 }, NULL);
    assert_true(bound_at(&r, "y", 0) == 0 && value_at(&r, "y", 1) == 6);
    close_graph(&r);
    /* Powers of two: the product is exact, so is the tie. */
    run_one(&r, 13, "(float[1] x) => (y) <float s = {0.5}> { m = Mul(x, s) y = Round(m) }",
            (double[]){ 11 }, NULL);
    assert_true(bound_at(&r, "y", 0) == 0);
    close_graph(&r);
    run_one(&r, 13, "(float[2] x) => (y) <float s = {0.1}> { m = Mul(x, s) y = Floor(m) }",
            (double[]){ 30, 35 }, NULL);
    assert_true(bound_at(&r, "y", 0) == 1 && bound_at(&r, "y", 1) == 0);
    close_graph(&r);
}

static void test_cast__truncation_reaches_what_the_error_reaches(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = Cast<to=6>(x) }", (double[]){ 2.9999, 2.9999 },
            NULL);
    assert_true(bound_at(&r, "y", 0) == 0 && value_at(&r, "y", 0) == 2);
    close_graph(&r);
    run_one(&r, 13, "(float[2] x) => (y) { y = Cast<to=6>(x) }", (double[]){ 2.9999, 2.5 },
            (double[]){ 1e-4, 1e-4 });
    assert_true(bound_at(&r, "y", 0) == 1 && bound_at(&r, "y", 1) == 0);
    close_graph(&r);
    /* Out of range: every processor has its own answer. */
    run_one(&r, 13, "(float[2] x) => (y) { y = Cast<to=3>(x) }", (double[]){ 300, NAN }, NULL);
    assert_true(isinf(bound_at(&r, "y", 0)) && isinf(bound_at(&r, "y", 1)));
    close_graph(&r);
}

static void test_cast__to_half_rounds_and_back_does_not(void **state) {
    (void)state;
    run r;
    open_graph(&r, 13, "(float[2] x) => (h, y) { h = Cast<to=10>(x) y = Cast<to=1>(h) }");
    put(&r, "x", (double[]){ 0.1, 1 }, (double[]){ 1e-7, 1e-7 });
    run_nodes(&r);
    assert_true(value_at(&r, "h", 0) == 0x1.998p-4); /* the half nearest to 0.1 */
    assert_true(bound_at(&r, "h", 0) == 0);          /* no other within reach */
    assert_true(bound_at(&r, "y", 0) == 0 && value_at(&r, "y", 0) == 0x1.998p-4);
    close_graph(&r);
    open_graph(&r, 13, "(double[1] x) => (y) { y = Cast<to=1>(x) }");
    put(&r, "x", (double[]){ 1 + 0x1p-24 }, (double[]){ 0x1p-30 }); /* between two floats */
    run_nodes(&r);
    assert_true(bound_at(&r, "y", 0) == 0x1p-23);
    close_graph(&r);
}

static void test_is_inf__sees_overflow_of_the_models_type(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float16[2] x) => (y) { t = Mul(x, x) y = IsInf(t) }", (double[]){ 256, 2 },
            NULL);
    assert_true(value_at(&r, "y", 0) == 0 && bound_at(&r, "y", 0) == 1);
    assert_true(bound_at(&r, "y", 1) == 0);
    close_graph(&r);
}

/* ---- reductions ---- */

static void test_reduce__one_term_is_exact(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[1] x) => (y) { y = ReduceMean(x) }", (double[]){ 0.1f }, NULL);
    assert_true(bound_at(&r, "y", 0) == 0);
    close_graph(&r);
}

static void test_reduce__zeros_and_empty(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[4] x) => (y) { y = ReduceL2(x) }", (double[]){ 0, 0, 0, 0 }, NULL);
    assert_true(bound_at(&r, "y", 0) == 0);
    close_graph(&r);
    run_one(&r, 13, "(float[0] x) => (y) { y = ReduceSum(x) }", (double[]){ 0 }, NULL);
    assert_true(value_at(&r, "y", 0) == 0 && bound_at(&r, "y", 0) == 0);
    close_graph(&r);
    /* A norm of zeros with errors is off by their norm. */
    run_one(&r, 13, "(float[2] x) => (y) { y = ReduceL2(x) }", (double[]){ 0, 0 },
            (double[]){ 3e-3, 4e-3 });
    assert_true(fabs(bound_at(&r, "y", 0) - 5e-3) < 1e-9);
    close_graph(&r);
}

static void test_reduce__min_takes_the_largest_error(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = ReduceMin(x) }", (double[]){ 1, 2 },
            (double[]){ 1e-6, 1e-3 });
    assert_true(bound_at(&r, "y", 0) >= 1e-6);
    close_graph(&r);
}

/* The mean of K equal numbers, added one by one: the naive replay is off by as much. */
static void test_reduce__naive_replay_adds_in_one_chain(void **state) {
    (void)state;
    enum { K = 65536 };
    static double x[K];
    const pl_replay_options native = { .native = true };
    pl_replay *replay = NULL;
    run r;
    pl_datum *d = NULL;
    float chain = 0;
    for (int i = 0; i < K; i++) {
        x[i] = 0.1;
        chain += 0.1f;
    }
    open_graph(&r, 13, "(float[65536,1] x) => (y) { y = ReduceMean<axes=[0]>(x) }");
    put(&r, "x", x, NULL);
    run_nodes(&r);
    assert_int_equal(pl_replay_new(r.model, &native, &replay, &r.err), PL_OK);
    pl_tensor *t = tensor_of(PL_F32, 2, (int64_t[]){ K, 1 }, x);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    assert_int_equal(pl_replay_put(replay, pl_graph_find(r.model->graph, "x"), d, NULL, &r.err),
                     PL_OK);
    assert_int_equal(pl_replay_node(replay, r.model->graph->nodes[0], &r.err), PL_OK);
    const pl_datum *y = pl_replay_get(replay, pl_graph_find(r.model->graph, "y"));
    const double a = pl_tensor_get_f64(y->tensor, 0);
    assert_true(a == (double)(chain / (float)K));
    assert_true(q_of(&r, 0, a, PL_F32) > 50); /* blame.md: 79.7 */
    pl_replay_free(replay);
    pl_datum_unref(d);
    close_graph(&r);
}

static void test_cum_sum__first_element_is_exact(void **state) {
    (void)state;
    run r;
    run_one(&r, 14, "(float[3] x) => (y) <int64 a = {0}> { y = CumSum(x, a) }",
            (double[]){ 0.1f, 0.2f, -0.3f }, NULL);
    assert_true(bound_at(&r, "y", 0) == 0);
    assert_true(bound_at(&r, "y", 2) >= U * 0.3); /* although the sum is 0 */
    close_graph(&r);
}

static void test_arg_max__ties_within_reach(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2,3] x) => (y) { y = ArgMax<axis=1>(x) }",
            (double[]){ 1, 3, 2, 1, 1.0000001, 0 },
            (double[]){ 1e-6, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6 });
    assert_true(bound_at(&r, "y", 0) == 0 && bound_at(&r, "y", 1) == 1);
    close_graph(&r);
}

static void test_top_k__values_and_indices(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[4] x) => (y, i) <int64[1] k = {2}> { y, i = TopK(x, k) }",
            (double[]){ 9, 5, 5.0000001, 1 }, (double[]){ 1e-6, 1e-6, 1e-6, 1e-6 });
    assert_true(bound_at(&r, "y", 1) == 1e-6);
    assert_true(bound_at(&r, "i", 0) == 0 && bound_at(&r, "i", 1) > 0);
    close_graph(&r);
}

/* ---- softmax ---- */

static void test_softmax__far_below_and_nonfinite(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = Softmax(x) }", (double[]){ 0, -200 }, NULL);
    assert_true(bound_at(&r, "y", 0) < 1e-6 && bound_at(&r, "y", 1) < 1e-80);
    assert_true(q_of(&r, 1, 0, PL_F32) < 1); /* flushed */
    close_graph(&r);
    run_one(&r, 13, "(float[2] x) => (y) { y = LogSoftmax(x) }", (double[]){ 0, -INFINITY }, NULL);
    assert_true(isfinite(bound_at(&r, "y", 0)) && !isnan(bound_at(&r, "y", 1)));
    close_graph(&r);
}

static void test_softmax__never_more_than_all(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[2] x) => (y) { y = Softmax(x) }", (double[]){ 1, 2 },
            (double[]){ 1e6, 1e6 });
    assert_true(bound_at(&r, "y", 0) <= 1.1 && bound_at(&r, "y", 1) >= 0.5);
    close_graph(&r);
}

/* ---- odd values ---- */

static void test_denormals__may_be_flushed(void **state) {
    (void)state;
    run r;
    run_one(&r, 13, "(float[1] x) => (y) { y = Log(x) }", (double[]){ 0x1p-140 }, NULL);
    assert_true(isinf(bound_at(&r, "y", 0)));
    close_graph(&r);
    run_one(&r, 13, "(float[1] x) => (y) { y = Exp(x) }", (double[]){ -95 }, NULL);
    assert_true(q_of(&r, 0, 0, PL_F32) < 2);
    close_graph(&r);
}

static void test_nonfinite__bounds_stay_numbers(void **state) {
    (void)state;
    static const char *const ops[] = { "Exp",       "Tanh",      "Sigmoid",  "Relu",
                                       "Sqrt",      "Abs",       "Elu",      "Sin",
                                       "Softplus",  "Erf",       "Softsign", "Floor",
                                       "HardSwish", "LeakyRelu", "Atan",     "Sign" };
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        char graph[96];
        run r;
        snprintf(graph, sizeof(graph), "(float[4] x) => (y) { y = %s(x) }", ops[i]);
        run_one(&r, 14, graph, (double[]){ INFINITY, -INFINITY, NAN, 1 }, NULL);
        for (int64_t k = 0; k < 4; k++)
            if (isfinite(value_at(&r, "y", k)) && !isfinite(bound_at(&r, "y", k)))
                fail_msg("%s: bound %g at %d", ops[i], bound_at(&r, "y", k), (int)k);
        close_graph(&r);
    }
}

static void test_half__stored_result_rounds_and_sums_do_not(void **state) {
    (void)state;
    enum { K = 1024 };
    static double x[K];
    run r;
    for (int i = 0; i < K; i++)
        x[i] = 1;
    run_one(&r, 13, "(float16[1024] x) => (y) { y = ReduceSum(x) }", x, NULL);
    const double half = 0x1p-11;
    assert_true(bound_at(&r, "y", 0) >= half * 1024 && bound_at(&r, "y", 0) < 1.2 * half * 1024);
    close_graph(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sigmoid__tail_is_absolute),
        cmocka_unit_test(test_elu__near_zero_allows_exp_minus_one),
        cmocka_unit_test(test_relu__dead_elements_have_no_slack),
        cmocka_unit_test(test_clip__bounds_swapped_and_errors),
        cmocka_unit_test(test_hard_sigmoid__kink_has_slack_and_plateau_none),
        cmocka_unit_test(test_thresholded_relu__jump_is_allowed_only_there),
        cmocka_unit_test(test_arithmetic__is_rounded_once),
        cmocka_unit_test(test_arithmetic__zero_times_anything_is_exact),
        cmocka_unit_test(test_arithmetic__integers_are_exact),
        cmocka_unit_test(test_arithmetic__old_broadcasting_finds_its_axis),
        cmocka_unit_test(test_division__by_a_possible_zero_is_open),
        cmocka_unit_test(test_mod__jumps_just_below_a_multiple),
        cmocka_unit_test(test_max_min__take_the_larger_error),
        cmocka_unit_test(test_comparison__is_uncertain_only_within_reach),
        cmocka_unit_test(test_logic__certain_operand_decides),
        cmocka_unit_test(test_rounding__exact_input_has_no_slack),
        cmocka_unit_test(test_cast__truncation_reaches_what_the_error_reaches),
        cmocka_unit_test(test_cast__to_half_rounds_and_back_does_not),
        cmocka_unit_test(test_is_inf__sees_overflow_of_the_models_type),
        cmocka_unit_test(test_reduce__one_term_is_exact),
        cmocka_unit_test(test_reduce__zeros_and_empty),
        cmocka_unit_test(test_reduce__min_takes_the_largest_error),
        cmocka_unit_test(test_reduce__naive_replay_adds_in_one_chain),
        cmocka_unit_test(test_cum_sum__first_element_is_exact),
        cmocka_unit_test(test_arg_max__ties_within_reach),
        cmocka_unit_test(test_top_k__values_and_indices),
        cmocka_unit_test(test_softmax__far_below_and_nonfinite),
        cmocka_unit_test(test_softmax__never_more_than_all),
        cmocka_unit_test(test_denormals__may_be_flushed),
        cmocka_unit_test(test_nonfinite__bounds_stay_numbers),
        cmocka_unit_test(test_half__stored_result_rounds_and_sums_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
