/* plumb_analyze_many and plumb_sessions_write: one analysis for each backend, then one table. */
#include "flows/api/many.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/strmap.h"
#include "metric/accumulate.h"

enum { BACKENDS_MAX = 64 };
#define NEARER 0.1

/* ---- rows ---- */

static plumb_sync_point point_at(const plumb_session *s, size_t i) {
    plumb_sync_point p = { .size = sizeof(p) };
    (void)plumb_session_point(s, i, &p);
    return p;
}

/* The values of all sessions, each list in the model's order: a value that the rows lack goes after
 * the one that precedes it in its session. */
static pl_status merge_values(pl_many *m, pl_err *err) {
    size_t most = 0;
    for (size_t k = 0; k < m->n; k++)
        most += plumb_session_points(m->sessions[k]);
    m->values = pl_arena_array(m->arena, most + 1, sizeof(*m->values));
    if (m->values == NULL) return pl_fail_memory(err, most);
    for (size_t k = 0; k < m->n; k++) {
        size_t at = 0;
        for (size_t i = 0; i < plumb_session_points(m->sessions[k]); i++) {
            const plumb_sync_point p = point_at(m->sessions[k], i);
            size_t row = 0;
            while (row < m->n_values && strcmp(m->values[row].value, p.value) != 0)
                row++;
            if (row == m->n_values) {
                row = at;
                memmove(&m->values[row + 1], &m->values[row],
                        (m->n_values - row) * sizeof(*m->values));
                size_t *point = pl_arena_array(m->arena, m->n, sizeof(*point));
                if (point == NULL) return pl_fail_memory(err, m->n);
                for (size_t j = 0; j < m->n; j++)
                    point[j] = PLUMB_NONE;
                m->values[row] = (pl_many_value){ p.value, p.op, p.is_output != 0, point };
                m->n_values++;
            }
            m->values[row].point[k] = i;
            at = row + 1;
        }
    }
    return PL_OK;
}

/* ---- who agrees with whom ---- */

