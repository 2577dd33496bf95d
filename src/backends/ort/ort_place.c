/* Which node ran on which execution provider, from ONNX Runtime's profile of a run. (Its API for
 * graph partitions, 1.24 and later, omits nodes of providers that prefer another layout, such as
 * WebGPU.) Profiling changes how work is submitted to a device, so a separate session is profiled,
 * and only on request. */
#include <string.h>

#include "backends/ort/ort_int.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/strmap.h"

static bool has_places(const pl_ort *ort) {
    return ort->providers != NULL && strcmp(ort->providers, "CPU") != 0;
}

void pl_ort_places_release(pl_ort_program *p) {
    for (size_t i = 0; p->last_in != NULL && i < p->source.n_inputs; i++)
        pl_datum_unref(p->last_in[i]);
    pl_free(p->last_in);
    p->last_in = NULL;
    pl_buf_release(&p->places);
}

pl_status pl_ort_places_keep(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    if (!has_places(p->ort) || p->places.n_bytes > 0) return PL_OK;
    pl_ort_places_release(p);
    p->last_in = pl_calloc(p->source.n_inputs + 1, sizeof(pl_datum *));
    if (p->last_in == NULL) return pl_fail_memory(err, p->source.n_inputs);
    for (size_t i = 0; i < args->n_in && i < p->source.n_inputs; i++)
        if (args->in[i] != NULL) p->last_in[i] = pl_datum_ref(pl_datum_of(args->in[i]));
    return PL_OK;
}

/* ---- the profile ---- */

/* Tabs and line ends separate fields; in a name of the model they become spaces. */
static void put_field(pl_buf *out, const char *text, size_t n, char end) {
    for (size_t i = 0; i < n; i++) {
        const bool separator = text[i] == '\t' || text[i] == '\n';
        pl_buf_putc(out, separator ? ' ' : text[i]);
    }
    pl_buf_putc(out, end);
}

/* The length without `tail`, if it ends with it. */
static size_t length_before(const char *text, const char *tail) {
    const size_t n = strlen(text), n_tail = strlen(tail);
    return n > n_tail && strcmp(text + n - n_tail, tail) == 0 ? n - n_tail : n;
}

static const char *text_of(const pl_json_value *object, const char *key) {
    const pl_json_value *v = pl_json_find(object, key);
    return v != NULL && v->kind == PL_JSON_STRING ? v->string : "";
}

/* One event. Nodes of a body may run several times but count once. */
static pl_status put_event(const pl_json_value *event, pl_strmap *seen, pl_arena *arena,
                           pl_buf *out, pl_err *err) {
    static const char kernel[] = "_kernel_time";
    const pl_json_value *args = pl_json_find(event, "args");
    const char *name = text_of(event, "name"), *op = text_of(args, "op_name");
    const char *provider = text_of(args, "provider");
    const size_t n_name = length_before(name, kernel);
    pl_buf line = PL_BUF_INIT;
    if (strcmp(text_of(event, "cat"), "Node") != 0 || n_name == strlen(name) || *op == '\0' ||
        *provider == '\0')
        return PL_OK;
    put_field(&line, provider, length_before(provider, "ExecutionProvider"), '\t');
    put_field(&line, op, strlen(op), '\t');
    put_field(&line, name, n_name, '\n');
    const char *text = pl_buf_ok(&line) ? pl_arena_strdup(arena, pl_buf_str(&line)) : NULL;
    pl_buf_release(&line);
    if (text == NULL) return pl_fail_memory(err, n_name);
    if (pl_strmap_get(seen, text) != NULL) return PL_OK;
    pl_buf_puts(out, text);
    if (!pl_buf_ok(out) || pl_strmap_put(seen, text, arena) != 0) return pl_fail_memory(err, 1);
    return PL_OK;
}

pl_status pl_ort_places_parse(const char *text, size_t n, pl_buf *out, pl_err *err) {
    const pl_json_value *root = NULL;
    pl_strmap seen = PL_STRMAP_INIT;
    pl_arena *arena = pl_arena_new();
    pl_status st =
        arena == NULL ? pl_fail_memory(err, 1) : pl_json_read(text, n, arena, &root, err);
    if (st == PL_OK && root->kind != PL_JSON_ARRAY)
        st = pl_fail(err, PL_E_BACKEND, "the profile of ONNX Runtime is not a list");
    for (const pl_json_value *v = st == PL_OK ? root->first : NULL; v != NULL && st == PL_OK;
         v = v->next)
        st = put_event(v, &seen, arena, out, err);
    pl_strmap_release(&seen);
    pl_arena_free(arena);
    return st;
}

static pl_status read_profile(const char *file, pl_buf *out, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(file, &map, err));
    const pl_status st = pl_ort_places_parse((const char *)map->data, map->n_bytes, out, err);
    pl_file_map_unref(map);
    return st;
}

static pl_status run_once(pl_ort_program *p, void *session, pl_err *err) {
    const size_t n_out = p->source.n_outputs;
    const plumb_run_args args = { .in = (const plumb_datum *const *)p->last_in,
                                  .n_in = p->source.n_inputs };
    void **values = pl_calloc(n_out + 1, sizeof(void *));
    if (values == NULL) return pl_fail_memory(err, n_out);
    const pl_status st =
        pl_ort_session_run(p, session, &args, p->source.outputs, n_out, values, err);
    pl_ort_values_release(p, values, n_out);
    pl_free(values);
    return st;
}

static pl_status profile(pl_ort_program *p, const char *prefix, pl_err *err) {
    const pl_ort_api *api = &p->ort->env.api;
    void *session = NULL;
    char *file = NULL;
    const pl_ort_session_args args = { .onnx = p->source.onnx,
                                       .n_onnx = p->source.n_onnx,
                                       .path = p->source.path,
                                       .level = p->ort->level,
                                       .threads = p->threads,
                                       .profile = prefix };
    PL_TRY(pl_ort_session_new(p->ort, &args, &session, err));
    pl_status st = run_once(p, session, err);
    /* Also after a failure, so that the file is closed. */
    const pl_status ended = pl_ort_check(
        api, api->SessionEndProfiling(session, p->ort->env.allocator, &file), "profile", err);
    if (st == PL_OK) st = ended;
    if (st == PL_OK) st = read_profile(file, &p->places, err);
    if (file != NULL)
        (void)pl_ort_check(api, api->AllocatorFree(p->ort->env.allocator, file), "profile", NULL);
    api->ReleaseSession(session);
    return st;
}

pl_status pl_ort_places_read(pl_ort_program *p, pl_err *err) {
    char *dir = NULL;
    if (p->last_in == NULL || p->places.n_bytes > 0) return PL_OK;
    PL_TRY(pl_dir_temporary(&dir, err));
    char *prefix = pl_path_join(dir, "profile");
    const pl_status st = prefix == NULL ? pl_fail_memory(err, 1) : profile(p, prefix, err);
    pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_free(prefix);
    return st;
}
