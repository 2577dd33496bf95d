/* Errors of position: elements that belong elsewhere, and where the bad ones are. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "blame/kind_int.h"

static int64_t stride_of(const pl_tensor *t, int axis) {
    int64_t stride = 1;
    for (int d = t->rank - 1; d > axis; d--)
        stride *= t->dims[d];
    return stride;
}

static int64_t index_at(const pl_tensor *t, int64_t i, int axis) {
    return i / stride_of(t, axis) % t->dims[axis];
}

/* ---- transposed ---- */

/* Elements in the order of the tensor with axes x and y swapped, read in the tensor's own shape:
 * what a kernel writes that does not transpose. */
static int64_t swapped_source(const pl_tensor *t, int64_t i, int x, int y) {
    int64_t dims[PL_RANK_MAX], strides[PL_RANK_MAX], source = 0;
    for (int d = 0; d < t->rank; d++) {
        dims[d] = t->dims[d];
        strides[d] = stride_of(t, d);
    }
    const int64_t dim = dims[x], stride = strides[x];
    dims[x] = dims[y];
    strides[x] = strides[y];
    dims[y] = dim;
    strides[y] = stride;
    for (int d = t->rank - 1; d >= 0; d--) {
        source += i % dims[d] * strides[d];
        i /= dims[d];
    }
    return source;
}

static bool swap_explains(const pl_kind_data *k, int x, int y) {
    int64_t good = 0, moved = 0;
    const int64_t n_sample = pl_kind_sample_size(k);
    for (int64_t s = 0; s < n_sample; s++) {
        const int64_t i = pl_kind_sampled(k, s);
        good += pl_kind_near(k, i, k->d[swapped_source(k->shape, i, x, y)]);
    }
    if (2 * good < n_sample) return false;
    good = 0;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b], source = swapped_source(k->shape, i, x, y);
        moved += source != i;
        good += pl_kind_near(k, i, k->d[source]);
    }
    return moved > 0 && 100 * good >= 99 * k->n_bad;
}

bool pl_kind_transposed(pl_kind_data *k) {
    if (k->n_bad < 8) return false;
    for (int x = 0; x < k->shape->rank; x++) {
        for (int y = x + 1; y < k->shape->rank; y++) {
            if (k->shape->dims[x] < 2 || k->shape->dims[y] < 2) continue;
            if (!swap_explains(k, x, y)) continue;
            const char *text = pl_arena_printf(k->arena, "axes %d and %d transposed", x, y);
            k->text = text == NULL ? "" : text;
            return true;
        }
    }
    return false;
}

/* ---- shifted ---- */

static bool is_shifted(const pl_kind_data *k, int64_t i, int axis, int64_t by) {
    const int64_t n = k->shape->dims[axis], at = index_at(k->shape, i, axis);
    const int64_t from = ((at - by) % n + n) % n;
    return pl_kind_near(k, i, k->d[i + (from - at) * stride_of(k->shape, axis)]);
}

static bool shift_explains(const pl_kind_data *k, int axis, int64_t by) {
    const int64_t n_sample = pl_kind_sample_size(k);
    int64_t good = 0;
    for (int64_t s = 0; s < n_sample; s++)
        good += is_shifted(k, pl_kind_sampled(k, s), axis, by);
    if (3 * good < n_sample) return false;
    good = 0;
    for (int64_t b = 0; b < k->n_bad; b++)
        good += is_shifted(k, k->bad[b], axis, by);
    const int64_t n = k->shape->dims[axis];
    const double share = fmax(0.6, 1 - 1.5 * fabs((double)by) / (double)n);
    return (double)good >= share * (double)k->n_bad;
}

bool pl_kind_shifted(pl_kind_data *k) {
    static const int64_t steps[] = { 1, -1, 2, -2 };
    if (k->n_bad < 4) return false;
    for (int axis = k->shape->rank - 1; axis >= 0; axis--) {
        for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
            if (k->shape->dims[axis] <= llabs(steps[s])) continue;
            if (!shift_explains(k, axis, steps[s])) continue;
            const char *text = pl_arena_printf(k->arena, "shifted by %lld along axis %d",
                                               (long long)steps[s], axis);
            k->text = text == NULL ? "" : text;
            return true;
        }
    }
    /* The flat array: off by one in a loop over all elements. */
    for (size_t s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
        int64_t good = 0;
        for (int64_t b = 0; b < k->n_bad; b++) {
            const int64_t from = (k->bad[b] - steps[s] + k->n) % k->n;
            good += pl_kind_near(k, k->bad[b], k->d[from]);
        }
        if (100 * good < 95 * k->n_bad) continue;
        const char *text =
            pl_arena_printf(k->arena, "shifted by %lld elements", (long long)steps[s]);
        k->text = text == NULL ? "" : text;
        return true;
    }
    return false;
}

/* ---- stale ---- */

/* One contiguous block almost without gaps, and less than most of the tensor. */
static bool is_block(const pl_kind_data *k) {
    const int64_t span = k->bad[k->n_bad - 1] - k->bad[0] + 1;
    return k->n_bad >= 4 && 10 * span <= 12 * k->n_bad && 2 * k->n_bad <= k->n;
}

