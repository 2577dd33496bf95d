/* web: onnxruntime-web in a headless Chromium, behind the vtable. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/backend_int.h"
#include "backends/web/web_int.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"
#include "onnx/onnx.h"

#define PINNED "1.27.0"

/* ---- opening ---- */

static bool find_browser(char *out, size_t n_out) {
    static const char *const programs[] = { "/usr/bin/chromium", "/usr/bin/chromium-browser",
                                            "/usr/bin/google-chrome",
                                            "/usr/bin/google-chrome-stable" };
    const char *named = getenv("PLUMB_CHROMIUM");
    if (named != NULL && named[0] != '\0') {
        snprintf(out, n_out, "%s", named);
        return access(out, X_OK) == 0;
    }
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        snprintf(out, n_out, "%s", programs[i]);
        if (access(out, X_OK) == 0) return true;
    }
    snprintf(out, n_out, "%s", programs[0]);
    return false;
}

static bool has_runtime(const pl_web *web) {
    char path[500];
    snprintf(path, sizeof(path), "%s/ort.%s.bundle.min.mjs", web->folder,
             web->gpu ? "webgpu" : "wasm");
    return pl_path_exists(path);
}

/* $PLUMB_ORT_WEB, or .cache/ort-web-VERSION beside the program or above it. */
static bool find_runtime(pl_web *web) {
    char dir[300];
    const char *named = getenv("PLUMB_ORT_WEB");
    if (named != NULL && named[0] != '\0') {
        snprintf(web->folder, sizeof(web->folder), "%s", named);
        return has_runtime(web);
    }
    const ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
    if (n <= 0) return false;
    dir[n] = '\0';
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(dir, '/');
        if (slash == NULL) return false;
        *slash = '\0';
        snprintf(web->folder, sizeof(web->folder), "%s/.cache/ort-web-%s", dir, web->version);
        if (has_runtime(web)) return true;
    }
    return false;
}

static pl_status check_parts(pl_web *web, pl_err *err) {
    if (!find_browser(web->program, sizeof(web->program)))
        return pl_fail(err, PL_E_NOT_FOUND,
                       "no browser: '%s' is not an executable program; install chromium (Debian: "
                       "apt-get install chromium), or set PLUMB_CHROMIUM",
                       web->program);
    if (!find_runtime(web))
        return pl_fail(err, PL_E_NOT_FOUND,
                       "onnxruntime-web %s not found (ort.%s.bundle.min.mjs); in a clone of plumb: "
                       "tools/fetch-ort web-%s, or set PLUMB_ORT_WEB to its folder 'dist'",
                       web->version, web->gpu ? "webgpu" : "wasm", web->version);
    return PL_OK;
}

/* The browser's version, which is part of what was run. */
static pl_status ask_version(pl_web *web, pl_err *err) {
    const char *const argv[] = { web->program, "--product-version", NULL };
    pl_process_result r;
    const pl_status st = pl_process_run(argv, NULL, &r, err);
    if (st == PL_OK)
        snprintf(web->device, sizeof(web->device), "%s in Chromium %.*s",
                 web->gpu ? "WebGPU" : "WebAssembly", (int)strcspn(pl_buf_str(&r.out), "\n"),
                 pl_buf_str(&r.out));
    pl_process_result_release(&r);
    return st;
}

static const char *level_of(const char *opt) {
    if (opt == NULL) return "all";
    return strcmp(opt, "off") == 0 ? "disabled" : opt;
}

static void web_close(void *self) {
    pl_web *web = self;
    if (web == NULL) return;
    pl_web_browser_stop(web->browser);
    pl_free(web);
}

