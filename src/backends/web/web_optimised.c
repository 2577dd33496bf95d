/* Records values of the graph that onnxruntime-web executes: the page saves its optimised model,
 * whose values are marked as outputs and which is loaded with optimisation off. They are shown only
 * if the model's outputs are bit-identical to the plain run's. Values are mapped to the model's and
 * converted back to its layout as those of ort (backends/ort/ort_map.h): it is the same optimiser.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/ort/ort_map.h"
#include "backends/web/web_int.h"
#include "base/alloc.h"
#include "graph/graph.h"
#include "onnx/onnx.h"

struct pl_web_optimised {
    uint8_t *onnx;
    size_t n_onnx;
    pl_model *graph;
    pl_ort_map *map;
    pl_ort_watch *watched; /* values to show, in order of execution */
    size_t n_watched;
    long session; /* that shows all of them, in browser number `started`; -1 = none */
    unsigned started;
};

void pl_web_optimised_free(pl_web *web, pl_web_optimised *o) {
    if (o == NULL) return;
    if (o->session >= 0 && o->started == web->n_started && pl_web_usable(web))
        pl_web_drop(web, o->session);
    pl_free(o->watched);
    pl_ort_map_free(o->map);
    pl_model_free(o->graph);
    pl_free(o->onnx);
    pl_free(o);
}

static pl_status read_graph(pl_web_program *p, pl_web_optimised *o, pl_err *err) {
    pl_buf answer = PL_BUF_INIT;
    pl_status st = pl_web_call_with_model(p->web, "optimise", pl_web_bytes(p), &answer, err);
    o->n_onnx = st == PL_OK ? strtoul(pl_buf_str(&answer), NULL, 10) : 0;
    pl_buf_release(&answer);
    PL_TRY(st);
    if (o->n_onnx == 0)
        return pl_fail(err, PL_E_BACKEND, "web %s did not save its optimised model",
                       p->web->version);
    o->onnx = pl_malloc(o->n_onnx);
    if (o->onnx == NULL) return pl_fail_memory(err, o->n_onnx);
    PL_TRY(pl_web_fetch(p->web, 0, o->onnx, o->n_onnx, err));
    const pl_bytes bytes = { o->onnx, o->n_onnx };
    return pl_model_read_bytes(bytes, NULL, NULL, "the graph that onnxruntime-web optimised",
                               &o->graph, err);
}

/* Asks the page for its graph, once. */
static pl_status prepare(pl_web_program *p, pl_err *err) {
    if (p->optimised != NULL) return PL_OK;
    pl_web_optimised *o = pl_calloc(1, sizeof(*o));
    if (o == NULL) return pl_fail_memory(err, sizeof(*o));
    o->session = -1;
    pl_status st = read_graph(p, o, err);
    if (st == PL_OK) st = pl_ort_map_new(p->model, o->graph, &o->map, err);
    if (st == PL_OK) st = pl_ort_watch_list(o->graph, o->map, &o->watched, &o->n_watched, err);
    if (st == PL_OK) st = pl_ort_map_unique(o->watched, o->n_watched, err);
    if (st == PL_OK) {
        p->optimised = o;
    } else {
        pl_web_optimised_free(p->web, o);
    }
    return st;
}

static pl_status load_showing(pl_web_program *p, const pl_ort_watch *watched, size_t n,
                              long *session, pl_err *err) {
    const pl_web_optimised *o = p->optimised;
    pl_buf onnx = PL_BUF_INIT;
    pl_buf_append(&onnx, o->onnx, o->n_onnx);
    for (size_t i = 0; i < n; i++)
        if (!pl_web_is_output(p, watched[i].name)) pl_onnx_put_output(&onnx, watched[i].name);
    const pl_bytes marked = { (const uint8_t *)onnx.data, onnx.n_bytes };
    const pl_status st = pl_buf_ok(&onnx) ? pl_web_load(p->web, marked, "disabled", session, err)
                                          : pl_fail_memory(err, o->n_onnx);
    pl_buf_release(&onnx);
    return st;
}

static pl_status show_value(const plumb_run_args *args, const pl_ort_watch *watch,
                            const pl_datum *value, pl_err *err) {
    pl_tensor *t = NULL;
    pl_datum *datum = NULL;
    bool mapped = watch->stands_for != NULL;
    PL_TRY(pl_ort_watch_convert(watch, value->tensor, &t, &mapped, err));
    PL_TRY(pl_datum_of_tensor_take(t, &datum, err));
    const plumb_seen seen = { .name = watch->name,
                              .datum = pl_datum_public(datum),
                              .stands_for = &watch->stands_for,
                              .n_stands_for = mapped };
    args->record->n_seen++;
    const pl_status st = args->hook->value(args->hook->ctx, &seen, err);
    pl_datum_unref(datum);
    return st;
}

