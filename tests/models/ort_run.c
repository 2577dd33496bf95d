/* ort_run: runs one model with ONNX Runtime from C; the oracle of the model tests and the rival of
 * the benches.
 *
 * The library is opened with dlopen and its API table is read by slot number, so no header of ONNX
 * Runtime is needed: the table only ever grows, and the slots below are the same from 1.12 to 1.30.
 * Prints the same JSON fields as `plumb run`.
 *
 * Usage: ort_run LIB MODEL [--input NAME=FILE.npy]... [-o DIR] [--opt 0|1|2|99] [--threads N]
 * [--repeat N]
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_IO = 256, MAX_RANK = 16 };

typedef void (*slot_fn)(void);
typedef void *ort_status; /* NULL is success */

/* clang-format off */
#define SLOTS(X)                                                                                                               \
    X(2, GetErrorMessage, const char *, (void *))                                                                              \
    X(3, CreateEnv, ort_status, (int, const char *, void **))                                                                  \
    X(7, CreateSession, ort_status, (void *, const char *, void *, void **))                                                   \
    X(9, Run, ort_status, (void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **))  \
    X(10, CreateSessionOptions, ort_status, (void **))                                                                         \
    X(22, SetSessionLogSeverityLevel, ort_status, (void *, int))                                                               \
    X(23, SetSessionGraphOptimizationLevel, ort_status, (void *, int))                                                         \
    X(24, SetIntraOpNumThreads, ort_status, (void *, int))                                                                     \
    X(25, SetInterOpNumThreads, ort_status, (void *, int))                                                                     \
    X(31, SessionGetOutputCount, ort_status, (void *, size_t *))                                                               \
    X(37, SessionGetOutputName, ort_status, (void *, size_t, void *, char **))                                                 \
    X(49, CreateTensorWithDataAsOrtValue, ort_status, (void *, void *, size_t, const int64_t *, size_t, int, void **))         \
    X(50, IsTensor, ort_status, (void *, int *))                                                                               \
    X(51, GetTensorMutableData, ort_status, (void *, void **))                                                                 \
    X(60, GetTensorElementType, ort_status, (void *, int *))                                                                   \
    X(61, GetDimensionsCount, ort_status, (void *, size_t *))                                                                  \
    X(62, GetDimensions, ort_status, (void *, int64_t *, size_t))                                                              \
    X(64, GetTensorShapeElementCount, ort_status, (void *, size_t *))                                                          \
    X(65, GetTensorTypeAndShape, ort_status, (void *, void **))                                                                \
    X(69, CreateCpuMemoryInfo, ort_status, (int, int, void **))                                                                \
    X(78, GetAllocatorWithDefaultOptions, ort_status, (void **))                                                               \
    X(96, ReleaseValue, void, (void *))                                                                                        \
    X(99, ReleaseTensorTypeAndShapeInfo, void, (void *))
/* clang-format on */

#define MEMBER(slot, name, ret, args) ret(*name) args;
static struct { SLOTS(MEMBER) } ort;

/* One row per element type: ONNX number, npy descriptor, size in bytes. */
static const struct {
    int onnx;
    const char *npy;
    size_t size;
} types[] = {
    { 1, "<f4", 4 },  { 2, "|u1", 1 },  { 3, "|i1", 1 },  { 4, "<u2", 2 },
    { 5, "<i2", 2 },  { 6, "<i4", 4 },  { 7, "<i8", 8 },  { 9, "|b1", 1 },
    { 10, "<f2", 2 }, { 11, "<f8", 8 }, { 12, "<u4", 4 }, { 13, "<u8", 8 },
};

typedef struct {
    const char *lib, *model, *out_dir;
    const char *in_names[MAX_IO];
    const char *in_files[MAX_IO];
    size_t in_count;
    int opt, threads, repeat;
} options;

typedef struct {
    void *session;
    char *out_names[MAX_IO];
    size_t out_count;
    void *inputs[MAX_IO];
    void *outputs[MAX_IO];
} run_state;

/* A test program: it has nothing to clean up that the end of the process does not. */
static void die(const char *what, const char *why) {
    fprintf(stderr, "ort_run: %s: %s\n", what, why);
    exit(2);
}

