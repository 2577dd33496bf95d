/* Records values inside ONNX Runtime without disturbing it. Marking values as outputs changes what
 * ORT fuses, so one would record another program. Mode "optimized": ORT saves its optimised graph;
 * values of that graph are marked, it is loaded with optimisation off, and the outputs must be
 * bit-identical to the plain run. Mode "groups", for when they are not: a few values of the model
 * as given are marked at a time, at the level asked for, and a group that changes the outputs is
 * halved until the values that cause it are isolated. Values in bodies of If, Loop
 * and Scan are lifted out of bodies that run once (ort_lift.h); the others stay hidden. */
#include <string.h>
#include <unistd.h>

#include "backends/ort/ort_int.h"
#include "backends/ort/ort_lift.h"
#include "backends/ort/ort_split.h"
#include "backends/ort/ort_widen.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "onnx/onnx.h"

enum {
    MODE_OPTIMIZED,
    MODE_GROUPS,
    GROUP = 8,           /* values per session in mode "groups" */
    SPLIT_MAX = 1 << 30, /* largest graph to copy, in bytes; protobuf's limit is 2 GB */
};

static const char weights_name[] = "optimized.weights";

const char *const pl_ort_record_modes[] = { "optimized", "groups", NULL };

/* ---- recordable values ---- */

static size_t count_bodies(const pl_graph *graph);

static pl_status count_body(void *ctx, pl_graph *body, pl_err *err) {
    size_t *n = ctx;
    (void)err;
    for (size_t i = 0; i < body->n_nodes; i++)
        *n += body->nodes[i]->n_out;
    *n += count_bodies(body);
    return PL_OK;
}

static size_t count_bodies(const pl_graph *graph) {
    size_t n = 0;
    for (size_t i = 0; i < graph->n_nodes; i++)
        pl_node_each_body(graph->nodes[i], count_body, &n, NULL);
    return n;
}

static bool is_output(const pl_ort_program *p, const char *name) {
    for (size_t i = 0; i < p->source.n_outputs; i++) {
        if (strcmp(p->source.outputs[i], name) == 0) return true;
    }
    return false;
}

/* Where the external data of the optimised graph are. */
static const char *folder_of_saved(const pl_ort_program *p) {
    return p->saved_folder != NULL ? p->saved_folder : p->folder;
}

/* Opens a session of `bytes` with these values as extra outputs. */
static pl_status open_showing(pl_ort_program *p, pl_bytes bytes, int level,
                              const pl_ort_watch *watched, size_t n_watched, void **out,
                              pl_err *err) {
    pl_buf onnx = PL_BUF_INIT;
    const bool own = p->split.n_bytes > 0 && bytes.data == (const uint8_t *)p->split.data;
    if (own) { /* weights are large: use the buffer itself, and give it back as it was */
        onnx = p->split;
        p->split = (pl_buf)PL_BUF_INIT;
    } else {
        pl_buf_append(&onnx, bytes.data, bytes.n_bytes);
    }
    for (size_t i = 0; i < n_watched; i++) {
        if (!is_output(p, watched[i].name)) pl_onnx_put_output(&onnx, watched[i].name);
    }
    const bool is_saved = own || (p->saved != NULL && bytes.data == p->saved->data);
    pl_buf others = PL_BUF_INIT;
    if (p->widens && is_saved) {
        pl_ort_widening_only(&others);
        level = p->ort->level;
    }
    const pl_ort_session_args args = { .onnx = onnx.data,
                                       .n_onnx = onnx.n_bytes,
                                       .folder = is_saved ? folder_of_saved(p) : p->folder,
                                       .skip = others.n_bytes > 0 ? pl_buf_str(&others) : NULL,
                                       .level = level,
                                       .threads = p->threads,
                                       .idle = true };
    const pl_status st = pl_buf_ok(&onnx) && pl_buf_ok(&others)
                             ? pl_ort_session_new(p->ort, &args, out, err)
                             : pl_fail_memory(err, bytes.n_bytes);
    pl_buf_release(&others);
    if (own && pl_buf_ok(&onnx)) {
        onnx.n_bytes = bytes.n_bytes;
        p->split = onnx;
    } else {
        pl_buf_release(&onnx);
    }
    return st;
}

