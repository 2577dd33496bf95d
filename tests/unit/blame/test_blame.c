/* Blame: a fault planted in one recorded value is named, its victims are not, and clean runs name
 * nobody. The runs under test are the interpreter's own, with values changed as they appear. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blame/blame.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "interp/replay.h"
#include "ops/infer.h"

enum { MAX_VALUES = 64 };

typedef struct fixture {
    pl_model *model;
    pl_datum *in[8];
    pl_datum *seen[MAX_VALUES]; /* by value id */
    bool hidden[MAX_VALUES];    /* not recorded */
    pl_blame blame;
} fixture;

/* Adds `by` to every element, or to element `at` when it is not negative. */
typedef struct fault {
    const char *value;
    double by, times;
    int64_t at;
} fault;

static pl_datum *changed(const pl_datum *d, const fault *f) {
    pl_tensor *t = NULL;
    pl_datum *out = NULL;
    assert_int_equal(pl_tensor_copy(d->tensor, &t, NULL), PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++) {
        if (f->at >= 0 && i != f->at) continue;
        const double x = pl_tensor_get_f64(t, i) * f->times + f->by;
        const size_t size = pl_dtype_bytes(t->dtype);
        pl_store_f64(t->dtype, &x, (char *)t->data + (size_t)i * size, 1);
    }
    assert_int_equal(pl_datum_of_tensor_take(t, &out, NULL), PL_OK);
    return out;
}

/* Runs node by node at the model's own precision; a faulty value is what later nodes get. */
static void run(fixture *x, const char *text, const fault *faults, size_t n_faults) {
    pl_err err = PL_ERR_INIT;
    const plumb_inputs source = { .seed = 3 };
    const pl_replay_options options = { .native = true };
    pl_replay *r = NULL;
    memset(x, 0, sizeof(*x));
    if (pl_model_parse_graph(text, 18, &x->model, &err) != PL_OK ||
        pl_ops_resolve(x->model, &err) != PL_OK || pl_model_infer(x->model, NULL, &err) != PL_OK ||
        pl_inputs_make(x->model, &source, x->in, &err) != PL_OK ||
        pl_replay_new(x->model, &options, &r, &err) != PL_OK) {
        fail_msg("%s", err.message);
    }
    const pl_graph *graph = x->model->graph;
    assert_true(x->model->n_values < MAX_VALUES);
    for (size_t i = 0; i < graph->n_inputs; i++)
        assert_int_equal(pl_replay_put(r, graph->inputs[i], x->in[i], NULL, &err), PL_OK);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        if (pl_replay_node(r, node, &err) != PL_OK) fail_msg("%s", err.message);
        for (uint32_t k = 0; k < node->n_out; k++) {
            const pl_value *value = node->out[k];
            if (value == NULL) continue;
            pl_datum *d = pl_datum_ref(pl_replay_get(r, value));
            for (size_t f = 0; f < n_faults; f++) {
                if (strcmp(faults[f].value, value->name) != 0) continue;
                pl_datum *bad = changed(d, &faults[f]);
                pl_datum_unref(d);
                d = bad;
                assert_int_equal(pl_replay_put(r, value, d, NULL, &err), PL_OK);
            }
            x->seen[value->id] = d;
        }
    }
    pl_replay_free(r);
}

static void hide(fixture *x, const char *value) {
    x->hidden[pl_graph_find(x->model->graph, value)->id] = true;
}

static bool has(void *ctx, const pl_value *value) {
    const fixture *x = ctx;
    return x->seen[value->id] != NULL && !x->hidden[value->id];
}

static pl_status get(void *ctx, const pl_value *value, pl_datum **out, pl_err *err) {
    const fixture *x = ctx;
    (void)err;
    *out = pl_datum_ref(x->seen[value->id]);
    return PL_OK;
}

static void judge(fixture *x) {
    pl_err err = PL_ERR_INIT;
    const pl_run_data a = { .has = has, .get = get, .ctx = x };
    const pl_blame_options options = { .seed = 0 };
    if (pl_blame_run(x->model, x->in, &a, NULL, &options, &x->blame, &err) != PL_OK)
        fail_msg("%s", err.message);
}

static pl_verdict verdict_of(const fixture *x, const char *value) {
    return x->blame.of[pl_graph_find(x->model->graph, value)->id].verdict;
}

static void release(fixture *x) {
    for (size_t i = 0; i < MAX_VALUES; i++)
        pl_datum_unref(x->seen[i]);
    for (size_t i = 0; i < 8; i++)
        pl_datum_unref(x->in[i]);
    pl_blame_release(&x->blame);
    pl_model_free(x->model);
}

