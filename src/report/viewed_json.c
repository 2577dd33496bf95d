/* A session for the page: column names once, an array for each sync point; repeated data (types and
 * shapes, limits) is in tables, and numbers have eight digits. It is a twentieth of session.json,
 * because 100,000 points must load quickly. Colours and limits of every metric are computed here,
 * so that the page has no rules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/strmap.h"
#include "report/viewed.h"
#include "session/columns.h"
#include "session/lost_calls.h"
#include "store/recorder.h"

enum { VIEW_FORMAT = 2, HASH_SHOWN = 12 };
enum {
    IS_INPUT = 1,
    IS_OUTPUT = 2,
    IS_ACCEPTED = 4,
    HAS_MATCH = 8,
    IS_MEASURED = 16,
    HAS_ZERO = 32,
    IS_FAILING = 64,
    HAS_WRONG_MODEL = 128
};

/* For a cosine, the distance from 1 matters. */
static void put_number(pl_json *j, double x) {
    char digits[32];
    if (isnan(x)) {
        pl_json_null(j);
    } else if (isinf(x) || x == 0 || (x < 1 && x > 1 - 1e-4)) {
        pl_json_double(j, x);
    } else {
        (void)snprintf(digits, sizeof digits, "%.8g", x);
        pl_json_double(j, strtod(digits, NULL));
    }
}

/* ---- tables of repeated strings ---- */

typedef struct table {
    pl_strmap numbers; /* text of a row to its number + 1 */
    pl_arena *arena;
    pl_buf rows; /* JSON, with commas */
    size_t n_rows;
} table;

typedef struct writer {
    const pl_session *session;
    table sides, limits;
} writer;

/* The number of a row (JSON text), which is added if new. */
static void put_row(pl_json *j, table *t, const pl_buf *row) {
    const uintptr_t known = (uintptr_t)pl_strmap_get(&t->numbers, pl_buf_str(row));
    if (!pl_buf_ok(row) || known > 0) {
        if (!pl_buf_ok(row)) j->buf->failed = true;
        pl_json_int(j, (int64_t)known - 1);
        return;
    }
    const char *key = t->arena == NULL ? NULL : pl_arena_strdup(t->arena, pl_buf_str(row));
    if (key == NULL || pl_strmap_put(&t->numbers, key, (void *)(uintptr_t)(t->n_rows + 1)) != 0)
        j->buf->failed = true;
    if (t->n_rows > 0) pl_buf_putc(&t->rows, ',');
    pl_buf_append(&t->rows, row->data, row->n_bytes);
    pl_json_int(j, (int64_t)t->n_rows++);
}

static void table_release(table *t) {
    pl_strmap_release(&t->numbers);
    pl_buf_release(&t->rows);
    pl_arena_free(t->arena);
}

static void put_keyed(pl_json *j, const char *key, double x) {
    pl_json_key(j, key);
    put_number(j, x);
}

/* [dtype, shape, strides, offset, flags, kept] */
static void put_side_row(pl_json *j, const pl_side *s) {
    pl_json_array_begin(j);
    pl_json_string(j, pl_dtype_name(s->dtype));
    pl_json_ints(j, s->dims, (size_t)s->rank);
    pl_json_ints(j, s->strides, (size_t)s->rank);
    pl_json_int(j, s->offset);
    pl_json_array_begin(j);
    for (unsigned i = 0; i < PL_RECORD_FLAGS; i++)
        if ((s->flags >> i & 1u) != 0) pl_json_string(j, pl_record_flag_name(1u << i));
    pl_json_array_end(j);
    pl_json_bool(j, s->blob != NULL || s->key != NULL);
    pl_json_array_end(j);
}

