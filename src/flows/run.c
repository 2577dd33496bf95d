/* The run flow: prepare, run, write outputs, describe. */
#include <stdlib.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "flows/api.h"
#include "flows/inputs.h"
#include "flows/outputs.h"
#include "interp/interp.h"
#include "ops/op.h"
#include "passes/backward.h"

typedef struct run {
    pl_model *model;
    const plumb_run_options *options;
    double load_seconds;
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
    return options->backend == NULL || strcmp(options->backend, "eager") == 0;
}

static pl_status open_backend(run *r, const plumb_model *m, pl_err *err) {
    const plumb_run_options *o = r->options;
    const pl_backend_options guarded = { .guarded = true,
                                         .timeout_seconds = o->timeout,
                                         .memory_limit = o->memory_limit };
    const pl_compile_options compile = { .file = pl_api_model_file(m),
                                         .seed = o->inputs.seed,
                                         .threads = o->threads };
    if (o->fp64 || o->profile) {
        return pl_fail(err, PL_E_USAGE, "--fp64 and --profile-nodes are of the eager backend");
    }
    pl_ops_resolve(r->model,
                   NULL); /* generated inputs follow what ops expect; unknown ones may be */
    PL_TRY(pl_backend_open(o->backend, &guarded, &r->backend, err));
    return pl_program_new(r->backend, r->model, &compile, &r->program, err);
}

