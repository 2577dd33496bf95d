/* The compiler: it computes what eager computes, shows what it leaves in memory, and every planted
 * fault does exactly what its name says. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#if defined(__SANITIZE_ADDRESS__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "backends/jit/jit_fault.h"
#include "flows/inputs.h"
#include "graph/text.h"
#include "ops/op.h"

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

static bool agrees(const pl_op_def *row, const pl_sample *sample, const char *spec) {
    query jit, eager;
    const char *trouble = NULL;
    const int opset = row->domain == NULL ? row->since : 17;
    query_graph(&jit, sample->graph, opset, sample->ranges, row);
    query_graph(&eager, sample->graph, opset, sample->ranges, row);
    query_run(&jit, spec, false, 0);
    query_run(&eager, "eager", false, 0);
    if (jit.status != eager.status) {
        trouble = jit.status != PL_OK ? jit.err.message : "it runs where eager refuses";
    }
    for (size_t i = 0; trouble == NULL && jit.status == PL_OK && i < jit.n_out; i++) {
        if (!pl_model_is_random(eager.model)) trouble = differs(jit.out[i], eager.out[i]);
    }
    if (trouble != NULL) {
        print_error("%s-%d: %s: %s\n", row->name, row->since, sample->graph, trouble);
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
            n_bad += !agrees(row, s, "jit:threads=2");
    }
    assert_int_equal(n_bad, 0);
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

/* How many elements of an output differ between two runs. */
static size_t count_changed(const pl_datum *a, const pl_datum *b) {
    const float *x = a->tensor->data, *y = b->tensor->data;
    size_t n = 0;
    for (int64_t i = 0; i < a->tensor->n_elements; i++)
        n += memcmp(&x[i], &y[i], sizeof(float)) != 0;
    return n;
}

static void test_fault__kinds_that_change_elements(void **state) {
    enum { N = 2 * 6 * 9, ROWS = 2 * 6 };
    /* Which elements of Tanh's output change; 0 = most (a rounding may hit its mark already). */
    static const struct {
        const char *kind;
        size_t n;
    } cases[] = {
        { "accuracy", N }, { "nondeterministic", 0 }, { "nan", 1 },
        { "bf16", 0 },     { "offset", N },           { "scale", N },
        { "sign", N },     { "transpose", 0 },        { "shift", N },
        { "saturate", 0 }, { "channel", 2 * 9 },      { "tail", ROWS },
        { "zero", N / 2 }, { "one-element", 1 },
    };
    query clean;
    (void)state;
    run_fault(&clean, "", false);
    assert_int_equal(clean.status, PL_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char fault[64];
        query q;
        snprintf(fault, sizeof(fault), "%s@Tanh:1", cases[i].kind);
        run_fault(&q, fault, false);
        if (q.status != PL_OK) fail_msg("%s: %s", fault, q.err.message);
        const size_t n = count_changed(q.out[0], clean.out[0]);
        if (cases[i].n > 0 ? n != cases[i].n : n < N / 10) fail_msg("%s: %zu changed", fault, n);
        assert_true(count_changed(q.out[1], clean.out[1]) > 0); /* it travels on */
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
    char cache[] = "/tmp/plumb-jit-test-XXXXXX";
    if (mkdtemp(cache) != NULL) setenv("XDG_CACHE_HOME", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jit__agrees_with_eager_on_every_row),
        cmocka_unit_test(test_fault__kinds_that_end_the_run),
        cmocka_unit_test(test_fault__kinds_that_change_elements),
        cmocka_unit_test(test_fault__every_kind_is_tested),
        cmocka_unit_test(test_fault__nondeterministic_differs_from_run_to_run),
        cmocka_unit_test(test_fault__absent_operator_and_number_change_nothing),
        cmocka_unit_test(test_fault__spelling_is_checked),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[100];
    snprintf(command, sizeof(command), "rm -rf %s", cache);
    return system(command) != 0 || failed;
}