static const char net[] = "(float[2,16] x) => (y) <int64[1] axes = {1}> "
                          "{ h = Exp(x) e = Tanh(h) m = Mul(e, x) s = Sigmoid(m) "
                          "y = ReduceSum(s, axes) }";

static void test_blame__names_nobody_in_a_clean_run(void **state) {
    (void)state;
    fixture x;
    run(&x, net, NULL, 0);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    assert_int_equal(x.blame.n_replayed, 5);
    assert_int_equal(x.blame.n_single, 5);
    assert_int_equal(verdict_of(&x, "m"), PL_VERDICT_WITHIN);
    release(&x);
}

static void test_blame__tells_the_culprit_from_its_victims(void **state) {
    (void)state;
    const fault faults[] = { { "e", 0.25, 1, -1 } };
    fixture x;
    run(&x, net, faults, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "e");
    assert_string_equal(x.blame.groups[0].op, "Tanh");
    assert_true(strncmp(x.blame.groups[0].kind, "offset 0.25", 11) == 0);
    assert_true(x.blame.groups[0].effect > 0.9 && x.blame.groups[0].effect < 1.1);
    assert_int_equal(verdict_of(&x, "h"), PL_VERDICT_WITHIN);
    assert_int_equal(verdict_of(&x, "m"), PL_VERDICT_INHERITED);
    assert_int_equal(verdict_of(&x, "y"), PL_VERDICT_INHERITED);
    release(&x);
}

static void test_blame__finds_one_wrong_element_and_a_part_in_a_million(void **state) {
    (void)state;
    const fault one[] = { { "m", 1e-3, 1, 7 } }, small[] = { { "m", 0, 1.000002, -1 } };
    fixture x;
    run(&x, net, one, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "m");
    assert_true(strncmp(x.blame.groups[0].kind, "one element", 11) == 0);
    release(&x);
    run(&x, net, small, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "m");
    release(&x);
}

/* As small as blame.md 3.3 finds them always, and clean runs stay clean. */
static void test_blame__finds_small_scales(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double by;
    } rows[] = {
        { "(float[4,8] x) => (y) { y = Softmax(x) }", 1e-6 },
        { "(float[4,16] x) => (y) { y = Tanh(x) }", 1e-6 },
        { "(float[24,32] x) => (y) <int64[1] axes = {1}> { y = ReduceMean(x, axes) }", 3e-6 },
        { "(float[16,400] x, float[400,16] w) => (y) { y = MatMul(x, w) }", 1e-5 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const fault faults[] = { { "y", 0, 1 + rows[i].by, -1 } };
        fixture x;
        run(&x, rows[i].text, faults, 1);
        judge(&x);
        if (x.blame.n_groups != 1) fail_msg("%s: %g is not found", rows[i].text, rows[i].by);
        release(&x);
        run(&x, rows[i].text, NULL, 0);
        judge(&x);
        assert_int_equal(x.blame.n_groups, 0);
        release(&x);
    }
}

static void test_blame__names_two_faults_by_their_effect(void **state) {
    (void)state;
    const fault faults[] = { { "h", 0, 1.00001, -1 }, { "s", 0.5, 1, -1 } };
    fixture x;
    run(&x, net, faults, 2);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 2);
    assert_string_equal(x.blame.groups[0].value, "s");
    assert_string_equal(x.blame.groups[1].value, "h");
    assert_true(x.blame.groups[0].score > x.blame.groups[1].score);
    release(&x);
}

/* A runtime that fused e, m and s shows s only: the group has all three. */
static void test_blame__names_a_fused_group(void **state) {
    (void)state;
    const fault faults[] = { { "m", 0, 1.01, -1 } };
    fixture x;
    run(&x, net, faults, 1);
    hide(&x, "e");
    hide(&x, "m");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "s");
    assert_int_equal(x.blame.groups[0].n_members, 3);
    assert_string_equal(x.blame.groups[0].members[0], "e");
    release(&x);
    run(&x, net, NULL, 0);
    hide(&x, "e");
    hide(&x, "m");
    hide(&x, "h");
    hide(&x, "s");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
}

/* One unrecorded fault that feeds two recorded values: what their segments share. */
static void test_blame__names_what_two_segments_share(void **state) {
    (void)state;
    static const char fork[] = "(float[3,8] x) => (p, q) { h = Exp(x) p = Tanh(h) q = Neg(h) }";
    const fault faults[] = { { "h", 0, 1.1, -1 } };
    fixture x;
    run(&x, fork, faults, 1);
    hide(&x, "h");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    assert_int_equal(x.blame.groups[0].n_members, 1);
    release(&x);
}

