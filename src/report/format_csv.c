/* CSV (RFC 4180): a line for each sync point, a column for each metric. */
#include <math.h>

#include "base/escape.h"
#include "report/format.h"
#include "session/columns.h"

static void put_field(pl_buf *out, const char *s, char after) {
    pl_escape_put(out, PL_ESCAPE_CSV, s);
    pl_buf_putc(out, after);
}

static void put_csv_number(pl_buf *out, double x) {
    if (!isnan(x)) pl_buf_printf(out, "%.17g", x);
    pl_buf_putc(out, ',');
}

static void put_metrics(const pl_session *s, const pl_sync_point *p, pl_buf *out) {
    for (size_t i = 0; i < pl_n_metrics; i++)
        put_csv_number(out, p->measured ? pl_metrics[i].value(&p->acc) : (double)NAN);
    for (size_t i = 0; i < s->n_user_metrics; i++)
        put_csv_number(out, p->user_metrics != NULL ? p->user_metrics[i] : (double)NAN);
}

static void put_reason(const pl_session *s, const pl_sync_point *p, pl_buf *out) {
    (void)s;
    put_field(out, pl_sync_point_reason(p), '\n');
}

/* Columns that columns.def marks as OWN. */
typedef void (*put_own)(const pl_session *s, const pl_sync_point *p, pl_buf *out);
#define PUT_NO(name) NULL
#define PUT_YES(name) NULL
#define PUT_OWN(name) put_##name
#define PUT_LAST(name) put_##name
static const put_own own_columns[PL_N_COLUMNS] = {
#define PL_COLUMN(name, KIND, field, JSON, CSV, PAGE, meaning) PUT_##CSV(name),
#include "session/columns.def"
#undef PL_COLUMN
};

static void put_column(const pl_column *c, const pl_sync_point *p, pl_buf *out) {
    const char *text;
    switch (c->kind) {
    case PL_COLUMN_TEXT:
    case PL_COLUMN_NAME:
        text = pl_column_text(c, p);
        put_field(out, text == NULL ? "" : text, ',');
        return;
    case PL_COLUMN_NUMBER: put_csv_number(out, pl_column_number(c, p)); return;
    case PL_COLUMN_INTEGER: pl_buf_printf(out, "%lld,", (long long)pl_column_integer(c, p)); return;
    case PL_COLUMN_FLAG: pl_buf_puts(out, pl_column_flag(c, p) ? "1," : "0,"); return;
    case PL_COLUMN_OWN: return;
    }
}

static void put_csv_row(const pl_session *s, const pl_sync_point *p, pl_buf *out) {
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        const pl_column *c = &pl_columns[i];
        if (c->csv == PL_COLUMN_IS_YES) put_column(c, p, out);
        if (own_columns[i] != NULL && c->csv != PL_COLUMN_IS_LAST) own_columns[i](s, p, out);
    }
    for (size_t i = 0; i < PL_N_COLUMNS; i++)
        if (own_columns[i] != NULL && pl_columns[i].csv == PL_COLUMN_IS_LAST)
            own_columns[i](s, p, out);
}

static void put_head(const pl_session *s, pl_buf *out) {
    const char *last = "";
    for (size_t i = 0; i < PL_N_COLUMNS; i++) {
        const pl_column *c = &pl_columns[i];
        if (c->csv == PL_COLUMN_IS_LAST) last = c->name;
        if (c->csv == PL_COLUMN_IS_YES) put_field(out, c->name, ',');
        if (i != PL_AT_metrics) continue;
        for (size_t k = 0; k < pl_n_metrics; k++)
            put_field(out, pl_metrics[k].name, ',');
        for (size_t k = 0; k < s->n_user_metrics; k++)
            put_field(out, s->user_metrics[k].name, ',');
    }
    put_field(out, last, '\n');
}

void pl_format_csv(const pl_session_view *v, pl_buf *out) {
    const pl_session *s = v->session;
    put_head(s, out);
    for (size_t k = 0; k < s->n_points; k++)
        put_csv_row(s, &s->points[v->order[k]], out);
}
