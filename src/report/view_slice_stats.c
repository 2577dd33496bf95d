/* Statistics of a whole pair in one scan; of a large one, blocks spread over it, because single
 * elements would touch every page of the file. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/size.h"
#include "report/view_slice.h"

enum { N_BINS = 48, N_WORST = 20, N_SCATTER = 400 };
enum { DECADE_FIRST = -324, N_DECADES = 324 + 309 }; /* decades of all doubles */
enum { N_CHANNELS_MAX = 1024, N_GROUPS_MAX = 64, N_SORTED_MAX = 1 << 17 };
enum { WHOLE_MAX = 1 << 22, N_BLOCKS = 1024, BLOCK = 2048 };

typedef struct side_figures {
    double min, max, sum;
    double first, off, off_sq; /* sums of differences from the first element */
    int64_t n_nan, n_inf, n_zero, n;
} side_figures;

typedef struct worst_element {
    int64_t at;
    double badness;
} worst_element;

typedef struct figures {
    const pl_tensor *a, *b;
    pl_dtype whole; /* 64-bit integer type, which double cannot hold; or PL_UNDEFINED */
    int64_t n_seen; /* elements scanned; place() gives their indices */
    bool sampled;
    side_figures side[2];
    worst_element worst[N_WORST];
    size_t n_worst;
    int64_t decades[N_DECADES], n_equal; /* of |d| */
    double *sorted;                      /* a sample of |d| */
    size_t n_sorted;
} figures;

static void see_side(side_figures *f, double x) {
    if (isnan(x)) {
        f->n_nan++;
    } else if (isinf(x)) {
        f->n_inf++;
    } else {
        if (f->n == 0 || x < f->min) f->min = x;
        if (f->n == 0 || x > f->max) f->max = x;
        f->n_zero += x == 0;
        if (f->n == 0) f->first = x;
        f->sum += x;
        f->off += x - f->first;
        f->off_sq += (x - f->first) * (x - f->first);
        f->n++;
    }
}

/* NaN or Inf on one side only is worse than any number. */
static double badness_of(double a, double b) {
    if (a == b || (isnan(a) && isnan(b))) return 0;
    const double d = fabs(a - b);
    return isfinite(d) ? d : (double)INFINITY;
}

static double badness_at(const figures *f, int64_t i) {
    if (f->whole != PL_UNDEFINED) return fabs(pl_view_difference(f->a, f->b, i));
    return badness_of(pl_tensor_get_f64(f->a, i), pl_tensor_get_f64(f->b, i));
}

static void see_worst(figures *f, int64_t at, double badness) {
    size_t k = f->n_worst;
    if (k == N_WORST && badness <= f->worst[k - 1].badness) return;
    if (k < N_WORST) f->n_worst++;
    for (k = f->n_worst - 1; k > 0 && f->worst[k - 1].badness < badness; k--)
        f->worst[k] = f->worst[k - 1];
    f->worst[k] = (worst_element){ at, badness };
}

static void see_error(figures *f, int64_t at, double d) {
    if (d > 0) {
        see_worst(f, at, d);
        if (isfinite(d)) {
            f->decades[(int)floor(log10(d)) - DECADE_FIRST]++;
        }
    } else {
        f->n_equal++;
    }
}

/* Index of the k-th scanned element. */
static int64_t place(const figures *f, int64_t k) {
    const pl_tensor *t = f->a != NULL ? f->a : f->b;
    if (!f->sampled) return k;
    const int64_t last = t->n_elements - BLOCK; /* begin of the last block */
    const int64_t block = k / BLOCK;
    return (int64_t)((double)block / (N_BLOCKS - 1) * (double)last) + k % BLOCK;
}

static void scan(figures *f) {
    const int64_t every = 1 + f->n_seen / N_SORTED_MAX;
    for (int64_t k = 0; k < f->n_seen; k++) {
        const int64_t i = place(f, k);
        const double a = f->a != NULL ? pl_tensor_get_f64(f->a, i) : 0;
        const double b = f->b != NULL ? pl_tensor_get_f64(f->b, i) : 0;
        if (f->a != NULL) see_side(&f->side[0], a);
        if (f->b != NULL) see_side(&f->side[1], b);
        if (f->a == NULL || f->b == NULL) continue;
        const double d = f->whole != PL_UNDEFINED ? badness_at(f, i) : badness_of(a, b);
        see_error(f, i, d);
        if (k % every == 0 && f->n_sorted < N_SORTED_MAX) f->sorted[f->n_sorted++] = d;
    }
}

