/* Mixed precision: the column against PyTorch's lists, every sample of the table under autocast and
 * in fp64, and what is cast where. */
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

#include "flows/inputs.h"
#include "graph/edit.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "ops/infer.h"
#include "passes/autocast.h"
#include "passes/quant_pairs.h"

enum { MAX_PORTS = 64 };

/* ---- the column ---- */

typedef struct listed {
    const char *op;
    pl_autocast autocast;
    const char *torch; /* the operation of PyTorch, and the list it is on */
} listed;

/* From the op reference of torch.amp (docs/source/amp.rst). "stricter": unlisted there or on the
 * other device's list only. */
/* clang-format off */
static const listed lists[] = {
    { "MatMul", PL_AMP_LOW, "matmul, bmm, mm: CUDA and CPU" }, { "Gemm", PL_AMP_LOW, "addmm, linear: CUDA and CPU" },
    { "Einsum", PL_AMP_LOW, "bmm: CUDA and CPU" }, { "Conv", PL_AMP_LOW, "conv1d, conv2d, conv3d: CUDA and CPU" },
    { "ConvTranspose", PL_AMP_LOW, "conv_transpose1d to 3d: CUDA (CPU before 2.0: float32)" },
    { "PRelu", PL_AMP_LOW, "prelu: CUDA" }, { "LSTM", PL_AMP_LOW, "LSTMCell: CUDA" }, { "GRU", PL_AMP_LOW, "GRUCell: CUDA" },
    { "RNN", PL_AMP_LOW, "RNNCell: CUDA" }, { "Attention", PL_AMP_LOW, "scaled_dot_product_attention: CUDA and CPU" },
    { "Acos", PL_AMP_FP32, "acos: CUDA" }, { "Asin", PL_AMP_FP32, "asin: CUDA" }, { "Cosh", PL_AMP_FP32, "cosh: CUDA" },
    { "Sinh", PL_AMP_FP32, "sinh: CUDA" }, { "Tan", PL_AMP_FP32, "tan: CUDA" }, { "Exp", PL_AMP_FP32, "exp: CUDA" },
    { "Log", PL_AMP_FP32, "log: CUDA" }, { "Reciprocal", PL_AMP_FP32, "reciprocal: CUDA" }, { "Pow", PL_AMP_FP32, "pow: CUDA" },
    { "Softplus", PL_AMP_FP32, "softplus: CUDA" }, { "Softmax", PL_AMP_FP32, "softmax: CUDA" },
    { "LogSoftmax", PL_AMP_FP32, "log_softmax: CUDA" }, { "CumSum", PL_AMP_FP32, "cumsum: CUDA" },
    { "ReduceSum", PL_AMP_FP32, "sum: CUDA" }, { "ReduceProd", PL_AMP_FP32, "prod: CUDA and CPU" },
    { "ReduceL1", PL_AMP_FP32, "norm: CUDA" }, { "ReduceL2", PL_AMP_FP32, "norm: CUDA" },
    { "LayerNormalization", PL_AMP_FP32, "layer_norm: CUDA" }, { "GroupNormalization", PL_AMP_FP32, "group_norm: CUDA" },
    { "LpNormalization", PL_AMP_FP32, "normalize: CUDA" }, { "NegativeLogLikelihoodLoss", PL_AMP_FP32, "nll_loss: CUDA" },
    { "SoftmaxCrossEntropyLoss", PL_AMP_FP32, "cross_entropy: CUDA" }, { "GridSample", PL_AMP_FP32, "grid_sampler: CPU (CUDA: widest)" },
    { "DFT", PL_AMP_FP32, "fft_*: CPU" }, { "STFT", PL_AMP_FP32, "stft: CPU" }, { "Det", PL_AMP_FP32, "linalg_*: CPU" },
    { "ReduceMean", PL_AMP_FP32, "stricter: mean is sum / n" }, { "InstanceNormalization", PL_AMP_FP32, "stricter, as group_norm" },
    { "Resize", PL_AMP_FP32, "upsample_*: CPU of PyTorch 1.12" },
    { "Add", PL_AMP_WIDEST, "native promotion" }, { "Mul", PL_AMP_WIDEST, "native promotion" }, { "Div", PL_AMP_WIDEST, "native promotion" },
    { "Where", PL_AMP_WIDEST, "native promotion" }, { "Concat", PL_AMP_WIDEST, "cat: CPU" },
    { "ScatterElements", PL_AMP_WIDEST, "scatter_add: CUDA" }, { "ScatterND", PL_AMP_WIDEST, "index_put: CUDA" },
    { "Relu", PL_AMP_KEEP, "unlisted" }, { "Sigmoid", PL_AMP_KEEP, "unlisted" }, { "Tanh", PL_AMP_KEEP, "unlisted" },
    { "Gelu", PL_AMP_KEEP, "unlisted" }, { "MaxPool", PL_AMP_KEEP, "unlisted" }, { "AveragePool", PL_AMP_KEEP, "unlisted" },
    { "GlobalAveragePool", PL_AMP_KEEP, "unlisted" }, { "BatchNormalization", PL_AMP_KEEP, "unlisted" },
    { "Reshape", PL_AMP_KEEP, "unlisted" }, { "Transpose", PL_AMP_KEEP, "unlisted" }, { "Gather", PL_AMP_KEEP, "unlisted" },
    { "Sqrt", PL_AMP_KEEP, "unlisted" }, { "Erf", PL_AMP_KEEP, "unlisted" }, { "ReduceMax", PL_AMP_KEEP, "unlisted" },
};
/* clang-format on */