/* ---- the optimised graph ---- */

static pl_status load_original(pl_ort_program *p, pl_err *err) {
    const pl_bytes bytes = { p->source.onnx, p->source.n_onnx };
    if (p->original != NULL) return PL_OK;
    return pl_model_read_bytes(bytes, NULL, p->folder, "the model", &p->original, err);
}

/* Keeps what ORT saved. Weights of their own file live as long as the program. */
static pl_status keep_saved(pl_ort_program *p, char **dir, const char *file, bool apart,
                            pl_err *err) {
    PL_TRY(pl_file_map_open(file, &p->saved, err));
    if (!apart) return PL_OK;
    p->saved_folder = *dir;
    *dir = NULL;
    return PL_OK;
}

/* A session of the model as given that saves the graph it optimised. */
static pl_status compile_saving(pl_ort_program *p, pl_ort_session_args *args, bool apart,
                                void **session, pl_err *err) {
    char *dir = NULL;
    PL_TRY(pl_dir_temporary(&dir, err));
    char *file = pl_path_join(dir, "optimized.onnx");
    args->save_to = file;
    args->weights = apart ? weights_name : NULL;
    pl_status st =
        file == NULL ? pl_fail_memory(err, 1) : pl_ort_session_new(p->ort, args, session, err);
    if (st == PL_OK) st = keep_saved(p, &dir, file, apart, err);
    args->save_to = args->weights = NULL;
    if (dir != NULL) pl_dir_remove(dir, NULL);
    pl_free(dir);
    pl_free(file);
    return st;
}

/* Weights of the optimised graph go to a file of their own: a protobuf message has at most 2 GB,
 * and the session that records maps the file, where it would parse and copy the message. */
static pl_status compile_any(pl_ort_program *p, pl_ort_session_args *args, void **session,
                             pl_err *err) {
    pl_status st = PL_E_BACKEND;
    if (!p->within) st = compile_saving(p, args, true, session, err);
    if (st != PL_E_BACKEND || p->ort->weights_apart) return st;
    return compile_saving(p, args, false, session, err);
}

/* Compiles the model and saves the graph that was made of it in one go: folding weights twice costs
 * more than many runs. A graph that cannot be saved is left to load_optimised. */
pl_status pl_ort_record_compile(pl_ort_program *p, pl_ort_session_args *args, pl_err *err) {
    if (load_original(p, NULL) == PL_OK) p->widens = pl_ort_widens(p->ort, p->original);
    if (p->widens) return pl_ort_open_plain(p, err);
    const pl_status st = compile_any(p, args, &p->session, NULL);
    if (st != PL_E_BACKEND) return st == PL_OK ? st : compile_any(p, args, &p->session, err);
    return pl_ort_session_new(p->ort, args, &p->session, err);
}

static pl_status save_optimised(pl_ort_program *p, pl_err *err) {
    void *session = NULL;
    pl_ort_session_args args = { .onnx = p->source.onnx,
                                 .n_onnx = p->source.n_onnx,
                                 .path = p->source.path,
                                 .folder = p->folder,
                                 .level = p->ort->level,
                                 .threads = p->threads,
                                 .idle = true };
    if (p->widens) {
        args.skip = pl_ort_widening;
        args.unpacked = true;
    }
    const pl_status st = p->widens ? compile_saving(p, &args, false, &session, err)
                                   : compile_any(p, &args, &session, err);
    if (session != NULL) p->ort->env.api.ReleaseSession(session);
    return st;
}

