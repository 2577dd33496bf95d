/* The compiler: it computes what eager computes, shows what it leaves in memory, and every planted
 * fault does exactly what its name says. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/jit/jit_fault.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "ops/op.h"
#include "sanitized.h"

enum { MAX_PORTS = 64 };

typedef struct query {
    pl_model *model;
    pl_backend *backend;
    pl_program *program;
    pl_datum *in[MAX_PORTS], *out[MAX_PORTS];
    size_t n_in, n_out;
    pl_err err;
    pl_failure failure;
    pl_status status;
} query;

static void query_release(query *q) {
    for (size_t i = 0; i < q->n_in; i++)
        pl_datum_unref(q->in[i]);
    for (size_t i = 0; i < q->n_out; i++)
        pl_datum_unref(q->out[i]);
    pl_program_free(q->program);
    pl_backend_close(q->backend);
    pl_model_free(q->model);
    *q = (query){ 0 };
}

static size_t split_ranges(char *text, const char **ranges, size_t max) {
    size_t n = 0;
    for (char *word = strtok(text, " "); word != NULL && n < max; word = strtok(NULL, " "))
        ranges[n++] = word;
    return n;
}

/* Parses, generates inputs, opens, compiles and runs, as far as it goes. */
static void query_graph(query *q, const char *graph, int opset, const char *ranges,
                        const pl_op_def *row) {
    char text[256] = "";
    const char *list[16];
    plumb_inputs source = { .seed = 7, .ranges = list };
    *q = (query){ .err = PL_ERR_INIT };
    q->status = pl_model_parse_graph(graph, opset, &q->model, &q->err);
    if (q->status != PL_OK) return;
    if (row != NULL && row->domain != NULL) {
        pl_model_set_opset(q->model, row->domain, row->since, &q->err);
        for (size_t i = 0; i < q->model->graph->n_nodes; i++) {
            pl_node *node = q->model->graph->nodes[i];
            if (strcmp(node->domain, row->domain) == 0) node->opset = row->since;
        }
    }
    q->status = pl_ops_resolve(q->model, &q->err);
    if (q->status != PL_OK) return;
    if (ranges != NULL) snprintf(text, sizeof(text), "%s", ranges);
    source.n_ranges = split_ranges(text, list, 16);
    q->n_in = q->model->graph->n_inputs;
    q->n_out = q->model->graph->n_outputs;
    assert_true(q->n_in <= MAX_PORTS && q->n_out <= MAX_PORTS);
    q->status = pl_inputs_make(q->model, &source, q->in, &q->err);
}

static void query_run(query *q, const char *spec, bool guarded, double timeout) {
    const pl_backend_options options = { .guarded = guarded, .timeout_seconds = timeout };
    const pl_compile_options compile = { .seed = 1 };
    if (q->status == PL_OK) q->status = pl_backend_open(spec, &options, &q->backend, &q->err);
    if (q->status == PL_OK) {
        q->status = pl_program_new(q->backend, q->model, &compile, &q->program, &q->err);
    }
    if (q->status == PL_OK) q->status = pl_program_run(q->program, q->in, q->out, &q->err);
    if (q->backend != NULL) q->failure = *pl_backend_failure(q->backend);
}

/* ---- agreement with eager ---- */

/* Two runs of one function in one precision. Float results may differ by their rounding: sums run
 * in another order, so the bound is relative to the largest element: 64 units in the last place of
 * f32 and f64, and 2 of the coarser types, which are rounded once from f32. */
static const char *differs(const pl_datum *a, const pl_datum *b) {
    static char text[200];
    if (a->kind != b->kind || a->n_items != b->n_items) return "another structure";
    for (size_t i = 0; i < a->n_items; i++) {
        const char *trouble = differs(a->items[i], b->items[i]);
        if (trouble != NULL) return trouble;
    }
    if (a->kind != PL_TYPE_TENSOR) return NULL;
    const pl_tensor *x = a->tensor, *y = b->tensor;
    if (x->dtype != y->dtype) return "another type";
    if (!pl_tensor_same_shape(x, y)) return "another shape";
    if (!pl_dtype_is_float(x->dtype)) return pl_tensor_identical(x, y) ? NULL : "other elements";
    const double u = pl_dtype_unit_roundoff(x->dtype);
    const double limit = pl_tensor_max_abs(y) * u * (u <= 0x1p-24 ? 64 : 4);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double p = pl_tensor_get_f64(x, i), r = pl_tensor_get_f64(y, i);
        if (p == r || (isnan(p) && isnan(r)) || fabs(p - r) <= limit) continue;
        snprintf(text, sizeof(text), "element %lld is %.9g, expected %.9g +- %.3g", (long long)i, p,
                 r, limit);
        return text;
    }
    return NULL;
}

