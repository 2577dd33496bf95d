/* Pairing by order: the values between two pairs on one side are aligned with those between them on
 * the other.
 *
 * The longest common subsequence by op and shape, by dynamic programming in a band, so that long
 * gaps cost n times the band. Only pairs common to all best alignments are taken: the two outermost
 * ones are traced, and all others run between them. For sides without a graph; if both have one,
 * structure is better. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/op.h"
#include "pair/pair_int.h"

enum {
    BAND = 128,          /* width on each side of the diagonal */
    CELLS_MAX = 1 << 25, /* gaps that need a larger table are skipped */
};

typedef struct gap {
    const uint32_t *a, *b; /* unpaired items */
    size_t n_a, n_b;
    size_t width; /* of a row of the table */
    uint32_t *table;
    uint32_t *mate;                     /* of the first trace: item of b + 1 by index in a */
    const uint64_t *ops[PL_PAIR_SIDES]; /* by item: see op_key */
} gap;

/* ---- what may be the same ---- */

enum { STANDARD = 1 };

/* A hash of the op whose last bit says whether ONNX has it. Ops of other frameworks have other
 * names for the same thing, so they match any op. 0 = unknown. */
static pl_status op_key(pl_strmap *seen, const char *op, uint64_t *out, pl_err *err) {
    *out = 0;
    if (*op == '\0') return PL_OK;
    uintptr_t standard = (uintptr_t)pl_strmap_get(seen, op);
    if (standard == 0) {
        standard = 1 + (pl_op_find("", op, 1000) != NULL);
        if (pl_strmap_put(seen, op, (void *)standard) != 0) return pl_fail_memory(err, 1);
    }
    *out = (pl_hash64(op, strlen(op)) & ~(uint64_t)STANDARD) | (standard - 1);
    return PL_OK;
}

static bool ops_known(uint64_t x, uint64_t y) {
    return x != 0 && y != 0 && (x == y || (x & y & STANDARD) != 0);
}

static bool matches(const pl_pair_state *s, const gap *g, uint32_t a, uint32_t b) {
    const pl_pair_item *x = &s->side[0]->items[a], *y = &s->side[1]->items[b];
    const uint64_t p = g->ops[0][a], q = g->ops[1][b];
    if (ops_known(p, q) && p != q) return false;
    if (x->has_shape && y->has_shape) return x->dtype == y->dtype && pl_pair_same_shape(x, y);
    return ops_known(p, q);
}

static double confidence(const pl_pair_state *s, const gap *g, uint32_t a, uint32_t b) {
    const pl_pair_item *x = &s->side[0]->items[a], *y = &s->side[1]->items[b];
    const bool op = ops_known(g->ops[0][a], g->ops[1][b]), shape = x->has_shape && y->has_shape;
    if (op && shape) return 0.6;
    return op ? 0.45 : 0.4;
}

/* ---- the table: length of the longest common subsequence of a[0..i) and b[0..j) ---- */

static size_t first_column(const gap *g, size_t i) { /* of row i */
    const size_t middle = g->n_a == 0 ? 0 : i * g->n_b / g->n_a;
    const size_t half = g->width / 2;
    return middle > half ? middle - half : 0;
}

static uint32_t cell(const gap *g, size_t i, size_t j) {
    const size_t from = first_column(g, i);
    if (j < from || j >= from + g->width) return 0;
    return g->table[i * g->width + (j - from)];
}

static void fill(const pl_pair_state *s, gap *g) {
    for (size_t i = 1; i <= g->n_a; i++) {
        const size_t from = first_column(g, i);
        for (size_t k = 0; k < g->width; k++) {
            const size_t j = from + k;
            if (j == 0 || j > g->n_b) continue;
            uint32_t best = cell(g, i - 1, j);
            const uint32_t left = cell(g, i, j - 1);
            if (left > best) best = left;
            if (matches(s, g, g->a[i - 1], g->b[j - 1]) && cell(g, i - 1, j - 1) + 1 > best)
                best = cell(g, i - 1, j - 1) + 1;
            g->table[i * g->width + k] = best;
        }
    }
}

/* Traces one of the two outermost best alignments: matches as late as possible in one sequence and
 * as early as possible in the other, or the reverse. */
static pl_status walk_back(pl_pair_state *s, gap *g, bool second, pl_err *err) {
    size_t i = g->n_a, j = g->n_b;
    while (i > 0 && j > 0) {
        const uint32_t here = cell(g, i, j);
        const bool up = cell(g, i - 1, j) == here, left = cell(g, i, j - 1) == here;
        const bool match =
            cell(g, i - 1, j - 1) + 1 == here && matches(s, g, g->a[i - 1], g->b[j - 1]);
        if (here == 0) break;
        if (second ? left : up) {
            i -= !second;
            j -= second;
        } else if (!match) {
            i -= second;
            j -= !second;
        } else {
            i--;
            j--;
            const uint32_t a = g->a[i], b = g->b[j];
            if (!second) {
                g->mate[i] = b + 1;
            } else if (g->mate[i] == b + 1) {
                PL_TRY(pl_pair_add(s, a, b, PL_PAIR_ORDER, confidence(s, g, a, b), "same position",
                                   err));
            }
        }
    }
    return PL_OK;
}

