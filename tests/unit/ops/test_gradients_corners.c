/* Gradients at the ends of what a type holds: in float16 and bfloat16 against the same graph in
 * double, and of tensors without elements. */
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

#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "passes/backward.h"

enum { MAX_PORTS = 16, MAX_RANGES = 4 };

typedef struct corner {
    int opset;
    const char *graph, *ranges[MAX_RANGES];
} corner;

static pl_status run(pl_model *model, bool fp64, pl_datum *const *in, pl_datum **out, pl_err *err) {
    const pl_interp_options options = { .fp64 = fp64, .seed = 1 };
    pl_interp *interp = NULL;
    pl_status st = pl_interp_new(model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, in, out, err);
    pl_interp_free(interp);
    return st;
}

static double largest(const pl_tensor *t) {
    double most = 0;
    for (int64_t i = 0; i < t->n_elements; i++)
        most = fmax(most, fabs(pl_tensor_get_f64(t, i)));
    return most;
}

/* Is every element within this part of the largest one? Prints the first that is not. */
static bool is_near(const char *graph, const char *name, const pl_tensor *a, const pl_tensor *d,
                    double part) {
    const double limit = part * largest(d) + 1e-6;
    if (!pl_tensor_same_shape(a, d)) {
        fprintf(stderr, "'%s': %s has another shape\n", graph, name);
        return false;
    }
    for (int64_t i = 0; i < a->n_elements; i++) {
        const double x = pl_tensor_get_f64(a, i), y = pl_tensor_get_f64(d, i);
        if (fabs(x - y) <= limit) continue;
        fprintf(stderr, "'%s': %s[%lld] is %.6g, in double %.6g\n", graph, name, (long long)i, x,
                y);
        return false;
    }
    return true;
}

/* The model with its gradients, on generated inputs and incoming gradients. */
static size_t check(const corner *k, double part) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL, *joint = NULL;
    pl_datum *in[MAX_PORTS] = { NULL }, *out[MAX_PORTS] = { NULL }, *want[MAX_PORTS] = { NULL };
    plumb_inputs source = { .seed = 1, .ranges = k->ranges };
    size_t n_bad = 0;
    while (source.n_ranges < MAX_RANGES && k->ranges[source.n_ranges] != NULL)
        source.n_ranges++;
    pl_status st = pl_model_parse_graph(k->graph, k->opset, &model, &err);
    if (st == PL_OK) st = pl_ops_resolve(model, &err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, &err);
    if (st == PL_OK) st = pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err);
    if (st == PL_OK) st = pl_inputs_make(joint, &source, in, &err);
    if (st == PL_OK) st = run(joint, false, in, out, &err);
    if (st == PL_OK) st = run(joint, true, in, want, &err);
    if (st != PL_OK) {
        fprintf(stderr, "'%s': %s\n", k->graph, err.message);
        n_bad++;
    }
    for (size_t i = 0; st == PL_OK && i < joint->graph->n_outputs; i++)
        if (!is_near(k->graph, joint->graph->outputs[i]->name, out[i]->tensor, want[i]->tensor,
                     part))
            n_bad++;
    for (size_t i = 0; st == PL_OK && i < joint->graph->n_outputs; i++) {
        for (size_t x = 0; x < model->graph->n_inputs; x++) {
            const char *name = joint->graph->outputs[i]->name;
            if (strncmp(name, "d_", 2) != 0 || strcmp(name + 2, model->graph->inputs[x]->name) != 0)
                continue;
            if (!pl_tensor_same_shape(out[i]->tensor, in[x]->tensor)) {
                fprintf(stderr, "'%s': %s has another shape than its input\n", k->graph, name);
                n_bad++;
            }
        }
    }
    for (size_t i = 0; i < MAX_PORTS; i++) {
        pl_datum_unref(in[i]);
        pl_datum_unref(out[i]);
        pl_datum_unref(want[i]);
    }
    pl_model_free(joint);
    pl_model_free(model);
    return n_bad;
}

/* Squares beyond 256, sums beyond 65504 and an epsilon below 2^-24 leave float16, although neither
 * the operator's result nor its gradient does: the kernels compute in float. */
