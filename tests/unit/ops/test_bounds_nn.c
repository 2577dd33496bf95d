/* Error bounds of neural-network operators: errors of the inputs come out within the bound, on
 * every sample; the edges of blame.md section 6; the naive reference adds in one chain. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blame/local_error.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "ops/infer.h"

enum { MAX_PORTS = 64, N_SEEDS = 2 };

/* ---- running ---- */

typedef struct setup {
    pl_model *model;
    pl_datum *in[MAX_PORTS];
} setup;

static pl_status prepare(const char *graph, const char *domain, int version, const char *ranges,
                         uint64_t seed, setup *s, pl_err *err) {
    char text[256] = "";
    const char *list[16];
    plumb_inputs source = { .seed = seed, .ranges = list };
    const bool onnx = domain == NULL || domain[0] == 0;
    memset(s, 0, sizeof(*s));
    PL_TRY(pl_model_parse_graph(graph, onnx ? version : 17, &s->model, err));
    if (!onnx) {
        PL_TRY(pl_model_set_opset(s->model, domain, version, err));
        for (size_t i = 0; i < s->model->graph->n_nodes; i++)
            if (strcmp(s->model->graph->nodes[i]->domain, domain) == 0)
                s->model->graph->nodes[i]->opset = version;
    }
    PL_TRY(pl_ops_resolve(s->model, err));
    PL_TRY(pl_model_infer(s->model, NULL, err));
    if (ranges != NULL) snprintf(text, sizeof(text), "%s", ranges);
    for (char *w = strtok(text, " "); w != NULL && source.n_ranges < 16; w = strtok(NULL, " "))
        list[source.n_ranges++] = w;
    return pl_inputs_make(s->model, &source, s->in, err);
}

static void release(setup *s) {
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(s->in[i]);
    pl_model_free(s->model);
}

static pl_status replay(const setup *s, pl_tensor *const *bounds, const pl_replay_options *options,
                        pl_replay **out, pl_err *err) {
    const pl_graph *g = s->model->graph;
    PL_TRY(pl_replay_new(s->model, options, out, err));
    for (size_t i = 0; i < g->n_inputs; i++) {
        if (s->in[i] == NULL) continue;
        PL_TRY(pl_replay_put(*out, g->inputs[i], s->in[i], bounds == NULL ? NULL : bounds[i], err));
    }
    for (size_t i = 0; i < g->n_nodes; i++)
        PL_TRY(pl_replay_node(*out, g->nodes[i], err));
    return PL_OK;
}

static double next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53 * 2 - 1;
}

/* ---- inherited errors ---- */

/* Floats of input i moved by at most `size` of their magnitude; *bound: by how much at most. */
static void move_input(setup *s, size_t i, double size, uint64_t *state, pl_tensor **bound) {
    if (s->in[i] == NULL || s->in[i]->kind != PL_TYPE_TENSOR) return;
    const pl_tensor *t = s->in[i]->tensor;
    if (!pl_dtype_is_float(t->dtype)) return;
    pl_tensor *x = NULL;
    assert_int_equal(pl_tensor_cast(t, PL_F64, &x, NULL), PL_OK);
    assert_int_equal(pl_tensor_new(PL_F64, t->rank, t->dims, bound, NULL), PL_OK);
    double *to = x->data, *e = (*bound)->data;
    for (int64_t k = 0; k < t->n_elements; k++) {
        e[k] = size * fabs(to[k]);
        to[k] += e[k] * next_random(state);
    }
    pl_datum_unref(s->in[i]);
    assert_int_equal(pl_datum_of_tensor_take(x, &s->in[i], NULL), PL_OK);
}

static bool mine(const char *family) {
    static const char *const names[] = {
        "matmul", "einsum", "integer_matmul", "conv",      "integer_conv", "conv_special",
        "pool",   "norm",   "batch_norm",     "attention", "rnn",          "linear_attention",
        "resize", "image",  "region",         "signal",    "ms_fused",     "ms_attention"
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], family) == 0) return true;
    return false;
}

