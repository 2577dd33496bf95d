/* The record flow: run on the reference interpreter (record_backend.c: on any backend), write every
 * value as it appears. */
#include "flows/record.h"

#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "flows/inputs.h"
#include "flows/inputs_recorded.h"
#include "flows/prepare.h"
#include "flows/provenance.h"
#include "graph/edit.h"
#include "kernels/cpu.h"
#include "kernels/provider.h"
#include "store/graph_json.h"

enum { TUPLE_BYTES = 700 }; /* estimated bytes per value in the header; nearly all need less */

/* ---- choosing ---- */

pl_status pl_record_filter_init(pl_record_filter *f, const char *const *names, size_t n_names,
                                pl_err *err) {
    *f = (pl_record_filter){ .names = pl_calloc(n_names + 1, sizeof(regex_t)) };
    if (f->names == NULL) return pl_fail_memory(err, n_names);
    for (size_t i = 0; i < n_names; i++) {
        const int code = regcomp(&f->names[i], names[i], REG_EXTENDED | REG_NOSUB);
        if (code != 0) {
            char text[200];
            regerror(code, &f->names[i], text, sizeof(text));
            return pl_fail(err, PL_E_USAGE, "'%s' is not a regular expression: %s", names[i], text);
        }
        f->n_names++;
    }
    return PL_OK;
}

void pl_record_filter_release(pl_record_filter *f) {
    for (size_t i = 0; i < f->n_names; i++)
        regfree(&f->names[i]);
    pl_free(f->names);
    *f = (pl_record_filter){ .names = NULL };
}

static bool fits_name(const pl_record_filter *f, const char *value) {
    for (size_t i = 0; i < f->n_names; i++)
        if (regexec(&f->names[i], value, 0, NULL, 0) == 0) return true;
    return f->n_names == 0;
}

static bool fits_op(const pl_record_filter *f, const pl_node *node) {
    for (size_t i = 0; node != NULL && i < f->n_ops; i++)
        if (strcmp(f->ops[i], node->op) == 0) return true;
    return f->n_ops == 0;
}

/* "a.b" matches itself and "a.b.c", not "a.bc". */
static bool fits_module(const pl_record_filter *f, const char *module) {
    for (size_t i = 0; i < f->n_modules; i++) {
        const size_t n = strlen(f->modules[i]);
        if (strncmp(module, f->modules[i], n) == 0 && strchr("./", module[n]) != NULL) return true;
    }
    return f->n_modules == 0;
}

bool pl_record_filter_fits(const pl_record_filter *f, const char *value, const pl_node *node,
                           const char *module) {
    return fits_name(f, value) && fits_op(f, node) && fits_module(f, module);
}

const char *pl_record_graph_path(const pl_graph *graph, pl_arena *arena) {
    if (graph->owner == NULL) return "";
    const pl_node *owner = graph->owner;
    const char *outer = pl_record_graph_path(owner->graph, arena);
    const char *name = "body", *value = owner->op;
    for (uint32_t i = 0; i < owner->n_attrs; i++)
        if (owner->attrs[i].type == PL_ATTR_GRAPH && owner->attrs[i].graph == graph)
            name = owner->attrs[i].name;
    for (uint32_t i = owner->n_out; i-- > 0;)
        if (owner->out[i] != NULL) value = owner->out[i]->name;
    if (outer == NULL) return NULL;
    return pl_arena_printf(arena, "%s%s%s/%s", outer, *outer == '\0' ? "" : "/", value, name);
}

/* ---- running ---- */

static pl_status on_value(void *ctx, const pl_node *node, const pl_value *value,
                          const pl_datum *datum, pl_err *err) {
    pl_record_job *r = ctx;
    pl_origin origin;
    pl_arena_reset(r->scratch);
    PL_TRY(pl_node_origin(node, r->scratch, &origin, err));
    const int64_t call = r->calls[value->id]++;
    if (!pl_record_filter_fits(&r->filter, value->name, node, origin.module)) return PL_OK;
    const char *path = pl_record_graph_path(value->graph, r->scratch);
    if (path == NULL) return pl_fail_memory(err, 1);
    const pl_record_info info = { .value = value->name,
                                  .node = node->name,
                                  .op = node->op,
                                  .module = origin.module,
                                  .graph = path,
                                  .call = call,
                                  .flags = value->is_output && value->graph->parent == NULL
                                               ? PL_RECORD_OUTPUT
                                               : 0,
                                  .left_out = pl_dont_care_of(&r->left_out, value) };
    return pl_recorder_put_datum(r->recorder, &info, datum, err);
}

static pl_status record_inputs(pl_record_job *r, pl_err *err) {
    const pl_graph *graph = r->model->graph;
    for (size_t i = 0; i < graph->n_inputs; i++) {
        const pl_value *v = graph->inputs[i];
        if (r->in[i] == NULL || !pl_record_filter_fits(&r->filter, v->name, NULL, "")) continue;
        const unsigned flags = PL_RECORD_INPUT | (v->is_output ? PL_RECORD_OUTPUT : 0);
        const pl_record_info info = { .value = v->name, .flags = flags };
        PL_TRY(pl_recorder_put_datum(r->recorder, &info, r->in[i], err));
    }
    return PL_OK;
}

