/* A complete plugin: a backend that can do one thing, models that are a single Relu on floats.
 *
 * Needs plumb.h and nothing else:
 *   cc -shared -fPIC -Iinclude examples/plugin/relu_plugin.c -o librelu.so
 *   plumb run MODEL --backend plugin:./librelu.so
 *   plumb run MODEL --backend plugin:./librelu.so,backend=relu-async,fault
 *
 * The second backend, "relu-async", works as a device does: run() hands the work to a worker and
 * returns, synchronize() waits for it. With the option `fault` the worker crashes. plumb calls
 * synchronize after each run, so the crash is seen; a backend that left the slot empty
 * ("relu-careless") would get away with it. */
#include <plumb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const plumb_host *host;

typedef struct engine {
    int fault;
} engine;

typedef struct program {
    engine *engine;
    pthread_t worker;
    int working;
} program;

static plumb_status engine_open(const plumb_host *h, const plumb_option *options, size_t n_options,
                                void **self, plumb_error *err) {
    engine *e = calloc(1, sizeof(*e));
    host = h;
    if (e == NULL) return h->fail(err, PLUMB_E_MEMORY, "out of memory");
    for (size_t i = 0; i < n_options; i++)
        e->fault |= strcmp(options[i].key, "fault") == 0;
    *self = e;
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
    p->engine = self;
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
    (void)self;
    return relu(args, err);
}

static void *work(void *ctx) {
    const program *p = ctx;
    usleep(200000);
    if (p->engine->fault) abort();
    return NULL;
}

static plumb_status async_run(void *self, const plumb_run_args *args, plumb_error *err) {
    program *p = self;
    p->working = pthread_create(&p->worker, NULL, work, p) == 0;
    return relu(args, err);
}

static plumb_status async_synchronize(void *self, plumb_error *err) {
    program *p = self;
    (void)err;
    if (p->working) pthread_join(p->worker, NULL);
    p->working = 0;
    return PLUMB_OK;
}

static void program_free(void *self) {
    free(self);
}

static void engine_close(void *self) {
    free(self);
}

static const plumb_option_def options[] = { { "fault", NULL, "the worker crashes" } };

#define ENGINE(name_, run_, synchronize_)                                                          \
    {                                                                                              \
        .abi = PLUMB_ABI, .n_bytes = sizeof(plumb_backend), .name = name_,                         \
        .summary = "models that are one Relu", .options = options, .n_options = 1,                 \
        .open = engine_open, .close = engine_close, .version = engine_version,                     \
        .supports = engine_supports, .compile = engine_compile, .run = run_,                       \
        .synchronize = synchronize_, .free = program_free                                          \
    }

static const plumb_backend engines[] = {
    ENGINE("relu", engine_run, NULL),
    ENGINE("relu-async", async_run, async_synchronize),
    ENGINE("relu-careless", async_run, NULL),
};

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    const size_t n = sizeof(engines) / sizeof(engines[0]);
    (void)h;
    for (size_t i = 0; i < n && i < n_max; i++)
        backends[i] = &engines[i];
    return n;
}
