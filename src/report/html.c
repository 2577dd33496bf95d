/* plumb_report: a session for readers without plumb. The HTML report is the debugger's page with
 * the data inlined; it opens from disk, without a network.
 *
 * The session and the graph are always in it. Tensors are added up to the requested size, the
 * blamed first, then outputs, then the worst: statistics, the slice with the largest error as a
 * picture, and the exact elements around it. */
#include "report/html.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/count.h"
#include "base/file.h"
#include "base/json.h"
#include "base/strmap.h"
#include "report/page.h"
#include "report/session_print.h"
#include "report/view_slice.h"

enum { PICTURE_SIDE = 96, WINDOW_SIDE = 48 };
static const uint64_t default_size = UINT64_C(16) << 20;

typedef struct report {
    pl_viewed *viewed;
    const plumb_report_options *options;
    uint64_t room;
    pl_buf tensors; /* JSON members, `"12":{…}` joined by commas */
    size_t n_tensors, n_left_out, n_unreadable;
    char why[256]; /* why the first unreadable one is */
    bool *taken;   /* by point */
} report;

static void put_base64(const pl_buf *data, pl_buf *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *b = (const unsigned char *)data->data;
    for (size_t i = 0; i < data->n_bytes; i += 3) {
        const size_t n = data->n_bytes - i;
        const uint32_t v = (uint32_t)b[i] << 16 | (n > 1 ? (uint32_t)b[i + 1] << 8 : 0) |
                           (n > 2 ? (uint32_t)b[i + 2] : 0);
        const char four[4] = { digits[v >> 18], digits[v >> 12 & 63],
                               n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '=' };
        pl_buf_append(out, four, sizeof four);
    }
}

static pl_status put_picture(const pl_view_pair *pair, const pl_slice *slice, pl_buf *out,
                             pl_err *err) {
    pl_buf bytes = PL_BUF_INIT;
    const pl_status st = pl_slice_put(pair, slice, &bytes, err);
    if (st == PL_OK) {
        pl_buf_putc(out, '"');
        put_base64(&bytes, out);
        pl_buf_putc(out, '"');
    }
    pl_buf_release(&bytes);
    return st;
}

/* The part of an axis around `at`. */
static void window(int64_t size, int64_t at, int64_t *first, int64_t *n) {
    *n = size < WINDOW_SIDE ? size : WINDOW_SIDE;
    *first = at - *n / 2;
    if (*first > size - *n) *first = size - *n;
    if (*first < 0) *first = 0;
}

static pl_status put_pictures(const pl_view_pair *pair, int64_t worst, pl_buf *out, pl_err *err) {
    const pl_tensor *t = pl_view_is_numeric(pair->a) ? pair->a : pair->b;
    pl_slice slice;
    int64_t index[PL_RANK_MAX] = { 0 }, rest = worst < 0 ? 0 : worst;
    pl_slice_default(t, worst, &slice);
    slice.max_rows = slice.max_cols = PICTURE_SIDE;
    PL_TRY(put_picture(pair, &slice, out, err));
    for (int i = t->rank - 1; i >= 0 && t->dims[i] > 0; i--) {
        index[i] = rest % t->dims[i];
        rest /= t->dims[i];
    }
    const int64_t rows = slice.row_axis < 0 ? 1 : t->dims[slice.row_axis];
    const int64_t cols = slice.col_axis < 0 ? 1 : t->dims[slice.col_axis];
    if (rows <= PICTURE_SIDE && cols <= PICTURE_SIDE) return PL_OK;
    window(rows, slice.row_axis < 0 ? 0 : index[slice.row_axis], &slice.row, &slice.n_rows);
    window(cols, slice.col_axis < 0 ? 0 : index[slice.col_axis], &slice.col, &slice.n_cols);
    pl_buf_putc(out, ',');
    return put_picture(pair, &slice, out, err);
}

static pl_status put_tensors(const pl_view_pair *pair, int64_t worst, pl_buf *out, pl_err *err) {
    pl_buf_puts(out, "\"stats\":");
    PL_TRY(pl_figures_put(pair, worst, out, err));
    pl_buf_puts(out, ",\"slices\":[");
    PL_TRY(put_pictures(pair, worst, out, err));
    pl_buf_puts(out, "]");
    return PL_OK;
}

/* Of a culprit A against its replay; nothing when that was not kept. */
static pl_status put_replay(report *r, size_t point, pl_buf *out, pl_err *err) {
    pl_view_pair pair;
    if (pl_viewed_session(r->viewed)->points[point].verdict != PL_VERDICT_CULPRIT ||
        pl_viewed_replayed(r->viewed, point, &pair, NULL) != PL_OK)
        return PL_OK;
    pl_buf_puts(out, ",\"replay\":{");
    const pl_status st = put_tensors(&pair, pair.replay.worst, out, err);
    pl_buf_puts(out, "}");
    pl_view_pair_release(&pair);
    return st;
}