static void test_blame__lets_ties_be_broken_either_way(void **state) {
    (void)state;
    static const char tie[] = "(float[1,4] x) => (i) { r = Relu(x) n = Sub(r, r) "
                              "i = ArgMax<axis=1>(n) }";
    const fault other[] = { { "i", 2, 1, -1 } }, outside[] = { { "i", 9, 1, -1 } };
    fixture x;
    run(&x, tie, other, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
    run(&x, tie, outside, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    release(&x);
}

/* Casting down and up again rounds; a runtime that drops the pair is wrong. */
static void test_blame__misses_a_cast_that_was_dropped(void **state) {
    (void)state;
    static const char casts[] = "(float[2,8] x) => (y) { h = Cast<to=10>(x) y = Cast<to=1>(h) }";
    fixture x;
    run(&x, casts, NULL, 0);
    hide(&x, "h");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
    run(&x, casts, NULL, 0);
    hide(&x, "h");
    const pl_value *y = x.model->graph->outputs[0];
    pl_datum_unref(x.seen[y->id]);
    x.seen[y->id] = pl_datum_ref(x.in[0]);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "y");
    release(&x);
}

static void test_blame__finds_born_nan_and_wrong_shapes(void **state) {
    (void)state;
    const fault nan_[] = { { "m", (double)NAN, 1, 3 } };
    fixture x;
    run(&x, net, nan_, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "m");
    assert_string_equal(x.blame.groups[0].kind, "NaN born here");
    release(&x);

    run(&x, net, NULL, 0);
    const pl_value *y = x.model->graph->outputs[0];
    pl_tensor *other = NULL;
    const int64_t dims[1] = { 2 };
    assert_int_equal(pl_tensor_reshape(x.seen[y->id]->tensor, 1, dims, &other, NULL), PL_OK);
    pl_datum_unref(x.seen[y->id]);
    x.seen[y->id] = NULL;
    assert_int_equal(pl_datum_of_tensor_take(other, &x.seen[y->id], NULL), PL_OK);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].kind, "shape");
    release(&x);
}

static void test_blame__never_replays_random_operators(void **state) {
    (void)state;
    fixture x;
    run(&x, "(float[2,8] x) => (y) { r = RandomNormalLike(x) y = Add(x, r) }", NULL, 0);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    assert_int_equal(x.blame.n_unreplayed, 1);
    assert_int_equal(verdict_of(&x, "r"), PL_VERDICT_UNVERIFIED);
    assert_int_equal(verdict_of(&x, "y"), PL_VERDICT_WITHIN);
    release(&x);
}

/* The mean of equal numbers, added one by one in float, drifts by more than any bound of sqrt(K):
 * so does a plain sum, and nobody is to blame. */
static void test_blame__excuses_what_a_plain_sum_does_too(void **state) {
    (void)state;
    fixture x;
    run(&x,
        "(float[65536,1] x) => (y) <int64[1] axes = {0}, float v = {0.1}> "
        "{ z = Sub(x, x) t = Add(z, v) y = ReduceMean(t, axes) }",
        NULL, 0);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
}

/* The same elements in another shape: a MatMul that became a Gemm keeps its input flat. */
static void reshape_seen(fixture *x, const char *value, int rank, const int64_t *dims) {
    const uint32_t id = pl_graph_find(x->model->graph, value)->id;
    pl_tensor *flat = NULL;
    assert_int_equal(pl_tensor_reshape(x->seen[id]->tensor, rank, dims, &flat, NULL), PL_OK);
    pl_datum_unref(x->seen[id]);
    x->seen[id] = NULL;
    assert_int_equal(pl_datum_of_tensor_take(flat, &x->seen[id], NULL), PL_OK);
}

static void test_blame__lets_inner_values_be_held_in_another_shape(void **state) {
    (void)state;
    static const char text[] = "(float[2,3,4] x) => (y) { h = Exp(x) t = Tanh(h) y = Neg(t) }";
    const int64_t flat[2] = { 6, 4 };
    const fault later[] = { { "t", 0.5, 1, -1 } };
    fixture x;
    run(&x, text, NULL, 0);
    reshape_seen(&x, "h", 2, flat);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
    run(&x, text, NULL, 0); /* an output is what the caller gets */
    reshape_seen(&x, "y", 2, flat);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].kind, "shape");
    release(&x);
    run(&x, text, later, 1); /* a fault behind it is not the shape's */
    reshape_seen(&x, "h", 2, flat);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "t");
    release(&x);
}