/* Runs a session for the outputs and `n` values; *same tells whether the outputs are the plain
 * run's. Then the values are shown. */
static pl_status run_group(pl_web_program *p, long session, const plumb_run_args *args,
                           const pl_ort_watch *watched, size_t n, bool *same, pl_err *err) {
    const size_t n_out = p->source.n_outputs;
    const char **names = pl_calloc(n_out + n + 1, sizeof(char *));
    pl_datum **values = pl_calloc(n_out + n + 1, sizeof(pl_datum *));
    pl_status st = names == NULL || values == NULL ? pl_fail_memory(err, n_out + n) : PL_OK;
    for (size_t i = 0; i < n_out + n && st == PL_OK; i++)
        names[i] = i < n_out ? p->source.outputs[i] : watched[i - n_out].name;
    args->record->n_runs++;
    if (st == PL_OK) st = pl_web_run(p, session, args, names, n_out + n, values, err);
    *same = st == PL_OK && pl_is_plain(args, values);
    for (size_t i = 0; i < n && *same && st == PL_OK; i++)
        st = show_value(args, &watched[i], values[n_out + i], err);
    if (*same) pl_web_keep_outputs(args, values);
    for (size_t i = 0; values != NULL && i < n_out + n; i++)
        pl_datum_unref(values[i]);
    pl_free(values);
    pl_free(names);
    return st;
}

/* How many of the next values fit together, at least one. */
static size_t next_group(const pl_ort_watch *next, size_t n, uint64_t limit) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n && limit != 0; i++) {
        sum += next[i].n_bytes > 0 ? next[i].n_bytes : limit / 8;
        if (i > 0 && sum > limit) return i;
    }
    return n;
}

static size_t pick_wanted(const plumb_hook *hook, const pl_web_optimised *o, pl_ort_watch *out) {
    size_t n = 0;
    for (size_t i = 0; i < o->n_watched; i++) {
        const pl_ort_watch *w = &o->watched[i];
        if (pl_hook_wants(hook, w->name) ||
            (w->stands_for != NULL && pl_hook_wants(hook, w->stands_for)))
            out[n++] = *w;
    }
    return n;
}

/* The session that shows all values is kept for the next recording. */
static pl_status group_session(pl_web_program *p, const pl_ort_watch *watched, size_t n, bool keep,
                               long *session, pl_err *err) {
    pl_web_optimised *o = p->optimised;
    if (keep && o->session >= 0 && o->started == p->web->n_started) {
        *session = o->session;
        return PL_OK;
    }
    PL_TRY(load_showing(p, watched, n, session, err));
    if (keep) {
        o->session = *session;
        o->started = p->web->n_started;
    }
    return PL_OK;
}

static pl_status record_all(pl_web_program *p, const plumb_run_args *args,
                            const pl_ort_watch *wanted, size_t n, pl_err *err) {
    size_t done = 0;
    do {
        const size_t size = next_group(wanted + done, n - done, args->memory_limit);
        const bool keep = size == p->optimised->n_watched;
        long session = -1;
        bool same = false;
        PL_TRY(group_session(p, wanted + done, size, keep, &session, err));
        PL_TRY(run_group(p, session, args, wanted + done, size, &same, err));
        if (!keep) pl_web_drop(p->web, session);
        if (!same) {
            args->record->differs = args->record->n_seen == 0;
            args->record->n_disturbed += n - done;
            return PL_OK;
        }
        done += size;
    } while (done < n);
    return PL_OK;
}

pl_status pl_web_record_optimised(pl_web_program *p, const plumb_run_args *args, bool *done,
                                  pl_err *err) {
    pl_err trouble = PL_ERR_INIT;
    *done = false;
    pl_status st = prepare(p, &trouble);
    pl_ort_watch *wanted =
        st == PL_OK ? pl_calloc(p->optimised->n_watched + 1, sizeof(*wanted)) : NULL;
    if (st == PL_OK && wanted == NULL) st = pl_fail_memory(&trouble, p->optimised->n_watched);
    if (st == PL_OK) {
        const size_t n = pick_wanted(args->hook, p->optimised, wanted);
        args->record->n_values = p->optimised->n_watched;
        st = record_all(p, args, wanted, n, &trouble);
    }
    pl_free(wanted);
    /* What the page cannot load or show is tried in groups, in a page that works. */
    const bool alive = p->web->browser != NULL && pl_web_browser_alive(p->web->browser);
    if (st == PL_E_BACKEND && alive && args->record->n_seen == 0) return pl_web_ready(p, err);
    *done = true;
    if (st != PL_OK && err != NULL) *err = trouble;
    return st;
}
