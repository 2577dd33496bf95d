/* The API of the page: docs/view-server.md has every route with its parameters. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/door.h"
#include "base/json.h"
#include "report/view_slice.h"
#include "tensor/file/npy.h"
#include "view/server_int.h"

enum { RECENT_SHOWN = 20 };

typedef struct recent_session {
    const char *name;
    int64_t when;
} recent_session;

/* ---- parameters ---- */

static pl_status read_int(const char *text, const char **end, int64_t *out, pl_err *err) {
    char *stop = NULL;
    errno = 0;
    const long long x = strtoll(text, &stop, 10);
    if (stop == text || errno != 0)
        return pl_fail(err, PL_E_USAGE, "'%.40s' is not an integer", text);
    *out = x;
    *end = stop;
    return PL_OK;
}

static pl_status query_int(const pl_request *r, const char *key, int64_t otherwise, int64_t *out,
                           pl_err *err) {
    const char *text = pl_request_query(r, key), *end = "";
    *out = otherwise;
    if (text == NULL) return PL_OK;
    PL_TRY(read_int(text, &end, out, err));
    return *end == '\0' ? PL_OK
                        : pl_fail(err, PL_E_USAGE, "%s: '%.40s' is not a number", key, text);
}

/* "1,2,3", at most n numbers; the others stay unchanged. */
static pl_status query_list(const pl_request *r, const char *key, int64_t *out, int n,
                            pl_err *err) {
    const char *text = pl_request_query(r, key);
    if (text == NULL || *text == '\0') return PL_OK;
    for (int i = 0; i < n; i++) {
        PL_TRY(read_int(text, &text, &out[i], err));
        if (*text == '\0') return PL_OK;
        if (*text++ != ',')
            return pl_fail(err, PL_E_USAGE, "%s: expected numbers separated by commas", key);
    }
    return pl_fail(err, PL_E_USAGE, "%s: too many numbers (at most %d)", key, n);
}

/* A sync point, or a weight of the model by its name. `worst`: index of the largest error, -1 when
 * there is none; NULL = not asked for. */
static pl_status open_pair(const pl_request *r, pl_view_pair *pair, int64_t *worst, pl_err *err) {
    const char *weight = pl_request_query(r, "weight");
    pl_viewed *v = r->server->viewed;
    int64_t at = -1;
    if (worst != NULL) *worst = -1;
    if (weight != NULL) return pl_server_open_weight(r->server, weight, pair, err);
    if (v == NULL) return pl_fail(err, PL_E_NOT_FOUND, "no session is open");
    PL_TRY(query_int(r, "point", -1, &at, err));
    if (at < 0) return pl_fail(err, PL_E_USAGE, "missing parameter: point");
    const char *against = pl_request_query(r, "against");
    if (against != NULL && strcmp(against, "replay") == 0) {
        PL_TRY(pl_viewed_replayed(v, (size_t)at, pair, err));
        if (worst != NULL) *worst = pair->replay.worst;
        return PL_OK;
    }
    PL_TRY(pl_viewed_shown(v, (size_t)at, pair, err));
    if (worst != NULL) *worst = pl_view_worst(&pl_viewed_session(v)->points[at]);
    return PL_OK;
}

/* ---- routes ---- */

static pl_status get_session(const pl_request *r, pl_reply *reply, pl_err *err) {
    (void)err;
    if (r->server->viewed == NULL) {
        pl_buf_puts(&reply->body, "null");
    } else {
        pl_buf_append(&reply->body, r->server->session.data, r->server->session.n_bytes);
    }
    return PL_OK;
}

static pl_status get_graph(const pl_request *r, pl_reply *reply, pl_err *err) {
    const char *of = pl_request_query(r, "of");
    pl_viewed *v = r->server->viewed;
    if (of == NULL || strcmp(of, "given") == 0)
        return pl_server_put_model(r->server, pl_request_query(r, "dims"), &reply->body, err);
    if (v == NULL) return pl_fail(err, PL_E_NOT_FOUND, "no session is open");
    if (strcmp(of, "reference") == 0)
        return pl_viewed_put_graph(pl_viewed_reference(v), &reply->body, err);
    if (strcmp(of, "executed") == 0) return pl_executed_get(r->server, &reply->body, err);
    return pl_fail(err, PL_E_USAGE, "graph '%.40s': expected given, executed or reference", of);
}

static pl_status get_stats(const pl_request *r, pl_reply *reply, pl_err *err) {
    pl_view_pair pair = { 0 };
    int64_t worst = -1;
    PL_TRY(open_pair(r, &pair, &worst, err));
    const pl_status st = pl_figures_put(&pair, worst, &reply->body, err);
    pl_view_pair_release(&pair);
    return st;
}

