/* Models with gradients: the interface of the joint, forward and backward graphs, and gradients
 * against central differences where the table's samples do not go: newer opsets, shapes that are
 * not known, control flow, sequences. */
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

#include "base/rng.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "ops/infer.h"
#include "passes/backward.h"

enum { MAX_PORTS = 24 };
static const double STEP = 1e-5, TOLERANCE = 1e-6;

static pl_model *joint_of(const char *text, int opset, pl_backward_part part) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL, *joint = NULL;
    pl_status st = pl_model_parse_graph(text, opset, &model, &err);
    if (st == PL_OK) st = pl_model_backward(model, part, NULL, &joint, &err);
    if (st == PL_OK) st = pl_model_verify(joint, &err);
    pl_model_free(model);
    if (st != PL_OK) fail_msg("%s: %s", text, err.message);
    return joint;
}

/* ---- running ---- */

typedef struct run {
    pl_model *model;
    pl_interp *interp;
    pl_datum *in[MAX_PORTS], *out[MAX_PORTS];
    size_t n_in, n_out;
} run;

/* Random data; symbolic dims are 3, bools are `flag`, integers 0 or 1. */
static pl_datum *make_input(const pl_value *value, uint64_t seed, bool flag) {
    const pl_type *type = value->type;
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    for (int i = 0; i < type->rank; i++)
        dims[i] = pl_dim_known(type->dims[i]) ? type->dims[i].value : 3;
    assert_int_equal(pl_tensor_new(type->dtype, type->rank, dims, &t, NULL), PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double r = pl_rng_uniform_at(seed, 0, (uint64_t)i);
        const double x = type->dtype == PL_BOOL           ? flag
                         : pl_dtype_is_float(type->dtype) ? 0.5 + r
                                                          : floor(2 * r);
        pl_store_f64(t->dtype, &x, (char *)t->data + (size_t)i * pl_dtype_bytes(t->dtype), 1);
    }
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

static void open_run(run *r, pl_model *model, bool flag) {
    pl_err err = PL_ERR_INIT;
    const pl_interp_options options = { .seed = 1 };
    memset(r, 0, sizeof(*r));
    r->model = model;
    r->n_in = model->graph->n_inputs;
    r->n_out = model->graph->n_outputs;
    assert_true(r->n_in <= MAX_PORTS && r->n_out <= MAX_PORTS);
    if (pl_interp_new(model, &options, &r->interp, &err) != PL_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < r->n_in; i++)
        if (model->graph->inputs[i]->init == NULL)
            r->in[i] = make_input(model->graph->inputs[i], 100 + i, flag);
}

static void go(run *r) {
    pl_err err = PL_ERR_INIT;
    for (size_t i = 0; i < r->n_out; i++) {
        pl_datum_unref(r->out[i]);
        r->out[i] = NULL;
    }
    if (pl_interp_run(r->interp, r->in, r->out, &err) != PL_OK) fail_msg("%s", err.message);
}

static void close_run(run *r) {
    pl_interp_free(r->interp);
    for (size_t i = 0; i < MAX_PORTS; i++) {
        pl_datum_unref(r->in[i]);
        pl_datum_unref(r->out[i]);
    }
    pl_model_free(r->model);
}

static const pl_tensor *named(const run *r, const char *prefix, const char *name, bool input) {
    char full[200];
    snprintf(full, sizeof(full), "%s%s", prefix, name);
    const pl_graph *g = r->model->graph;
    const size_t n = input ? r->n_in : r->n_out;
    for (size_t i = 0; i < n; i++) {
        const pl_value *value = input ? g->inputs[i] : g->outputs[i];
        if (strcmp(value->name, full) == 0)
            return (input ? r->in[i] : r->out[i]) == NULL ? NULL
                                                          : (input ? r->in : r->out)[i]->tensor;
    }
    return NULL;
}

/* Incoming gradients of outputs whose shape only a run tells. */
static void shape_incoming(run *r, const char *text, int opset, bool flag) {
    run forward;
    open_run(&forward, joint_of(text, opset, PL_BACKWARD_FORWARD), flag);
    go(&forward);
    for (size_t i = 0; i < r->n_in; i++) {
        const char *name = r->model->graph->inputs[i]->name;
        if (strncmp(name, "d_", 2) != 0) continue;
        const pl_tensor *y = named(&forward, "", name + 2, false);
        if (y == NULL || pl_tensor_same_shape(y, r->in[i]->tensor)) continue;
        pl_dim dims[PL_RANK_MAX];
        for (int d = 0; d < y->rank; d++)
            dims[d] = pl_dim_of(y->dims[d]);
        const pl_value like = { .type = pl_type_tensor(r->model->arena, y->dtype, y->rank, dims) };
        pl_datum_unref(r->in[i]);
        r->in[i] = make_input(&like, 100 + i, flag);
    }
    close_run(&forward);
}

/* sum over the outputs of <incoming gradient, output> */
static double loss(const run *r) {
    double sum = 0;
    for (size_t i = 0; i < r->n_out; i++) {
        const pl_tensor *d = named(r, "d_", r->model->graph->outputs[i]->name, true);
        if (d == NULL || r->out[i]->kind != PL_TYPE_TENSOR) continue;
        for (int64_t k = 0; k < d->n_elements; k++)
            sum += pl_tensor_get_f64(d, k) * pl_tensor_get_f64(r->out[i]->tensor, k);
    }
    return sum;
}

/* Every float input against central differences of the loss. */
static void check(const char *text, int opset, bool flag) {
    run r;
    open_run(&r, joint_of(text, opset, PL_BACKWARD_JOINT), flag);
    shape_incoming(&r, text, opset, flag);
    for (size_t i = 0; i < r.n_in; i++) {
        const char *name = r.model->graph->inputs[i]->name;
        go(&r);
        const pl_tensor *g = named(&r, "d_", name, false);
        if (g == NULL || r.in[i] == NULL) continue;
        pl_tensor *x = r.in[i]->tensor, *kept = NULL;
        assert_int_equal(pl_tensor_copy(g, &kept, NULL), PL_OK);
        assert_true(pl_tensor_same_shape(x, g));
        pl_f64 *at = x->data;
        for (int64_t k = 0; k < x->n_elements; k++) {
            const double before = at[k];
            at[k] = before + STEP;
            go(&r);
            const double up = loss(&r);
            at[k] = before - STEP;
            go(&r);
            const double slope = (up - loss(&r)) / (2 * STEP), got = pl_tensor_get_f64(kept, k);
            at[k] = before;
            if (!(fabs(slope - got) <= TOLERANCE * (1 + fabs(slope))))
                fail_msg("%s: d_%s[%lld] is %.9g, differences say %.9g", text, name, (long long)k,
                         got, slope);
        }
        pl_tensor_unref(kept);
    }
    close_run(&r);
}

/* ---- the interface ---- */

static void expect_names(pl_value *const *values, size_t n, const char *const *names) {
    size_t i = 0;
    for (; names[i] != NULL; i++) {
        assert_true(i < n);
        assert_string_equal(values[i]->name, names[i]);
    }
    assert_int_equal(n, i);
}

static void test_joint__has_the_promised_interface(void **state) {
    (void)state;
    const char *text =
        "(double[2,3] x, int64[2] k) => (y, n) <double[3] w = {1, -2, 0.5}, double[3] "
        "v = {1, 2, 3}> { a = Mul(x, w) y = Mul(a, x) n = Shape(v) }";
    pl_model *m = joint_of(text, 17, PL_BACKWARD_JOINT);
    expect_names(m->graph->inputs, m->graph->n_inputs,
                 (const char *const[]){ "x", "k", "d_y", "w", NULL });
    expect_names(m->graph->outputs, m->graph->n_outputs,
                 (const char *const[]){ "y", "n", "d_x", "d_w", NULL });
    assert_non_null(pl_graph_find(m->graph, "w")->init); /* a default: it runs without */
    pl_model_free(m);
    m = joint_of(text, 17, PL_BACKWARD_FORWARD);
    expect_names(m->graph->inputs, m->graph->n_inputs,
                 (const char *const[]){ "x", "k", "w", NULL });
    expect_names(m->graph->outputs, m->graph->n_outputs,
                 (const char *const[]){ "y", "n", "a", NULL });
    pl_model_free(m);
    m = joint_of(text, 17, PL_BACKWARD_BACKWARD);
    assert_string_equal(m->graph->inputs[0]->name, "d_y");
    expect_names(m->graph->outputs, m->graph->n_outputs,
                 (const char *const[]){ "d_x", "d_w", NULL });
    pl_model_free(m);
}

static void test_joint__gives_zeros_where_nothing_depends(void **state) {
    (void)state;
    run r;
    open_run(&r, joint_of("(double[2] x, double[2] z) => (y) { y = Floor(x) }", 17, 0), true);
    go(&r);
    for (int64_t i = 0; i < 2; i++) {
        assert_true(pl_tensor_get_f64(named(&r, "", "d_x", false), i) == 0);
        assert_true(pl_tensor_get_f64(named(&r, "", "d_z", false), i) == 0);
    }
    close_run(&r);
}

static void expect_failure(const char *text, const char *word) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL, *joint = NULL;
    assert_int_equal(pl_model_parse_graph(text, 17, &model, &err), PL_OK);
    assert_int_equal(pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err),
                     PL_E_UNSUPPORTED);
    if (strstr(err.message, word) == NULL) fail_msg("'%s' lacks '%s'", err.message, word);
    pl_model_free(model);
}