static void test_autocast__column_follows_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const pl_op_def *row = pl_op_find("", lists[i].op, 23);
        assert_non_null(row);
        if (row->autocast != lists[i].autocast) {
            fail_msg("%s is %d, expected %d: %s", lists[i].op, (int)row->autocast,
                     (int)lists[i].autocast, lists[i].torch);
        }
    }
}

/* ---- every sample ---- */

typedef struct trial {
    const pl_op_def *row;
    const pl_sample *sample;
    pl_model *model;
    pl_datum *in[MAX_PORTS + 1];
    pl_err err;
} trial;

typedef struct tally {
    size_t n_run, n_compared, n_bad;
    double worst;
} tally;

static void complain(const trial *t, tally *sum, const char *how, const char *what) {
    sum->n_bad++;
    fprintf(stderr, "%s-%d '%s' %s: %s\n", t->row->name, t->row->since, t->sample->graph, how,
            what);
}

static pl_status open_trial(trial *t) {
    const char *domain = t->row->domain == NULL ? "" : t->row->domain;
    const int opset = domain[0] != '\0' ? 17
                      : t->row->since < 6
                          ? t->row->until != 0 && t->row->until < 6 ? t->row->until : 6
                          : t->row->since;
    PL_TRY(pl_model_parse_graph(t->sample->graph, opset, &t->model, &t->err));
    if (domain[0] != '\0') {
        PL_TRY(pl_model_set_opset(t->model, domain, t->row->since, &t->err));
        for (size_t i = 0; i < t->model->graph->n_nodes; i++)
            if (strcmp(t->model->graph->nodes[i]->domain, domain) == 0)
                t->model->graph->nodes[i]->opset = t->row->since;
    }
    PL_TRY(pl_ops_resolve(t->model, &t->err));
    PL_TRY(pl_model_infer(t->model, NULL, &t->err));
    char text[256] = "";
    const char *ranges[16];
    plumb_inputs source = { .seed = 5, .ranges = ranges };
    if (t->sample->ranges != NULL) snprintf(text, sizeof(text), "%s", t->sample->ranges);
    for (char *w = strtok(text, " "); w != NULL && source.n_ranges < 16; w = strtok(NULL, " "))
        ranges[source.n_ranges++] = w;
    return pl_inputs_make(t->model, &source, t->in, &t->err);
}

static pl_status run(pl_model *model, bool fp64, pl_datum *const *in, pl_datum **out, pl_err *err) {
    const pl_interp_options options = { .seed = 1, .fp64 = fp64 };
    pl_interp *interp = NULL;
    pl_status st = pl_interp_new(model, &options, &interp, err);
    if (st == PL_OK) st = pl_interp_run(interp, in, out, err);
    pl_interp_free(interp);
    return st;
}