static void check(ort_status status, const char *what) {
    if (status) die(what, ort.GetErrorMessage(status));
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void api_load(const char *lib) {
    void *handle = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!handle) die("dlopen", dlerror());
    void *symbol = dlsym(handle, "OrtGetApiBase");
    if (!symbol) die("dlsym", dlerror());
    struct api_base {
        const slot_fn *(*get_api)(uint32_t);
        const char *(*version)(void);
    };
    const struct api_base *(*get_base)(void);
    memcpy(&get_base, &symbol, sizeof get_base);
    const struct api_base *base = get_base();
    unsigned minor = 0;
    /* Asking for a newer API than the library has fails, so ask for exactly its own. */
    if (sscanf(base->version(), "1.%u", &minor) != 1) die("version", base->version());
    const slot_fn *table = base->get_api(minor);
    if (!table) die("GetApi", "no API table");
#define LOAD(slot, name, ret, args) ort.name = (ret(*) args)table[slot];
    SLOTS(LOAD)
    printf("{\"runtime\": \"onnxruntime %s\"", base->version());
}

static void *read_all(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path, strerror(errno));
    if (fseek(f, 0, SEEK_END)) die(path, strerror(errno));
    long end = ftell(f);
    if (end < 0) die(path, strerror(errno));
    rewind(f);
    *size = (size_t)end;
    char *bytes = malloc(*size + 1);
    if (!bytes) die(path, "out of memory");
    if (fread(bytes, 1, *size, f) != *size) die(path, "short read");
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

/* Reads what numpy writes: version 1 header, C order, little endian. The data stays inside the
 * buffer read. */
static void *npy_load(const char *path, void *memory_info) {
    size_t size;
    unsigned char *bytes = read_all(path, &size);
    if (size < 10 || memcmp(bytes, "\x93NUMPY\x01", 7) != 0)
        die(path, "not an npy file of version 1");
    size_t start = 10u + (size_t)bytes[8] + ((size_t)bytes[9] << 8);
    if (start > size) die(path, "truncated npy header");
    char *header = (char *)bytes + 10;
    size_t type = 0, count = sizeof types / sizeof types[0];
    while (type < count && !strstr(header, types[type].npy))
        type++;
    if (type == count || !strstr(header, "'fortran_order': False"))
        die(path, "npy type or order not supported");
    char *p = strstr(header, "'shape': (");
    if (!p) die(path, "npy header without shape");
    int64_t dims[MAX_RANK];
    size_t rank = 0;
    for (p += 10; *p != ')' && rank < MAX_RANK; rank++) {
        dims[rank] = strtoll(p, &p, 10);
        p += strspn(p, ", ");
    }
    void *value = NULL;
    check(ort.CreateTensorWithDataAsOrtValue(memory_info, bytes + start, size - start, dims, rank,
                                             types[type].onnx, &value),
          path);
    return value;
}

static void json_string(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    }
    putchar('"');
}

static void npy_save(const char *path, void *value) {
    int is_tensor = 0, onnx_type = 0;
    void *info = NULL, *data = NULL;
    size_t rank = 0, count = 0;
    int64_t dims[MAX_RANK];
    check(ort.IsTensor(value, &is_tensor), "IsTensor");
    if (!is_tensor) die(path, "output is not a tensor");
    check(ort.GetTensorTypeAndShape(value, &info), "GetTensorTypeAndShape");
    check(ort.GetTensorElementType(info, &onnx_type), "GetTensorElementType");
    check(ort.GetDimensionsCount(info, &rank), "GetDimensionsCount");
    if (rank > MAX_RANK) die(path, "rank over 16");
    check(ort.GetDimensions(info, dims, rank), "GetDimensions");
    check(ort.GetTensorShapeElementCount(info, &count), "GetTensorShapeElementCount");
    check(ort.GetTensorMutableData(value, &data), "GetTensorMutableData");
    ort.ReleaseTensorTypeAndShapeInfo(info);
    size_t type = 0, type_count = sizeof types / sizeof types[0];
    while (type < type_count && types[type].onnx != onnx_type)
        type++;
    if (type == type_count) die(path, "output type not supported");
    char header[512];
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     types[type].npy);
    for (size_t i = 0; i < rank; i++)
        n += snprintf(header + n, sizeof header - (size_t)n, "%lld,", (long long)dims[i]);
    n += snprintf(header + n, sizeof header - (size_t)n, "), }");
    int padded = (n + 1 + 10 + 63) / 64 * 64 - 10;
    FILE *f = fopen(path, "wb");
    if (!f) die(path, strerror(errno));
    fprintf(f, "\x93NUMPY\x01%c%c%c%-*s\n", 0, padded & 0xff, padded >> 8, padded - 1, header);
    if (fwrite(data, types[type].size, count, f) != count || fclose(f)) die(path, "write failed");
}