static void test_joint__says_why_there_is_none(void **state) {
    (void)state;
    expect_failure("(int64[2] x) => (y) { y = Add(x, x) }", "no float output");
    expect_failure("(int64[2] x) => (y) { y = Cast<to=11>(x) }", "no float input");
    expect_failure("(double[2] x, double[2] d_y) => (y) { y = Add(x, d_y) }", "'d_y'");
    expect_failure(
        "(double[2] x, int64 m) => (y) { y = Loop(m, \"\", x) <body = b (int64 i, bool c, "
        "double[2] v) => (bool d, double[2] w) { d = Identity(c) w = Mul(v, v) }> }",
        "trip count");
    expect_failure(
        "(double[2] x) => (y) { y = Loop(\"\", \"\", x) <body = b (int64 i, bool c, "
        "double[2] v) => (bool d, double[2] w) { w = Mul(v, v) s = ReduceSum<keepdims=0>(w) "
        "t = Cast<to=9>(s) d = Not(t) }> }",
        "condition");
}

/* ---- control flow ---- */

static void test_control__loops_are_unrolled(void **state) {
    (void)state;
    check("(double[2] x) => (y, s) <int64 m = {3}, double[2] w = {2, 3}> { y, s = Loop(m, \"\", x) "
          "<body "
          "= b (int64 i, bool c, double[2] v) => (bool d, double[2] n, double[2] u) { d = "
          "Identity(c) n "
          "= Mul(v, w) u = Mul(v, x) }> }",
          17, true);
    /* A counter ends it; a loop in a loop. */
    check(
        "(double[2] x) => (y) <int64 zero = {0}, int64 one = {1}, int64 four = {4}, int64 two = "
        "{2}> { "
        "y, k = Loop(\"\", \"\", x, zero) <body = b (int64 i, bool c, double[2] v, int64 n) => "
        "(bool d, "
        "double[2] w, int64 n2) { n2 = Add(n, one) d = Less(n2, four) w = Loop(two, \"\", v) <body "
        "= "
        "b2 (int64 i2, bool c2, double[2] v2) => (bool d2, double[2] w2) { d2 = Identity(c2) w2 = "
        "Mul(v2, x) }> }> }",
        17, true);
    check("(double[2] x, double[2,3] q) => (y, s) { y, s = Scan(x, q) <num_scan_inputs = 1, "
          "scan_input_axes = [1], scan_output_axes = [-1], scan_input_directions = [1], "
          "scan_output_directions = [1], body = b (double[2] a, double[2] e) => (double[2] n, "
          "double[2] "
          "o) { n = Mul(a, e) o = Mul(n, x) }> }",
          12, true);
}