static plumb_status web_open(const plumb_host *host, const plumb_option *o, size_t n, void **self,
                             plumb_error *err) {
    (void)host;
    const char *version = pl_option_value(o, n, "version");
    const bool wasm = pl_option_value(o, n, "wasm") != NULL;
    const bool gpu = pl_option_value(o, n, "webgpu") != NULL;
    const long threads = pl_option_int(o, n, "threads", 1);
    if (wasm && gpu) return pl_fail(err, PL_E_USAGE, "web: choose wasm or webgpu");
    if (threads < 1 || threads > 64)
        return pl_fail(err, PL_E_USAGE, "web: threads=%ld, expected 1 to 64", threads);
    if (version != NULL && strspn(version, "0123456789.") != strlen(version))
        return pl_fail(err, PL_E_USAGE, "web: version='%.40s' is not a version", version);
    pl_web *web = pl_calloc(1, sizeof(*web));
    if (web == NULL) return pl_fail_memory(err, sizeof(*web));
    web->gpu = gpu;
    web->threads = (int)threads;
    web->level = level_of(pl_option_value(o, n, "opt"));
    snprintf(web->version, sizeof(web->version), "%.30s", version == NULL ? PINNED : version);
    pl_status st = check_parts(web, err);
    if (st == PL_OK) st = ask_version(web, err);
    if (st == PL_OK) {
        *self = web;
    } else {
        web_close(web);
    }
    return st;
}

static const char *web_version(void *self) {
    return ((const pl_web *)self)->version;
}

static const char *web_device(void *self) {
    return ((const pl_web *)self)->device;
}

/* ---- the page ---- */

static pl_status call(pl_web *web, const char *expression, const pl_web_blob *blobs, size_t n,
                      pl_buf *out, pl_err *err) {
    const pl_status st = pl_web_browser_call(web->browser, expression, blobs, n, out, err);
    return st == PL_OK ? st : pl_err_wrap(err, st, "web %s", web->version);
}

static pl_status load_page(pl_web *web, pl_err *err) {
    pl_buf answer = PL_BUF_INIT;
    char text[200];
    snprintf(text, sizeof(text),
             "(async () => { while (!globalThis.plumb?.read) await new Promise(r => "
             "setTimeout(r, 5)); return plumb.start({ webgpu: %s, threads: %d }); })()",
             web->gpu ? "true" : "false", web->threads);
    pl_status st = pl_web_browser_start(web->program, web->folder, web->gpu, &web->browser, err);
    web->n_started++;
    if (st == PL_OK) st = call(web, text, NULL, 0, &answer, err);
    pl_buf_release(&answer);
    return st;
}

static pl_status call_at_level(pl_web *web, const char *function, pl_bytes onnx, const char *level,
                               pl_buf *answer, pl_err *err) {
    const pl_web_blob blob = { onnx.data, onnx.n_bytes };
    char text[160];
    snprintf(text, sizeof(text), "plumb.%s({ bytes: %zu, part: %d, level: '%s' })", function,
             onnx.n_bytes, PL_WEB_PART_BYTES, level);
    return call(web, text, &blob, 1, answer, err);
}

pl_status pl_web_call_with_model(pl_web *web, const char *function, pl_bytes onnx, pl_buf *answer,
                                 pl_err *err) {
    return call_at_level(web, function, onnx, web->level, answer, err);
}

pl_status pl_web_load(pl_web *web, pl_bytes onnx, const char *level, long *session, pl_err *err) {
    pl_buf answer = PL_BUF_INIT;
    const pl_status st = call_at_level(web, "load", onnx, level, &answer, err);
    if (st == PL_OK) *session = strtol(pl_buf_str(&answer), NULL, 10);
    pl_buf_release(&answer);
    return st;
}

void pl_web_drop(pl_web *web, long session) {
    pl_buf answer = PL_BUF_INIT;
    char text[60];
    snprintf(text, sizeof(text), "plumb.drop(%ld)", session);
    (void)call(web, text, NULL, 0, &answer, NULL);
    pl_buf_release(&answer);
}

/* ---- runs ---- */

typedef struct inputs {
    pl_buf *packed; /* one per input that is given */
    pl_web_blob *blobs;
    size_t n;
} inputs;

static void inputs_release(inputs *in) {
    for (size_t i = 0; i < in->n; i++)
        pl_buf_release(&in->packed[i]);
    pl_free(in->packed);
    pl_free(in->blobs);
}

