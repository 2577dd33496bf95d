/* Layout hypotheses: finds the one that fits.
 *
 * Each is a map from an index of A to an element of B: a stride for each axis, and for blocked
 * layouts one axis that is split. They are tried on a sample of elements, so that the cost does not
 * grow with the tensors. */
#include "pair/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pair/layout_int.h"

enum {
    SAMPLE = 4096,
    PERM_RANK_MAX = 5, /* 120 orders */
    HYPOTHESES_MAX = 160,
};

typedef struct hypothesis {
    char text[PL_LAYOUT_TEXT_MAX];
    int64_t strides[PL_RANK_MAX]; /* in B's elements, by A's axes; unused when flat */
    bool flat;                    /* same elements in the same order */
    int block_axis;               /* -1 = none */
    int64_t block, block_stride;
    double error;
} hypothesis;

typedef struct search {
    pl_shape a, b;
    hypothesis list[HYPOTHESES_MAX];
    size_t n;
} search;

static hypothesis *new_one(search *s) {
    if (s->n == HYPOTHESES_MAX) return NULL;
    hypothesis *h = &s->list[s->n++];
    *h = (hypothesis){ .block_axis = -1 };
    return h;
}

/* ---- shapes ---- */

static int64_t count(const pl_shape *s) {
    int64_t n = 1;
    return pl_dims_product(s->rank, s->dims, &n) ? n : -1;
}

static bool same(const pl_shape *a, const pl_shape *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

pl_shape pl_shape_squeeze(const pl_shape *s) {
    pl_shape out = { 0 };
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] != 1) out.dims[out.rank++] = s->dims[i];
    return out;
}

static void dense_strides(const pl_shape *s, int64_t *strides) {
    int64_t step = 1;
    for (int i = s->rank; i-- > 0;) {
        strides[i] = step;
        step *= s->dims[i] > 0 ? s->dims[i] : 1;
    }
}

/* ---- hypotheses ---- */

static void put_list(char *text, const char *word, const int64_t *list, int n) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, PL_LAYOUT_TEXT_MAX - at, "%s%s ", at > 0 ? "; " : "", word);
    for (int i = 0; i < n && at < PL_LAYOUT_TEXT_MAX; i++)
        at += (size_t)snprintf(text + at, PL_LAYOUT_TEXT_MAX - at, "%s%lld", i > 0 ? "," : "",
                               (long long)list[i]);
}

static void put_word(char *text, const char *word) {
    (void)snprintf(text, PL_LAYOUT_TEXT_MAX, "%s", word);
}

static void try_flat(search *s) {
    if (count(&s->a) != count(&s->b)) return;
    hypothesis *h = new_one(s);
    const pl_shape x = pl_shape_squeeze(&s->a), y = pl_shape_squeeze(&s->b);
    if (h == NULL) return;
    h->flat = true;
    if (!same(&s->a, &s->b)) put_word(h->text, same(&x, &y) ? "squeeze" : "reshape");
}

/* B's axes in order p: equal to A's dims, or padded at the end of some. */
static void try_order(search *s, const pl_shape *a, const pl_shape *b, const int64_t *p,
                      bool squeezed) {
    int64_t dense[PL_RANK_MAX], extra[PL_RANK_MAX], last_one = -1;
    bool moved = false, padded = false;
    dense_strides(b, dense);
    for (int i = 0; i < a->rank; i++) {
        extra[i] = b->dims[p[i]] - a->dims[i];
        if (extra[i] < 0) return;
        padded = padded || extra[i] > 0;
        moved = moved || p[i] != i;
        if (b->dims[p[i]] != 1) continue;
        if (p[i] < last_one) return; /* tried before */
        last_one = p[i];
    }
    if (!moved && !padded) return; /* flat */
    hypothesis *h = new_one(s);
    if (h == NULL) return;
    if (squeezed) put_word(h->text, "squeeze");
    if (moved) put_list(h->text, "transpose", p, a->rank);
    if (padded) put_list(h->text, "pad", extra, a->rank);
    int k = 0; /* squeezed: strides belong to the axes that are not 1 */
    for (int i = 0; i < s->a.rank && k < a->rank; i++) {
        if (squeezed && s->a.dims[i] == 1) continue;
        h->strides[i] = dense[p[k++]];
    }
}