static pl_status read_slice(const pl_request *r, const pl_tensor *t, int64_t worst, pl_slice *s,
                            pl_err *err) {
    const char *mode = pl_request_query(r, "mode");
    int64_t axes[2], at[2] = { 0, 0 }, of[2] = { 0, 0 }, max = 256;
    pl_slice_default(t, worst, s);
    axes[0] = s->row_axis;
    axes[1] = s->col_axis;
    PL_TRY(query_list(r, "axes", axes, 2, err));
    PL_TRY(query_list(r, "index", s->index, PL_RANK_MAX, err));
    PL_TRY(query_list(r, "at", at, 2, err));
    PL_TRY(query_list(r, "of", of, 2, err));
    PL_TRY(query_int(r, "max", 256, &max, err));
    for (int i = 0; i < 2; i++)
        if (axes[i] < -1 || axes[i] >= PL_RANK_MAX)
            return pl_fail(err, PL_E_USAGE, "no axis %lld", (long long)axes[i]);
    s->row_axis = (int)axes[0];
    s->col_axis = (int)axes[1];
    s->row = at[0];
    s->col = at[1];
    s->n_rows = of[0];
    s->n_cols = of[1];
    s->max_rows = s->max_cols = max;
    if (mode != NULL && !pl_reduce_mode_parse(mode, &s->mode))
        return pl_fail(err, PL_E_USAGE, "mode '%.40s': expected max, mean or sample", mode);
    return PL_OK;
}

static pl_status get_slice(const pl_request *r, pl_reply *reply, pl_err *err) {
    pl_view_pair pair = { 0 };
    pl_slice slice = { 0 };
    int64_t worst = -1;
    PL_TRY(open_pair(r, &pair, &worst, err));
    const pl_tensor *t = pl_view_is_numeric(pair.a) ? pair.a : pair.b;
    pl_status st = t == NULL ? pl_fail(err, PL_E_NOT_FOUND, "%s", pair.why)
                             : read_slice(r, t, worst, &slice, err);
    if (st == PL_OK) st = pl_slice_put(&pair, &slice, &reply->body, err);
    pl_view_pair_release(&pair);
    reply->type = "application/octet-stream";
    return st;
}

enum { NPY_MAX = 256 << 20 };

static pl_status get_npy(const pl_request *r, pl_reply *reply, pl_err *err) {
    const char *side = pl_request_query(r, "side");
    pl_view_pair pair = { 0 };
    if (side == NULL || (strcmp(side, "a") != 0 && strcmp(side, "b") != 0))
        return pl_fail(err, PL_E_USAGE, "missing parameter: side (a or b)");
    PL_TRY(open_pair(r, &pair, NULL, err));
    const pl_tensor *t = *side == 'a' ? pair.a : pair.b;
    pl_status st = PL_OK;
    if (t == NULL) {
        st = pl_fail(err, PL_E_NOT_FOUND, "%s", pair.why);
    } else if (pl_tensor_bytes(t) > NPY_MAX) {
        st = pl_fail(err, PL_E_LIMIT, "the tensor has %zu bytes; the page can download at most %d",
                     pl_tensor_bytes(t), NPY_MAX);
    } else {
        st = pl_npy_write(&reply->body, t, err);
    }
    pl_view_pair_release(&pair);
    reply->type = "application/octet-stream";
    reply->name = *side == 'a' ? "a.npy" : "b.npy";
    return st;
}

static pl_status get_source(const pl_request *r, pl_reply *reply, pl_err *err) {
    const char *file = pl_request_query(r, "file");
    int64_t line = 1;
    PL_TRY(query_int(r, "line", 1, &line, err));
    if (r->server->source == NULL || file == NULL || line < 1 || line > 100000000)
        return pl_fail(err, PL_E_NOT_FOUND, "no folder of source files was given");
    return pl_viewed_put_source(r->server->source, file, (long)line, &reply->body, err);
}

static pl_status get_notes(const pl_request *r, pl_reply *reply, pl_err *err) {
    return pl_notes_get(r->server, &reply->body, err);
}

/* Accepted divergences, as a file for a baseline; manual pairs, for a map. */
static pl_status get_baseline(const pl_request *r, pl_reply *reply, pl_err *err) {
    reply->name = "baseline.json";
    return pl_notes_put_baseline(r->server, &reply->body, err);
}

static pl_status get_map(const pl_request *r, pl_reply *reply, pl_err *err) {
    reply->name = "map.json";
    return pl_notes_put_map(r->server, &reply->body, err);
}

static pl_status get_files(const pl_request *r, pl_reply *reply, pl_err *err) {
    return pl_files_get(r->server, pl_request_query(r, "path"), &reply->body, err);
}

static pl_status get_table(const pl_request *r, pl_reply *reply, pl_err *err) {
    (void)err;
    pl_table_get(r->server, &reply->body);
    return PL_OK;
}

