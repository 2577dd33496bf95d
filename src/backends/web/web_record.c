/* Records values inside onnxruntime-web. Mode "optimized" is in web_optimised.c. Mode "groups", for
 * when that changes the outputs or the page cannot save its graph: values of the model as given are
 * marked as outputs, at the level asked for. Marking changes what is fused: a group of values is
 * shown only if the model's outputs stay bit-identical to the plain run, and is halved until those
 * that change them are isolated. */
#include <string.h>

#include "backends/web/web_int.h"
#include "base/alloc.h"
#include "graph/graph.h"
#include "onnx/onnx.h"

typedef struct recording {
    pl_web_program *p;
    const plumb_run_args *args;
    const char **names; /* the model's outputs, then room for a group */
    pl_datum **values;
} recording;

bool pl_web_is_output(const pl_web_program *p, const char *name) {
    for (size_t i = 0; i < p->source.n_outputs; i++)
        if (strcmp(p->source.outputs[i], name) == 0) return true;
    return false;
}

static pl_status load_showing(const recording *r, const char *const *names, size_t n, long *session,
                              pl_err *err) {
    const pl_bytes bytes = pl_web_bytes(r->p);
    pl_buf onnx = PL_BUF_INIT;
    pl_buf_append(&onnx, bytes.data, bytes.n_bytes);
    for (size_t i = 0; i < n; i++)
        if (!pl_web_is_output(r->p, names[i])) pl_onnx_put_output(&onnx, names[i]);
    const pl_bytes marked = { (const uint8_t *)onnx.data, onnx.n_bytes };
    const pl_status st = pl_buf_ok(&onnx)
                             ? pl_web_load(r->p->web, marked, r->p->web->level, session, err)
                             : pl_fail_memory(err, bytes.n_bytes);
    pl_buf_release(&onnx);
    return st;
}

static pl_status show(const recording *r, const char *const *names, size_t n, pl_err *err) {
    const plumb_hook *hook = r->args->hook;
    const size_t n_out = r->p->source.n_outputs;
    pl_status st = PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        const plumb_seen seen = { .name = names[i],
                                  .datum = pl_datum_public(r->values[n_out + i]) };
        r->args->record->n_seen++;
        st = hook->value(hook->ctx, &seen, err);
    }
    return st;
}

void pl_web_keep_outputs(const plumb_run_args *args, pl_datum **values) {
    for (size_t i = 0; i < args->n_out; i++) {
        pl_datum_unref((pl_datum *)args->out[i]);
        args->out[i] = (plumb_datum *)values[i];
        values[i] = NULL;
    }
}

/* Runs one group. *shown is false if it must be halved; *loaded, if the page took it. */
static pl_status try_group(recording *r, const char *const *names, size_t n, bool *shown,
                           bool *loaded, pl_err *err) {
    const size_t n_out = r->p->source.n_outputs;
    long session = -1;
    pl_err trouble = PL_ERR_INIT;
    *shown = false;
    pl_status st = load_showing(r, names, n, &session, &trouble);
    *loaded = st == PL_OK;
    for (size_t i = 0; i < n; i++)
        r->names[n_out + i] = names[i];
    r->args->record->n_runs++;
    if (st == PL_OK)
        st = pl_web_run(r->p, session, r->args, r->names, n_out + n, r->values, &trouble);
    if (st == PL_OK && pl_is_plain(r->args, r->values)) {
        *shown = true;
        st = show(r, names, n, &trouble);
        pl_web_keep_outputs(r->args, r->values);
    }
    for (size_t i = 0; i < n_out + n; i++) {
        pl_datum_unref(r->values[i]);
        r->values[i] = NULL;
    }
    /* A model that cannot show these values may show fewer; a browser that ended cannot. */
    const bool lost = r->p->web->browser != NULL && !pl_web_browser_alive(r->p->web->browser);
    const bool spoilt = !lost && pl_web_browser_spoilt(r->p->web->browser);
    if (session >= 0 && !lost && !spoilt) pl_web_drop(r->p->web, session);
    if (st != PL_OK && (lost || *shown || st != PL_E_BACKEND)) {
        if (err != NULL) *err = trouble;
        return st;
    }
    if (st != PL_OK) *loaded = false;
    return spoilt ? pl_web_ready(r->p, err) : PL_OK;
}

static pl_status record_group(recording *r, const char *const *names, size_t n, pl_err *err) {
    bool shown = false, loaded = false;
    if (n == 0) return PL_OK;
    PL_TRY(try_group(r, names, n, &shown, &loaded, err));
    if (shown) return PL_OK;
    if (n == 1) {
        if (loaded) {
            r->args->record->n_disturbed++;
        } else {
            r->args->record->n_hidden++;
        }
        return PL_OK;
    }
    PL_TRY(record_group(r, names, n / 2, err));
    return record_group(r, names + n / 2, n - n / 2, err);
}

/* Values that nodes of the main graph compute; those of inlined functions have names of our own. */
static size_t list_values(const recording *r, const char **out) {
    const pl_graph *graph = r->p->model->graph;
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const pl_node *node = graph->nodes[i];
        for (uint32_t k = 0; k < node->n_out && node->function == NULL; k++)
            if (node->out[k] != NULL && pl_hook_wants(r->args->hook, node->out[k]->name))
                out[n++] = node->out[k]->name;
    }
    return n;
}

pl_status pl_web_record_groups(pl_web_program *p, const plumb_run_args *args, pl_err *err) {
    const size_t n_max = p->source.n_outputs + p->model->graph->n_values + 1;
    recording r = { .p = p, .args = args };
    *args->record = (plumb_record_info){ 0 };
    r.names = pl_calloc(n_max, sizeof(char *));
    r.values = pl_calloc(n_max, sizeof(pl_datum *));
    const char **wanted = pl_calloc(n_max, sizeof(char *));
    pl_status st =
        r.names == NULL || r.values == NULL || wanted == NULL ? pl_fail_memory(err, n_max) : PL_OK;
    if (st == PL_OK) {
        for (size_t i = 0; i < p->source.n_outputs; i++)
            r.names[i] = p->source.outputs[i];
        const size_t n = list_values(&r, wanted);
        args->record->n_values = n;
        st = record_group(&r, wanted, n, err);
    }
    if (st == PL_OK && args->n_out > 0 && args->out[0] == NULL) { /* no group left outputs */
        st = pl_web_run(p, p->session, args, r.names, p->source.n_outputs, r.values, err);
        if (st == PL_OK) {
            args->record->differs = !pl_is_plain(args, r.values);
            pl_web_keep_outputs(args, r.values);
        }
    }
    pl_free(r.names);
    pl_free(r.values);
    pl_free(wanted);
    return st;
}