static void put_list(pl_json *j, const char *key, const char *const *texts, size_t n) {
    if (n == 0) return;
    pl_json_key(j, key);
    pl_json_array_begin(j);
    for (size_t i = 0; i < n; i++)
        pl_json_string(j, texts[i]);
    pl_json_array_end(j);
}

static pl_status set_provenance(pl_record_job *r, pl_err *err) {
    const plumb_record_options *o = r->options;
    pl_hash128 hash;
    char hex[PL_HASH128_HEX];
    pl_buf buf = PL_BUF_INIT;
    pl_json j;
    char version[64];
    const pl_provider *kernels = NULL;
    PL_TRY(pl_model_hash(r->model, &hash, err));
    PL_TRY(pl_provider_of(NULL, &kernels, err));
    pl_provider_version(kernels, version, sizeof(version));
    pl_hash128_hex(hash, hex);
    pl_json_init(&j, &buf, false);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "model", r->model->path);
    pl_json_put_string(&j, "model_hash", hex);
    pl_json_put_string(&j, "backend", r->backend != NULL ? pl_backend_name(r->backend) : "eager");
    pl_json_put_string(&j, "backend_version",
                       r->backend != NULL ? pl_backend_version(r->backend) : version);
    pl_json_key(&j, "options");
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "spec", r->backend != NULL ? pl_backend_spec(r->backend) : "eager");
    if (r->mode != NULL) pl_json_put_string(&j, "mode", r->mode);
    pl_json_put_bool(&j, "observer_effect", r->observer_effect);
    pl_json_put_bool(&j, "fp64", o->fp64 != 0);
    pl_json_put_bool(&j, "stats_only", o->stats_only != 0);
    put_list(&j, "names", o->names, o->n_names);
    put_list(&j, "ops", o->ops, o->n_ops);
    put_list(&j, "modules", o->modules, o->n_modules);
    put_list(&j, "inputs", o->inputs->files, o->inputs->n_files);
    put_list(&j, "input_sets", o->inputs->sets, o->inputs->n_sets);
    put_list(&j, "dims", o->inputs->dims, o->inputs->n_dims);
    put_list(&j, "ranges", o->inputs->ranges, o->inputs->n_ranges);
    pl_json_object_end(&j);
    pl_json_put_int(&j, "seed", (int64_t)o->inputs->seed);
    pl_json_put_int(&j, "threads", pl_pool_threads(r->pool));
    pl_provenance_put_machine(&j,
                              r->backend != NULL ? pl_backend_cpu(r->backend) : pl_cpu_features());
    pl_json_object_end(&j);
    const pl_status st = pl_buf_ok(&buf)
                             ? pl_recorder_set_provenance(r->recorder, pl_buf_str(&buf), err)
                             : pl_fail_memory(err, buf.n_bytes);
    pl_buf_release(&buf);
    return st;
}

static pl_status open_recorder(pl_record_job *r, pl_err *err) {
    const plumb_record_options *o = r->options;
    pl_buf graph = PL_BUF_INIT;
    pl_status st = pl_graph_json(r->model, &graph, err);
    if (st == PL_OK) {
        /* Escaping makes the text longer: up to every second character may be a quote. */
        const size_t reserve =
            2 * graph.n_bytes + (size_t)r->model->n_values * TUPLE_BYTES + (64u << 10);
        const pl_recorder_options options = { .stats_only = o->stats_only != 0,
                                              .reserve_bytes = reserve };
        st = pl_recorder_open(o->output, &options, &r->recorder, err);
    }
    if (st == PL_OK) st = pl_recorder_set_graph(r->recorder, pl_buf_str(&graph), err);
    pl_buf_release(&graph);
    return st;
}

static pl_status prepare_eager(pl_record_job *r, pl_err *err) {
    r->calls = pl_calloc((size_t)r->model->n_values + 1, sizeof(*r->calls));
    if (r->calls == NULL) return pl_fail_memory(err, r->model->n_values);
    const pl_interp_options interp = { .pool = r->pool,
                                       .fp64 = r->options->fp64 != 0,
                                       .seed = r->options->inputs->seed,
                                       .hook = on_value,
                                       .hook_ctx = r,
                                       .progress = &r->progress };
    return pl_interp_new(r->model, &interp, &r->interp, err);
}

bool pl_record_is_eager(const plumb_record_options *o) {
    return pl_backend_is_interpreter(o->backend);
}

