/* Writing and checking repro folders. */
#include "flows/minify/repro/repro.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/door.h"
#include "base/file.h"
#include "base/process.h"
#include "graph/text/text.h"
#include "interp/interp.h"
#include "onnx/onnx.h"
#include "tensor/file/tensor_proto.h"
#include "tensor/file/zip.h"

enum { TEXT_ELEMENTS_MAX = 1 << 16 };
#define WHOLE_MAX (UINT64_C(256) << 20)

/* ---- observing ---- */

static pl_status run_reference(pl_repro *r, pl_err *err) {
    const size_t n = r->model->graph->n_outputs;
    const pl_interp_options options = { .seed = r->seed, .any_shape = true };
    pl_interp *interp = NULL;
    r->expected = pl_calloc(n + 1, sizeof(pl_datum *));
    if (r->expected == NULL) return pl_fail_memory(err, n);
    pl_status st = pl_interp_new(r->model, &options, &interp, NULL);
    if (st == PL_OK) st = pl_interp_run(interp, r->in, r->expected, NULL);
    pl_interp_free(interp);
    return st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
}

static pl_status run_backend(pl_repro *r, pl_err *err) {
    const size_t n = r->model->graph->n_outputs;
    pl_backend_options guarded =
        pl_backend_options_for(r->backend, r->timeout > 0 ? r->timeout : 20, r->memory_limit);
    guarded.sandbox = r->sandbox;
    const pl_compile_options compile = { .seed = r->seed,
                                         .threads = r->threads,
                                         .any_shape = true };
    pl_backend *backend = NULL;
    pl_program *program = NULL;
    pl_err trouble = PL_ERR_INIT;
    r->observed = pl_calloc(n + 1, sizeof(pl_datum *));
    if (r->observed == NULL) return pl_fail_memory(err, n);
    pl_status st = pl_backend_open(r->backend, &guarded, &backend, &trouble);
    if (st == PL_OK) {
        snprintf(r->version, sizeof(r->version), "%s", pl_backend_version(backend));
        st = pl_program_new(backend, r->model, &compile, &program, &trouble);
    }
    if (st == PL_OK) st = pl_program_run(program, r->in, r->observed, &trouble);
    if (st != PL_OK) snprintf(r->error, sizeof(r->error), "%.590s", trouble.message);
    pl_program_free(program);
    pl_backend_close(backend);
    return st == PL_E_MEMORY ? pl_fail_memory(err, 1) : PL_OK;
}

pl_status pl_repro_observe(pl_repro *r, pl_err *err) {
    for (size_t i = 0; i < r->model->graph->n_inputs; i++)
        if (r->in[i] == NULL && r->model->graph->inputs[i]->init == NULL) return PL_OK;
    PL_TRY(run_reference(r, err));
    return r->backend == NULL ? PL_OK : run_backend(r, err);
}

void pl_repro_release(pl_repro *r) {
    const size_t n = r->model == NULL ? 0 : r->model->graph->n_outputs;
    for (size_t i = 0; i < n; i++) {
        if (r->expected != NULL) pl_datum_unref(r->expected[i]);
        if (r->observed != NULL) pl_datum_unref(r->observed[i]);
    }
    pl_free(r->expected);
    pl_free(r->observed);
    r->expected = r->observed = NULL;
}

/* ---- writing ---- */

static pl_status write_text(const char *dir, const char *name, const pl_buf *buf, bool executable,
                            pl_err *err) {
    char *path = pl_path_join(dir, name);
    if (path == NULL || !pl_buf_ok(buf)) {
        pl_free(path);
        return pl_fail_memory(err, 1);
    }
    pl_status st = pl_file_write(path, pl_buf_str(buf), buf->n_bytes, err);
    if (st == PL_OK && executable && chmod(path, 0755) != 0) {
        st = pl_fail(err, PL_E_IO, "cannot make '%s' executable", path);
    }
    pl_free(path);
    return st;
}

static pl_status write_data(const char *dir, const char *folder, const char *kind,
                            pl_value *const *values, pl_datum *const *data, size_t n, pl_err *err) {
    pl_status st = PL_OK;
    char *inner = pl_path_join(dir, folder);
    if (inner == NULL) return pl_fail_memory(err, 1);
    st = pl_path_make_dirs(inner, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        char name[64];
        pl_buf buf = PL_BUF_INIT;
        if (data[i] == NULL) continue;
        snprintf(name, sizeof(name), "%s_%zu.pb", kind, i);
        pl_datum_proto_write(&buf, values[i]->name, data[i]);
        st = write_text(inner, name, &buf, false, err);
        pl_buf_release(&buf);
    }
    pl_free(inner);
    return st;
}