static void test_gradients_corners__float16_keeps_its_range(void **state) {
    static const corner corners[] = {
        { 17,
          "(float16[3,16] x, float16[16] s, float16[16] b) => (y) "
          "{ y = LayerNormalization(x, s, b) }",
          { "x=-600:600" } },
        { 17,
          "(float16[3,16] x, float16[16] s, float16[16] b) => (y) "
          "{ y = LayerNormalization<epsilon=1e-12>(x, s, b) }",
          { "x=-0.001:0.001" } },
        { 23,
          "(float16[3,16] x, float16[16] s) => (y) { y = RMSNormalization(x, s) }",
          { "x=-600:600" } },
        { 17,
          "(float16[2,3,16] x, float16[3] s, float16[3] b) => (y) "
          "{ y = InstanceNormalization(x, s, b) }",
          { "x=-600:600" } },
        { 21,
          "(float16[2,4,16] x, float16[4] s, float16[4] b) => (y) "
          "{ y = GroupNormalization<num_groups=2>(x, s, b) }",
          { "x=-600:600" } },
        { 17,
          "(float16[2,4,16] x, float16[4] s, float16[4] b, float16[4] m, float16[4] v) => "
          "(y, a, e) { y, a, e = BatchNormalization<training_mode=1>(x, s, b, m, v) }",
          { "x=-400:400" } },
        { 17, "(float16[2,4,16] x) => (y) { y = LRN<size=3>(x) }", { "x=-600:600" } },
        { 17,
          "(float16[2,4,16,3] x) => (y) { y = MeanVarianceNormalization(x) }",
          { "x=-600:600" } },
        { 17,
          "(float16[2,4,16] x, float16[2,4,16] z, float16[16] s, float16[16] b) => (y) "
          "{ y = com.microsoft.SkipLayerNormalization(x, z, s, b) }",
          { "x=-600:600" } },
        { 20,
          "(float16[2,30] x) => (y) { y = Gelu<approximate=\"tanh\">(x) }",
          { "x=-1000:1000" } },
        { 17, "(float16[2,30] x) => (y) { y = com.microsoft.FastGelu(x) }", { "x=-1000:1000" } },
        { 17, "(float16[2,30] x) => (y) { y = Softsign(x) }", { "x=256:300" } },
        { 17, "(float16[2,30] x) => (y) { y = Atan(x) }", { "x=256:300" } },
        { 17, "(float16[2,30] x) => (y) { y = Asinh(x) }", { "x=-1000:1000" } },
        { 17, "(float16[2,30] x) => (y) { y = Acosh(x) }", { "x=200:1000" } },
        { 24,
          "(float16[2,4,3,64] q, float16[2,2,5,64] k, float16[2,2,5,64] v) => (y) "
          "{ y = Attention<scale=0.00001>(q, k, v) }",
          { "q=50:60", "k=50:60" } },
        { 17,
          "(float16[2,4,64] q, float16[2,5,64] k, float16[2,5,64] v) => (y) "
          "{ y = com.microsoft.MultiHeadAttention<num_heads=1, scale=0.00001>(q, k, v) }",
          { "q=50:60", "k=50:60" } },
        { 17,
          "(float16[1,2,260,260] x, int64[1,260,260] t) => (y) "
          "{ y = SoftmaxCrossEntropyLoss(x, t) }",
          { "t=0:1" } },
    };
    (void)state;
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(corners) / sizeof(*corners); i++)
        n_bad += check(&corners[i], 0.02);
    assert_int_equal(n_bad, 0);
}

/* What is left of x - mean has few digits of bfloat16. */
static void test_gradients_corners__bfloat16_keeps_differences(void **state) {
    static const corner corners[] = {
        { 17,
          "(bfloat16[2,30] x, bfloat16[30] s, bfloat16[30] b) => (y) "
          "{ y = LayerNormalization(x, s, b) }",
          { "x=100:110" } },
    };
    (void)state;
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(corners) / sizeof(*corners); i++)
        n_bad += check(&corners[i], 0.03);
    assert_int_equal(n_bad, 0);
}

