/* Plain loops over doubles: not called for every value of a model. */
#include "metric/on_demand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"

enum { TOP_MAX = 1024 }; /* the loops below are quadratic in k */

static pl_status check_real(const pl_tensor *a, const pl_tensor *r, pl_err *err) {
    char x[200], y[200];
    const pl_dtype_class ca = pl_dtype_class_of(a->dtype), cr = pl_dtype_class_of(r->dtype);
    if (!pl_tensor_same_shape(a, r))
        return pl_fail(err, PL_E_INVALID, "%s and %s have different shapes",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    if (ca == PL_CLASS_STRING || cr == PL_CLASS_STRING || ca == PL_CLASS_COMPLEX ||
        cr == PL_CLASS_COMPLEX)
        return pl_fail(err, PL_E_UNSUPPORTED, "cannot sort elements of %s and %s",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    return PL_OK;
}

static pl_status check_axis(const pl_tensor *t, int *axis, pl_err *err) {
    const int given = *axis;
    if (*axis < 0) *axis += t->rank;
    if (*axis < 0 || *axis >= t->rank)
        return pl_fail(err, PL_E_USAGE, "axis %d is invalid for a tensor of rank %d", given,
                       t->rank);
    return PL_OK;
}

/* All elements as doubles in C order. */
static pl_status load_all(const pl_tensor *t, double **out, pl_err *err) {
    pl_tensor *c = NULL;
    size_t bytes;
    if (!pl_size_mul((size_t)t->n_elements + 1, sizeof(double), &bytes))
        return pl_fail_memory(err, SIZE_MAX);
    PL_TRY(pl_tensor_contiguous(t, &c, err));
    double *x = pl_malloc(bytes);
    if (x != NULL) pl_load_f64(c->dtype, c->data, x, (size_t)c->n_elements);
    pl_tensor_unref(c);
    if (x == NULL) return pl_fail_memory(err, bytes);
    *out = x;
    return PL_OK;
}

/* ---- quantiles ---- */
static int ascending(const void *x, const void *y) {
    double a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return (a > b) - (a < b);
}

static double quantile_of(const double *sorted, size_t n, double q) {
    if (n == 0) return 0;
    const double at = (q < 0 ? 0 : q > 1 ? 1 : q) * (double)(n - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= n) return sorted[n - 1];
    return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - (double)i);
}

pl_status pl_error_quantiles(const pl_tensor *a, const pl_tensor *r, pl_error_kind kind,
                             const double *q, size_t n_q, double *out, pl_err *err) {
    pl_status st = PL_OK;
    double *x = NULL, *y = NULL;
    pl_accumulators acc;
    PL_TRY(check_real(a, r, err));
    PL_TRY(pl_accumulate(NULL, a, r, &acc, err)); /* for the floor */
    PL_TRY_GOTO(done, st, load_all(a, &x, err));
    PL_TRY_GOTO(done, st, load_all(r, &y, err));
    size_t n = 0;
    for (int64_t i = 0; i < a->n_elements; i++) {
        if (!isfinite(x[i]) || !isfinite(y[i])) continue;
        if (kind == PL_ERROR_REL && fabs(y[i]) <= acc.floor) continue;
        const double d = fabs(x[i] - y[i]);
        x[n++] = kind == PL_ERROR_REL ? d / fabs(y[i]) : d;
    }
    if (n > 0) qsort(x, n, sizeof *x, ascending);
    for (size_t i = 0; i < n_q; i++)
        out[i] = quantile_of(x, n, q[i]);
done:
    pl_free(x);
    pl_free(y);
    return st;
}

/* ---- argmax and top-k ---- */
/* Whether x ranks strictly above y: NaN is the top, as in NumPy's argmax. */
static bool above(double x, double y) {
    return isnan(x) ? !isnan(y) : x > y;
}

/* The k best of a row of n with the given step, best first, ties by index: insertion, k is small.
 */
static void top_of(const double *row, int64_t n, int64_t step, int64_t k, int64_t *best) {
    int64_t n_best = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = n_best;
        while (at > 0 && above(row[i * step], row[best[at - 1] * step]))
            at--;
        if (at >= k) continue;
        if (n_best < k) n_best++;
        memmove(best + at + 1, best + at, (size_t)(n_best - at - 1) * sizeof *best);
        best[at] = i;
    }
}

