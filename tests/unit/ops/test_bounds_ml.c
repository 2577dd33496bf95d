/* Error bounds of ai.onnx.ml: sums in float, one term after the other, stay within twice the bound,
 * and the bound is not out of all proportion. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/rng.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"

typedef struct fixture {
    pl_model *model;
    pl_replay *replay;
} fixture;

/* Replays a graph of ai.onnx.ml with one input, all of whose elements are given. */
static void open_graph(fixture *f, const char *text, const double *x) {
    pl_err err = PL_ERR_INIT;
    const pl_replay_options options = { .seed = 1 };
    int64_t dims[PL_RANK_MAX];
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    pl_status st = pl_model_parse_graph(text, 17, &f->model, &err);
    for (size_t i = 0; st == PL_OK && i < f->model->graph->n_nodes; i++)
        f->model->graph->nodes[i]->opset = 3;
    if (st == PL_OK) st = pl_ops_resolve(f->model, &err);
    if (st == PL_OK) st = pl_model_infer(f->model, NULL, &err);
    if (st == PL_OK) st = pl_replay_new(f->model, &options, &f->replay, &err);
    if (st != PL_OK) fail_msg("%s", err.message);
    const pl_value *in = f->model->graph->inputs[0];
    for (int k = 0; k < in->type->rank; k++)
        dims[k] = in->type->dims[k].value;
    assert_int_equal(pl_tensor_new(in->type->dtype, in->type->rank, dims, &t, &err), PL_OK);
    pl_store_f64(t->dtype, x, t->data, (size_t)t->n_elements);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, &err), PL_OK);
    assert_int_equal(pl_replay_put(f->replay, in, d, NULL, &err), PL_OK);
    pl_datum_unref(d);
    st = pl_replay_node(f->replay, f->model->graph->nodes[0], &err);
    if (st != PL_OK) fail_msg("%s", err.message);
}

static void close_graph(fixture *f) {
    pl_replay_free(f->replay);
    pl_model_free(f->model);
}

static double value_at(const fixture *f, size_t output, int64_t i) {
    return pl_tensor_get_f64(pl_replay_get(f->replay, f->model->graph->outputs[output])->tensor, i);
}

static double bound_at(const fixture *f, size_t output, int64_t i) {
    const pl_tensor *e = pl_replay_bound(f->replay, f->model->graph->outputs[output]);
    return e == NULL ? 0 : pl_tensor_get_f64(e, i);
}

/* A run gave `found` for element i of output 0. */
static void assert_within(const fixture *f, int64_t i, double found, double most_bound) {
    const double y = value_at(f, 0, i), bound = bound_at(f, 0, i);
    if (!(fabs(found - y) <= 2 * bound) || bound > most_bound)
        fail_msg("element %lld: %.9g, exactly %.9g, bound %.3g (at most %.3g)", (long long)i, found,
                 y, bound, most_bound);
}

static float uniform(uint64_t stream, uint64_t i, double low, double high) {
    return (float)(low + (high - low) * pl_rng_uniform_at(11, stream, i));
}

static void put_floats(pl_buf *b, const char *name, const float *x, int64_t n) {
    pl_buf_printf(b, ", %s=[", name);
    for (int64_t i = 0; i < n; i++)
        pl_buf_printf(b, "%s%.9e", i == 0 ? "" : ", ", (double)x[i]);
    pl_buf_puts(b, "]");
}

static void put_numbers(pl_buf *b, const char *name, int64_t n, bool count) {
    pl_buf_printf(b, ", %s=[", name);
    for (int64_t i = 0; i < n; i++)
        pl_buf_printf(b, "%s%lld", i == 0 ? "" : ", ", count ? (long long)i : 0LL);
    pl_buf_puts(b, "]");
}