/* A Transpose that the runtime moved: the value is there with its axes in another order. */
static void test_blame__lets_inner_values_be_held_transposed(void **state) {
    (void)state;
    static const char text[] = "(float[2,3,4] x) => (y) { h = Exp(x) t = Tanh(h) y = Neg(t) }";
    static const char other_text[] =
        "(float[2,3,4] x) => (y) { e = Exp(x) h = Transpose<perm=[0,2,1]>(e) y = Neg(h) }";
    const fault later[] = { { "t", 0.5, 1, -1 } };
    for (int faulty = 0; faulty < 2; faulty++) {
        fixture x, other;
        run(&x, text, later, (size_t)faulty);
        run(&other, other_text, NULL, 0);
        const uint32_t id = pl_graph_find(x.model->graph, "h")->id;
        pl_datum_unref(x.seen[id]);
        x.seen[id] = pl_datum_ref(other.seen[pl_graph_find(other.model->graph, "h")->id]);
        judge(&x);
        assert_int_equal(x.blame.n_groups, faulty);
        if (faulty) assert_string_equal(x.blame.groups[0].value, "t");
        release(&x);
        release(&other);
    }
}

/* What is computed from the wrong shape is right for that shape: the shape is to blame. */
static void test_blame__blames_a_shape_that_does_harm(void **state) {
    (void)state;
    static const char right[] = "(float[4,6] x) => (y) { h = Exp(x) y = Softmax<axis=0>(h) }";
    static const char wrong[] = "(float[6,4] x) => (y) { h = Exp(x) y = Softmax<axis=0>(h) }";
    const int64_t there[2] = { 6, 4 };
    fixture x, other;
    run(&x, right, NULL, 0);
    run(&other, wrong, NULL, 0); /* generated inputs depend on the element only */
    reshape_seen(&x, "h", 2, there);
    const uint32_t id = pl_graph_find(x.model->graph, "y")->id;
    pl_datum_unref(x.seen[id]);
    x.seen[id] = pl_datum_ref(other.seen[pl_graph_find(other.model->graph, "y")->id]);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    assert_string_equal(x.blame.groups[0].kind, "shape");
    release(&x);
    release(&other);
}

/* All values of `other`'s run in the place of x's own. */
static void take_seen(fixture *x, const fixture *other) {
    const pl_graph *graph = x->model->graph;
    for (size_t i = 0; i < graph->n_values; i++) {
        const pl_value *value = graph->values[i];
        if (value->producer == NULL) continue;
        pl_datum_unref(x->seen[value->id]);
        const uint32_t id = pl_graph_find(other->model->graph, value->name)->id;
        x->seen[value->id] = pl_datum_ref(other->seen[id]);
    }
}

/* A shape that is wrong makes all that follow wrong: they did as they should with what they got. */
static void test_blame__leaves_what_follows_a_wrong_shape_alone(void **state) {
    (void)state;
#define CUT(end)                                                                                   \
    "(float[4,6] x) => (y) <int64[1] s = {0}, int64[1] e = {" end "}, int64[1] a = {1}> "          \
    "{ h = Slice(x, s, e, a) t = Tanh(h) u = Neg(t) y = ReduceMax<keepdims=0>(u, a) }"
    fixture x, other;
    run(&x, CUT("3"), NULL, 0);
    run(&other, CUT("5"), NULL, 0);
    take_seen(&x, &other);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    assert_string_equal(x.blame.groups[0].kind, "shape");
    assert_int_equal(verdict_of(&x, "t"), PL_VERDICT_INHERITED);
    assert_int_equal(verdict_of(&x, "u"), PL_VERDICT_INHERITED);
    release(&x);
    run(&x, CUT("3"), NULL, 0);
    take_seen(&x, &other);
    hide(&x, "t"); /* through a value that was not seen, too */
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    release(&x);
    release(&other);
#undef CUT
}

/* Which is larger, NaN or 1? A runtime that says 1 has not made the NaN. */
static void test_blame__lets_maxima_lose_nan(void **state) {
    (void)state;
    static const char text[] = "(float[1,1,4,4] x) => (y) "
                               "{ h = Exp(x) y = MaxPool<kernel_shape=[2,2]>(h) }";
    const fault nan_[] = { { "h", (double)NAN, 1, 5 } };
    fixture x;
    run(&x, text, nan_, 1);
    const pl_tensor *y = x.seen[x.model->graph->outputs[0]->id]->tensor;
    for (int64_t i = 0; i < y->n_elements; i++)
        if (isnan(((const float *)y->data)[i])) ((float *)y->data)[i] = 1;
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    release(&x);
    run(&x, text, NULL, 0); /* without one before it, it is born there */
    ((float *)x.seen[x.model->graph->outputs[0]->id]->tensor->data)[2] = NAN;
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "y");
    release(&x);
}

