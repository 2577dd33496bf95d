/* Records on a backend behind the guard: values from its hook go to the recorder under the model's
 * names, and a note says which values it does not expose. */
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "flows/inputs_doubt.h"
#include "flows/record.h"
#include "graph/edit.h"
#include "ops/op.h"

static pl_status index_names(pl_record_job *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    r->names = pl_arena_new();
    if (r->names == NULL) return pl_fail_memory(err, 1);
    for (size_t i = 0; i < graph->n_values; i++)
        if (pl_strmap_put(&r->by_name, graph->values[i]->name, graph->values[i]) != 0)
            return pl_fail_memory(err, graph->n_values);
    return PL_OK;
}

pl_status pl_record_backend_prepare(pl_record_job *r, pl_err *err) {
    const plumb_record_options *o = r->options;
    pl_backend_options backend = pl_backend_options_for(o->backend, o->timeout, o->memory_limit);
    backend.progress = &r->progress;
    backend.sandbox = o->sandbox;
    const char *const file = pl_api_model_file(r->m);
    backend.readable = &file;
    backend.n_readable = 1;
    const pl_compile_options compile = { .file = pl_api_model_file(r->m),
                                         .seed = o->inputs->seed,
                                         .threads = o->threads,
                                         .record = true };
    if (o->fp64)
        return pl_fail(err, PL_E_USAGE, "option 'fp64' requires the eager backend (eager:fp64)");
    pl_ops_resolve_known(r->model, NULL); /* for generated inputs; unknown operators may be */
    PL_TRY(index_names(r, err));
    PL_TRY(pl_progress_step(&r->progress, "compile", 0, 0, err));
    PL_TRY(pl_backend_open(o->backend, &backend, &r->backend, err));
    return pl_program_new(r->backend, r->model, &compile, &r->program, err);
}

/* ---- what the hook sees ---- */

static pl_status put(pl_record_job *r, const char *name, const char *const *stands_for,
                     size_t n_stands_for, const pl_datum *d, pl_err *err) {
    const pl_value *value = pl_strmap_get(&r->by_name, name);
    const pl_node *node = value == NULL ? NULL : value->producer;
    pl_origin origin = { .module = "" };
    pl_arena_reset(r->scratch);
    if (node != NULL) PL_TRY(pl_node_origin(node, r->scratch, &origin, err));
    if (!pl_record_filter_fits(&r->filter, name, node, origin.module)) return PL_OK;
    const pl_record_info info = { .value = name,
                                  .node = node == NULL ? NULL : node->name,
                                  .op = node == NULL ? NULL : node->op,
                                  .module = origin.module,
                                  .flags = value != NULL && value->is_output ? PL_RECORD_OUTPUT : 0,
                                  .stands_for = stands_for,
                                  .n_stands_for = n_stands_for,
                                  .left_out = pl_dont_care_of(&r->left_out, value) };
    return pl_recorder_put_datum(r->recorder, &info, d, err);
}

/* True when the name is new. */
static bool mark(pl_record_job *r, const char *name, pl_status *st, pl_err *err) {
    if (pl_strmap_has(&r->seen, name)) return false;
    const char *copy = pl_arena_strdup(r->names, name);
    if (copy == NULL || pl_strmap_put(&r->seen, copy, r) != 0) *st = pl_fail_memory(err, 1);
    return true;
}

/* Records it under every unused model name that it corresponds to; if there is none, under the
 * backend's name. */