static void test_gradients_corners__of_nothing_are_zeros(void **state) {
    static const corner corners[] = {
        { 17, "(float[2,3] x) => (y) <int64[2] r = {1, 0}> { y = Tile(x, r) }", { NULL } },
        { 12, "(float[0,3] x) => (y) <int64[2] r = {2, 2}> { y = Tile(x, r) }", { NULL } },
        { 17, "(float[2,0,0] x) => (y) { y = Det(x) }", { NULL } },
        { 17,
          "(float[1,4,3,0] x) => (y) { y = DepthToSpace<blocksize=2, mode=\"CRD\">(x) }",
          { NULL } },
        { 17, "(float[0,4,5] x) => (y) { y = GlobalMaxPool(x) }", { NULL } },
        { 21,
          "(float[0,4,3] x, float[4] s, float[4] b) => (y) "
          "{ y = GroupNormalization<num_groups=2>(x, s, b) }",
          { NULL } },
        { 17, "(float[0,4,3] x) => (y) { y = LRN<size=3>(x) }", { NULL } },
        { 17,
          "(float[3,0,4] x, float[1,5,4] w, float[1,5,5] r) => (y, h) "
          "{ y, h = RNN<hidden_size=5>(x, w, r) }",
          { NULL } },
        { 24,
          "(float[2,0,8] q, float[2,3,4] k, float[2,3,4] v) => (y) "
          "{ y = Attention<q_num_heads=2, kv_num_heads=1>(q, k, v) }",
          { NULL } },
        { 23,
          "(float[2,3,8] q, float[2,0,4] k, float[2,0,6] v) => (y) "
          "{ y = Attention<q_num_heads=2, kv_num_heads=1>(q, k, v) }",
          { NULL } },
        { 24,
          "(float[2,3,8] q, float[2,0,8] k, float[2,0,8] v, float[3,0] m) => (y) "
          "{ y = Attention<q_num_heads=2, kv_num_heads=2, is_causal=1>(q, k, v, m) }",
          { NULL } },
        { 23,
          "(float[2,3,8] q, float[2,0,8] k, float[2,0,8] v, float[2,2,4,4] a, float[2,2,4,4] b) "
          "=> (y, c, d) { y, c, d = Attention<q_num_heads=2, kv_num_heads=2>(q, k, v, , a, b) }",
          { NULL } },
        { 17,
          "(float[2,3,8] q, float[2,0,8] k, float[2,0,6] v) => (y) "
          "{ y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v) }",
          { NULL } },
    };
    (void)state;
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(corners) / sizeof(*corners); i++)
        n_bad += check(&corners[i], 1e-5);
    assert_int_equal(n_bad, 0);
}

/* The gradient's own nodes are of the model's ai.onnx opset. In a model whose operator is of
 * another domain that may be 1, where a Cast or a ReduceSum is not what the rules need. */
static pl_status backward_at(int opset, const pl_op_def *row, const char *graph, pl_err *err) {
    pl_model *model = NULL, *joint = NULL;
    pl_status st = pl_model_parse_graph(graph, opset, &model, err);
    if (st == PL_OK) st = pl_model_set_opset(model, row->domain, row->since, err);
    if (st == PL_OK) st = pl_ops_resolve(model, err);
    if (st == PL_OK) st = pl_model_infer(model, NULL, err);
    if (st == PL_OK) st = pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, err);
    pl_model_free(joint);
    pl_model_free(model);
    return st;
}

static void test_gradients_corners__in_an_old_opset_are_made_or_refused(void **state) {
    static const int opsets[] = { 1, 6, 9, 12, 17 };
    const pl_op_def *row;
    size_t n = 0, n_refused = 0;
    (void)state;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        const bool foreign = row->domain != NULL && row->domain[0] != '\0';
        for (size_t k = 0; foreign && row->samples[k].graph != NULL; k++) {
            for (size_t v = 0; v < sizeof(opsets) / sizeof(opsets[0]); v++, n++) {
                pl_err err = PL_ERR_INIT;
                if (backward_at(opsets[v], row, row->samples[k].graph, &err) == PL_OK) continue;
                if (err.message[0] == '\0') fail_msg("no reason: %s", row->samples[k].graph);
                n_refused++;
            }
        }
    }
    assert_true(n >= 400);
    assert_true(n_refused > 0 && n_refused < n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_corners__float16_keeps_its_range),
        cmocka_unit_test(test_gradients_corners__bfloat16_keeps_differences),
        cmocka_unit_test(test_gradients_corners__of_nothing_are_zeros),
        cmocka_unit_test(test_gradients_corners__in_an_old_opset_are_made_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