/* NaN is not above a threshold, nor below: the number of the other side, or still NaN. */
static void test_blame__lets_thresholds_lose_nan(void **state) {
    (void)state;
    static const char *const texts[] = {
        "(float[16] x) => (y) { h = Exp(x) y = ThresholdedRelu<alpha=0.5>(h) }",
        "(float[16] x) => (y) { h = Exp(x) y = Shrink<lambd=0.5>(h) }"
    };
    const fault nan_[] = { { "h", (double)NAN, 1, 5 } };
    for (size_t t = 0; t < sizeof(texts) / sizeof(texts[0]); t++) {
        fixture x;
        run(&x, texts[t], nan_, 1);
        float *y = x.seen[x.model->graph->outputs[0]->id]->tensor->data;
        for (int64_t i = 0; i < 16; i++)
            if (isnan(y[i])) y[i] = 0;
        judge(&x);
        assert_int_equal(x.blame.n_groups, 1);
        assert_string_equal(x.blame.groups[0].value, "h");
        release(&x);
    }
}

/* Numbers that need no rounding leave no choice: 5.5 is 6, though the value before was not seen. */
static void test_blame__gives_exact_ties_no_slack(void **state) {
    (void)state;
    static const char text[] = "(float[1,1,1,3] x) => (y) <float s = {1}, int8 z = {0}, "
                               "float[3] v = {2, 6, 4}, int64[4] n = {1,1,1,3}, "
                               "int64[4] sizes = {1,1,1,6}> "
                               "{ c = Reshape(v, n) o = Sub(x, x) i = Add(o, c) "
                               "q = QuantizeLinear(i, s, z) d = DequantizeLinear(q, s, z) "
                               "r = Resize<mode=\"linear\">(d, , , sizes) "
                               "y = QuantizeLinear(r, s, z) }";
    const fault down[] = { { "y", -1, 1, 3 } };
    fixture x;
    run(&x, text, NULL, 0);
    hide(&x, "d");
    hide(&x, "r");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
    run(&x, text, down, 1);
    hide(&x, "d");
    hide(&x, "r");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "y");
    release(&x);
}

/* Half precision held in float: the plain run on rounded inputs excuses nothing but rounding. */
static void test_blame__finds_faults_in_half_precision_held_in_float(void **state) {
    (void)state;
    static const char text[] = "(float16[8,32] x) => (y) { t = Tanh(x) u = Transpose(x) "
                               "y = MatMul(t, u) }";
    const fault faults[] = { { "y", 0, 1.02, -1 } }, one[] = { { "y", 0.5, 1, 9 } };
    for (int k = 0; k < 3; k++) {
        fixture x;
        run(&x, text, k == 1 ? faults : one, k == 0 ? 0 : 1);
        for (uint32_t id = 0; id < MAX_VALUES; id++) {
            if (x.seen[id] == NULL) continue;
            pl_tensor *wide = NULL;
            assert_int_equal(pl_tensor_cast(x.seen[id]->tensor, PL_F32, &wide, NULL), PL_OK);
            pl_datum_unref(x.seen[id]);
            x.seen[id] = NULL;
            assert_int_equal(pl_datum_of_tensor_take(wide, &x.seen[id], NULL), PL_OK);
        }
        judge(&x);
        assert_int_equal(x.blame.n_groups, k == 0 ? 0 : 1);
        if (k > 0) assert_string_equal(x.blame.groups[0].value, "y");
        release(&x);
    }
}

/* The picks of a place from the last to the first: `by` into the first element then. */
static void turn_round(fixture *x, const char *value, double by) {
    const uint32_t id = pl_graph_find(x->model->graph, value)->id;
    const pl_tensor *t = x->seen[id]->tensor;
    const int64_t k = t->dims[t->rank - 1];
    const size_t size = pl_dtype_bytes(t->dtype);
    pl_tensor *out = NULL;
    assert_int_equal(pl_tensor_copy(t, &out, NULL), PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double v = pl_tensor_get_f64(t, i - i % k + (k - 1 - i % k)) + (i == 0 ? by : 0);
        pl_store_f64(t->dtype, &v, (char *)out->data + (size_t)i * size, 1);
    }
    pl_datum_unref(x->seen[id]);
    x->seen[id] = NULL;
    assert_int_equal(pl_datum_of_tensor_take(out, &x->seen[id], NULL), PL_OK);
}

/* ONNX TopK-11: with sorted=0 the order is anyone's, the elements are not. */
static void test_blame__lets_topk_without_order_be_in_any(void **state) {
    (void)state;
    static const char text[] = "(float[3,9] x) => (v, i) <int64[1] k = {4}> "
                               "{ v, i = TopK<axis=1, sorted=0>(x, k) }";
    static const char sorted[] = "(float[3,9] x) => (v, i) <int64[1] k = {4}> "
                                 "{ v, i = TopK<axis=1>(x, k) }";
    for (int k = 0; k < 3; k++) {
        fixture x;
        run(&x, k == 2 ? sorted : text, NULL, 0);
        turn_round(&x, "v", k == 1 ? 1e-3 : 0);
        turn_round(&x, "i", 0);
        judge(&x);
        assert_int_equal(x.blame.n_groups, k == 0 ? 0 : 1);
        release(&x);
    }
}

