#include "report/view_slice.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/size.h"

bool pl_reduce_mode_parse(const char *name, pl_reduce_mode *out) {
    static const char *const names[] = { "max", "mean", "sample" };
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (pl_reduce_mode)i;
        return true;
    }
    return false;
}

static const char *mode_name(pl_reduce_mode mode) {
    return mode == PL_REDUCE_MAX ? "max" : mode == PL_REDUCE_MEAN ? "mean" : "sample";
}

void pl_slice_default(const pl_tensor *t, int64_t flat, pl_slice *out) {
    memset(out, 0, sizeof *out);
    out->row_axis = out->col_axis = -1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->dims[i] <= 1) continue;
        if (out->col_axis < 0) {
            out->col_axis = i;
        } else if (out->row_axis < 0) {
            out->row_axis = i;
        }
    }
    if (out->col_axis < 0 && t->rank > 0) out->col_axis = t->rank - 1;
    for (int i = t->rank - 1; flat >= 0 && i >= 0; i--) {
        if (t->dims[i] <= 0) break;
        if (i != out->row_axis && i != out->col_axis) out->index[i] = flat % t->dims[i];
        flat /= t->dims[i];
    }
    out->max_rows = out->max_cols = PL_PICTURE_MAX;
}

/* ---- elements ---- */

pl_dtype pl_view_whole(const pl_tensor *a, const pl_tensor *b) {
    const pl_tensor *t = a != NULL ? a : b;
    const bool is_whole = t != NULL && (t->dtype == PL_I64 || t->dtype == PL_U64);
    return is_whole && (b == NULL || b->dtype == t->dtype) ? t->dtype : PL_UNDEFINED;
}

double pl_view_difference(const pl_tensor *a, const pl_tensor *b, int64_t i) {
    const pl_dtype whole = pl_view_whole(a, b);
    if (whole != PL_UNDEFINED) {
        const int64_t x = pl_tensor_get_i64(a, i), y = pl_tensor_get_i64(b, i);
        const bool is_less = whole == PL_I64 ? x < y : (uint64_t)x < (uint64_t)y;
        return is_less ? -(double)((uint64_t)y - (uint64_t)x) : (double)((uint64_t)x - (uint64_t)y);
    }
    const double x = pl_tensor_get_f64(a, i), y = pl_tensor_get_f64(b, i);
    return x == y || (isnan(x) && isnan(y)) ? 0 : x - y;
}

/* ---- a picture in progress ---- */

typedef struct picture {
    const pl_tensor *shape; /* the tensor that gives the shape */
    pl_slice slice;
    int64_t base;               /* flat index of the slice's first element */
    int64_t row_step, col_step; /* in elements of the dense tensor */
    int64_t rows, cols;         /* cells */
    int64_t row_stride;         /* elements per cell, > 1 when sampled */
    int64_t col_stride;
    bool exact, wide; /* doubles */
    pl_dtype whole;   /* type of 64-bit integer cells; PL_UNDEFINED = others */
} picture;

static pl_status check_axis(const pl_tensor *t, int axis, int64_t first, int64_t *n, pl_err *err) {
    const int64_t size = axis < 0 ? 1 : t->dims[axis];
    if (first < 0 || first > size || *n < 0 || *n > size - first)
        return pl_fail(err, PL_E_INVALID, "the window is outside the tensor");
    if (*n == 0) *n = size - first;
    return PL_OK;
}

/* Skips whole rows first: they are far apart in the file. Every cell is based on some element. */
static void choose_strides(picture *p) {
    const pl_slice *s = &p->slice;
    const int64_t less = (s->n_rows * s->n_cols - 1) / PL_SCAN_MAX + 1;
    p->row_stride = pl_i64_min(less, s->n_rows / p->rows);
    p->col_stride = pl_i64_min((less - 1) / p->row_stride + 1, s->n_cols / p->cols);
}

static pl_status picture_init(picture *p, const pl_tensor *t, const pl_slice *slice, pl_err *err) {
    int64_t step = 1;
    *p = (picture){ .shape = t, .slice = *slice, .row_stride = 1, .col_stride = 1 };
    pl_slice *s = &p->slice;
    if (s->row_axis >= t->rank || s->col_axis >= t->rank ||
        (s->row_axis >= 0 && s->row_axis == s->col_axis))
        return pl_fail(err, PL_E_INVALID, "axes %d and %d are invalid for a tensor of rank %d",
                       s->row_axis, s->col_axis, t->rank);
    p->exact = true;
    if (t->n_elements == 0) {
        s->n_rows = s->n_cols = 0;
        return PL_OK; /* no cells; no index is inside */
    }
    PL_TRY(check_axis(t, s->row_axis, s->row, &s->n_rows, err));
    PL_TRY(check_axis(t, s->col_axis, s->col, &s->n_cols, err));
    for (int i = t->rank - 1; i >= 0; i--) {
        if (i == s->row_axis) p->row_step = step;
        if (i == s->col_axis) p->col_step = step;
        if (i != s->row_axis && i != s->col_axis) {
            if (s->index[i] < 0 || s->index[i] >= t->dims[i])
                return pl_fail(err, PL_E_INVALID,
                               "index %lld is out of range for axis %d of length %lld",
                               (long long)s->index[i], i, (long long)t->dims[i]);
            p->base += s->index[i] * step;
        }
        step *= t->dims[i];
    }
    s->max_rows = pl_i64_min(pl_i64_max(s->max_rows, 1), PL_PICTURE_MAX);
    s->max_cols = pl_i64_min(pl_i64_max(s->max_cols, 1), PL_PICTURE_MAX);
    p->rows = pl_i64_min(s->n_rows, s->max_rows);
    p->cols = pl_i64_min(s->n_cols, s->max_cols);
    p->exact = p->rows == s->n_rows && p->cols == s->n_cols;
    if (p->rows > 0 && p->cols > 0) choose_strides(p);
    return PL_OK;
}