static pl_status add_input(inputs *in, pl_json *json, const char *name, const pl_datum *d,
                           pl_err *err) {
    char shown[120];
    const char *type = d->kind == PL_TYPE_TENSOR ? pl_web_type_name(d->tensor->dtype) : NULL;
    if (type == NULL)
        return pl_fail(err, PL_E_UNSUPPORTED, "input '%s': onnxruntime-web does not take %s", name,
                       pl_datum_describe(d, shown, sizeof(shown)));
    pl_buf *packed = &in->packed[in->n++];
    PL_TRY(pl_web_pack(d->tensor, packed, err));
    in->blobs[in->n - 1] = (pl_web_blob){ packed->data, packed->n_bytes };
    pl_json_object_begin(json);
    pl_json_put_string(json, "name", name);
    pl_json_put_string(json, "type", type);
    pl_json_put_int(json, "bytes", (int64_t)packed->n_bytes);
    pl_json_put_ints(json, "dims", d->tensor->dims, (size_t)d->tensor->rank);
    pl_json_object_end(json);
    return PL_OK;
}

static pl_status write_request(const pl_web_program *p, long session, const plumb_run_args *args,
                               const char *const *names, size_t n_names, inputs *in, pl_buf *text,
                               pl_err *err) {
    pl_json json;
    pl_buf_puts(text, "plumb.run(");
    pl_json_init(&json, text, false);
    pl_json_object_begin(&json);
    pl_json_put_int(&json, "session", session);
    pl_json_put_int(&json, "part", PL_WEB_PART_BYTES);
    pl_json_key(&json, "outputs");
    pl_json_array_begin(&json);
    for (size_t i = 0; i < n_names; i++)
        pl_json_string(&json, names[i]);
    pl_json_array_end(&json);
    pl_json_key(&json, "inputs");
    pl_json_array_begin(&json);
    for (size_t i = 0; i < args->n_in; i++)
        if (args->in[i] != NULL)
            PL_TRY(add_input(in, &json, p->source.inputs[i], pl_datum_of(args->in[i]), err));
    pl_json_array_end(&json);
    pl_json_object_end(&json);
    pl_buf_puts(text, ")");
    return pl_buf_ok(text) ? PL_OK : pl_fail_memory(err, text->n_bytes);
}

pl_status pl_web_fetch(pl_web *web, size_t index, uint8_t *to, size_t n_bytes, pl_err *err) {
    for (size_t at = 0; at < n_bytes; at += PL_WEB_PART_BYTES) {
        const size_t left = n_bytes - at;
        const size_t n = left < PL_WEB_PART_BYTES ? left : PL_WEB_PART_BYTES;
        pl_buf answer = PL_BUF_INIT;
        char text[100];
        snprintf(text, sizeof(text), "plumb.read(%zu, %zu, %zu)", index, at, n);
        pl_status st = call(web, text, NULL, 0, &answer, err);
        if (st == PL_OK && !pl_web_decode(pl_buf_str(&answer), answer.n_bytes, to + at, n))
            st = pl_fail(err, PL_E_BACKEND, "web %s: the page gave a broken tensor", web->version);
        pl_buf_release(&answer);
        PL_TRY(st);
    }
    return PL_OK;
}

static pl_status read_value(pl_web *web, size_t index, const char *name, const pl_json_value *meta,
                            pl_datum **out, pl_err *err) {
    const pl_json_value *type = pl_json_find(meta, "type"), *dims = pl_json_find(meta, "dims");
    const pl_json_value *bytes = pl_json_find(meta, "bytes");
    int64_t shape[PL_RANK_MAX] = { 0 };
    int rank = 0;
    if (type == NULL || type->kind != PL_JSON_STRING || dims == NULL || bytes == NULL ||
        !bytes->is_integer || bytes->integer < 0 || dims->n_items > PL_RANK_MAX)
        return pl_fail(err, PL_E_BACKEND, "web %s: output '%s' has no type and shape", web->version,
                       name);
    for (const pl_json_value *d = dims->first; d != NULL; d = d->next)
        shape[rank++] = d->integer;
    const pl_dtype dtype = pl_web_type_of(type->string);
    if (dtype == PL_UNDEFINED)
        return pl_fail(err, PL_E_UNSUPPORTED, "output '%s' of onnxruntime-web has the type %s",
                       name, type->string);
    const size_t n = (size_t)bytes->integer;
    uint8_t *data = pl_malloc(n + 1);
    if (data == NULL) return pl_fail_memory(err, n);
    pl_status st = pl_web_fetch(web, index, data, n, err);
    if (st == PL_OK) st = pl_web_unpack(dtype, rank, shape, data, n, out, err);
    pl_free(data);
    return st;
}