/* [number of its row in "sides", first digits of the hash or null] */
static void put_side(pl_json *j, writer *w, const pl_side *s) {
    char hex[PL_HASH128_HEX];
    pl_buf text = PL_BUF_INIT;
    pl_json row;
    if (!s->present) {
        pl_json_null(j);
        return;
    }
    pl_json_init(&row, &text, false);
    put_side_row(&row, s);
    pl_json_array_begin(j);
    put_row(j, &w->sides, &text);
    pl_hash128_hex(s->hash, hex);
    hex[HASH_SHOWN] = '\0';
    pl_json_string(j, s->has_hash ? hex : NULL);
    pl_json_array_end(j);
    pl_buf_release(&text);
}

static void put_a(pl_json *j, writer *w, const pl_sync_point *p) {
    put_side(j, w, &p->a);
}

static void put_b(pl_json *j, writer *w, const pl_sync_point *p) {
    put_side(j, w, &p->b);
}

static char colour_letter(pl_colour c) {
    return c == PL_GREEN ? 'g' : c == PL_YELLOW ? 'y' : c == PL_RED ? 'r' : '-';
}

/* For the session's own metric, the colour stored in the session; a pair without colour (not
 * measured, structural) has none for any metric. */
static void put_colours(pl_json *j, writer *w, const pl_sync_point *p) {
    const pl_session *s = w->session;
    pl_buf letters = PL_BUF_INIT;
    for (size_t i = 0; i < pl_n_metrics; i++) {
        const bool own = !p->measured || strcmp(pl_metrics[i].name, s->metric) == 0;
        pl_buf_putc(&letters, colour_letter(own ? p->colour
                                                : pl_metric_colour(&pl_metrics[i], &p->acc,
                                                                   p->precision, NULL)));
    }
    for (size_t i = 0; i < s->n_user_metrics; i++)
        pl_buf_putc(&letters, colour_letter(p->colour));
    if (!pl_buf_ok(&letters)) j->buf->failed = true;
    pl_json_string(j, pl_buf_str(&letters));
    pl_buf_release(&letters);
}

static void put_limits_row(pl_json *j, const pl_session *s, const pl_sync_point *p) {
    pl_json_array_begin(j);
    for (size_t i = 0; p->measured && i < pl_n_metrics; i++) {
        const pl_metric *m = &pl_metrics[i];
        const bool is_own = strcmp(m->name, s->metric) == 0;
        pl_metric_limits limits = p->limits;
        if (!is_own) (void)pl_metric_colour(m, &p->acc, p->precision, &limits);
        const char *of = is_own ? pl_sync_point_limits_of(s, p)
                                : pl_metric_judged_by(m, &p->acc, p->precision)->name;
        if (!limits.known || strcmp(of, m->name) != 0) { /* limits of another metric */
            pl_json_null(j);
            continue;
        }
        pl_json_array_begin(j);
        put_number(j, limits.green);
        put_number(j, limits.yellow);
        pl_json_array_end(j);
    }
    pl_json_array_end(j);
}

static void put_limits(pl_json *j, writer *w, const pl_sync_point *p) {
    pl_buf text = PL_BUF_INIT;
    pl_json row;
    pl_json_init(&row, &text, false);
    put_limits_row(&row, w->session, p);
    put_row(j, &w->limits, &text);
    pl_buf_release(&text);
}

static void put_metrics(pl_json *j, writer *w, const pl_sync_point *p) {
    const pl_session *s = w->session;
    pl_json_array_begin(j);
    for (size_t i = 0; i < pl_n_metrics; i++)
        put_number(j, p->measured ? pl_metrics[i].value(&p->acc) : (double)NAN);
    for (size_t i = 0; i < s->n_user_metrics; i++)
        put_number(j, p->user_metrics != NULL ? p->user_metrics[i] : (double)NAN);
    pl_json_array_end(j);
}

/* [NaN, Inf] on one side only, which metrics do not count. */
static void put_nonfinite(pl_json *j, writer *w, const pl_sync_point *p) {
    const int64_t n_nan = p->acc.n_nan_a + p->acc.n_nan_r;
    const int64_t n_inf = p->acc.n_inf_a + p->acc.n_inf_r + p->acc.n_inf_sign;
    (void)w;
    if (!p->measured || n_nan + n_inf == 0) {
        pl_json_null(j);
        return;
    }
    pl_json_array_begin(j);
    pl_json_int(j, n_nan);
    pl_json_int(j, n_inf);
    pl_json_array_end(j);
}