static plumb_status on_seen(void *ctx, const plumb_seen *seen, plumb_error *error) {
    pl_record_job *r = ctx;
    pl_err *err = error;
    const pl_datum *d = pl_datum_of(seen->datum);
    const bool maps = seen->stands_for != NULL;
    pl_status st = PL_OK;
    size_t n_put = 0;
    for (size_t i = 0; maps && i < seen->n_stands_for && st == PL_OK; i++) {
        if (!mark(r, seen->stands_for[i], &st, err)) continue;
        if (st == PL_OK) st = put(r, seen->stands_for[i], NULL, 0, d, err);
        n_put++;
    }
    if (maps) {
        r->n_unknown += seen->n_stands_for == 0;
    } else {
        (void)mark(r, seen->name, &st, err);
        r->n_unknown += !pl_strmap_has(&r->by_name, seen->name);
    }
    if (st == PL_OK && n_put == 0)
        st = put(r, seen->name, seen->stands_for, maps ? seen->n_stands_for : 0, d, err);
    if (st != PL_OK) return st;
    return pl_progress_step(&r->progress, "record", (int64_t)pl_recorder_count(r->recorder),
                            (int64_t)pl_program_hooks(r->program), err);
}

/* Outputs are known even if the backend exposes nothing. */
static pl_status put_outputs(pl_record_job *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_outputs; i++) {
        const char *name = graph->outputs[i]->name;
        if (r->out[i] == NULL || graph->outputs[i]->is_input || pl_strmap_has(&r->seen, name))
            continue;
        PL_TRY(put(r, name, NULL, 0, r->out[i], err));
    }
    return PL_OK;
}

/* ---- notes ---- */

static void say(pl_record_job *r, const char *const *modes, size_t mode) {
    const plumb_record_info *info = &r->info;
    const char *spec = pl_backend_spec(r->backend);
    pl_buf *out = &r->notes;
    if (modes[0] == NULL) {
        pl_buf_printf(out, "%s exposes no intermediate values; recorded only its outputs\n", spec);
        return;
    }
    if (info->differs) {
        pl_buf_printf(out,
                      "observer effect: every way to record changed the outputs of %s; recorded "
                      "only its outputs\n",
                      spec);
    } else if (mode > 0) {
        pl_buf_printf(out,
                      "observer effect: recording in mode '%s' changed the outputs; used mode "
                      "'%s', which does not\n",
                      modes[0], modes[mode]);
    }
    if (!info->differs && info->n_seen == 0)
        pl_buf_printf(out, "%s returned no intermediate values; recorded only its outputs\n", spec);
    if (info->n_hidden > 0)
        pl_buf_printf(out, "not recorded: %zu value%s in the bodies of If, Loop or Scan\n",
                      info->n_hidden, pl_plural(info->n_hidden));
    if (info->n_disturbed > 0)
        pl_buf_printf(out, "not recorded: %zu value%s, because recording changes the outputs\n",
                      info->n_disturbed, pl_plural(info->n_disturbed));
    if (r->n_unknown > 0)
        pl_buf_printf(
            out, "recorded under the backend's own name: %zu value%s without a name in the model\n",
            r->n_unknown, pl_plural(r->n_unknown));
}

pl_status pl_record_backend_run(pl_record_job *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    const char *const *modes = pl_backend_record_modes(r->backend);
    const plumb_hook hook = { .value = on_seen, .ctx = r };
    const pl_record_args args = { .hook = &hook,
                                  .plain = r->out,
                                  .memory_limit = r->options->memory_limit };
    size_t mode = 0;
    PL_TRY(pl_progress_step(&r->progress, "run", 0, 0, err));
    const pl_status ran = pl_program_run(r->program, r->in, r->out, err);
    PL_TRY(pl_inputs_doubted(ran, r->model, r->options->inputs, r->in, r->backend, NULL, err));
    if (modes[0] != NULL) {
        pl_datum **out = pl_calloc(graph->n_outputs + 1, sizeof(pl_datum *));
        if (out == NULL) return pl_fail_memory(err, graph->n_outputs);
        const pl_status st =
            pl_program_record_gently(r->program, r->in, &args, out, &mode, &r->info, err);
        for (size_t i = 0; i < graph->n_outputs; i++)
            pl_datum_unref(out[i]);
        pl_free(out);
        PL_TRY(st);
        r->mode = r->info.differs ? "" : modes[mode];
        r->observer_effect = mode > 0 || r->info.differs;
    }
    say(r, modes, mode);
    return put_outputs(r, err);
}