static pl_status load_optimised(pl_ort_program *p, pl_err *err) {
    if (p->saved == NULL) PL_TRY(save_optimised(p, err));
    const pl_bytes bytes = { p->saved->data, p->saved->n_bytes };
    return pl_model_read_bytes(bytes, p->saved, folder_of_saved(p), "the graph that ort optimised",
                               &p->graph, err);
}

/* Graphs made of the optimised one have their weights where it has them: in files below a folder.
 */
static const char *name_weights(void *ctx, const pl_file_map *file) {
    const char *folder = ctx;
    const size_t n = strlen(folder);
    return strncmp(file->path, folder, n) == 0 && file->path[n] == '/' ? file->path + n + 1 : NULL;
}

/* NULL: the weights are within the graph. */
static const pl_onnx_refer *refer_of(pl_ort_program *p) {
    char *folder = p->saved_folder != NULL ? p->saved_folder : p->widens ? p->folder : NULL;
    p->refer = (pl_onnx_refer){ .name = name_weights, .ctx = folder };
    return folder == NULL ? NULL : &p->refer;
}

/* Tries all values at once; if ORT refuses some (unknown type), bisects to find them. */
static pl_status keep_showable(pl_ort_program *p, pl_bytes bytes, pl_ort_watch *watched, size_t n,
                               size_t *n_kept, pl_err *err) {
    void *session = NULL;
    *n_kept = 0;
    if (n == 0) return PL_OK;
    if (open_showing(p, bytes, 0, watched, n, &session, NULL) == PL_OK) {
        p->ort->env.api.ReleaseSession(session);
        *n_kept = n;
        return PL_OK;
    }
    if (n == 1) return PL_OK;
    const size_t half = n / 2;
    size_t n_left = 0, n_right = 0;
    PL_TRY(keep_showable(p, bytes, watched, half, &n_left, err));
    PL_TRY(keep_showable(p, bytes, watched + half, n - half, &n_right, err));
    memmove(watched + n_left, watched + half, n_right * sizeof(*watched));
    *n_kept = n_left + n_right;
    return PL_OK;
}

static pl_status list_optimised(pl_ort_program *p, pl_err *err) {
    PL_TRY(load_original(p, err));
    if (p->map == NULL) PL_TRY(pl_ort_map_new(p->original, p->graph, &p->map, err));
    pl_free(p->watched);
    p->watched = NULL;
    PL_TRY(pl_ort_watch_list(p->graph, p->map, &p->watched, &p->n_watched, err));
    size_t n = 0;
    for (size_t i = 0; i < p->n_watched; i++) {
        const pl_value *value = pl_graph_find(p->graph->graph, p->watched[i].name);
        if (!p->widens || value == NULL || !pl_ort_widens_weight(value))
            p->watched[n++] = p->watched[i];
    }
    p->n_watched = n;
    return PL_OK;
}

/* The graph to record: the split one if there is one. */
static pl_bytes recorded_graph(const pl_ort_program *p) {
    const pl_bytes split = { (const uint8_t *)p->split.data, p->split.n_bytes };
    const pl_bytes saved = { p->saved->data, p->saved->n_bytes };
    return split.n_bytes > 0 ? split : saved;
}

/* May fail: then fewer values are recorded. */
static void split_optimised(pl_ort_program *p) {
    pl_ort_watch *more = NULL;
    size_t n = 0;
    pl_buf_release(&p->split);
    if (p->no_split || p->saved->n_bytes > SPLIT_MAX) return;
    const pl_status st = pl_ort_split(p->graph, p->map, p->watched, p->n_watched, refer_of(p),
                                      &p->split, &more, &n, NULL);
    if (st != PL_OK || more == NULL) {
        pl_buf_release(&p->split);
        pl_free(more);
        return;
    }
    pl_free(p->watched);
    p->watched = more;
    p->n_watched = n;
}

void pl_ort_record_close(pl_ort_program *p) {
    if (p->watch_session != NULL) p->ort->env.api.ReleaseSession(p->watch_session);
    p->watch_session = NULL;
}