/* The replay of moved inputs against the replay of the true ones with bounds: how far is it off? */
static double moved_by(const pl_op_def *row, const pl_sample *sample, uint64_t seed,
                       double *loosest) {
    pl_err err = PL_ERR_INIT;
    setup s, moved;
    pl_tensor *bounds[MAX_PORTS] = { NULL };
    pl_replay *truth = NULL, *other = NULL;
    const pl_replay_options plain = { .no_bounds = true }, with = { 0 };
    uint64_t state = seed * 77 + 1;
    double worst = 0;
    pl_status st = prepare(sample->graph, row->domain, row->since, sample->ranges, seed, &s, &err);
    if (st == PL_OK)
        st = prepare(sample->graph, row->domain, row->since, sample->ranges, seed, &moved, &err);
    for (size_t i = 0; st == PL_OK && i < s.model->graph->n_inputs; i++)
        move_input(&moved, i, 1e-5, &state, &bounds[i]);
    if (st == PL_OK) st = replay(&s, bounds, &with, &truth, &err);
    if (st == PL_OK) st = replay(&moved, NULL, &plain, &other, &err);
    if (st != PL_OK) fprintf(stderr, "%s '%s': %s\n", row->name, sample->graph, err.message);
    assert_int_equal(st, PL_OK);
    for (size_t i = 0; i < s.model->graph->n_outputs; i++) {
        const pl_value *value = s.model->graph->outputs[i];
        const pl_datum *a = pl_replay_get(other, value), *d = pl_replay_get(truth, value);
        const pl_tensor *e = pl_replay_bound(truth, value);
        if (a == NULL || a->kind != PL_TYPE_TENSOR || a->tensor->dtype != PL_F64) continue;
        for (int64_t k = 0; k < a->tensor->n_elements; k++) {
            const double off =
                fabs(pl_tensor_get_f64(a->tensor, k) - pl_tensor_get_f64(d->tensor, k));
            const double bound = e == NULL ? 0 : pl_tensor_get_f64(e, k);
            if (off > 1e-300) worst = fmax(worst, off / (bound + 1e-300));
            *loosest = fmax(*loosest, bound / (fabs(pl_tensor_get_f64(d->tensor, k)) + 0.1));
        }
    }
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_tensor_unref(bounds[i]);
    pl_replay_free(truth);
    pl_replay_free(other);
    release(&s);
    release(&moved);
    return worst;
}

static void test_bounds_nn__cover_inherited_errors(void **state) {
    (void)state;
    const char *only = getenv("PLUMB_BOUND_OP");
    const pl_op_def *row = NULL;
    size_t n_bad = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (!mine(pl_op_family(i)) || row->bound == PL_BOUND_TODO) continue;
        if (only != NULL && strcmp(only, row->name) != 0) continue;
        for (const pl_sample *s = row->samples; s->graph != NULL; s++) {
            double worst = 0, loosest = 0;
            for (uint64_t seed = 1; seed <= N_SEEDS; seed++)
                worst = fmax(worst, moved_by(row, s, seed, &loosest));
            if (only != NULL)
                fprintf(stderr, "%s: inherited %.3g of the bound, bound %.3g of y\n", row->name,
                        worst, loosest);
            if (worst <= PL_Q_CULPRIT) continue;
            n_bad++;
            fprintf(stderr, "%s-%d '%s': off by %.3g bounds\n", row->name, row->since, s->graph,
                    worst);
        }
    }
    assert_int_equal(n_bad, 0);
}

/* ---- edges ---- */

/* q of the interpreter's own run at the model's precision. */
static double q_of(const char *graph, int opset, const char *ranges) {
    pl_err err = PL_ERR_INIT;
    setup s;
    pl_datum *out[MAX_PORTS] = { NULL };
    pl_interp *interp = NULL;
    pl_replay *r = NULL;
    const pl_replay_options options = { 0 };
    const pl_interp_options plain = { .seed = 1 };
    double worst = 0;
    pl_status st = prepare(graph, NULL, opset, ranges, 3, &s, &err);
    if (st == PL_OK) st = pl_interp_new(s.model, &plain, &interp, &err);
    if (st == PL_OK) st = pl_interp_run(interp, s.in, out, &err);
    if (st == PL_OK) st = replay(&s, NULL, &options, &r, &err);
    if (st != PL_OK) fprintf(stderr, "'%s': %s\n", graph, err.message);
    assert_int_equal(st, PL_OK);
    for (size_t i = 0; i < s.model->graph->n_outputs; i++) {
        const pl_value *value = s.model->graph->outputs[i];
        pl_local_error e;
        assert_int_equal(
            pl_local_error_measure(NULL, out[i]->tensor, pl_replay_get(r, value)->tensor,
                                   pl_replay_bound(r, value), out[i]->tensor->dtype, &e, NULL),
            PL_OK);
        worst = fmax(worst, e.q);
    }
    for (size_t i = 0; i < MAX_PORTS; i++)
        pl_datum_unref(out[i]);
    pl_replay_free(r);
    pl_interp_free(interp);
    release(&s);
    return worst;
}

