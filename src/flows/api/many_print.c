/* Several backends side by side, as text, Markdown and JSON: a row for each value, a column for
 * each backend. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/count.h"
#include "base/escape.h"
#include "base/json.h"
#include "flows/api/many.h"
#include "report/format.h"

static plumb_side_info side_of(const plumb_session *s, char side) {
    plumb_side_info i = { .size = sizeof(i) };
    (void)plumb_session_side(s, side, &i);
    return i;
}

static plumb_session_summary summary_of(const plumb_session *s) {
    plumb_session_summary x = { .size = sizeof(x) };
    (void)plumb_session_get(s, &x);
    return x;
}

/* "148.8 within" of backend k; "-" where it showed no such value. */
static void put_cell(const pl_many *m, const pl_many_value *v, size_t k, const char *metric,
                     char *out, size_t n_out) {
    plumb_sync_point p = { .size = sizeof(p) };
    char number[40];
    if (v->point[k] == PLUMB_NONE || !plumb_session_point(m->sessions[k], v->point[k], &p)) {
        snprintf(out, n_out, "-");
        return;
    }
    pl_metric_text(plumb_session_metric(m->sessions[k], v->point[k], metric), number,
                   sizeof(number));
    snprintf(out, n_out, "%.30s %.30s", number, p.verdict);
}

static const char *reference_of(const pl_many *m) {
    const plumb_side_info b = side_of(m->sessions[0], 'b');
    return b.spec[0] != '\0' ? b.spec : b.path[0] != '\0' ? b.path : "the reference";
}

/* "backends 2 and 3 agree with each other and not with eager at 'e' (Erf)" */
static void put_group(const pl_many *m, pl_buf *out) {
    const pl_many_group *g = &m->group;
    size_t n_said = 0;
    if (g->n_in == 0) return;
    const bool all = g->n_in == m->n;
    pl_buf_printf(out, "%s", all ? "all backends" : "backends ");
    for (size_t k = 0; k < m->n && !all; k++) {
        if (!g->in[k]) continue;
        n_said++;
        pl_buf_printf(out, "%s%zu", n_said == 1 ? "" : n_said == g->n_in ? " and " : ", ", k + 1);
    }
    pl_buf_puts(out, " agree with each other and not with ");
    pl_buf_put_clean(out, reference_of(m));
    pl_buf_puts(out, " at '");
    pl_buf_put_clean(out, g->value);
    pl_buf_puts(out, "' (");
    pl_buf_put_clean(out, g->op);
    pl_buf_puts(out, all ? "): check the reference, too\n" : ")\n");
}

/* Rows with a verdict that some backend should not have come first; the rest in order. */
static bool is_bad(const pl_many *m, const pl_many_value *v) {
    for (size_t k = 0; k < m->n; k++) {
        plumb_sync_point p = { .size = sizeof(p) };
        if (v->point[k] != PLUMB_NONE && plumb_session_point(m->sessions[k], v->point[k], &p) &&
            pl_many_is_bad(p.verdict))
            return true;
    }
    return false;
}

static void put_backend(const pl_many *m, size_t k, pl_buf *out) {
    const plumb_side_info a = side_of(m->sessions[k], 'a');
    const plumb_session_summary s = summary_of(m->sessions[k]);
    plumb_blame b = { .size = sizeof(b) };
    char q[40];
    pl_buf_printf(out, "  %zu  ", k + 1);
    pl_buf_put_clean(out, a.spec);
    pl_buf_printf(out, " %s: %s", a.version, s.verdict);
    for (size_t i = 0; plumb_session_blame(m->sessions[k], i, &b) && i < 3; i++) {
        pl_metric_text(b.q, q, sizeof(q));
        pl_buf_puts(out, i == 0 ? "; blame " : ", ");
        pl_buf_put_clean(out, b.op);
        pl_buf_puts(out, " '");
        pl_buf_put_clean(out, b.value);
        pl_buf_printf(out, "' (q %s)", q);
        b = (plumb_blame){ .size = sizeof(b) };
    }
    if (strcmp(s.verdict, "failed") == 0) {
        pl_buf_puts(out, ": ");
        pl_buf_put_clean(out, s.reason);
    }
    pl_buf_putc(out, '\n');
}