static void put_flags(pl_json *j, writer *w, const pl_sync_point *p) {
    (void)w;
    pl_json_int(j, (p->is_input ? IS_INPUT : 0) | (p->is_output ? IS_OUTPUT : 0) |
                       (p->accepted ? IS_ACCEPTED : 0) | (p->metadata_match ? HAS_MATCH : 0) |
                       (p->measured ? IS_MEASURED : 0) |
                       (p->measured && pl_accumulators_zero_reference(&p->acc) ? HAS_ZERO : 0) |
                       (p->fails ? IS_FAILING : 0) | (p->model_wrong ? HAS_WRONG_MODEL : 0));
}

static void put_counterpart(pl_json *j, writer *w, const pl_sync_point *p) {
    (void)w;
    pl_json_string(j, strcmp(p->counterpart, p->value) == 0 ? NULL : p->counterpart);
}

static void put_worst(pl_json *j, writer *w, const pl_sync_point *p) {
    (void)w;
    pl_json_int(j, pl_view_worst(p));
}

/* Columns that columns.def marks as OWN. */
typedef void (*put_own)(pl_json *j, writer *w, const pl_sync_point *p);
#define PUT_NO(name) NULL
#define PUT_YES(name) NULL
#define PUT_OWN(name) put_##name
static const put_own own_columns[PL_N_COLUMNS] = {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning) PUT_##PAGE(name),
#include "session/columns.def"
#undef PL_COLUMN
};

static void put_column(pl_json *j, const pl_column *c, const pl_sync_point *p) {
    switch (c->kind) {
    case PL_COLUMN_TEXT:
    case PL_COLUMN_NAME: pl_json_string(j, pl_column_text(c, p)); return;
    case PL_COLUMN_NUMBER: put_number(j, pl_column_number(c, p)); return;
    case PL_COLUMN_INTEGER: pl_json_int(j, pl_column_integer(c, p)); return;
    case PL_COLUMN_FLAG: pl_json_bool(j, pl_column_flag(c, p)); return;
    case PL_COLUMN_OWN: return;
    }
}

static void put_point(pl_json *j, writer *w, const pl_sync_point *p) {
    pl_json_array_begin(j);
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        if (pl_columns[i].page == PL_COLUMN_IS_YES) put_column(j, &pl_columns[i], p);
        if (own_columns[i] != NULL) own_columns[i](j, w, p);
    }
    pl_json_array_end(j);
}

static void put_metric_table(pl_json *j, const pl_session *s) {
    pl_json_key(j, "metrics");
    pl_json_array_begin(j);
    for (size_t i = 0; i < pl_n_metrics + s->n_user_metrics; i++) {
        const bool own = i < pl_n_metrics;
        const pl_user_metric *user = own ? NULL : &s->user_metrics[i - pl_n_metrics];
        pl_json_object_begin(j);
        pl_json_put_string(j, "name", own ? pl_metrics[i].name : user->name);
        pl_json_put_string(j, "long", own ? pl_metrics[i].long_name : user->name);
        pl_json_put_string(j, "unit", own ? pl_metrics[i].unit : user->unit);
        pl_json_put_bool(j, "higher",
                         (own ? pl_metrics[i].direction : user->direction) == PL_HIGHER_IS_BETTER);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
    pl_json_key(j, "verdicts");
    pl_json_object_begin(j);
    for (int i = 0; i < PL_VERDICT_COUNT; i++) {
        const char letter[2] = { pl_verdict_letter((pl_verdict)i), '\0' };
        pl_json_put_string(j, pl_verdict_name((pl_verdict)i), letter);
    }
    pl_json_object_end(j);
}

static void put_lists(pl_json *j, const pl_session *s) {
    pl_session_put_left_over(j, s);
    pl_session_put_notes(j, s);
    pl_json_key(j, "timing");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_timing; i++) {
        pl_json_array_begin(j);
        pl_json_string(j, s->timing[i].phase);
        pl_json_double(j, s->timing[i].seconds);
        pl_json_array_end(j);
    }
    pl_json_array_end(j);
}