/* Largest bound over largest magnitude of output 0. */
static double looseness(const char *graph, int opset, const char *ranges) {
    pl_err err = PL_ERR_INIT;
    setup s;
    pl_replay *r = NULL;
    const pl_replay_options options = { 0 };
    assert_int_equal(prepare(graph, NULL, opset, ranges, 3, &s, &err), PL_OK);
    assert_int_equal(replay(&s, NULL, &options, &r, &err), PL_OK);
    const pl_value *value = s.model->graph->outputs[0];
    const pl_tensor *e = pl_replay_bound(r, value);
    const double loose =
        e == NULL ? 0 : pl_tensor_max_abs(e) / pl_tensor_max_abs(pl_replay_get(r, value)->tensor);
    pl_replay_free(r);
    release(&s);
    return loose;
}

static void test_bounds_nn__hold_at_the_edges(void **state) {
    (void)state;
    static const struct edge {
        const char *graph, *ranges;
    } edges[] = {
        { "(float[3,1] a, float[1,4] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(float[3,0] a, float[0,4] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(float[0,3] a, float[3,4] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(float[3,3] a, float[3,4] b) => (y) { y = MatMul(a, b) }", "a=0:0" },
        { "(float[2,4096] a, float[4096,3] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(float[2,64] a, float[64,3] b) => (y) { y = MatMul(a, b) }", "a=1e20:3e20 b=1e18:3e18" },
        { "(float[2,64] a, float[64,3] b) => (y) { y = MatMul(a, b) }",
          "a=1e-30:1e-25 b=1e-9:1e-8" },
        { "(float16[8,64] a, float16[64,16] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(bfloat16[8,64] a, bfloat16[64,16] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(double[8,64] a, double[64,16] b) => (y) { y = MatMul(a, b) }", NULL },
        { "(float16[4,64] a, float16[64,8] b, float16[8] c) => (y) { y = Gemm<alpha=-0.5>(a, b, c) "
          "}",
          NULL },
        { "(float16[1,8,9,9] x, float16[8,1,3,3] w, float16[8] b) => (y) { y = Conv<group=8>(x, w, "
          "b) }",
          NULL },
        { "(float16[1,8,9,9] x, float16[8,1,3,3] w) => (y) { y = Conv<group=8>(x, w) }",
          "w=1e-7:1e-6" },
        { "(float[1,4,3,3] x, float[4,2,3,3] w) => (y) { y = ConvTranspose<group=2, "
          "strides=[2,2]>(x, w) }",
          NULL },
        { "(float[2,64] x, float[64] s, float[64] b) => (y) { y = LayerNormalization(x, s, b) }",
          "x=10000:10001" },
        { "(float[2,64] x, float[64] s, float[64] b) => (y) { y = LayerNormalization(x, s, b) }",
          "x=3:3" },
        { "(float16[2,64] x, float16[64] s, float16[64] b) => (y) { y = LayerNormalization(x, s, "
          "b) }",
          NULL },
        { "(float[2,3,50] x, float[3] s, float[3] b) => (y) { y = InstanceNormalization(x, s, b) }",
          "x=100:101" },
        { "(float[2,3,65,65] x) => (y) { y = GlobalAveragePool(x) }", "x=0:1" },
        { "(float16[2,3,15,15] x) => (y) { y = GlobalAveragePool(x) }", "x=0:1" },
        { "(float16[2,3,15,15] x) => (y) { y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x) "
          "}",
          NULL },
        { "(float[2,3,4] x) => (y) { y = LpNormalization(x) }", "x=0:0" },
        { "(float[1,1,3,3] x, float[1,1,3,3] w) => (y) { y = Conv(x, w) }", "x=1e-42:1e-40" },
        { "(float[4,2,3] x, float[1,20,3] w, float[1,20,5] r) => (y) { y = LSTM<hidden_size=5>(x, "
          "w, r) }",
          "x=50:100" },
        { "(float[0,2,3] x, float[1,20,3] w, float[1,20,5] r) => (y) { y = LSTM<hidden_size=5>(x, "
          "w, r) }",
          NULL },
        { "(float16[6,2,8] x, float16[1,24,8] w, float16[1,24,8] r) => (y) { y = "
          "GRU<hidden_size=8>(x, w, r) }",
          NULL },
        { "(float[2,1] x, float[1] s) => (y) { y = LayerNormalization(x, s) }", NULL },
    };
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        const double q = q_of(edges[i].graph, 17, edges[i].ranges);
        if (q <= 2) continue;
        fprintf(stderr, "'%s' %s: q = %g\n", edges[i].graph, edges[i].ranges, q);
        n_bad++;
    }
    assert_int_equal(n_bad, 0);
}