/* `"12":{"stats":…,"slices":[…]}`; nothing when the point has no tensors. */
static pl_status put_point(report *r, size_t point, pl_buf *out, pl_err *err) {
    const pl_sync_point *p = &pl_viewed_session(r->viewed)->points[point];
    pl_view_pair pair;
    const int64_t worst = pl_view_worst(p);
    PL_TRY(pl_viewed_shown(r->viewed, point, &pair, err));
    if (pair.unreadable && r->n_unreadable++ == 0)
        (void)snprintf(r->why, sizeof r->why, "%s", pair.why);
    pl_status st = PL_OK;
    if (pl_view_is_numeric(pair.a) || pl_view_is_numeric(pair.b)) {
        pl_buf_printf(out, "\"%zu\":{", point);
        st = put_tensors(&pair, worst, out, err);
        if (st == PL_OK) st = put_replay(r, point, out, err);
        pl_buf_puts(out, "}");
    }
    pl_view_pair_release(&pair);
    if (st == PL_OK && !pl_buf_ok(out)) st = pl_fail_memory(err, out->n_bytes);
    return st;
}

/* "<" in JSON occurs only inside strings; escaped, no text can end the script element. */
#define ESCAPED "\\u003c"

/* Its size in the file. */
static uint64_t escaped_bytes(const pl_buf *json) {
    uint64_t n = json->n_bytes;
    for (size_t i = 0; i < json->n_bytes; i++)
        if (json->data[i] == '<') n += sizeof ESCAPED - 2;
    return n;
}

static pl_status add_point(report *r, size_t point, pl_err *err) {
    pl_buf text = PL_BUF_INIT;
    if (r->taken[point]) return PL_OK;
    r->taken[point] = true;
    const pl_status st = put_point(r, point, &text, err);
    if (st == PL_OK && text.n_bytes > 0) {
        const uint64_t size = escaped_bytes(&text) + 1;
        if (size > r->room) {
            r->n_left_out++;
        } else {
            r->room -= size;
            if (r->n_tensors++ > 0) pl_buf_putc(&r->tensors, ',');
            pl_buf_append(&r->tensors, text.data, text.n_bytes);
        }
    }
    pl_buf_release(&text);
    return st;
}

static pl_status add_value(report *r, const pl_strmap *by_value, const char *value, pl_err *err) {
    const uintptr_t at = value == NULL ? 0 : (uintptr_t)pl_strmap_get(by_value, value);
    return at == 0 ? PL_OK : add_point(r, at - 1, err);
}

/* The blamed and the first that diverges. */
static pl_status add_named(report *r, pl_err *err) {
    const pl_session *s = pl_viewed_session(r->viewed);
    pl_strmap by_value = { 0 };
    pl_status st = PL_OK;
    for (size_t i = s->n_points; i > 0 && st == PL_OK; i--) /* duplicates: the first one */
        if (pl_strmap_put(&by_value, s->points[i - 1].value, (void *)(uintptr_t)i) != 0)
            st = pl_fail_memory(err, s->n_points);
    for (size_t i = 0; i < s->n_blame && st == PL_OK; i++)
        st = add_value(r, &by_value, s->blame[i].value, err);
    if (st == PL_OK) st = add_value(r, &by_value, s->first_divergence, err);
    pl_strmap_release(&by_value);
    return st;
}

enum { LEFT_OUT_MAX = 32 }; /* stop after this many that do not fit */

static pl_status add_tensors(report *r, pl_err *err) {
    const pl_session *s = pl_viewed_session(r->viewed);
    size_t *order = pl_calloc(s->n_points + 1, sizeof *order);
    r->taken = pl_calloc(s->n_points + 1, sizeof *r->taken);
    pl_status st = PL_OK;
    if (order == NULL || r->taken == NULL) {
        st = pl_fail_memory(err, s->n_points);
        goto done;
    }
    st = add_named(r, err);
    for (size_t i = 0; i < s->n_points && st == PL_OK; i++)
        if (s->points[i].is_output) st = add_point(r, i, err);
    const char *metric = r->options->metric == NULL ? s->metric : r->options->metric;
    if (st == PL_OK) st = pl_session_order(s, metric, PL_SORT_WORST, order, err);
    for (size_t i = 0; i < s->n_points && st == PL_OK && r->n_left_out < LEFT_OUT_MAX; i++)
        st = add_point(r, order[i], err);
done:
    pl_free(order);
    return st;
}

/* ---- the file ---- */

static pl_status append_json(pl_file_writer *w, const pl_buf *json, pl_err *err) {
    size_t from = 0;
    for (size_t i = 0; i < json->n_bytes; i++) {
        if (json->data[i] != '<') continue;
        PL_TRY(pl_file_writer_append(w, json->data + from, i - from, err));
        PL_TRY(pl_file_writer_append(w, ESCAPED, sizeof ESCAPED - 1, err));
        from = i + 1;
    }
    return pl_file_writer_append(w, json->data + from, json->n_bytes - from, err);
}

static pl_status append_text(pl_file_writer *w, const char *text, pl_err *err) {
    return pl_file_writer_append(w, text, strlen(text), err);
}

