/* Pairing by values: equal bytes, then the best fit among tensors with similar statistics.
 *
 * Equal bytes prove nothing if the tensor is small or all its elements are equal. A fit must be the
 * best for both sides, close, and clearly better than the next one. Each open tensor is read once
 * for its statistics and a few times for the fits; read_limit bounds the bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pair/layout.h"
#include "pair/pair_int.h"

enum {
    COUNT_MIN = 8,   /* elements; smaller tensors may be equal by chance */
    SHARED_MAX = 4,  /* values of one side that may share a counterpart */
    WINDOW_MAX = 64, /* neighbours in statistics to consider */
    FITS_MAX = 6,    /* … and to read */
};
#define OTHER_LAYOUT 2e-3 /* penalty for a fit that needs another layout */
#define NEAR 0.02         /* of the largest element: statistics that may be of the same value */

/* NULL when it has no data, or the limit is reached. */
static pl_status read_item(pl_pair_state *s, int side, uint32_t i, pl_tensor **out, pl_err *err) {
    const pl_pair_side *ps = s->side[side];
    const pl_pair_item *item = &ps->items[i];
    *out = NULL;
    if (ps->read == NULL || !item->has_data) return PL_OK;
    const int64_t n = pl_pair_count(item);
    const uint64_t size = n < 0 ? 0 : (uint64_t)n * pl_dtype_bytes(item->dtype);
    if (size > s->bytes_left) return PL_OK;
    s->bytes_left -= size;
    return ps->read(ps->ctx, i, out, err);
}

static bool get_stats(pl_pair_state *s, int side, uint32_t i, pl_stats *out, pl_status *st,
                      pl_err *err) {
    const pl_pair_item *item = &s->side[side]->items[i];
    pl_tensor *t = NULL, *dense = NULL;
    if (item->has_stats) {
        *out = item->stats;
        return true;
    }
    *st = read_item(s, side, i, &t, err);
    if (*st == PL_OK && t != NULL) *st = pl_tensor_contiguous(t, &dense, err);
    if (*st == PL_OK && dense != NULL) *out = pl_stats_of(dense);
    const bool got = *st == PL_OK && dense != NULL;
    pl_tensor_unref(t);
    pl_tensor_unref(dense);
    return got;
}

static bool says_something(const pl_stats *x) {
    return x->n_elements >= COUNT_MIN && x->min < x->max;
}

/* ---- equal bytes ---- */

static uint64_t hash_key(const pl_pair_item *item, bool with_shape) {
    uint64_t h = pl_pair_mix(item->hash.low, item->hash.high);
    h = pl_pair_mix(h, (uint64_t)item->dtype);
    if (!with_shape) return h;
    return pl_pair_mix(h, pl_hash64(item->dims, (size_t)item->rank * sizeof *item->dims));
}

static bool has_key(const pl_pair_item *item) {
    return item->has_hash && pl_pair_count(item) >= COUNT_MIN;
}

static bool group_is_open(const pl_pair_state *s, const struct pl_pair_key *k) {
    return k->n[0] == 1 && k->n[1] == 1 && pl_pair_is_open(s, 0, k->last[0]) &&
           pl_pair_is_open(s, 1, k->last[1]);
}

/* One value of a side has the bytes of several on the other: pair all of them, if all are
 * unpaired. */
static bool is_shared(const struct pl_pair_key *k) {
    return (k->n[0] == 1 && k->n[1] > 1 && k->n[1] <= SHARED_MAX) ||
           (k->n[1] == 1 && k->n[0] > 1 && k->n[0] <= SHARED_MAX);
}

static pl_status pair_equal(pl_pair_state *s, uint32_t a, uint32_t b, double confidence,
                            pl_err *err) {
    pl_status st = PL_OK;
    pl_stats stats;
    if (get_stats(s, 0, a, &stats, &st, err) && !says_something(&stats)) {
        PL_TRY(pl_pair_note(s, 0, a, err, "all elements are equal, so the bytes prove nothing"));
        return pl_pair_note(s, 1, b, err, "all elements are equal, so the bytes prove nothing");
    }
    PL_TRY(st);
    return pl_pair_add(s, a, b, PL_PAIR_VALUE, confidence, "same bytes", err);
}

