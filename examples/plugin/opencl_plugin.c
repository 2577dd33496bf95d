/* A plugin for a device with a queue: models of Relu, Neg, Abs, Add, Mul and ReduceSum (of all
 * elements) on floats, as kernels of OpenCL. Debian's PoCL is such a device on every CPU.
 *
 *   apt-get install pocl-opencl-icd ocl-icd-opencl-dev
 *   cc -shared -fPIC -Iinclude examples/plugin/opencl_plugin.c -lOpenCL -o libopencl_plugin.so
 *   plumb analyze MODEL --sandbox off --backend plugin:./libopencl_plugin.so
 *   plumb analyze MODEL --sandbox off --backend plugin:./libopencl_plugin.so,race
 *
 * run() only fills the queue and returns; synchronize() waits for the device and makes the outputs.
 * plumb calls it after each run, with the arguments of that run still valid, so that what goes
 * wrong on the device belongs to the run that caused it. Three things can be seen going wrong:
 *   race                      ReduceSum adds to one number from many work-groups, unprotected:
 *                             plumb finds the model non-deterministic and names the sum
 *   backend=opencl-careless   no synchronize(): the outputs are read while the device computes
 *   fault                     the device dies 0.2 s after run() has returned
 *
 * PoCL compiles kernels with the system's tools and keeps them in a cache; plumb's sandbox allows
 * plugins neither, hence --sandbox off. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <plumb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 200, VALUES_MAX = 256, NODES_MAX = 200, GROUP = 64 };

static const plumb_host *host;

/* One work-item per group in the sums: the order of additions is fixed, so results are too. */
static const char kernels[] =
    "kernel void relu(global const float *a, global float *y) {\n"
    "  size_t i = get_global_id(0); y[i] = a[i] < 0 ? 0 : a[i]; }\n"
    "kernel void neg(global const float *a, global float *y) {\n"
    "  size_t i = get_global_id(0); y[i] = -a[i]; }\n"
    "kernel void abs_(global const float *a, global float *y) {\n"
    "  size_t i = get_global_id(0); y[i] = fabs(a[i]); }\n"
    "kernel void add(global const float *a, global const float *b, global float *y) {\n"
    "  size_t i = get_global_id(0); y[i] = a[i] + b[i]; }\n"
    "kernel void mul(global const float *a, global const float *b, global float *y) {\n"
    "  size_t i = get_global_id(0); y[i] = a[i] * b[i]; }\n"
    "kernel void part(global const float *a, global float *parts, ulong n, ulong step) {\n"
    "  ulong from = get_global_id(0) * step, to = min(n, from + step); float s = 0;\n"
    "  for (ulong i = from; i < to; i++) s += a[i];\n"
    "  parts[get_global_id(0)] = s; }\n"
    "kernel void total(global const float *parts, global float *y, ulong n) {\n"
    "  float s = 0; for (ulong i = 0; i < n; i++) s += parts[i];\n"
    "  y[0] = s; }\n"
    /* The race: read, add, write back, with nothing to keep other groups out. */
    "kernel void racing(global const float *a, global volatile float *y, ulong n, ulong step) {\n"
    "  ulong from = get_global_id(0) * step, to = min(n, from + step);\n"
    "  for (ulong i = from; i < to; i++) { float s = y[0]; y[0] = s + a[i]; } }\n";

typedef struct engine {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    char name[200];
    int race, fault;
} engine;

typedef struct value {
    char name[NAME_MAX_BYTES];
    int rank;
    int64_t dims[16];
    size_t n;
    cl_mem memory;
    cl_event done;    /* of the kernel that computes it; NULL = an input */
    float *read;      /* of an output or a recorded value, once the device is done */
    cl_event arrived; /* of the copy to `read` */
} value;

typedef struct node {
    char op[40];
    int in[2], n_in, out;
} node;

