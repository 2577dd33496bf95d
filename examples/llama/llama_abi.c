/* Opens libllama and checks that its structs are those of llama_abi.h. */
#include "llama_abi.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[600]; /* the last error; this program has one thread that fails */

const char *llama_abi_last_error(void) {
    return *text == '\0' ? "no reason given" : text;
}

static void on_log(int level, const char *message, void *ctx) {
    enum { ERROR = 4 };
    (void)ctx;
    if (level != ERROR) return;
    snprintf(text, sizeof text, "%s", message);
    text[strcspn(text, "\n")] = '\0';
}

/* ---- structs of parameters ---- */

/* A struct of this size is returned in memory whose address the caller gives. On x86-64 that is the
 * first argument: what the library leaves alone in two buffers of different content lies behind the
 * struct's end, or is padding. Elsewhere the size is not found out: 0. */
static size_t bytes_returned(void *function) {
#ifdef __x86_64__
    enum { ROOM = 1024 };
    static unsigned char a[ROOM], b[ROOM];
    void *(*fill)(void *) = NULL;
    size_t end = 0;
    memcpy(&fill, &function, sizeof fill);
    memset(a, 0xAA, ROOM);
    memset(b, 0x55, ROOM);
    fill(a);
    fill(b);
    for (size_t i = 0; i < ROOM; i++)
        if (a[i] == b[i]) end = i + 1;
    return (end + 7) / 8 * 8;
#else
    (void)function;
    return 0;
#endif
}

typedef struct field {
    size_t at;
    enum { INT, REAL, POINTER, FLAG } kind;
    double is;
} field;

/* The defaults of llama_model_default_params and llama_context_default_params. */
static const field of_model[] = {
    { 0, POINTER, 0 },  { 8, POINTER, 0 },  { 16, INT, -1 },    { 20, INT, 1 },  { 40, POINTER, 0 },
    { 48, POINTER, 0 }, { 56, POINTER, 0 }, { 64, POINTER, 0 }, { 72, FLAG, 0 }, { 73, FLAG, 0 },
    { 74, FLAG, 1 },    { 75, FLAG, 0 },    { 76, FLAG, 0 },
};
enum { EXTRA_BUFFERS = 74 };
enum {
    N_CTX = 0,
    N_BATCH = 4,
    N_UBATCH = 8,
    N_THREADS = 28,
    N_THREADS_BATCH = 32,
    FLASH = 52,
    CB_EVAL = 88,
    CB_EVAL_DATA = 96,
    TYPE_K = 104,
    TYPE_V = 108
};
static const field of_context[] = {
    { N_CTX, INT, 512 },    { N_BATCH, INT, 2048 },
    { N_UBATCH, INT, 512 }, { 12, INT, 1 },
    { 36, INT, 0 },         { 40, INT, -1 },
    { 44, INT, -1 },        { 48, INT, -1 },
    { FLASH, INT, -1 },     { 56, REAL, 0 },
    { 60, REAL, 0 },        { 64, REAL, -1 },
    { 68, REAL, -1 },       { 72, REAL, -1 },
    { 76, REAL, -1 },       { 80, INT, 0 },
    { 84, REAL, -1 },       { CB_EVAL, POINTER, 0 },
    { TYPE_K, INT, 1 },     { CB_EVAL_DATA, POINTER, 0 },
    { TYPE_V, INT, 1 },     { 112, POINTER, 0 },
    { 120, POINTER, 0 },    { 128, FLAG, 0 },
    { 129, FLAG, 1 },       { 136, POINTER, 0 },
};

static bool holds(const unsigned char *bytes, const field *f) {
    int32_t i = 0;
    float x = 0;
    void *p = NULL;
    switch (f->kind) {
    case INT: memcpy(&i, bytes + f->at, sizeof i); return i == (int32_t)f->is;
    case REAL: memcpy(&x, bytes + f->at, sizeof x); return (double)x == f->is;
    case POINTER: memcpy(&p, bytes + f->at, sizeof p); return p == NULL;
    default: return bytes[f->at] == (unsigned char)f->is;
    }
}

static const char *check(void *function, size_t expected, const unsigned char *defaults,
                         const field *fields, size_t n, const char *name) {
    const size_t found = function == NULL ? 0 : bytes_returned(function);
    if (found != 0 && found != expected) {
        snprintf(text, sizeof text,
                 "%s has %zu bytes in this libllama, this program knows %zu: another version", name,
                 found, expected);
        return text;
    }
    for (size_t i = 0; i < n; i++) {
        if (holds(defaults, &fields[i])) continue;
        snprintf(text, sizeof text,
                 "%s has another default at byte %zu than this program knows: another version",
                 name, fields[i].at);
        return text;
    }
    return NULL;
}