/* What is divided by nearly nothing may be anything, and so may all that is made of it. */
static void test_bounds_nn__unlimited_stays_unlimited(void **state) {
    (void)state;
#define NOTHING                                                                                    \
    "m = ReduceMean<axes=[1]>(x) s = Sub(x, m) q = ReduceSum<keepdims=1>(s) r = Div(two, q) "
    static const char *const ends[] = {
        "t = Mul(r, two) y = Tanh(t)",    "t = Mul(x, r) y = ReduceSum(t)",
        "t = Sin(r) y = Mul(t, two)",     "t = Pow(r, two) y = Mul(t, two)",
        "t = Mul(x, r) y = Softmax(t)",   "t = Add(x, r) y = LayerNormalization(t, w)",
        "t = Add(x, r) y = MatMul(t, w)",
    };
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "(float[1,19] x, float[19] w) => (y) <float two = {2}> { " NOTHING "%s }",
                 ends[i]);
        const double q = q_of(text, 17, "x=1:2");
        if (q <= 2) continue;
        fprintf(stderr, "'%s': q = %g\n", ends[i], q);
        n_bad++;
    }
    assert_int_equal(n_bad, 0);
#undef NOTHING
}

/* Twelve products in a row, nothing recorded in between: quadrature keeps the bound small. */
static void test_bounds_nn__stay_small_along_a_chain(void **state) {
    (void)state;
    char text[2048] = "(float[8,32] x0, float[32,32] w) => (x12) <float s = {0.17}> { ";
    for (int i = 0; i < 12; i++) {
        char one[96];
        snprintf(one, sizeof(one), "m%d = MatMul(x%d, w) x%d = Mul(m%d, s) ", i, i, i + 1, i);
        strncat(text, one, sizeof(text) - strlen(text) - 1);
    }
    strncat(text, "}", sizeof(text) - strlen(text) - 1);
    assert_true(looseness(text, 17, NULL) < 1e-4);
    assert_true(q_of(text, 17, NULL) < 2);
}

/* Rows of attention in which every key is hidden by a finite number: scores of 10,000 are rounded
 * at that size. A bias, or a projection, does not make a bound of the largest of all heads. */
static void test_bounds_nn__attention_rows_have_their_own(void **state) {
    (void)state;
#define MHA "com.microsoft.MultiHeadAttention<num_heads=2>"
    static const struct hidden {
        const char *graph, *ranges;
        int opset;
    } hidden[] = {
        { "(float[2,3,16] q, float[2,4,16] k, float[2,4,16] v, int32[2,4] m) => (y) "
          "{ y = " MHA "(q, k, v, \"\", m) }",
          "m=0:0", 17 },
        { "(float[2,3,16] q, float[2,4,16] k, float[2,4,16] v, int32[2] m) => (y) "
          "{ y = " MHA "(q, k, v, \"\", m) }",
          "m=0:0", 17 },
        { "(float[2,3,16] q, float[2,4,16] k, float[2,4,16] v, float[1,2,3,4] b) => (y) "
          "{ y = " MHA "(q, k, v, \"\", \"\", b) }",
          "b=-10010:-10000", 17 },
        { "(float[2,3,16] x, float[16,48] w, float[48] b, int32[2,3] m) => (y) "
          "{ y = com.microsoft.Attention<num_heads=2>(x, w, b, m) }",
          "m=0:0 w=-0.3:0.3", 17 },
        { "(float[2,4,3,8] q, float[2,2,5,8] k, float[2,2,5,8] v, float[2,1,3,5] m) => (y) "
          "{ y = Attention(q, k, v, m) }",
          "m=-10000:-10000", 24 },
        { "(float[2,2,3,8] q, float[2,2,3,8] k, float[2,2,3,8] v) => (y) "
          "<float[1,3] m = {-10000, -10000, 0}> { y = Attention<is_causal=1>(q, k, v, m) }",
          NULL, 24 },
        { "(float[2,3,16] q, float[2,3,16] k, float[2,3,16] v) => (y) "
          "<float[1,1,1,3] m = {-10000, -10000, 0}, int64[4] s = {1, 1, 3, 3}> { b = Expand(m, s) "
          "y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v, , , b) }",
          NULL, 17 },
    };
    size_t n_bad = 0;
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        const double q = q_of(hidden[i].graph, hidden[i].opset, hidden[i].ranges);
        if (q <= 2) continue;
        fprintf(stderr, "'%s' %s: q = %g\n", hidden[i].graph, hidden[i].ranges, q);
        n_bad++;
    }
    assert_int_equal(n_bad, 0);
    static const char bias[] = "(float[2,30,64] q, float[2,40,64] k, float[2,40,64] v, "
                               "float[192] b) => (y) { y = " MHA "(q, k, v, b) }";
    static const char projected[] = "(float[2,30,64] x, float[64,192] w, float[192] b) => (y) "
                                    "{ y = com.microsoft.Attention<num_heads=2>(x, w, b) }";
    assert_true(q_of(bias, 17, "b=-0.1:0.1") < 2);
    assert_true(looseness(bias, 17, "b=-0.1:0.1") < 2e-5);
    assert_true(q_of(projected, 17, "w=-0.2:0.2 b=-0.1:0.1") < 2);
    assert_true(looseness(projected, 17, "w=-0.2:0.2 b=-0.1:0.1") < 4e-5);