/* What is read twice is computed once: 28 sums of a value with itself are not 2^28 of them. */
static void test_control__folding_is_linear(void **state) {
    char text[2000];
    size_t n = 0;
    (void)state;
    n += (size_t)snprintf(text, sizeof(text),
                          "(double[2] x) => (y) <int64 m = {2}, double one = {1}> { y = Loop(m, "
                          "\"\", x) <body = b (int64 i, bool c, double[2] v) => (bool d, double[2] "
                          "w) { e0 = Constant<value_float = 0.5>() ");
    for (int i = 1; i <= 28; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "e%d = Add(e%d, e%d) ", i, i - 1, i - 1);
    snprintf(text + n, sizeof(text) - n, "t = Cast<to=9>(e28) d = Identity(t) w = Mul(v, x) }> }");
    check(text, 17, true);
}

static void test_control__branches_are_differentiated(void **state) {
    (void)state;
    const char *text =
        "(bool c, double[2] x, double[2] z) => (y) { y = If(c) <then_branch = t () => (double[2] "
        "a) { a "
        "= If(c) <then_branch = t2 () => (double[2] a2) { a2 = Mul(x, z) }, else_branch = e2 () => "
        "(double[2] b2) { b2 = Identity(z) }> }, else_branch = e () => (double[2] b) { b = Mul(x, "
        "x) }> "
        "}";
    check(text, 17, true);
    check(text, 17, false);
    check("(bool c, double[2] x) => (y) <int64 m = {2}> { y = If(c) <then_branch = t () => "
          "(double[2] a) "
          "{ a = Loop(m, \"\", x) <body = b (int64 i, bool k, double[2] v) => (bool d, double[2] "
          "w) { d = "
          "Identity(k) w = Mul(v, x) }> }, else_branch = e () => (double[2] b2) { b2 = Identity(x) "
          "}> }",
          17, true);
}