static pl_status run_init(run *r, plumb_model *m, const plumb_run_options *options, pl_err *err) {
    pl_graph *graph = m->model->graph;
    const size_t n_nodes = graph->n_nodes;
    *r = (run){ .model = m->model };
    PL_TRY(pl_lower_gradient(m->model, err));
    if (graph->n_nodes != n_nodes) m->edited = true;
    *r = (run){ .model = m->model,
                .options = options,
                .load_seconds = m->load_seconds,
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
                                       .seed = options->inputs.seed,
                                       .node_ns = options->profile != 0 ? r->node_ns : NULL };
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
        PL_TRY(r->program != NULL ? pl_program_run(r->program, r->in, r->out, err)
                                  : pl_interp_run(r->interp, r->in, r->out, err));
        r->seconds[k] = pl_api_seconds() - start;
        if (r->options->progress != NULL && r->options->progress->update != NULL) {
            r->options->progress->update(r->options->progress->ctx, "run", (int64_t)k + 1,
                                         (int64_t)r->n_runs);
        }
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

/* ---- describing ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct timing {
    double first, best, median;
} timing;

static timing time_of(run *r) {
    timing t = { .first = r->seconds[0] };
    qsort(r->seconds, r->n_runs, sizeof(double), compare_doubles);
    t.best = r->seconds[0];
    t.median = r->seconds[r->n_runs / 2];
    return t;
}

static void put_json(run *r, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "status", "ok");
    pl_json_key(&j, "outputs");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < r->n_out; i++)
        pl_output_put_json(&j, r->model->graph->outputs[i]->name, NULL, r->out[i], r->files[i]);
    pl_json_array_end(&j);
    const timing t = time_of(r);
    pl_json_key(&j, "timing");
    pl_json_object_begin(&j);
    pl_json_put_double(&j, "load_ms", 1e3 * r->load_seconds);
    pl_json_put_double(&j, "first_ms", 1e3 * t.first);
    pl_json_put_double(&j, "best_ms", 1e3 * t.best);
    pl_json_put_double(&j, "median_ms", 1e3 * t.median);
    pl_json_put_int(&j, "runs", (int64_t)r->n_runs);
    pl_json_object_end(&j);
    if (r->options->profile) {
        pl_json_key(&j, "nodes");
        pl_json_array_begin(&j);
        for (size_t i = 0; i < r->model->graph->n_nodes; i++) {
            const pl_node *node = r->model->graph->nodes[i];
            pl_json_object_begin(&j);
            pl_json_put_string(&j, "value",
                               node->n_out > 0 && node->out[0] != NULL ? node->out[0]->name : NULL);
            pl_json_put_string(&j, "op", node->op);
            pl_json_put_double(&j, "us", 1e-3 * (double)r->node_ns[i]);
            pl_json_object_end(&j);
        }
        pl_json_array_end(&j);
    }
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}

typedef struct op_time {
    const char *op;
    double us;
    int64_t n;
} op_time;

static int slower_first(const void *a, const void *b) {
    const double x = ((const op_time *)a)->us, y = ((const op_time *)b)->us;
    return (x < y) - (x > y);
}

/* Time by operator type, of the last run. */
static void put_profile(const run *r, pl_buf *out) {
    const pl_graph *graph = r->model->graph;
    op_time *times = pl_calloc(graph->n_nodes + 1, sizeof(*times));
    pl_strmap index = PL_STRMAP_INIT;
    size_t n = 0;
    double total = 0;
    if (times == NULL) out->failed = true;
    for (size_t i = 0; times != NULL && i < graph->n_nodes; i++) {
        op_time *t = pl_strmap_get(&index, graph->nodes[i]->op);
        if (t == NULL) {
            t = &times[n++];
            t->op = graph->nodes[i]->op;
            if (pl_strmap_put(&index, t->op, t) != 0) {
                out->failed = true;
                break;
            }
        }
        t->us += 1e-3 * (double)r->node_ns[i];
        t->n++;
        total += 1e-3 * (double)r->node_ns[i];
    }
    if (times != NULL) qsort(times, n, sizeof(*times), slower_first);
    pl_buf_printf(out, "\n%-28s %6s %12s %6s\n", "op", "nodes", "us", "share");
    for (size_t i = 0; i < n; i++) {
        pl_buf_printf(out, "%-28s %6lld %12.1f %5.1f%%\n", times[i].op, (long long)times[i].n,
                      times[i].us, total > 0 ? 100 * times[i].us / total : 0);
    }
    pl_strmap_release(&index);
    pl_free(times);
}

static void put_text(run *r, pl_buf *out) {
    for (size_t i = 0; i < r->n_out; i++) {
        pl_output_put_text(out, r->model->graph->outputs[i]->name, r->out[i], r->files[i]);
    }
    const timing t = time_of(r);
    pl_buf_printf(out, "load %.1f ms, run %.2f ms", 1e3 * r->load_seconds, 1e3 * t.first);
    if (r->n_runs > 1) {
        pl_buf_printf(out, ", best of %zu %.2f ms, median %.2f ms", r->n_runs, 1e3 * t.best,
                      1e3 * t.median);
    }
    pl_buf_putc(out, '\n');
    if (r->options->profile) put_profile(r, out);
}

plumb_status plumb_run(plumb_model *m, const plumb_run_options *options, char **text,
                       plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    run r;
    pl_buf out = PL_BUF_INIT;
    pl_status st = PL_OK;
    PL_TRY_GOTO(done, st, run_init(&r, m, options, &err));
    PL_TRY_GOTO(done, st, pl_inputs_make(m->model, &options->inputs, r.in, &err));
    PL_TRY_GOTO(done, st, run_all(&r, &err));
    PL_TRY_GOTO(done, st, write_outputs(&r, &err));
    if (options->format == PLUMB_JSON) {
        put_json(&r, &out);
    } else {
        put_text(&r, &out);
    }
    st = pl_api_text_take(&out, text, &err);
done:
    pl_buf_release(&out);
    run_release(&r);
    return pl_api_return(st, &err, error);
}

plumb_status plumb_run_tensors(plumb_model *m, const plumb_run_options *options,
                               const plumb_tensor *const *in, plumb_tensor **out,
                               plumb_error *error) {
    pl_err err = PL_ERR_INIT;
    run r;
    pl_status st = PL_OK;
    for (size_t i = 0; i < m->model->graph->n_outputs; i++)
        out[i] = NULL;
    PL_TRY_GOTO(done, st, run_init(&r, m, options, &err));
    for (size_t i = 0; i < r.n_in; i++) {
        if (in[i] == NULL) continue;
        PL_TRY_GOTO(done, st,
                    pl_datum_of_tensor_take(pl_tensor_ref(pl_api_tensor(in[i])), &r.in[i], &err));
    }
    PL_TRY_GOTO(done, st, run_all(&r, &err));
    for (size_t i = 0; i < r.n_out; i++) {
        if (r.out[i]->kind == PL_TYPE_TENSOR) continue;
        st = pl_fail(&err, PL_E_UNSUPPORTED, "output '%s' is not a tensor",
                     m->model->graph->outputs[i]->name);
        goto done;
    }
    for (size_t i = 0; i < r.n_out; i++) {
        out[i] = (plumb_tensor *)pl_tensor_ref(r.out[i]->tensor);
    }
done:
    run_release(&r);
    return pl_api_return(st, &err, error);
}