static void put_head(pl_json *j, const pl_session *s) {
    pl_json_put_int(j, "format", VIEW_FORMAT);
    pl_json_put_string(j, "plumb", PLUMB_VERSION);
    pl_json_put_string(j, "verdict", pl_outcome_name(s->outcome));
    pl_json_put_string(j, "at_fault", s->at_fault);
    pl_lost_calls_put_json(s, j);
    pl_session_put_coverage(j, s);
    pl_json_put_string(j, "reason", s->reason);
    pl_json_put_string(j, "created", s->created);
    pl_json_key(j, "model");
    pl_json_object_begin(j);
    pl_json_put_string(j, "path", s->model_path);
    pl_json_put_string(j, "hash", s->model_hash);
    pl_json_put_int(j, "nodes", (int64_t)s->model_nodes);
    pl_json_object_end(j);
    pl_session_put_side(j, "a", &s->a);
    pl_session_put_side(j, "b", &s->b);
    pl_json_put_bool(j, "observer_effect", s->observer_effect);
    pl_json_put_string(j, "observer_note", s->observer_note);
    pl_json_put_int(j, "samples", (int64_t)s->n_samples);
    pl_json_put_string(j, "metric", s->metric);
    pl_json_put_string(j, "profile", s->profile);
    put_keyed(j, "tol", s->tol);
    pl_json_put_string(j, "first_divergence", s->first_divergence);
    pl_json_put_int(j, "replayed", (int64_t)s->n_replayed);
    pl_json_put_int(j, "unreplayed", (int64_t)s->n_unreplayed);
    pl_json_put_int(j, "peak_rss", s->peak_rss);
}

static void put_points(pl_json *j, writer *w) {
    const pl_session *s = w->session;
    pl_json_key(j, "columns");
    pl_json_array_begin(j);
    for (size_t i = 0; i < PL_N_COLUMNS; i++)
        if (pl_columns[i].page != PL_COLUMN_IS_NO) pl_json_string(j, pl_columns[i].name);
    pl_json_array_end(j);
    pl_json_key(j, "points");
    pl_json_array_begin(j);
    for (size_t i = 0; i < s->n_points; i++)
        put_point(j, w, &s->points[i]);
    pl_json_array_end(j);
}

void pl_viewed_put_session(const pl_viewed *v, pl_buf *out) {
    writer w = { .session = pl_viewed_session(v) };
    const pl_session *s = w.session;
    pl_json json, *j = &json;
    w.sides.arena = pl_arena_new();
    w.limits.arena = pl_arena_new();
    pl_json_init(j, out, false);
    pl_json_object_begin(j);
    put_head(j, s);
    pl_json_put_bool(j, "has_reference", pl_viewed_reference(v) != NULL);
    put_metric_table(j, s);
    pl_session_put_blame(j, s);
    put_lists(j, s);
    put_points(j, &w);
    pl_json_object_end(j);
    /* The tables are complete only now: they replace the closing brace. */
    if (!pl_buf_ok(&w.sides.rows) || !pl_buf_ok(&w.limits.rows)) out->failed = true;
    if (pl_buf_ok(out)) {
        out->n_bytes--;
        pl_buf_puts(out, ",\"sides\":[");
        pl_buf_append(out, w.sides.rows.data, w.sides.rows.n_bytes);
        pl_buf_puts(out, "],\"limits\":[");
        pl_buf_append(out, w.limits.rows.data, w.limits.rows.n_bytes);
        pl_buf_puts(out, "]}");
    }
    table_release(&w.sides);
    table_release(&w.limits);
}