/* Checkpoints are for plumb on this machine; a repro is for others, unless it is huge. */
bool pl_repro_is_whole(const pl_repro *r) {
    if (r->pack) return true;
    return r->minified && !r->light && pl_model_weight_bytes(r->model) < WHOLE_MAX;
}

static pl_status write_model(const pl_repro *r, const char *dir, pl_buf *text, pl_buf *notes,
                             pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    char *path = pl_path_join(dir, "model.onnx");
    if (path == NULL) return pl_fail_memory(err, 1);
    pl_status st = pl_repro_is_whole(r) ? pl_model_write(r->model, path, false, err)
                                        : pl_model_write_referring(r->model, path, err);
    pl_free(path);
    PL_TRY(st);
    if (r->minified && !r->light && !pl_repro_is_whole(r))
        pl_buf_printf(notes,
                      "%.1f GB of weights stay in the file they came from, which only plumb finds; "
                      "option 'pack' copies them\n",
                      1e-9 * (double)pl_model_weight_bytes(r->model));
    if (r->light) return PL_OK;
    st = pl_model_print(r->model, TEXT_ELEMENTS_MAX, text, &trouble);
    if (st == PL_OK) return write_text(dir, "model.onnxtxt", text, false, err);
    pl_buf_reset(text);
    if (st == PL_E_MEMORY) return pl_fail_memory(err, 1);
    pl_buf_printf(notes, "no model.onnxtxt: %s\n", trouble.message);
    return PL_OK;
}

static pl_status write_scripts(const pl_repro *r, const char *dir, pl_buf *notes, pl_err *err) {
    static const struct {
        pl_script which;
        const char *name;
    } scripts[] = { { PL_SCRIPT_PYTHON, "repro_ort.py" },
                    { PL_SCRIPT_NODE, "repro_ort.js" },
                    { PL_SCRIPT_C, "repro_ort.c" } };
    if (!pl_repro_is_ort(r) || r->no_data || r->expected == NULL || !pl_repro_is_whole(r))
        return PL_OK;
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        pl_buf buf = PL_BUF_INIT;
        pl_err trouble = PL_ERR_INIT;
        pl_status st = pl_repro_put_script(r, scripts[i].which, &buf, &trouble);
        if (st == PL_OK) {
            st = write_text(dir, scripts[i].name, &buf, scripts[i].which != PL_SCRIPT_C, err);
        } else {
            pl_buf_printf(notes, "no %s: %s\n", scripts[i].name, trouble.message);
            st = PL_OK;
        }
        pl_buf_release(&buf);
        PL_TRY(st);
    }
    return PL_OK;
}

/* Written again after verifying: only this file of ours is replaced. */
static pl_status write_json(const pl_repro *r, const char *dir, pl_err *err) {
    pl_buf buf = PL_BUF_INIT;
    pl_dir *own = NULL;
    pl_repro_put_json(r, &buf);
    pl_status st = pl_buf_ok(&buf) ? pl_dir_open(dir, &own, err) : pl_fail_memory(err, buf.n_bytes);
    if (st == PL_OK) st = pl_dir_write(own, "repro.json", buf.data, buf.n_bytes, err);
    pl_dir_close(own);
    pl_buf_release(&buf);
    return st;
}

static pl_status write_all(const pl_repro *r, const char *dir, pl_buf *notes, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    pl_buf text = PL_BUF_INIT, buf = PL_BUF_INIT;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, write_model(r, dir, &text, notes, err));
    if (!r->no_data) {
        PL_TRY_GOTO(done, st,
                    write_data(dir, "test_data_set_0", "input", graph->inputs, r->in,
                               graph->n_inputs, err));
    }
    if (r->expected != NULL && !r->no_data) {
        PL_TRY_GOTO(done, st,
                    write_data(dir, "test_data_set_0", "output", graph->outputs, r->expected,
                               graph->n_outputs, err));
    }
    if (r->observed != NULL && !r->no_data) {
        PL_TRY_GOTO(done, st,
                    write_data(dir, "observed", "output", graph->outputs, r->observed,
                               graph->n_outputs, err));
        if (r->error[0] != '\0') {
            pl_buf_printf(&buf, "%s\n", r->error);
            PL_TRY_GOTO(done, st, write_text(dir, "observed/error.txt", &buf, false, err));
            pl_buf_reset(&buf);
        }
    }
    PL_TRY_GOTO(done, st, write_scripts(r, dir, notes, err));
    PL_TRY_GOTO(done, st, write_json(r, dir, err));
    pl_repro_put_run(r, &buf);
    PL_TRY_GOTO(done, st, write_text(dir, "run.sh", &buf, true, err));
    pl_buf_reset(&buf);
    if (r->light) goto done;
    pl_repro_put_readme(r, pl_buf_str(&text), pl_buf_str(notes), &buf);
    st = write_text(dir, "README.md", &buf, false, err);