/* Every fourth float of the inputs is one where formulas break; the same for the same graph. */
static void make_special(query *q) {
    static const double values[] = { (double)NAN, HUGE_VAL, -HUGE_VAL, -0.0,  0,   1e-40,
                                     -1e-40,      1e15,     -1e15,     65504, 1e-7 };
    enum { N = sizeof(values) / sizeof(values[0]) };
    uint64_t state = 5;
    for (size_t i = 0; i < q->n_in && q->status == PL_OK; i++) {
        pl_tensor *t = q->in[i]->kind == PL_TYPE_TENSOR ? q->in[i]->tensor : NULL;
        if (t == NULL || !pl_dtype_is_float(t->dtype)) continue;
        for (int64_t k = 0; k < t->n_elements; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            if (state >> 62 != 0) continue;
            const size_t bytes = pl_dtype_bytes(t->dtype) * (size_t)k;
            pl_store_f64(t->dtype, &values[(state >> 33) % N], (char *)t->data + bytes, 1);
        }
    }
}

/* NaN and infinity where eager has them; numbers relative to each, since some are huge. */
static const char *differs_special(const pl_datum *a, const pl_datum *b) {
    if (a->kind != PL_TYPE_TENSOR || !pl_dtype_is_float(a->tensor->dtype)) return differs(a, b);
    const pl_tensor *x = a->tensor, *y = b->tensor;
    if (x->dtype != y->dtype || !pl_tensor_same_shape(x, y)) return "another type or shape";
    const double u = pl_dtype_unit_roundoff(x->dtype);
    for (int64_t i = 0; i < x->n_elements; i++) {
        const double p = pl_tensor_get_f64(x, i), r = pl_tensor_get_f64(y, i);
        if (p == r || (isnan(p) && isnan(r))) continue;
        const double limit = fabs(r) * u * (u <= 0x1p-24 ? 64 : 4) + 1e-37; /* denormals */
        if (!isfinite(p) || !isfinite(r) || fabs(p - r) > limit) return "another element";
    }
    return NULL;
}

static bool agrees_on(const pl_op_def *row, const char *graph, const char *ranges, const char *spec,
                      bool special) {
    query jit, eager;
    const char *trouble = NULL;
    const int opset = row->domain == NULL ? row->since : 17;
    query_graph(&jit, graph, opset, ranges, row);
    query_graph(&eager, graph, opset, ranges, row);
    if (special) make_special(&jit);
    if (special) make_special(&eager);
    query_run(&jit, spec, false, 0);
    query_run(&eager, "eager", false, 0);
    if (jit.status != eager.status) {
        trouble = jit.status != PL_OK ? jit.err.message : "it runs where eager refuses";
    }
    for (size_t i = 0; trouble == NULL && jit.status == PL_OK && i < jit.n_out; i++) {
        if (pl_model_is_random(eager.model)) continue;
        trouble =
            special ? differs_special(jit.out[i], eager.out[i]) : differs(jit.out[i], eager.out[i]);
    }
    if (trouble != NULL) {
        print_error("%s-%d%s: %s: %s\n", row->name, row->since, special ? ", special values" : "",
                    graph, trouble);
    }
    query_release(&jit);
    query_release(&eager);
    return trouble == NULL;
}

static void test_jit__agrees_with_eager_on_every_row(void **state) {
    (void)state;
    const pl_op_def *row = NULL;
    size_t n_bad = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        for (const pl_sample *s = row->samples; s->graph != NULL; s++)
            n_bad += !agrees_on(row, s->graph, s->ranges, "jit:threads=2", false);
    }
    assert_int_equal(n_bad, 0);
}

/* The same graphs, so the same code from the cache, on NaN, infinity and their like. */
static void test_jit__agrees_on_special_values(void **state) {
    (void)state;
    const pl_op_def *row = NULL;
    size_t n_bad = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        if (row->no_emit != NULL) continue; /* eager on both sides */
        for (const pl_sample *s = row->samples; s->graph != NULL; s++)
            n_bad += !agrees_on(row, s->graph, s->ranges, "jit:threads=2", true);
    }
    assert_int_equal(n_bad, 0);
}

/* The first sample of a row with its floats as another type; each row has its turn with one. */
static void test_jit__agrees_in_other_types(void **state) {
    static const char *const types[] = { "float16", "bfloat16", "double" };
    (void)state;
    const pl_op_def *row = NULL;
    size_t n_bad = 0, n = 0;
    for (size_t i = 0; (row = pl_op_at(i)) != NULL; i++) {
        char text[2000];
        size_t to = 0;
        if (row->no_emit != NULL || strstr(row->samples[0].graph, "float[") == NULL) continue;
        for (const char *at = row->samples[0].graph; *at != '\0' && to + 20 < sizeof(text);) {
            if (strncmp(at, "float[", 6) != 0 && strncmp(at, "float ", 6) != 0) {
                text[to++] = *at++;
                continue;
            }
            to += (size_t)snprintf(text + to, sizeof(text) - to, "%s%c", types[i % 3], at[5]);
            at += 6;
        }
        text[to] = '\0';
        n_bad += !agrees_on(row, text, row->samples[0].ranges, "jit:threads=2", false);
        n++;
    }
    assert_int_equal(n_bad, 0);
    assert_true(n > 150);
}

