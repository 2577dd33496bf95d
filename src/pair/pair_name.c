/* Pairing by name. Names that an exporter numbers ("123", "onnx::Add_45") change with every export,
 * so equal names are trusted only if operators and shapes agree with them overall. If they do,
 * single differences are findings, not doubts. */
#include <string.h>

#include "ops/op.h"
#include "pair/pair_int.h"

enum { FEW = 8 }; /* fewer votes are not enough */

static const char *op_of(const pl_pair_state *s, int side, uint32_t item) {
    const pl_pair_item *it = &s->side[side]->items[item];
    const uint32_t v = s->item_value[side][item];
    if (*it->op != '\0' || v == PL_PAIR_NONE) return it->op;
    const uint32_t n = s->graph[side].values[v].producer;
    return n == PL_PAIR_NONE ? "" : s->graph[side].nodes[n].op;
}

/* A runtime's own ops (fused ones) may be anything. */
static bool is_standard(const char *op) {
    return *op != '\0' && pl_op_find("", op, 1000) != NULL;
}

static bool ops_differ(const pl_pair_state *s, uint32_t a, uint32_t b) {
    const char *x = op_of(s, 0, a), *y = op_of(s, 1, b);
    return strcmp(x, y) != 0 && is_standard(x) && is_standard(y);
}

static bool disagree(const pl_pair_state *s, uint32_t a, uint32_t b) {
    const pl_pair_item *x = &s->side[0]->items[a], *y = &s->side[1]->items[b];
    return ops_differ(s, a, b) || !pl_pair_fits(x, y);
}

static bool same_hash(const pl_pair_item *x, const pl_pair_item *y) {
    return x->has_hash && y->has_hash && pl_hash128_equal(x->hash, y->hash) &&
           x->dtype == y->dtype && pl_pair_count(x) >= FEW;
}

/* The item of B with the name of an item of A, or NULL. A name that was given to a tensor which is
 * no value of the model does not match a name of the model. */
static const pl_pair_item *namesake(const pl_pair_state *s, uint32_t a) {
    const pl_pair_item *x = &s->side[0]->items[a];
    const uintptr_t found = (uintptr_t)pl_strmap_get(&s->names[1], x->name);
    const pl_pair_item *y = found == 0 ? NULL : &s->side[1]->items[found - 1];
    return y != NULL && x->unmapped == y->unmapped ? y : NULL;
}

static bool names_hold(const pl_pair_state *s) {
    size_t n = 0, n_against = 0;
    for (uint32_t i = 0; i < s->side[0]->n_items; i++) {
        const pl_pair_item *found = namesake(s, i);
        if (found == NULL) continue;
        n++;
        n_against += disagree(s, i, (uint32_t)(found - s->side[1]->items));
    }
    return n < FEW || 2 * n_against <= n;
}

/* An input or output of both models, in the same position where that is known. */
static bool same_end(const pl_pair_state *s, uint32_t a, uint32_t b) {
    const pl_pair_item *x = &s->side[0]->items[a], *y = &s->side[1]->items[b];
    const uint32_t va = s->item_value[0][a], vb = s->item_value[1][b];
    if ((x->flags & y->flags & (PL_RECORD_INPUT | PL_RECORD_OUTPUT)) == 0) return false;
    if (va == PL_PAIR_NONE || vb == PL_PAIR_NONE) return pl_pair_fits(x, y);
    return pl_pair_fits(x, y) && s->graph[0].values[va].io == s->graph[1].values[vb].io;
}

static pl_status pair_item(pl_pair_state *s, uint32_t a, uint32_t b, bool hold, pl_err *err) {
    const pl_pair_item *x = &s->side[0]->items[a], *y = &s->side[1]->items[b];
    if (!hold && !same_hash(x, y) && !same_end(s, a, b)) {
        static const char why[] = "same name, different value: the two sides use unrelated names";
        PL_TRY(pl_pair_note(s, 0, a, err, why));
        return pl_pair_note(s, 1, b, err, why);
    }
    double confidence = hold || same_hash(x, y) ? 1 : 0.9;
    if (ops_differ(s, a, b)) confidence = 0.95;
    if (!pl_pair_fits(x, y)) confidence = 0.7;
    return pl_pair_add(s, a, b, PL_PAIR_NAME, confidence, "same name", err);
}

/* Values that were not recorded are anchors too. */
static void pair_unrecorded(pl_pair_state *s) {
    const pl_pair_graph *g = s->graph;
    for (size_t i = 0; i < g[0].by_path.n_entries; i++) {
        const pl_strmap_entry *e = &g[0].by_path.entries[i];
        const uintptr_t found = (uintptr_t)pl_strmap_get_n(&g[1].by_path, e->key, e->n_key);
        if (found == 0) continue;
        const uint32_t a = (uint32_t)((uintptr_t)e->value - 1), b = (uint32_t)(found - 1);
        if (((g[0].values[a].flags | g[1].values[b].flags) & PL_PG_CONST) != 0) continue;
        if (s->value_mate[0][a] != PL_PAIR_NONE || s->value_mate[1][b] != PL_PAIR_NONE) continue;
        if (g[0].values[a].first_item != PL_PAIR_NONE && g[1].values[b].first_item != PL_PAIR_NONE)
            continue; /* was tried before */
        s->value_mate[0][a] = b;
        s->value_mate[1][b] = a;
    }
}

pl_status pl_pair_by_name(pl_pair_state *s, pl_err *err) {
    const bool hold = names_hold(s);
    size_t n = 0;
    s->names_lie = !hold;
    for (uint32_t a = 0; a < s->side[0]->n_items; a++) {
        const pl_pair_item *found = namesake(s, a);
        if (found == NULL) continue;
        const uint32_t b = (uint32_t)(found - s->side[1]->items);
        if (!pl_pair_is_open(s, 0, a) || !pl_pair_is_open(s, 1, b)) continue;
        PL_TRY(pair_item(s, a, b, hold, err));
        n++;
    }
    if (hold && n > 0) pair_unrecorded(s);
    return PL_OK;
}