bool pl_many_is_bad(const char *verdict) {
    static const char *const bad[] = { "culprit", "inherited", "amplified", "mismatch" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (strcmp(verdict, bad[i]) == 0) return true;
    return false;
}

/* Is this backend off at the value? One that agrees as a whole is not: what its precision profile
 * allows may be far from the reference. */
static bool is_off(const pl_many *m, size_t k, const pl_many_value *v) {
    return v->point[k] != PLUMB_NONE &&
           strcmp(plumb_session_verdict(m->sessions[k]), "agree") != 0 &&
           pl_many_is_bad(point_at(m->sessions[k], v->point[k]).verdict);
}

/* rms of a - b; NAN when they cannot be compared. */
static double distance(const pl_tensor *a, const pl_tensor *b) {
    pl_accumulators acc;
    if (a == NULL || b == NULL || !pl_tensor_same_shape(a, b) ||
        pl_accumulate(NULL, a, b, &acc, NULL) != PL_OK || acc.n_finite == 0)
        return (double)NAN;
    return ldexp(sqrt(acc.sum_sq / (double)acc.n_finite), (int)acc.d_scale);
}

static pl_tensor *tensor_of(const plumb_session *s, const char *value, const char *side) {
    plumb_tensor *t = NULL;
    return plumb_session_tensor(s, value, side, &t, NULL) == PLUMB_OK ? (pl_tensor *)t : NULL;
}

/* Backends that are closest to backend `first` at this value. */
static pl_status group_at(pl_many *m, const pl_many_value *v, size_t first, pl_err *err) {
    pl_tensor *a = tensor_of(m->sessions[first], v->value, "a");
    pl_tensor *b = tensor_of(m->sessions[first], v->value, "b");
    const double off = distance(a, b);
    pl_many_group g = { .value = v->value, .op = v->op, .n_in = 1 };
    g.in = pl_arena_array(m->arena, m->n, sizeof(bool));
    if (g.in == NULL) {
        pl_tensor_unref(a);
        pl_tensor_unref(b);
        return pl_fail_memory(err, m->n);
    }
    g.in[first] = true;
    for (size_t k = first + 1; k < m->n && off > 0; k++) {
        if (!is_off(m, k, v)) continue;
        pl_tensor *other = tensor_of(m->sessions[k], v->value, "a");
        g.in[k] = distance(other, a) <= NEARER * fmin(off, distance(other, b));
        g.n_in += g.in[k];
        pl_tensor_unref(other);
    }
    pl_tensor_unref(a);
    pl_tensor_unref(b);
    if (g.n_in > 1) m->group = g;
    return PL_OK;
}

static pl_status find_group(pl_many *m, pl_err *err) {
    for (size_t i = 0; i < m->n_values && m->group.n_in == 0; i++) {
        const pl_many_value *v = &m->values[i];
        for (size_t k = 0; k + 1 < m->n && m->group.n_in == 0; k++)
            if (is_off(m, k, v)) PL_TRY(group_at(m, v, k, err));
    }
    return PL_OK;
}

pl_status pl_many_init(pl_many *m, const plumb_session *const *sessions, size_t n, pl_err *err) {
    *m = (pl_many){ .sessions = sessions, .n = n, .arena = pl_arena_new() };
    if (m->arena == NULL) return pl_fail_memory(err, 1);
    pl_status st = merge_values(m, err);
    if (st == PL_OK) st = find_group(m, err);
    if (st != PL_OK) pl_many_release(m);
    return st;
}

void pl_many_release(pl_many *m) {
    pl_arena_free(m->arena);
    *m = (pl_many){ 0 };
}

/* ---- plumb.h ---- */

static pl_status check_backends(const char *const *backends, size_t n, pl_err *err) {
    if (n < 1 || n > BACKENDS_MAX)
        return pl_fail(err, PL_E_USAGE, "%zu backends, expected 1 to %d", n, (int)BACKENDS_MAX);
    for (size_t i = 0; i < n; i++) {
        PL_REQUIRE(backends[i]);
        for (size_t k = 0; k < i; k++)
            if (strcmp(backends[i], backends[k]) == 0)
                return pl_fail(err, PL_E_USAGE, "backend '%s' is given twice", backends[i]);
    }
    return PL_OK;
}

/* Names and options of all, before the first one runs. */
static pl_status open_backends(const plumb_analyze_options *o, const char *const *backends,
                               size_t n, pl_err *err) {
    for (size_t i = 0; i < n; i++) {
        pl_backend *b = NULL;
        pl_err why = PL_ERR_INIT;
        const pl_backend_options options =
            pl_backend_options_for(backends[i], o->timeout, o->memory_limit);
        const pl_status st = pl_backend_open(backends[i], &options, &b, &why);
        pl_backend_close(b);
        if (st == PL_E_USAGE || st == PL_E_NOT_FOUND) return pl_fail(err, st, "%s", why.message);
    }
    return PL_OK;
}

static pl_status write_table(const plumb_session *const *sessions, size_t n, const char *folder,
                             pl_err *err) {
    char *text = NULL, *file = pl_path_join(folder, "many.json");
    plumb_write_options write;
    plumb_write_options_init(&write);
    write.format = "json";
    pl_status st = file == NULL ? pl_fail_memory(err, 1)
                                : plumb_sessions_write(sessions, n, &write, &text, err);
    if (st == PL_OK) st = pl_file_write(file, text, strlen(text), err);
    plumb_free(text);
    pl_free(file);
    return st;
}

plumb_status plumb_analyze_many(plumb_model *model, const plumb_analyze_options *options,
                                const char *const *backends, size_t n, plumb_session **out,
                                plumb_error *err) {
    plumb_analyze_options o;
    PL_REQUIRE(out);
    for (size_t i = 0; i < n && n <= BACKENDS_MAX; i++)
        out[i] = NULL;
    PL_REQUIRE(model);
    PL_REQUIRE(backends);
    PL_TRY(check_backends(backends, n, err));
    PL_TRY(pl_options_read(PLUMB_OPTIONS_ANALYZE, options, &o, err));
    const char *folder = o.output;
    if (folder != NULL && pl_path_exists(folder))
        return pl_fail(err, PL_E_EXISTS, "'%s' already exists", folder);
    PL_TRY(open_backends(&o, backends, n, err));
    if (folder != NULL) PL_TRY(pl_path_make_dirs(folder, err));
    for (size_t i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof(name), "%zu", i + 1);
        char *own = folder == NULL ? NULL : pl_path_join(folder, name);
        if (folder != NULL && own == NULL) return pl_fail_memory(err, 1);
        o.backend = backends[i];
        o.output = own;
        const pl_status st = plumb_analyze(model, &o, &out[i], err);
        pl_free(own);
        if (st != PL_OK) return pl_err_wrap(err, st, "backend '%s'", backends[i]);
    }
    return folder == NULL ? PLUMB_OK
                          : write_table((const plumb_session *const *)out, n, folder, err);
}

int plumb_sessions_exit_code(const plumb_session *const *sessions, size_t n) {
    static const int worst_first[] = { 3, 1, 2 };
    for (size_t w = 0; sessions != NULL && w < 3; w++)
        for (size_t i = 0; i < n; i++)
            if (plumb_session_exit_code(sessions[i]) == worst_first[w]) return worst_first[w];
    return 0;
}

plumb_status plumb_sessions_write(const plumb_session *const *sessions, size_t n,
                                  const plumb_write_options *options, char **text,
                                  plumb_error *err) {
    plumb_write_options own;
    pl_session_print_options print;
    pl_buf out = PL_BUF_INIT;
    pl_many m;
    PL_REQUIRE(text);
    *text = NULL;
    PL_REQUIRE(sessions);
    for (size_t i = 0; i < n; i++)
        PL_REQUIRE(sessions[i]);
    PL_TRY(pl_write_read(options, &own, &print, err));
    const char *metric = print.metric == NULL ? "psnr" : print.metric;
    const char *format = print.format == NULL ? "text" : print.format;
    const bool json = strcmp(format, "json") == 0, md = strcmp(format, "md") == 0;
    if (!json && !md && strcmp(format, "text") != 0)
        return pl_fail(err, PL_E_USAGE,
                       "format '%s' has no table of several backends; available: "
                       "text, json, md",
                       format);
    PL_TRY(pl_many_init(&m, sessions, n, err));
    if (json) {
        pl_many_put_json(&m, metric, &out);
    } else if (md) {
        pl_many_put_md(&m, metric, print.limit, &out);
    } else {
        pl_many_put_text(&m, metric, print.limit, &out);
    }
    pl_many_release(&m);
    const pl_status st = pl_api_text_take(&out, text, err);
    pl_buf_release(&out);
    return st;
}