/* ---- opening ---- */

static void *open_one(const char *folder, const char *pattern) {
    char path[4096];
    glob_t found;
    void *library = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, pattern);
    if (glob(path, 0, NULL, &found) == 0) {
        library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL);
        if (library == NULL) snprintf(text, sizeof text, "%s", dlerror());
        globfree(&found);
    } else {
        snprintf(text, sizeof text, "'%s' has no %s", folder, pattern);
    }
    return library;
}

static const char *find_all(llama_abi *abi, void *const *libraries, size_t n) {
#define FIND(result, name, parameters)                                                             \
    {                                                                                              \
        void *symbol = NULL;                                                                       \
        for (size_t i = 0; i < n && symbol == NULL; i++)                                           \
            symbol = dlsym(libraries[i], #name);                                                   \
        if (symbol == NULL) return "this libllama has no function " #name;                         \
        memcpy(&abi->name, &symbol, sizeof symbol);                                                \
    }
    LLAMA_FUNCTIONS(FIND)
#undef FIND
    return NULL;
}

const char *llama_abi_open(llama_abi *abi, const char *folder) {
    static const char *const patterns[] = { "libggml-base.so*", "libggml.*so*", "libllama.*so*" };
    void *libraries[3];
    for (size_t i = 0; i < 3; i++) {
        libraries[i] = open_one(folder, patterns[i]);
        if (libraries[i] == NULL) return text;
    }
    const char *why = find_all(abi, libraries, 3);
    if (why != NULL) return why;
    abi->model_defaults = abi->llama_model_default_params();
    abi->context_defaults = abi->llama_context_default_params();
    why = check(dlsym(libraries[2], "llama_model_default_params"), LLAMA_MODEL_BYTES,
                abi->model_defaults.bytes, of_model, sizeof of_model / sizeof *of_model,
                "struct llama_model_params");
    if (why == NULL)
        why = check(dlsym(libraries[2], "llama_context_default_params"), LLAMA_CONTEXT_BYTES,
                    abi->context_defaults.bytes, of_context, sizeof of_context / sizeof *of_context,
                    "struct llama_context_params");
    if (why != NULL) return why;
    abi->llama_log_set(on_log, NULL);
    abi->ggml_backend_load_all_from_path(folder);
    abi->llama_backend_init();
    return NULL;
}

static void put(unsigned char *bytes, size_t at, const void *value, size_t n) {
    memcpy(bytes + at, value, n);
}

void *llama_abi_load(const llama_abi *abi, const char *path, bool repack) {
    llama_model_params p = abi->model_defaults;
    p.bytes[EXTRA_BUFFERS] = repack;
    return abi->llama_model_load_from_file(path, p);
}

void *llama_abi_context(const llama_abi *abi, void *model, const llama_settings *s) {
    llama_context_params p = abi->context_defaults;
    const int32_t n_threads = s->threads, flash = s->flash,
                  type = s->f16_cache ? LLAMA_F16 : LLAMA_F32;
    put(p.bytes, N_CTX, &s->n_tokens, sizeof s->n_tokens);
    put(p.bytes, N_BATCH, &s->n_tokens, sizeof s->n_tokens);
    put(p.bytes, N_UBATCH, &s->n_tokens, sizeof s->n_tokens);
    put(p.bytes, N_THREADS, &n_threads, sizeof n_threads);
    put(p.bytes, N_THREADS_BATCH, &n_threads, sizeof n_threads);
    put(p.bytes, FLASH, &flash, sizeof flash);
    put(p.bytes, CB_EVAL, &s->on_node, sizeof s->on_node);
    put(p.bytes, CB_EVAL_DATA, &s->ctx, sizeof s->ctx);
    put(p.bytes, TYPE_K, &type, sizeof type);
    put(p.bytes, TYPE_V, &type, sizeof type);
    return abi->llama_init_from_model(model, p);
}

/* ---- structs that come from the library ---- */

bool llama_abi_tensor_fits(const llama_abi *abi, const llama_tensor *t) {
    int64_t n = 1;
    if (abi->ggml_get_name(t) != t->name || abi->ggml_get_data(t) != t->data) return false;
    if (t->type < 0 || t->type > 255 || t->op < 0 || t->op > 1000) return false;
    for (int i = 0; i < 4; i++)
        n *= t->ne[i];
    return abi->ggml_nelements(t) == n;
}

void llama_abi_check_batch(const llama_batch *b) {
    if (b->n_tokens == 0 && b->token != NULL && b->embd == NULL && b->pos != NULL &&
        b->n_seq_id != NULL && b->seq_id != NULL && b->logits != NULL)
        return;
    fputs("record_llama: this libllama has another struct llama_batch than this program knows\n",
          stderr);
    exit(2);
}
