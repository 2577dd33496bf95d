#include "flows/run.h"

#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/escape.h"
#include "flows/inputs.h"
#include "flows/inputs_doubt.h"
#include "flows/outputs.h"
#include "flows/prepare.h"
#include "interp/interp.h"
#include "ops/op.h"

typedef struct run {
    pl_model *model;
    const plumb_run_options *options;
    pl_pool *pool;
    pl_interp *interp;   /* eager, in this process */
    pl_backend *backend; /* any other, guarded */
    pl_program *program;
    pl_datum **in, **out;
    size_t n_in, n_out;
    char **files;
    double *seconds; /* per repetition */
    uint64_t *node_ns;
    size_t n_runs;
} run;

static bool is_eager(const plumb_run_options *options) {
    return pl_backend_is_interpreter(options->backend);
}

static pl_status open_backend(run *r, const plumb_model *m, pl_err *err) {
    const plumb_run_options *o = r->options;
    pl_backend_options backend = pl_backend_options_for(o->backend, o->timeout, o->memory_limit);
    backend.progress = o->progress;
    backend.sandbox = o->sandbox;
    const char *const file = pl_api_model_file(m);
    backend.readable = &file;
    backend.n_readable = 1;
    const pl_compile_options compile = { .file = pl_api_model_file(m),
                                         .seed = o->inputs->seed,
                                         .threads = o->threads };
    if (o->fp64 || o->profile) {
        return pl_fail(err, PL_E_USAGE, "fp64 and the time of each node require the eager backend");
    }
    pl_ops_resolve_known(r->model,
                         NULL); /* generated inputs follow what ops expect; unknown ones may be */
    PL_TRY(pl_backend_open(o->backend, &backend, &r->backend, err));
    return pl_program_new(r->backend, r->model, &compile, &r->program, err);
}

static pl_status run_init(run *r, plumb_model *m, const plumb_run_options *options, pl_err *err) {
    pl_graph *graph = m->model->graph;
    *r = (run){ .model = m->model };
    PL_TRY(pl_make_ready(m->model, PL_READY_LOWERED, &m->edited, err));
    *r = (run){ .model = m->model,
                .options = options,
                .n_in = graph->n_inputs,
                .n_out = graph->n_outputs,
                .n_runs = options->repeat > 1 ? (size_t)options->repeat : 1 };
    r->pool = pl_pool_new(options->threads);
    r->in = pl_calloc(r->n_in + 1, sizeof(pl_datum *));
    r->out = pl_calloc(r->n_out + 1, sizeof(pl_datum *));
    r->files = pl_calloc(r->n_out + 1, sizeof(char *));
    r->seconds = pl_calloc(r->n_runs, sizeof(double));
    r->node_ns = pl_calloc(graph->n_nodes + 1, sizeof(uint64_t));
    if (r->pool == NULL || r->in == NULL || r->out == NULL || r->files == NULL ||
        r->seconds == NULL || r->node_ns == NULL) {
        return pl_fail_memory(err, r->n_in);
    }
    if (!is_eager(options)) return open_backend(r, m, err);
    const pl_interp_options interp = { .pool = r->pool,
                                       .fp64 = options->fp64 != 0,
                                       .seed = options->inputs->seed,
                                       .node_ns = options->profile != 0 ? r->node_ns : NULL,
                                       .progress = options->progress };
    return pl_interp_new(r->model, &interp, &r->interp, err);
}

static void drop(pl_datum **data, size_t n) {
    for (size_t i = 0; data != NULL && i < n; i++) {
        pl_datum_unref(data[i]);
        data[i] = NULL;
    }
}

static void run_release(run *r) {
    drop(r->in, r->n_in);
    drop(r->out, r->n_out);
    for (size_t i = 0; r->files != NULL && i < r->n_out; i++)
        pl_free(r->files[i]);
    pl_free(r->in);
    pl_free(r->out);
    pl_free(r->files);
    pl_free(r->seconds);
    pl_free(r->node_ns);
    pl_interp_free(r->interp);
    pl_program_free(r->program);
    pl_backend_close(r->backend);
    pl_pool_free(r->pool);
}

static pl_status run_all(run *r, pl_err *err) {
    for (size_t k = 0; k < r->n_runs; k++) {
        drop(r->out, r->n_out);
        const double start = pl_api_seconds();
        const pl_status st = r->program != NULL ? pl_program_run(r->program, r->in, r->out, err)
                                                : pl_interp_run(r->interp, r->in, r->out, err);
        PL_TRY(
            pl_inputs_doubted(st, r->model, r->options->inputs, r->in, r->backend, r->pool, err));
        r->seconds[k] = pl_api_seconds() - start;
        PL_TRY(
            pl_progress_step(r->options->progress, "run", (int64_t)k + 1, (int64_t)r->n_runs, err));
    }
    return PL_OK;
}