/* The worst element of the comparison comes first, even if the sample missed it. */
static void see_known(figures *f, int64_t at) {
    if (f->a == NULL || f->b == NULL || at < 0 || at >= f->a->n_elements) return;
    for (size_t i = 0; i < f->n_worst; i++)
        if (f->worst[i].at == at) return;
    const double d = badness_at(f, at);
    if (d > 0) see_worst(f, at, d);
}

/* ---- as JSON ---- */

/* null when nothing is finite. */
static void put_figure(pl_json *j, const char *key, int64_t n, double x) {
    pl_json_key(j, key);
    if (n > 0) {
        pl_json_double(j, x);
    } else {
        pl_json_null(j);
    }
}

static void put_side(pl_json *j, const char *key, const pl_tensor *t, const side_figures *f) {
    if (t == NULL) return;
    const double n = (double)f->n, off = f->off / n, variance = f->off_sq / n - off * off;
    pl_json_key(j, key);
    pl_json_object_begin(j);
    put_figure(j, "min", f->n, f->min);
    put_figure(j, "max", f->n, f->max);
    put_figure(j, "mean", f->n, f->sum / n);
    put_figure(j, "std", f->n, isnan(variance) ? (double)INFINITY : sqrt(fmax(variance, 0)));
    pl_json_put_int(j, "nan", f->n_nan);
    pl_json_put_int(j, "inf", f->n_inf);
    pl_json_put_int(j, "zero", f->n_zero);
    pl_json_object_end(j);
}

static void put_histogram(pl_json *j, const figures *f) {
    int64_t counts[2][N_BINS] = { { 0 } };
    const pl_tensor *sides[2] = { f->a, f->b };
    double lo = (double)INFINITY, hi = -(double)INFINITY;
    for (int s = 0; s < 2; s++) {
        if (sides[s] == NULL || f->side[s].n == 0) continue;
        lo = fmin(lo, f->side[s].min);
        hi = fmax(hi, f->side[s].max);
    }
    if (!(lo <= hi)) lo = hi = 0;
    /* Halved first: the range of doubles exceeds a double. */
    const double half = hi / 2 - lo / 2;
    for (int s = 0; s < 2; s++) {
        if (sides[s] == NULL) continue;
        for (int64_t k = 0; k < f->n_seen; k++) {
            const double x = pl_tensor_get_f64(sides[s], place(f, k));
            if (!isfinite(x)) continue;
            const double share = half > 0 ? (x / 2 - lo / 2) / half : 0;
            const int bin = (int)(share * (double)N_BINS);
            counts[s][bin < 0 ? 0 : bin >= N_BINS ? N_BINS - 1 : bin]++;
        }
    }
    pl_json_put_double(j, "lo", lo);
    pl_json_put_double(j, "hi", hi);
    if (f->a != NULL) pl_json_put_ints(j, "bins_a", counts[0], N_BINS);
    if (f->b != NULL) pl_json_put_ints(j, "bins_b", counts[1], N_BINS);
}

static void put_digits(pl_json *j, bool is_negative, uint64_t twos_complement) {
    char text[32];
    (void)snprintf(text, sizeof text, "%s%" PRIu64, is_negative ? "-" : "",
                   is_negative ? 0 - twos_complement : twos_complement);
    pl_json_string(j, text);
}

/* 64-bit integers and their difference as text: JSON readers use doubles. */
static void put_whole(pl_json *j, const figures *f, int64_t i) {
    const int64_t x = pl_tensor_get_i64(f->a, i), y = pl_tensor_get_i64(f->b, i);
    pl_json_key(j, "whole");
    pl_json_array_begin(j);
    if (f->whole == PL_I64) {
        put_digits(j, x < 0, (uint64_t)x);
        put_digits(j, y < 0, (uint64_t)y);
        put_digits(j, x < y, (uint64_t)x - (uint64_t)y);
    } else {
        put_digits(j, false, (uint64_t)x);
        put_digits(j, false, (uint64_t)y);
        put_digits(j, (uint64_t)x < (uint64_t)y, (uint64_t)x - (uint64_t)y);
    }
    pl_json_array_end(j);
}