static int64_t place(const picture *p, int64_t r, int64_t c) {
    return p->base + (p->slice.row + r) * p->row_step + (p->slice.col + c) * p->col_step;
}

static double element(const picture *p, const pl_tensor *a, const pl_tensor *b, int64_t r,
                      int64_t c) {
    const int64_t i = place(p, r, c);
    return b == NULL ? pl_tensor_get_f64(a, i) : pl_view_difference(a, b, i);
}

/* A cell with a NaN is NaN in every mode but "sample": rare values must stay visible. */
static double reduce(const picture *p, const pl_tensor *a, const pl_tensor *b, int64_t row,
                     int64_t col) {
    const int64_t r0 = row * p->slice.n_rows / p->rows, r1 = (row + 1) * p->slice.n_rows / p->rows;
    const int64_t c0 = col * p->slice.n_cols / p->cols, c1 = (col + 1) * p->slice.n_cols / p->cols;
    double sum = 0, largest = 0;
    int64_t n = 0;
    if (p->slice.mode == PL_REDUCE_SAMPLE || p->exact)
        return element(p, a, b, (r0 + r1 - 1) / 2, (c0 + c1 - 1) / 2);
    for (int64_t r = r0; r < r1; r += p->row_stride) {
        for (int64_t c = c0; c < c1; c += p->col_stride) {
            const double x = element(p, a, b, r, c);
            if (isnan(x)) return x;
            if (fabs(x) > fabs(largest)) largest = x;
            sum += x;
            n++;
        }
    }
    return p->slice.mode == PL_REDUCE_MAX ? largest : sum / (double)n;
}

static void put_cells(const picture *p, const pl_tensor *a, const pl_tensor *b, pl_buf *out) {
    for (int64_t r = 0; r < p->rows; r++) {
        for (int64_t c = 0; c < p->cols; c++) {
            const double x = reduce(p, a, b, r, c);
            const float narrow = (float)x;
            if (p->whole != PL_UNDEFINED) {
                const int64_t digits = pl_tensor_get_i64(a, place(p, r, c));
                pl_buf_append(out, &digits, sizeof digits);
            } else if (p->wide) {
                pl_buf_append(out, &x, sizeof x);
            } else {
                pl_buf_append(out, &narrow, sizeof narrow);
            }
        }
    }
}

/* A float holds every value of types up to two bytes, and of float itself. */
static bool is_wide(const pl_tensor *t) {
    return t != NULL && t->dtype != PL_F32 && pl_dtype_bytes(t->dtype) > 2;
}

static void put_header(const picture *p, const char *sides, pl_buf *out) {
    const pl_slice *s = &p->slice;
    pl_json json, *j = &json;
    pl_json_init(j, out, false);
    pl_json_object_begin(j);
    pl_json_put_string(j, "sides", sides);
    pl_json_put_int(j, "rows", p->rows);
    pl_json_put_int(j, "cols", p->cols);
    pl_json_put_ints(j, "of", (const int64_t[]){ s->n_rows, s->n_cols }, 2);
    pl_json_put_ints(j, "at", (const int64_t[]){ s->row, s->col }, 2);
    pl_json_put_ints(j, "axes", (const int64_t[]){ s->row_axis, s->col_axis }, 2);
    pl_json_put_ints(j, "index", s->index, (size_t)p->shape->rank);
    pl_json_put_ints(j, "dims", p->shape->dims, (size_t)p->shape->rank);
    pl_json_put_string(j, "mode", p->exact ? "exact" : mode_name(s->mode));
    pl_json_put_string(j, "type",
                       p->whole == PL_I64   ? "i64"
                       : p->whole == PL_U64 ? "u64"
                       : p->wide            ? "f64"
                                            : "f32");
    pl_json_put_bool(j, "sampled", (p->row_stride > 1 || p->col_stride > 1) && !p->exact);
    pl_json_object_end(j);
}

pl_status pl_slice_put(const pl_view_pair *pair, const pl_slice *slice, pl_buf *out, pl_err *err) {
    const pl_tensor *a = pl_view_is_numeric(pair->a) ? pair->a : NULL;
    const pl_tensor *b = pl_view_is_numeric(pair->b) ? pair->b : NULL;
    pl_buf head = PL_BUF_INIT;
    picture p;
    if (a == NULL && b == NULL) return pl_fail(err, PL_E_NOT_FOUND, "%s", pair->why);
    if (!pair->joint && a != NULL) b = NULL; /* different shapes have separate pictures */
    PL_TRY(picture_init(&p, a != NULL ? a : b, slice, err));
    p.wide = is_wide(a) || is_wide(b);
    p.whole = p.exact ? pl_view_whole(a, b) : PL_UNDEFINED;
    const char *sides = a == NULL ? "b" : b == NULL ? "a" : p.exact ? "ab" : "abd";
    put_header(&p, sides, &head);
    while (head.n_bytes % 8 != 0 && pl_buf_ok(&head))
        pl_buf_putc(&head, ' ');
    const uint32_t n = (uint32_t)head.n_bytes;
    pl_buf_puts(out, "PLSL");
    pl_buf_append(out, &n, sizeof n);
    pl_buf_append(out, pl_buf_str(&head), head.n_bytes);
    if (a != NULL) put_cells(&p, a, NULL, out);
    if (b != NULL) put_cells(&p, b, NULL, out);
    if (sides[1] != '\0' && sides[2] == 'd') put_cells(&p, a, b, out);
    const bool ok = pl_buf_ok(&head) && pl_buf_ok(out);
    pl_buf_release(&head);
    return ok ? PL_OK : pl_fail_memory(err, 1);
}
