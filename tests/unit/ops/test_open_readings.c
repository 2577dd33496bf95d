/* Where the words of ONNX settle what an operator computes, and where they do not and the kernel
 * has two readings (PL_OP_OPEN). Expected values are worked out here from the words. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"

static void assert_near(double found, double expected, double off) {
    if (!(fabs(found - expected) <= off)) fail_msg("%.17g, expected %.17g", found, expected);
}

/* Replays the whole graph, which has no inputs, in fp64; output k as a new reference. */
static pl_tensor *replay(const char *graph, int opset, bool otherwise, size_t k) {
    const pl_replay_options options = { .otherwise = otherwise };
    pl_model *model = NULL;
    pl_replay *r = NULL;
    pl_err err = PL_ERR_INIT;
    pl_status st = pl_model_parse_graph(graph, opset, &model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, &err);
    if (st == PL_OK) st = pl_replay_new(model, &options, &r, &err);
    for (size_t i = 0; st == PL_OK && i < model->graph->n_nodes; i++)
        st = pl_replay_node(r, model->graph->nodes[i], &err);
    if (st != PL_OK) fail_msg("%s", err.message);
    const pl_datum *d = pl_replay_get(r, model->graph->outputs[k]);
    assert_non_null(d);
    pl_tensor *t = pl_tensor_ref(d->tensor);
    pl_replay_free(r);
    pl_model_free(model);
    return t;
}

/* ONNX LSTM-14: clip is applied to the input of activations, and h is one of the three. */
static void test_lstm__clips_before_every_activation(void **state) {
    (void)state;
    static const char graph[] =
        "() => (h, c) <float[1,1,1] x = {0}, float[1,4,1] w = {0, 0, 0, 0}, float[1,4,1] r = "
        "{0, 0, 0, 0}, float[1,8] b = {3, 3, 3, 3, 0, 0, 0, 0}, float[1,1,1] h0 = {0}, "
        "float[1,1,1] c0 = {4}> { y, h, c = LSTM<hidden_size=1, clip=1.0>(x, w, r, b, , h0, c0) }";
    const double gate = 1 / (1 + exp(-1)), cell = gate * 4 + gate * tanh(1);
    pl_tensor *h = replay(graph, 17, false, 0), *c = replay(graph, 17, false, 1);
    assert_true(cell > 3); /* far beyond the limit */
    assert_near(pl_tensor_get_f64(h, 0), gate * tanh(1), 1e-12);
    assert_near(pl_tensor_get_f64(c, 0), cell, 1e-12);
    pl_tensor_unref(h);
    pl_tensor_unref(c);
}

/* ONNX ReduceMean-18: reduction over an empty set of values yields undefined. */
static void test_mean_of_nothing__is_nan_or_zero(void **state) {
    (void)state;
    static const char graph[] = "() => (y) <float[2,0] x = {}, int64[1] a = {1}> "
                                "{ y = ReduceMean<keepdims=0>(x, a) }";
    for (int otherwise = 0; otherwise < 2; otherwise++) {
        pl_tensor *y = replay(graph, 18, otherwise != 0, 0);
        assert_int_equal(y->n_elements, 2);
        for (int64_t i = 0; i < 2; i++) {
            const double v = pl_tensor_get_f64(y, i);
            assert_true(otherwise != 0 ? v == 0 : isnan(v));
        }
        pl_tensor_unref(y);
    }
    pl_tensor *sum = replay("() => (y) <float[2,3] x = {1, 2, 3, 4, 5, 9}, int64[1] a = {1}> "
                            "{ y = ReduceMean<keepdims=0>(x, a) }",
                            18, true, 0);
    assert_near(pl_tensor_get_f64(sum, 1), 6, 1e-12); /* nothing is open there */
    pl_tensor_unref(sum);
}

