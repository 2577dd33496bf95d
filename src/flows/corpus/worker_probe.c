/* One query: does a repro fail on a backend as on its own? Which version is it? */
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/corpus/repro_values.h"
#include "flows/corpus/worker.h"

static const char *ask(const pl_work *work, const char *folder, pl_err *err) {
    plumb_model *model = NULL;
    plumb_repro *answer = NULL;
    plumb_minify_options options;
    plumb_inputs inputs;
    plumb_repro_summary summary = { .size = sizeof summary };
    char *path = pl_path_join(folder, "model.onnx"), *set = pl_path_join(folder, "test_data_set_0"),
         *json = pl_path_join(folder, "repro.json");
    const char *const sets[] = { set };
    const char *word = "error";
    plumb_inputs_init(&inputs);
    inputs.sets = sets;
    inputs.n_sets = 1;
    plumb_minify_options_init(&options);
    options.inputs = &inputs;
    options.backend = pl_work_text(work, "backend");
    options.timeout = work->limits.timeout;
    options.memory_limit = work->limits.memory;
    options.threads = 1;
    options.jobs = 1;
    options.signature = json;
    options.sandbox = work->limits.sandbox;
    if (path == NULL || set == NULL || json == NULL) {
        (void)pl_fail_memory(err, 1);
    } else if (plumb_model_open(path, &model, err) == PL_OK &&
               plumb_minify_query(model, &options, &answer, err) == PL_OK &&
               plumb_repro_get(answer, &summary)) {
        word = summary.fails ? "fails" : summary.signature[0] != '\0' ? "other" : "passes";
        if (summary.signature[0] != '\0' &&
            pl_repro_differs(work, folder, model, &inputs, summary.signature))
            word = "differs";
    }
    plumb_repro_free(answer);
    plumb_model_close(model);
    pl_free(path);
    pl_free(set);
    pl_free(json);
    return word;
}

pl_status pl_worker_probe(const pl_work *work, pl_buf *answer, pl_err *err) {
    pl_err why = PL_ERR_INIT;
    pl_json j;
    (void)err;
    const char *word = ask(work, pl_work_text(work, "repro"), &why);
    pl_json_init(&j, answer, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", word);
    pl_json_put_string(&j, "reason", strcmp(word, "error") == 0 ? why.message : "");
    pl_json_object_end(&j);
    return PL_OK;
}

pl_status pl_worker_version(const pl_work *work, pl_buf *answer, pl_err *err) {
    const char *spec = pl_work_text(work, "backend");
    const pl_backend_options options =
        pl_backend_options_for(spec, work->limits.timeout, work->limits.memory);
    pl_backend *backend = NULL;
    pl_err why = PL_ERR_INIT;
    pl_json j;
    (void)err;
    const bool known = pl_backend_open(spec, &options, &backend, &why) == PL_OK;
    pl_json_init(&j, answer, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", known ? "known" : "error");
    pl_json_put_string(&j, "version", known ? pl_backend_version(backend) : "");
    pl_json_put_string(&j, "reason", known ? "" : why.message);
    pl_json_object_end(&j);
    pl_backend_close(backend);
    return PL_OK;
}