/* Trees that are leaves; gives how far a sum in float is off. */
static double check_trees(uint64_t draw) {
    enum { N = 400 };
    static const char *const zeros[] = { "nodes_nodeids",     "nodes_featureids",
                                         "nodes_truenodeids", "nodes_falsenodeids",
                                         "target_nodeids",    "target_ids" };
    float w[N], sum = 0;
    pl_buf b = PL_BUF_INIT;
    fixture f;
    for (uint64_t i = 0; i < N; i++) {
        w[i] = uniform(100 + draw, i, 0.9, 1);
        sum += w[i];
    }
    pl_buf_puts(&b, "(float[1,1] x) => (y) { y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=1");
    put_numbers(&b, "nodes_treeids", N, true);
    put_numbers(&b, "target_treeids", N, true);
    for (size_t k = 0; k < 6; k++)
        put_numbers(&b, zeros[k], N, false);
    put_floats(&b, "nodes_values", (const float[N]){ 0 }, N);
    put_floats(&b, "target_weights", w, N);
    pl_buf_puts(&b, ", nodes_modes=[");
    for (int i = 0; i < N; i++)
        pl_buf_puts(&b, i == 0 ? "\"LEAF\"" : ", \"LEAF\"");
    pl_buf_puts(&b, "]>(x) }");
    open_graph(&f, pl_buf_str(&b), (const double[]){ 0 });
    const double off = fabs((double)sum - value_at(&f, 0, 0));
    assert_within(&f, 0, (double)sum, 1e-3);
    close_graph(&f);
    pl_buf_release(&b);
    return off;
}

/* Of one sign: the sum grows, and so do its roundings. */
static void test_trees__many_of_one_sign(void **state) {
    double most = 0;
    (void)state;
    for (uint64_t draw = 0; draw < 20; draw++)
        most = fmax(most, check_trees(draw));
    assert_true(most > 1e-4); /* a bound of 4e-5 would be too small */
}

enum { FEATURES = 64, VECTORS = 20 };

static float kernel_in_float(const char *kernel, const float *x, const float *v) {
    float sum = 0;
    for (int i = 0; i < FEATURES; i++)
        sum += kernel[0] == 'R' ? (x[i] - v[i]) * (x[i] - v[i]) : x[i] * v[i];
    switch (kernel[0]) {
    case 'R': return expf(-0.25F * sum);
    case 'P': return powf(0.25F * sum + 1, 3);
    case 'S': return tanhf(0.25F * sum + 1);
    default: return sum;
    }
}

/* most: of the bound, relative to the sum of the sizes of what is added. */
static void check_svm(const char *kernel, double size, double most) {
    float x[FEATURES], v[VECTORS * FEATURES], c[VECTORS], y = 0, sizes = 0;
    double wide[FEATURES];
    pl_buf b = PL_BUF_INIT;
    fixture f;
    for (uint64_t i = 0; i < FEATURES; i++)
        wide[i] = (double)(x[i] = uniform(2, i, -size, size));
    for (uint64_t i = 0; i < VECTORS * FEATURES; i++)
        v[i] = uniform(3, i, -size, size);
    for (uint64_t i = 0; i < VECTORS; i++) {
        c[i] = uniform(4, i, -1, 1);
        const float term = c[i] * kernel_in_float(kernel, x, v + i * FEATURES);
        y += term;
        sizes += fabsf(term);
    }
    y += 0.5F;
    pl_buf_printf(&b,
                  "(float[1,%d] x) => (y) { y = ai.onnx.ml.SVMRegressor<kernel_type=\"%s\", "
                  "kernel_params=[0.25, 1.0, 3.0], n_supports=%d, rho=[0.5]",
                  FEATURES, kernel, VECTORS);
    put_floats(&b, "support_vectors", v, VECTORS * FEATURES);
    put_floats(&b, "coefficients", c, VECTORS);
    pl_buf_puts(&b, ">(x) }");
    open_graph(&f, pl_buf_str(&b), wide);
    assert_within(&f, 0, (double)y, most * ((double)sizes + 0.5));
    close_graph(&f);
    pl_buf_release(&b);
}

static void test_svm__kernels_are_off_by_what_they_add(void **state) {
    (void)state;
    check_svm("LINEAR", 1, 1e-5);
    check_svm("POLY", 1, 1e-5);
    check_svm("RBF", 0.1, 1e-5);
    check_svm("SIGMOID", 0.1, 1e-5);
    check_svm("SIGMOID", 30, 1e-3); /* terms of 900 cancel before tanh: 2^-24 * 900 * 8 / 4 */
}

