/* Replay of segments: how deep they may be. What bounds hold is for test_bounds*.c. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <pthread.h>
#include <string.h>

#include "base/buf.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"

enum { CHAIN = 20000, STACK_BYTES = 512 << 10 };

/* Floor asks whether its input is exact, and so do all values before it: none was asked yet. */
static pl_model *long_chain(void) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_buf text = PL_BUF_INIT;
    pl_buf_puts(&text, "(float[2] x) => (y) { v0 = Add(x, x)");
    for (int i = 0; i < CHAIN; i++)
        pl_buf_printf(&text, " v%d = Abs(v%d)", i + 1, i);
    pl_buf_printf(&text, " y = Floor(v%d) }", CHAIN);
    if (pl_model_parse_graph(pl_buf_str(&text), 17, &model, &err) != PL_OK ||
        pl_ops_resolve(model, &err) != PL_OK || pl_model_infer(model, NULL, &err) != PL_OK)
        fail_msg("%s", err.message);
    pl_buf_release(&text);
    return model;
}

static pl_datum *pair(float a, float b) {
    const int64_t n = 2;
    const float data[2] = { a, b };
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(PL_F32, 1, &n, &t, NULL), PL_OK);
    memcpy(t->data, data, sizeof data);
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

typedef struct job {
    pl_model *model;
    pl_datum *x;
    pl_status st;
    double largest_bound;
} job;

static void *replay_all(void *ctx) {
    job *j = ctx;
    const pl_graph *graph = j->model->graph;
    const pl_replay_options options = { .seed = 1 };
    pl_replay *r = NULL;
    j->st = pl_replay_new(j->model, &options, &r, NULL);
    if (j->st == PL_OK) j->st = pl_replay_put(r, graph->inputs[0], j->x, NULL, NULL);
    for (size_t i = 0; i < graph->n_nodes && j->st == PL_OK; i++)
        j->st = pl_replay_node(r, graph->nodes[i], NULL);
    const pl_tensor *bound = j->st == PL_OK ? pl_replay_bound(r, graph->outputs[0]) : NULL;
    j->largest_bound = bound == NULL ? 0 : pl_tensor_max_abs(bound);
    pl_replay_free(r);
    return NULL;
}

static double bound_of(pl_model *model, float a, float b) {
    job j = { .model = model, .x = pair(a, b), .st = PL_E_INTERNAL };
    pthread_attr_t small;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&small), 0);
    assert_int_equal(pthread_attr_setstacksize(&small, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &small, replay_all, &j), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    pl_datum_unref(j.x);
    assert_int_equal(j.st, PL_OK);
    return j.largest_bound;
}

static void test_replay__knows_exact_values_through_a_long_segment(void **state) {
    (void)state;
    pl_model *model = long_chain();
    assert_true(bound_of(model, 3, -5) == 0); /* small integers all the way */
    pl_model_free(model);
}

static const pl_datum *replay_one(pl_replay *r, const pl_model *model, const pl_datum *x) {
    const pl_graph *graph = model->graph;
    assert_int_equal(pl_replay_put(r, graph->inputs[0], x, NULL, NULL), PL_OK);
    for (size_t i = 0; i < graph->n_nodes; i++)
        assert_int_equal(pl_replay_node(r, graph->nodes[i], NULL), PL_OK);
    return pl_replay_get(r, graph->outputs[0]);
}

/* Results are shared where the data is the same, and bounds are computed all the same. */
static void test_replay__takes_results_of_the_one_ahead(void **state) {
    (void)state;
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    if (pl_model_parse_graph("(float[2] x) => (y) { v = Exp(x) y = Mul(v, v) }", 17, &model,
                             &err) != PL_OK ||
        pl_ops_resolve(model, &err) != PL_OK || pl_model_infer(model, NULL, &err) != PL_OK)
        fail_msg("%s", err.message);
    pl_datum *x = pair(1, 2), *other = pair(1, 3);
    pl_tensor *doubles = NULL;
    pl_datum *same = NULL;
    assert_int_equal(pl_tensor_cast(x->tensor, PL_F64, &doubles, NULL), PL_OK);
    assert_int_equal(pl_datum_of_tensor_take(doubles, &same, NULL), PL_OK);
    pl_replay *ahead = NULL, *r = NULL;
    const pl_replay_options first = { .no_bounds = true };
    assert_int_equal(pl_replay_new(model, &first, &ahead, NULL), PL_OK);
    const pl_replay_options second = { .ahead = ahead };
    assert_int_equal(pl_replay_new(model, &second, &r, NULL), PL_OK);
    const pl_datum *y = replay_one(ahead, model, same);
    assert_ptr_equal(replay_one(r, model, same), y);
    assert_non_null(pl_replay_bound(r, model->graph->outputs[0]));
    const pl_datum *equal = replay_one(r, model, x); /* equal, but not the same */
    assert_ptr_not_equal(equal, y);
    assert_true(pl_tensor_identical(equal->tensor, y->tensor));
    assert_false(pl_tensor_identical(replay_one(r, model, other)->tensor, y->tensor));
    pl_replay_free(r);
    pl_replay_free(ahead);
    pl_datum_unref(same);
    pl_datum_unref(other);
    pl_datum_unref(x);
    pl_model_free(model);
}