static void drop(pl_datum **data) {
    for (size_t i = 0; i < MAX_PORTS; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

static pl_status raise_all(const pl_model *model, pl_datum *const *in, pl_datum **out) {
    for (size_t i = 0; i < model->graph->n_inputs; i++) {
        pl_tensor *wide = NULL;
        if (in[i] == NULL) continue;
        const bool is_tensor = in[i]->kind == PL_TYPE_TENSOR;
        const pl_dtype d = is_tensor ? in[i]->tensor->dtype : PL_UNDEFINED;
        if (d != PL_F32 && d != PL_F16 && d != PL_BF16) {
            out[i] = pl_datum_ref(in[i]);
            continue;
        }
        PL_TRY(pl_tensor_cast(in[i]->tensor, PL_F64, &wide, NULL));
        PL_TRY(pl_datum_of_tensor_take(wide, &out[i], NULL));
    }
    return PL_OK;
}

/* |a - g| / (|g| + rms(g)), largest; NaN and Inf at the same places agree. */
static double error_of(const pl_tensor *a, const pl_tensor *g) {
    double squares = 0, worst = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < g->n_elements; i++) {
        const double x = pl_tensor_get_f64(g, i);
        if (!isfinite(x)) continue;
        squares += x * x;
        n++;
    }
    const double rms = n > 0 && squares > 0 ? sqrt(squares / (double)n) : 1;
    for (int64_t i = 0; i < g->n_elements; i++) {
        const double x = pl_tensor_get_f64(g, i), y = pl_tensor_get_f64(a, i);
        if (x == y || (isnan(x) && isnan(y))) continue;
        const double e = fabs(x - y) / (fabs(x) + rms);
        worst = e > worst || isnan(e) ? e : worst;
        if (isnan(e)) return (double)INFINITY;
    }
    return worst;
}

static bool has_sequences(const pl_model *model) {
    for (size_t i = 0; i < model->graph->n_inputs; i++)
        if (model->graph->inputs[i]->type->kind != PL_TYPE_TENSOR) return true;
    return false;
}

/* Types of the outputs; their values against gold of the untouched model. `everywhere`: fp64. */
static void compare(const trial *t, tally *sum, pl_datum *const *out, pl_datum *const *gold,
                    bool fp64, double tolerance, const char *how) {
    for (size_t i = 0; i < t->model->graph->n_outputs; i++) {
        const pl_type *type = t->model->graph->outputs[i]->type;
        if (out[i]->kind != PL_TYPE_TENSOR || gold[i]->kind != PL_TYPE_TENSOR) continue;
        const pl_tensor *a = out[i]->tensor, *g = gold[i]->tensor;
        if (!fp64 && type != NULL && a->dtype != type->dtype)
            complain(t, sum, how, "an output has another type than declared");
        if (!pl_tensor_same_shape(a, g)) {
            complain(t, sum, how, "an output has another shape");
            continue;
        }
        if (tolerance <= 0 || !pl_dtype_is_float(g->dtype)) continue;
        const double e = error_of(a, g) / tolerance;
        sum->n_compared++;
        sum->worst = fmax(sum->worst, e);
        if (!(e <= 1)) {
            char text[100];
            snprintf(text, sizeof(text), "output %zu is off by %.3g times the tolerance", i, e);
            complain(t, sum, how, text);
        }
    }
}

static void try_one(trial *t, tally *sum, int way) {
    static const char *const names[] = { "fp16", "bf16", "fp64" };
    pl_datum *out[MAX_PORTS] = { NULL }, *gold[MAX_PORTS] = { NULL }, *in[MAX_PORTS] = { NULL };
    pl_model *other = NULL;
    pl_status st = run(t->model, true, t->in, gold, &t->err);
    if (st == PL_OK) st = pl_model_copy(t->model, &other, &t->err);
    if (st == PL_OK) {
        st = way == 2 ? pl_model_fp64(other, NULL, &t->err)
                      : pl_model_autocast(other, way == 0 ? PL_F16 : PL_BF16, NULL, &t->err);
    }
    if (st == PL_OK) st = pl_model_verify(other, &t->err);
    if (st == PL_OK && way == 2) st = raise_all(t->model, t->in, in);
    if (st == PL_OK) st = run(other, false, way == 2 ? in : t->in, out, &t->err);
    if (st != PL_OK) {
        complain(t, sum, names[way], t->err.message);
    } else {
        /* Jumps (Round, comparisons, picks) may land on the other side; the classes that compute
         * in another type are what is of interest, and they are smooth. */
        const bool smooth = t->row->autocast == PL_AMP_LOW || t->row->autocast == PL_AMP_FP32;
        const bool random = pl_model_is_random(t->model);
        const double tolerance = random     ? 0
                                 : way == 2 ? 1e-6
                                 : !smooth  ? 0
                                 : way == 0 ? 8e-3
                                            : 6e-2;
        sum->n_run++;
        compare(t, sum, out, gold, way == 2, tolerance, names[way]);
    }
    drop(out);
    drop(gold);
    drop(in);
    pl_model_free(other);
}

static void test_autocast__every_sample_of_the_table(void **state) {
    (void)state;
    const char *only = getenv("PLUMB_AMP_OP");
    tally sums[3] = { { 0 } };
    const pl_op_def *row = NULL;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (only != NULL && strcmp(only, row->name) != 0) continue;
        for (const pl_sample *s = row->samples; s != NULL && s->graph != NULL; s++) {
            trial t = { .row = row, .sample = s, .err = PL_ERR_INIT };
            if (open_trial(&t) != PL_OK) {
                complain(&t, &sums[0], "as it is", t.err.message);
            } else {
                for (int way = 0; way < 3; way++)
                    if (way < 2 || !has_sequences(t.model)) try_one(&t, &sums[way], way);
            }
            drop(t.in);
            pl_model_free(t.model);
        }
    }
    for (int way = 0; way < 3; way++) {
        fprintf(stderr, "%zu samples run, %zu outputs compared, worst %.3g of the tolerance\n",
                sums[way].n_run, sums[way].n_compared, sums[way].worst);
    }
    assert_int_equal(sums[0].n_bad + sums[1].n_bad + sums[2].n_bad, 0);
    if (only == NULL) assert_true(sums[0].n_run > 400 && sums[2].n_compared > 300);
}

