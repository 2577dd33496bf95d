/* Error bounds against a real runtime: on hostile inputs (tails, cancellation, long sums of equal
 * numbers, means of 1e4, half precision) ONNX Runtime stays within twice the bound, or within twice
 * what plain sequential sums are off by; and a fault of a few parts in a million is seen.
 *
 * On ARM64 CPUs with float16 arithmetic ONNX Runtime computes Softmax of float16 in it, sums too;
 * there the bound is that of such sums, as in blame.
 *
 * Skipped without the library. PLUMB_ORT_LIB picks another version. */
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

#include "backends/backend.h"
#include "blame/local_error.h"
#include "flows/inputs.h"
#include "graph/text/text.h"
#include "interp/replay.h"
#include "ops/infer.h"
#include "ort_machine.h"

enum { MAX_PORTS = 16 };
static const double Q_CLEAN = 2;

typedef struct hostile {
    const char *op, *attrs, *type, *range;
    int opset;
    double fault; /* relative: found at q > 4; 0 = not asked (relative to the sum's terms) */
} hostile;

#define F "float[64,64]"
#define H "float16[64,64]"
#define LONG "float[65536,3]"
#define ROW "float[3,65536]"
/* clang-format off */
static const hostile CASES[] = {
    { "Exp", "", F, "-90:80", 17, 1e-6 },        { "Exp", "", H, "-9:9", 17, 1e-2 },
    { "Tanh", "", F, "-20:20", 17, 1e-6 },       { "Tanh", "", F, "-1e-3:1e-3", 17, 1e-6 },
    { "Erf", "", F, "-20:20", 17, 1e-6 },        { "Sigmoid", "", F, "-100:100", 17, 1e-6 },
    { "Sigmoid", "", H, "-20:20", 17, 1e-2 },    { "Sin", "", F, "-1e3:1e3", 17, 1e-6 },
    { "Cos", "", F, "1.5:1.6", 17, 1e-6 },       { "Sqrt", "", F, "0:1e30", 17, 1e-6 },
    { "Log", "", F, "0.99:1.01", 17, 1e-6 },     { "Reciprocal", "", F, "0.1:4", 17, 1e-6 },
    { "Asin", "", F, "-1:1", 17, 1e-6 },         { "Acos", "", F, "0.999:1", 17, 1e-6 },
    { "Atanh", "", F, "-1e-3:1e-3", 17, 1e-6 },  { "Acosh", "", F, "1:1.0001", 17, 1e-6 },
    { "Tan", "", F, "-100:100", 17, 1e-6 },      { "Sinh", "", F, "-80:80", 17, 3e-5 },
    { "Softplus", "", F, "-12:-2", 17, 1e-6 },   { "Softplus", "", F, "-30:30", 17, 1e-6 },
    { "Elu", "", F, "-1e-3:1e-3", 17, 1e-6 },    { "Selu", "", F, "-3:3", 17, 1e-6 },
    { "HardSigmoid", "", F, "-5:5", 17, 1e-6 },  { "HardSwish", "", F, "-5:5", 17, 1e-6 },
    { "LeakyRelu", "", F, "-3:3", 17, 1e-6 },    { "Softsign", "", F, "-3:3", 17, 1e-6 },
    { "Gelu", "", F, "-30:30", 20, 1e-6 },       { "Gelu", "<approximate=\"tanh\">", F, "-30:30", 20, 1e-6 },
    { "Mish", "", F, "-30:30", 18, 1e-6 },
    { "ReduceSum", "<axes=[0]>", LONG, "0.1:0.1", 12, 0 },   { "ReduceSum", "<axes=[1]>", ROW, "-3:3", 12, 0 },
    { "ReduceMean", "<axes=[0]>", LONG, "9999:10001", 17, 0 }, { "ReduceMean", "<axes=[1]>", "float[8,24]", "0:1", 17, 3e-6 },
    { "ReduceMean", "<axes=[1]>", H, "0:1", 17, 1e-2 },
    { "ReduceL2", "<axes=[1]>", ROW, "-3:3", 17, 0 },        { "ReduceL2", "", F, "-1e-22:1e-22", 17, 0 },
    { "ReduceL1", "<axes=[1]>", "float[8,24]", "-3:3", 17, 3e-6 },
    { "ReduceSumSquare", "<axes=[1]>", ROW, "-3:3", 17, 0 }, { "ReduceLogSum", "<axes=[0]>", LONG, "0:3", 17, 0 },
    { "ReduceLogSumExp", "<axes=[1]>", F, "-50:50", 17, 3e-6 }, { "ReduceProd", "<axes=[1]>", F, "0.9:1.1", 17, 1e-5 },
    { "Softmax", "", F, "9999:10001", 17, 3e-6 },            { "Softmax", "<axis=-1>", "float[4,65536]", "-50:50", 17, 0 },
    { "Softmax", "<axis=0>", "float[4096,8]", "-3:3", 17, 3e-6 }, { "Softmax", "", H, "-20:20", 17, 1e-2 },
    { "LogSoftmax", "", F, "-50:50", 17, 3e-6 },
};
/* clang-format on */