static pl_status get_emitted(const pl_request *r, pl_reply *reply, pl_err *err) {
    return pl_emitted_get(r->server, &reply->body, err);
}

static int by_age(const void *a, const void *b) {
    const recent_session *x = a, *y = b;
    return x->when < y->when ? 1 : x->when > y->when ? -1 : 0;
}

/* Sessions in plumb-out, where those started from the page are saved, newest first. */
static void put_recent(pl_json *j) {
    recent_session *found = NULL;
    pl_dir_list list = { 0 };
    pl_dir *dir = NULL;
    size_t n = 0;
    pl_json_key(j, "recent");
    pl_json_array_begin(j);
    if (pl_dir_open(PL_SESSIONS_DIR, &dir, NULL) == PL_OK &&
        pl_dir_names(dir, ".", &list, NULL) == PL_OK) {
        found = pl_calloc(list.n_names + 1, sizeof *found);
        for (size_t i = 0; i < list.n_names && found != NULL; i++) {
            int64_t when = 0;
            char path[512];
            const int length = snprintf(path, sizeof path, "%s/session.json", list.names[i]);
            if (list.names[i][0] == '.' || length >= (int)sizeof path ||
                !pl_dir_when(dir, path, &when))
                continue;
            found[n++] = (recent_session){ list.names[i], when };
        }
        if (n > 1) qsort(found, n, sizeof *found, by_age);
        for (size_t i = 0; i < n && i < RECENT_SHOWN; i++) {
            pl_json_array_begin(j);
            pl_json_string(j, found[i].name);
            pl_json_int(j, found[i].when);
            pl_json_array_end(j);
        }
        pl_dir_list_free(&list);
    }
    pl_dir_close(dir);
    pl_free(found);
    pl_json_array_end(j);
}

/* The choices for setting up a comparison. */
static pl_status get_setup(const pl_request *r, pl_reply *reply, pl_err *err) {
    const pl_server *s = r->server;
    const pl_session *session = s->viewed != NULL ? pl_viewed_session(s->viewed) : NULL;
    pl_json j;
    (void)err;
    pl_json_init(&j, &reply->body, false);
    pl_json_object_begin(&j);
    pl_json_put_bool(&j, "offered", s->program != NULL);
    pl_json_put_string(&j, "model",
                       s->model != NULL  ? s->model
                       : session != NULL ? session->model_path
                                         : "");
    pl_json_put_string(&j, "a", session != NULL ? session->a.spec : "");
    pl_json_put_string(&j, "b", session != NULL ? session->b.spec : "");
    pl_json_put_string(&j, "session", s->viewed != NULL ? pl_viewed_path(s->viewed) : "");
    pl_json_put_string(&j, "a_path", session != NULL ? session->a.path : "");
    pl_json_put_string(&j, "b_path", session != NULL ? session->b.path : "");
    pl_json_put_bool(&j, "noted", pl_notes_any(s));
    pl_json_put_bool(&j, "running", pl_job_is_running(s));
    put_recent(&j);
    pl_json_object_end(&j);
    /* The list is already JSON: it replaces the closing brace. */
    if (pl_buf_ok(&reply->body)) {
        reply->body.n_bytes--;
        pl_buf_puts(&reply->body, ",\"backends\":");
        pl_backends_put_json(false, &reply->body); /* looking starts no browser */
        pl_buf_puts(&reply->body, "}");
    }
    return PL_OK;
}

pl_status pl_api_check_page(const pl_request *r, pl_err *err) {
    int64_t serial = 0;
    PL_TRY(query_int(r, "session", r->server->serial, &serial, err));
    if (serial == r->server->serial) return PL_OK;
    return pl_fail(err, PL_E_EXISTS, "another session is open now; reload the page");
}

pl_status pl_api_get(const pl_request *r, const char *path, pl_reply *reply, pl_err *err) {
    static const struct {
        const char *path;
        pl_status (*answer)(const pl_request *, pl_reply *, pl_err *);
    } routes[] = {
        { "/api/session", get_session }, { "/api/graph", get_graph },
        { "/api/stats", get_stats },     { "/api/slice", get_slice },
        { "/api/npy", get_npy },         { "/api/source", get_source },
        { "/api/notes", get_notes },     { "/api/setup", get_setup },
        { "/api/emitted", get_emitted }, { "/api/baseline", get_baseline },
        { "/api/map", get_map },         { "/api/files", get_files },
        { "/api/table", get_table },
    };
    PL_TRY(pl_api_check_page(r, err));
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(path, routes[i].path) == 0) return routes[i].answer(r, reply, err);
    return pl_fail(err, PL_E_NOT_FOUND, "not found: '%.100s'", path);
}