static int64_t n_shared(const int64_t *x, const int64_t *y, int64_t k) {
    int64_t n = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            n += x[i] == y[j];
    return n;
}

pl_status pl_top_agree(const pl_tensor *a, const pl_tensor *r, int axis, int64_t k,
                       pl_top_agreement *out, pl_err *err) {
    pl_status st = PL_OK;
    double *x = NULL, *y = NULL;
    int64_t *best = NULL;
    *out = (pl_top_agreement){ .topk = 1 };
    PL_TRY(check_real(a, r, err));
    PL_TRY(check_axis(a, &axis, err));
    if (k < 1) return pl_fail(err, PL_E_USAGE, "top-k: invalid k %lld", (long long)k);
    const int64_t n = a->dims[axis];
    if (a->n_elements == 0) return PL_OK;
    if (k > n) k = n;
    if (k > TOP_MAX)
        return pl_fail(err, PL_E_LIMIT, "top-k: k is %lld, expected at most %d", (long long)k,
                       TOP_MAX);
    int64_t inner = 1;
    for (int i = axis + 1; i < a->rank; i++)
        inner *= a->dims[i];
    PL_TRY_GOTO(done, st, load_all(a, &x, err));
    PL_TRY_GOTO(done, st, load_all(r, &y, err));
    best = pl_calloc((size_t)k, 2 * sizeof *best);
    if (best == NULL) {
        st = pl_fail_memory(err, (size_t)k * 2 * sizeof *best);
        goto done;
    }
    out->n_rows = a->n_elements / n;
    double share = 0;
    for (int64_t row = 0; row < out->n_rows; row++) {
        const int64_t at = row / inner * inner * n + row % inner;
        top_of(x + at, n, inner, k, best);
        top_of(y + at, n, inner, k, best + k);
        out->n_argmax += best[0] == best[k];
        out->n_argmax_tied += !above(y[at + best[k] * inner], y[at + best[0] * inner]);
        share += (double)n_shared(best, best + k, k) / (double)k;
    }
    out->topk = share / (double)out->n_rows;
done:
    pl_free(best);
    pl_free(x);
    pl_free(y);
    return st;
}

/* ---- channels ---- */
static pl_status channel_of(const pl_tensor *t, int axis, int64_t c, pl_tensor **out, pl_err *err) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX];
    int rank = 0;
    for (int i = 0; i < t->rank; i++) {
        if (i == axis) continue;
        dims[rank] = t->dims[i];
        strides[rank++] = t->strides[i];
    }
    return pl_tensor_view(t, rank, dims, strides, c * t->strides[axis], out, err);
}

pl_status pl_accumulate_channels(pl_pool *pool, const pl_tensor *a, const pl_tensor *r, int axis,
                                 pl_accumulators *out, pl_err *err) {
    char x[200], y[200];
    if (!pl_tensor_same_shape(a, r))
        return pl_fail(err, PL_E_INVALID, "%s and %s have different shapes",
                       pl_tensor_describe(a, x, sizeof x), pl_tensor_describe(r, y, sizeof y));
    PL_TRY(check_axis(a, &axis, err));
    pl_status st = PL_OK;
    for (int64_t c = 0; c < a->dims[axis] && st == PL_OK; c++) {
        pl_tensor *ca = NULL, *cr = NULL;
        st = channel_of(a, axis, c, &ca, err);
        if (st == PL_OK) st = channel_of(r, axis, c, &cr, err);
        if (st == PL_OK) st = pl_accumulate(pool, ca, cr, &out[c], err);
        pl_tensor_unref(ca);
        pl_tensor_unref(cr);
    }
    return st;
}