/* ---- odd shapes and bad indices ---- */

static void test_jit__agrees_on_odd_shapes(void **state) {
    static const char *const graphs[] = {
        "(float x, float y) => (z) { a = Add(x, y) z = Softplus(a) }",
        "(float[0,3] x, float[3] y) => (z) { a = Mul(x, y) z = Relu(a) }",
        "(float[2,0] x) => (z) { z = ReduceSum<keepdims=0>(x) }",
        "(float[1,1,1] x, float[4,1] y) => (z) { a = Sub(x, y) z = Tanh(a) }",
        "(float x) => (y) { a = ReduceMax(x) y = Exp(a) }",
        "(float[3,4] x, int64 i) => (y) { y = Gather(x, i) }",
        "(float[3,4] x, int64[0] i) => (y) { y = Gather(x, i) }",
        "(float[3,4] x, int64[2,1] i) => (y) { g = Gather<axis=1>(x, i) y = Neg(g) }",
        "(float[2,3,4] x) => (y) { t = Transpose<perm=[2,0,1]>(x) a = ArgMax<axis=0>(t) c = "
        "Cast<to=1>(a) y = Add(c, x) }",
        "(float[5] x, float[5] y) => (z) { z = MatMul(x, y) }",
        "(int32[2,3,4] x, int32[4,5] y) => (z) { z = MatMul(x, y) }",
        "(int8[3,70] x) => (y) { y = ReduceProd<axes=[1]>(x) }",
        "(uint64[3,5] x) => (y, z) { y = ReduceSum(x) z = ReduceMean<axes=[1]>(x) }",
        "(float16[2,3,9] x, float16[4,3,3] w, float16[4] b) => (y) { c = Conv(x, w, b) y = "
        "Relu(c) }",
        "(bfloat16[3,7] x, bfloat16[7,5] w) => (y) { m = MatMul(x, w) y = Sigmoid(m) }",
        "(float16[3,7] x, float16[5,7] w, float16[5] b) => (y) { y = Gemm<transB=1, alpha=0.5>(x, "
        "w, b) }",
        "(float[2,3,8,8] x) => (y, i) { y, i = MaxPool<kernel_shape=[3,3], strides=[2,2]>(x) }",
    };
    static const pl_op_def here = { .name = "odd shape", .since = 17 };
    size_t n_bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(graphs) / sizeof(graphs[0]); i++)
        n_bad += !agrees_on(&here, graphs[i], "i=0:2", "jit:threads=2", false);
    assert_int_equal(n_bad, 0);
}

/* Eager refuses an index that is out of range; so must code that was compiled before it was known.
 */
static void test_jit__refuses_indices_out_of_range(void **state) {
    static const char *const graphs[] = {
        "(float[3,4] x, int64[2] i) => (y) { y = Gather(x, i) }",
        "(float[3,4] x, int64[3,4] i) => (y) { y = GatherElements<axis=1>(x, i) }",
        "(float[3,4] x, int64[2,2] i) => (y) { y = GatherND(x, i) }",
        "(float[9,2,3] x, int64[2] i) => (y) { y = ReverseSequence(x, i) }",
        "(float[3,4] x, int64[3] i) => (y) { y = NegativeLogLikelihoodLoss(x, i) }",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(graphs) / sizeof(graphs[0]); i++) {
        for (int bad = 0; bad < 2; bad++) {
            query q;
            query_graph(&q, graphs[i], 17, bad ? "i=10:90" : "i=0:2", NULL);
            query_run(&q, "jit", false, 0);
            if (q.status != (bad ? PL_E_INVALID : PL_OK)) {
                fail_msg("%s: %s", graphs[i], bad ? "it runs" : q.err.message);
            }
            if (bad && strstr(q.err.message, "out of range") == NULL) fail_msg("%s", q.err.message);
            query_release(&q);
        }
    }
}

/* ---- fused graphs ---- */

