/* Records what llama.cpp computes, by name: every tensor of each step, for plumb compare.
 *
 * libllama is opened at run time. Its structs have no version and no header ships with the library
 * of @node-llama-cpp, so what is used of them is declared in llama_abi.h and checked there: a
 * library with another layout is refused. Usage: record_llama --help. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "llama_abi.h"
#include "plumb.h"

enum { MAX_LAYERS = 1024, MAX_NAMES = 1 << 16, NAME_MAX_BYTES = 96 };

static const char usage[] =
    "usage: record_llama LIBRARIES MODEL.gguf -o FOLDER --ids 1,2,3 [options]\n"
    "\n"
    "LIBRARIES is the folder with libllama (tools/fetch-llama prints it).\n"
    "FOLDER gets step-0.safetensors (the prompt), step-1.safetensors, ... and tokens.txt.\n"
    "\n"
    "  --ids LIST          token ids of the prompt, separated by commas or spaces\n"
    "  --steps N           tokens to generate after the prompt, greedily (default 0)\n"
    "  --force LIST        token ids to feed in these steps instead\n"
    "  --cache-type T      type of the KV cache: f32 (default), f16\n"
    "  --threads N         default 1\n"
    "  --flash             with flash attention: scores are not recorded\n"
    "  --repack            with weights repacked for this CPU, as llama.cpp does by default\n"
    "  --rows file|halves  order of Q and K within a head: as llama.cpp has them, or as Hugging "
    "Face\n"
    "                      has them (default halves for architecture llama, which is stored "
    "permuted)\n";

typedef struct options {
    const char *libraries, *model, *out, *ids, *force, *cache_type, *rows;
    int steps, threads;
    bool flash, repack;
} options;

typedef struct tokens {
    int32_t *ids;
    size_t n;
} tokens;

/* What the model attends to: all of one layer's keys and values so far, (heads, tokens, size). */
typedef struct cache {
    float *rows; /* (tokens, heads, size) */
    int64_t heads, size, n_tokens;
} cache;

typedef struct recorder {
    const llama_abi *abi;
    plumb_recorder *to; /* NULL: the graph is listed, nothing is recorded */
    char *graph;        /* text: one line per node */
    size_t n_graph;
    char (*names)[NAME_MAX_BYTES]; /* of this step */
    size_t n_names;
    cache keys[MAX_LAYERS], values[MAX_LAYERS];
    int n_layers;
    int64_t past, n_tokens; /* of this step */
    bool halves, f16_cache;
    int64_t heads, key_heads;
    bool failed;
} recorder;

/* ---- small things ---- */

static void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("record_llama: ", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}

static void *must(void *p) {
    if (p == NULL) die("out of memory");
    return p;
}

static tokens parse_ids(const char *what, const char *text) {
    tokens t = { must(malloc((strlen(text) + 1) * sizeof(int32_t))), 0 };
    for (const char *p = text + strspn(text, ", \n"); *p != '\0'; p += strspn(p, ", \n")) {
        char *end = NULL;
        errno = 0;
        const long id = strtol(p, &end, 10);
        if (end == p || errno != 0 || id < 0 || id > INT32_MAX || strcspn(end, ", \n") != 0)
            die("%s: '%.20s' is not a token id", what, p);
        t.ids[t.n++] = (int32_t)id;
        p = end;
    }
    return t;
}

static int number(const char *what, const char *text) {
    char *end = NULL;
    const long n = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || n < 0 || n > 1000000)
        die("%s is '%s', expected a number from 0", what, text);
    return (int)n;
}