static void test_sequences__are_taken_apart(void **state) {
    (void)state;
    check("(double[2,3] x, double[2,4] z) => (y) <int64 p = {0}> { s = SequenceConstruct(x, z) t = "
          "SequenceInsert(s, x, p) u = SequenceErase(t) y = ConcatFromSequence<axis=1>(u) }",
          17, true);
    check("(double[5,2] x) => (y, z) <int64 n = {2}, int64 p = {-1}> { s = "
          "SplitToSequence<axis=0>(x, n) "
          "y = SequenceAt(s, p) t = SplitToSequence<keepdims=0>(x) z = "
          "ConcatFromSequence<axis=-1,new_axis=1>(t) }",
          17, true);
    check("(double[2] x, double[3] z, double[1] w) => (y) { s = SequenceConstruct(x, z) t = "
          "SequenceMap(s, "
          "w) <body = b (double[N] e, double[1] f) => (double[N] g) { g = Mul(e, f) }> y = "
          "ConcatFromSequence<axis=0>(t) }",
          17, true);
    /* Two that grow from one, and one more behind each. */
    check(
        "(double[2] x, double[3] z, double[1] w) => (y, u) { s = SequenceConstruct(x) a = "
        "SequenceInsert(s, z) b = SequenceInsert(s, w) c = SequenceInsert(a, x) d = "
        "SequenceInsert(b, z) y = ConcatFromSequence<axis=0>(c) u = ConcatFromSequence<axis=0>(d) "
        "}",
        17, true);
    check("(double[3,2] x) => (y) <int64 n = {9223372036854775807}> { s = "
          "SplitToSequence<axis=0>(x, n) y = ConcatFromSequence<axis=0>(s) }",
          17, true);
    /* Sizes that are not those of x: no gradient of a model that does not run. */
    expect_failure("(double[3,2] x) => (y) <int64[2] n = {1, 1}> { s = SplitToSequence<axis=0>(x, "
                   "n) y = ConcatFromSequence<axis=0>(s) }",
                   "ConcatFromSequence");
}