/* Three pairs; the middle one is 1e-8 of numbers near 1: either class may win it. */
static void test_svm__labels_go_by_votes(void **state) {
    (void)state;
    static const char *const rho[] = { "[5.0, 1e-08, 7.0]", "[5.0, 1.0, 7.0]" };
    for (int i = 0; i < 2; i++) {
        char text[600];
        fixture f;
        snprintf(
            text, sizeof(text),
            "(float[1,1] x) => (l, y) { l, y = ai.onnx.ml.SVMClassifier<kernel_type=\"LINEAR\", "
            "kernel_params=[1.0, 0.0, 1.0], vectors_per_class=[1, 1, 1], classlabels_ints=[4, "
            "5, 6], support_vectors=[1.0, 1.0, 1.0], coefficients=[0.9, 1.1, -1.2, 1.2, -1.2, "
            "0.9], rho=%s>(x) }",
            rho[i]);
        open_graph(&f, text, (const double[]){ 1 });
        assert_int_equal(isinf(bound_at(&f, 0, 0)) != 0, i == 0);
        close_graph(&f);
    }
}

/* Winitzki's formula in float, as runtimes have it. */
static float probit_in_float(float p) {
    const float y = 2 * p - 1, log_ = logf((1 - y) * (1 + y));
    const float v = 2 / (3.14159265F * 0.147F) + 0.5F * log_;
    const float root = sqrtf(sqrtf(v * v - log_ / 0.147F) - v);
    return 1.41421356F * (y < 0 ? -root : root);
}

static void test_probit__cancels_in_the_middle(void **state) {
    (void)state;
    for (int i = 1; i < 200; i++) {
        const double p = 0.5 + 0.49 * pow(0.93, i) * (i % 2 == 0 ? 1 : -1);
        const float x = (float)p;
        fixture f;
        open_graph(&f,
                   "(float[1,1] x) => (y) { y = ai.onnx.ml.LinearRegressor<coefficients=[1.0], "
                   "intercepts=[0.0], post_transform=\"PROBIT\">(x) }",
                   (const double[]){ (double)x });
        assert_within(&f, 0, (double)probit_in_float(x), i < 40 ? 1e-4 : 2e-3);
        close_graph(&f);
    }
}

static void test_normalizer__sums_of_absolute_values_are_not_halved(void **state) {
    (void)state;
    enum { N = 60000, DRAWS = 100 };
    static double x[N];
    double most = 0;
    for (uint64_t draw = 0; draw < DRAWS; draw++) {
        float sum = 0;
        fixture f;
        for (uint64_t i = 0; i < N; i++) {
            x[i] = (double)uniform(200 + draw, i, 0, 1);
            sum += (float)x[i];
        }
        open_graph(&f, "(float[1,60000] x) => (y) { y = ai.onnx.ml.Normalizer<norm=\"L1\">(x) }",
                   x);
        const double exact = x[0] / value_at(&f, 0, 0);
        most = fmax(most, fabs((double)sum / exact - 1));
        assert_within(&f, 0, (double)((float)x[0] / sum), 1e-5 * x[0] / exact);
        close_graph(&f);
    }
    assert_true(most > 2 * 0x1p-24 * 66); /* twice the root of N, halved */
}

static void test_scaler__integers_are_rounded_to_float_first(void **state) {
    (void)state;
    fixture f;
    open_graph(
        &f, "(int64[1,1] x) => (y) { y = ai.onnx.ml.Scaler<offset=[20000000.0], scale=[1.0]>(x) }",
        (const double[]){ 20000001 });
    assert_true(value_at(&f, 0, 0) == 1);
    assert_within(&f, 0, (double)((float)20000001 - 20000000.0F), 2);
    close_graph(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trees__many_of_one_sign),
        cmocka_unit_test(test_svm__kernels_are_off_by_what_they_add),
        cmocka_unit_test(test_svm__labels_go_by_votes),
        cmocka_unit_test(test_probit__cancels_in_the_middle),
        cmocka_unit_test(test_normalizer__sums_of_absolute_values_are_not_halved),
        cmocka_unit_test(test_scaler__integers_are_rounded_to_float_first),
    };
    return cmocka_run_group_tests_name("bounds_ml", tests, NULL, NULL);
}
