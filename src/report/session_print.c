/* Printing a session in one of the formats of formats.def, and the order of the rows. */
#include "report/session_print.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "report/format.h"

typedef struct format_row {
    const char *name;
    void (*put)(const pl_session_view *view, pl_buf *out);
} format_row;

static const format_row formats[] = {
#define PL_FORMAT(name, x) { name, pl_format_##x },
#include "report/formats.def"
#undef PL_FORMAT
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static const format_row *find_format(const char *name) {
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name == NULL ? "text" : name) == 0) return &formats[i];
    return NULL;
}

bool pl_session_sort_parse(const char *text, pl_session_sort *out) {
    *out = strcmp(text, "order") == 0 ? PL_SORT_ORDER : PL_SORT_WORST;
    return *out == PL_SORT_ORDER || strcmp(text, "worst") == 0;
}

static pl_status unknown(pl_err *err, const char *what, const char *found, pl_name_at at,
                         const void *ctx) {
    pl_buf hint = PL_BUF_INIT;
    pl_nearest_put(&hint, found, strlen(found), at, ctx);
    const pl_status st = pl_fail(err, PL_E_USAGE, "no %s '%s'%s", what, found, pl_buf_str(&hint));
    pl_buf_release(&hint);
    return st;
}

static const char *format_at(const void *ctx, size_t i) {
    (void)ctx;
    return i < N_FORMATS ? formats[i].name : NULL;
}

pl_status pl_session_print_check(const pl_session_print_options *o, pl_err *err) {
    if (find_format(o->format) != NULL) return PL_OK;
    return unknown(err, "format", o->format, format_at, NULL);
}

static const char *metric_at(const void *ctx, size_t i) {
    const pl_session *s = ctx;
    if (i < pl_n_metrics) return pl_metrics[i].name;
    return i - pl_n_metrics < s->n_user_metrics ? s->user_metrics[i - pl_n_metrics].name : NULL;
}

typedef struct metric_row {
    const char *unit;
    pl_direction direction;
} metric_row;

static pl_status find_metric(const pl_session *s, const char *name, metric_row *out, pl_err *err) {
    const pl_metric *m = pl_metric_find(name);
    if (m != NULL) {
        *out = (metric_row){ m->unit, m->direction };
        return PL_OK;
    }
    for (size_t i = 0; i < s->n_user_metrics; i++) {
        if (strcmp(s->user_metrics[i].name, name) != 0) continue;
        *out = (metric_row){ s->user_metrics[i].unit, s->user_metrics[i].direction };
        return PL_OK;
    }
    return unknown(err, "metric", name, metric_at, s);
}

/* ---- order ---- */

typedef struct sort_key {
    int rank;
    double value, max_abs; /* larger is worse */
    size_t index;
} sort_key;

static int worse_first(const void *x, const void *y) {
    const sort_key *a = x, *b = y;
    if (a->rank != b->rank) return a->rank > b->rank ? -1 : 1;
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    if (a->max_abs != b->max_abs) return a->max_abs > b->max_abs ? -1 : 1; /* where r is 0 */
    return a->index < b->index ? -1 : a->index > b->index;
}

pl_status pl_session_order(const pl_session *s, const char *metric, pl_session_sort sort,
                           size_t *order, pl_err *err) {
    metric_row row = { "", PL_HIGHER_IS_BETTER };
    PL_TRY(find_metric(s, metric, &row, err));
    sort_key *keys = pl_calloc(s->n_points + 1, sizeof *keys);
    if (keys == NULL) return pl_fail_memory(err, s->n_points * sizeof *keys);
    for (size_t i = 0; i < s->n_points; i++) {
        const pl_accumulators *acc = &s->points[i].acc;
        const double v = pl_sync_point_metric(s, &s->points[i], metric);
        keys[i] = (sort_key){ pl_sync_point_rank(&s->points[i]),
                              isnan(v)                               ? -(double)INFINITY
                              : row.direction == PL_HIGHER_IS_BETTER ? -v
                                                                     : v,
                              pl_accumulators_zero_reference(acc) ? acc->max_abs : 0, i };
    }
    if (sort == PL_SORT_WORST && s->n_points > 1)
        qsort(keys, s->n_points, sizeof *keys, worse_first);
    for (size_t i = 0; i < s->n_points; i++)
        order[i] = keys[i].index;
    pl_free(keys);
    return PL_OK;
}

/* ---- printing ---- */

pl_status pl_session_print(const pl_session *s, const pl_session_print_options *o, pl_buf *out,
                           pl_err *err) {
    const char *metric = o->metric != NULL ? o->metric : s->metric;
    metric_row row = { "", PL_HIGHER_IS_BETTER };
    PL_TRY(pl_session_print_check(o, err));
    PL_TRY(find_metric(s, metric, &row, err));
    size_t *order = pl_calloc(s->n_points + 1, sizeof *order);
    if (order == NULL) return pl_fail_memory(err, s->n_points * sizeof *order);
    pl_status st = pl_session_order(s, metric, o->sort, order, err);
    if (st == PL_OK) {
        const pl_session_view view = {
            .session = s,
            .metric = metric,
            .unit = row.unit[0] == '=' ? "" : row.unit,
            .order = order,
            .n_rows = o->limit > 0 && o->limit < s->n_points ? o->limit : s->n_points,
            .style = &o->style,
        };
        find_format(o->format)->put(&view, out);
        if (!pl_buf_ok(out)) st = pl_fail_memory(err, out->n_bytes);
    }
    pl_free(order);
    return st;
}
