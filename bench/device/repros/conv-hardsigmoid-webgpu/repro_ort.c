/* Runs model.onnx with ONNX Runtime. Exits with 1 if the bug shows, 0 if not, 2 if it cannot run here.
 *   cc repro_ort.c -o repro_ort -ldl -lm && ./repro_ort libonnxruntime.so.1
 */
#define N_INPUTS 1
#define N_OUTPUTS 1
#define MUST_FAIL 0 /* the bug is an error of ONNX Runtime */
#define LEVEL 99
#define THREADS 0
#define DISABLE ""
static const char *const providers[] = { "WebGPU", 0 };
static const char *const inputs[] = { "x", 0 };
static const char *const outputs[] = { "y", 0 };
/* Half of the error observed, by output. */
static const double limits[] = { 4.76837158203125e-07 };

#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The C API by slot number: the table only ever grows, and these are the same from 1.12 on. */
typedef void (*slot_fn)(void);
static const slot_fn *api;
#define CALL(slot, type) ((type)api[slot])
typedef void *status;
static void check(status s, const char *doing) {
    if (s == NULL) return;
    printf("ONNX Runtime fails to %s: %s\n", doing, CALL(2, const char *(*)(void *))(s));
    exit(MUST_FAIL ? 1 : 2);
}

typedef struct tensor {
    int type;
    size_t rank, n_bytes;
    int64_t dims[16];
    uint8_t *data;
} tensor;

static uint64_t varint(const uint8_t **at, const uint8_t *end) {
    uint64_t x = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    return x;
}

/* A TensorProto: dims, data_type and raw_data are all that the files use. */
static tensor load(const char *kind, size_t i) {
    char name[64];
    tensor t = { .type = 1 };
    snprintf(name, sizeof(name), "test_data_set_0/%s_%zu.pb", kind, i);
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        fprintf(stderr, "cannot open %s: run this in the repro's folder\n", name);
        exit(2);
    }
    fseek(file, 0, SEEK_END);
    const size_t n = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(n + 1);
    if (bytes == NULL || fread(bytes, 1, n, file) != n) exit(2);
    fclose(file);
    const uint8_t *at = bytes, *end = bytes + n;
    while (at < end) {
        const uint64_t key = varint(&at, end), value = varint(&at, end);
        if ((key & 7) == 2) {
            if (key >> 3 == 9) t.data = (uint8_t *)at, t.n_bytes = value;
            const uint8_t *inner = at, *last = at + value;
            while (key >> 3 == 1 && inner < last && t.rank < 16) t.dims[t.rank++] = (int64_t)varint(&inner, last);
            at += value;
        } else if (key >> 3 == 1 && t.rank < 16) {
            t.dims[t.rank++] = (int64_t)value;
        } else if (key >> 3 == 2) {
            t.type = (int)value;
        }
    }
    uint8_t *aligned = aligned_alloc(64, (t.n_bytes + 127) / 64 * 64);
    if (aligned == NULL) exit(2);
    if (t.n_bytes > 0) memcpy(aligned, t.data, t.n_bytes);
    t.data = aligned;
    free(bytes);
    return t;
}

static size_t size_of(int type) {
    static const size_t sizes[] = { 0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2 };
    return type > 0 && type < 17 ? sizes[type] : 0;
}

static double half(uint16_t x) {
    const int exponent = x >> 10 & 31, fraction = x & 1023;
    const double m = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return x & 0x8000 ? -m : m;
}

static double number(int type, const uint8_t *data, size_t i) {
    union { float f; double d; int16_t i16; uint16_t u16; int32_t i32; uint32_t u32; int64_t i64; uint64_t u64; } x;
    memcpy(&x, data + i * size_of(type), size_of(type));
    switch (type) {
    case 1: return (double)x.f;
    case 2: case 9: return data[i];
    case 3: return (int8_t)data[i];
    case 4: return x.u16;
    case 5: return x.i16;
    case 6: return x.i32;
    case 7: return (double)x.i64;
    case 10: return half(x.u16);
    case 11: return x.d;
    case 12: return x.u32;
    case 13: return (double)x.u64;
    case 16: x.u32 = (uint32_t)x.u16 << 16; return (double)x.f;
    default: fprintf(stderr, "element type %d is not known to this program\n", type); exit(2);
    }
}