/* ---- shapes that are not known ---- */

static void test_shapes__may_be_open(void **state) {
    (void)state;
    check("(double[N,3] x, double[M,3] z) => (y) { y = Concat<axis=0>(x, z) }", 17, true);
    check("(double[N,3] x) => (y) <int64[2] r = {2, 1}> { y = Tile(x, r) }", 17, true);
    check("(double[N,3] x) => (y) <int64[1] s = {0}, int64[1] e = {100}, int64[1] a = {0}, "
          "int64[1] t = "
          "{2}> { y = Slice(x, s, e, a, t) }",
          17, true);
    check("(double[N,3] x, int64[1] s) => (y) <int64[1] e = {100}, int64[1] a = {1}> { y = "
          "Slice(x, s, e, "
          "a) }",
          17, true);
    check("(double[N,4] x, int64[2,2] i) => (y) { y = Gather<axis=1>(x, i) }", 17, true);
    check("(double[N,4] x, int64[2,2] i) => (y) { y = Gather(x, i) }", 17, true);
    check("(double[N,3] x, int64[4] p, double v) => (y) { y = Pad(x, p, v) }", 17, true);
    check("(double[N,3] x) => (y) <int64[2] s = {-1, 1}> { y = Reshape(x, s) }", 17, true);
    check("(double[N,3] x, bool[3] k) => (y) { y = Compress<axis=1>(x, k) }", 17, true);
    check("(double[N,3] x) => (y, z) <int64[2] s = {1, 2}> { y, z = Split<axis=1>(x, s) }", 17,
          true);
}

static void test_indexing__adds_what_is_read_twice(void **state) {
    (void)state;
    check("(double[2,3,2] x) => (y) <int64[2,2,1] i = {1, 1, 0, -1}> { y = "
          "GatherND<batch_dims=1>(x, i) }",
          17, true);
    check("(double[3,2] x) => (y) <int64[4,1] i = {1, 1, 0, -1}> { y = GatherND(x, i) }", 17, true);
    check("(double[3,2] x) => (y) <int64[2,2] i = {1, 1, 1, -1}> { y = GatherElements(x, i) }", 17,
          true);
    check("(double[3,2] x) => (y) <int32[3] i = {1, 1, -1}> { y = Gather<axis=1>(x, i) }", 20,
          true);
    check("(double[2,3] x) => (y) <int64[4] p = {3, 5, 1, 4}> { y = Pad<mode=\"reflect\">(x, p) }",
          17, true);
    check("(double[2,3] x) => (y) <int64[4] p = {3, -1, 1, 4}> { y = Pad<mode=\"edge\">(x, p) }",
          17, true);
    check("(double[2,3] x) => (y) <int64[4] p = {3, 7, 1, -1}> { y = Pad<mode=\"wrap\">(x, p) }",
          19, true);
}

/* Regions that only the run knows; no gradient of theirs. */
static void test_regions__may_come_at_the_run(void **state) {
    (void)state;
    check("(double[2,1,4,3] x, int64[3,5] r) => (y) <double[5] s = {1, 2.6, 1.5, 3.4, 2.5}> { f = "
          "Cast<to=11>(r) g = Mul(f, s) y = MaxRoiPool<pooled_shape=[3,2], spatial_scale=0.9>(x, "
          "g) }",
          13, true);
}

/* ---- older models ---- */