/* Chains where fusing could go wrong: reductions in rows, views, pieces, several readers. */
static const struct {
    const char *graph, *ranges;
} fused[] = {
    { "(float[4,6,40] x, float[40] s, float[40] b) => (y) { y = LayerNormalization(x, s, b) }",
      NULL },
    { "(float[4,6,40] x) => (y) { m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) q = Mul(d, d) "
      "v = ReduceMean<axes=[-1]>(q) r = Sqrt(v) y = Div(d, r) }",
      NULL },
    { "(float[3,5,700] x) => (y, m) { s = Softmax(x) t = Exp(s) m = ReduceMax<axes=[2], "
      "keepdims=0>(t) y = Mul(t, s) }",
      NULL },
    { "(float[2,5,16] x, float[5,16] c, float[5,16] s) => (y) <int64[2] half = {8,8}> { a, b = "
      "Split<axis=2>(x, half) n = Neg(b) r = Concat<axis=2>(n, a) p = Mul(x, c) q = Mul(r, s) y = "
      "Add(p, q) }",
      NULL },
    { "(float[2,3,4,5] x, float[5,4] w) => (y) { t = Transpose<perm=[0,2,3,1]>(x) r = Relu(t) u = "
      "Transpose<perm=[0,3,2,1]>(r) y = Add(u, w) }",
      NULL },
    { "(float[6,8] x) => (y, z) <int64[2] a = {-1, 1}, int64[2] e = {-100, 7}, int64[2] k = {0, "
      "1}, "
      "int64[2] st = {-2, 3}> { s = Slice(x, a, e, k, st) y = Exp(s) z = Neg(s) }",
      NULL },
    { "(float[2,8,9,9] x, float[12,8,3,3] w, float[12] b, float[2,12,9,9] r, float[12,1,1] c) => "
      "(y) { a = Conv<pads=[1,1,1,1]>(x, w, b) d = Add(a, r) e = Mul(d, c) y = Relu(e) }",
      NULL },
    { "(float[2,40,16,16] x, float[40,1,5,5] w) => (y) { a = Conv<group=40, pads=[2,2,2,2]>(x, w) "
      "s = Sigmoid(a) m = Mul(a, s) g = GlobalAveragePool(m) y = Mul(m, g) }",
      NULL },
    { "(float[3,7,20] x, float[20,33] w, float[33] b, float[3,7,33] r) => (y) { p = MatMul(x, w) q "
      "= Add(p, b) g = Gelu(q) y = Add(g, r) }",
      NULL },
    { "(float[2,7,3,2,8] q) => (y) <int64[3] one = {1,1,1}, int64[4] sh = {2,7,2,8}> { a, b, c = "
      "Split<axis=2>(q, one) d = Reshape(a, sh) e = Reshape(b, sh) f = Reshape(c, sh) g = "
      "Transpose<perm=[0,2,1,3]>(d) h = Transpose<perm=[0,2,3,1]>(e) i = "
      "Transpose<perm=[0,2,1,3]>(f) s = MatMul(g, h) t = Softmax(s) y = MatMul(t, i) }",
      NULL },
    /* a sum that is kept in memory and needed again in its own row */
    { "(float[3,6,5] x) => (y) { s = LogSoftmax(x) t = Transpose<perm=[0,2,1]>(s) y = Relu(t) }",
      NULL },
    { "(float16[3,50] x, float16[50] w) => (y) { a = Mul(x, w) b = Tanh(a) c = Add(b, x) d = "
      "Softmax(c) y = Sqrt(d) }",
      NULL },
    { "(bfloat16[3,50] x, bfloat16[50] w) => (y) { a = Mul(x, w) b = Sigmoid(a) y = Add(b, x) }",
      NULL },
    { "(double[3,50] x) => (y) { a = Exp(x) b = Erf(a) c = Softmax(b) y = Log(c) }", NULL },
    { "(int8[40] x, int8[40] y) => (z) { a = Add(x, y) b = Mul(a, x) z = Div(b, y) }",
      "x=-120:120 y=-9:9" },
    { "(uint64[40] x, int64[40] y) => (a, b) { a = Max(x, x) b = Abs(y) }", NULL },
    { "(float[5,9] x, float[5,9] y) => (z) { c = Less(x, y) d = Where(c, x, y) n = Not(c) e = "
      "Where(n, d, x) z = Clip(e) }",
      NULL },
    { "(float[4,300] x) => (y) { s = ReduceSum<keepdims=0>(x) m = ReduceMin(x) a = Add(s, m) y = "
      "Sub(x, a) }",
      NULL },
};

static void check_fused(const char *spec) {
    for (size_t i = 0; i < sizeof(fused) / sizeof(fused[0]); i++) {
        query jit, eager;
        query_graph(&jit, fused[i].graph, 20, fused[i].ranges, NULL);
        if (jit.status != PL_OK) query_release(&jit);
        if (jit.model == NULL) query_graph(&jit, fused[i].graph, 17, fused[i].ranges, NULL);
        const int opset = pl_model_opset(jit.model, "");
        query_graph(&eager, fused[i].graph, opset, fused[i].ranges, NULL);
        query_run(&jit, spec, false, 0);
        query_run(&eager, "eager", false, 0);
        if (eager.status != PL_OK) fail_msg("%s: %s", fused[i].graph, eager.err.message);
        if (jit.status != PL_OK) fail_msg("%s: %s", fused[i].graph, jit.err.message);
        for (size_t k = 0; k < jit.n_out; k++) {
            const char *trouble = differs(jit.out[k], eager.out[k]);
            if (trouble != NULL) fail_msg("%s, output %zu: %s", fused[i].graph, k, trouble);
        }
        query_release(&jit);
        query_release(&eager);
    }
}

