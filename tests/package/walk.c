/* The whole way with plumb.h alone: a model from memory, inputs as tensors, an analysis that is
 * cancelled and one that is not, blame, tensors of both sides, minify. walk FOLDER */
#include <plumb.h>
#include <stdio.h>
#include <string.h>

static const char model_text[] =
    "<ir_version: 8, opset_import: [\"\": 13]>\n"
    "net (float[2,3] x) => (float[2,3] y) <float[3] w = {1.5, -2, 0.5}>\n"
    "{ a = Mul(x, w)  b = Exp(a)  c = Sigmoid(b)  y = Relu(c) }\n";

/* Cancels at the call with this number; 0 = never. */
typedef struct patience {
    int n_calls, n_until;
} patience;

static int update(void *ctx, const char *phase, int64_t done, int64_t total) {
    patience *p = ctx;
    (void)phase, (void)done, (void)total;
    return ++p->n_calls == p->n_until;
}

static int analyze(plumb_model *model, const plumb_inputs *inputs, const char *folder, int n_until,
                   plumb_session **out, plumb_error *err) {
    patience p = { 0, n_until };
    const plumb_progress progress = { update, &p };
    plumb_analyze_options options;
    plumb_analyze_options_init(&options);
    options.inputs = inputs;
    options.backend = "jit:inject=offset@Sigmoid";
    options.output = folder;
    options.progress = &progress;
    return (int)plumb_analyze(model, &options, out, err);
}

static int read_tensors(const plumb_session *session, const char *value, plumb_error *err) {
    plumb_tensor *a = NULL, *b = NULL;
    double worst = 0;
    plumb_status st = plumb_session_tensor(session, value, "a", &a, err);
    if (st == PLUMB_OK) st = plumb_session_tensor(session, value, "b", &b, err);
    const float *x = plumb_tensor_data(a), *y = plumb_tensor_data(b);
    for (int64_t i = 0; x != NULL && y != NULL && i < plumb_tensor_elements(a); i++) {
        const double d = (double)x[i] - (double)y[i];
        if (d > worst || -d > worst) worst = d > 0 ? d : -d;
    }
    printf("%lld elements, %s by more than 0.01\n", (long long)plumb_tensor_elements(a),
           worst > 0.01 ? "off" : "not off");
    plumb_tensor_free(a);
    plumb_tensor_free(b);
    return (int)st;
}

static int minify(plumb_model *model, const plumb_inputs *inputs, const char *folder,
                  plumb_error *err) {
    plumb_repro *repro = NULL;
    plumb_repro_summary found = { .size = sizeof(found) };
    plumb_minify_options options;
    plumb_minify_options_init(&options);
    options.inputs = inputs;
    options.backend = "jit:inject=offset@Sigmoid";
    options.output = folder;
    const plumb_status st = plumb_minify(model, &options, &repro, err);
    if (plumb_repro_get(repro, &found))
        printf("%zu of %zu nodes%s\n", found.nodes_after, found.nodes_before,
               found.verified ? ", verified" : "");
    plumb_repro_free(repro);
    return (int)st;
}

int main(int argc, char **argv) {
    plumb_error err = { PLUMB_OK, "" };
    plumb_model *model = NULL;
    plumb_tensor *x = NULL;
    plumb_session *session = NULL;
    plumb_blame blame = { .size = sizeof(blame) };
    const int64_t dims[] = { 2, 3 };
    static const float data[] = { 1, 2, 3, -1, 0.5f, 0.25f };
    char folder[512];
    plumb_inputs inputs;
    plumb_inputs_init(&inputs);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* minify forks; valgrind flushes what a fork inherits */
    if (argc != 2) return 2;

    int st = (int)plumb_model_open_memory(model_text, sizeof model_text - 1, NULL, &model, &err);
    if (st == 0) st = (int)plumb_tensor_new(PLUMB_FLOAT, 2, dims, data, sizeof data, &x, &err);
    const plumb_input in[] = { { "x", x } };
    inputs.tensors = in;
    inputs.n_tensors = 1;
    if (st == 0) {
        snprintf(folder, sizeof folder, "%s/cancelled", argv[1]);
        printf("%s\n",
               plumb_status_name((plumb_status)analyze(model, &inputs, folder, 2, &session, &err)));
        if (session != NULL) st = 1;
    }
    snprintf(folder, sizeof folder, "%s/session", argv[1]);
    if (st == 0) st = analyze(model, &inputs, folder, 0, &session, &err);
    for (size_t i = 0; st == 0 && plumb_session_blame(session, i, &blame); i++) {
        printf("%s %s makes %s: %.6s\n", plumb_session_verdict(session), blame.op, blame.value,
               blame.kind);
        st = read_tensors(session, blame.value, &err);
    }
    snprintf(folder, sizeof folder, "%s/repro", argv[1]);
    if (st == 0) st = minify(model, &inputs, folder, &err);
    if (st != 0) fprintf(stderr, "%s\n", err.message);
    plumb_session_free(session);
    plumb_tensor_free(x);
    plumb_model_close(model);
    return st;
}