static options parse(int argc, char **argv) {
    options o = { .threads = 1, .cache_type = "f32", .rows = "" };
    const char **const places[] = { &o.libraries, &o.model };
    size_t n_places = 0;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (strcmp(a, "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        }
        if (strcmp(a, "--flash") == 0) {
            o.flash = true;
        } else if (strcmp(a, "--repack") == 0) {
            o.repack = true;
        } else if (a[0] != '-') {
            if (n_places == 2) die("'%s' is one file too many\n%s", a, usage);
            *places[n_places++] = a;
        } else {
            const char *value = i + 1 < argc ? argv[++i] : NULL;
            if (value == NULL) die("%s requires a value", a);
            if (strcmp(a, "-o") == 0)
                o.out = value;
            else if (strcmp(a, "--ids") == 0)
                o.ids = value;
            else if (strcmp(a, "--force") == 0)
                o.force = value;
            else if (strcmp(a, "--steps") == 0)
                o.steps = number(a, value);
            else if (strcmp(a, "--threads") == 0)
                o.threads = number(a, value);
            else if (strcmp(a, "--cache-type") == 0)
                o.cache_type = value;
            else if (strcmp(a, "--rows") == 0)
                o.rows = value;
            else
                die("no option '%s'\n%s", a, usage);
        }
    }
    if (n_places != 2 || o.out == NULL || o.ids == NULL) die("%s", usage);
    if (strcmp(o.cache_type, "f32") != 0 && strcmp(o.cache_type, "f16") != 0)
        die("--cache-type is '%s', expected f32 or f16", o.cache_type);
    if (*o.rows != '\0' && strcmp(o.rows, "file") != 0 && strcmp(o.rows, "halves") != 0)
        die("--rows is '%s', expected file or halves", o.rows);
    return o;
}

/* ---- names ---- */

/* llama.cpp calls a product, its bias and its rotation by one name: "Qcur-0" three times. The first
 * keeps it, the next ones have their operation behind the word: "Qcur_rope-0". The same name for
 * the same graph, whatever else is recorded. */
static const char *name_of(recorder *r, const llama_tensor *t) {
    char name[NAME_MAX_BYTES], op[24];
    const char *own = t->name, *dash = strchr(own, '-');
    int word = (int)(dash == NULL ? strlen(own) : (size_t)(dash - own));
    if (*own == '\0') return NULL;
    size_t n = 0;
    for (const char *p = r->abi->ggml_op_name(t->op); *p != '\0' && n + 1 < sizeof op; p++)
        op[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p - 'A' + 'a' : *p);
    op[n] = '\0';
    if (strncmp(own, "node_", 5) == 0) { /* named by its place in the graph only */
        own = op;
        word = (int)n;
    }
    snprintf(name, sizeof name, "%s", own);
    if (strcmp(own, "result_output") == 0) strcpy(name, "logits");
    /* Today's llama.cpp calls the heads side by side so; older ones the product behind them. */
    if (strncmp(own, "kqv_out", 7) == 0 && strcmp(op, "cont") == 0)
        snprintf(name, sizeof name, "kqv_merged%s", own + word);
    for (int k = 1;; k++) {
        bool taken = false;
        for (size_t i = 0; i < r->n_names && !taken; i++)
            taken = strcmp(r->names[i], name) == 0;
        if (!taken) break;
        if (k == 1)
            snprintf(name, sizeof name, "%.*s_%s%s", word, own, op, own + word);
        else
            snprintf(name, sizeof name, "%.*s_%s_%d%s", word, own, op, k, own + word);
    }
    if (r->n_names == MAX_NAMES) die("more than %d tensors in a step", MAX_NAMES);
    memcpy(r->names[r->n_names], name, sizeof name);
    return r->names[r->n_names++];
}

/* "Qcur-3" and a prefix "Qcur": 3; else -1. */
static int layer_of(const llama_tensor *t, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(t->name, word, n) != 0 || t->name[n] != '-') return -1;
    const int layer = atoi(t->name + n + 1);
    return layer >= 0 && layer < MAX_LAYERS ? layer : -1;
}

/* ---- one tensor ---- */

typedef struct view {
    plumb_dtype dtype;
    int rank;
    int64_t dims[6], strides[6]; /* in elements */
} view;

static bool dtype_of(int type, plumb_dtype *out, size_t *n_bytes) {
    static const struct {
        int type;
        plumb_dtype dtype;
        size_t n_bytes;
    } rows[] = { { LLAMA_F32, PLUMB_FLOAT, 4 },
                 { LLAMA_F16, PLUMB_FLOAT16, 2 },
                 { LLAMA_BF16, PLUMB_BFLOAT16, 2 },
                 { LLAMA_I32, PLUMB_INT32, 4 },
                 { LLAMA_I64, PLUMB_INT64, 8 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].type != type) continue;
        *out = rows[i].dtype;
        *n_bytes = rows[i].n_bytes;
        return true;
    }
    return false;
}

