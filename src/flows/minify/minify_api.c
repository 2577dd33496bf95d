/* plumb_minify: options in, repro and summary out. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "flows/minify/minify_int.h"
#include "flows/minify/repro.h"
#include "graph/edit.h"
#include "ops/infer.h"
#include "passes/backward.h"

static void release(pl_mini *m) {
    pl_oracle_free(m->oracle);
    pl_mini_state_free(m->best);
    pl_pool_free(m->pool);
    pl_arena_free(m->arena);
    if (m->work != NULL) pl_dir_remove(m->work, NULL);
    pl_free(m->work);
    pl_free(m->checkpoints);
}

static pl_status prepare(pl_mini *m, const plumb_model *model, pl_mini_state **out, pl_err *err) {
    pl_model *copy = NULL;
    pl_err ignored = PL_ERR_INIT;
    PL_TRY(pl_model_copy(model->model, &copy, err));
    pl_datum **in = pl_calloc(copy->graph->n_inputs + 1, sizeof(pl_datum *));
    if (in == NULL) {
        pl_model_free(copy);
        return pl_fail_memory(err, 1);
    }
    PL_TRY(pl_mini_state_new_take(copy, in, out, err));
    const char *file = pl_api_model_file(model);
    if (file != NULL && !pl_path_has_suffix(file, ".onnxtxt")) (*out)->file = file;
    if (!m->with_data) { /* a user's check may know operators that plumb does not */
        if (pl_ops_resolve(copy, &ignored) == PL_OK) pl_model_infer(copy, NULL, &ignored);
        return PL_OK;
    }
    PL_TRY(pl_lower_gradient(copy, err));
    PL_TRY(pl_ops_resolve(copy, err));
    PL_TRY(pl_model_infer(copy, NULL, err));
    return pl_inputs_make(copy, &m->options->inputs, in, err);
}

static pl_status start(pl_mini *m, const plumb_minify_options *o, pl_err *err) {
    *m = (pl_mini){ .options = o, .started = pl_api_seconds() };
    m->arena = pl_arena_new();
    m->pool = pl_pool_new(o->threads);
    if (m->arena == NULL || m->pool == NULL) return pl_fail_memory(err, 1);
    m->with_data = o->check == NULL || strstr(o->check, "{dir}") != NULL;
    PL_TRY(pl_dir_temporary(&m->work, err));
    return o->check != NULL ? pl_oracle_check_new(m, &m->oracle, err)
                            : pl_oracle_backend_new(m, &m->oracle, err);
}

static void put_others(pl_json *json, const pl_oracle *o) {
    pl_json_key(json, "others");
    pl_json_array_begin(json);
    for (size_t i = 0; i < o->n_others; i++) {
        pl_json_object_begin(json);
        pl_json_key(json, "signature");
        pl_signature_put_json(json, &o->others[i].signature);
        pl_json_put_int(json, "seen", (int64_t)o->others[i].n_seen);
        pl_json_object_end(json);
    }
    pl_json_array_end(json);
}

static void describe(const pl_mini *m, pl_buf *out) {
    pl_json json;
    pl_measure now;
    const double seconds = pl_api_seconds() - m->started;
    const pl_oracle *o = m->oracle;
    pl_mini_state_measure(m->best, &now);
    pl_json_init(&json, out, true);
    pl_json_object_begin(&json);
    pl_json_key(&json, "signature");
    pl_signature_put_json(&json, &o->target);
    pl_json_put_int(&json, "queries", (int64_t)o->n_queries);
    pl_json_put_double(&json, "seconds", seconds);
    pl_json_put_int(&json, "nodes_before", (int64_t)m->n_nodes_before);
    pl_json_put_int(&json, "nodes_after", (int64_t)now.n_nodes);
    pl_json_put_bool(&json, "one_minimal", m->one_minimal);
    pl_json_key(&json, "repro");
    pl_json_null(&json);
    pl_json_put_bool(&json, "verified", false);
    pl_json_put_int(&json, "runs", (int64_t)o->n_runs);
    pl_json_put_double(&json, "oracle_seconds", o->oracle_seconds);
    pl_json_put_double(&json, "overhead_seconds", m->cpu_seconds - o->oracle_cpu_seconds);
    pl_json_put_int(&json, "elements_after", now.n_elements);
    put_others(&json, o);
    pl_json_object_end(&json);
    pl_buf_putc(out, '\n');
}

plumb_status plumb_minify(plumb_model *model, const plumb_minify_options *options, char **text,
                          plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    pl_mini m;
    pl_mini_state *state = NULL;
    pl_buf out = PL_BUF_INIT;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, start(&m, options, &err));
    PL_TRY_GOTO(done, st, prepare(&m, model, &state, &err));
    const pl_status ran = pl_mini_run(&m, state, &err);
    state = NULL;
    PL_TRY_GOTO(done, st, ran);
    describe(&m, &out);
    st = pl_api_text_take(&out, text, &err);
done:
    pl_mini_state_free(state);
    pl_buf_release(&out);
    release(&m);
    return pl_api_return(st, &err, error);
}
