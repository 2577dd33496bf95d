/* The C that jit generates from the session's model: compiled again, behind the guard, into a
 * folder. The page shows the step that computes the selected value. */
#include <string.h>

#include "backends/backend.h"
#include "backends/ort/ort_map.h"
#include "backends/spec.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "onnx/onnx.h"
#include "view/server_int.h"

enum { COMPILE_SECONDS = 120, EMITTED_MAX = 8 << 20 };

static pl_status compile(const char *model_path, const char *spec, pl_err *err) {
    const pl_backend_options options = { .guarded = true, .timeout_seconds = COMPILE_SECONDS };
    const pl_compile_options how = { .record = true };
    pl_model *model = NULL;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, pl_model_read(model_path, &model, err));
    PL_TRY_GOTO(done, st, pl_backend_open(spec, &options, &backend, err));
    st = pl_program_new(backend, model, &how, &program, err);
done:
    pl_program_free(program);
    pl_backend_close(backend);
    pl_model_free(model);
    return st;
}

static pl_status put_file(pl_json *j, const char *key, const char *dir, const char *name,
                          pl_err *err) {
    pl_file_map *map = NULL;
    char *path = pl_path_join(dir, name);
    if (path == NULL) return pl_fail_memory(err, 1);
    const pl_status st = pl_file_map_open(path, &map, err);
    pl_free(path);
    if (st != PL_OK) return st;
    pl_json_key(j, key);
    pl_json_string_n(j, (const char *)map->data,
                     map->n_bytes < EMITTED_MAX ? map->n_bytes : EMITTED_MAX);
    pl_file_map_unref(map);
    return PL_OK;
}

static pl_status emit(const char *model, const char *spec, pl_buf *out, pl_err *err) {
    pl_buf full = PL_BUF_INIT;
    char *dir = NULL;
    pl_json j;
    PL_TRY(pl_dir_temporary(&dir, err));
    pl_buf_printf(&full, "%s%cdebug-dir=%s", spec, strchr(spec, ':') == NULL ? ':' : ',', dir);
    pl_status st =
        pl_buf_ok(&full) ? compile(model, pl_buf_str(&full), err) : pl_fail_memory(err, 1);
    pl_json_init(&j, out, false);
    pl_json_object_begin(&j);
    if (st == PL_OK) st = put_file(&j, "schedule", dir, "3-schedule.txt", err);
    if (st == PL_OK) st = put_file(&j, "c", dir, "5-model.c", err);
    pl_json_object_end(&j);
    (void)pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_buf_release(&full);
    return st;
}

/* ---- the graph that A executes ---- */

/* For each value of the executed graph, the value of the model that it corresponds to:
 * "stands_for", before the closing brace. */
static pl_status put_carried(pl_model *model, const pl_model *executed, pl_buf *out, pl_err *err) {
    pl_ort_map *map = NULL;
    pl_json j;
    PL_TRY(pl_ort_map_new(model, executed, &map, err));
    if (pl_buf_ok(out)) out->n_bytes--;
    pl_buf_puts(out, ",\"stands_for\":");
    pl_json_init(&j, out, false);
    pl_json_array_begin(&j);
    for (size_t i = 0; i < executed->graph->n_values; i++)
        pl_json_string(&j, pl_ort_map_value(map, executed->graph->values[i]).stands_for);
    pl_json_array_end(&j);
    pl_buf_putc(out, '}');
    pl_ort_map_free(map);
    return PL_OK;
}

static pl_status put_executed(const char *model_path, const char *spec, pl_buf *out, pl_err *err) {
    const pl_backend_options options = { .guarded = true, .timeout_seconds = COMPILE_SECONDS };
    const pl_compile_options how = { .record = true };
    pl_model *model = NULL, *executed = NULL;
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_bytes onnx = { NULL, 0 };
    char *folder = pl_path_dirname(model_path);
    pl_status st = folder == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) PL_TRY_GOTO(done, st, pl_model_read(model_path, &model, err));
    PL_TRY_GOTO(done, st, pl_backend_open(spec, &options, &backend, err));
    PL_TRY_GOTO(done, st, pl_program_new(backend, model, &how, &program, err));
    PL_TRY_GOTO(done, st, pl_program_executed(program, &onnx, err));
    PL_TRY_GOTO(done, st,
                pl_model_read_bytes(onnx, NULL, folder, "the executed graph", &executed, err));
    PL_TRY_GOTO(done, st, pl_viewed_put_graph(executed, out, err));
    if (strcmp(pl_backend_name(backend), "ort") == 0) st = put_carried(model, executed, out, err);