/* Counting in base `rank` is simpler than Heap's algorithm, and the ranks are small. */
static void try_orders(search *s, const pl_shape *a, const pl_shape *b, bool squeezed) {
    int64_t p[PERM_RANK_MAX];
    int n_codes = 1;
    if (a->rank != b->rank || a->rank < 1 || a->rank > PERM_RANK_MAX) return;
    for (int i = 0; i < a->rank; i++)
        n_codes *= a->rank;
    for (int code = 0; code < n_codes; code++) {
        unsigned seen = 0;
        int rest = code;
        for (int i = a->rank; i-- > 0; rest /= a->rank) {
            p[i] = rest % a->rank;
            seen |= 1u << p[i];
        }
        if (seen == (1u << a->rank) - 1) try_order(s, a, b, p, squeezed);
    }
}

/* NCHWc: axis 1 in blocks, the index in the block as last axis. */
static void try_block(search *s) {
    const pl_shape *a = &s->a, *b = &s->b;
    int64_t dense[PL_RANK_MAX];
    if (b->rank != a->rank + 1 || a->rank < 2) return;
    const int64_t block = b->dims[b->rank - 1];
    if (block < 2 || b->dims[1] > INT64_MAX / block || b->dims[1] * block < a->dims[1]) return;
    if (b->dims[1] * block - a->dims[1] >= block) return;
    for (int i = 0; i < a->rank; i++)
        if (i != 1 && a->dims[i] != b->dims[i]) return;
    hypothesis *h = new_one(s);
    if (h == NULL) return;
    dense_strides(b, dense);
    memcpy(h->strides, dense, (size_t)a->rank * sizeof *dense);
    h->block_axis = 1;
    h->block = block;
    h->block_stride = 1;
    put_list(h->text, "block", (const int64_t[]){ 1, block }, 2);
}

static void list_hypotheses(search *s, const pl_shape *a, const pl_shape *b) {
    s->a = *a;
    s->b = *b;
    s->n = 0;
    try_flat(s);
    try_orders(s, a, b, false);
    if (a->rank != b->rank) {
        const pl_shape x = pl_shape_squeeze(a), y = pl_shape_squeeze(b);
        try_orders(s, &x, &y, true);
    }
    try_block(s);
}

/* ---- fit ---- */

static int64_t index_in_b(const search *s, const hypothesis *h, int64_t flat) {
    if (h->flat) return flat;
    int64_t at = 0;
    for (int i = s->a.rank; i-- > 0;) {
        const int64_t k = flat % s->a.dims[i];
        flat /= s->a.dims[i];
        if (i == h->block_axis) {
            at += k / h->block * h->strides[i] + k % h->block * h->block_stride;
        } else {
            at += k * h->strides[i];
        }
    }
    return at;
}

/* Deterministic and spread out; odd steps, so that no axis is always at the same index. */
static int64_t sample_at(int64_t i, int64_t n_sample, int64_t n) {
    if (n_sample == n) return i;
    const int64_t step = n / n_sample;
    return i * step + (int64_t)((uint64_t)i * UINT64_C(2654435761) % (uint64_t)step);
}

static double difference(double x, double y) {
    if (x == y || (isnan(x) && isnan(y))) return 0;
    if (!isfinite(x) || !isfinite(y)) return isfinite(x) ? x : isfinite(y) ? y : 1;
    return x - y;
}

static double fit(const search *s, const hypothesis *h, const pl_tensor *a, const pl_tensor *b) {
    const int64_t n = a->n_elements < SAMPLE ? a->n_elements : SAMPLE;
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = sample_at(i, n, a->n_elements);
        const double x = pl_tensor_get_f64(a, at);
        const double y = pl_tensor_get_f64(b, index_in_b(s, h, at));
        const double d = difference(x, y);
        error += d * d;
        if (isfinite(y)) size += y * y;
    }
    if (error == 0) return 0;
    return size > 0 ? sqrt(error / size) : HUGE_VAL;
}

/* Another order of the elements must fit far better than the plain one. */
static const hypothesis *best_of(const search *s, double *second) {
    const hypothesis *best = NULL;
    *second = HUGE_VAL;
    for (size_t i = 0; i < s->n; i++) {
        const hypothesis *h = &s->list[i];
        const bool better =
            best == NULL || (best->flat ? h->error < best->error / 10 : h->error < best->error);
        if (better) {
            if (best != NULL) *second = best->error;
            best = h;
        } else if (h->error < *second) {
            *second = h->error;
        }
    }
    return best;
}

