/* Likely pairs: a wrong engine never pairs with certainty by its values.
 *
 * If one side is a dump without a graph and the other a model, unpaired values with the same number
 * of elements are compared. If there is only one of that size on both sides, they are paired. Of
 * several, the two nearest in value are, if each is clearly the nearest of the other and the order
 * of the model is kept with all other pairs. They are marked "likely" and can be refused
 * (strict). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "pair/pair_int.h"

enum { GROUP_MAX = 12, COUNT_MIN = 4 };
#define LIKELY 0.5
#define CLEARLY 1.5 /* the next one must be worse by this factor */

typedef struct open_item {
    uint32_t item;
    int64_t n;
} open_item;

static int by_count(const void *x, const void *y) {
    const open_item *p = x, *q = y;
    if (p->n != q->n) return p->n < q->n ? -1 : 1;
    return p->item < q->item ? -1 : p->item > q->item;
}

static bool is_candidate(const pl_pair_state *s, int side, uint32_t i) {
    const pl_pair_item *item = &s->side[side]->items[i];
    const uint32_t v = s->item_value[side][i];
    if (!pl_pair_is_open(s, side, i) || !item->has_shape || !item->has_data) return false;
    if ((item->flags & PL_RECORD_INPUT) != 0 || pl_pair_count(item) < COUNT_MIN) return false;
    return v == PL_PAIR_NONE || (s->graph[side].values[v].flags & PL_PG_FIXED) == 0;
}

static pl_status list_open(const pl_pair_state *s, int side, open_item **out, size_t *n,
                           pl_err *err) {
    *n = 0;
    *out = pl_calloc(s->side[side]->n_items + 1, sizeof **out);
    if (*out == NULL) return pl_fail_memory(err, s->side[side]->n_items);
    for (uint32_t i = 0; i < s->side[side]->n_items; i++)
        if (is_candidate(s, side, i))
            (*out)[(*n)++] = (open_item){ i, pl_pair_count(&s->side[side]->items[i]) };
    qsort(*out, *n, sizeof **out, by_count);
    return PL_OK;
}

/* Index of the node that computes a value of the model: nodes are in order. */
static uint32_t place_of(const pl_pair_state *s, int side, uint32_t item) {
    const uint32_t v = s->item_value[side][item];
    return v == PL_PAIR_NONE ? PL_PAIR_NONE : s->graph[side].values[v].producer;
}

/* Would this pair keep the dump's order consistent with the model's? */
static bool keeps_order(const pl_pair_state *s, int model, uint32_t a, uint32_t b) {
    const uint32_t dumped = model == 1 ? a : b, at = place_of(s, model, model == 1 ? b : a);
    size_t n_with = 0, n_against = 0;
    for (size_t i = 0; i < s->n_pairs; i++) {
        const uint32_t other = (uint32_t)(model == 1 ? s->pairs[i].a : s->pairs[i].b);
        const uint32_t there =
            place_of(s, model, (uint32_t)(model == 1 ? s->pairs[i].b : s->pairs[i].a));
        if (there == PL_PAIR_NONE || at == PL_PAIR_NONE || there == at) continue;
        if ((other < dumped) == (there < at)) {
            n_with++;
        } else {
            n_against++;
        }
    }
    return n_against == 0 || n_with >= 2 * n_against;
}

static size_t least_in(const double *row, size_t step, size_t n, double *next) {
    size_t best = 0;
    *next = HUGE_VAL;
    for (size_t k = 1; k < n; k++)
        if (row[k * step] < row[best * step]) best = k;
    for (size_t k = 0; k < n; k++)
        if (k != best && row[k * step] < *next) *next = row[k * step];
    return best;
}

static pl_status pair_group(pl_pair_state *s, int model, const open_item *a, size_t n_a,
                            const open_item *b, size_t n_b, pl_err *err) {
    double error[GROUP_MAX][GROUP_MAX];
    if (n_a == 1 && n_b == 1) {
        const pl_pair_item *x = &s->side[0]->items[a[0].item], *y = &s->side[1]->items[b[0].item];
        if (!pl_pair_fits(x, y)) return PL_OK;
        return pl_pair_add(s, a[0].item, b[0].item, PL_PAIR_LIKELY, LIKELY,
                           "the only value of this size", err);
    }
    if (n_a > GROUP_MAX || n_b > GROUP_MAX) return PL_OK;
    for (size_t i = 0; i < n_a; i++) {
        for (size_t k = 0; k < n_b; k++) {
            bool known = false;
            const pl_pair_item *x = &s->side[0]->items[a[i].item];
            const pl_pair_item *y = &s->side[1]->items[b[k].item];
            error[i][k] = HUGE_VAL;
            if (!pl_pair_fits(x, y)) continue;
            PL_TRY(pl_pair_measure(s, a[i].item, b[k].item, &error[i][k], &known, err));
            if (!known || isnan(error[i][k])) error[i][k] = HUGE_VAL;
        }
    }
    for (size_t i = 0; i < n_a; i++) {
        double next_b, next_a;
        const size_t k = least_in(error[i], 1, n_b, &next_b);
        const double e = error[i][k];
        if (!isfinite(e) || e > 1 || next_b < CLEARLY * e) continue;
        if (least_in(&error[0][k], GROUP_MAX, n_a, &next_a) != i) continue;
        if (!keeps_order(s, model, a[i].item, b[k].item)) continue;
        PL_TRY(pl_pair_add(s, a[i].item, b[k].item, PL_PAIR_LIKELY, LIKELY,
                           "closest among values of its size", err));
    }
    return PL_OK;
}

pl_status pl_pair_by_likelihood(pl_pair_state *s, pl_err *err) {
    open_item *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    if (s->options.strict || s->has_graph[0] == s->has_graph[1]) return PL_OK;
    const int model = s->has_graph[1] ? 1 : 0;
    pl_status st = list_open(s, 0, &a, &n_a, err);
    if (st == PL_OK) st = list_open(s, 1, &b, &n_b, err);
    for (size_t i = 0, k = 0; i < n_a && k < n_b && st == PL_OK;) {
        size_t to_a = i, to_b = k;
        if (a[i].n != b[k].n) {
            if (a[i].n < b[k].n) {
                i++;
            } else {
                k++;
            }
            continue;
        }
        while (to_a < n_a && a[to_a].n == a[i].n)
            to_a++;
        while (to_b < n_b && b[to_b].n == b[k].n)
            to_b++;
        st = pair_group(s, model, a + i, to_a - i, b + k, to_b - k, err);
        i = to_a;
        k = to_b;
    }
    pl_free(a);
    pl_free(b);
    return st;
}