static pl_status append_all(pl_file_writer *w, const pl_buf *session, const pl_buf *graph,
                            const pl_buf *reference, const pl_buf *tensors, pl_err *err) {
    PL_TRY(pl_file_writer_append(w, pl_page_head, pl_page_head_bytes, err));
    PL_TRY(append_text(w, "{\"session\":", err));
    PL_TRY(append_json(w, session, err));
    PL_TRY(append_text(w, ",\"graph\":", err));
    PL_TRY(append_json(w, graph, err));
    PL_TRY(append_text(w, ",\"reference\":", err));
    PL_TRY(append_json(w, reference, err));
    /* Separate, so that the page is drawn before they are read. */
    PL_TRY(
        append_text(w, "}</script>\n<script type=\"application/json\" id=\"tensor-data\">{", err));
    if (tensors->n_bytes > 0) PL_TRY(append_json(w, tensors, err));
    PL_TRY(append_text(w, "}", err));
    return pl_file_writer_append(w, pl_page_tail, pl_page_tail_bytes, err);
}

static pl_status write_html(report *r, const char *path, pl_err *err) {
    const uint64_t size = r->options->max_size > 0 ? r->options->max_size : default_size;
    pl_buf session = PL_BUF_INIT, graph = PL_BUF_INIT, reference = PL_BUF_INIT;
    pl_file_writer *w = NULL;
    pl_status st = PL_OK;
    pl_viewed_put_session(r->viewed, &session);
    PL_TRY_GOTO(done, st, pl_viewed_put_graph(pl_viewed_model(r->viewed), &graph, err));
    PL_TRY_GOTO(done, st, pl_viewed_put_graph(pl_viewed_reference(r->viewed), &reference, err));
    if (!pl_buf_ok(&session) || !pl_buf_ok(&graph) || !pl_buf_ok(&reference)) {
        st = pl_fail_memory(err, session.n_bytes);
        goto done;
    }
    const uint64_t fixed = pl_page_head_bytes + pl_page_tail_bytes + escaped_bytes(&session) +
                           escaped_bytes(&graph) + escaped_bytes(&reference) + 160;
    if (fixed > size) {
        st = pl_fail(err, PL_E_LIMIT,
                     "the page, session and graph alone need %llu bytes; the limit is %llu",
                     (unsigned long long)fixed, (unsigned long long)size);
        goto done;
    }
    r->room = size - fixed;
    PL_TRY_GOTO(done, st, add_tensors(r, err));
    if (!pl_buf_ok(&r->tensors)) {
        st = pl_fail_memory(err, r->tensors.n_bytes);
        goto done;
    }
    PL_TRY_GOTO(done, st, pl_file_writer_open(path, &w, err));
    PL_TRY_GOTO(done, st, append_all(w, &session, &graph, &reference, &r->tensors, err));
    st = pl_file_writer_commit_take(w, err);
    w = NULL;
done:
    pl_file_writer_abort_take(w);
    pl_buf_release(&session);
    pl_buf_release(&graph);
    pl_buf_release(&reference);
    return st;
}

static bool is_html(const plumb_report_options *o) {
    return o->format == NULL || strcmp(o->format, "html") == 0;
}

static pl_status print_other(const report *r, pl_buf *out, pl_err *err) {
    const pl_session_print_options print = { .format = r->options->format,
                                             .metric = r->options->metric,
                                             .limit = r->options->limit };
    return pl_session_print(pl_viewed_session(r->viewed), &print, out, err);
}

static pl_status make(report *r, const char *path, pl_buf *out, pl_err *err) {
    if (path != NULL && pl_path_exists(path))
        return pl_fail(err, PL_E_EXISTS, "'%s' already exists", path);
    if (is_html(r->options)) {
        if (path == NULL) return pl_fail(err, PL_E_USAGE, "an HTML report requires -o FILE.html");
        PL_TRY(write_html(r, path, err));
        pl_buf_printf(out, "%s: ", path);
        pl_buf_put_count(out, pl_viewed_session(r->viewed)->n_points, "sync point");
        pl_buf_printf(out, ", %zu with tensors\n", r->n_tensors);
        if (r->n_unreadable > 0)
            pl_buf_printf(out, "%zu with unreadable tensors: %s\n", r->n_unreadable, r->why);
        return PL_OK;
    }
    PL_TRY(print_other(r, out, err));
    if (!pl_buf_ok(out)) return pl_fail_memory(err, out->n_bytes);
    if (path == NULL) return PL_OK;
    const pl_status st = pl_file_write(path, pl_buf_str(out), out->n_bytes, err);
    pl_buf_reset(out);
    return st;
}

pl_status pl_report_make(const char *session, const char *path, const plumb_report_options *options,
                         pl_buf *out, pl_err *err) {
    static const plumb_report_options defaults;
    report r = { .options = options != NULL ? options : &defaults };
    pl_status st = pl_viewed_open(session, &r.viewed, err);
    if (st == PL_OK) st = make(&r, path, out, err);
    pl_buf_release(&r.tensors);
    pl_free(r.taken);
    pl_viewed_close(r.viewed);
    return st;
}