static pl_status write_outputs(run *r, pl_err *err) {
    if (r->options->output == NULL) return PL_OK;
    pl_named_datum *items = pl_calloc(r->n_out + 1, sizeof(*items));
    if (items == NULL) return pl_fail_memory(err, r->n_out);
    pl_status st = PL_OK;
    for (size_t i = 0; i < r->n_out && st == PL_OK; i++) {
        items[i].name = pl_strdup(r->model->graph->outputs[i]->name);
        items[i].datum = r->out[i];
        if (items[i].name == NULL) st = pl_fail_memory(err, 1);
    }
    if (st == PL_OK) {
        st = pl_outputs_write(r->options->output, r->options->save_as, items, r->n_out, r->files,
                              err);
    }
    for (size_t i = 0; i < r->n_out; i++)
        pl_free(items[i].name);
    pl_free(items);
    return st;
}

/* ---- the result ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static const char *keep(pl_run_result *to, const char *text) {
    return text == NULL ? NULL : pl_arena_strdup(to->arena, text);
}

static pl_status keep_nodes(const run *r, pl_run_result *to, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    to->n_nodes = graph->n_nodes;
    to->nodes = pl_arena_array(to->arena, to->n_nodes + 1, sizeof(*to->nodes));
    if (to->nodes == NULL) return pl_fail_memory(err, to->n_nodes);
    for (size_t i = 0; i < to->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        const bool named = node->n_out > 0 && node->out[0] != NULL;
        to->nodes[i] = (pl_run_node){ .value = keep(to, named ? node->out[0]->name : NULL),
                                      .op = keep(to, node->op),
                                      .seconds = 1e-9 * (double)r->node_ns[i] };
        if (to->nodes[i].op == NULL || (named && to->nodes[i].value == NULL))
            return pl_fail_memory(err, 1);
    }
    return PL_OK;
}

static pl_status keep_places(const run *r, pl_run_result *to, pl_err *err) {
    const char *text = "";
    to->device = r->backend == NULL ? "" : keep(to, pl_backend_device(r->backend));
    if (to->device == NULL) return pl_fail_memory(err, 1);
    if (r->program == NULL) return PL_OK;
    /* Optional: a backend may not know. */
    if (pl_program_placement(r->program, &text, NULL) != PL_OK) return PL_OK;
    return pl_placement_parse(text, to->arena, &to->placement, err);
}

static pl_status keep_warnings(const run *r, pl_run_result *to, pl_err *err) {
    pl_buf all = PL_BUF_INIT, one = PL_BUF_INIT;
    for (size_t i = 0; pl_op_warning(r->model, i, &one); i++) {
        const size_t at = all.n_bytes;
        pl_buf_puts(&all, pl_buf_str(&one));
        pl_escape_end_line(&all, at);
        pl_buf_release(&one);
    }
    pl_buf_release(&one);
    to->warnings = pl_buf_ok(&all) ? keep(to, pl_buf_str(&all)) : NULL;
    pl_buf_release(&all);
    return to->warnings == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

/* Takes the outputs and the names of their files. */
static pl_status keep_result(run *r, double load_seconds, pl_run_result *to, pl_err *err) {
    const pl_run_times times = pl_program_times(r->program);
    to->submit = 1e-9 * (double)times.submit_ns;
    to->wait = 1e-9 * (double)times.wait_ns;
    to->first = r->seconds[0];
    qsort(r->seconds, r->n_runs, sizeof(double), compare_doubles);
    to->load = load_seconds;
    to->best = r->seconds[0];
    to->median = r->seconds[r->n_runs / 2];
    to->n_runs = r->n_runs;
    to->names = pl_arena_array(to->arena, r->n_out + 1, sizeof(char *));
    if (to->names == NULL) return pl_fail_memory(err, r->n_out);
    for (size_t i = 0; i < r->n_out; i++) {
        to->names[i] = keep(to, r->model->graph->outputs[i]->name);
        if (to->names[i] == NULL) return pl_fail_memory(err, 1);
    }
    if (r->options->profile) PL_TRY(keep_nodes(r, to, err));
    PL_TRY(keep_warnings(r, to, err));
    PL_TRY(keep_places(r, to, err));
    to->n_out = r->n_out;
    to->out = r->out;
    to->files = r->files;
    r->out = NULL;
    r->files = NULL;
    return PL_OK;
}

void pl_run_result_free(pl_run_result *result) {
    if (result == NULL) return;
    drop(result->out, result->n_out);
    for (size_t i = 0; i < result->n_out; i++)
        pl_free(result->files[i]);
    pl_free(result->out);
    pl_free(result->files);
    pl_arena_free(result->arena);
    pl_free(result);
}

pl_status pl_run(plumb_model *m, const plumb_run_options *options, pl_run_result **out,
                 pl_err *err) {
    run r = { .model = m->model };
    pl_status st = PL_OK;
    pl_run_result *result = pl_calloc(1, sizeof(*result));
    if (result != NULL) result->arena = pl_arena_new();
    if (result == NULL || result->arena == NULL) st = pl_fail_memory(err, sizeof(*result));
    if (st == PL_OK) st = run_init(&r, m, options, err);
    if (st == PL_OK) st = pl_inputs_make(m->model, options->inputs, r.in, err);
    if (st == PL_OK) st = run_all(&r, err);
    if (st == PL_OK) st = write_outputs(&r, err);
    if (st == PL_OK) st = keep_result(&r, m->load_seconds, result, err);
    run_release(&r);
    if (st == PL_OK) {
        *out = result;
    } else {
        pl_run_result_free(result);
    }
    return st;
}