static void test_jit__fuses_without_changing_the_function(void **state) {
    (void)state;
    check_fused("jit:threads=2");
}
static void test_jit__agrees_without_fusing(void **state) {
    (void)state;
    check_fused("jit:fuse=off");
}
static void test_jit__agrees_with_symbolic_shapes(void **state) {
    (void)state;
    check_fused("jit:shapes=symbolic,winograd=off");
}

/* Thousands of maps in a row: loops are cut, and nothing recurses through all of them. */
static void test_jit__takes_long_chains(void **state) {
    enum { N = 12000 };
    pl_buf text = PL_BUF_INIT;
    query q;
    (void)state;
    pl_buf_puts(&text, "(float[4] x) => (y) <float c = {0.5}> { v0 = Add(x, c) ");
    for (int i = 1; i < N; i++)
        pl_buf_printf(&text, "v%d = Add(v%d, c) ", i, i - 1);
    pl_buf_printf(&text, "y = Sub(v%d, x) }", N - 1);
    query_graph(&q, pl_buf_str(&text), 17, "x=0:0", NULL);
    query_run(&q, "jit", false, 0);
    assert_int_equal(q.status, PL_OK);
    for (int k = 0; k < 4; k++)
        assert_true(((const float *)q.out[0]->tensor->data)[k] == (float)N / 2.0f);
    query_release(&q);
    pl_buf_release(&text);
}

/* A constant that has more dims than loops may have, and that is not folded away. */
static void test_jit__takes_constants_of_many_dims(void **state) {
    query q;
    (void)state;
    query_graph(&q,
                "(float[3] x) => (y) <float[2,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2] w = {1,2,3,4}> { s = "
                "Shape(w) f = Cast<to=1>(s) r = ReduceSum<keepdims=0>(f) y = Add(x, r) }",
                17, "x=0:0", NULL);
    query_run(&q, "jit:disable=fold", false, 0);
    if (q.status != PL_OK) fail_msg("%s", q.err.message);
    for (int k = 0; k < 3; k++)
        assert_true(((const float *)q.out[0]->tensor->data)[k] == 18.0f);
    query_release(&q);
}

/* One program, inputs of several shapes. */
static void test_jit__runs_one_program_on_several_shapes(void **state) {
    static const int64_t sizes[] = { 3, 7, 3, 1 };
    query q;
    (void)state;
    query_graph(&q, "(float[n,8] x) => (y) { a = Exp(x) y = Softmax(a) }", 17, NULL, NULL);
    query_run(&q, "jit:shapes=symbolic", false, 0);
    assert_int_equal(q.status, PL_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pl_tensor *t = NULL;
        const int64_t dims[] = { sizes[i], 8 };
        assert_int_equal(pl_tensor_new_zero(PL_F32, 2, dims, &t, NULL), PL_OK);
        pl_datum_unref(q.in[0]);
        q.in[0] = NULL;
        assert_int_equal(pl_datum_of_tensor_take(t, &q.in[0], NULL), PL_OK);
        pl_datum_unref(q.out[0]);
        q.out[0] = NULL;
        assert_int_equal(pl_program_run(q.program, q.in, q.out, &q.err), PL_OK);
        assert_int_equal(q.out[0]->tensor->dims[0], sizes[i]);
        for (int64_t k = 0; k < sizes[i] * 8; k++)
            assert_true(((const float *)q.out[0]->tensor->data)[k] == 0.125f);
    }
    query_release(&q);
}

/* An output's memory serves the next run only when nobody holds it, nor a view of it. */
static void test_jit__outputs_that_are_held_stay_as_they_are(void **state) {
    query q;
    (void)state;
    query_graph(&q, "(float[4,8] x) => (y) { y = Add(x, x) }", 17, NULL, NULL);
    query_run(&q, "jit", false, 0);
    assert_int_equal(q.status, PL_OK);
    pl_datum *first = q.out[0];
    pl_tensor *view = NULL;
    const int64_t dims[] = { 32 };
    float before[32];
    memcpy(before, first->tensor->data, sizeof(before));
    q.out[0] = NULL;
    ((float *)q.in[0]->tensor->data)[0] += 1;
    assert_int_equal(pl_program_run(q.program, q.in, q.out, &q.err), PL_OK);
    assert_memory_equal(first->tensor->data, before, sizeof(before));
    assert_int_equal(pl_tensor_reshape(q.out[0]->tensor, 1, dims, &view, NULL), PL_OK);
    memcpy(before, view->data, sizeof(before));
    pl_datum_unref(q.out[0]);
    q.out[0] = NULL;
    ((float *)q.in[0]->tensor->data)[0] += 1;
    assert_int_equal(pl_program_run(q.program, q.in, q.out, &q.err), PL_OK);
    assert_memory_equal(view->data, before, sizeof(before));
    pl_tensor_unref(view);
    pl_datum_unref(first);
    query_release(&q);
}