/* ---- what is cast where ---- */

static pl_model *cast_of(const char *text, pl_dtype low, pl_changes *changes) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_status st = pl_model_parse_graph(text, 17, &model, &err);
    if (st == PL_OK) st = pl_model_autocast(model, low, changes, &err);
    if (st == PL_OK) st = pl_model_verify(model, &err);
    if (st != PL_OK) fail_msg("%s: %s", text, err.message);
    return model;
}

static size_t count_ops(const pl_graph *graph, const char *op) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        n += strcmp(graph->nodes[i]->op, op) == 0;
    return n;
}

static pl_dtype type_of(const pl_model *model, const char *name) {
    const pl_value *value = pl_graph_find(model->graph, name);
    assert_non_null(value);
    return value->type->dtype;
}

static void test_autocast__casts_are_shared(void **state) {
    (void)state;
    pl_changes c = PL_CHANGES_INIT;
    pl_model *m = cast_of("(float[2,2] x) => (z) <float[2,2] w = {1,2,3,4}> { "
                          "a = MatMul(x, w) b = MatMul(x, w) z = Add(a, b) }",
                          PL_BF16, &c);
    assert_int_equal(count_ops(m->graph, "Cast"), 2); /* x once, z once */
    assert_int_equal(pl_changes_count(&c, PL_CHANGE_CONVERT), 1);
    assert_int_equal(pl_changes_count(&c, PL_CHANGE_CAST), 2);
    assert_int_equal(type_of(m, "a"), PL_BF16);
    assert_int_equal(type_of(m, "z"), PL_F32);
    assert_null(pl_graph_find(m->graph, "w")); /* nobody needs the old one */
    pl_changes_release(&c);
    pl_model_free(m);
}

static void test_autocast__scalars_do_not_widen(void **state) {
    (void)state;
    pl_model *m = cast_of("(float[2,2] x) => (z) <float[2,2] w = {1,2,3,4}, float h = {0.5}, "
                          "float[2] v = {1,2}> { a = MatMul(x, w) b = Mul(a, h) z = Add(b, v) }",
                          PL_F16, NULL);
    assert_int_equal(type_of(m, "b"), PL_F16);
    assert_int_equal(type_of(m, "z"), PL_F32); /* a vector does */
    pl_model_free(m);
}

static void test_autocast__redundant_casts_are_passed_by(void **state) {
    (void)state;
    pl_changes c = PL_CHANGES_INIT;
    pl_model *m = cast_of("(float[2,2] x) => (z) <float[2,2] w = {1,2,3,4}> { a = MatMul(x, w) "
                          "b = Cast<to=10>(a) d = Relu(b) e = Cast<to=1>(d) z = MatMul(e, w) }",
                          PL_F16, &c);
    assert_int_equal(count_ops(m->graph, "Cast"), 2); /* x and z */
    assert_int_equal(pl_changes_count(&c, PL_CHANGE_DROP), 2);
    pl_changes_release(&c);
    pl_model_free(m);
}

static void test_autocast__doubles_and_integers_stay(void **state) {
    (void)state;
    pl_changes c = PL_CHANGES_INIT;
    pl_model *m = cast_of("(double[2,2] x, int32[2,2] i) => (y, k) { y = MatMul(x, x) "
                          "k = MatMul(i, i) }",
                          PL_F16, &c);
    assert_int_equal(c.n, 0);
    pl_changes_release(&c);
    pl_model_free(m);
}