/* Is it Q, K or V with the axes size, heads, tokens? */
static bool is_by_head(const recorder *r, const llama_tensor *t) {
    const int64_t heads = layer_of(t, "Qcur") >= 0                               ? r->heads
                          : layer_of(t, "Kcur") >= 0 || layer_of(t, "Vcur") >= 0 ? r->key_heads
                                                                                 : 0;
    return heads > 0 && t->ne[1] == heads && t->ne[2] == r->n_tokens && t->ne[3] == 1;
}

/* ggml has the innermost axis first and no batch; ONNX has it last, and a batch of 1 in front.
 * Heads come before tokens in ONNX's four axes, scores end with the tokens that there are: the rest
 * of the cache is empty. */
static bool view_of(const recorder *r, const llama_tensor *t, view *v) {
    size_t n_bytes = 0;
    int axes = 4;
    if (!dtype_of(t->type, &v->dtype, &n_bytes)) return false;
    while (axes > 2 && t->ne[axes - 1] == 1)
        axes--;
    v->rank = axes + 1;
    v->dims[0] = 1;
    v->strides[0] = 0;
    for (int i = 0; i < axes; i++) {
        v->dims[axes - i] = t->ne[i];
        v->strides[axes - i] = (int64_t)(t->nb[i] / n_bytes);
    }
    if (is_by_head(r, t)) {
        for (int i = 1; i <= 3; i++) { /* heads, tokens, size */
            const int axis = i == 3 ? 0 : i;
            v->dims[i] = t->ne[axis];
            v->strides[i] = (int64_t)(t->nb[axis] / n_bytes);
        }
        v->rank = 4;
    }
    const bool scores = layer_of(t, "kq") >= 0 || strncmp(t->name, "kq_soft_max", 11) == 0;
    if (scores && v->dims[v->rank - 1] > r->past + r->n_tokens)
        v->dims[v->rank - 1] = r->past + r->n_tokens;
    return true;
}

/* Rows of Q and K as Hugging Face has them: the converter of architecture llama puts the two halves
 * of a head, which are rotated against each other, side by side. */
static float *in_halves(const float *from, int64_t rows, int64_t size) {
    float *to = must(malloc((size_t)(rows * size) * sizeof *to));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < size; i++)
            to[row * size + i % 2 * (size / 2) + i / 2] = from[row * size + i];
    return to;
}

static int64_t head_size(const recorder *r, const llama_tensor *t) {
    if (is_by_head(r, t)) return t->ne[0];
    const int64_t heads = layer_of(t, "Qcur") >= 0 ? r->heads : r->key_heads;
    return heads > 0 && t->ne[0] % heads == 0 ? t->ne[0] / heads : t->ne[0];
}

static bool is_dense(const llama_tensor *t) {
    return t->type == LLAMA_F32 && t->nb[0] == 4 && t->nb[1] == 4 * (size_t)t->ne[0] &&
           t->nb[2] == t->nb[1] * (size_t)t->ne[1] && t->ne[3] == 1;
}

/* As a cache of half precision has them, with ggml's own rounding. */
static void round_rows(const recorder *r, float *rows, int64_t n) {
    uint16_t *half = must(malloc((size_t)n * sizeof *half));
    r->abi->ggml_fp32_to_fp16_row(rows, half, n);
    r->abi->ggml_fp16_to_fp32_row(half, rows, n);
    free(half);
}

/* Keys are cached as they are behind the rotation, values as they are. The last tensor of that name
 * in the step stays. */
static void keep(recorder *r, const llama_tensor *t, const float *data) {
    const int key = layer_of(t, "Kcur"), value = layer_of(t, "Vcur");
    const int layer = key >= 0 ? key : value;
    if (layer < 0 || !is_dense(t) || r->key_heads <= 0) return;
    cache *c = key >= 0 ? &r->keys[layer] : &r->values[layer];
    const int64_t row = t->ne[0] * t->ne[1] * t->ne[2] / r->n_tokens;
    if (row % r->key_heads != 0 || row != c->heads * c->size) return;
    c->rows = must(realloc(c->rows, (size_t)((r->past + r->n_tokens) * row) * sizeof *c->rows));
    memcpy(c->rows + r->past * row, data, (size_t)(r->n_tokens * row) * sizeof *data);
    if (r->f16_cache) round_rows(r, c->rows + r->past * row, r->n_tokens * row);
}