static void drop_saved(pl_ort_program *p) {
    pl_free(p->watched);
    pl_ort_map_free(p->map);
    pl_model_free(p->graph);
    pl_buf_release(&p->split);
    pl_buf_release(&p->whole); /* of that graph */
    pl_file_map_unref(p->saved);
    if (p->saved_folder != NULL) pl_dir_remove(p->saved_folder, NULL);
    pl_free(p->saved_folder);
    p->watched = NULL;
    p->map = NULL;
    p->graph = NULL;
    p->saved = NULL;
    p->saved_folder = NULL;
}

/* Which values there are to show. */
static pl_status list_values(pl_ort_program *p, pl_err *err) {
    if (p->graph == NULL) PL_TRY(load_optimised(p, err));
    PL_TRY(list_optimised(p, err));
    split_optimised(p);
    p->n_hidden = count_bodies(p->graph->graph);
    p->has_bodies = p->n_hidden > 0;
    return PL_OK;
}

/* ORT cannot load the graph that was made. True if there is another way to make it. */
static bool make_otherwise(pl_ort_program *p) {
    if (p->split.n_bytes > 0) {
        p->no_split = true;
        return true;
    }
    if (p->widens) {
        p->widens = false;
    } else if (p->saved_folder != NULL && !p->ort->weights_apart && !p->within) {
        p->within = true;
    } else {
        return false;
    }
    drop_saved(p);
    return true;
}

/* Opens the session that shows the values. Widened weights are twice the model, so the session of
 * the model as given is closed first: the next plain run opens it again. */
static pl_status open_watch(pl_ort_program *p, pl_err *err) {
    if (p->watch_session != NULL) return PL_OK;
    if (p->watched == NULL) PL_TRY(list_values(p, err));
    if (p->widens) pl_ort_close_plain(p);
    const size_t n_all = p->n_watched;
    const pl_bytes bytes = recorded_graph(p);
    if (open_showing(p, bytes, 0, p->watched, n_all, &p->watch_session, NULL) != PL_OK) {
        if (make_otherwise(p)) {
            PL_TRY(list_values(p, err));
            return open_watch(p, err);
        }
        PL_TRY(keep_showable(p, bytes, p->watched, n_all, &p->n_watched, err));
        p->n_hidden += n_all - p->n_watched;
        PL_TRY(open_showing(p, bytes, 0, p->watched, p->n_watched, &p->watch_session, err));
    }
    return pl_ort_map_unique(p->watched, p->n_watched, err);
}

pl_status pl_ort_record_prepare(pl_ort_program *p, pl_err *err) {
    if (p->watched == NULL) PL_TRY(list_values(p, err));
    return p->widens ? PL_OK : open_watch(p, err);
}

void pl_ort_record_release(pl_ort_program *p) {
    pl_ort_record_close(p);
    drop_saved(p);
    pl_model_free(p->original);
}

pl_status pl_ort_record_executed(pl_ort_program *p, pl_bytes *out, pl_err *err) {
    PL_TRY(pl_ort_record_prepare(p, err));
    *out = (pl_bytes){ p->saved->data, p->saved->n_bytes };
    if (refer_of(p) == NULL) return PL_OK;
    if (p->whole.n_bytes == 0) PL_TRY(pl_model_serialize(p->graph, &p->whole, err));
    *out = (pl_bytes){ (const uint8_t *)p->whole.data, p->whole.n_bytes };
    return PL_OK;
}

/* ---- running groups ---- */

typedef struct group {
    pl_ort_program *p;
    const plumb_run_args *args;
    const char **names; /* the model's outputs, then the group */
    void **values;
    size_t n_group, n_bytes; /* of the last group: number and size of its values */
    bool identical;
} group;