static int compare(size_t i, void *value) {
    const tensor want = load("output", i);
    int64_t dims[16] = { 0 };
    size_t rank = 0, n = 1, wrong = 0;
    int type = 0;
    void *info, *data;
    double off = 0;
    check(CALL(65, status (*)(void *, void **))(value, &info), "ask for a shape");
    check(CALL(60, status (*)(void *, int *))(info, &type), "ask for a type");
    check(CALL(61, status (*)(void *, size_t *))(info, &rank), "ask for a rank");
    check(CALL(62, status (*)(void *, int64_t *, size_t))(info, dims, rank < 16 ? rank : 16), "ask for dims");
    check(CALL(51, status (*)(void *, void **))(value, &data), "ask for data");
    if (type != want.type || rank != want.rank || memcmp(dims, want.dims, rank * sizeof(int64_t)) != 0) {
        printf("output %zu: another type or shape than expected\n", i);
        return 1;
    }
    for (size_t k = 0; k < rank; k++) n *= (size_t)dims[k];
    for (size_t k = 0; k < n; k++) {
        const double a = number(type, data, k), b = number(type, want.data, k);
        if (isfinite(a) && isfinite(b)) off = fmax(off, fabs(a - b));
        wrong += isfinite(a) != isfinite(b);
    }
    printf("output %zu: off by up to %g (limit %g), %zu elements are non-finite on one side only\n", i, off, limits[i], wrong);
    return off > limits[i] || wrong > 0;
}

int main(int argc, char **argv) {
    void *lib = dlopen(argc > 1 ? argv[1] : "libonnxruntime.so.1", RTLD_NOW);
    if (lib == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    const void *(*base)(void);
    *(void **)&base = dlsym(lib, "OrtGetApiBase");
    const void *table = base == NULL ? NULL : base();
    const void *(*get)(uint32_t);
    if (table == NULL) return 2;
    memcpy(&get, table, sizeof(get));
    for (uint32_t version = 12; version > 0 && api == NULL; version--) api = get(version);
    if (api == NULL) return 2;
    void *env, *options, *session, *memory, *in[N_INPUTS + 1], *out[N_OUTPUTS + 1] = { NULL };
    check(CALL(3, status (*)(int, const char *, void **))(3, "repro", &env), "start");
    check(CALL(10, status (*)(void **))(&options), "create options");
    check(CALL(23, status (*)(void *, int))(options, LEVEL), "set the level");
    check(CALL(24, status (*)(void *, int))(options, THREADS), "set the threads");
    for (size_t i = 0; providers[i] != NULL; i++)
        check(CALL(216, status (*)(void *, const char *, const char *const *, const char *const *, size_t))(options, providers[i], NULL, NULL, 0),
              "add a provider");
    if (DISABLE[0] != '\0')
        check(CALL(130, status (*)(void *, const char *, const char *))(options, "optimization.disable_specified_optimizers", DISABLE),
              "disable passes");
    check(CALL(7, status (*)(void *, const char *, void *, void **))(env, "model.onnx", options, &session), "compile");
    check(CALL(69, status (*)(int, int, void **))(1, 0, &memory), "find memory");
    for (size_t i = 0; i < N_INPUTS; i++) {
        const tensor t = load("input", i);
        check(CALL(49, status (*)(void *, void *, size_t, const int64_t *, size_t, int, void **))(
                  memory, t.data, t.n_bytes, t.dims, t.rank, t.type, &in[i]), "make an input");
    }
    check(CALL(9, status (*)(void *, void *, const char *const *, void *const *, size_t, const char *const *, size_t, void **))(
              session, NULL, inputs, in, N_INPUTS, outputs, N_OUTPUTS, out), "run");
    int shows = 0;
    for (size_t i = 0; i < N_OUTPUTS; i++) shows |= compare(i, out[i]);
    return shows;
}