static void write_to(recorder *r, const char *name, plumb_dtype dtype, int rank,
                     const int64_t *dims, const int64_t *strides, const void *data) {
    plumb_error err = { 0 };
    if (plumb_recorder_write(r->to, name, dtype, rank, dims, strides, data, &err) == PLUMB_OK)
        return;
    fprintf(stderr, "record_llama: %s: %s\n", name, err.message);
    r->failed = true;
}

static void record(recorder *r, const llama_tensor *t) {
    view v;
    const char *name = name_of(r, t);
    if (name == NULL || !view_of(r, t, &v)) return;
    const size_t n_bytes = r->abi->ggml_nbytes(t);
    char *bytes = must(malloc(n_bytes + 1));
    r->abi->ggml_backend_tensor_get(t, bytes, 0, n_bytes);
    const int64_t size = head_size(r, t);
    if (r->halves && is_dense(t) && size % 2 == 0 &&
        (layer_of(t, "Qcur") >= 0 || layer_of(t, "Kcur") >= 0)) {
        float *turned =
            in_halves((const float *)(void *)bytes, (int64_t)(n_bytes / 4) / size, size);
        free(bytes);
        bytes = (char *)turned;
    }
    keep(r, t, (const float *)(void *)bytes);
    write_to(r, name, v.dtype, v.rank, v.dims, v.strides, bytes);
    free(bytes);
}

/* ---- the graph ---- */

static void list_node(recorder *r, const llama_tensor *t) {
    const int layer = layer_of(t, "Kcur") >= 0 ? layer_of(t, "Kcur") : layer_of(t, "Vcur");
    if (layer >= 0) { /* an empty cache has a shape, too */
        cache *c = layer_of(t, "Kcur") >= 0 ? &r->keys[layer] : &r->values[layer];
        c->heads = r->key_heads;
        c->size = head_size(r, t);
        if (layer >= r->n_layers) r->n_layers = layer + 1;
    }
    char line[1200];
    int n =
        snprintf(line, sizeof line, "%s %s %s [%lld,%lld,%lld,%lld] =", t->name,
                 r->abi->ggml_op_name(t->op), r->abi->ggml_type_name(t->type), (long long)t->ne[3],
                 (long long)t->ne[2], (long long)t->ne[1], (long long)t->ne[0]);
    for (int i = 0; i < LLAMA_SOURCES && t->src[i] != NULL && n < 1000; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %s:%s", t->src[i]->name,
                      r->abi->ggml_type_name(t->src[i]->type));
    line[n++] = '\n';
    r->graph = must(realloc(r->graph, r->n_graph + (size_t)n + 1));
    memcpy(r->graph + r->n_graph, line, (size_t)n);
    r->n_graph += (size_t)n;
    r->graph[r->n_graph] = '\0';
}

/* libllama asks before a node is computed, and calls again with its result if that was wanted. */
static bool on_node(llama_tensor *t, bool ask, void *ctx) {
    recorder *r = ctx;
    if (ask && !llama_abi_tensor_fits(r->abi, t))
        die("this libllama has another struct ggml_tensor than this program knows");
    const char *op = r->abi->ggml_op_name(t->op);
    const bool moves = strcmp(op, "NONE") == 0 || strcmp(op, "RESHAPE") == 0 ||
                       strcmp(op, "VIEW") == 0 || strcmp(op, "PERMUTE") == 0 ||
                       strcmp(op, "TRANSPOSE") == 0 || strcmp(op, "SET_ROWS") == 0;
    if (r->to == NULL) {
        if (ask && !moves) list_node(r, t);
        return !ask;
    }
    if (!ask && !moves) record(r, t);
    return ask ? !moves : true;
}

/* ---- steps ---- */