static void test_autocast__bodies_keep_their_border(void **state) {
    (void)state;
    pl_model *m = cast_of(
        "(float[2,2] x, int64 n) => (y) <float[2,2] w = {1,2,3,4}, bool t = {1}> { y = Loop<body = "
        "b (int64 i, bool c, float[2,2] s) => (c2, s2) { c2 = Identity(c) p = MatMul(s, w) "
        "s2 = Relu(p) }>(n, t, x) }",
        PL_BF16, NULL);
    const pl_graph *body = pl_attr_graph(pl_graph_find(m->graph, "y")->producer, "body");
    assert_int_equal(body->inputs[2]->type->dtype, PL_F32);
    assert_int_equal(body->outputs[1]->type->dtype, PL_F32);
    assert_int_equal(pl_graph_find(body, "p")->type->dtype, PL_BF16);
    pl_model_free(m);
}

static void test_autocast__overflowing_constants_are_told(void **state) {
    (void)state;
    pl_changes c = PL_CHANGES_INIT;
    pl_model *m =
        cast_of("(float[1,2] x) => (y) <float[2,1] w = {1e9, 1}> { y = MatMul(x, w) }", PL_F16, &c);
    bool told = false;
    for (size_t i = 0; i < c.n; i++)
        told = told || strcmp(c.items[i].what, "1 element overflows") == 0;
    assert_true(told);
    pl_changes_release(&c);
    pl_model_free(m);
}

static void test_raise_nodes__only_the_chosen_ones(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_model *m = NULL;
    pl_changes c = PL_CHANGES_INIT;
    const bool raise[] = { false, true, true, false };
    assert_int_equal(pl_model_parse_graph("(float16[4] x) => (y) { a = Relu(x) b = Exp(a) d = "
                                          "Log(b) y = Neg(d) }",
                                          17, &m, &err),
                     PL_OK);
    assert_int_equal(pl_model_raise_nodes(m, raise, &c, &err), PL_OK);
    assert_int_equal(count_ops(m->graph, "Cast"), 2); /* in and out, none between */
    assert_int_equal(type_of(m, "a"), PL_F16);
    assert_int_equal(type_of(m, "b"), PL_F32);
    assert_int_equal(type_of(m, "d"), PL_F32);
    assert_int_equal(type_of(m, "y"), PL_F16);
    pl_changes_release(&c);
    pl_model_free(m);
}

static void test_raise_nodes__casts_do_not_lower(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_model *m = NULL;
    const bool raise[] = { true, true, false };
    assert_int_equal(pl_model_parse_graph("(float[4] x) => (y) { a = Cast<to=16>(x) b = Exp(a) y = "
                                          "Log(b) }",
                                          17, &m, &err),
                     PL_OK);
    assert_int_equal(pl_model_raise_nodes(m, raise, NULL, &err), PL_OK);
    assert_ptr_equal(pl_graph_find(m->graph, "b")->producer->in[0], pl_graph_find(m->graph, "x"));
    assert_int_equal(type_of(m, "b"), PL_F32);
    assert_int_equal(type_of(m, "y"), PL_BF16); /* as declared */
    pl_model_free(m);
}

static void test_autocast_but__chosen_nodes_stay_wide(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_model *m = NULL;
    const bool raise[] = { true, false };
    assert_int_equal(
        pl_model_parse_graph("(float[2,2] x, float[2,2] w) => (y) { a = MatMul(x, w) y = "
                             "MatMul(a, w) }",
                             17, &m, &err),
        PL_OK);
    assert_int_equal(pl_model_autocast_but(m, PL_F16, raise, NULL, &err), PL_OK);
    assert_int_equal(type_of(m, "a"), PL_F32);
    assert_ptr_equal(pl_graph_find(m->graph, "a")->producer->in[0], pl_graph_find(m->graph, "x"));
    assert_int_equal(count_ops(m->graph, "Cast"), 3); /* a and w down, y up */
    pl_model_free(m);
}

/* ---- codes ---- */

static const char *const coded =
    "(float[4] x, float s) => (y, float[4] n) <uint8 z = {128}> { q = QuantizeLinear(x, s, z) d = "
    "DequantizeLinear(q, s, z) a = Neg(d) qa = QuantizeLinear(a, s, z) da = "
    "DequantizeLinear(qa, s, z) b = Abs(da) qb = QuantizeLinear(b, s, z) y = DequantizeLinear(qb, "
    "s, z) n = Neg(da) }";