static void session_open(const options *o, run_state *s) {
    void *env = NULL, *session_options = NULL, *memory_info = NULL, *allocator = NULL;
    check(ort.CreateEnv(3, "ort_run", &env), "CreateEnv");
    check(ort.CreateSessionOptions(&session_options), "CreateSessionOptions");
    check(ort.SetSessionLogSeverityLevel(session_options, 3), "SetSessionLogSeverityLevel");
    check(ort.SetSessionGraphOptimizationLevel(session_options, o->opt),
          "SetSessionGraphOptimizationLevel");
    check(ort.SetIntraOpNumThreads(session_options, o->threads), "SetIntraOpNumThreads");
    check(ort.SetInterOpNumThreads(session_options, 1), "SetInterOpNumThreads");
    check(ort.CreateSession(env, o->model, session_options, &s->session), o->model);
    check(ort.GetAllocatorWithDefaultOptions(&allocator), "GetAllocatorWithDefaultOptions");
    check(ort.SessionGetOutputCount(s->session, &s->out_count), "SessionGetOutputCount");
    if (s->out_count > MAX_IO) die(o->model, "more than 256 outputs");
    for (size_t i = 0; i < s->out_count; i++)
        check(ort.SessionGetOutputName(s->session, i, allocator, &s->out_names[i]),
              "SessionGetOutputName");
    check(ort.CreateCpuMemoryInfo(0, 0, &memory_info), "CreateCpuMemoryInfo");
    for (size_t i = 0; i < o->in_count; i++)
        s->inputs[i] = npy_load(o->in_files[i], memory_info);
}

static double run_once(const options *o, run_state *s) {
    for (size_t i = 0; i < s->out_count; i++) {
        if (s->outputs[i]) ort.ReleaseValue(s->outputs[i]);
        s->outputs[i] = NULL;
    }
    double start = now_ms();
    check(ort.Run(s->session, NULL, o->in_names, s->inputs, o->in_count,
                  (const char *const *)s->out_names, s->out_count, s->outputs),
          "Run");
    return now_ms() - start;
}

static int double_compare(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void options_parse(options *o, int argc, char **argv) {
    *o = (options){ .opt = 0, .threads = 1, .repeat = 1 };
    if (argc < 3)
        die("usage", "ort_run LIB MODEL [--input NAME=FILE.npy]... [-o DIR] [--opt L] [--threads "
                     "N] [--repeat N]");
    o->lib = argv[1];
    o->model = argv[2];
    for (int i = 3; i < argc; i += 2) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!value) die(argv[i], "value missing");
        if (!strcmp(argv[i], "--input")) {
            char *eq = strrchr(value, '=');
            if (!eq || o->in_count == MAX_IO) die(value, "NAME=FILE expected, at most 256 of them");
            *eq = 0;
            o->in_names[o->in_count] = value;
            o->in_files[o->in_count++] = eq + 1;
        } else if (!strcmp(argv[i], "-o"))
            o->out_dir = value;
        else if (!strcmp(argv[i], "--opt"))
            o->opt = atoi(value);
        else if (!strcmp(argv[i], "--threads"))
            o->threads = atoi(value);
        else if (!strcmp(argv[i], "--repeat"))
            o->repeat = atoi(value);
        else
            die(argv[i], "unknown option");
    }
    if (o->repeat < 1 || o->threads < 0)
        die("usage", "--repeat is at least 1, --threads at least 0");
}

static void outputs_write(const options *o, const run_state *s) {
    printf(", \"outputs\": [");
    for (size_t i = 0; i < s->out_count; i++) {
        char path[4096];
        /* Output names may be anything, also JSON or a path: files are numbered. */
        snprintf(path, sizeof path, "%s/output_%zu.npy", o->out_dir, i);
        npy_save(path, s->outputs[i]);
        printf("%s{\"name\": ", i ? ", " : "");
        json_string(s->out_names[i]);
        printf(", \"file\": ");
        json_string(path);
        printf("}");
    }
    printf("]");
}

int main(int argc, char **argv) {
    options o;
    static run_state s;
    options_parse(&o, argc, argv);
    setenv("ORT_DISABLE_TELEMETRY", "1",
           1); /* 1.29 and later write files and phone home otherwise */
    double *times = calloc((size_t)o.repeat, sizeof *times);
    if (!times) die("times", "out of memory");
    double start = now_ms();
    api_load(o.lib);
    session_open(&o, &s);
    double load = now_ms() - start;
    for (int i = 0; i < o.repeat; i++)
        times[i] = run_once(&o, &s);
    double first = times[0];
    qsort(times, (size_t)o.repeat, sizeof *times, double_compare);
    if (o.out_dir) outputs_write(&o, &s);
    printf(", \"timing\": {\"load_ms\": %.4f, \"first_ms\": %.4f, \"best_ms\": %.4f, "
           "\"median_ms\": %.4f}}\n",
           load, first, times[0], times[o.repeat / 2]);
    fflush(stdout);
    _Exit(0); /* the library's threads and statics need no farewell */
}