typedef struct run {
    pl_model *model;
    pl_program *program;
    pl_replay *gold, *naive;
    pl_datum *in[MAX_PORTS], *out[MAX_PORTS];
    pl_err err;
} run;

static bool adds_f16(const run *r) {
    return ort_has_float16() && r->in[0]->tensor->dtype == PL_F16 &&
           strcmp(r->model->graph->nodes[0]->op, "Softmax") == 0;
}

static pl_status replay(run *r, bool native, pl_replay **out) {
    const double u_acc = !native && adds_f16(r) ? 0x1p-11 : 0;
    const pl_replay_options options = { .native = native, .seed = 1, .u_acc = u_acc };
    PL_TRY(pl_replay_new(r->model, &options, out, &r->err));
    PL_TRY(pl_replay_put(*out, r->model->graph->inputs[0], r->in[0], NULL, &r->err));
    return pl_replay_node(*out, r->model->graph->nodes[0], &r->err);
}

static pl_status open_case(run *r, pl_backend *ort, const hostile *h) {
    char graph[256], range[64];
    const char *ranges[1] = { range };
    const plumb_inputs source = { .seed = 3, .ranges = ranges, .n_ranges = 1 };
    const pl_compile_options options = { .threads = 1 };
    snprintf(graph, sizeof(graph), "(%s x) => (y) { y = %s%s(x) }", h->type, h->op, h->attrs);
    snprintf(range, sizeof(range), "x=%s", h->range);
    PL_TRY(pl_model_parse_graph(graph, h->opset, &r->model, &r->err));
    PL_TRY(pl_ops_resolve(r->model, &r->err));
    PL_TRY(pl_model_infer(r->model, NULL, &r->err));
    PL_TRY(pl_inputs_make(r->model, &source, r->in, &r->err));
    PL_TRY(pl_program_new(ort, r->model, &options, &r->program, &r->err));
    PL_TRY(pl_program_run(r->program, r->in, r->out, &r->err));
    PL_TRY(replay(r, false, &r->gold));
    return replay(r, true, &r->naive);
}

static void close_case(run *r) {
    pl_replay_free(r->gold);
    pl_replay_free(r->naive);
    pl_program_free(r->program);
    for (int i = 0; i < MAX_PORTS; i++) {
        pl_datum_unref(r->in[i]);
        pl_datum_unref(r->out[i]);
    }
    pl_model_free(r->model);
}

static double measure(const run *r, const pl_tensor *a) {
    const pl_value *y = r->model->graph->outputs[0];
    const pl_tensor *d = pl_replay_get(r->gold, y)->tensor;
    pl_local_error e;
    assert_int_equal(pl_local_error_measure(NULL, a, d, pl_replay_bound(r->gold, y),
                                            r->out[0]->tensor->dtype, &e, NULL),
                     PL_OK);
    return e.q;
}

static double measure_fault(const run *r, double fault) {
    pl_tensor *faulty = NULL;
    assert_int_equal(pl_tensor_cast(r->out[0]->tensor, PL_F64, &faulty, NULL), PL_OK);
    for (int64_t i = 0; i < faulty->n_elements; i++)
        ((pl_f64 *)faulty->data)[i] *= 1 + fault;
    const double q = measure(r, faulty);
    pl_tensor_unref(faulty);
    return q;
}

static void test_bounds__hold_for_a_real_runtime(void **state) {
    (void)state;
    const pl_backend_options guarded = { .guarded = true, .timeout_seconds = 120 };
    pl_backend *ort = NULL;
    size_t n_bad = 0;
    if (pl_backend_open("ort", &guarded, &ort, NULL) != PL_OK) skip();
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        const hostile *h = &CASES[i];
        run r = { .err = PL_ERR_INIT };
        if (open_case(&r, ort, h) != PL_OK) {
            fprintf(stderr, "%s %s: %s\n", h->op, h->range, r.err.message);
            n_bad++;
            close_case(&r);
            continue;
        }
        const pl_datum *plain = pl_replay_get(r.naive, r.model->graph->outputs[0]);
        const double q = measure(&r, r.out[0]->tensor), q_ref = measure(&r, plain->tensor);
        const double seen = h->fault > 0 ? measure_fault(&r, h->fault) : HUGE_VAL;
        if (q / fmax(1, q_ref) > Q_CLEAN || seen <= PL_Q_CULPRIT) {
            fprintf(stderr, "%s%s %s %s: q %.3g, plain sums %.3g, with a fault of %g %.3g\n", h->op,
                    h->attrs, h->type, h->range, q, q_ref, h->fault, seen);
            n_bad++;
        }
        close_case(&r);
    }
    pl_backend_close(ort);
    assert_int_equal(n_bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds__hold_for_a_real_runtime),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