done:
    pl_buf_release(&text);
    pl_buf_release(&buf);
    return st;
}

pl_status pl_repro_stage(const pl_repro *r, const char *dir, pl_buf *notes, char **temporary,
                         pl_err *err) {
    PL_TRY(pl_dir_stage(dir, temporary, err));
    const pl_status st = write_all(r, *temporary, notes, err);
    if (st == PL_OK) return PL_OK;
    pl_dir_remove(*temporary, NULL);
    pl_free(*temporary);
    *temporary = NULL;
    return st;
}

pl_status pl_repro_write(const pl_repro *r, const char *dir, pl_buf *notes, pl_err *err) {
    char *temporary = NULL;
    if (pl_path_exists(dir)) return pl_fail(err, PL_E_EXISTS, "'%s' already exists", dir);
    PL_TRY(pl_repro_stage(r, dir, notes, &temporary, err));
    const pl_status st = pl_dir_publish(temporary, dir, err);
    if (st != PL_OK) pl_dir_remove(temporary, NULL);
    pl_free(temporary);
    return st;
}

/* ---- checking ---- */

pl_status pl_repro_verify(pl_repro *r, const char *program, const char *dir, pl_err *err) {
    const char *sandbox = r->sandbox == PLUMB_SANDBOX_OFF ? "off" : "on";
    const char *const argv[] = { program,     "minify", "--query", "--trust",
                                 "--sandbox", sandbox,  dir,       NULL };
    pl_process_result result = { 0 };
    const double patience = 60 + 4 * r->timeout;
    const pl_process_options options = { .timeout_seconds = patience };
    pl_status st = pl_process_run(argv, &options, &result, err);
    if (st == PL_OK) {
        const bool answered = !result.timed_out && result.signal == 0;
        r->verified = answered && result.exit_code == 1;
        if (r->verified) {
            snprintf(r->outcome, sizeof(r->outcome), "fails in a new process, with this signature");
        } else if (answered && result.exit_code == 0) {
            snprintf(r->outcome, sizeof(r->outcome), "does not fail in a new process");
        } else {
            snprintf(r->outcome, sizeof(r->outcome), "could not be tested in a new process: %.300s",
                     pl_buf_str(&result.err));
        }
        st = write_json(r, dir, err);
    }
    pl_process_result_release(&result);
    return st;
}

/* ---- one file ---- */

static pl_status zip_file(pl_zip_writer *zip, const char *path, const char *name, pl_err *err) {
    pl_file_map *map = NULL;
    PL_TRY(pl_file_map_open(path, &map, err));
    pl_zip_writer_set_executable(zip, access(path, X_OK) == 0);
    pl_status st =
        pl_zip_writer_begin(zip, name, map->n_bytes, pl_crc32(0, map->data, map->n_bytes), err);
    if (st == PL_OK) st = pl_zip_writer_append(zip, map->data, map->n_bytes, err);
    pl_file_map_unref(map);
    return st;
}

static pl_status zip_dir(pl_zip_writer *zip, const char *dir, const char *prefix, int depth,
                         pl_err *err) {
    pl_dir_list list = { 0 };
    PL_TRY(pl_dir_list_read(dir, &list, err));
    pl_status st = PL_OK;
    for (size_t i = 0; i < list.n_names && st == PL_OK; i++) {
        pl_buf path = PL_BUF_INIT, name = PL_BUF_INIT;
        pl_buf_printf(&path, "%s/%s", dir, list.names[i]);
        pl_buf_printf(&name, "%s/%s", prefix, list.names[i]);
        if (!pl_buf_ok(&path) || !pl_buf_ok(&name)) {
            st = pl_fail_memory(err, 1);
        } else if (pl_path_is_dir(pl_buf_str(&path)) && depth < 4) {
            st = zip_dir(zip, pl_buf_str(&path), pl_buf_str(&name), depth + 1, err);
        } else {
            st = zip_file(zip, pl_buf_str(&path), pl_buf_str(&name), err);
        }
        pl_buf_release(&path);
        pl_buf_release(&name);
    }
    pl_dir_list_free(&list);
    return st;
}

pl_status pl_repro_zip(const char *dir, const char *path, pl_err *err) {
    pl_zip_writer *zip = NULL;
    if (pl_path_exists(path)) return pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    PL_TRY(pl_zip_writer_open(path, &zip, err));
    const pl_status st = zip_dir(zip, dir, pl_path_basename(dir), 0, err);
    if (st == PL_OK) return pl_zip_writer_commit_take(zip, err);
    pl_zip_writer_abort_take(zip);
    return st;
}