/* Weights of Keys' kernel with a = -0.75 at distance t from the second of four taps. */
static double keys(double d) {
    const double a = -0.75, x = fabs(d);
    if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/* A row of 4 pixels, sampled 0.6 of a pixel beside the first centre: clamped to it, or by taps that
 * are clamped each for itself, as torch.nn.functional.grid_sample does. */
static void test_cubic_border__clamps_the_place_or_the_taps(void **state) {
    (void)state;
    static const char graph[] =
        "() => (y) <float[1,1,1,4] x = {2, 7, -1, 4}, "
        "float[1,1,1,2] g = {-1.05, 0}> "
        "{ y = GridSample<mode=\"bicubic\", padding_mode=\"border\">(x, g) }";
    static const double row[4] = { 2, 7, -1, 4 };
    const double place = ((-1.05F + 1.0) * 4 - 1) / 2;
    double taps = 0;
    for (int k = -2; k <= 1; k++)
        taps += keys(place - k) * row[k < 0 ? 0 : k];
    pl_tensor *first = replay(graph, 16, false, 0), *other = replay(graph, 16, true, 0);
    assert_near(pl_tensor_get_f64(first, 0), 2, 1e-12);
    assert_near(pl_tensor_get_f64(other, 0), taps, 1e-6);
    assert_true(fabs(taps - 2) > 0.1);
    pl_tensor_unref(first);
    pl_tensor_unref(other);
}

/* ONNX Conv-11 pads; whether that is zeros, which times Inf are NaN, or is left out of the sum it
 * does not say. With finite weights nothing is open. */
static void test_padding__is_zeros_or_left_out(void **state) {
    (void)state;
    static const char *const graphs[] = {
        "() => (y) <float[1,1,3] x = {2, 3, 4}, float[1,1,2] w = {inf, 1}> "
        "{ y = Conv<pads=[1,0]>(x, w) }",
        "() => (y) <float[1,1,1,1,1,3] x = {2, 3, 4}, float[1,1,1,1,1,2] w = {inf, 1}> "
        "{ y = Conv<pads=[0,0,0,1,0,0,0,0]>(x, w) }",
        "() => (y) <float[1,1,3] x = {2, 3, 4}, float[1,1,2] w = {5, 1}> "
        "{ y = Conv<pads=[1,0]>(x, w) }",
    };
    for (int i = 0; i < 6; i++) {
        const bool otherwise = i % 2 != 0, finite = i / 2 == 2;
        pl_tensor *y = replay(graphs[i / 2], 13, otherwise, 0);
        assert_int_equal(y->n_elements, 3);
        const double first = pl_tensor_get_f64(y, 0), second = pl_tensor_get_f64(y, 1);
        assert_true(otherwise || finite ? first == 2 : isnan(first));
        assert_true(finite ? second == 13 : second == INFINITY);
        pl_tensor_unref(y);
    }
}

/* com.microsoft MultiHeadAttention: "every token can only attend to previous tokens". Scores are
 * equal, so a query's answer is the mean of the values it sees. With a bias it is spelt in other
 * nodes. With as many queries as keys nothing is open. */
static void test_unidirectional__the_last_query_sees_its_keys_or_all(void **state) {
    (void)state;
    static const char *const graphs[] = {
        "() => (y) <float[1,2,1] q = {0, 0}, float[1,4,1] k = {0, 0, 0, 0}, "
        "float[1,4,1] v = {1, 2, 4, 8}> "
        "{ y = com.microsoft.MultiHeadAttention<num_heads=1, unidirectional=1>(q, k, v) }",
        "() => (y) <float[1,2,1] q = {0, 0}, float[1,4,1] k = {0, 0, 0, 0}, "
        "float[1,4,1] v = {0, 1, 3, 7}, float[3] b = {0, 0, 1}> "
        "{ y = com.microsoft.MultiHeadAttention<num_heads=1, unidirectional=1>(q, k, v, b) }",
        ("() => (y) <float[1,2,1] q = {0, 0}, float[1,2,1] v = {1, 2}> "
         "{ y = com.microsoft.MultiHeadAttention<num_heads=1, unidirectional=1>(q, q, v) }"),
    };
    for (int i = 0; i < 6; i++) {
        const bool all = i % 2 != 0 && i / 2 < 2;
        pl_tensor *y = replay(graphs[i / 2], 13, i % 2 != 0, 0);
        assert_near(pl_tensor_get_f64(y, 0), 1, 1e-12);
        assert_near(pl_tensor_get_f64(y, 1), all ? 15 / 4.0 : 3 / 2.0, 1e-12);
        pl_tensor_unref(y);
    }
}

/* ONNX ai.onnx.ml Normalizer-1 says "X / max(X)", its reference divides by the largest |x|. */
static void test_normalizer__divides_by_the_largest_or_the_farthest(void **state) {
    (void)state;
    static const char graph[] = "() => (y) <float[3,2] x = {1, -4, -1, -2, 3, 2}> "
                                "{ y = ai.onnx.ml.Normalizer<norm=\"MAX\">(x) }";
    static const double expected[2][6] = { { 0.25, -1, -0.5, -1, 1, 2 / 3.0 },
                                           { 1, -4, 1, 2, 1, 2 / 3.0 } };
    for (int otherwise = 0; otherwise < 2; otherwise++) {
        pl_tensor *y = replay(graph, 13, otherwise != 0, 0);
        for (int64_t i = 0; i < 6; i++)
            assert_near(pl_tensor_get_f64(y, i), expected[otherwise][i], 1e-12);
        pl_tensor_unref(y);
    }
}

/* One model for two classes: what the first class scores ai.onnx.ml LinearClassifier-1 does not
 * say. That a post transform is applied it does. */
static void test_linear_classifier__scores_the_first_class_by_its_margin_or_the_rest(void **state) {
    (void)state;
    static const char *const graphs[] = {
        "() => (l, y) <float[1,1] x = {0.25}> { l, y = ai.onnx.ml.LinearClassifier<coefficients="
        "[1.0], intercepts=[0.0], classlabels_ints=[3, 5]>(x) }",
        "() => (l, y) <float[1,1] x = {0.25}> { l, y = ai.onnx.ml.LinearClassifier<coefficients="
        "[1.0], intercepts=[0.0], classlabels_ints=[3, 5], post_transform=\"SOFTMAX\">(x) }",
    };
    const double soft = 1 / (1 + exp(-0.5));
    for (int otherwise = 0; otherwise < 2; otherwise++) {
        pl_tensor *y = replay(graphs[0], 13, otherwise != 0, 1);
        assert_near(pl_tensor_get_f64(y, 0), otherwise != 0 ? 0.75 : -0.25, 1e-12);
        assert_near(pl_tensor_get_f64(y, 1), 0.25, 1e-12);
        pl_tensor_unref(y);
        y = replay(graphs[1], 13, otherwise != 0, 1);
        assert_near(pl_tensor_get_f64(y, 1), soft, 1e-12);
        pl_tensor_unref(y);
        y = replay(graphs[0], 13, otherwise != 0, 0);
        assert_near(pl_tensor_get_f64(y, 0), 5, 0);
        pl_tensor_unref(y);
    }
}

/* Dropout-10 in inference: all elements are kept; what the mask says of it is open. */
static void test_dropout__has_a_mask_of_ones_or_zeros(void **state) {
    (void)state;
    static const char graph[] = "() => (y, m) <float[3] x = {1, 2, 3}> { y, m = Dropout(x) }";
    for (int otherwise = 0; otherwise < 2; otherwise++) {
        pl_tensor *y = replay(graph, 10, otherwise != 0, 0);
        pl_tensor *m = replay(graph, 10, otherwise != 0, 1);
        pl_tensor *now = replay(graph, 13, otherwise != 0, 1); /* settled since 12 */
        assert_near(pl_tensor_get_f64(y, 2), 3, 0);
        assert_near(pl_tensor_get_f64(m, 2), otherwise != 0 ? 0 : 1, 0);
        assert_near(pl_tensor_get_f64(now, 2), 1, 0);
        pl_tensor_unref(y);
        pl_tensor_unref(m);
        pl_tensor_unref(now);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lstm__clips_before_every_activation),
        cmocka_unit_test(test_mean_of_nothing__is_nan_or_zero),
        cmocka_unit_test(test_cubic_border__clamps_the_place_or_the_taps),
        cmocka_unit_test(test_padding__is_zeros_or_left_out),
        cmocka_unit_test(test_unidirectional__the_last_query_sees_its_keys_or_all),
        cmocka_unit_test(test_normalizer__divides_by_the_largest_or_the_farthest),
        cmocka_unit_test(test_dropout__has_a_mask_of_ones_or_zeros),
        cmocka_unit_test(test_linear_classifier__scores_the_first_class_by_its_margin_or_the_rest),
    };
    return cmocka_run_group_tests_name("open_readings", tests, NULL, NULL);
}