static bool is_numeric(pl_dtype dtype) {
    const pl_dtype_class c = pl_dtype_class_of(dtype);
    return c != PL_CLASS_NONE && c != PL_CLASS_STRING && c != PL_CLASS_COMPLEX;
}

/* For the tensors in this order only; `out` is unchanged when nothing fits better. */
static void find_one_way(const pl_tensor *a, const pl_tensor *b, const char *prefix,
                         pl_layout *out) {
    search s;
    pl_shape x = { .rank = a->rank }, y = { .rank = b->rank };
    memcpy(x.dims, a->dims, sizeof x.dims);
    memcpy(y.dims, b->dims, sizeof y.dims);
    list_hypotheses(&s, &x, &y);
    double second = HUGE_VAL;
    for (size_t i = 0; i < s.n; i++)
        s.list[i].error = fit(&s, &s.list[i], a, b);
    const hypothesis *best = best_of(&s, &second);
    if (best == NULL || best->error >= out->error) return;
    out->error = best->error;
    out->second = second;
    snprintf(out->text, sizeof out->text, "%s%s", *best->text == '\0' ? "" : prefix, best->text);
}

pl_status pl_layout_find(const pl_tensor *a, const pl_tensor *b, pl_layout *out, pl_err *err) {
    pl_tensor *x = NULL, *y = NULL;
    *out = (pl_layout){ .error = HUGE_VAL, .second = HUGE_VAL };
    if (!is_numeric(a->dtype) || !is_numeric(b->dtype)) {
        if (pl_layout_guess(a->rank, a->dims, b->rank, b->dims, out->text)) out->error = 0;
        return PL_OK;
    }
    pl_status st = pl_tensor_contiguous(a, &x, err);
    if (st == PL_OK) st = pl_tensor_contiguous(b, &y, err);
    if (st == PL_OK && a->n_elements == 0 && b->n_elements == 0) {
        if (pl_layout_guess(a->rank, a->dims, b->rank, b->dims, out->text)) out->error = 0;
    } else if (st == PL_OK && a->n_elements > 0 && b->n_elements > 0) {
        if (a->n_elements <= b->n_elements) find_one_way(x, y, "", out);
        if (a->n_elements > b->n_elements) find_one_way(y, x, "a: ", out);
        if (a->n_elements == b->n_elements && a->rank > b->rank && out->error > 0.05)
            find_one_way(y, x, "a: ", out); /* blocked without padding */
    }
    pl_tensor_unref(x);
    pl_tensor_unref(y);
    return st;
}

/* ---- by shapes alone ---- */

static bool is_usual(const char *text) {
    static const char *const usual[] = { "transpose 0,3,1,2",   "transpose 0,2,3,1",
                                         "transpose 0,2,1",     "transpose 1,0",
                                         "transpose 0,4,1,2,3", "transpose 0,2,3,4,1" };
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i], text) == 0) return true;
    return false;
}

bool pl_layout_guess(int rank_a, const int64_t *dims_a, int rank_b, const int64_t *dims_b,
                     char text[PL_LAYOUT_TEXT_MAX]) {
    search s;
    pl_shape a = { .rank = rank_a }, b = { .rank = rank_b };
    memcpy(a.dims, dims_a, (size_t)rank_a * sizeof *dims_a);
    memcpy(b.dims, dims_b, (size_t)rank_b * sizeof *dims_b);
    *text = '\0';
    if (same(&a, &b)) return true;
    const pl_shape x = pl_shape_squeeze(&a), y = pl_shape_squeeze(&b);
    const bool plain = same(&x, &y);
    list_hypotheses(&s, &a, &b);
    const hypothesis *found = NULL;
    size_t n_usual = 0, n_others = 0;
    for (size_t i = 0; i < s.n; i++) {
        const hypothesis *h = &s.list[i];
        if (h->flat && !plain) continue; /* a reshape is always possible, so it is no evidence */
        const bool usual = h->flat || is_usual(h->text);
        if (usual && n_usual == 0) found = h;
        if (!usual && found == NULL) found = h;
        n_usual += usual;
        n_others += !usual;
        if (h->flat) break;
    }
    if (found == NULL || n_usual > 1 || (n_usual == 0 && n_others > 1)) return false;
    memcpy(text, found->text, PL_LAYOUT_TEXT_MAX);
    return true;
}