typedef struct program {
    engine *engine;
    value values[VALUES_MAX];
    int n_values;
    node nodes[NODES_MAX];
    int n_nodes;
    int inputs[VALUES_MAX], outputs[VALUES_MAX];
    size_t n_inputs, n_outputs;
    const plumb_run_args *args; /* of the run that the device works on */
} program;

/* ---- the engine ---- */

static plumb_status cl_failed(plumb_error *err, const char *what, cl_int code) {
    return host->fail(err, PLUMB_E_BACKEND, "OpenCL: %s failed with code %d", what, (int)code);
}

static void engine_close(void *self) {
    engine *e = self;
    if (e == NULL) return;
    if (e->program != NULL) clReleaseProgram(e->program);
    if (e->queue != NULL) clReleaseCommandQueue(e->queue);
    if (e->context != NULL) clReleaseContext(e->context);
    free(e);
}

static plumb_status start_device(engine *e, plumb_error *err) {
    cl_platform_id platform;
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(1, &platform, &n);
    if (code != CL_SUCCESS || n == 0)
        return host->fail(err, PLUMB_E_NOT_FOUND,
                          "no OpenCL platform; Debian: apt-get install pocl-opencl-icd");
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &e->device, NULL);
    if (code != CL_SUCCESS) return cl_failed(err, "clGetDeviceIDs", code);
    clGetDeviceInfo(e->device, CL_DEVICE_NAME, sizeof(e->name) - 1, e->name, NULL);
    e->context = clCreateContext(NULL, 1, &e->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) return cl_failed(err, "clCreateContext", code);
    e->queue =
        clCreateCommandQueue(e->context, e->device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (code != CL_SUCCESS) return cl_failed(err, "clCreateCommandQueue", code);
    const char *text = kernels;
    e->program = clCreateProgramWithSource(e->context, 1, &text, NULL, &code);
    if (code != CL_SUCCESS) return cl_failed(err, "clCreateProgramWithSource", code);
    code = clBuildProgram(e->program, 1, &e->device, "-cl-fp32-correctly-rounded-divide-sqrt", NULL,
                          NULL);
    return code == CL_SUCCESS ? PLUMB_OK : cl_failed(err, "clBuildProgram", code);
}

static plumb_status engine_open(const plumb_host *h, const plumb_option *options, size_t n_options,
                                void **self, plumb_error *err) {
    host = h;
    engine *e = calloc(1, sizeof(*e));
    if (e == NULL) return h->fail(err, PLUMB_E_MEMORY, "out of memory");
    for (size_t i = 0; i < n_options; i++) {
        e->race |= strcmp(options[i].key, "race") == 0;
        e->fault |= strcmp(options[i].key, "fault") == 0;
    }
    const plumb_status st = start_device(e, err);
    if (st == PLUMB_OK) {
        *self = e;
    } else {
        engine_close(e);
    }
    return st;
}

static const char *engine_version(void *self) {
    (void)self;
    return "1.0";
}

static const char *engine_device(void *self) {
    return ((const engine *)self)->name;
}

static const struct {
    const char *op, *kernel;
    int n_in;
} operators[] = { { "Relu", "relu", 1 }, { "Neg", "neg", 1 }, { "Abs", "abs_", 1 },
                  { "Add", "add", 2 },   { "Mul", "mul", 2 }, { "ReduceSum", NULL, 1 } };
enum { N_OPERATORS = sizeof(operators) / sizeof(operators[0]) };

static int find_operator(const char *op) {
    for (int i = 0; i < N_OPERATORS; i++)
        if (strcmp(operators[i].op, op) == 0) return i;
    return -1;
}

static int engine_supports(void *self, const char *domain, const char *op, int opset) {
    (void)self;
    (void)opset;
    return domain[0] == '\0' && find_operator(op) >= 0;
}

/* ---- reading the model: as much of protobuf as it takes ---- */

typedef struct bytes {
    const unsigned char *at, *end;
} bytes;