static pl_status group_init(group *g, pl_ort_program *p, const plumb_run_args *args, size_t n_max,
                            pl_err *err) {
    const size_t n = p->source.n_outputs + n_max + 1;
    *g = (group){ .p = p, .args = args };
    g->names = pl_calloc(n, sizeof(char *));
    g->values = pl_calloc(n, sizeof(void *));
    if (g->names == NULL || g->values == NULL) return pl_fail_memory(err, n);
    for (size_t i = 0; i < p->source.n_outputs; i++)
        g->names[i] = p->source.outputs[i];
    return PL_OK;
}

static void group_release(group *g) {
    pl_free(g->names);
    pl_free(g->values);
}

static void drop_outputs(const group *g) {
    for (size_t i = 0; i < g->args->n_out; i++) {
        pl_datum_unref((pl_datum *)g->args->out[i]);
        g->args->out[i] = NULL;
    }
}

/* Reads a value in the model's layout; *mapped is false if it does not match the map. */
static pl_status read_watched(const group *g, const pl_ort_watch *watch, void *value,
                              pl_datum **out, bool *mapped, pl_err *err) {
    pl_tensor *t = NULL, *view = NULL;
    if (pl_ort_watch_moves(watch) && !watch->optional &&
        pl_ort_value_view(&g->p->ort->env, value, &view)) { /* one copy less */
        const pl_status st = pl_ort_watch_convert(watch, view, &t, mapped, err);
        const bool copied = st == PL_OK && *mapped && pl_tensor_is_sole(view);
        pl_tensor_unref(view);
        if (copied) return pl_datum_of_tensor_take(t, out, err);
        if (st == PL_OK) pl_tensor_unref(t);
    }
    PL_TRY(pl_ort_value_read(&g->p->ort->env, value, watch->optional, out, err));
    *mapped = watch->stands_for != NULL;
    if ((*out)->kind != PL_TYPE_TENSOR) return PL_OK;
    const pl_status st = pl_ort_watch_convert(watch, (*out)->tensor, &t, mapped, err);
    pl_datum_unref(*out);
    *out = NULL;
    return st != PL_OK ? st : pl_datum_of_tensor_take(t, out, err);
}

static pl_status show_value(group *g, const pl_ort_watch *watch, void *value, pl_err *err) {
    pl_datum *datum = NULL;
    bool mapped = false;
    const plumb_hook *hook = g->args->hook;
    pl_status st = read_watched(g, watch, value, &datum, &mapped, err);
    if (st == PL_E_UNSUPPORTED) { /* a type that plumb cannot represent */
        g->args->record->n_hidden++;
        return PL_OK;
    }
    PL_TRY(st);
    const plumb_seen seen = { .name = watch->name,
                              .datum = pl_datum_public(datum),
                              .stands_for = &watch->stands_for,
                              .n_stands_for = mapped };
    g->n_bytes += pl_datum_bytes(datum);
    g->args->record->n_seen++;
    st = hook->value(hook->ctx, &seen, err);
    pl_datum_unref(datum);
    return st;
}

/* Runs a session for the outputs and `n` values. Shows the values only if the outputs are identical
 * to the plain run's. */
static pl_status run_group(group *g, void *session, const pl_ort_watch *watched, size_t n,
                           pl_err *err) {
    const size_t n_out = g->p->source.n_outputs;
    for (size_t i = 0; i < n; i++)
        g->names[n_out + i] = watched[i].output != NULL ? watched[i].output : watched[i].name;
    g->n_group = n;
    g->n_bytes = 0;
    g->identical = false;
    drop_outputs(g);
    g->args->record->n_runs++;
    pl_status st = pl_ort_session_run(g->p, session, g->args, g->names, n_out + n, g->values, err);
    if (st == PL_OK) {
        st = pl_ort_outputs_read(g->p, g->values, (pl_datum **)g->args->out, err);
        pl_ort_values_release(g->p, g->values, n_out);
    }
    if (st == PL_OK)
        g->identical = pl_is_plain(g->args, (pl_datum *const *)(uintptr_t)g->args->out);
    for (size_t i = 0; i < n && st == PL_OK && g->identical; i++) {
        st = show_value(g, &watched[i], g->values[n_out + i], err);
        pl_ort_values_release(g->p, &g->values[n_out + i], 1);
    }
    pl_ort_values_release(g->p, g->values, n_out + n);
    return st;
}