static void test_opsets__7_and_8_are_raised(void **state) {
    (void)state;
    for (int opset = 7; opset <= 8; opset++) {
        check("(double[2,3] x, double[3] b) => (y) { s = Add(x, b) y = Softmax(s) }", opset, true);
        check("(double[1,1,2,3] x) => (y) { y = Upsample<scales=[1.0,1.0,2.0,3.0], "
              "mode=\"linear\">(x) }",
              opset, true);
        check("(double[2,3] x, double[3] s, double[3] b, double[3] m, double[3] v) => (y) { y = "
              "BatchNormalization<spatial=1>(x, s, b, m, v) }",
              opset, true);
    }
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL, *joint = NULL;
    assert_int_equal(
        pl_model_parse_graph("(double[2,3,2] x, double[3,2] s, double[3,2] b, double[3,2] m, "
                             "double[3,2] v) => (y) { y = BatchNormalization<spatial=0>(x, s, b, "
                             "m, v) }",
                             7, &model, &err),
        PL_OK);
    assert_int_equal(pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err),
                     PL_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "BatchNormalization"));
    pl_model_free(model);
}

/* Inputs that are initializers too: parameters before IR version 4, inputs from it on. */
static void test_joint__reads_initializers_as_the_ir_does(void **state) {
    (void)state;
    for (int ir = 3; ir <= 4; ir++) {
        pl_err err = PL_ERR_INIT;
        pl_model *model = NULL, *joint = NULL;
        const char *text = "(double[2,3] x, double[3] w, int64[2] s) => (y) <double[3] w = {1, 2, "
                           "3}, int64[2] s = {3, 2}> { a = Mul(x, w) y = Reshape(a, s) }";
        assert_int_equal(pl_model_parse_graph(text, 8, &model, &err), PL_OK);
        model->ir_version = ir;
        assert_int_equal(pl_model_backward(model, PL_BACKWARD_JOINT, NULL, &joint, &err), PL_OK);
        assert_int_equal(joint->ir_version, 4);
        const char *const old[] = { "x", "d_y", "w", NULL };
        const char *const now[] = { "x", "w", "s", "d_y", NULL };
        expect_names(joint->graph->inputs, joint->graph->n_inputs, ir < 4 ? old : now);
        pl_model_free(model);
        pl_model_free(joint);
    }
}

/* The body of a FlexAttention reads values of two graphs around it. */
static void test_control__flex_attention_is_spelt_out(void **state) {
    (void)state;
    const char *text =
        "(bool c, double[1,2,2,2] q, double[1,1,3,2] k, double[1,1,3,2] v, double[2,3] b) => (y) { "
        "y = If(c) <then_branch = t () => (double[1,2,2,2] a) { e = Mul(b, b) a = "
        "ai.onnx.preview.FlexAttention(q, k, v) <score_mod = g (double[1,2,2,3] s) => "
        "(double[1,2,2,3] u) { f = Add(s, e) u = Mul(f, b) }> }, else_branch = o () => "
        "(double[1,2,2,2] z) { z = Neg(q) }> }";
    check(text, 22, true);
    check(text, 22, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joint__has_the_promised_interface),
        cmocka_unit_test(test_joint__gives_zeros_where_nothing_depends),
        cmocka_unit_test(test_joint__says_why_there_is_none),
        cmocka_unit_test(test_control__loops_are_unrolled),
        cmocka_unit_test(test_control__folding_is_linear),
        cmocka_unit_test(test_control__branches_are_differentiated),
        cmocka_unit_test(test_sequences__are_taken_apart),
        cmocka_unit_test(test_shapes__may_be_open),
        cmocka_unit_test(test_indexing__adds_what_is_read_twice),
        cmocka_unit_test(test_regions__may_come_at_the_run),
        cmocka_unit_test(test_opsets__7_and_8_are_raised),
        cmocka_unit_test(test_joint__reads_initializers_as_the_ir_does),
        cmocka_unit_test(test_control__flex_attention_is_spelt_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
