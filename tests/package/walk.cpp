// The way of walk.c in C++17, with plumb.h and the standard library alone. walk FOLDER
#include <plumb.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

template <typename T, void (*release)(T *)> struct deleter {
    void operator()(T *p) const { release(p); }
};
template <typename T, void (*release)(T *)> using handle = std::unique_ptr<T, deleter<T, release>>;
using model_handle = handle<plumb_model, plumb_model_close>;
using tensor_handle = handle<plumb_tensor, plumb_tensor_free>;
using session_handle = handle<plumb_session, plumb_session_free>;
using repro_handle = handle<plumb_repro, plumb_repro_free>;

struct failure : std::runtime_error {
    plumb_status status;
    explicit failure(const plumb_error &err) : std::runtime_error(err.message), status(err.status) {}
};

static const std::string text = "<ir_version: 8, opset_import: [\"\": 13]>\n"
                                "net (float[2,3] x) => (float[2,3] y) <float[3] w = {1.5, -2, 0.5}>\n"
                                "{ a = Mul(x, w)  b = Exp(a)  c = Sigmoid(b)  y = Relu(c) }\n";
static const char backend[] = "jit:inject=offset@Sigmoid";

static model_handle open_model() {
    plumb_error err = {};
    plumb_model *out = nullptr;
    if (plumb_model_open_memory(text.data(), text.size(), nullptr, &out, &err) != PLUMB_OK) throw failure(err);
    return model_handle(out);
}

static tensor_handle make_tensor(const std::vector<int64_t> &dims, const std::vector<float> &data) {
    plumb_error err = {};
    plumb_tensor *out = nullptr;
    if (plumb_tensor_new(PLUMB_FLOAT, int(dims.size()), dims.data(), data.data(), data.size() * sizeof(float), &out,
                         &err) != PLUMB_OK)
        throw failure(err);
    return tensor_handle(out);
}

static session_handle analyze(plumb_model *model, const plumb_inputs &inputs, const std::string &folder, int until) {
    struct state {
        int calls, until;
    } s = { 0, until };
    plumb_progress progress = { [](void *ctx, const char *, int64_t, int64_t) {
                                   auto *p = static_cast<state *>(ctx);
                                   return int(++p->calls == p->until);
                               },
                                &s };
    plumb_error err = {};
    plumb_session *out = nullptr;
    plumb_analyze_options options;
    plumb_analyze_options_init(&options);
    options.inputs = &inputs;
    options.backend = backend;
    options.output = folder.c_str();
    options.progress = &progress;
    if (plumb_analyze(model, &options, &out, &err) != PLUMB_OK) throw failure(err);
    return session_handle(out);
}

static tensor_handle read(const plumb_session *session, const char *value, const char *side) {
    plumb_error err = {};
    plumb_tensor *out = nullptr;
    if (plumb_session_tensor(session, value, side, &out, &err) != PLUMB_OK) throw failure(err);
    return tensor_handle(out);
}

static void walk(const std::string &folder) {
    const model_handle model = open_model();
    const tensor_handle x = make_tensor({ 2, 3 }, { 1, 2, 3, -1, 0.5f, 0.25f });
    const plumb_input in[] = { { "x", x.get() } };
    plumb_inputs inputs;
    plumb_inputs_init(&inputs);
    inputs.tensors = in;
    inputs.n_tensors = 1;
    try {
        analyze(model.get(), inputs, folder + "/cancelled", 2);
        std::printf("not cancelled\n");
    } catch (const failure &f) {
        std::printf("%s\n", plumb_status_name(f.status));
    }

    const session_handle session = analyze(model.get(), inputs, folder + "/session", 0);
    plumb_blame blame = {};
    blame.size = sizeof(blame);
    for (size_t i = 0; plumb_session_blame(session.get(), i, &blame); i++) {
        std::printf("%s %s makes %s: %.6s\n", plumb_session_verdict(session.get()), blame.op, blame.value, blame.kind);
        const tensor_handle a = read(session.get(), blame.value, "a"), b = read(session.get(), blame.value, "b");
        const auto *p = static_cast<const float *>(plumb_tensor_data(a.get()));
        const auto *q = static_cast<const float *>(plumb_tensor_data(b.get()));
        double worst = 0;
        for (int64_t k = 0; k < plumb_tensor_elements(a.get()); k++)
            worst = std::fmax(worst, std::fabs(double(p[k]) - double(q[k])));
        std::printf("%lld elements, %s by more than 0.01\n", static_cast<long long>(plumb_tensor_elements(a.get())),
                    worst > 0.01 ? "off" : "not off");
    }

    plumb_error err = {};
    plumb_repro *made = nullptr;
    const std::string small = folder + "/repro";
    plumb_minify_options options;
    plumb_minify_options_init(&options);
    options.inputs = &inputs;
    options.backend = backend;
    options.output = small.c_str();
    if (plumb_minify(model.get(), &options, &made, &err) != PLUMB_OK) throw failure(err);
    const repro_handle repro(made);
    plumb_repro_summary found = {};
    found.size = sizeof(found);
    plumb_repro_get(made, &found);
    std::printf("%zu of %zu nodes%s\n", found.nodes_after, found.nodes_before, found.verified ? ", verified" : "");
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); // minify forks; valgrind flushes what a fork inherits
    try {
        walk(argv[1]);
    } catch (const failure &f) {
        std::fprintf(stderr, "%s\n", f.what());
        return plumb_exit_code(f.status);
    }
    return 0;
}