static pl_status run_plain(group *g, pl_err *err) {
    PL_TRY(pl_ort_open_plain(g->p, err));
    return run_group(g, g->p->session, NULL, 0, err);
}

/* How many of the next values fit into memory together, at least one. A value of unknown size
 * counts as the average of the last group; a group has at most twice as many of these as the last
 * group had values. */
static size_t next_group(const group *g, const pl_ort_watch *next, size_t n, uint64_t limit) {
    if (limit == 0) return n;
    const uint64_t usual = g->n_group == 0 ? limit : g->n_bytes / g->n_group + 1;
    uint64_t sum = 0;
    size_t n_unknown = 0;
    for (size_t i = 0; i < n; i++) {
        const bool known = next[i].n_bytes > 0;
        sum += known ? next[i].n_bytes : usual;
        n_unknown += !known;
        if (i > 0 && (sum > limit || n_unknown > 2 * g->n_group)) return i;
    }
    return n;
}

/* Keeps only the requested values, by either name. `out` may be `all`. */
static size_t pick_wanted(const plumb_hook *hook, const pl_ort_watch *all, size_t n_all,
                          pl_ort_watch *out) {
    size_t n = 0;
    for (size_t i = 0; i < n_all; i++) {
        if (pl_hook_wants(hook, all[i].name) ||
            (all[i].stands_for != NULL && pl_hook_wants(hook, all[i].stands_for))) {
            out[n++] = all[i];
        }
    }
    return n;
}

/* Shows values of the optimised graph, as many per run as fit. A session computes all outputs of
 * its graph and keeps them to the end, so each group needs a session of its own. */
static pl_status record_watched(group *g, const pl_ort_watch *wanted, size_t n, pl_err *err) {
    plumb_record_info *info = g->args->record;
    pl_ort_program *p = g->p;
    size_t done = 0;
    do {
        const size_t size = next_group(g, wanted + done, n - done, g->args->memory_limit);
        const bool all = g->args->memory_limit == 0 || size == p->n_watched;
        void *own = NULL;
        if (!all) {
            pl_ort_record_close(p); /* it holds another copy of the weights */
            PL_TRY(open_showing(p, recorded_graph(p), 0, wanted + done, size, &own, err));
        }
        const pl_status st =
            run_group(g, own != NULL ? own : p->watch_session, wanted + done, size, err);
        if (own != NULL) p->ort->env.api.ReleaseSession(own);
        PL_TRY(st);
        if (!g->identical) {
            info->differs = info->n_seen == 0;
            info->n_disturbed += n - done;
            return PL_OK;
        }
        done += size;
    } while (done < n);
    return PL_OK;
}

static pl_status open_model(pl_ort_program *p, const pl_model *model, void **out, pl_err *err) {
    pl_buf onnx = PL_BUF_INIT;
    pl_status st = pl_model_serialize_referring(model, refer_of(p), &onnx, err);
    if (st == PL_OK && !pl_buf_ok(&onnx)) st = pl_fail_memory(err, onnx.n_bytes);
    if (st == PL_OK) {
        const pl_ort_session_args args = { .onnx = onnx.data,
                                           .n_onnx = onnx.n_bytes,
                                           .folder = folder_of_saved(p),
                                           .threads = p->threads };
        st = pl_ort_session_new(p->ort, &args, out, err);
    }
    pl_buf_release(&onnx);
    return st;
}

/* Counts how often each body runs on these inputs; counts[] has n entries. On failure the caller
 * lifts nothing. */