static pl_status pair_hashes(pl_pair_state *s, bool with_shape, pl_err *err) {
    pl_pair_keys keys;
    pl_status st = PL_OK;
    PL_TRY(pl_pair_keys_init(&keys, s->side[0]->n_items + s->side[1]->n_items, err));
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        for (uint32_t i = 0; i < s->side[side]->n_items; i++) {
            const pl_pair_item *item = &s->side[side]->items[i];
            if (!has_key(item)) continue;
            if (!with_shape && !pl_pair_is_open(s, side, i)) continue;
            pl_pair_keys_add(&keys, side, hash_key(item, with_shape), i);
        }
    }
    for (int side = 0; side < PL_PAIR_SIDES; side++) {
        for (uint32_t i = 0; i < s->side[side]->n_items && st == PL_OK; i++) {
            const pl_pair_item *item = &s->side[side]->items[i];
            if (!has_key(item) || !pl_pair_is_open(s, side, i)) continue;
            const struct pl_pair_key *k = pl_pair_keys_find(&keys, hash_key(item, with_shape));
            if (group_is_open(s, k)) {
                st = pair_equal(s, k->last[0], k->last[1], 0.95, err);
            } else if (!with_shape && is_shared(k) && k->n[side] > 1) {
                const uint32_t j = k->last[1 - side];
                st = pair_equal(s, side == 0 ? i : j, side == 0 ? j : i, 0.85, err);
            } else if (k->n[1 - side] > 1) {
                st =
                    pl_pair_note(s, side, i, err, "%u values on the other side have the same bytes",
                                 (unsigned)k->n[1 - side]);
            }
        }
    }
    pl_pair_keys_release(&keys);
    return st;
}

/* ---- best fit ---- */

typedef struct sketch {
    uint32_t item;
    pl_stats stats;
    double scale;
    uint32_t best; /* sketch of the other side; PL_PAIR_NONE = none */
    double error, second;
    bool by_data;
} sketch;