static void put_row(const pl_many *m, const pl_many_value *v, const char *metric, pl_buf *out) {
    char cell[80];
    for (size_t k = 0; k < m->n; k++) {
        put_cell(m, v, k, metric, cell, sizeof(cell));
        pl_buf_printf(out, "  %-18s", cell);
    }
    pl_buf_printf(out, "  ");
    pl_buf_put_clean(out, v->op);
    pl_buf_puts(out, "  ");
    pl_buf_put_clean(out, v->value);
    pl_buf_putc(out, '\n');
}

void pl_many_put_text(const pl_many *m, const char *metric, size_t limit, pl_buf *out) {
    size_t n_shown = 0;
    pl_buf_printf(out, "%zu backend%s against ", m->n, pl_plural(m->n));
    pl_buf_put_clean(out, reference_of(m));
    pl_buf_putc(out, '\n');
    for (size_t k = 0; k < m->n; k++)
        put_backend(m, k, out);
    put_group(m, out);
    pl_buf_printf(out, "\n%s and verdict of each backend; - is not recorded\n", metric);
    for (size_t k = 0; k < m->n; k++)
        pl_buf_printf(out, "  %-18zu", k + 1);
    pl_buf_puts(out, "  op  value\n");
    for (int bad = 1; bad >= 0; bad--)
        for (size_t i = 0; i < m->n_values && (limit == 0 || n_shown < limit); i++) {
            if (is_bad(m, &m->values[i]) != (bad == 1)) continue;
            put_row(m, &m->values[i], metric, out);
            n_shown++;
        }
    if (n_shown < m->n_values) pl_buf_printf(out, "and %zu more\n", m->n_values - n_shown);
}

void pl_many_put_md(const pl_many *m, const char *metric, size_t limit, pl_buf *out) {
    char cell[80];
    pl_buf_puts(out, "| backend | version | verdict | reason |\n|---|---|---|---|\n");
    for (size_t k = 0; k < m->n; k++) {
        const plumb_side_info a = side_of(m->sessions[k], 'a');
        const plumb_session_summary s = summary_of(m->sessions[k]);
        const char *const cells[] = { a.spec, a.version, s.verdict, s.reason };
        for (size_t i = 0; i < 4; i++) {
            pl_buf_puts(out, i == 0 ? "| " : " | ");
            pl_escape_put(out, PL_ESCAPE_MARKDOWN, cells[i]);
        }
        pl_buf_puts(out, " |\n");
    }
    pl_buf_putc(out, '\n');
    put_group(m, out);
    pl_buf_printf(out, "\n| op | value (%s) |", metric);
    for (size_t k = 0; k < m->n; k++)
        pl_buf_printf(out, " %zu |", k + 1);
    pl_buf_puts(out, "\n|---|---|");
    for (size_t k = 0; k < m->n; k++)
        pl_buf_puts(out, "---|");
    pl_buf_putc(out, '\n');
    for (size_t i = 0; i < m->n_values && (limit == 0 || i < limit); i++) {
        pl_buf_puts(out, "| ");
        pl_escape_put(out, PL_ESCAPE_MARKDOWN, m->values[i].op);
        pl_buf_puts(out, " | ");
        pl_escape_put(out, PL_ESCAPE_MARKDOWN, m->values[i].value);
        for (size_t k = 0; k < m->n; k++) {
            put_cell(m, &m->values[i], k, metric, cell, sizeof(cell));
            pl_buf_printf(out, " | %s", cell);
        }
        pl_buf_puts(out, " |\n");
    }
}

/* ---- JSON (docs/formats/many.md) ---- */