/* Integers that TopK picks are no places: 5 for 3 is wrong, though elements 5 and 3 are equal. */
static void test_blame__takes_picked_integers_for_what_they_are(void **state) {
    (void)state;
    static const char text[] =
        "(float[1,6] f) => (v, i) <int64[1] k = {2}, float o = {0.0}, int64[1,6] c = "
        "{1,3,2,2,0,2}> "
        "{ z = Mul(f, o) n = Cast<to=7>(z) x = Add(n, c) v, i = TopK<axis=1>(x, k) }";
    const fault faults[] = { { "v", 2, 1, 0 } };
    fixture x;
    run(&x, text, faults, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    release(&x);
}

/* A runtime that makes a float bias int32 with its layer has that number, and no other near it. */
static void test_blame__knows_what_a_quantised_bias_becomes(void **state) {
    (void)state;
#define LAYER(bias)                                                                                \
    "(float[2,3] x) => (y) <float s = {0.125}, uint8 z = {128}, int8[3,1] w = {3, -5, 7}, "        \
    "float t = {0.0625}, float[1] b = {" bias "}> { q = QuantizeLinear(x, s, z) "                  \
    "d = DequantizeLinear(q, s, z) v = DequantizeLinear(w, t) y = Gemm(d, v, b) }"
    static const char *const ran[] = { LAYER("0.0234375"), LAYER("0.0195312"), LAYER("0.021") };
    for (int k = 0; k < 3; k++) { /* 0.021 is 2.688 steps of 1/128: 3 is right, 2.5 is not */
        fixture x, other;
        run(&x, LAYER("0.021"), NULL, 0);
        run(&other, ran[k], NULL, 0);
        take_seen(&x, &other);
        judge(&x);
        assert_int_equal(x.blame.n_groups, k == 1 ? 1 : 0);
        if (k == 0) {
            const uint32_t id = pl_graph_find(x.model->graph, "y")->id;
            assert_string_equal(x.blame.of[id].excuse, "bias quantised by the runtime");
        }
        release(&x);
        release(&other);
    }
#undef LAYER
}

/* A bias moved with a hidden scale that is to blame is fitted from two elements of its channel; a
 * single one would fit any. */
static void test_blame__fits_no_bias_to_a_single_element(void **state) {
    (void)state;
#define LAYER(rows, scale, bias)                                                                   \
    "(float[" rows ",3] x) => (y) <float s = {0.125}, uint8 z = {128}, int8[3,2] w = {3, -5, 7, "  \
    "2, -4, 6}, float one = {1}, float t = {" scale "}, float[2] b = {" bias ", 0.5}> "            \
    "{ q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) u = Mul(t, one) "                 \
    "v = DequantizeLinear(w, u) y = Gemm(d, v, b) }"
    static const struct {
        const char *model, *ran;
        size_t n_groups;
    } rows[] = {
        { LAYER("3", "0.0625", "0.021"), LAYER("3", "0.25", "0.03125"), 1 },
        { LAYER("1", "0.0625", "0.021"), LAYER("1", "0.25", "0.03125"), 2 },
        { LAYER("3", "0.0625", "0.021"), LAYER("3", "0.25", "0.0625"), 2 }, /* beyond 2 |b| */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fixture x, other;
        run(&x, rows[i].model, NULL, 0);
        run(&other, rows[i].ran, NULL, 0);
        take_seen(&x, &other);
        hide(&x, "u");
        judge(&x);
        assert_int_equal(x.blame.n_groups, rows[i].n_groups);
        release(&x);
        release(&other);
    }
#undef LAYER
}

/* What is not recorded may leave the range of fp16 where fp64 does not. */
static void test_blame__lets_unseen_values_overflow(void **state) {
    (void)state;
    static const char text[] =
        "(float16[2,4] x) => (y) <float16 k = {20.0}, int64[1] axes = {1}> "
        "{ a = Abs(x) m = Add(a, k) e = Exp(m) s = ReduceSum(e, axes) y = Log(s) }";
    const fault born[] = { { "y", (double)INFINITY, 1, 1 } };
    static const char small[] =
        "(float16[2,4] x) => (y) <float16 k = {2.0}, int64[1] axes = {1}> "
        "{ a = Abs(x) m = Add(a, k) e = Exp(m) s = ReduceSum(e, axes) y = Log(s) }";
    for (int k = 0; k < 2; k++) {
        fixture x;
        run(&x, k == 0 ? text : small, born, (size_t)k);
        hide(&x, "e");
        hide(&x, "s");
        judge(&x);
        assert_int_equal(x.blame.n_groups, k);
        release(&x);
    }
}

static void test_blame__names_swapped_inputs(void **state) {
    (void)state;
    static const char right[] = "(float[2,8] x) => (y) { a = Exp(x) b = Cos(x) y = Div(a, b) }";
    static const char wrong[] = "(float[2,8] x) => (y) { a = Exp(x) b = Cos(x) y = Div(b, a) }";
    fixture x, other;
    run(&x, right, NULL, 0);
    run(&other, wrong, NULL, 0);
    const uint32_t id = pl_graph_find(x.model->graph, "y")->id;
    pl_datum_unref(x.seen[id]);
    x.seen[id] = pl_datum_ref(other.seen[pl_graph_find(other.model->graph, "y")->id]);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].kind, "swapped inputs");
    release(&x);
    release(&other);
}