static pl_status count_runs(const group *g, void *session, const pl_ort_watch *counters, size_t n,
                            int64_t *counts, pl_err *err) {
    const char **names = pl_calloc(n + 1, sizeof(char *));
    void **values = pl_calloc(n + 1, sizeof(void *));
    pl_status st = names == NULL || values == NULL ? pl_fail_memory(err, n) : PL_OK;
    for (size_t i = 0; i < n && st == PL_OK; i++)
        names[i] = counters[i].output;
    if (st == PL_OK) st = pl_ort_session_run(g->p, session, g->args, names, n, values, err);
    for (size_t i = 0; i < n && st == PL_OK; i++) {
        pl_datum *d = NULL;
        st = pl_ort_value_read(&g->p->ort->env, values[i], false, &d, err);
        if (st != PL_OK) break;
        counts[i] = d->kind == PL_TYPE_TENSOR && d->tensor->n_elements == 1
                        ? pl_tensor_get_i64(d->tensor, 0)
                        : 0;
        pl_datum_unref(d);
    }
    if (values != NULL) pl_ort_values_release(g->p, values, n);
    pl_free(values);
    pl_free(names);
    return st;
}

typedef struct lifted { /* a graph with its bodies' values as outputs */
    pl_model *model;
    pl_ort_watch *watched;
    size_t n;
    void *session;
} lifted;

static void lifted_release(const group *g, lifted *l) {
    if (l->session != NULL) g->p->ort->env.api.ReleaseSession(l->session);
    pl_free(l->watched);
    pl_model_free(l->model);
}

static pl_status lift_bodies(group *g, lifted *out, pl_err *err) {
    lifted counters = { 0 };
    int64_t *counts = NULL;
    const pl_model *graph = g->p->graph;
    pl_status st =
        pl_ort_lift_counters(graph, &counters.model, &counters.watched, &counters.n, err);
    if (st == PL_OK) st = open_model(g->p, counters.model, &counters.session, err);
    if (st == PL_OK) {
        counts = pl_calloc(counters.n + 1, sizeof(int64_t));
        st = counts == NULL
                 ? pl_fail_memory(err, counters.n)
                 : count_runs(g, counters.session, counters.watched, counters.n, counts, err);
    }
    if (st == PL_OK) {
        st = pl_ort_lift_values(graph, counts, g->p->map, &out->model, &out->watched, &out->n, err);
    }
    if (st == PL_OK) st = open_model(g->p, out->model, &out->session, err);
    lifted_release(g, &counters);
    pl_free(counts);
    return st;
}

/* Whether all of them fit into one run. */
static bool fits(const pl_ort_watch *watched, size_t n, uint64_t limit) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n && limit != 0; i++) {
        if (watched[i].n_bytes == 0) return false;
        sum += watched[i].n_bytes;
    }
    return sum <= limit;
}

/* Shows values in bodies that run once. If ORT cannot load the lifted graph, the outputs change or
 * the values do not fit, they stay hidden. */
static pl_status record_bodies(group *g, pl_err *err) {
    lifted l = { 0 };
    group own = { 0 };
    plumb_record_info *info = g->args->record;
    pl_status st = PL_OK;
    if (lift_bodies(g, &l, NULL) == PL_OK && fits(l.watched, l.n, g->args->memory_limit) &&
        pl_ort_map_unique(l.watched, l.n, NULL) == PL_OK) {
        const size_t n_all = l.n, n = pick_wanted(g->args->hook, l.watched, l.n, l.watched);
        const size_t n_seen = info->n_seen;
        PL_TRY_GOTO(done, st, group_init(&own, g->p, g->args, n, err));
        pl_err tried = PL_ERR_INIT;
        st = run_group(&own, l.session, l.watched, n, &tried);
        if (st == PL_OK && own.identical) {
            info->n_hidden -= pl_size_min(info->n_hidden, n_all);
        } else if (info->n_seen == n_seen) { /* restore the outputs with a plain run */
            st = run_plain(g, err);
        } else if (err != NULL) {
            *err = tried;
        }
    }
done:
    group_release(&own);
    lifted_release(g, &l);
    return st;
}