/* ---- recording ---- */

typedef struct seen_values {
    char names[32][64];
    pl_datum *data[32];
    size_t call[32]; /* in which it was shown */
    size_t n, n_calls;
} seen_values;

static plumb_status note_seen(void *ctx, const plumb_seen *seen, plumb_error *err) {
    seen_values *s = ctx;
    (void)err;
    assert_true(seen->n_stands_for == 0 || strcmp(seen->stands_for[0], seen->name) == 0);
    for (size_t i = 0; i < (seen->stands_for == NULL ? 1 : seen->n_stands_for); i++) {
        assert_true(s->n < 32);
        snprintf(s->names[s->n], sizeof(s->names[0]), "%s",
                 seen->stands_for == NULL ? seen->name : seen->stands_for[i]);
        s->call[s->n] = s->n_calls;
        s->data[s->n++] = pl_datum_ref((const pl_datum *)seen->datum);
    }
    s->n_calls++;
    return PLUMB_OK;
}

static void record(const char *spec, const char *graph, seen_values *seen) {
    query q;
    plumb_record_info info;
    const plumb_hook hook = { .value = note_seen, .ctx = seen };
    memset(seen, 0, sizeof(*seen));
    query_graph(&q, graph, 17, NULL, NULL);
    query_run(&q, spec, false, 0);
    if (q.status != PL_OK) fail_msg("%s", q.err.message);
    pl_datum *again[MAX_PORTS] = { 0 };
    const pl_record_args args = { .hook = &hook, .plain = q.out };
    assert_int_equal(pl_program_record(q.program, q.in, &args, again, &info, &q.err), PL_OK);
    assert_int_equal(info.n_seen, seen->n_calls);
    for (size_t i = 0; i < q.n_out; i++) { /* looking changes nothing */
        assert_true(pl_datum_identical(again[i], q.out[i]));
        pl_datum_unref(again[i]);
    }
    query_release(&q);
}

static void seen_release(seen_values *s) {
    for (size_t i = 0; i < s->n; i++)
        pl_datum_unref(s->data[i]);
}

static const char record_graph[] =
    "(float[2,8,6,6] x, float[8,8,3,3] w) => (y) <int64[2] sh = {2, -1}> { c = Conv<pads=[1,1,1,1]>"
    "(x, w) r = Relu(c) t = Tanh(r) f = Reshape(t, sh) s = Softmax(f) u = Identity(s) n = "
    "NonZero(u) k = Shape(n) y = Exp(u) }";

static void check_record(const char *spec, size_t n_expected) {
    seen_values jit, eager;
    record(spec, record_graph, &jit);
    record("eager", record_graph, &eager);
    assert_true(jit.n >= n_expected && jit.n <= eager.n);
    for (size_t i = 0; i < jit.n; i++) {
        const char *trouble = "eager has no such value";
        for (size_t k = 0; k < eager.n; k++)
            if (strcmp(jit.names[i], eager.names[k]) == 0)
                trouble = differs(jit.data[i], eager.data[k]);
        if (trouble != NULL) fail_msg("%s: %s", jit.names[i], trouble);
    }
    seen_release(&jit);
    seen_release(&eager);
}

static void test_record__shows_every_buffer_as_eager_has_it(void **state) {
    (void)state;
    check_record("jit", 5);
}
static void test_record__without_fusing_shows_all(void **state) {
    (void)state;
    check_record("jit:fuse=off", 9);
}

static size_t call_of(const seen_values *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->names[i], name) == 0) return s->call[i];
    fail_msg("%s was not shown", name);
    return 0;
}
static void test_record__one_buffer_stands_for_all_its_values(void **state) {
    (void)state;
    seen_values s;
    record("jit:fuse=off",
           "(float[2,8] x) => (y) <int64[2] same = {2, 8}, int64[1] other = {16}> { a = Sigmoid(x) "
           "b = Identity(a) c = Reshape(b, same) d = Reshape(c, other) y = Tanh(d) }",
           &s);
    assert_int_equal(call_of(&s, "a"), call_of(&s, "b"));
    assert_int_equal(call_of(&s, "a"), call_of(&s, "c"));
    assert_int_not_equal(call_of(&s, "a"), call_of(&s, "d")); /* another shape */
    assert_int_not_equal(call_of(&s, "a"), call_of(&s, "y"));
    seen_release(&s);
}

/* ---- names ---- */