/* An operator that is wrong for some inputs only: which ones. */
static void test_blame__tells_the_interval_of_inputs(void **state) {
    (void)state;
    fixture x;
    run(&x, "(float[4,16] x) => (y) { y = Tanh(x) }", NULL, 0);
    const uint32_t id = pl_graph_find(x.model->graph, "y")->id;
    pl_tensor *y = NULL;
    assert_int_equal(pl_tensor_copy(x.seen[id]->tensor, &y, NULL), PL_OK);
    for (int64_t i = 0; i < y->n_elements; i++)
        if (((pl_f32 *)x.in[0]->tensor->data)[i] > 0.75f) ((pl_f32 *)y->data)[i] += 0.01f;
    pl_datum_unref(x.seen[id]);
    x.seen[id] = NULL;
    assert_int_equal(pl_datum_of_tensor_take(y, &x.seen[id], NULL), PL_OK);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_non_null(strstr(x.blame.groups[0].where, "for inputs from 0."));
    release(&x);
}

/* Edges at which a careless bound divides by zero or excuses everything. */
static void test_blame__is_calm_at_the_edges(void **state) {
    (void)state;
    static const char *const texts[] = {
        "(float x) => (y) { h = Exp(x) y = Tanh(h) }",                          /* scalars */
        "(float[0,3] x) => (y) { h = Exp(x) y = MatMul(h, w) } ",               /* no elements */
        "(float[3,1] x) => (y) { t = Transpose(x) y = MatMul(x, t) }",          /* K = 1 */
        "(float[2,8] x) => (y) { z = Sub(x, x) s = Sigmoid(z) y = Mul(z, s) }", /* zeros */
        "(float[2,8] x) => (y) <float c = {-100}> { z = Add(x, c) y = Sigmoid(z) }",
        "(float[2,8] x) => (y) <float c = {1e30}> { z = Mul(x, c) e = Exp(z) y = Mul(e, e) }",
        "(float[2,8] x) => (y) <float c = {1e-42}> { z = Mul(x, c) y = Mul(z, z) }",
        "(float[2,8] x) => (y) <float c = {1e4}> { z = Add(x, c) y = LpNormalization<axis=1>(z) }",
        "(float[4,8] x) => (y) { z = Sub(x, x) y, yi, yz = DynamicQuantizeLinear(z) }",
        "(float[4,8] x) => (y) <float lo = {2}, float hi = {1}> { y = Clip(x, lo, hi) }",
        "(float[4,8] x) => (y) { y = HardSigmoid<alpha=0.25>(x) }",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        fixture x;
        if (strstr(texts[i], ", w)") != NULL) {
            run(&x,
                "(float[0,3] x) => (y) <float[3,2] w = {1,2,3,4,5,6}> { h = Exp(x) "
                "y = MatMul(h, w) }",
                NULL, 0);
        } else {
            run(&x, texts[i], NULL, 0);
        }
        judge(&x);
        if (x.blame.n_groups != 0) fail_msg("%s: %s", texts[i], x.blame.groups[0].reason);
        assert_int_equal(x.blame.n_unreplayed, 0);
        release(&x);
    }
}

/* A value that two nodes use and that is an output, too; a node with an output that nobody wants.
 */
static void test_blame__outputs_may_be_used_inside(void **state) {
    (void)state;
    static const char text[] = "(float[4,8] x) => (h, y) <int64[1] k = {3}> { h = Exp(x) "
                               "v, i = TopK<axis=1>(h, k) n = Neg(h) y = Abs(v) }";
    const fault faults[] = { { "h", 0, 1.001, -1 } };
    fixture x;
    run(&x, text, faults, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "h");
    release(&x);
    run(&x, text, NULL, 0);
    hide(&x, "v");
    judge(&x);
    assert_int_equal(x.blame.n_groups, 0);
    release(&x);
}