static pl_status record_once(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    if (p->widens && p->session != NULL && p->watch_session == NULL) pl_ort_run_ahead(p, args);
    PL_TRY(open_watch(p, err));
    group g;
    plumb_record_info *info = args->record;
    pl_ort_watch *wanted = pl_calloc(p->n_watched + 1, sizeof(*wanted));
    pl_status st = group_init(&g, p, args, p->n_watched, err);
    if (wanted == NULL) st = pl_fail_memory(err, p->n_watched);
    info->n_values = p->n_watched + p->n_hidden;
    info->n_hidden = p->n_hidden;
    if (st == PL_OK) {
        const size_t n = pick_wanted(args->hook, p->watched, p->n_watched, wanted);
        st = record_watched(&g, wanted, n, err);
    }
    if (st == PL_OK && !info->differs && p->has_bodies) st = record_bodies(&g, err);
    group_release(&g);
    pl_free(wanted);
    return st;
}

/* If the graph that was made changes the outputs, records again with another one. */
static pl_status record_optimized(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    for (;;) {
        PL_TRY(record_once(p, args, err));
        if (!args->record->differs || (p->split.n_bytes == 0 && !p->widens)) return PL_OK;
        pl_ort_record_close(p);
        (void)make_otherwise(p);
        PL_TRY(list_values(p, err));
        *args->record = (plumb_record_info){ 0 };
    }
}

/* Records one group of the original model; halves it if it changes the outputs or cannot be
 * compiled. */
static pl_status record_half(group *g, pl_bytes bytes, const pl_ort_watch *watched, size_t n,
                             pl_err *err) {
    void *session = NULL;
    if (n == 0) return PL_OK;
    pl_status st = open_showing(g->p, bytes, g->p->ort->level, watched, n, &session, NULL);
    bool fine = false;
    if (st == PL_OK) {
        st = run_group(g, session, watched, n, err);
        g->p->ort->env.api.ReleaseSession(session);
        PL_TRY(st);
        fine = g->identical;
    }
    if (fine) return PL_OK;
    if (n == 1) {
        if (session == NULL) {
            g->args->record->n_hidden++;
        } else {
            g->args->record->n_disturbed++;
        }
        return PL_OK;
    }
    PL_TRY(record_half(g, bytes, watched, n / 2, err));
    return record_half(g, bytes, watched + n / 2, n - n / 2, err);
}

static pl_status record_groups(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    const pl_bytes bytes = { p->source.onnx, p->source.n_onnx };
    pl_ort_watch *all = NULL;
    size_t n_all = 0, done = 0;
    group g = { 0 };
    pl_status st = PL_OK;
    PL_TRY(load_original(p, err));
    PL_TRY_GOTO(done, st, pl_ort_watch_list(p->original, NULL, &all, &n_all, err));
    const size_t n_hidden = count_bodies(p->original->graph);
    args->record->n_values = n_all + n_hidden;
    args->record->n_hidden = n_hidden;
    const size_t n = pick_wanted(args->hook, all, n_all, all);
    PL_TRY_GOTO(done, st, group_init(&g, p, args, n, err));
    while (done < n && st == PL_OK) {
        const size_t fits = next_group(&g, all + done, n - done, args->memory_limit);
        const size_t size = pl_size_min(fits, GROUP);
        st = record_half(&g, bytes, all + done, size, err);
        done += size;
    }
    /* The caller gets the outputs of a run without recording. */
    if (st == PL_OK) st = run_plain(&g, err);
    if (st == PL_OK) args->record->differs = !g.identical;
done:
    group_release(&g);
    pl_free(all);
    return st;
}

pl_status pl_ort_record(pl_ort_program *p, const plumb_run_args *args, pl_err *err) {
    *args->record = (plumb_record_info){ 0 };
    return args->mode == MODE_OPTIMIZED ? record_optimized(p, args, err)
                                        : record_groups(p, args, err);
}