static pl_status read_values(pl_web *web, const pl_buf *answer, const char *const *names,
                             size_t n_names, pl_datum **values, pl_err *err) {
    const pl_json_value *list = NULL;
    pl_arena *arena = pl_arena_new();
    if (arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_json_read(pl_buf_str(answer), answer->n_bytes, arena, &list, err);
    if (st == PL_OK && (list->kind != PL_JSON_ARRAY || list->n_items != n_names))
        st = pl_fail(err, PL_E_BACKEND, "web %s: expected %zu values", web->version, n_names);
    size_t i = 0;
    for (const pl_json_value *v = st == PL_OK ? list->first : NULL; v != NULL && st == PL_OK;
         v = v->next, i++)
        st = read_value(web, i, names[i], v, &values[i], err);
    pl_arena_free(arena);
    return st;
}

pl_status pl_web_run(pl_web_program *p, long session, const plumb_run_args *args,
                     const char *const *names, size_t n_names, pl_datum **values, pl_err *err) {
    pl_buf text = PL_BUF_INIT, answer = PL_BUF_INIT;
    inputs in = { pl_calloc(args->n_in + 1, sizeof(pl_buf)),
                  pl_calloc(args->n_in + 1, sizeof(pl_web_blob)), 0 };
    pl_status st = in.packed == NULL || in.blobs == NULL ? pl_fail_memory(err, args->n_in) : PL_OK;
    if (st == PL_OK) st = write_request(p, session, args, names, n_names, &in, &text, err);
    if (st == PL_OK) st = call(p->web, pl_buf_str(&text), in.blobs, in.n, &answer, err);
    if (st == PL_OK) st = read_values(p->web, &answer, names, n_names, values, err);
    inputs_release(&in);
    pl_buf_release(&text);
    pl_buf_release(&answer);
    return st;
}

/* ---- programs ---- */

pl_bytes pl_web_bytes(const pl_web_program *p) {
    if (p->embedded.n_bytes > 0)
        return (pl_bytes){ (const uint8_t *)p->embedded.data, p->embedded.n_bytes };
    return (pl_bytes){ p->source.onnx, p->source.n_onnx };
}

bool pl_web_usable(const pl_web *web) {
    return web->browser != NULL && pl_web_browser_alive(web->browser) &&
           !pl_web_browser_spoilt(web->browser);
}

static void web_free(void *program) {
    pl_web_program *p = program;
    if (p == NULL) return;
    if (p->session >= 0 && p->started == p->web->n_started && pl_web_usable(p->web))
        pl_web_drop(p->web, p->session);
    pl_web_optimised_free(p->web, p->optimised);
    pl_model_free(p->model);
    pl_buf_release(&p->embedded);
    pl_buf_release(&p->places);
    pl_free(p);
}

/* The page has no files, so external data is embedded. */
static pl_status read_model(pl_web_program *p, pl_err *err) {
    const plumb_source *s = &p->source;
    char *folder = s->path == NULL ? NULL : pl_path_dirname(s->path);
    const pl_bytes bytes = { s->onnx, s->n_onnx };
    const pl_status st = pl_model_read_bytes(bytes, NULL, folder, "model", &p->model, err);
    pl_free(folder);
    PL_TRY(st);
    if (s->path == NULL || memmem(s->onnx, s->n_onnx, "location", 8) == NULL) return PL_OK;
    PL_TRY(pl_model_serialize(p->model, &p->embedded, err));
    return pl_buf_ok(&p->embedded) ? PL_OK : pl_fail_memory(err, p->embedded.n_bytes);
}

pl_status pl_web_ready(pl_web_program *p, pl_err *err) {
    pl_web *web = p->web;
    if (!pl_web_usable(web)) {
        pl_web_browser_stop(web->browser);
        web->browser = NULL;
        PL_TRY(load_page(web, err));
    }
    if (p->session >= 0 && p->started == web->n_started) return PL_OK;
    p->session = -1;
    p->started = web->n_started;
    return pl_web_load(web, pl_web_bytes(p), web->level, &p->session, err);
}

static plumb_status web_compile(void *self, const plumb_source *source, void **program,
                                size_t *n_hooks, plumb_error *err) {
    pl_web *web = self;
    (void)n_hooks;
    pl_web_program *p = pl_calloc(1, sizeof(*p));
    if (p == NULL) return pl_fail_memory(err, sizeof(*p));
    p->web = web;
    p->source = *source;
    p->session = -1;
    pl_status st = read_model(p, err);
    if (st == PL_OK) st = pl_web_ready(p, err);
    if (st == PL_OK) {
        *program = p;
    } else {
        web_free(p);
    }
    return st;
}

static pl_status record(pl_web_program *p, const plumb_run_args *args, pl_err *err) {
    enum { MODE_OPTIMIZED };
    bool done = false;
    *args->record = (plumb_record_info){ 0 };
    if (args->mode == MODE_OPTIMIZED) PL_TRY(pl_web_record_optimised(p, args, &done, err));
    return done ? PL_OK : pl_web_record_groups(p, args, err);
}

static plumb_status web_run(void *program, const plumb_run_args *args, plumb_error *err) {
    pl_web_program *p = program;
    PL_TRY(pl_web_ready(p, err));
    if (args->hook != NULL) return record(p, args, err);
    return pl_web_run(p, p->session, args, p->source.outputs, p->source.n_outputs,
                      (pl_datum **)args->out, err);
}

static const char *const *web_record_modes(void *self) {
    static const char *const modes[] = { "optimized", "groups", NULL };
    (void)self;
    return modes;
}

/* "PLACE\t*\t": all nodes are there. */
static void put_all_nodes(pl_web_program *p, const char *place, size_t n_place) {
    const pl_graph *graph = p->model->graph;
    for (size_t i = 0; i < graph->n_nodes; i++)
        pl_buf_printf(&p->places, "%.*s\t%s\t%s\n", (int)n_place, place, graph->nodes[i]->op,
                      graph->nodes[i]->name);
}

static plumb_status web_placement(void *program, const char **text, plumb_error *err) {
    pl_web_program *p = program;
    pl_buf answer = PL_BUF_INIT;
    if (!p->web->gpu || p->has_places) {
        *text = pl_buf_str(&p->places);
        return PLUMB_OK;
    }
    pl_buf_reset(&p->places);
    PL_TRY(pl_web_ready(p, err));
    pl_status st = pl_web_call_with_model(p->web, "places", pl_web_bytes(p), &answer, err);
    for (const char *at = pl_buf_str(&answer); st == PL_OK && *at != '\0';) {
        const size_t n = strcspn(at, "\n"), n_place = strcspn(at, "\t");
        if (strncmp(at + n_place, "\t*\t", 3) == 0) {
            put_all_nodes(p, at, n_place);
        } else {
            pl_buf_append(&p->places, at, n);
            pl_buf_putc(&p->places, '\n');
        }
        at += n + (at[n] == '\n');
    }
    pl_buf_release(&answer);
    if (st == PL_OK && !pl_buf_ok(&p->places)) st = pl_fail_memory(err, 1);
    p->has_places = st == PL_OK;
    if (st == PL_OK) *text = pl_buf_str(&p->places);
    return st;
}

static const plumb_option_def options[] = {
    { "wasm", NULL, "WebAssembly kernels (default)" },
    { "webgpu", NULL, "WebGPU kernels" },
    { "simd", NULL, "SIMD instructions, which every version has" },
    { "threads", "N", "threads of WebAssembly (default 1)" },
    { "opt", "off|basic|extended|all", "graph optimisation level (default all)" },
    { "version", "TEXT", "version of onnxruntime-web (default " PINNED ")" },
};

static const char *const levels[] = { "off", "basic", "extended", "all", NULL };
static const char *const devices[] = { "webgpu", NULL };

const plumb_backend pl_backend_web = {
    .abi = PLUMB_ABI,
    .n_bytes = sizeof(plumb_backend),
    .flags = PLUMB_UNCONFINED | PLUMB_STAYS_OPEN | PLUMB_STARTS_BROWSER,
    .name = "web",
    .summary = "onnxruntime-web in headless Chromium",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .open = web_open,
    .close = web_close,
    .version = web_version,
    .compile = web_compile,
    .run = web_run,
    .record_modes = web_record_modes,
    .free = web_free,
    .levels = levels,
    .device = web_device,
    .placement = web_placement,
    .devices = devices,
};