static int read_number(bytes *b, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && b->at < b->end; shift += 7) {
        const unsigned char c = *b->at++;
        *out |= (uint64_t)(c & 127) << shift;
        if (c < 128) return 1;
    }
    return 0;
}

/* The next field; `part` is empty unless it has a length. */
static int next_field(bytes *b, int *field, bytes *part) {
    static const unsigned char fixed[] = { 0, 8, 0, 0, 0, 4 };
    uint64_t key, n = 0;
    if (b->at >= b->end || !read_number(b, &key)) return 0;
    *field = (int)(key >> 3);
    part->at = part->end = b->at;
    const int wire = (int)(key & 7);
    if (wire == 0) return read_number(b, &n);
    if (wire == 2 && !read_number(b, &n)) return 0;
    if (wire == 1 || wire == 5) n = fixed[wire];
    if (wire > 5 || wire == 3 || wire == 4 || n > (uint64_t)(b->end - b->at)) return 0;
    part->at = b->at;
    b->at += n;
    part->end = b->at;
    return 1;
}

static int find_value(program *p, const char *name, size_t n) {
    for (int i = 0; i < p->n_values; i++)
        if (strlen(p->values[i].name) == n && memcmp(p->values[i].name, name, n) == 0) return i;
    if (p->n_values == VALUES_MAX || n >= NAME_MAX_BYTES) return -1;
    memcpy(p->values[p->n_values].name, name, n);
    return p->n_values++;
}

static int read_node(program *p, bytes b) {
    bytes part;
    int field;
    if (p->n_nodes == NODES_MAX) return 0;
    node *to = &p->nodes[p->n_nodes++];
    to->out = -1;
    while (next_field(&b, &field, &part)) {
        const size_t n = (size_t)(part.end - part.at);
        const char *text = (const char *)part.at;
        if (field == 1 && to->n_in < 2) {
            to->in[to->n_in] = find_value(p, text, n);
            if (to->in[to->n_in++] < 0) return 0;
        } else if (field == 2 && to->out < 0) {
            to->out = find_value(p, text, n);
        } else if (field == 4 && n < sizeof(to->op)) {
            memcpy(to->op, text, n);
        } else if (field != 3) { /* its name; attributes, more inputs or outputs */
            return 0;
        }
    }
    const int k = find_operator(to->op);
    return k >= 0 && to->out >= 0 && to->n_in == operators[k].n_in;
}

static int read_graph(program *p, bytes b) {
    bytes part;
    int field;
    while (next_field(&b, &field, &part)) {
        if (field == 5) return 0; /* weights */
        if (field == 1 && !read_node(p, part)) return 0;
    }
    return 1;
}

static void program_free(void *self) {
    free(self);
}

static plumb_status engine_compile(void *self, const plumb_source *source, void **out,
                                   size_t *n_hooks, plumb_error *err) {
    program *p = calloc(1, sizeof(*p));
    if (p == NULL) return host->fail(err, PLUMB_E_MEMORY, "out of memory");
    bytes b = { source->onnx, (const unsigned char *)source->onnx + source->n_onnx }, part;
    int field, ok = source->n_inputs < VALUES_MAX && source->n_outputs < VALUES_MAX;
    p->engine = self;
    p->n_inputs = source->n_inputs;
    p->n_outputs = source->n_outputs;
    for (size_t i = 0; i < p->n_inputs && ok; i++)
        ok = (p->inputs[i] = find_value(p, source->inputs[i], strlen(source->inputs[i]))) >= 0;
    while (ok && next_field(&b, &field, &part))
        if (field == 7) ok = read_graph(p, part);
    for (size_t i = 0; i < p->n_outputs && ok; i++)
        ok = (p->outputs[i] = find_value(p, source->outputs[i], strlen(source->outputs[i]))) >= 0;
    if (!ok) {
        program_free(p);
        return host->fail(err, PLUMB_E_BACKEND,
                          "only Relu, Neg, Abs, Add, Mul and ReduceSum without attributes and "
                          "weights can be compiled");
    }
    *out = p;
    *n_hooks = (size_t)p->n_nodes;
    return PLUMB_OK;
}