static void test_emit__hostile_names_stay_out_of_the_text(void **state) {
    static const char *const names[] = {
        "*/ int main(void) { return 1; } /*", "a\nb", "?\?/", "\\", "%s%n", "'\"", "#error x",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        query q;
        query_graph(&q, "(float[40] x) => (y) { a = Exp(x) y = Neg(a) }", 17, NULL, NULL);
        pl_model *m = q.model;
        m->graph->nodes[0]->out[0]->name = pl_model_intern(m, names[i], strlen(names[i]));
        m->graph->nodes[0]->name = m->graph->nodes[0]->out[0]->name;
        query_run(&q, "jit:fuse=off,fresh-cache", false, 0);
        if (q.status != PL_OK) fail_msg("%s: %s", names[i], q.err.message);
        query_release(&q);
    }
}

/* ---- planted faults ---- */

static const char fault_graph[] =
    "(float[2,6,9] x, float[6,1] w) => (y, z) { a = Mul(x, w) y = Tanh(a) z = Tanh(y) }";

static void run_fault(query *q, const char *fault, bool guarded) {
    char spec[200];
    snprintf(spec, sizeof(spec), "jit:inject=%s", fault);
    query_graph(q, fault_graph, 17, NULL, NULL);
    query_run(q, fault[0] == '\0' ? "jit" : spec, guarded, 1);
}

static void test_fault__kinds_that_end_the_run(void **state) {
    static const struct {
        const char *fault, *text;
        pl_status status;
        int signal;
        bool timed_out;
    } cases[] = {
        { "compile-error@Tanh", "compile error", PL_E_BACKEND, 0, false },
        { "runtime-error@Tanh:2", "run-time error", PL_E_BACKEND, 0, false },
        { "crash@Tanh:1", "crashed", PL_E_BACKEND, SIGSEGV, false },
        { "hang@Mul", "timed out", PL_E_TIMEOUT, SIGKILL, true },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (SANITIZED && cases[i].signal == SIGSEGV) continue; /* caught by the sanitizer first */
        query q;
        run_fault(&q, cases[i].fault, true);
        assert_int_equal(q.status, cases[i].status);
        if (strstr(q.err.message, cases[i].text) == NULL) fail_msg("%s", q.err.message);
        if (cases[i].signal == SIGSEGV) assert_int_equal(q.failure.signal, SIGSEGV);
        assert_true(q.failure.timed_out == cases[i].timed_out);
        query_release(&q);
    }
}

/* How many elements of an output differ between two runs in any bit. */
static size_t count_changed(const pl_datum *a, const pl_datum *b) {
    const float *x = a->tensor->data, *y = b->tensor->data;
    size_t n = 0;
    for (int64_t i = 0; i < a->tensor->n_elements; i++)
        n += memcmp(&x[i], &y[i], sizeof(float)) != 0;
    return n;
}

enum { FAULT_N = 2 * 6 * 9, FAULT_ROWS = 2 * 6 };

static size_t count_beyond_bf16(const pl_tensor *t) {
    const float *x = t->data;
    size_t n = 0;
    for (int64_t i = 0; i < t->n_elements; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof(bits));
        n += (bits & 0xffff) != 0;
    }
    return n;
}

static size_t count_above_half(const pl_tensor *t) {
    const float *x = t->data;
    size_t n = 0;
    for (int64_t i = 0; i < t->n_elements; i++)
        n += 2 * fabs((double)x[i]) > pl_tensor_max_abs(t);
    return n;
}

/* What the node after the fault makes of it: the same code on the wrong values. */
static void check_travels_on(const query *faulty, const char *fault) {
    query next;
    query_graph(&next, "(float[2,6,9] y) => (z) { z = Tanh(y) }", 17, NULL, NULL);
    pl_datum_unref(next.in[0]);
    next.in[0] = pl_datum_ref(faulty->out[0]);
    query_run(&next, "jit", false, 0);
    assert_int_equal(next.status, PL_OK);
    const size_t n = count_changed(faulty->out[1], next.out[0]);
    if (n > 0) fail_msg("%s: %zu elements of the next node are not of the wrong values", fault, n);
    query_release(&next);
}

