/* A complete plugin: a backend that can do one thing, models that are a single Relu on floats.
 *
 * Needs plumb.h and nothing else:
 *   cc -shared -fPIC -Iinclude examples/plugin/relu_plugin.c -o librelu.so
 *   plumb run MODEL --backend plugin:./librelu.so
 *
 * A backend for a device with a queue is in opencl_plugin.c. */
#include <plumb.h>
#include <stdlib.h>
#include <string.h>

static const plumb_host *host;

typedef struct program {
    size_t n_runs;
} program;

static plumb_status engine_open(const plumb_host *h, const plumb_option *options, size_t n_options,
                                void **self, plumb_error *err) {
    (void)options;
    (void)n_options;
    (void)self;
    (void)err;
    host = h;
    return PLUMB_OK;
}

static const char *engine_version(void *self) {
    (void)self;
    return "1.0";
}

static int engine_supports(void *self, const char *domain, const char *op, int opset) {
    (void)self;
    (void)opset;
    return domain[0] == '\0' && strcmp(op, "Relu") == 0;
}

/* A real engine parses source->onnx. This one looks for the name of its only operator. */
static plumb_status engine_compile(void *self, const plumb_source *source, void **out,
                                   size_t *n_hooks, plumb_error *err) {
    (void)self;
    static const char op[] = "\"\x04Relu"; /* NodeProto.op_type, 4 bytes */
    const char *bytes = source->onnx;
    int found = 0;
    for (size_t i = 0; i + 6 <= source->n_onnx; i++)
        found += memcmp(bytes + i, op, 6) == 0;
    if (found != 1 || source->n_inputs != 1 || source->n_outputs != 1) {
        return host->fail(err, PLUMB_E_BACKEND, "only a single Relu can be compiled");
    }
    program *p = calloc(1, sizeof(*p));
    if (p == NULL) return host->fail(err, PLUMB_E_MEMORY, "out of memory");
    *out = p;
    *n_hooks = 1;
    return PLUMB_OK;
}

static plumb_status relu(const plumb_run_args *args, plumb_error *err) {
    const plumb_tensor *x = args->in[0] == NULL ? NULL : host->tensor(args->in[0]);
    if (x == NULL || host->dtype(x) != PLUMB_FLOAT) {
        return host->fail(err, PLUMB_E_BACKEND, "the input must be a tensor of floats");
    }
    const size_t n = host->bytes(x) / sizeof(float);
    const float *from = host->data(x);
    float *y = malloc(host->bytes(x) + 1);
    if (y == NULL) return host->fail(err, PLUMB_E_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++)
        y[i] = from[i] < 0 ? 0 : from[i];
    const plumb_status st = host->new_tensor(PLUMB_FLOAT, host->rank(x), host->dims(x), y,
                                             host->bytes(x), &args->out[0], err);
    free(y);
    return st;
}

static plumb_status engine_run(void *self, const plumb_run_args *args, plumb_error *err) {
    program *p = self;
    p->n_runs++; /* a real engine keeps its buffers there */
    return relu(args, err);
}

static void program_free(void *self) {
    free(self);
}

static const plumb_backend engine = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .name = "relu",
    .summary = "models that are one Relu",
    .open = engine_open,
    .version = engine_version,
    .supports = engine_supports,
    .compile = engine_compile,
    .run = engine_run,
    .free = program_free,
};

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    (void)h;
    if (n_max > 0) backends[0] = &engine;
    return 1;
}