static void put_worst(pl_json *j, const figures *f) {
    pl_json_key(j, "worst");
    pl_json_array_begin(j);
    for (size_t i = 0; i < f->n_worst; i++) {
        int64_t index[PL_RANK_MAX] = { 0 }, rest = f->worst[i].at;
        for (int k = f->a->rank - 1; k >= 0; k--) {
            index[k] = rest % f->a->dims[k];
            rest /= f->a->dims[k];
        }
        pl_json_object_begin(j);
        pl_json_put_ints(j, "index", index, (size_t)f->a->rank);
        pl_json_put_double(j, "a", pl_tensor_get_f64(f->a, f->worst[i].at));
        pl_json_put_double(j, "b", pl_tensor_get_f64(f->b, f->worst[i].at));
        if (f->whole != PL_UNDEFINED) put_whole(j, f, f->worst[i].at);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static int compare_doubles(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

static void put_quantiles(pl_json *j, figures *f) {
    static const double at[] = { 0.5, 0.9, 0.99, 0.999 };
    static const char *const names[] = { "p50", "p90", "p99", "p99.9" };
    qsort(f->sorted, f->n_sorted, sizeof *f->sorted, compare_doubles);
    pl_json_key(j, "quantiles");
    pl_json_object_begin(j);
    for (size_t i = 0; i < 4 && f->n_sorted > 0; i++)
        pl_json_put_double(j, names[i], f->sorted[(size_t)(at[i] * (double)(f->n_sorted - 1))]);
    pl_json_object_end(j);
}

/* Axis 1; the last one of a vector or matrix. -1: a scalar. */
static int channel_axis(const pl_tensor *t) {
    return t->rank > 2 ? 1 : t->rank - 1;
}

/* The largest error for each index of the channel axis. */
static void put_channels(pl_json *j, const figures *f) {
    const pl_tensor *t = f->a;
    const int axis = channel_axis(t);
    double largest[N_CHANNELS_MAX] = { 0 };
    if (axis < 0 || t->dims[axis] < 2 || t->dims[axis] > N_CHANNELS_MAX) return;
    int64_t inner = 1;
    for (int i = axis + 1; i < t->rank; i++)
        inner *= t->dims[i];
    for (int64_t k = 0; k < f->n_seen; k++) {
        const int64_t i = place(f, k);
        const double d = badness_at(f, i);
        double *slot = &largest[i / inner % t->dims[axis]];
        if (d > *slot) *slot = d;
    }
    pl_json_put_int(j, "channel_axis", axis);
    pl_json_key(j, "channels");
    pl_json_array_begin(j);
    for (int64_t i = 0; i < t->dims[axis]; i++)
        pl_json_double(j, largest[i]);
    pl_json_array_end(j);
}

/* The largest error along an axis, in at most N_GROUPS_MAX groups of indices. */
typedef struct profile {
    int axis;
    int64_t dim, inner, n_groups;
    double largest[N_GROUPS_MAX];
} profile;

/* Of every axis but that of the channels, which has a figure for each index. */
static int begin_profiles(profile *all, const pl_tensor *t) {
    int64_t inner = 1;
    int n = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        const int64_t dim = t->dims[axis];
        const bool is_told = axis == channel_axis(t) && dim <= N_CHANNELS_MAX;
        if (dim > 1 && !is_told)
            all[n++] = (profile){ .axis = axis,
                                  .dim = dim,
                                  .inner = inner,
                                  .n_groups = dim < N_GROUPS_MAX ? dim : N_GROUPS_MAX };
        inner *= dim;
    }
    return n;
}

static void put_profiles(pl_json *j, const figures *f) {
    profile all[PL_RANK_MAX];
    const int n = begin_profiles(all, f->a);
    for (int64_t k = 0; k < f->n_seen && n > 0; k++) {
        const int64_t i = place(f, k);
        const double d = badness_at(f, i);
        if (!(d > 0)) continue;
        for (int p = 0; p < n; p++) {
            const int64_t group = i / all[p].inner % all[p].dim * all[p].n_groups / all[p].dim;
            all[p].largest[group] = fmax(all[p].largest[group], d);
        }
    }
    pl_json_key(j, "profiles");
    pl_json_array_begin(j);
    for (int p = 0; p < n; p++) {
        pl_json_object_begin(j);
        pl_json_put_int(j, "axis", all[p].axis);
        pl_json_put_int(j, "dim", all[p].dim);
        pl_json_key(j, "largest");
        pl_json_array_begin(j);
        for (int64_t g = 0; g < all[p].n_groups; g++)
            pl_json_double(j, all[p].largest[g]);
        pl_json_array_end(j);
        pl_json_object_end(j);
    }
    pl_json_array_end(j);
}

static void put_scatter(pl_json *j, const figures *f) {
    const int64_t n = f->a->n_elements, every = 1 + n / N_SCATTER;
    pl_json_key(j, "scatter");
    pl_json_array_begin(j);
    for (int64_t i = 0; i < n; i += every) {
        pl_json_double(j, pl_tensor_get_f64(f->b, i));
        pl_json_double(j, pl_tensor_get_f64(f->a, i));
    }
    pl_json_array_end(j);
}

/* From the first to the last decade with an error. */
static void put_decades(pl_json *j, const figures *f) {
    int first = 0, end = N_DECADES;
    while (end > 0 && f->decades[end - 1] == 0)
        end--;
    while (first < end && f->decades[first] == 0)
        first++;
    pl_json_put_ints(j, "decades", f->decades + first, (size_t)(end - first));
    pl_json_put_int(j, "decade_first", DECADE_FIRST + first);
}

static void put_replay(pl_json *j, const pl_view_replay *r) {
    pl_json_key(j, "replay");
    pl_json_object_begin(j);
    pl_json_put_double(j, "least", r->least);
    pl_json_put_double(j, "most", r->most);
    pl_json_put_int(j, "beyond", r->n_beyond);
    pl_json_object_end(j);
}

static void put_all(figures *f, const pl_view_pair *pair, pl_buf *out) {
    const pl_tensor *t = f->a != NULL ? f->a : f->b;
    pl_json json, *j = &json;
    pl_json_init(j, out, false);
    pl_json_object_begin(j);
    pl_json_put_ints(j, "dims", t->dims, (size_t)t->rank);
    pl_json_put_int(j, "n", t->n_elements);
    pl_json_put_int(j, "seen", f->n_seen);
    pl_json_put_string(j, "why", pair->why);
    if (pair->gold) pl_json_put_bool(j, "gold", true);
    if (pair->replay.shown) put_replay(j, &pair->replay);
    put_side(j, "a", f->a, &f->side[0]);
    put_side(j, "b", f->b, &f->side[1]);
    put_histogram(j, f);
    if (f->a != NULL && f->b != NULL) {
        put_decades(j, f);
        pl_json_put_int(j, "equal", f->n_equal);
        put_quantiles(j, f);
        put_worst(j, f);
        put_channels(j, f);
        put_profiles(j, f);
        put_scatter(j, f);
    }
    pl_json_object_end(j);
}

pl_status pl_figures_put(const pl_view_pair *pair, int64_t worst, pl_buf *out, pl_err *err) {
    figures *f = pl_calloc(1, sizeof *f);
    if (f == NULL) return pl_fail_memory(err, sizeof *f);
    f->a = pl_view_is_numeric(pair->a) ? pair->a : NULL;
    f->b = pl_view_is_numeric(pair->b) && (pair->joint || f->a == NULL) ? pair->b : NULL;
    pl_status st = PL_OK;
    const pl_tensor *t = f->a != NULL ? f->a : f->b;
    if (t == NULL) {
        st = pl_fail(err, PL_E_NOT_FOUND, "%s", pair->why);
        goto done;
    }
    f->whole = pl_view_whole(f->a, f->b);
    f->sampled = t->n_elements > WHOLE_MAX;
    f->n_seen = f->sampled ? (int64_t)N_BLOCKS * BLOCK : t->n_elements;
    f->sorted = pl_calloc(N_SORTED_MAX, sizeof *f->sorted);
    if (f->sorted == NULL) {
        st = pl_fail_memory(err, N_SORTED_MAX);
        goto done;
    }
    scan(f);
    see_known(f, worst);
    put_all(f, pair, out);
    if (!pl_buf_ok(out)) st = pl_fail_memory(err, out->n_bytes);
done:
    pl_free(f->sorted);
    pl_free(f);
    return st;
}