/* ---- filling the queue ---- */

static void drop_run(program *p) {
    clFinish(p->engine->queue);
    for (int i = 0; i < p->n_values; i++) {
        value *v = &p->values[i];
        if (v->memory != NULL) clReleaseMemObject(v->memory);
        if (v->done != NULL) clReleaseEvent(v->done);
        if (v->arrived != NULL) clReleaseEvent(v->arrived);
        free(v->read);
        v->memory = NULL;
        v->done = v->arrived = NULL;
        v->read = NULL;
    }
}

static cl_int new_memory(program *p, value *v, const void *data) {
    cl_int code;
    const cl_mem_flags copy = data == NULL ? 0 : CL_MEM_COPY_HOST_PTR;
    v->memory =
        clCreateBuffer(p->engine->context, CL_MEM_READ_WRITE | copy,
                       (v->n > 0 ? v->n : 1) * sizeof(float), (void *)(uintptr_t)data, &code);
    return code;
}

/* Runs a kernel after the events of `waits`. Numbers follow the buffers. */
static cl_int launch(program *p, const char *name, const cl_mem *buffers, cl_uint n_buffers,
                     const cl_ulong *numbers, cl_uint n_numbers, size_t n, const cl_event *waits,
                     cl_uint n_waits, cl_event *done) {
    cl_int code;
    cl_kernel k = clCreateKernel(p->engine->program, name, &code);
    if (code != CL_SUCCESS) return code;
    for (cl_uint i = 0; i < n_buffers && code == CL_SUCCESS; i++)
        code = clSetKernelArg(k, i, sizeof(cl_mem), &buffers[i]);
    for (cl_uint i = 0; i < n_numbers && code == CL_SUCCESS; i++)
        code = clSetKernelArg(k, n_buffers + i, sizeof(cl_ulong), &numbers[i]);
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(p->engine->queue, k, 1, NULL, &n, NULL, n_waits,
                                      n_waits > 0 ? waits : NULL, done);
    clReleaseKernel(k);
    return code;
}

static cl_int launch_sum(program *p, const value *x, value *y, const cl_event *waits,
                         cl_uint n_waits) {
    const size_t step = x->n / GROUP + 1;
    const cl_ulong numbers[] = { x->n, step };
    cl_int code;
    y->rank = x->rank;
    y->n = 1;
    for (int i = 0; i < x->rank; i++)
        y->dims[i] = 1;
    const float zero = 0;
    code = new_memory(p, y, &zero);
    if (code != CL_SUCCESS) return code;
    if (p->engine->race) {
        const cl_mem both[] = { x->memory, y->memory };
        return launch(p, "racing", both, 2, numbers, 2, GROUP, waits, n_waits, &y->done);
    }
    value parts = { .n = GROUP };
    cl_event first = NULL;
    code = new_memory(p, &parts, NULL);
    const cl_mem before[] = { x->memory, parts.memory }, after[] = { parts.memory, y->memory };
    const cl_ulong n_parts = GROUP;
    if (code == CL_SUCCESS)
        code = launch(p, "part", before, 2, numbers, 2, GROUP, waits, n_waits, &first);
    if (code == CL_SUCCESS)
        code = launch(p, "total", after, 2, &n_parts, 1, 1, &first, 1, &y->done);
    if (first != NULL) clReleaseEvent(first);
    if (parts.memory != NULL) clReleaseMemObject(parts.memory); /* once the kernels are done */
    return code;
}