static pl_model *bypassed(const char *chosen) {
    pl_err err = PL_ERR_INIT;
    pl_model *m = NULL;
    bool raise[16] = { false };
    assert_int_equal(pl_model_parse_graph(coded, 17, &m, &err), PL_OK);
    raise[pl_graph_find(m->graph, chosen)->producer->index] = true;
    assert_int_equal(pl_model_bypass_pairs(m, raise, NULL, &err), PL_OK);
    return m;
}

static const pl_value *read_by(const pl_model *m, const char *value) {
    return pl_graph_find(m->graph, value)->producer->in[0];
}

static void test_bypass_pairs__both_sides_of_a_node(void **state) {
    (void)state;
    pl_model *m = bypassed("a"); /* its input's pair, and its result's for both readers */
    assert_ptr_equal(read_by(m, "a"), pl_graph_find(m->graph, "x"));
    assert_ptr_equal(read_by(m, "b"), pl_graph_find(m->graph, "a"));
    assert_ptr_equal(read_by(m, "n"), pl_graph_find(m->graph, "a"));
    assert_int_equal(count_ops(m->graph, "QuantizeLinear"), 1);
    pl_model_free(m);
}

static void test_bypass_pairs__outputs_keep_their_names(void **state) {
    (void)state;
    pl_model *m = bypassed("b");
    assert_ptr_equal(read_by(m, "b"), pl_graph_find(m->graph, "a"));
    assert_string_equal(pl_graph_find(m->graph, "n")->producer->in[0]->name, "da"); /* not chosen */
    assert_string_equal(m->graph->outputs[0]->name, "y");
    assert_string_equal(m->graph->outputs[0]->producer->op, "Identity");
    assert_ptr_equal(read_by(m, "y"), pl_graph_find(m->graph, "b"));
    pl_model_free(m);
}

/* What names its own type is made in double, not in float and cast: gold's bits. */
static void test_fp64__what_is_made_is_double(void **state) {
    static const char *const text =
        "(float[3,3] x) => (h, r, u, e) <int64 n = {7}> { h = HannWindow(n) r = "
        "RandomNormal<shape = [4], seed = 3.0>() u = RandomUniformLike<seed = 2.0, dtype = 1>(x) e "
        "= EyeLike(x) }";
    pl_datum *out[MAX_PORTS] = { NULL }, *gold[MAX_PORTS] = { NULL }, *in[MAX_PORTS] = { NULL };
    pl_datum *wide[MAX_PORTS] = { NULL };
    pl_tensor *x = NULL;
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    (void)state;
    assert_int_equal(pl_model_parse_graph(text, 17, &model, &err), PL_OK);
    assert_int_equal(pl_tensor_new_zero(PL_F32, 2, (const int64_t[]){ 3, 3 }, &x, &err), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(x, &in[0], &err), PL_OK);
    assert_int_equal(raise_all(model, in, wide), PL_OK);
    assert_int_equal(run(model, true, in, gold, &err), PL_OK);
    assert_int_equal(pl_model_fp64(model, NULL, &err), PL_OK);
    assert_int_equal(run(model, false, wide, out, &err), PL_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(out[i]->tensor->dtype, PL_F64);
        assert_true(pl_tensor_identical(out[i]->tensor, gold[i]->tensor));
    }
    drop(out);
    drop(gold);
    drop(in);
    drop(wide);
    pl_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp64__what_is_made_is_double),
        cmocka_unit_test(test_autocast__column_follows_pytorch),
        cmocka_unit_test(test_autocast__every_sample_of_the_table),
        cmocka_unit_test(test_autocast__casts_are_shared),
        cmocka_unit_test(test_autocast__scalars_do_not_widen),
        cmocka_unit_test(test_autocast__redundant_casts_are_passed_by),
        cmocka_unit_test(test_autocast__doubles_and_integers_stay),
        cmocka_unit_test(test_autocast__bodies_keep_their_border),
        cmocka_unit_test(test_autocast__overflowing_constants_are_told),
        cmocka_unit_test(test_raise_nodes__only_the_chosen_ones),
        cmocka_unit_test(test_raise_nodes__casts_do_not_lower),
        cmocka_unit_test(test_autocast_but__chosen_nodes_stay_wide),
        cmocka_unit_test(test_bypass_pairs__both_sides_of_a_node),
        cmocka_unit_test(test_bypass_pairs__outputs_keep_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