done:
    pl_model_free(executed);
    pl_program_free(program);
    pl_backend_close(backend);
    pl_model_free(model);
    pl_free(folder);
    return st;
}

/* ---- made once ---- */

typedef pl_status (*maker)(const char *model, const char *spec, pl_buf *out, pl_err *err);

/* Compiling may take minutes, during which other requests are served: afterwards another session
 * may be shown. */
static pl_status make_unlocked(pl_server *s, maker make, pl_buf *made, pl_err *err) {
    char *model = pl_path_join(pl_viewed_path(s->viewed), "model.onnx");
    char *spec = pl_strdup(pl_viewed_session(s->viewed)->a.spec);
    pl_status st = model == NULL || spec == NULL ? pl_fail_memory(err, 1) : PL_OK;
    if (st == PL_OK) {
        pthread_mutex_unlock(&s->mutex);
        st = make(model, spec, made, err);
        pthread_mutex_lock(&s->mutex);
    }
    if (st == PL_OK && !pl_buf_ok(made)) st = pl_fail_memory(err, 1);
    pl_free(model);
    pl_free(spec);
    return st;
}

const char *pl_emitted_would_run(const pl_server *s, const char *path, const char *of) {
    const bool emitted = strcmp(path, "/api/emitted") == 0;
    const bool executed = strcmp(path, "/api/graph") == 0 && of != NULL && !strcmp(of, "executed");
    if (s->trust || s->viewed == NULL || (!emitted && !executed)) return NULL;
    if ((emitted ? &s->emitted : &s->executed)->n_bytes > 0) return NULL; /* cached */
    return emitted ? "To show this, the session's model is compiled on this machine: plumb runs "
                     "the C compiler 'cc'. Nothing of the model is executed."
                   : "To show this, the session's model is handed to its backend on this machine, "
                     "which compiles it (jit runs the C compiler 'cc', ort loads ONNX Runtime).";
}

/* Returns *kept, or else the result of `make`, which is then kept for its session. */
static pl_status get_once(pl_server *s, maker make, pl_buf *kept, pl_buf *out, pl_err *err) {
    const unsigned serial = s->serial;
    pl_buf made = PL_BUF_INIT;
    pl_status st = PL_OK;
    const char *spec = pl_viewed_session(s->viewed)->a.spec;
    if (pl_spec_needs_trust(spec)) /* whatever the page said */
        return pl_fail(err, PL_E_UNSUPPORTED,
                       "'%.80s' runs a program, loads a library or writes files; plumb does not "
                       "start it for a session",
                       spec);
    while (s->making && !s->closing)
        pthread_cond_wait(&s->made, &s->mutex);
    if (s->closing) return pl_fail(err, PL_E_IO, "the server is closing");
    if (s->serial != serial)
        return pl_fail(err, PL_E_EXISTS, "another session is shown now: reload the page to see it");
    if (kept->n_bytes > 0) {
        pl_buf_append(out, kept->data, kept->n_bytes);
        return PL_OK;
    }
    s->making = true;
    st = make_unlocked(s, make, &made, err);
    s->making = false;
    pthread_cond_broadcast(&s->made);
    if (st == PL_OK) {
        pl_buf_append(out, made.data, made.n_bytes);
        if (s->serial == serial && kept->n_bytes == 0) pl_buf_append(kept, made.data, made.n_bytes);
        if (!pl_buf_ok(kept)) pl_buf_reset(kept);
    }
    pl_buf_release(&made);
    return st;
}

pl_status pl_executed_get(pl_server *s, pl_buf *out, pl_err *err) {
    const pl_session *session = s->viewed != NULL ? pl_viewed_session(s->viewed) : NULL;
    if (session == NULL || pl_viewed_model(s->viewed) == NULL || *session->a.spec == '\0')
        return pl_fail(err, PL_E_NOT_FOUND,
                       "the session does not contain the graph that A executed");
    return get_once(s, put_executed, &s->executed, out, err);
}

pl_status pl_emitted_get(pl_server *s, pl_buf *out, pl_err *err) {
    const pl_session *session = s->viewed != NULL ? pl_viewed_session(s->viewed) : NULL;
    const char *spec = session != NULL ? session->a.spec : "";
    if (strcmp(spec, "jit") != 0 && strncmp(spec, "jit:", 4) != 0)
        return pl_fail(err, PL_E_NOT_FOUND, "only jit emits C");
    return get_once(s, emit, &s->emitted, out, err);
}