static void record_inputs(recorder *r, const int32_t *ids) {
    const int64_t total = r->past + r->n_tokens, one[2] = { 1, r->n_tokens }, all[2] = { 1, total };
    int64_t *numbers = must(malloc((size_t)total * sizeof *numbers));
    for (int64_t i = 0; i < r->n_tokens; i++)
        numbers[i] = ids[i];
    write_to(r, "input_ids", PLUMB_INT64, 2, one, NULL, numbers);
    for (int64_t i = 0; i < r->n_tokens; i++)
        numbers[i] = r->past + i;
    write_to(r, "position_ids", PLUMB_INT64, 2, one, NULL, numbers);
    for (int64_t i = 0; i < total; i++)
        numbers[i] = 1;
    write_to(r, "attention_mask", PLUMB_INT64, 2, all, NULL, numbers);
    free(numbers);
}

static void record_cache(recorder *r, const char *prefix, int64_t n_tokens) {
    static const float none = 0;
    char name[NAME_MAX_BYTES];
    for (int layer = 0; layer < r->n_layers; layer++)
        for (int k = 0; k < 2; k++) {
            const cache *c = k == 0 ? &r->keys[layer] : &r->values[layer];
            const int64_t dims[4] = { 1, c->heads, n_tokens, c->size };
            const int64_t strides[4] = { 0, c->size, c->heads * c->size, 1 };
            if (c->size == 0) continue;
            snprintf(name, sizeof name, "%s.%d.%s", prefix, layer, k == 0 ? "key" : "value");
            write_to(r, name, PLUMB_FLOAT, 4, dims, n_tokens == 0 ? NULL : strides,
                     n_tokens == 0 ? &none : c->rows);
        }
}

static const float *decode(const llama_abi *abi, void *context, const int32_t *ids, int64_t n,
                           int64_t past) {
    llama_batch b = abi->llama_batch_init((int32_t)n, 0, 1);
    llama_abi_check_batch(&b);
    b.n_tokens = (int32_t)n;
    for (int64_t i = 0; i < n; i++) {
        b.token[i] = ids[i];
        b.pos[i] = (int32_t)(past + i);
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = 0;
        b.logits[i] = 1; /* of all tokens: otherwise the last layer computes only one row */
    }
    const int32_t failed = abi->llama_decode(context, b);
    abi->llama_batch_free(b);
    if (failed != 0) die("llama_decode failed with code %d", (int)failed);
    return abi->llama_get_logits(context);
}