static cl_int launch_node(program *p, const node *at) {
    const value *a = &p->values[at->in[0]], *b = &p->values[at->in[at->n_in - 1]];
    value *y = &p->values[at->out];
    cl_event waits[2];
    cl_uint n_waits = 0;
    for (int i = 0; i < at->n_in; i++)
        if (p->values[at->in[i]].done != NULL) waits[n_waits++] = p->values[at->in[i]].done;
    const int k = find_operator(at->op);
    if (operators[k].kernel == NULL) return launch_sum(p, a, y, waits, n_waits);
    if (a->n != b->n) return CL_INVALID_BUFFER_SIZE; /* no broadcasting */
    y->rank = a->rank;
    y->n = a->n;
    memcpy(y->dims, a->dims, sizeof(y->dims));
    const cl_int code = new_memory(p, y, NULL);
    if (code != CL_SUCCESS || y->n == 0) return code;
    const cl_mem one[] = { a->memory, y->memory }, two[] = { a->memory, b->memory, y->memory };
    return launch(p, operators[k].kernel, at->n_in == 2 ? two : one, at->n_in == 2 ? 3 : 2, NULL, 0,
                  y->n, waits, n_waits, &y->done);
}

static plumb_status take_inputs(program *p, const plumb_run_args *args, plumb_error *err) {
    for (size_t i = 0; i < p->n_inputs; i++) {
        const plumb_tensor *x = args->in[i] == NULL ? NULL : host->tensor(args->in[i]);
        value *v = &p->values[p->inputs[i]];
        if (x == NULL || host->dtype(x) != PLUMB_FLOAT || host->rank(x) > 16)
            return host->fail(err, PLUMB_E_BACKEND, "inputs must be tensors of floats");
        v->rank = host->rank(x);
        v->n = host->bytes(x) / sizeof(float);
        memcpy(v->dims, host->dims(x), sizeof(int64_t) * (size_t)v->rank);
        const cl_int code = new_memory(p, v, v->n > 0 ? host->data(x) : NULL);
        if (code != CL_SUCCESS) return cl_failed(err, "clCreateBuffer", code);
    }
    return PLUMB_OK;
}

/* Copies a value to the host when it is computed; returns before that. */
static cl_int fetch(program *p, value *v) {
    if (v->read != NULL) return CL_SUCCESS;
    v->read = calloc(v->n + 1, sizeof(float));
    if (v->read == NULL) return CL_OUT_OF_HOST_MEMORY;
    if (v->n == 0) return CL_SUCCESS;
    return clEnqueueReadBuffer(p->engine->queue, v->memory, CL_FALSE, 0, v->n * sizeof(float),
                               v->read, v->done == NULL ? 0 : 1, v->done == NULL ? NULL : &v->done,
                               &v->arrived);
}

static void CL_CALLBACK die_late(void *arguments) {
    (void)arguments;
    usleep(200000);
    abort();
}

static plumb_status fill_queue(program *p, const plumb_run_args *args, plumb_error *err) {
    plumb_status st = take_inputs(p, args, err);
    cl_int code = CL_SUCCESS;
    for (int i = 0; i < p->n_nodes && st == PLUMB_OK && code == CL_SUCCESS; i++)
        code = launch_node(p, &p->nodes[i]);
    for (int i = 0; i < p->n_nodes && args->hook != NULL && st == PLUMB_OK && code == CL_SUCCESS;
         i++)
        code = fetch(p, &p->values[p->nodes[i].out]);
    for (size_t i = 0; i < p->n_outputs && st == PLUMB_OK && code == CL_SUCCESS; i++)
        code = fetch(p, &p->values[p->outputs[i]]);
    if (st == PLUMB_OK && code == CL_SUCCESS && p->engine->fault)
        code = clEnqueueNativeKernel(p->engine->queue, die_late, NULL, 0, 0, NULL, NULL, 0, NULL,
                                     NULL);
    if (st == PLUMB_OK && code != CL_SUCCESS) st = cl_failed(err, "a command", code);
    if (st == PLUMB_OK) clFlush(p->engine->queue);
    return st;
}

/* ---- results ---- */