static pl_status align(pl_pair_state *s, gap *g, pl_err *err) {
    const size_t slack = g->n_a > g->n_b ? g->n_a - g->n_b : g->n_b - g->n_a;
    if (g->n_a == 0 || g->n_b == 0) return PL_OK;
    g->width = 2 * (slack + BAND) + 2;
    if (g->width > g->n_b + 1) g->width = g->n_b + 1;
    if (g->width > CELLS_MAX / (g->n_a + 1)) return PL_OK;
    g->table = pl_calloc((g->n_a + 1) * g->width, sizeof *g->table);
    g->mate = pl_calloc(g->n_a, sizeof *g->mate);
    pl_status st = PL_OK;
    if (g->table == NULL || g->mate == NULL) {
        st = pl_fail_memory(err, (g->n_a + 1) * g->width * sizeof *g->table);
    } else {
        fill(s, g);
        st = walk_back(s, g, false, err);
        if (st == PL_OK) st = walk_back(s, g, true, err);
    }
    pl_free(g->table);
    pl_free(g->mate);
    return st;
}

/* ---- gaps ---- */

/* Pairs in A's order whose counterparts are in B's order too: the longest such chain. keep[i] is
 * the counterpart + 1 of item i of A. */
static pl_status find_chain(const pl_pair_state *s, uint32_t *keep, pl_err *err) {
    const size_t n = s->side[0]->n_items;
    uint32_t *tails = pl_calloc(n + 1, sizeof *tails); /* items of A, by length of chain */
    uint32_t *before = pl_calloc(n + 1, sizeof *before);
    size_t length = 0;
    if (tails == NULL || before == NULL) {
        pl_free(tails);
        pl_free(before);
        return pl_fail_memory(err, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (s->mate[0][i] == PL_PAIR_NONE) continue;
        const size_t b = s->pairs[s->mate[0][i]].b;
        size_t from = 0, to = length;
        while (from < to) {
            const size_t mid = from + (to - from) / 2;
            if (s->pairs[s->mate[0][tails[mid]]].b < b) {
                from = mid + 1;
            } else {
                to = mid;
            }
        }
        before[i] = from == 0 ? PL_PAIR_NONE : tails[from - 1];
        tails[from] = i;
        if (from == length) length++;
    }
    uint32_t at = length == 0 ? PL_PAIR_NONE : tails[length - 1];
    while (at != PL_PAIR_NONE) {
        keep[at] = (uint32_t)s->pairs[s->mate[0][at]].b + 1;
        at = before[at];
    }
    pl_free(tails);
    pl_free(before);
    return PL_OK;
}

static bool is_wanted(const pl_pair_state *s, int side, uint32_t item) {
    return pl_pair_is_open(s, side, item) &&
           (s->item_value[side][item] == PL_PAIR_NONE || !s->has_graph[1 - side]);
}

static pl_status align_gaps(pl_pair_state *s, gap *g, const uint32_t *keep, uint32_t *open_a,
                            uint32_t *open_b, pl_err *err) {
    const size_t n_a = s->side[0]->n_items, n_b = s->side[1]->n_items;
    uint32_t at_b = 0;
    g->a = open_a;
    g->b = open_b;
    for (uint32_t i = 0; i <= n_a; i++) {
        if (i < n_a && keep[i] == 0) {
            if (is_wanted(s, 0, i)) open_a[g->n_a++] = i;
            continue;
        }
        const uint32_t end = i == n_a ? (uint32_t)n_b : keep[i] - 1;
        for (; at_b < end; at_b++)
            if (is_wanted(s, 1, at_b)) open_b[g->n_b++] = at_b;
        at_b = end + 1;
        PL_TRY(align(s, g, err));
        g->n_a = g->n_b = 0;
    }
    return PL_OK;
}

static pl_status list_ops(const pl_pair_side *side, pl_strmap *seen, uint64_t **out, pl_err *err) {
    *out = pl_calloc(side->n_items + 1, sizeof **out);
    if (*out == NULL) return pl_fail_memory(err, side->n_items);
    for (size_t i = 0; i < side->n_items; i++)
        PL_TRY(op_key(seen, side->items[i].op, &(*out)[i], err));
    return PL_OK;
}

pl_status pl_pair_by_order(pl_pair_state *s, pl_err *err) {
    const size_t n_a = s->side[0]->n_items, n_b = s->side[1]->n_items;
    if (s->has_graph[0] && s->has_graph[1]) return PL_OK;
    uint32_t *keep = pl_calloc(n_a + 1, sizeof *keep);
    uint32_t *open_a = pl_calloc(n_a + 1, sizeof *open_a);
    uint32_t *open_b = pl_calloc(n_b + 1, sizeof *open_b);
    uint64_t *ops[PL_PAIR_SIDES] = { NULL, NULL };
    pl_strmap seen = PL_STRMAP_INIT;
    pl_status st = PL_OK;
    if (keep == NULL || open_a == NULL || open_b == NULL) st = pl_fail_memory(err, n_a + n_b);
    for (int side = 0; side < PL_PAIR_SIDES && st == PL_OK; side++)
        st = list_ops(s->side[side], &seen, &ops[side], err);
    if (st == PL_OK) st = find_chain(s, keep, err);
    if (st == PL_OK) {
        gap g = { .ops = { ops[0], ops[1] } };
        st = align_gaps(s, &g, keep, open_a, open_b, err);
    }
    pl_strmap_release(&seen);
    pl_free(keep);
    pl_free(open_a);
    pl_free(open_b);
    pl_free(ops[0]);
    pl_free(ops[1]);
    return st;
}