/* The bound of an Inf is infinite, too, and excuses neither its sign nor NaN in its place. */
static void test_blame__holds_inf_to_its_sign(void **state) {
    (void)state;
    static const char log_of_0[] = "(float[8] x) => (y) { z = Sub(x, x) l = Log(z) y = Add(l, l) }";
    const fault faults[] = { { "y", 0, -1, -1 }, { "y", (double)NAN, 1, 3 }, { "y", 0, 1, -1 } };
    for (int i = 0; i < 6; i++) {
        fixture x;
        run(&x, log_of_0, &faults[i % 3], 1);
        if (i >= 3) hide(&x, "l");
        judge(&x);
        assert_int_equal(x.blame.n_groups, i % 3 < 2);
        release(&x);
    }
}

/* As fast runtimes do. What is wrong before it, beyond its bound, or after it still shows. */
static void test_blame__lets_a_tail_be_clamped(void **state) {
    (void)state;
    static const char tail[] = "(float[4,8] x) => (s, y) <float c = {-23}, float big = {1e9}> "
                               "{ z = Add(x, c) s = Sigmoid(z) y = Mul(s, big) }";
    const fault clamped[] = { { "s", 0, 0, -1 } };
    const fault coarse[] = { { "s", 1e-6, 0, -1 } };
    const fault before[] = { { "z", 3, 1, -1 } };
    fixture x;
    run(&x, tail, clamped, 1);
    judge(&x);
    assert_int_equal(verdict_of(&x, "s"), PL_VERDICT_WITHIN);
    assert_int_equal(verdict_of(&x, "y"), PL_VERDICT_INHERITED); /* a function of what was lost */
    release(&x);
    run(&x, tail, coarse, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "s");
    release(&x);
    run(&x, tail, before, 1);
    judge(&x);
    assert_int_equal(x.blame.n_groups, 1);
    assert_string_equal(x.blame.groups[0].value, "z");
    assert_int_not_equal(verdict_of(&x, "s"), PL_VERDICT_WITHIN);
    release(&x);
    run(&x, tail, before, 1);
    hide(&x, "z");
    judge(&x);
    assert_int_not_equal(verdict_of(&x, "s"), PL_VERDICT_WITHIN);
    release(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blame__names_nobody_in_a_clean_run),
        cmocka_unit_test(test_blame__tells_the_culprit_from_its_victims),
        cmocka_unit_test(test_blame__finds_one_wrong_element_and_a_part_in_a_million),
        cmocka_unit_test(test_blame__finds_small_scales),
        cmocka_unit_test(test_blame__names_two_faults_by_their_effect),
        cmocka_unit_test(test_blame__names_a_fused_group),
        cmocka_unit_test(test_blame__names_what_two_segments_share),
        cmocka_unit_test(test_blame__lets_ties_be_broken_either_way),
        cmocka_unit_test(test_blame__misses_a_cast_that_was_dropped),
        cmocka_unit_test(test_blame__finds_born_nan_and_wrong_shapes),
        cmocka_unit_test(test_blame__never_replays_random_operators),
        cmocka_unit_test(test_blame__excuses_what_a_plain_sum_does_too),
        cmocka_unit_test(test_blame__lets_inner_values_be_held_in_another_shape),
        cmocka_unit_test(test_blame__lets_inner_values_be_held_transposed),
        cmocka_unit_test(test_blame__blames_a_shape_that_does_harm),
        cmocka_unit_test(test_blame__leaves_what_follows_a_wrong_shape_alone),
        cmocka_unit_test(test_blame__lets_maxima_lose_nan),
        cmocka_unit_test(test_blame__lets_thresholds_lose_nan),
        cmocka_unit_test(test_blame__gives_exact_ties_no_slack),
        cmocka_unit_test(test_blame__finds_faults_in_half_precision_held_in_float),
        cmocka_unit_test(test_blame__names_swapped_inputs),
        cmocka_unit_test(test_blame__tells_the_interval_of_inputs),
        cmocka_unit_test(test_blame__is_calm_at_the_edges),
        cmocka_unit_test(test_blame__lets_topk_without_order_be_in_any),
        cmocka_unit_test(test_blame__takes_picked_integers_for_what_they_are),
        cmocka_unit_test(test_blame__knows_what_a_quantised_bias_becomes),
        cmocka_unit_test(test_blame__fits_no_bias_to_a_single_element),
        cmocka_unit_test(test_blame__lets_unseen_values_overflow),
        cmocka_unit_test(test_blame__outputs_may_be_used_inside),
        cmocka_unit_test(test_blame__holds_inf_to_its_sign),
        cmocka_unit_test(test_blame__lets_a_tail_be_clamped),
    };
    return cmocka_run_group_tests_name("blame", tests, NULL, NULL);
}