#undef MHA
}

/* Three numbers, two of which nearly cancel, added in any order. */
static void test_bounds_nn__any_two_of_three_may_be_added_first(void **state) {
    (void)state;
    static const char graph[] = "(float[4,8,16] x, float[16] b, float[4,8,16] s) => (y) "
                                "{ y = com.microsoft.BiasAdd(x, b, s) }";
    static const char *const ranges[] = { "x=999:1001 b=-1001:-999 s=-1:1",
                                          "x=999:1001 s=-1001:-999 b=-1:1",
                                          "b=999:1001 s=-1001:-999 x=-1:1" };
    for (int i = 0; i < 3; i++) {
        assert_true(q_of(graph, 17, ranges[i]) < 1.01);
        assert_true(looseness(graph, 17, ranges[i]) > 1.5e-5); /* 2^-24 * 1000 of 3 */
    }
}

/* ---- the naive reference ---- */

static double native_mean(const char *graph, bool native) {
    pl_err err = PL_ERR_INIT;
    setup s;
    pl_replay *r = NULL;
    const pl_replay_options options = { .native = native, .no_bounds = true };
    assert_int_equal(prepare(graph, NULL, 17, "x=0.1:0.1", 1, &s, &err), PL_OK);
    assert_int_equal(replay(&s, NULL, &options, &r, &err), PL_OK);
    const double y = pl_tensor_get_f64(pl_replay_get(r, s.model->graph->outputs[0])->tensor, 0);
    pl_replay_free(r);
    release(&s);
    return y;
}

/* What a chain of 65536 equal numbers in float gives (blame.md section 2.3). */
static float chain_of(int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += 0.1f;
    return sum;
}

static void test_bounds_nn__naive_reference_adds_in_one_chain(void **state) {
    (void)state;
    static const char global[] = "(float[1,1,256,256] x) => (y) { y = GlobalAveragePool(x) }";
    static const char window[] =
        "(float[1,1,256,256] x) => (y) { y = AveragePool<kernel_shape=[256,256]>(x) }";
    static const char product[] = "(float[1,65536] x) => (y) <float[1] one = {1}> { n = Shape(x) "
                                  "m = Expand(one, n) t = Transpose(m) y = MatMul(x, t) }";
    const double mean = (double)(chain_of(65536) / 65536.0f);
    assert_true(native_mean(global, true) == mean);
    assert_true(native_mean(window, true) == mean);
    assert_true(native_mean(product, true) == (double)chain_of(65536));
    assert_true(fabs(native_mean(global, false) - (double)0.1f) < 1e-12);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_nn__cover_inherited_errors),
        cmocka_unit_test(test_bounds_nn__hold_at_the_edges),
        cmocka_unit_test(test_bounds_nn__unlimited_stays_unlimited),
        cmocka_unit_test(test_bounds_nn__stay_small_along_a_chain),
        cmocka_unit_test(test_bounds_nn__attention_rows_have_their_own),
        cmocka_unit_test(test_bounds_nn__any_two_of_three_may_be_added_first),
        cmocka_unit_test(test_bounds_nn__naive_reference_adds_in_one_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