static void put_backend_json(const pl_many *m, size_t k, pl_json *j) {
    const plumb_side_info a = side_of(m->sessions[k], 'a');
    const plumb_session_summary s = summary_of(m->sessions[k]);
    plumb_blame b = { .size = sizeof(b) };
    pl_json_object_begin(j);
    pl_json_put_string(j, "spec", a.spec);
    pl_json_put_string(j, "version", a.version);
    pl_json_put_string(j, "device", a.device);
    pl_json_put_string(j, "precision_profile", a.precision_profile);
    pl_json_put_string(j, "verdict", s.verdict);
    pl_json_put_string(j, "reason", s.reason);
    pl_json_put_int(j, "exit_code", s.exit_code);
    pl_json_put_string(j, "session", s.folder);
    pl_json_key(j, "blame");
    pl_json_array_begin(j);
    for (size_t i = 0; plumb_session_blame(m->sessions[k], i, &b); i++) {
        pl_json_object_begin(j);
        pl_json_put_string(j, "node", b.node);
        pl_json_put_string(j, "op", b.op);
        pl_json_put_string(j, "value", b.value);
        pl_json_put_double(j, "q", b.q);
        pl_json_object_end(j);
        b = (plumb_blame){ .size = sizeof(b) };
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

static void put_value_json(const pl_many *m, const pl_many_value *v, const char *metric,
                           pl_json *j) {
    pl_json_object_begin(j);
    pl_json_put_string(j, "value", v->value);
    pl_json_put_string(j, "op", v->op);
    pl_json_put_bool(j, "is_output", v->is_output);
    pl_json_key(j, "of");
    pl_json_array_begin(j);
    for (size_t k = 0; k < m->n; k++) {
        plumb_sync_point p = { .size = sizeof(p) };
        if (v->point[k] == PLUMB_NONE || !plumb_session_point(m->sessions[k], v->point[k], &p)) {
            pl_json_null(j);
            continue;
        }
        pl_json_object_begin(j);
        pl_json_put_string(j, "verdict", p.verdict);
        pl_json_put_string(j, "similarity", p.similarity);
        pl_json_put_double(j, "q", p.q);
        pl_json_put_double(j, metric, plumb_session_metric(m->sessions[k], v->point[k], metric));
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_object_end(j);
}

void pl_many_put_json(const pl_many *m, const char *metric, pl_buf *out) {
    pl_json j;
    pl_json_init(&j, out, true);
    pl_json_object_begin(&j);
    pl_json_put_string(&j, "plumb", plumb_version());
    pl_json_put_string(&j, "model", m->n > 0 ? summary_of(m->sessions[0]).model_path : "");
    pl_json_put_string(&j, "reference", m->n > 0 ? reference_of(m) : "");
    pl_json_put_int(&j, "exit_code", plumb_sessions_exit_code(m->sessions, m->n));
    pl_json_put_string(&j, "metric", metric);
    pl_json_key(&j, "backends");
    pl_json_array_begin(&j);
    for (size_t k = 0; k < m->n; k++)
        put_backend_json(m, k, &j);
    pl_json_array_end(&j);
    pl_json_key(&j, "agree_without_reference");
    if (m->group.n_in == 0) {
        pl_json_null(&j);
    } else {
        pl_json_object_begin(&j);
        pl_json_put_string(&j, "value", m->group.value);
        pl_json_put_string(&j, "op", m->group.op);
        pl_json_key(&j, "backends");
        pl_json_array_begin(&j);
        for (size_t k = 0; k < m->n; k++)
            if (m->group.in[k]) pl_json_int(&j, (int64_t)k);
        pl_json_array_end(&j);
        pl_json_object_end(&j);
    }
    pl_json_key(&j, "values");
    pl_json_array_begin(&j);
    for (size_t i = 0; i < m->n_values; i++)
        put_value_json(m, &m->values[i], metric, &j);
    pl_json_array_end(&j);
    pl_json_object_end(&j);
    pl_buf_putc(out, '\n');
}
