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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replay__knows_exact_values_through_a_long_segment),
        cmocka_unit_test(test_replay__takes_results_of_the_one_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