/* ---- weights that stay narrow ---- */

enum { ROWS = 300, COLS = 256 };

static pl_model *product(const char *dtype, bool as_weight) {
    pl_err err = PL_ERR_INIT;
    pl_model *model = NULL;
    pl_buf text = PL_BUF_INIT;
    pl_buf_printf(&text, "(%s[3,%d] x, int64[2] at%s%s%s) => (y, g)", dtype, ROWS,
                  as_weight ? "" : ", ", as_weight ? "" : dtype, as_weight ? "" : "[300,256] w");
    for (int i = 0; as_weight && i < ROWS * COLS; i++)
        pl_buf_printf(&text, i == 0 ? " <%s[300,256] w = {%g" : ",%.0s%g", dtype,
                      (double)(i * 37 % 101 - 50) / 64);
    pl_buf_puts(&text, as_weight ? "}>" : "");
    pl_buf_puts(&text, " { y = MatMul(x, w) g = Gather(w, at) }");
    if (pl_model_parse_graph(pl_buf_str(&text), 17, &model, &err) != PL_OK ||
        pl_ops_resolve(model, &err) != PL_OK || pl_model_infer(model, NULL, &err) != PL_OK)
        fail_msg("%s", err.message);
    pl_buf_release(&text);
    return model;
}

static pl_datum *numbers(pl_dtype dtype, int64_t rows, int64_t cols, double over) {
    const int64_t dims[] = { rows, cols };
    pl_tensor *t = NULL;
    pl_datum *d = NULL;
    assert_int_equal(pl_tensor_new(dtype, cols == 0 ? 1 : 2, dims, &t, NULL), PL_OK);
    for (int64_t i = 0; i < t->n_elements; i++) {
        const double x = over == 0 ? (double)(299 * i) : (double)(i * 37 % 101 - 50) / over;
        char *at = (char *)t->data + (size_t)i * pl_dtype_bytes(dtype);
        if (dtype == PL_I64)
            *(int64_t *)(void *)at = (int64_t)x;
        else
            pl_store_f64(dtype, &x, at, 1);
    }
    assert_int_equal(pl_datum_of_tensor_take(t, &d, NULL), PL_OK);
    return d;
}

static pl_replay *replayed(pl_model *model, pl_dtype dtype) {
    const pl_replay_options options = { .seed = 1 };
    pl_datum *in[] = { numbers(dtype, 3, ROWS, 7), numbers(PL_I64, 2, 0, 0),
                       numbers(dtype, ROWS, COLS, 64) };
    const pl_graph *graph = model->graph;
    pl_replay *r = NULL;
    assert_int_equal(pl_replay_new(model, &options, &r, NULL), PL_OK);
    for (size_t i = 0; i < graph->n_inputs; i++)
        assert_int_equal(pl_replay_put(r, graph->inputs[i], in[i], NULL, NULL), PL_OK);
    for (size_t i = 0; i < graph->n_nodes; i++)
        assert_int_equal(pl_replay_node(r, graph->nodes[i], NULL), PL_OK);
    for (int i = 0; i < 3; i++)
        pl_datum_unref(in[i]);
    return r;
}

/* A large weight is widened by the product that reads it, and only where it is gathered: the values
 * and bounds are those of the same numbers as an input, which is widened as a whole. */
static void test_replay__keeps_large_weights_narrow(void **state) {
    (void)state;
    const pl_dtype dtypes[] = { PL_F16, PL_BF16, PL_F32 };
    const char *names[] = { "float16", "bfloat16", "float" };
    for (int k = 0; k < 3; k++) {
        pl_model *weight = product(names[k], true), *input = product(names[k], false);
        pl_replay *a = replayed(weight, dtypes[k]), *b = replayed(input, dtypes[k]);
        for (size_t i = 0; i < 2; i++) {
            const pl_value *v = weight->graph->outputs[i], *w = input->graph->outputs[i];
            assert_int_equal(pl_replay_get(a, v)->tensor->dtype, PL_F64);
            assert_true(
                pl_tensor_identical(pl_replay_get(a, v)->tensor, pl_replay_get(b, w)->tensor));
            const pl_tensor *e = pl_replay_bound(a, v), *f = pl_replay_bound(b, w);
            assert_true((e == NULL) == (f == NULL));
            assert_true(e == NULL || pl_tensor_identical(e, f));
            assert_true(i == 1 || pl_tensor_max_abs(e) > 0);
        }
        pl_replay_free(a);
        pl_replay_free(b);
        pl_model_free(weight);
        pl_model_free(input);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay__knows_exact_values_through_a_long_segment),
        cmocka_unit_test(test_replay__takes_results_of_the_one_ahead),
        cmocka_unit_test(test_replay__keeps_large_weights_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