static pl_status prepare(pl_record_job *r, pl_err *err) {
    const plumb_record_options *o = r->options;
    const pl_graph *graph = r->model->graph;
    PL_TRY(pl_make_ready(r->model, PL_READY_LOWERED, &r->m->edited, err));
    PL_TRY(pl_record_filter_init(&r->filter, o->names, o->n_names, err));
    r->filter.ops = o->ops;
    r->filter.n_ops = o->n_ops;
    r->filter.modules = o->modules;
    r->filter.n_modules = o->n_modules;
    r->scratch = pl_arena_new();
    r->pool = pl_pool_new(o->threads);
    r->in = pl_calloc(graph->n_inputs + 1, sizeof(*r->in));
    r->out = pl_calloc(graph->n_outputs + 1, sizeof(*r->out));
    if (r->scratch == NULL || r->pool == NULL || r->in == NULL || r->out == NULL)
        return pl_fail_memory(err, r->model->n_values);
    if (o->progress != NULL) r->progress = *o->progress;
    return pl_record_is_eager(o) ? prepare_eager(r, err) : pl_record_backend_prepare(r, err);
}

void pl_record_release(pl_record_job *r) {
    for (size_t i = 0; r->in != NULL && i < r->model->graph->n_inputs; i++)
        pl_datum_unref(r->in[i]);
    for (size_t i = 0; r->out != NULL && i < r->model->graph->n_outputs; i++)
        pl_datum_unref(r->out[i]);
    pl_free(r->in);
    pl_free(r->out);
    pl_free(r->calls);
    pl_interp_free(r->interp);
    pl_program_free(r->program);
    pl_backend_close(r->backend);
    pl_strmap_release(&r->by_name);
    pl_strmap_release(&r->seen);
    pl_arena_free(r->names);
    pl_buf_release(&r->notes);
    pl_pool_free(r->pool);
    pl_arena_free(r->scratch);
    pl_recorder_abort_take(r->recorder);
    pl_dont_care_release(&r->left_out);
    pl_record_filter_release(&r->filter);
}

static pl_status make_inputs(pl_record_job *r, pl_err *err) {
    const plumb_inputs *from = r->options->inputs;
    if (r->inputs_from == NULL) return pl_inputs_make(r->model, from, r->in, err);
    return pl_inputs_make_recorded(r->model, from, r->inputs_from, false, r->in, &r->n_inputs_taken,
                                   err);
}

/* ---- filters that match nothing ---- */

typedef struct found_op {
    const char *op;
    bool found;
} found_op;

static pl_status look_for_op(void *ctx, pl_graph *graph, pl_err *err) {
    found_op *f = ctx;
    for (size_t i = 0; i < graph->n_nodes && !f->found; i++) {
        f->found = strcmp(graph->nodes[i]->op, f->op) == 0;
        if (!f->found) PL_TRY(pl_node_each_body(graph->nodes[i], look_for_op, ctx, err));
    }
    return PL_OK;
}

static const char *op_at(const void *ctx, size_t i) {
    const pl_graph *graph = ctx;
    for (size_t k = 0; k < graph->n_nodes; k++) {
        bool first = true;
        for (size_t b = 0; b < k && first; b++)
            first = strcmp(graph->nodes[b]->op, graph->nodes[k]->op) != 0;
        if (first && i-- == 0) return graph->nodes[k]->op;
    }
    return NULL;
}

/* Every operator in the list must occur in the model, not just one. */
static pl_status check_ops(pl_record_job *r, pl_err *err) {
    for (size_t i = 0; i < r->options->n_ops; i++) {
        found_op f = { r->options->ops[i], false };
        PL_TRY(look_for_op(&f, r->model->graph, err));
        if (f.found) continue;
        pl_buf hint = PL_BUF_INIT;
        pl_nearest_put(&hint, f.op, strlen(f.op), op_at, r->model->graph);
        const pl_status st =
            pl_fail(err, PL_E_USAGE, "the model has no operator '%s'%s", f.op, pl_buf_str(&hint));
        pl_buf_release(&hint);
        return st;
    }
    return PL_OK;
}

pl_status pl_record_run(pl_record_job *r, pl_err *err) {
    const plumb_record_options *o = r->options;
    const double start = pl_api_seconds();
    PL_TRY(prepare(r, err));
    PL_TRY(check_ops(r, err));
    PL_TRY(make_inputs(r, err));
    PL_TRY(pl_dont_care_find(r->model, r->in, r->options->threads, &r->left_out, err));
    PL_TRY(open_recorder(r, err));
    PL_TRY(record_inputs(r, err));
    PL_TRY(r->program != NULL ? pl_record_backend_run(r, err)
                              : pl_interp_run(r->interp, r->in, r->out, err));
    PL_TRY(set_provenance(r, err));
    r->n_records = pl_recorder_count(r->recorder);
    r->n_bytes = pl_recorder_bytes(r->recorder);
    if (r->n_records == 0 && o->n_names + o->n_ops + o->n_modules > 0)
        return pl_fail(err, PL_E_INVALID,
                       "no value matches the given names, operators and modules");
    pl_recorder *recorder = r->recorder;
    r->recorder = NULL;
    PL_TRY(pl_recorder_commit_take(recorder, err));
    r->seconds = pl_api_seconds() - start;
    return PL_OK;
}
