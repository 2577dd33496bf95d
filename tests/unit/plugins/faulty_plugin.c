/* A plugin that misbehaves on request: fault=KIND happens in run(), and where=compile|open moves a
 * crash there. The guard's tests load it. */
#include <plumb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const plumb_host *host;

typedef struct faulty {
    char fault[32], where[32];
    const void *model;
} faulty;

static void crash(const faulty *f, const char *where) {
    if (strcmp(f->where, where) != 0) return;
    fprintf(stderr, "about to %s in %s\n", f->fault, where);
    if (strcmp(f->fault, "crash") == 0) raise(SIGSEGV);
    if (strcmp(f->fault, "abort") == 0) abort();
    if (strcmp(f->fault, "exit") == 0) _exit(7);
    if (strcmp(f->fault, "hang") == 0) pause();
    if (strcmp(f->fault, "close") == 0) {
        for (int fd = 0; fd < 64; fd++)
            close(fd);
        pause();
    }
    if (strcmp(f->fault, "memory") == 0) {
        for (;;) {
            static char *volatile block; /* else clang leaves out what nobody reads */
            block = malloc(1 << 20);
            if (block != NULL) memset(block, 1, 1 << 20);
        }
    }
}

static plumb_status open_faulty(const plumb_host *h, const plumb_option *options, size_t n,
                                void **self, plumb_error *err) {
    faulty *f = calloc(1, sizeof(*f));
    (void)err;
    host = h;
    strcpy(f->where, "run");
    for (size_t i = 0; i < n; i++) {
        char *to = strcmp(options[i].key, "where") == 0 ? f->where : f->fault;
        snprintf(to, 32, "%s", options[i].value);
    }
    crash(f, "open");
    *self = f;
    return PLUMB_OK;
}

static plumb_status compile(void *self, const plumb_source *source, void **program, size_t *n_hooks,
                            plumb_error *err) {
    faulty *f = self;
    (void)n_hooks;
    (void)err;
    crash(f, "compile");
    f->model = source->onnx;
    if (strcmp(f->fault, "model") == 0) ((char *)(uintptr_t)source->onnx)[0] ^= 1;
    *program = f;
    return PLUMB_OK;
}

/* Returns its input, except for what is asked for. */
static plumb_status run(void *program, const plumb_run_args *args, plumb_error *err) {
    const faulty *f = program;
    const plumb_tensor *x = host->tensor(args->in[0]);
    const int64_t five[] = { 5 };
    float values[5] = { 1, 2, 3, 4, 5 };
    crash(f, "run");
    if (strcmp(f->fault, "error") == 0)
        return host->fail(err, PLUMB_E_BACKEND, "no %s today", "luck");
    if (strcmp(f->fault, "nothing") == 0) return PLUMB_OK;
    if (strcmp(f->fault, "extra") == 0) args->out[args->n_out] = host->ref(args->in[0]);
    if (strcmp(f->fault, "late-model") == 0) ((char *)(uintptr_t)f->model)[0] ^= 1;
    if (strcmp(f->fault, "pointer") == 0) {
        args->out[0] = (plumb_datum *)(uintptr_t)4096;
        return PLUMB_OK;
    }
    if (strcmp(f->fault, "input") == 0) ((char *)(uintptr_t)host->data(x))[0] ^= 1;
    if (strcmp(f->fault, "shape") == 0)
        return host->new_tensor(PLUMB_FLOAT, 1, five, values, sizeof(values), &args->out[0], err);
    if (strcmp(f->fault, "dtype") == 0)
        return host->new_tensor(PLUMB_INT32, host->rank(x), host->dims(x), host->data(x),
                                host->bytes(x), &args->out[0], err);
    if (strcmp(f->fault, "null") == 0)
        return host->new_tensor(PLUMB_FLOAT, 1, five, NULL, sizeof(values), &args->out[0], err);
    if (strcmp(f->fault, "short") == 0)
        return host->new_tensor(PLUMB_FLOAT, 1, five, values, 8, &args->out[0], err);
    if (strcmp(f->fault, "unmapped") == 0)
        return host->new_tensor(PLUMB_FLOAT, 1, five, (void *)(uintptr_t)4096, sizeof(values),
                                &args->out[0], err);
    if (strcmp(f->fault, "garbage") == 0) { /* into the socket itself, whatever its number */
        for (int fd = 3; fd < 32; fd++) {
            const ssize_t n = write(fd, "garbage", 7);
            (void)n;
        }
    }
    args->out[0] = host->ref(args->in[0]);
    return PLUMB_OK;
}

static plumb_status synchronize(void *program, plumb_error *err) {
    const faulty *f = program;
    if (strcmp(f->fault, "late") != 0) return PLUMB_OK;
    return host->fail(err, PLUMB_E_BACKEND, "the device was lost");
}

static void release(void *program) {
    (void)program;
}

static const plumb_option_def options[] = {
    { "fault", "TEXT", "what goes wrong" },
    { "where", "TEXT", "in open, compile or run" },
};

static const plumb_backend row = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .name = "faulty",
    .options = options,
    .n_options = 2,
    .open = open_faulty,
    .close = free,
    .compile = compile,
    .run = run,
    .synchronize = synchronize,
    .free = release,
};

size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max);
size_t plumb_plugin_v1(const plumb_host *h, const plumb_backend **backends, size_t n_max) {
    (void)h;
    if (n_max > 0) backends[0] = &row;
    return 1;
}