static void test_fault__kinds_that_change_elements(void **state) {
    /* How many elements of Tanh's output change, or what tells it from the right ones. */
    static const struct {
        const char *kind;
        size_t n;
        size_t (*count)(const pl_tensor *right);
    } cases[] = {
        { "accuracy", FAULT_N, NULL },
        { "nondeterministic", 0, NULL }, /* a rounding may hit its mark */
        { "nan", 1, NULL },
        { "bf16", 0, count_beyond_bf16 },
        { "offset", FAULT_N, NULL },
        { "scale", FAULT_N, NULL },
        { "sign", FAULT_N, NULL },
        { "transpose", FAULT_N - 2 * 2, NULL }, /* the first and the last of each plane stay */
        { "shift", FAULT_N, NULL },
        { "saturate", 0, count_above_half },
        { "channel", 2 * 9, NULL },
        { "tail", FAULT_ROWS, NULL },
        { "zero", FAULT_N / 2, NULL },
        { "one-element", 1, NULL },
    };
    /* The node with the fault runs on eager's kernel, so that eager's own result has the bits that
     * it would have without. */
    query clean;
    (void)state;
    query_graph(&clean, fault_graph, 17, NULL, NULL);
    query_run(&clean, "eager", false, 0);
    assert_int_equal(clean.status, PL_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char fault[64];
        query q;
        snprintf(fault, sizeof(fault), "%s@Tanh:1", cases[i].kind);
        run_fault(&q, fault, false);
        if (q.status != PL_OK) fail_msg("%s: %s", fault, q.err.message);
        const size_t n = count_changed(q.out[0], clean.out[0]);
        const size_t want =
            cases[i].count != NULL ? cases[i].count(clean.out[0]->tensor) : cases[i].n;
        if (want > 0 ? n != want : n < FAULT_N - 2) fail_msg("%s: %zu changed", fault, n);
        check_travels_on(&q, fault);
        query_release(&q);
    }
    query_release(&clean);
}

static void test_fault__every_kind_is_tested(void **state) {
    size_t n = 0;
    (void)state;
    while (pl_jit_fault_kind(n) != NULL)
        n++;
    assert_int_equal(n, 18);
}

static void test_fault__nondeterministic_differs_from_run_to_run(void **state) {
    query a, b;
    (void)state;
    run_fault(&a, "nondeterministic@Tanh", false);
    run_fault(&b, "nondeterministic@Tanh", false);
    assert_true(count_changed(a.out[0], b.out[0]) > 0);
    query_release(&a);
    query_release(&b);
}

static void test_fault__absent_operator_and_number_change_nothing(void **state) {
    static const char *const faults[] = { "nan@Conv", "crash@Tanh:3", "hang@Mul:2" };
    query clean;
    (void)state;
    run_fault(&clean, "", false);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        query q;
        run_fault(&q, faults[i], false);
        assert_int_equal(q.status, PL_OK);
        assert_int_equal(count_changed(q.out[1], clean.out[1]), 0);
        query_release(&q);
    }
    query_release(&clean);
}

static void test_fault__spelling_is_checked(void **state) {
    static const char *const faults[] = { "nano@Relu", "nan", "nan@", "nan@Relu:0", "nan@Relu:x" };
    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        pl_jit_fault fault;
        assert_int_equal(pl_jit_fault_parse(faults[i], &fault, NULL), PL_E_USAGE);
    }
}

int main(void) {
    /* `make quick` keeps the cache between runs: compiling is nine tenths of the time. */
    char fresh[] = "/tmp/plumb-jit-test-XXXXXX";
    const char *kept = getenv("PLUMB_TEST_CACHE");
    if (kept != NULL || mkdtemp(fresh) != NULL)
        setenv("XDG_CACHE_HOME", kept != NULL ? kept : fresh, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jit__agrees_with_eager_on_every_row),
        cmocka_unit_test(test_jit__agrees_on_special_values),
        cmocka_unit_test(test_jit__agrees_in_other_types),
        cmocka_unit_test(test_jit__agrees_on_odd_shapes),
        cmocka_unit_test(test_jit__refuses_indices_out_of_range),
        cmocka_unit_test(test_jit__fuses_without_changing_the_function),
        cmocka_unit_test(test_jit__agrees_without_fusing),
        cmocka_unit_test(test_jit__agrees_with_symbolic_shapes),
        cmocka_unit_test(test_jit__takes_long_chains),
        cmocka_unit_test(test_jit__takes_constants_of_many_dims),
        cmocka_unit_test(test_jit__runs_one_program_on_several_shapes),
        cmocka_unit_test(test_jit__outputs_that_are_held_stay_as_they_are),
        cmocka_unit_test(test_record__shows_every_buffer_as_eager_has_it),
        cmocka_unit_test(test_record__without_fusing_shows_all),
        cmocka_unit_test(test_record__one_buffer_stands_for_all_its_values),
        cmocka_unit_test(test_emit__hostile_names_stay_out_of_the_text),
        cmocka_unit_test(test_fault__kinds_that_end_the_run),
        cmocka_unit_test(test_fault__kinds_that_change_elements),
        cmocka_unit_test(test_fault__every_kind_is_tested),
        cmocka_unit_test(test_fault__nondeterministic_differs_from_run_to_run),
        cmocka_unit_test(test_fault__absent_operator_and_number_change_nothing),
        cmocka_unit_test(test_fault__spelling_is_checked),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (kept != NULL) return failed;
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", fresh);
    return system(command) != 0 || failed;
}
