/* plumb_record and its result. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/json.h"
#include "flows/api/session_api.h"
#include "flows/record.h"

struct plumb_record_result {
    pl_arena *arena; /* it holds the strings */
    const char *path, *backend;
    const char **notes;
    size_t n_notes, n_records;
    uint64_t n_bytes;
    double seconds;
    bool observer_effect;
};

static pl_status fill(plumb_record_result *r, const pl_record_job *job, pl_err *err) {
    const plumb_record_options *o = job->options;
    size_t n = 0;
    for (const char *p = pl_buf_str(&job->notes); *p != '\0'; p++)
        n += *p == '\n';
    r->path = pl_arena_strdup(r->arena, o->output);
    r->backend = pl_arena_strdup(r->arena, pl_record_is_eager(o) ? "eager" : o->backend);
    r->notes = pl_arena_array(r->arena, n + 1, sizeof(*r->notes));
    if (r->path == NULL || r->backend == NULL || r->notes == NULL || !pl_buf_ok(&job->notes))
        return pl_fail_memory(err, n);
    for (const char *line = pl_buf_str(&job->notes); r->n_notes < n;) {
        const size_t length = strcspn(line, "\n");
        r->notes[r->n_notes] = pl_arena_strndup(r->arena, line, length);
        if (r->notes[r->n_notes++] == NULL) return pl_fail_memory(err, length);
        line += length + 1;
    }
    r->n_records = job->n_records;
    r->n_bytes = job->n_bytes;
    r->seconds = job->seconds;
    r->observer_effect = job->observer_effect;
    return PL_OK;
}

plumb_status plumb_record(plumb_model *model, const plumb_record_options *options,
                          plumb_record_result **out, plumb_error *err) {
    plumb_record_options o;
    plumb_inputs inputs;
    pl_watch watch;
    PL_REQUIRE(out);
    *out = NULL;
    PL_REQUIRE(model);
    PL_TRY(pl_options_read(PLUMB_OPTIONS_RECORD, options, &o, err));
    PL_TRY(pl_inputs_read(&o.inputs, &inputs, err));
    PL_TRY(pl_list_check("names", o.names, o.n_names, err));
    PL_TRY(pl_list_check("ops", o.ops, o.n_ops, err));
    PL_TRY(pl_list_check("modules", o.modules, o.n_modules, err));
    if (o.output == NULL) return pl_fail(err, PL_E_USAGE, "missing output file");
    o.progress = pl_watch_init(&watch, o.progress);
    plumb_record_result *result = pl_calloc(1, sizeof(*result));
    pl_record_job job = { .m = model, .model = model->model, .options = &o };
    pl_status st = PL_OK;
    if (result != NULL) result->arena = pl_arena_new();
    if (result == NULL || result->arena == NULL) st = pl_fail_memory(err, sizeof(*result));
    if (st == PL_OK) st = pl_api_settle(pl_record_run(&job, err), err);
    if (st == PL_OK) st = fill(result, &job, err);
    pl_record_release(&job);
    if (st == PL_OK) {
        *out = result;
    } else {
        plumb_record_result_free(result);
    }
    return st;
}

void plumb_record_result_free(plumb_record_result *result) {
    if (result == NULL) return;
    pl_arena_free(result->arena);
    pl_free(result);
}

const char *plumb_record_result_path(const plumb_record_result *result) {
    return result == NULL ? "" : result->path;
}

size_t plumb_record_result_values(const plumb_record_result *result) {
    return result == NULL ? 0 : result->n_records;
}

uint64_t plumb_record_result_bytes(const plumb_record_result *result) {
    return result == NULL ? 0 : result->n_bytes;
}

double plumb_record_result_seconds(const plumb_record_result *result) {
    return result == NULL ? 0 : result->seconds;
}

int plumb_record_result_observer_effect(const plumb_record_result *result) {
    return result != NULL && result->observer_effect;
}

size_t plumb_record_result_notes(const plumb_record_result *result) {
    return result == NULL ? 0 : result->n_notes;
}

const char *plumb_record_result_note(const plumb_record_result *result, size_t i) {
    return i < plumb_record_result_notes(result) ? result->notes[i] : "";
}

static void put_json(const plumb_record_result *r, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", "ok");
    pl_json_put_string(&j, "recording", r->path);
    pl_json_put_int(&j, "records", (int64_t)r->n_records);
    pl_json_put_int(&j, "bytes", (int64_t)r->n_bytes);
    pl_json_put_string(&j, "backend", r->backend);
    pl_json_put_bool(&j, "observer_effect", r->observer_effect);
    pl_json_key(&j, "notes");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_notes; i++)
        pl_json_string(&j, r->notes[i]);
    pl_json_array_end(&j);
    pl_json_key(&j, "timing");
    pl_json_object_begin(&j);
    pl_json_put_double(&j, "record_ms", 1e3 * r->seconds);
    pl_json_object_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

plumb_status plumb_record_result_write(const plumb_record_result *result,
                                       const plumb_write_options *options, char **text,
                                       plumb_error *err) {
    plumb_write_options own;
    pl_buf out = PL_BUF_INIT;
    bool json = false;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(result);
    PL_TRY(pl_write_is_json(options, &json, &own, err));
    if (json) {
        put_json(result, &out);
    } else {
        pl_buf_put_count(&out, result->n_records, "value");
        pl_buf_printf(&out, ", %" PRIu64 " bytes -> %s  (%.1f ms)\n", result->n_bytes, result->path,
                      1e3 * result->seconds);
        for (size_t i = 0; i < result->n_notes; i++)
            pl_buf_printf(&out, "%s\n", result->notes[i]);
    }
    return pl_api_text_take(&out, text, err);
}