static bool copied_from(const pl_kind_data *k, int64_t by) {
    if (k->bad[0] + by < 0 || k->bad[k->n_bad - 1] + by >= k->n) return false;
    int64_t good = 0;
    for (int64_t b = 0; b < k->n_bad; b++) {
        good += pl_kind_near(k, k->bad[b], k->d[k->bad[b] + by]);
        if (b == 15 && good < 12) return false;
    }
    return 100 * good >= 99 * k->n_bad;
}

/* A block with data from another position: a buffer reused before it was filled. */
bool pl_kind_stale(pl_kind_data *k) {
    enum { MAX_TRIES = 4096 }; /* constant data would fit everywhere */
    int64_t tries = 0;
    if (!is_block(k)) return false;
    for (int64_t from = 0; from < k->n && tries < MAX_TRIES; from++) {
        if (from == k->bad[0] || !pl_kind_near(k, k->bad[0], k->d[from])) continue;
        tries++;
        if (!copied_from(k, from - k->bad[0])) continue;
        const char *text =
            pl_arena_printf(k->arena, "stale region: holds the values of elements %lld to %lld",
                            (long long)from, (long long)(from + k->bad[k->n_bad - 1] - k->bad[0]));
        k->text = text == NULL ? "" : text;
        return true;
    }
    return false;
}

bool pl_kind_region(pl_kind_data *k) {
    k->text = "stale or uninitialised region";
    return is_block(k);
}

/* ---- permuted ---- */

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Small noise hardly changes the sorted elements; elements that changed places are off by as much
 * as they differ from each other. */
static bool moved_far(const pl_kind_data *k) {
    double sum = 0, sum_sq = 0, off = 0;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t i = k->bad[b];
        sum += k->d[i];
        sum_sq += k->d[i] * k->d[i];
        off += (k->a[i] - k->d[i]) * (k->a[i] - k->d[i]);
    }
    return off > 0.1 * (sum_sq - sum * sum / (double)k->n_bad);
}

bool pl_kind_permuted(pl_kind_data *k) {
    double *x = k->work;
    if (k->n_bad < (k->is_integer ? 4 : 2)) return false;
    double *y = pl_arena_array(k->arena, (size_t)k->n_bad, sizeof(double));
    if (y == NULL) return false;
    for (int64_t b = 0; b < k->n_bad; b++) {
        x[b] = k->a[k->bad[b]];
        y[b] = k->d[k->bad[b]];
    }
    qsort(x, (size_t)k->n_bad, sizeof(double), compare_doubles);
    qsort(y, (size_t)k->n_bad, sizeof(double), compare_doubles);
    int64_t good = 0;
    double most = 0;
    for (int64_t b = 0; b < k->n_bad; b++)
        most = fmax(most, k->e[k->bad[b]]);
    for (int64_t b = 0; b < k->n_bad; b++)
        good += fabs(x[b] - y[b]) <= 8 * most + 8 * k->u * fabs(y[b]) + k->tiny;
    if (100 * good < 99 * k->n_bad || !moved_far(k)) return false;
    k->text = "correct elements in the wrong places";
    return true;
}

/* ---- where ---- */

static const char *where_axis(const pl_kind_data *k, int axis) {
    const int64_t n = k->shape->dims[axis];
    int64_t low = n, high = -1;
    for (int64_t b = 0; b < k->n_bad; b++) {
        const int64_t at = index_at(k->shape, k->bad[b], axis);
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    /* Vector loops have their remainder at the end of the innermost axis. */
    const bool tail = stride_of(k->shape, axis) == 1 && high == n - 1 && 2 * (n - low) <= n;
    if (low == high && n > 1 && !(tail && n > 2 && k->n_bad > 1)) {
        return pl_arena_printf(k->arena, "index %lld of axis %d", (long long)low, axis);
    }
    if (tail && low > 0) {
        return pl_arena_printf(k->arena, "tail: last %lld of axis %d", (long long)(n - low), axis);
    }
    return NULL;
}

const char *pl_kind_where(const pl_kind_data *k) {
    const char *text = NULL;
    if (k->n_bad == 0) return "";
    if (2 * k->n_bad > k->n) return "all";
    for (int axis = 0; axis < k->shape->rank && text == NULL; axis++)
        text = where_axis(k, axis);
    const int64_t first = k->bad[0], last = k->bad[k->n_bad - 1];
    if (text == NULL && last - first + 1 == k->n_bad) {
        text = last == k->n - 1
                   ? pl_arena_printf(k->arena, "tail: last %lld elements", (long long)k->n_bad)
                   : pl_arena_printf(k->arena, "elements %lld to %lld", (long long)first,
                                     (long long)last);
    }
    if (text == NULL)
        text = pl_arena_printf(k->arena, "scattered, %lld of %lld", (long long)k->n_bad,
                               (long long)k->n);
    return text == NULL ? "" : text;
}