static plumb_status show_values(const program *p, plumb_error *err) {
    const plumb_hook *hook = p->args->hook;
    plumb_status st = PLUMB_OK;
    p->args->record->n_values = (size_t)p->n_nodes;
    p->args->record->n_runs = 1;
    for (int i = 0; i < p->n_nodes && st == PLUMB_OK; i++) {
        const value *v = &p->values[p->nodes[i].out];
        plumb_datum *d = NULL;
        st =
            host->new_tensor(PLUMB_FLOAT, v->rank, v->dims, v->read, v->n * sizeof(float), &d, err);
        const plumb_seen seen = { .name = v->name, .datum = d };
        if (st == PLUMB_OK) st = hook->value(hook->ctx, &seen, err);
        p->args->record->n_seen += st == PLUMB_OK;
        host->unref(d);
    }
    return st;
}

static plumb_status make_outputs(const program *p, plumb_error *err) {
    plumb_status st = PLUMB_OK;
    for (size_t i = 0; i < p->n_outputs && st == PLUMB_OK; i++) {
        const value *v = &p->values[p->outputs[i]];
        st = host->new_tensor(PLUMB_FLOAT, v->rank, v->dims, v->read, v->n * sizeof(float),
                              &p->args->out[i], err);
    }
    return st;
}

static plumb_status async_run(void *self, const plumb_run_args *args, plumb_error *err) {
    program *p = self;
    drop_run(p);
    p->args = args;
    return fill_queue(p, args, err);
}

static plumb_status async_synchronize(void *self, plumb_error *err) {
    program *p = self;
    const cl_int code = clFinish(p->engine->queue);
    plumb_status st = code == CL_SUCCESS ? PLUMB_OK : cl_failed(err, "clFinish", code);
    for (int i = 0; i < p->n_values && st == PLUMB_OK; i++) {
        cl_int status = CL_COMPLETE;
        if (p->values[i].arrived != NULL)
            clGetEventInfo(p->values[i].arrived, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
                           &status, NULL);
        if (status < 0) st = cl_failed(err, p->values[i].name, status);
    }
    if (st == PLUMB_OK && p->args->hook != NULL) st = show_values(p, err);
    if (st == PLUMB_OK) st = make_outputs(p, err);
    p->args = NULL;
    return st;
}

/* What not to do: the outputs are taken as soon as the queue is filled. */
static plumb_status careless_run(void *self, const plumb_run_args *args, plumb_error *err) {
    program *p = self;
    plumb_status st = async_run(p, args, err);
    if (st == PLUMB_OK && args->hook != NULL) st = show_values(p, err);
    return st == PLUMB_OK ? make_outputs(p, err) : st;
}

static void finished_free(void *program_) {
    drop_run(program_);
    program_free(program_);
}

static const char *const *record_modes(void *self) {
    static const char *const modes[] = { "every value", NULL };
    (void)self;
    return modes;
}

static const plumb_option_def options[] = {
    { "race", NULL, "ReduceSum adds from many work-groups to one number, unprotected" },
    { "fault", NULL, "the device dies after run() has returned" },
};

#define ENGINE(name_, run_, synchronize_)                                                          \
    {                                                                                              \
        .abi = PLUMB_ABI, .n_bytes = sizeof(plumb_backend), .name = name_,                         \
        .summary = "small models in a queue of OpenCL", .options = options,                        \
        .n_options = sizeof(options) / sizeof(options[0]), .open = engine_open,                    \
        .close = engine_close, .version = engine_version, .supports = engine_supports,             \
        .compile = engine_compile, .run = run_, .record_modes = record_modes,                      \
        .synchronize = synchronize_, .free = finished_free, .device = engine_device                \
    }

static const plumb_backend engines[] = {
    ENGINE("opencl", async_run, async_synchronize),
    ENGINE("opencl-careless", careless_run, NULL),
};

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    const size_t n = sizeof(engines) / sizeof(engines[0]);
    (void)h;
    for (size_t i = 0; i < n && i < n_max; i++)
        backends[i] = &engines[i];
    return n;
}