static int32_t best(const float *logits, int32_t n) {
    int32_t at = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

typedef struct run {
    const llama_abi *abi;
    void *model, *context;
    const options *o;
    const char *version;
    recorder r;
    tokens prompt, forced;
    int32_t n_vocab;
    float *plain; /* logits of a step that is not recorded */
} run;

static plumb_recorder *open_step(const run *x, int step) {
    char path[4096], notes[400];
    plumb_error err = { 0 };
    plumb_recorder_options o;
    plumb_recorder *to = NULL;
    plumb_recorder_options_init(&o);
    snprintf(path, sizeof path, "%s/step-%d.safetensors", x->o->out, step);
    snprintf(notes, sizeof notes, "step %d, %lld tokens before it, rows of Q and K: %s\n", step,
             (long long)x->r.past, x->r.halves ? "halves" : "as in the file");
    char *all = must(malloc(strlen(notes) + x->r.n_graph + 1));
    strcpy(all, notes);
    if (x->r.graph != NULL) strcat(all, x->r.graph);
    o.engine = "llama.cpp";
    o.engine_version = x->version;
    o.model = x->o->model;
    o.notes = all;
    if (plumb_recorder_open(path, &o, &to, &err) != PLUMB_OK) die("%s", err.message);
    free(all);
    return to;
}

/* Once without recording, which also lists the graph, and once with it: are the logits the same? */
static void step(run *x, int number, const int32_t *ids, int64_t n) {
    recorder *r = &x->r;
    plumb_error err = { 0 };
    const size_t n_logits = (size_t)n * (size_t)x->n_vocab;
    r->n_tokens = n;
    r->n_graph = 0;
    r->to = NULL;
    const float *logits = decode(x->abi, x->context, ids, n, r->past);
    x->plain = must(realloc(x->plain, n_logits * sizeof *logits));
    memcpy(x->plain, logits, n_logits * sizeof *logits);
    x->abi->llama_memory_seq_rm(x->abi->llama_get_memory(x->context), 0, (int32_t)r->past, -1);
    r->to = open_step(x, number);
    r->n_names = 0;
    record_inputs(r, ids);
    record_cache(r, "past_key_values", r->past);
    logits = decode(x->abi, x->context, ids, n, r->past);
    record_cache(r, "present", r->past + n);
    size_t other = 0;
    for (size_t i = 0; i < n_logits; i++)
        other += memcmp(&logits[i], &x->plain[i], sizeof *logits) != 0;
    if (r->failed || plumb_recorder_close(r->to, &err) != PLUMB_OK)
        die("step %d was not recorded: %s", number, err.message);
    r->to = NULL;
    printf("step %d: %lld token%s, %zu tensors%s\n", number, (long long)n, n == 1 ? "" : "s",
           r->n_names, other == 0 ? "" : "; recording changed the logits");
    r->past += n;
}

static void steps(run *x) {
    char path[4096];
    if (mkdir(x->o->out, 0777) != 0)
        die("cannot create folder '%s': %s", x->o->out, strerror(errno));
    snprintf(path, sizeof path, "%s/tokens.txt", x->o->out);
    FILE *f = fopen(path, "w");
    if (f == NULL) die("cannot create '%s': %s", path, strerror(errno));
    step(x, 0, x->prompt.ids, (int64_t)x->prompt.n);
    int64_t last = (int64_t)x->prompt.n - 1;
    for (int i = 1; i <= x->o->steps; i++) {
        int32_t id = best(x->plain + last * x->n_vocab, x->n_vocab);
        if ((size_t)i <= x->forced.n) id = x->forced.ids[i - 1];
        fprintf(f, "%d\n", (int)id);
        step(x, i, &id, 1);
        last = 0;
    }
    fprintf(f, "%d\n", (int)best(x->plain + last * x->n_vocab, x->n_vocab));
    if (fclose(f) != 0) die("cannot write '%s'", path);
}

int main(int argc, char **argv) {
    const options o = parse(argc, argv);
    static run x;
    char text[64] = "";
    llama_abi abi;
    const char *why = llama_abi_open(&abi, o.libraries);
    if (why != NULL) die("%s", why);
    x = (run){ .abi = &abi, .o = &o, .version = abi.llama_version() };
    x.prompt = parse_ids("--ids", o.ids);
    x.forced = parse_ids("--force", o.force == NULL ? "" : o.force);
    if (x.prompt.n == 0) die("--ids has no token");
    x.model = llama_abi_load(&abi, o.model, o.repack);
    if (x.model == NULL) die("%s: %s", o.model, llama_abi_last_error());
    x.n_vocab = abi.llama_vocab_n_tokens(abi.llama_model_get_vocab(x.model));
    for (size_t i = 0; i < x.prompt.n + x.forced.n; i++) {
        const int32_t id = i < x.prompt.n ? x.prompt.ids[i] : x.forced.ids[i - x.prompt.n];
        if (id >= x.n_vocab) die("token id %d, but the vocabulary has %d", (int)id, (int)x.n_vocab);
    }
    x.r = (recorder){ .abi = &abi,
                      .heads = abi.llama_model_n_head(x.model),
                      .key_heads = abi.llama_model_n_head_kv(x.model),
                      .names = must(calloc(MAX_NAMES, NAME_MAX_BYTES)) };
    abi.llama_model_meta_val_str(x.model, "general.architecture", text, sizeof text);
    x.r.f16_cache = strcmp(o.cache_type, "f16") == 0;
    x.r.halves = *o.rows != '\0' ? strcmp(o.rows, "halves") == 0 : strcmp(text, "llama") == 0;
    const llama_settings s = { .n_tokens = (uint32_t)(x.prompt.n + (size_t)o.steps),
                               .threads = o.threads,
                               .flash = o.flash,
                               .f16_cache = x.r.f16_cache,
                               .on_node = on_node,
                               .ctx = &x.r };
    x.context = llama_abi_context(&abi, x.model, &s);
    if (x.context == NULL) die("%s: %s", o.model, llama_abi_last_error());
    steps(&x);
    abi.llama_free(x.context);
    abi.llama_model_free(x.model);
    for (int i = 0; i < MAX_LAYERS; i++) {
        free(x.r.keys[i].rows);
        free(x.r.values[i].rows);
    }
    free(x.r.names);
    free(x.r.graph);
    free(x.plain);
    free(x.prompt.ids);
    free(x.forced.ids);
    return 0;
}