static int by_max(const void *x, const void *y) {
    const sketch *p = x, *q = y;
    if (p->stats.n_elements != q->stats.n_elements)
        return p->stats.n_elements < q->stats.n_elements ? -1 : 1;
    if (p->stats.max != q->stats.max) return p->stats.max < q->stats.max ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

static pl_status make_sketches(pl_pair_state *s, int side, sketch **out, size_t *n_out,
                               pl_err *err) {
    const pl_pair_side *ps = s->side[side];
    size_t n = 0;
    pl_status st = PL_OK;
    *out = pl_calloc(ps->n_items + 1, sizeof **out);
    if (*out == NULL) return pl_fail_memory(err, ps->n_items * sizeof **out);
    for (uint32_t i = 0; i < ps->n_items && st == PL_OK; i++) {
        const pl_pair_item *item = &ps->items[i];
        if (!pl_pair_is_open(s, side, i) || !item->has_shape) continue;
        if (!pl_dtype_is_float(item->dtype) || pl_pair_count(item) < COUNT_MIN) continue;
        sketch x = { .item = i, .best = PL_PAIR_NONE, .error = HUGE_VAL, .second = HUGE_VAL };
        if (!get_stats(s, side, i, &x.stats, &st, err) || !says_something(&x.stats)) continue;
        x.scale = fmax(fabs(x.stats.min), fabs(x.stats.max));
        (*out)[n++] = x;
    }
    qsort(*out, n, sizeof **out, by_max);
    *n_out = n;
    return st;
}

/* Largest difference of the statistics, relative to the largest element. */
static double distance(const sketch *x, const sketch *y) {
    const double scale = fmax(x->scale, y->scale);
    const double d = fmax(fabs(x->stats.min - y->stats.min), fabs(x->stats.max - y->stats.max));
    return fmax(d, fabs(x->stats.mean - y->stats.mean)) / scale;
}

typedef struct near_one {
    size_t at;
    double distance;
} near_one;

static int by_distance(const void *x, const void *y) {
    const near_one *p = x, *q = y;
    if (p->distance != q->distance) return p->distance < q->distance ? -1 : 1;
    return p->at < q->at ? -1 : p->at > q->at;
}

static size_t find_near(const sketch *x, const sketch *list, size_t n, near_one *out) {
    sketch low = *x;
    size_t from = 0, to = n, n_out = 0;
    low.stats.max = x->stats.max - NEAR * x->scale;
    low.item = 0;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (by_max(&list[mid], &low) < 0) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    for (size_t i = from; i < n && n_out < WINDOW_MAX; i++) {
        if (list[i].stats.n_elements != x->stats.n_elements) break;
        if (list[i].stats.max > x->stats.max + NEAR * x->scale) break;
        const double d = distance(x, &list[i]);
        if (d <= NEAR) out[n_out++] = (near_one){ i, d };
    }
    qsort(out, n_out, sizeof *out, by_distance);
    return n_out;
}

static pl_status measure_items(pl_pair_state *s, uint32_t a, uint32_t b, pl_layout *layout,
                               bool *known, pl_err *err) {
    pl_tensor *x = NULL, *y = NULL;
    *layout = (pl_layout){ .text = "", .error = HUGE_VAL, .second = HUGE_VAL };
    pl_status st = read_item(s, 0, a, &x, err);
    if (st == PL_OK && x != NULL) st = read_item(s, 1, b, &y, err);
    *known = x != NULL && y != NULL;
    if (st == PL_OK && *known) st = pl_layout_find(x, y, layout, err);
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return st;
}

pl_status pl_pair_measure(pl_pair_state *s, uint32_t a, uint32_t b, double *error, bool *known,
                          pl_err *err) {
    pl_layout layout;
    const pl_status st = measure_items(s, a, b, &layout, known, err);
    *error = layout.error;
    return st;
}

/* Elementwise if both have data, else by statistics. */
static pl_status measure(pl_pair_state *s, const sketch *x, const sketch *y, double *error,
                         bool *by_data, pl_err *err) {
    pl_layout layout;
    PL_TRY(measure_items(s, x->item, y->item, &layout, by_data, err));
    *error = *by_data ? layout.error : distance(x, y);
    if (*layout.text != '\0') *error += OTHER_LAYOUT; /* prefer the value itself to a view of it */
    return PL_OK;
}

static void offer(sketch *x, uint32_t other, double error, bool by_data) {
    if (error < x->error) {
        x->second = x->error;
        x->error = error;
        x->best = other;
        x->by_data = by_data;
    } else if (error < x->second) {
        x->second = error;
    }
}

/* Confidence; 0 = not trusted. */
static double trust(const sketch *x) {
    if (x->by_data) {
        if (x->error > 0.02 || x->second < 5 * x->error || x->second < 1e-3) return 0;
        return x->error <= 1e-4 ? 0.9 : x->error <= 2 * OTHER_LAYOUT ? 0.8 : 0.7;
    }
    return x->error <= 1e-4 && x->second >= 1e-3 && x->second >= 10 * x->error ? 0.6 : 0;
}

static pl_status fit_all(pl_pair_state *s, sketch *a, size_t n_a, sketch *b, size_t n_b,
                         pl_err *err) {
    near_one near[WINDOW_MAX];
    for (size_t i = 0; i < n_a; i++) {
        const size_t n = find_near(&a[i], b, n_b, near);
        for (size_t k = 0; k < n && k < FITS_MAX; k++) {
            double error = HUGE_VAL;
            bool by_data = false;
            PL_TRY(measure(s, &a[i], &b[near[k].at], &error, &by_data, err));
            offer(&a[i], (uint32_t)near[k].at, error, by_data);
            offer(&b[near[k].at], (uint32_t)i, error, by_data);
        }
    }
    return PL_OK;
}

static pl_status pair_fits(pl_pair_state *s, pl_err *err) {
    sketch *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    pl_status st = make_sketches(s, 0, &a, &n_a, err);
    if (st == PL_OK && n_a > 0) st = make_sketches(s, 1, &b, &n_b, err);
    if (st == PL_OK && n_b > 0) st = fit_all(s, a, n_a, b, n_b, err);
    for (size_t i = 0; i < n_a && n_b > 0 && st == PL_OK; i++) {
        if (a[i].best == PL_PAIR_NONE) continue;
        const sketch *y = &b[a[i].best];
        if (y->best != i || trust(&a[i]) == 0 || trust(y) == 0) {
            st = pl_pair_note(
                s, 0, a[i].item, err,
                "'%.100s' is closest in value (error %.2g), but below the confidence threshold",
                s->side[1]->items[y->item].name, a[i].error);
            continue;
        }
        st = pl_pair_add(s, a[i].item, y->item, PL_PAIR_VALUE, fmin(trust(&a[i]), trust(y)),
                         a[i].by_data ? "closest values" : "same statistics", err);
    }
    pl_free(a);
    pl_free(b);
    return st;
}

pl_status pl_pair_by_value(pl_pair_state *s, pl_err *err) {
    PL_TRY(pair_hashes(s, true, err));
    PL_TRY(pair_hashes(s, false, err));
    return pair_fits(s, err);
}

/* ---- layouts of what is paired ---- */

/* Equal dims apart from their order, two of them the same: a transposition would not show in the
 * shape. */
static bool may_hide_order(const pl_pair_item *a, const pl_pair_item *b) {
    if (!pl_pair_same_shape(a, b) || pl_pair_count(a) < COUNT_MIN || a->rank > 5) return false;
    if (a->has_hash && b->has_hash && pl_hash128_equal(a->hash, b->hash)) return false;
    for (int i = 0; i < a->rank; i++) {
        for (int k = i + 1; k < a->rank; k++)
            if (a->dims[i] == a->dims[k] && a->dims[i] > 1) return true;
    }
    return false;
}

/* A flat array of the right count says nothing of axes: its order is the model's, however wrong the
 * numbers are. */
static bool is_flattened(const pl_pair *pair, const pl_pair_item *x, const pl_pair_item *y) {
    return strcmp(pair->method, "value") != 0 && x->has_shape && y->has_shape &&
           (x->rank == 1 || y->rank == 1) && pl_pair_count(x) == pl_pair_count(y);
}

static pl_status find_layout(pl_pair_state *s, pl_pair *pair, pl_err *err) {
    const pl_pair_item *x = &s->side[0]->items[pair->a], *y = &s->side[1]->items[pair->b];
    const bool same = pl_pair_same_shape(x, y);
    pl_layout layout;
    bool known = false;
    PL_TRY(measure_items(s, (uint32_t)pair->a, (uint32_t)pair->b, &layout, &known, err));
    if (layout.error > 0.3 || layout.second < 3 * layout.error) *layout.text = '\0';
    if (*layout.text == '\0' && !same && x->has_shape && y->has_shape &&
        !pl_layout_guess(x->rank, x->dims, y->rank, y->dims, layout.text))
        *layout.text = '\0';
    if (*layout.text == '\0' && !same && is_flattened(pair, x, y))
        snprintf(layout.text, sizeof(layout.text), "reshape");
    if (*layout.text == '\0') return PL_OK;
    pair->layout = pl_arena_strdup(s->arena, layout.text);
    return pair->layout == NULL ? pl_fail_memory(err, 1) : PL_OK;
}

static bool is_same_shape(const pl_pair_state *s, const pl_pair *pair) {
    return pl_pair_same_shape(&s->side[0]->items[pair->a], &s->side[1]->items[pair->b]);
}

/* The same shape but another order is a fault, unless one side is known to use that layout, or the
 * values alone made the pair. Outputs have one order. */
static bool may_have_layout(const pl_pair_state *s, const pl_pair *pair, const pl_strmap *seen) {
    const pl_pair_item *x = &s->side[0]->items[pair->a], *y = &s->side[1]->items[pair->b];
    if (strcmp(pair->method, "value") == 0) return true;
    if ((x->flags & y->flags & PL_RECORD_OUTPUT) != 0) return false;
    return pl_strmap_has(seen, pair->layout);
}

/* Padding is what a runtime adds to what a model has. A side without a graph that has less than the
 * model lacks elements, whatever the value of those (the last of a window is 0). */
static bool lacks_elements(const pl_pair_state *s, const pl_pair *pair) {
    const bool of_a = strncmp(pair->layout, "a: ", 3) == 0;
    const int padded = of_a ? 0 : 1;
    return strstr(pair->layout, "pad ") != NULL && s->has_graph[padded] &&
           !s->has_graph[1 - padded];
}

/* seen: layouts found between values of different shapes. */
static pl_status find_one(pl_pair_state *s, pl_pair *pair, bool of_one_shape, pl_strmap *seen,
                          pl_err *err) {
    const pl_pair_item *x = &s->side[0]->items[pair->a], *y = &s->side[1]->items[pair->b];
    if (!x->has_shape || !y->has_shape || of_one_shape != is_same_shape(s, pair)) return PL_OK;
    const bool tries = *pair->layout == '\0' && (!of_one_shape || may_hide_order(x, y));
    if (tries) PL_TRY(find_layout(s, pair, err));
    if (tries && lacks_elements(s, pair)) pair->layout = "";
    if (*pair->layout == '\0') return PL_OK;
    if (of_one_shape) {
        if (tries && !may_have_layout(s, pair, seen)) pair->layout = "";
        return PL_OK;
    }
    return pl_strmap_put(seen, pair->layout, s) == 0 ? PL_OK : pl_fail_memory(err, 1);
}

pl_status pl_pair_find_layouts(pl_pair_state *s, pl_err *err) {
    pl_strmap seen = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    for (int of_one_shape = 0; of_one_shape < 2; of_one_shape++)
        for (size_t i = 0; i < s->n_pairs && st == PL_OK; i++)
            st = find_one(s, &s->pairs[i], of_one_shape != 0, &seen, err);
    pl_strmap_release(&seen);
    return st;
}
